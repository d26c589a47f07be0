"""Models that were built for several input shapes: which, and the choice of one.

Only librknnrt runs such models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rknn_runtime._arrays import as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.query import QueriedTensor

__all__ = ["checked_shapes", "choose_shapes", "dynamic_shapes", "is_dynamic", "without_groups"]

if TYPE_CHECKING:
    #: One shape per input.
    Shapes = tuple[tuple[int, ...], ...]

#: To the query of shapes: of static models by librknnmrt, old and newer librknnrt.
_NOT_DYNAMIC = (lib.RKNN_ERR_FAIL, lib.RKNN_ERR_PARAM_INVALID, lib.RKNN_ERR_MODEL_INVALID)


def is_dynamic(context: Context) -> bool:
    """Ask whether the model was built for several input shapes.

    Raises:
        RknnStatusError: The runtime refused, and not as it does for static models.
    """
    info = ffi.new("rknn_input_range *")
    status = context.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, info, ffi.sizeof(info[0]))
    if status not in _NOT_DYNAMIC:
        context.check_status(status, "rknn_query(INPUT_DYNAMIC_RANGE)")
    return status not in _NOT_DYNAMIC


def dynamic_shapes(context: Context, n_inputs: int) -> tuple[Shapes, ...]:
    """Ask for the shapes that a dynamic model was built for, biggest first.

    Raises:
        RknnError: The runtime refuses, or answers with nonsense.
    """
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
    """Find the shapes that a caller gave among those of the model.

    Raises:
        TypeError: No sequence of sequences of integers.
        ValueError: The model was not built for them; the message lists what it was built for.
    """
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

    Args:
        context: Of the model.
        inputs: Its inputs.
        shapes: One of `dynamic_shapes`. None: those of ``inputs``, the biggest.

    Raises:
        RknnStatusError: The runtime refused.
        UnavailableError: The runtime cannot choose shapes.
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
    """Describe an output as NCHW in memory, too: librknnrt unpacks what it is to write so.

    Of dynamic models 1.5.2 writes the channel groups that it reports, 1.6.0 fails to.
    """
    attr = tensor.attr
    if not attr.is_packed:
        return tensor
    info = ffi.new("rknn_tensor_attr *", tensor.logical[0])
    info.type = tensor.native.type
    plain = replace(attr, dtype=attr.stored.dtype, native=None, nhwc=None)
    return QueriedTensor(replace(attr, native=plain), tensor.logical, info)
