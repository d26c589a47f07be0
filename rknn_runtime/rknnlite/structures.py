"""The C API in ctypes, for programs that call the vendor's library through its Python package.

Types and functions are made of the declarations in ``csrc/decl``.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from rknn_runtime._ffi import ffi

_NUMBERS: dict[str, Any] = {
    "char": ctypes.c_char, "float": ctypes.c_float, "int": ctypes.c_int,
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16, "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "uintptr_t": ctypes.c_size_t,
    "_Bool": ctypes.c_bool,
}  # fmt: skip


def _converted(kind: Any) -> Any:
    """Return the ctypes type of a cffi type; pointers to structs are ``c_void_p``."""
    if kind.kind == "primitive":
        return _NUMBERS[kind.cname]
    if kind.kind == "enum":
        return ctypes.c_int
    if kind.kind == "array":
        return _converted(kind.item) * kind.length
    if kind.kind == "struct":
        return _structure(kind.cname)
    return ctypes.c_char_p if kind.cname == "char *" else ctypes.c_void_p


def _structure(name: str) -> Any:
    fields = [(field, _converted(info.type)) for field, info in ffi.typeof(name).fields]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


# The vendor's names.
RKNNInputOutputNum: Any = _structure("rknn_input_output_num")
RKNNTensorAttr: Any = _structure("rknn_tensor_attr")
RKNNInputRange: Any = _structure("rknn_input_range")
RKNNPerfDetail: Any = _structure("rknn_perf_detail")
RKNNPerfRun: Any = _structure("rknn_perf_run")
RKNNSDKVersion: Any = _structure("rknn_sdk_version")
RKNNInput: Any = _structure("rknn_input")
RKNNOutput: Any = _structure("rknn_output")
RKNNInitExtend: Any = _structure("rknn_init_extend")
RKNNRunExtend: Any = _structure("rknn_run_extend")
RKNNOutputExtend: Any = _structure("rknn_output_extend")

#: Functions of the C API that get their types, by the name behind ``rknn_``.
_FUNCTIONS = (
    "create_mem", "destroy", "destroy_mem", "dup_context", "init", "inputs_set", "mem_sync",
    "outputs_get", "outputs_release", "query", "register_custom_ops", "run", "set_core_mask",
    "set_input_shapes", "set_io_mem", "wait",
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable


def typed_library(path: str, is_ours: Callable[[int], str]) -> ctypes.CDLL:
    """Open a runtime library in ctypes, with the types of its functions.

    Its ``rknn_destroy`` raises RuntimeError if `is_ours` tells a reason against it.
    """
    library = ctypes.CDLL(path)
    for name in _FUNCTIONS:
        function = getattr(library, f"rknn_{name}", None)
        if function is not None:
            kind = ffi.typeof(f"rknn_{name}_fn *")
            function.argtypes = [_converted(each) for each in kind.args]
            function.restype = _converted(kind.result)
    destroy: Any = library.rknn_destroy

    def rknn_destroy(context: Any) -> int:
        reason = is_ours(int(getattr(context, "value", context)))
        if reason:
            raise RuntimeError(f"rknn_destroy: {reason}")
        status: int = destroy(context)
        return status

    library.rknn_destroy = rknn_destroy  # type: ignore[attr-defined]
    return library
