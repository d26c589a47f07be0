"""Outputs of one head sorted by scale."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.yolo.tensor_view import describe

__all__ = ["by_scale", "grid_of", "strides_of"]


def grid_of(attr: TensorAttr) -> tuple[int, int, int]:
    """Return channels, height and width of an output over a grid.

    Raises:
        ValueError: It is no grid of one picture.
    """
    if len(attr.shape) != 4 or attr.shape[0] != 1:
        raise ValueError(
            f"output {attr.name!r} {list(attr.shape)}: expected [1, channels, height, width]"
        )
    if attr.layout == Layout.NHWC:
        return attr.shape[3], attr.shape[1], attr.shape[2]
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
