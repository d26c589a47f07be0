"""Outputs of one head sorted by scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.views import describe

__all__ = [
    "by_scale",
    "cells_of_one",
    "channels_and_predictions",
    "grid_of",
    "grids_of",
    "scales_of_one",
    "strides_of",
]


def grid_of(attr: TensorAttr) -> tuple[int, int, int]:
    """Return channels, height and width of an output over a grid.

    Raises:
        ValueError: It is no grid of one picture.
    """
    if len(attr.shape) != 4 or attr.shape[0] != 1:
        raise ValueError(
            f"output {attr.name!r} {list(attr.shape)}: expected [1, channels, height, width]"
        )
    return attr.shape[1], attr.shape[2], attr.shape[3]


def by_scale(outputs: Sequence[TensorAttr]) -> list[list[TensorAttr]]:
    """Group outputs by their grid, finest grid first, each group in the given order.

    Raises:
        ValueError: An output is no grid of one picture, or the groups differ in length.
    """
    groups: dict[tuple[int, int], list[TensorAttr]] = {}
    for attr in outputs:
        groups.setdefault(grid_of(attr)[1:], []).append(attr)
    ordered = sorted(groups.items(), key=lambda item: -item[0][0] * item[0][1])
    if len({len(group) for _, group in ordered}) != 1:
        raise ValueError(f"the scales have different numbers of outputs:\n{describe(outputs)}")
    return [group for _, group in ordered]


def scales_of_one(outputs: Sequence[TensorAttr]) -> list[TensorAttr]:
    """Return outputs of which each is one scale, finest grid first.

    Raises:
        ValueError: Two have one grid, or they differ in their channels, or see `by_scale`.
    """
    scales = by_scale(outputs)
    if len(scales[0]) != 1 or len({grid_of(attr)[0] for (attr,) in scales}) != 1:
        raise ValueError(
            f"expected outputs [1, channels, h, w], one per scale, got\n{describe(outputs)}"
        )
    return [attr for (attr,) in scales]


def grids_of(
    input_size: tuple[int, int], strides: Sequence[int], n: int, output: TensorAttr
) -> list[tuple[int, int]]:
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


def cells_of_one(n: int, input_size: tuple[int, int]) -> tuple[tuple[int, ...], int] | None:
    """Return the strides whose cells make N predictions, and how many each cell makes.

    One prediction, or three where there are anchors. None: no usual strides make so many.
    """
    for strides in _STRIDES:
        if all(input_size[0] % s == 0 and input_size[1] % s == 0 for s in strides):
            cells = sum((input_size[0] // s) * (input_size[1] // s) for s in strides)
            if n in (cells, 3 * cells):
                return strides, n // cells
    return None


def strides_of(attr: TensorAttr, input_size: tuple[int, int]) -> tuple[float, float]:
    """Return the pixels between cells, down and across.

    Raises:
        ValueError: The grid does not divide the input.
    """
    _, height, width = grid_of(attr)
    if input_size[0] % height or input_size[1] % width:
        raise ValueError(
            f"output {attr.name!r} {list(attr.shape)}: its grid does not divide the input, "
            f"{input_size[0]} x {input_size[1]} (height x width)"
        )
    return input_size[0] / height, input_size[1] / width


def channels_and_predictions(
    output: TensorAttr, transposed: bool | None = None
) -> tuple[int, int, bool]:
    """Return channels and number of predictions of a head in one output, and their order.

    Args:
        output: ``[1, C, N]``, a rank 4 form of it, or ``[1, N, C]``.
        transposed: Whether it is the last. None: when there are more rows than columns.

    Raises:
        ValueError: It has another form.
    """
    shape = output.shape
    rank_ok = len(shape) == 3 or (len(shape) == 4 and output.layout == Layout.NCHW)
    if not rank_ok or shape[0] != 1:
        raise ValueError(
            f"output {output.name!r} {list(shape)}: expected [1, channels, N], [1, N, channels] "
            "or a rank 4 form of the first, of one picture"
        )
    rows, columns = shape[1], math.prod(shape[2:])
    if transposed is None:
        transposed = len(shape) == 3 and rows > columns
    if transposed and len(shape) != 3:
        raise ValueError(f"output {output.name!r} {list(shape)}: a transposed head has rank 3")
    return (columns, rows, True) if transposed else (rows, columns, False)
