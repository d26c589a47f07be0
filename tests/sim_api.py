"""The simulated runtime through its C API alone, without a Model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.info import ModelInfo, Preprocessing, ShapeVariant
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.sim import Control
from rknn_runtime.sim.bundle import Bundle
from rknn_runtime.tensor import TensorAttr

ATTR_FIELDS = (
    "index", "n_dims", "dims", "name", "n_elems", "size", "fmt", "type", "qnt_type", "fl", "zp",
    "scale", "w_stride", "size_with_stride", "pass_through", "h_stride",
)  # fmt: skip
#: Query of an attribute by side and view.
QUERIES = {
    ("in", "logical"): lib.RKNN_QUERY_INPUT_ATTR,
    ("out", "logical"): lib.RKNN_QUERY_OUTPUT_ATTR,
    ("in", "native"): lib.RKNN_QUERY_NATIVE_INPUT_ATTR,
    ("out", "native"): lib.RKNN_QUERY_NATIVE_OUTPUT_ATTR,
    ("in", "nhwc"): lib.RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR,
    ("out", "nhwc"): lib.RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR,
    ("in", "current"): lib.RKNN_QUERY_CURRENT_INPUT_ATTR,
    ("out", "current"): lib.RKNN_QUERY_CURRENT_OUTPUT_ATTR,
    ("in", "current native"): lib.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR,
    ("out", "current native"): lib.RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR,
}


def attr_fields(attr: Any) -> dict[str, Any]:
    """The fields of a ``rknn_tensor_attr``, dimensions cut to ``n_dims``."""
    fields = {name: getattr(attr, name) for name in ATTR_FIELDS}
    fields["dims"] = list(attr.dims[0 : attr.n_dims])
    fields["name"] = ffi.string(attr.name).decode()
    fields["scale"] = float(attr.scale)
    return fields


class Api:
    """One context; every method is one call, and returns its result."""

    def __init__(
        self, bundle: bytes, flags: int = 0, *, strict: bool = True, library: str = "sim"
    ) -> None:
        self.library = open_library(library)
        self.handle = self.library.handle
        if library == "sim":
            self.control = Control(self.library)
            self.control.set_caches(strict=strict)
        context = ffi.new("rknn_context *")
        self.data = ffi.from_buffer(bundle)
        self.status = lib.rkr_init(self.handle, context, self.data, len(bundle), flags, ffi.NULL)
        self.context = int(context[0])

    def __enter__(self) -> Api:
        assert self.status == 0, self.library.last_message()
        return self

    def __exit__(self, *_: object) -> None:
        if self.context:
            self.destroy()

    def destroy(self) -> int:
        context, self.context = self.context, 0
        return int(lib.rkr_destroy(self.handle, context))

    def query(self, command: int, info: Any, size: int | None = None) -> int:
        size = ffi.sizeof(ffi.typeof(info).item) if size is None else size
        return int(lib.rkr_query(self.handle, self.context, command, info, size))

    def attr(self, side: str, view: str, index: int = 0) -> tuple[int, Any]:
        """Status and attribute."""
        attr = ffi.new("rknn_tensor_attr *", {"index": index})
        return self.query(QUERIES[side, view], attr), attr

    def good_attr(self, side: str, view: str, index: int = 0) -> Any:
        status, attr = self.attr(side, view, index)
        assert status == 0
        return attr

    def create_mem(self, size: int) -> Any:
        """A memory, or NULL."""
        out = ffi.new("rknn_tensor_mem **")
        lib.rkr_create_mem(self.handle, self.context, size, out)
        return out[0]

    def destroy_mem(self, mem: Any) -> int:
        return int(lib.rkr_destroy_mem(self.handle, self.context, mem))

    def set_io_mem(self, mem: Any, attr: Any) -> int:
        return int(lib.rkr_set_io_mem(self.handle, self.context, mem, attr))

    def sync(self, mem: Any, mode: int) -> int:
        return int(lib.rkr_mem_sync(self.handle, self.context, mem, mode))

    def run(self) -> int:
        return int(lib.rkr_run(self.handle, self.context, ffi.NULL))

    def inputs_set(self, inputs: list[dict[str, Any]], count: int | None = None) -> int:
        array = ffi.new("rknn_input[]", inputs)
        count = len(inputs) if count is None else count
        return int(lib.rkr_inputs_set(self.handle, self.context, count, array))

    def outputs_get(self, outputs: Any) -> int:
        return int(lib.rkr_outputs_get(self.handle, self.context, len(outputs), outputs, ffi.NULL))

    def outputs_release(self, outputs: Any) -> int:
        return int(lib.rkr_outputs_release(self.handle, self.context, len(outputs), outputs))

    def set_executor(self, function: Callable[[list[Any], list[Any]], int | None]) -> None:
        """Let a Python function compute: it gets arrays and fills arrays."""
        attrs = []
        for side, count in zip(("in", "out"), self.counts()):
            attrs.append([self.good_attr(side, "native", index) for index in range(count)])
        self.executor = executor(function, *attrs)
        set_executor(self.library, self.context, self.executor)

    def counts(self) -> tuple[int, int]:
        """How many inputs and outputs there are."""
        found = ffi.new("rknn_input_output_num *")
        assert self.query(lib.RKNN_QUERY_IN_OUT_NUM, found) == 0
        return found.n_input, found.n_output

    def bind(self, side: str, index: int = 0, view: str = "native", **changes: Any) -> Any:
        """Bind a new memory that is large enough; return it."""
        attr = self.good_attr(side, view, index)
        for field, value in changes.items():
            setattr(attr, field, value)
        size = 8 * max(attr.n_elems, attr.size, attr.size_with_stride)
        mem = self.create_mem(size)
        assert self.set_io_mem(mem, attr) == 0, self.control.last_message
        return mem


def set_executor(library: Library, context: int, function: Any) -> None:
    """Let a C function compute a bundle; it must outlive the context."""
    address = library.symbol("rknn_sim_set_executor")
    assert ffi.cast("rknn_sim_set_executor_fn *", address)(context, function, ffi.NULL) == 0


def executor(
    function: Callable[[list[Any], list[Any]], int | None], inputs: list[Any], outputs: list[Any]
) -> Any:
    """A C function for `set_executor`: ours sees quantized and float16 tensors as float32."""

    @ffi.callback("rknn_sim_executor_fn", error=lib.RKNN_ERR_FAIL)
    def execute(_: Any, n_inputs: int, given: Any, n_outputs: int, taken: Any) -> int:
        seen = [_real(_array(given[i]), inputs[i]) for i in range(n_inputs)]
        arrays = [_array(taken[i]) for i in range(n_outputs)]
        made = [_real(array, outputs[i]) for i, array in enumerate(arrays)]
        status = function(seen, made) or 0
        for array, real, attr in zip(arrays, made, outputs):
            array[...] = _stored(real, attr, array.dtype)
        return status

    return execute


def _array(buffer: Any) -> np.ndarray[Any, Any]:
    """The values of a tensor, as a view."""
    dtype = TensorType(buffer.type).numpy
    data = ffi.buffer(buffer.data, buffer.n_elems * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(list(buffer.dims[0 : buffer.n_dims]))


def _real(array: np.ndarray[Any, Any], attr: Any) -> np.ndarray[Any, Any]:
    """A copy: float32, unless the tensor has plain integers."""
    if attr.type > TensorType.UINT16:
        return array.copy()
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    zero_point, scale = _affine(attr)
    return (array.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)


def _stored(real: np.ndarray[Any, Any], attr: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if attr.type > TensorType.UINT16 or dtype.kind == "f":
        return real.astype(dtype)
    zero_point, scale = _affine(attr)
    limits = np.iinfo(dtype)
    q = np.rint(real / np.float32(scale)).astype(np.float64) + zero_point
    return np.clip(q, limits.min, limits.max).astype(dtype)


def _affine(attr: Any) -> tuple[int, float]:
    if attr.qnt_type == lib.RKNN_TENSOR_QNT_DFP:
        return 0, 2.0**-attr.fl
    is_affine = attr.qnt_type == lib.RKNN_TENSOR_QNT_AFFINE_ASYMMETRIC and attr.scale > 0
    return (attr.zp, attr.scale) if is_affine else (0, 1.0)


def bytes_of(mem: Any) -> np.ndarray[Any, Any]:
    """The client's bytes of a memory, as a view."""
    return np.frombuffer(ffi.buffer(mem.virt_addr, mem.size), np.uint8)


def bundle_of(info: ModelInfo) -> bytes:
    """A bundle that answers queries as the runtime does of a ``.rknn`` file."""
    return bytes(
        Bundle(
            soc=info.soc,
            variants=info.variants or (ShapeVariant(info.inputs, info.outputs),),
            preprocessing=info.preprocessing,
            mini=info.container == "mini",
            runtime_version=info.runtime_version,
            batch=info.batch,
            weight_bytes=info.weight_bytes,
            internal_bytes=info.internal_bytes,
            command_bytes=info.command_bytes,
            custom_string=info.custom_string,
        )
    )


def computed_bundle(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    soc: str,
    preprocessing: Sequence[Preprocessing | None] | None = None,
    **changes: Any,
) -> bytes:
    """A bundle without records: it answers queries, and runs when it has an executor."""
    given = (None,) * len(inputs) if preprocessing is None else tuple(preprocessing)
    variants = (ShapeVariant(tuple(inputs), tuple(outputs)),)
    return bytes(Bundle(**{"soc": soc, "variants": variants, "preprocessing": given, **changes}))
