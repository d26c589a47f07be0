"""What ``rknn_query`` answers, and the choice of input shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime._ffi import decoded, ffi, lib
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.errors import InvalidParameterError, RknnError
from rknn_runtime.npu.context import Context
from rknn_runtime.tensor import TensorAttr

_QUANTIZED = (TensorType.INT8, TensorType.UINT8, TensorType.INT16)
#: One shape per input.
Shapes = tuple[tuple[int, ...], ...]
#: More tensors than any network has.
MAX_TENSORS = 1024


class SdkVersion(NamedTuple):
    """Versions of the software under a model."""

    #: Of the runtime library, with commit and date, as it reports them.
    api: str
    #: Of the NPU driver in the kernel.
    driver: str


class MemorySize(NamedTuple):
    """Bytes of NPU memory that a model takes."""

    weight_bytes: int
    #: Scratch memory between the layers.
    internal_bytes: int
    #: All DMA memory of the context; 0 if the runtime reports none.
    dma_allocated_bytes: int
    sram_bytes: int
    sram_free_bytes: int


class NodePlace(NamedTuple):
    """Where the open runtime runs a node of a model."""

    #: The operator, such as ``"ConvRelu"``.
    op: str
    #: In the exported graph.
    name: str
    on_npu: bool
    #: Of the NPU; 0 for a node of the CPU.
    tasks: int
    #: Why the CPU runs it; empty for a node of the NPU.
    reason: str
    #: Whether it moves values without computing, like a Reshape.
    only_moves: bool


class QueriedTensor(NamedTuple):
    """An input or output: its attributes, and the structs that say the same to the runtime."""

    attr: TensorAttr
    #: ``rknn_tensor_attr *`` of the logical and of the native query.
    logical: Any
    native: Any


def inputs_and_outputs(
    context: Context, *, current: bool = False
) -> tuple[tuple[QueriedTensor, ...], tuple[QueriedTensor, ...]]:
    """Ask for every attribute of every input and output.

    `current`: of a dynamic model in the shapes that were chosen last, not in its biggest.
    """
    count = answer(context, "IN_OUT_NUM", "rknn_input_output_num *")
    if not (count.n_input <= MAX_TENSORS and 1 <= count.n_output <= MAX_TENSORS):
        raise RknnError(f"the runtime reports {count.n_input} inputs and {count.n_output} outputs")
    inputs = tuple(_tensor(context, "INPUT", index, current) for index in range(count.n_input))
    outputs = tuple(_tensor(context, "OUTPUT", index, current) for index in range(count.n_output))
    return inputs, outputs


def answer(context: Context, command: str, struct: str) -> Any:
    """Ask a query that fills a struct, and return that."""
    info = ffi.new(struct)
    status = context.query(getattr(lib, f"RKNN_QUERY_{command}"), info, ffi.sizeof(info[0]))
    context.check_status(status, f"rknn_query({command})")
    return info


def is_mini(context: Context) -> bool:
    """Tell whether the runtime is librknnmrt, which has no core masks."""
    if not (context.library.is_simulated or context.library.is_open):
        return not context.library.has("rknn_set_core_mask")
    info = ffi.new("char[4096]")  # librknnrt does not answer this query
    status = context.query(lib.RKNN_QUERY_DEVICE_MEM_INFO, info, len(info))
    if status != lib.RKNN_ERR_FAIL:
        context.check_status(status, "rknn_query(DEVICE_MEM_INFO)")
    return status == 0


def sdk_version(context: Context) -> SdkVersion:
    """Ask for the versions."""
    info = answer(context, "SDK_VERSION", "rknn_sdk_version *")
    return SdkVersion(decoded(info.api_version), decoded(info.drv_version))


def memory_size(context: Context) -> MemorySize:
    """Ask for the memory need."""
    info = answer(context, "MEM_SIZE", "rknn_mem_size *")
    return MemorySize(
        info.total_weight_size,
        info.total_internal_size,
        info.total_dma_allocated_size,
        info.total_sram_size,
        info.free_sram_size,
    )


def placement(context: Context) -> tuple[NodePlace, ...]:
    """Ask the open runtime where each node runs, but for the ends of the graph, which do not."""
    ask = ffi.cast("rknn_open_place_fn *", context.library.symbol("rknn_open_place"))
    node = ffi.new("rknn_open_node *")
    places: list[NodePlace] = []
    with context.lock:
        handle = context.opened()
        for index in count():
            if ask(handle, index, node) != lib.RKNN_SUCC:
                break
            if node.place != lib.RKNN_OPEN_NOTHING:
                on_npu = node.place == lib.RKNN_OPEN_NPU
                op, name, reason = map(decoded, (node.op, node.name, node.reason))
                moves = bool(node.only_moves)
                places.append(NodePlace(op, name, on_npu, node.tasks, reason, moves))
    return tuple(places)


def custom_string(context: Context) -> str:
    """Ask for the text that was given to the toolkit."""
    info = answer(context, "CUSTOM_STRING", "rknn_custom_string *")  # owns its array
    return decoded(info.string)


def _tensor(context: Context, direction: str, index: int, current: bool) -> QueriedTensor:
    prefix = "CURRENT_" if current else ""
    logical = _attr(context, f"{prefix}{direction}_ATTR", index)
    native = _attr(context, f"{prefix}NATIVE_{direction}_ATTR", index)
    nhwc = None
    if not current:
        # Dynamic models have no NHWC outputs, and the oldest runtimes no NHWC queries.
        with suppress(InvalidParameterError):
            nhwc = _tensor_attr(_attr(context, f"NATIVE_NHWC_{direction}_ATTR", index))
    attr = _tensor_attr(logical, _checked(_tensor_attr(native)), nhwc)
    return QueriedTensor(_repaired(attr), logical, native)


def _attr(context: Context, command: str, index: int) -> Any:
    """Return the ``rknn_tensor_attr *``, also from runtimes that know it without h_stride."""
    info = ffi.new("rknn_tensor_attr *")
    number = getattr(lib, f"RKNN_QUERY_{command}")
    for size in (ffi.sizeof(info[0]), lib.RKR_TENSOR_ATTR_OLD_SIZE):
        info.index = index
        status = context.query(number, info, size)
        if status != lib.RKNN_ERR_PARAM_INVALID:
            break
    context.check_status(status, f"rknn_query({command}, index {index})")
    return info


def _tensor_attr(
    info: Any, native: TensorAttr | None = None, nhwc: TensorAttr | None = None
) -> TensorAttr:
    """Convert a struct, and check all of it."""
    name = decoded(info.name)
    if info.n_dims > lib.RKNN_MAX_DIMS:
        raise RknnError(f"the runtime reports {info.n_dims} dimensions for tensor {name!r}")
    try:
        # Through int, because cffi gives values unknown to it as numbers.
        layout = Layout(int(info.fmt))
        dtype = TensorType(int(info.type))
        qnt_type = QuantType(int(info.qnt_type))
    except ValueError as error:
        raise RknnError(
            f"the runtime describes tensor {name!r} in unknown terms: {error}"
        ) from None
    shape = tuple(info.dims[0 : info.n_dims])
    if 0 in shape:
        raise RknnError(f"the runtime reports shape {shape} for tensor {name!r}")
    return TensorAttr(
        index=info.index,
        name=name,
        shape=shape,
        layout=layout,
        dtype=dtype,
        qnt_type=qnt_type,
        zero_point=info.zp,
        scale=info.scale,
        fl=info.fl,
        n_elems=info.n_elems,
        size=info.size,
        size_with_stride=info.size_with_stride,
        w_stride=info.w_stride,
        h_stride=info.h_stride,
        native=native,
        nhwc=nhwc,
    )


def _checked(native: TensorAttr) -> TensorAttr:
    """Refuse a native attribute that no memory can be read by."""
    problem = ""
    if not 0 <= native.scale < math.inf:  # also NaN
        problem = f"scale {native.scale}"
    elif native.dtype in _QUANTIZED:
        limits = np.iinfo(native.dtype.numpy)
        if not limits.min <= native.zero_point <= limits.max:
            problem = f"zero point {native.zero_point} of {native.dtype.name}"
    if native.is_nhwc:
        _, height, width, _ = native.shape
        if 0 < native.w_stride < width or 0 < native.h_stride < height:
            problem = f"strides {native.h_stride} and {native.w_stride} of {height} x {width}"
    if problem:
        raise RknnError(f"the runtime reports {problem} for tensor {native.name!r}")
    return native


def _repaired(attr: TensorAttr) -> TensorAttr:
    """Correct the logical attribute of a runtime that misreads its own element type.

    librknnrt 1.5.2 describes int16 tensors as INT4 with a negative size; its native attributes are
    right.
    """
    native = attr.stored
    if attr.size == attr.n_elems * _item_bytes(attr.dtype):
        return attr
    size = attr.n_elems * _item_bytes(native.dtype)
    same = attr.layout == native.layout
    return replace(
        attr,
        dtype=native.dtype,
        size=size,
        size_with_stride=native.size_with_stride if same else size,
    )


def _item_bytes(dtype: TensorType) -> int:
    """Bytes of one element; 0 where NumPy has no such element."""
    try:
        return dtype.numpy.itemsize
    except TypeError:
        return 0


#: Answers to the query of shapes for static models, by librknnmrt, old and newer librknnrt.
_NOT_DYNAMIC = (lib.RKNN_ERR_FAIL, lib.RKNN_ERR_PARAM_INVALID, lib.RKNN_ERR_MODEL_INVALID)


def is_dynamic(context: Context) -> bool:
    """Ask whether the model was built for several input shapes."""
    info = ffi.new("rknn_input_range *")
    status = context.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, info, ffi.sizeof(info[0]))
    if status not in _NOT_DYNAMIC:
        context.check_status(status, "rknn_query(INPUT_DYNAMIC_RANGE)")
    return status not in _NOT_DYNAMIC


def dynamic_shapes(context: Context, n_inputs: int) -> tuple[Shapes, ...]:
    """Ask for the shapes that a dynamic model was built for, biggest first."""
    columns = []
    for index in range(n_inputs):
        info = ffi.new("rknn_input_range *", {"index": index})
        status = context.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, info, ffi.sizeof(info[0]))
        context.check_status(status, f"rknn_query(INPUT_DYNAMIC_RANGE, index {index})")
        if info.n_dims > lib.RKNN_MAX_DIMS or info.shape_number > len(info.dyn_range):
            raise RknnError(
                f"the runtime reports {info.shape_number} shapes of {info.n_dims} dimensions for "
                f"input {index}"
            )
        rows = info.dyn_range[0 : info.shape_number]
        columns.append([tuple(row[0 : info.n_dims]) for row in rows])
    if len({len(column) for column in columns}) > 1:
        raise RknnError(f"the runtime reports {[len(c) for c in columns]} shapes for the inputs")
    return tuple(zip(*columns))


def checked_shapes(given: object, known: Sequence[Shapes]) -> Shapes:
    """Check that the model was built for the caller's shapes, and return them."""
    expected = f"expected a shape per input, such as {list(known[0]) if known else []}"
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError(f"shapes: {expected}, got {given!r}")
    shapes = []
    for shape in given:
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
            raise TypeError(f"shapes: {expected}, got {given!r}")
        shapes.append(tuple(as_int(size, "shapes", 0, 2**32 - 1) for size in shape))
    if tuple(shapes) not in known:
        listed = "; ".join(", ".join(map(str, row)) for row in known) or "none: it is static"
        raise ValueError(
            f"shapes: expected what the model was built for ({listed}), got "
            f"{', '.join(map(str, shapes))}"
        )
    return tuple(shapes)


