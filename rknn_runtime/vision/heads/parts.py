"""Outputs that hold one kind of number for each prediction, as grids or as rows."""

# A grid is ``[1, per_cell * channels, h, w]``, as a convolution gives it; rows are
# ``[1, h * w * per_cell, channels]`` or ``[h * w * per_cell, channels]``, of one scale or of all
# scales, one after the other. In memory both are channels of cells.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.frame import OutputViews
from rknn_runtime.vision.heads.outputs import Outputs, Size

#: Pixels between the cells of a scale.
_STRIDES = (4, 8, 16, 32, 64, 128)
_MOST_PER_CELL = 3


class Part(NamedTuple):
    """One kind of number, of the predictions of one scale."""

    attr: TensorAttr
    height: int
    width: int
    #: Pixels between cells; a grid may reach beyond the input.
    stride: int
    #: Predictions of each cell.
    per_cell: int
    #: Numbers of each prediction.
    channels: int
    #: The first of its rows in the output; None: the output is a grid.
    first_row: int | None

    def describe(self, view: Any, binding: OutputViews) -> None:
        """Describe all numbers of each cell, prediction after prediction."""
        n = self.per_cell * self.channels
        if self.first_row is None:
            binding.add_grid(view, n, self.height, self.width)
        else:
            cells, offset = self.height * self.width, self.first_row * self.channels
            binding.add(view, n, self.height, self.width, cells, n, offset)


def cells_of(input_size: Size, stride: int) -> Size:
    """Return the rows and columns of cells that cover an input."""
    return -(-input_size[0] // stride), -(-input_size[1] // stride)


def parts_by_scale(
    outputs: Outputs, input_size: Size, channels: Sequence[int], at_least: int = 2
) -> list[list[Part]] | str:
    """Read outputs of each scale, finest first, in the order of `channels`, of one prediction each.

    Those of a scale may come in any order, but equal ones in that of `channels`.
    """
    groups: dict[tuple[int, ...], list[TensorAttr]] = {}
    for attr in outputs:
        shape = attr.shape
        if len(shape) == 4 and shape[0] == 1:
            groups.setdefault(shape[2:], []).append(attr)
        elif len(shape) == 2 or (len(shape) == 3 and shape[0] == 1):
            groups.setdefault(shape[-2:-1], []).append(attr)
        else:
            return "expected outputs of one image"
    if len({len(place) for place in groups}) != 1:
        return "expected grids or rows"
    is_grid = len(next(iter(groups))) == 2
    ordered = sorted(groups, key=lambda place: -place[0] * place[-1])
    for per_cell in range(1, _MOST_PER_CELL + 1):
        scales, last = [], 0
        for each in ordered:
            stride = _next_stride(each, per_cell, input_size, last)
            if stride is None:
                break
            last = stride
            height, width = cells_of(input_size, stride)
            wanted = [per_cell * n for n in channels] if is_grid else channels
            group = _in_order(groups[each], [channels_of(a) for a in groups[each]], wanted)
            if group is None:
                break
            first = None if is_grid else 0
            scales.append(
                [
                    Part(a, height, width, stride, per_cell, n, first)
                    for a, n in zip(group, channels)
                ]
            )
        if len(scales) == len(ordered) >= at_least:
            return scales
    listed = ", ".join(map(str, channels))
    return f"expected several scales with {listed} numbers of each prediction in separate outputs"


def channels_of(attr: TensorAttr) -> int:
    """Return the channels of a grid, or the columns of rows."""
    return attr.shape[1] if len(attr.shape) == 4 else attr.shape[-1]


def _next_stride(place: tuple[int, ...], per_cell: int, input_size: Size, last: int) -> int | None:
    """Return the stride of a grid or of rows that follows a finer one."""
    for stride in _STRIDES:
        rows, columns = cells = cells_of(input_size, stride)
        is_next = stride > last and place == (rows * columns * per_cell,)
        if place == cells or is_next:
            return stride
    return None


def _in_order(
    attrs: Sequence[TensorAttr], found: Sequence[int], wanted: Sequence[int]
) -> list[TensorAttr] | None:
    """Return the outputs that have the wanted channels, each once."""
    if sorted(found) != sorted(wanted):
        return None
    left = list(zip(found, attrs))
    ordered = []
    for n in wanted:
        i = next(i for i, (channels, _) in enumerate(left) if channels == n)
        ordered.append(left.pop(i)[1])
    return ordered


def parts_of_all(
    outputs: Outputs, input_size: Size, channels: Sequence[int], per_cell: Sequence[int]
) -> list[list[Part]] | str:
    """Read outputs of the rows of all scales, the strides of which start with 8 and double.

    `channels` are the numbers of one prediction in each output, `per_cell` the predictions of a
    cell of each scale.
    """
    strides = [8 << i for i in range(len(per_cell))]
    grids = [cells_of(input_size, stride) for stride in strides]
    counts = [n * rows * columns for n, (rows, columns) in zip(per_cell, grids)]
    rows = [a.shape[-2:-1] if len(a.shape) == 2 or a.shape[:1] == (1,) else () for a in outputs]
    if any(len(attr.shape) not in (2, 3) for attr in outputs) or set(rows) != {(sum(counts),)}:
        return f"expected rows of {sum(counts)} predictions"
    ordered = _in_order(outputs, [channels_of(attr) for attr in outputs], channels)
    if ordered is None:
        return f"expected outputs of {', '.join(map(str, channels))} columns"
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    return [
        [Part(attr, *grid, stride, each, n, first) for attr, n in zip(ordered, channels)]
        for grid, stride, each, first in zip(grids, strides, per_cell, firsts)
    ]
