"""Facts about the outputs of a model: ranges, scales and grids."""

# A reader, ``read_...(outputs, input_size)``, tells whether outputs have one form of a head. It
# returns the form, or one line that says why they do not have it. `outputs` are in NCHW and in the
# model's order, `input_size` is checked. Keywords are the decoder's arguments of the same names and
#
# * `per_cell`: how many predictions each cell of the usual strides must have, None: any number;
# * `joined`: whether boxes and class scores must be one output, None: both are possible.

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from rknn_runtime._arrays import MAX_DIMENSION, SCALE_RANGE, as_int
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.tensor import TensorAttr

T = TypeVar("T")
Outputs = Sequence[TensorAttr]
#: Height and width of the model's input in pixels.
Size = tuple[int, int]

_FLOATS = (TensorType.FLOAT16, TensorType.FLOAT32)
_INTEGERS = {
    TensorType.INT8: (-128, 127),
    TensorType.UINT8: (0, 255),
    TensorType.INT16: (-(2**15), 2**15 - 1),
}
#: The strides of heads whose scales are all in one output.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32))


def describe(attrs: Outputs) -> str:
    """Return one line per output for error messages: name, shape, dtype."""
    return "\n".join(
        f"  {a.index}: {a.name!r} {list(a.shape)} {a.stored.dtype.name}" for a in attrs
    )


def checked_size(input_size: Size) -> Size:
    """Return height and width of a model's input, checked."""
    height, width = input_size
    return (
        as_int(height, "input height", 1, MAX_DIMENSION),
        as_int(width, "input width", 1, MAX_DIMENSION),
    )


def channels_first(attrs: Outputs) -> tuple[TensorAttr, ...]:
    """Return the outputs with logical shapes in NCHW.

    A tensor that is described in NHWC, such as ``model.outputs[0].nhwc``, is NHWC in memory, too.
    Outputs of rows lose the fourth dimension of 1 that files of older toolkits have.
    """
    for attr in attrs:
        if not isinstance(attr, TensorAttr):
            raise TypeError(
                "outputs: expected TensorAttr, as model.outputs has them, got "
                f"{type(attr).__name__}"
            )
    first = tuple(
        replace(attr, shape=attr.nchw_shape, layout=Layout.NCHW, native=attr.stored)
        if attr.is_nhwc
        else attr
        for attr in attrs
    )
    are_rows = len(first) > 1 and all(
        len(a.shape) == 4
        and a.shape[1] > a.shape[2] > a.shape[3] == 1
        and a.stored.layout not in (Layout.NC1HWC2, Layout.NHWC)
        for a in first
    )
    return tuple(replace(a, shape=a.shape[:3], native=a.stored) if are_rows else a for a in first)


def quantization_of(attr: TensorAttr) -> tuple[int, float]:
    """Return zero point and scale of an output; (0, 1.0) for a float one."""
    stored = attr.stored
    if stored.dtype in _FLOATS:
        return 0, 1.0
    if stored.dtype not in _INTEGERS:
        names = ", ".join(dtype.name for dtype in (*_INTEGERS, *_FLOATS))
        raise ValueError(f"output {attr.name!r}: expected {names}, got {stored.dtype.name}")
    zero_point, scale = attr.affine or (0, 0.0)
    if not SCALE_RANGE[0] <= scale <= SCALE_RANGE[1]:
        raise ValueError(
            f"output {attr.name!r}: expected a quantization of its {stored.dtype.name}, without "
            f"which its scores cannot be read, got qnt_type {stored.qnt_type.name}, scale "
            f"{stored.scale}, fl {stored.fl}"
        )
    lowest, highest = _INTEGERS[stored.dtype]
    if not lowest <= zero_point <= highest:
        raise ValueError(
            f"output {attr.name!r}: expected a zero point from {lowest} to {highest}, as "
            f"{stored.dtype.name} has them, got {zero_point}"
        )
    return zero_point, scale