def choose_shapes(
    context: Context, inputs: Sequence[QueriedTensor], shapes: Shapes | None = None
) -> None:
    """Choose the input shapes of a dynamic model.

    Without a choice librknnrt ends the process when memory is bound or the model is run.
    """
    attrs = ffi.new("rknn_tensor_attr[]", [tensor.logical[0] for tensor in inputs])
    name = "the biggest"
    if shapes is not None:
        name = ", ".join(map(str, shapes))
        for attr, shape in zip(attrs, shapes):
            attr.n_dims = len(shape)
            attr.dims[0 : len(shape)] = shape
    with context.lock:
        status = lib.rkr_set_input_shapes(context.handle, context.opened(), len(attrs), attrs)
        context.check_status(status, f"rknn_set_input_shapes({name})")


def without_groups(tensor: QueriedTensor) -> QueriedTensor:
    """Describe an output as NCHW in memory, into which librknnrt unpacks it.

    In dynamic models 1.5.2 writes the channel groups that it reports, unlike 1.6.0.
    """
    attr = tensor.attr
    if not attr.is_packed:
        return tensor
    info = ffi.new("rknn_tensor_attr *", tensor.logical[0])
    info.type = tensor.native.type
    plain = replace(attr, dtype=attr.stored.dtype, native=None, nhwc=None)
    return QueriedTensor(replace(attr, native=plain), tensor.logical, info)
