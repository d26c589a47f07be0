"""The simulated runtime through its C API alone: no Model, no Python objects of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.npu.library import open_library
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
    """One context; every method is one call, and returns what the call returned."""

    def __init__(self, bundle: bytes, flags: int = 0, *, strict: bool = True) -> None:
        self.library = open_library("sim")
        self.handle = self.library.handle
        self.control = Control(self.library)
        self.control.set_caches(strict=strict)
        context = ffi.new("rknn_context *")
        self.data = ffi.from_buffer(bundle)
        self.status = lib.rkr_init(self.handle, context, self.data, len(bundle), flags, ffi.NULL)
        self.context = int(context[0])

    def __enter__(self) -> Api:
        assert self.status == 0, self.control.last_message
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
        self.executor = _Executor(function)
        self.executor_handle = ffi.new_handle(self.executor)
        pointer = ffi.cast(
            "rknn_sim_set_executor_fn *", self.library.symbol("rknn_sim_set_executor")
        )
        assert pointer(self.context, lib.rkr_sim_execute, self.executor_handle) == 0

    def bind(self, side: str, index: int = 0, view: str = "native", **changes: Any) -> Any:
        """Bind a new memory that is large enough; return it."""
        attr = self.good_attr(side, view, index)
        for field, value in changes.items():
            setattr(attr, field, value)
        size = 8 * max(attr.n_elems, attr.size, attr.size_with_stride)
        mem = self.create_mem(size)
        assert self.set_io_mem(mem, attr) == 0, self.control.last_message
        return mem


class _Executor:
    def __init__(self, function: Callable[[list[Any], list[Any]], int | None]) -> None:
        self.function = function
        self.kept: list[BaseException] = []

    def execute(self, inputs: list[Any], outputs: list[Any]) -> int:
        return self.function(inputs, outputs) or 0

    def keep(self, error: BaseException) -> None:
        self.kept.append(error)


def bytes_of(mem: Any) -> np.ndarray[Any, Any]:
    """The client's bytes of a memory, as a view."""
    return np.frombuffer(ffi.buffer(mem.virt_addr, mem.size), np.uint8)


def computed_bundle(
    inputs: Sequence[TensorAttr],
    outputs: Sequence[TensorAttr],
    soc: str,
    preprocessing: Sequence[Preprocessing | None] | None = None,
    **changes: Any,
) -> bytes:
    """A bundle that waits for an executor."""
    given = (None,) * len(inputs) if preprocessing is None else tuple(preprocessing)
    variants = (ShapeVariant(tuple(inputs), tuple(outputs)),)
    return bytes(Bundle(**{"soc": soc, "variants": variants, "preprocessing": given, **changes}))
