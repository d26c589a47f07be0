"""Outlines of masks, as polygons along the edges of their pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import NDArray


def outline(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the first of `outlines`; no corners if the mask is empty."""
    return next(iter(outlines(mask)), np.empty((0, 2)))


def outlines(mask: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Return the outlines of the parts of a mask, the largest first, without holes.

    Parts that only touch at a corner are separate.

    Returns:
        ``(n, 2) float64`` each: x and y of the corners in pixels, clockwise in the image.
    """
    padded = np.pad(np.asarray(mask, bool), 1)
    inside, outside = padded, ~padded
    # Directed edges between pixels with the mask to their right: start -> end.
    moves: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def add(found: NDArray[Any], start: tuple[int, int], end: tuple[int, int]) -> None:
        for y, x in np.argwhere(found).tolist():
            moves.setdefault((x + start[0], y + start[1]), []).append((x + end[0], y + end[1]))

    add(inside[1:-1, 1:-1] & outside[:-2, 1:-1], (0, 0), (1, 0))  # above: to the right
    add(inside[1:-1, 1:-1] & outside[1:-1, 2:], (1, 0), (1, 1))
    add(inside[1:-1, 1:-1] & outside[2:, 1:-1], (1, 1), (0, 1))
    add(inside[1:-1, 1:-1] & outside[1:-1, :-2], (0, 1), (0, 0))
    loops = []
    while moves:
        loops.append(_loop(moves))
    loops = sorted((loop for loop in loops if _area(loop) > 0), key=_area, reverse=True)
    return [_corners(np.array(loop, np.float64)) for loop in loops]


def _corners(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Leave out the points on straight lines."""
    turns = np.any(np.roll(points, 1, 0) + np.roll(points, -1, 0) != 2 * points, axis=1)
    return points[turns]


def _loop(moves: dict[tuple[int, int], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Take one closed line out of the edges; at crossings turn right."""
    start = next(iter(moves))
    loop, at, step = [start], start, (0, 0)
    while True:
        choices = moves[at]
        # To the right of a step (dx, dy) is (-dy, dx): y grows downwards.
        right = (at[0] - step[1], at[1] + step[0])
        after = right if right in choices else choices[0]
        choices.remove(after)
        if not choices:
            del moves[at]
        if after == start:
            return loop
        step = (after[0] - at[0], after[1] - at[1])
        at = after
        loop.append(at)


def _area(loop: list[tuple[int, int]]) -> float:
    """Shoelace formula: positive around a part, negative around a hole."""
    x, y = np.array(loop, np.float64).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def filled(points: NDArray[Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the mask of a polygon in pixels: those whose centre is inside by the even-odd rule."""
    height, width = size
    mask = np.zeros((height, width), bool)
    if len(points) < 3:
        return mask
    x1, y1 = np.asarray(points, np.float64).T
    x2, y2 = np.roll(x1, -1), np.roll(y1, -1)
    middles = np.arange(width) + 0.5
    for row in range(height):
        y = row + 0.5
        crossing = (y1 <= y) != (y2 <= y)
        if crossing.any():
            a, b = x1[crossing], x2[crossing]
            at = a + (y - y1[crossing]) / (y2[crossing] - y1[crossing]) * (b - a)
            mask[row] = (middles[:, None] > at).sum(axis=1) % 2 == 1
    return mask