def representable(attr: TensorAttr) -> tuple[float, float]:
    """Return the smallest and the largest value that an output can hold."""
    span = _INTEGERS.get(attr.stored.dtype)
    if span is None:
        return -math.inf, math.inf
    zero_point, scale = quantization_of(attr)
    return (span[0] - zero_point) * scale, (span[1] - zero_point) * scale


def looks_like_logits(attr: TensorAttr) -> bool:
    """Tell whether an integer output reaches values that no probability needs.

    A symmetric quantization of 0..1 reaches down to -1, or to -2 if the scale is a power of 2.
    """
    lowest, _ = representable(attr)
    return -math.inf < lowest < -2.5


def has_boxes_in_0_to_1(attr: TensorAttr, input_size: Size) -> bool:
    """Tell whether an integer output that holds boxes is too low for pixels of the input.

    Boxes in pixels reach all over the input. Mask coefficients, angles or class numbers in the
    same tensor as boxes in 0..1 stay below a quarter of the input's shorter side.
    """
    return representable(attr)[1] < min(input_size) / 4


def reaches_below_zero(attr: TensorAttr) -> bool:
    """Tell whether an integer output holds negative numbers, unlike the output of a sigmoid.

    A symmetric quantization of 0..1 reaches down to -1, or to -2 if the scale is a power of 2,
    without using those values.
    """
    lowest, highest = representable(attr)
    if math.isinf(highest):
        return False
    zero_point, scale = quantization_of(attr)
    if zero_point != 0:
        return lowest < -1.5 * scale
    return lowest < (-2.05 if attr.stored.qnt_type == QuantType.DFP else -1.05)


def any_below_zero(attrs: Iterable[TensorAttr]) -> bool:
    """Tell whether integer outputs of scores are logits: one of them holds negative numbers.

    A scale without objects, or one of two factors, may hold no number that is clearly below 0.
    """
    return any(reaches_below_zero(attr) for attr in attrs)


def fitting(form: T | str, outputs: Outputs) -> T:
    """Return a form that was read, or raise ValueError with the reason and the outputs."""
    if isinstance(form, str):
        raise ValueError(f"{form}, got\n{describe(outputs)}")
    return form


def grid_of(attr: TensorAttr) -> tuple[int, int, int]:
    """Return channels, height and width of an output over a grid of one image."""
    if len(attr.shape) != 4 or attr.shape[0] != 1:
        raise ValueError(
            f"output {attr.name!r}: expected [1, channels, height, width], got {list(attr.shape)}"
        )
    return attr.shape[1], attr.shape[2], attr.shape[3]


def by_scale(
    outputs: Outputs, input_size: Size, counts: Sequence[int] = ()
) -> list[list[TensorAttr]] | str:
    """Group outputs by their grid, finest grid first, each group in the given order.

    All groups have the same numbers of channels, and all grids divide the input into squares. A
    group has one of `counts` outputs; empty: any number.
    """
    groups: dict[tuple[int, ...], list[TensorAttr]] = {}
    for attr in outputs:
        shape = attr.shape
        if len(shape) != 4 or shape[0] != 1:
            return "expected outputs [1, channels, h, w]"
        groups.setdefault(shape[2:], []).append(attr)
    if not groups:
        return "expected outputs [1, channels, h, w]"
    count, rest = divmod(len(outputs), len(groups))
    if rest or (counts and count not in counts):
        listed = f", {' or '.join(map(str, counts))}" if counts else ""
        return f"expected as many outputs for each scale{listed}"
    ordered = [groups[grid] for grid in sorted(groups, key=lambda grid: -grid[0] * grid[1])]
    if any(len(group) != count for group in ordered):
        return "expected as many outputs for each scale"
    channels = [attr.shape[1] for attr in ordered[0]]
    if any([attr.shape[1] for attr in group] != channels for group in ordered):
        return "expected the same channels at each scale"
    height, width = input_size
    if any(
        height % rows or width % columns or height // rows != width // columns
        for rows, columns in groups
    ):
        return f"expected grids that divide the input, {height} x {width}, into squares"
    return ordered


