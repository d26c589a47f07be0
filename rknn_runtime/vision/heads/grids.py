"""What readers of heads share: outputs sorted by scale, grids, rows of predictions.

A reader, ``read_...(outputs, input_size)``, tells what a model's outputs are in one form of a
head. It returns the form, or one line that says why they do not have it: no exception is
needed to ask. `outputs` are in NCHW and in the model's order, `input_size` is
checked. Keywords are the decoder's arguments of the same names; where the name is not one of
these,

* `per_cell` is how many predictions each cell of the usual strides has to have, None: any
  number;
* `joined` is whether boxes and class scores have to be one output, None: both will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.views import Outputs, Size, describe

__all__ = [
    "Beside",
    "Predictions",
    "beside_boxes",
    "by_scale",
    "cells_of_one",
    "fitting",
    "grid_of",
    "grids_of",
    "predictions_of",
    "strides_of",
    "without",
]

T = TypeVar("T")


def fitting(form: T | str, outputs: Outputs) -> T:
    """Return a form that was read.

    Raises:
        ValueError: The outputs do not have the form; the message says why.
    """
    if isinstance(form, str):
        raise ValueError(f"{form}, got\n{describe(outputs)}")
    return form


def grid_of(attr: TensorAttr) -> tuple[int, int, int]:
    """Return channels, height and width of an output over a grid.

    Raises:
        ValueError: The output is not a grid of one image.
    """
    if len(attr.shape) != 4 or attr.shape[0] != 1:
        raise ValueError(
            f"output {attr.name!r}: expected [1, channels, height, width], got {list(attr.shape)}"
        )
    return attr.shape[1], attr.shape[2], attr.shape[3]


_NO_GRIDS = "expected outputs [1, channels, h, w]"


def by_scale(
    outputs: Outputs, input_size: Size, counts: Sequence[int] = ()
) -> list[list[TensorAttr]] | str:
    """Group outputs by their grid, finest grid first, each group in the given order.

    All groups have the same numbers of channels, and all grids divide the input.

    Args:
        outputs: In NCHW.
        input_size: Height and width of the model's input in pixels.
        counts: How many outputs a group may have; empty: any number.
    """
    groups: dict[tuple[int, ...], list[TensorAttr]] = {}
    for attr in outputs:
        shape = attr.shape
        if len(shape) != 4 or shape[0] != 1:
            return _NO_GRIDS
        groups.setdefault(shape[2:], []).append(attr)
    if not groups:
        return _NO_GRIDS
    count, rest = divmod(len(outputs), len(groups))
    if rest or (counts and count not in counts):
        return f"expected as many outputs for each scale{_listed(counts)}"
    ordered = [groups[grid] for grid in sorted(groups, key=_by_falling_cells)]
    if any(len(group) != count for group in ordered):
        return "expected as many outputs for each scale"
    channels = [attr.shape[1] for attr in ordered[0]]
    if any([attr.shape[1] for attr in group] != channels for group in ordered):
        return "expected the same channels at each scale"
    height, width = input_size
    if any(height % rows or width % columns for rows, columns in groups):
        return f"expected grids that divide the input, {height} x {width} (height x width)"
    return ordered


def _by_falling_cells(grid: tuple[int, ...]) -> int:
    return -grid[0] * grid[1]


def _listed(counts: Sequence[int]) -> str:
    return f", {' or '.join(map(str, counts))}" if counts else ""


def without(outputs: Outputs, taken: Iterable[TensorAttr]) -> list[TensorAttr]:
    """Return the outputs that were not used, in their order."""
    gone = {id(attr) for attr in taken}
    return [attr for attr in outputs if id(attr) not in gone]


class Beside(NamedTuple):
    """The boxes, and one further output of each scale."""

    #: What reads the boxes.
    boxes: Any
    #: The others, finest first.
    others: list[TensorAttr]
    doubts: int


def beside_boxes(
    outputs: Outputs,
    scales: list[list[TensorAttr]],
    fits: Callable[[TensorAttr], bool],
    read: Callable[[Outputs], Any],
) -> Beside | None:
    """Find the output of each scale that does not belong to the boxes.

    Where several fit equally well, the last one is taken.

    Args:
        outputs: All of the scales.
        scales: The same, as `by_scale` has them.
        fits: Whether an output can be it.
        read: Reads the boxes in what is left.
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
    """Return height and width of the grids that make up the N predictions of one output.

    Raises:
        ValueError: The strides do not divide the input, or give another number of cells.
    """
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


#: The strides that heads in one output come with.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32))


def cells_of_one(n: int, input_size: Size) -> tuple[tuple[int, ...], int] | None:
    """Return the strides whose cells make N predictions, and how many each cell makes.

    One prediction, or three where there are anchors. None: no usual strides make so many.
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

    Args:
        output: Logical attribute of the output.
        transposed: Whether it is the last. None: when there are more rows than columns.
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