def without(outputs: Outputs, taken: Iterable[TensorAttr]) -> list[TensorAttr]:
    """Return the outputs that are not in `taken`, in their order."""
    gone = {id(attr) for attr in taken}
    return [attr for attr in outputs if id(attr) not in gone]


class Beside(NamedTuple):
    """The boxes, and one further output of each scale."""

    #: Form of the boxes.
    boxes: Any
    #: The further outputs, finest first.
    others: list[TensorAttr]
    doubts: int


def beside_boxes(
    outputs: Outputs,
    scales: list[list[TensorAttr]],
    fits: Callable[[TensorAttr], bool],
    read: Callable[[Outputs], Any],
) -> Beside | None:
    """Find the output of each scale that is separate from the boxes.

    If several fit equally well, the last one is taken.
    """
    best: Beside | None = None
    last = len(scales[0]) - 1
    for i in range(last, -1, -1):
        if not fits(scales[0][i]):
            continue
        others = [scale[i] for scale in scales]
        form = read(without(outputs, others))
        if not isinstance(form, str):
            doubts = form.doubts + (i < last)
            if best is None or doubts < best.doubts:
                best = Beside(form, others, doubts)
    return best


def grids_of(input_size: Size, strides: Sequence[int], n: int, output: TensorAttr) -> list[Size]:
    """Return height and width of the grids that make up the N predictions of one output."""
    fits = all(
        stride > 0 and input_size[0] % stride == 0 and input_size[1] % stride == 0
        for stride in strides
    )
    grids = [(input_size[0] // s, input_size[1] // s) for s in strides] if fits else []
    if sum(height * width for height, width in grids) != n:
        raise ValueError(
            f"output {output.name!r} {list(output.shape)}: strides {list(strides)} over "
            f"{input_size[0]} x {input_size[1]} pixels do not give {n} predictions; give strides="
        )
    return grids


def cells_of_one(n: int, input_size: Size) -> tuple[tuple[int, ...], int] | None:
    """Return the strides whose cells make N predictions, and the predictions per cell.

    A cell makes one prediction, or three with anchors. None: no usual strides fit.
    """
    for strides in _STRIDES:
        if all(input_size[0] % s == 0 and input_size[1] % s == 0 for s in strides):
            cells = sum((input_size[0] // s) * (input_size[1] // s) for s in strides)
            if n in (cells, 3 * cells):
                return strides, n // cells
    return None


def strides_of(attr: TensorAttr, input_size: Size) -> tuple[float, float]:
    """Return the pixels between cells, down and across, of an output over a grid."""
    _, height, width = grid_of(attr)
    return input_size[0] / height, input_size[1] / width


class Predictions(NamedTuple):
    """How a head lies in one output."""

    channels: int
    n: int
    #: Whether predictions come before channels.
    transposed: bool


def predictions_of(output: TensorAttr, transposed: bool | None = None) -> Predictions | str:
    """Read ``[1, C, N]``, a rank 4 form of it, or ``[1, N, C]``.

    If `transposed` is None, it is the latter if there are more rows than columns.
    """
    shape = output.shape
    rank_ok = len(shape) == 3 or (len(shape) == 4 and output.layout == Layout.NCHW)
    if not rank_ok or shape[0] != 1:
        return (
            "expected [1, channels, N], [1, N, channels] or a rank 4 form of the first, "
            "of one image"
        )
    rows, columns = shape[1], math.prod(shape[2:])
    if transposed is None:
        transposed = len(shape) == 3 and rows > columns
    if transposed and len(shape) != 3:
        return "a transposed head has rank 3"
    return Predictions(columns, rows, True) if transposed else Predictions(rows, columns, False)
