"""How much boxes overlap, and which of two sets belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["overlaps", "pairs"]


def overlaps(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the IoU of every box of one set with every box of the other.

    Args:
        a: ``(n, 4)``: left, top, right, bottom.
        b: ``(m, 4)``, likewise.

    Returns:
        ``(n, m) float64``, 0 to 1; 0.0 where both have no area.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    corner, other = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    shared = np.clip(other - corner, 0, None).prod(axis=-1)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=-1) for boxes in (a, b)]
    union = areas[0][:, None] + areas[1] - shared
    found: NDArray[np.float64] = np.divide(
        shared, union, out=np.zeros_like(shared), where=union > 0
    )
    return found


def pairs(iou: NDArray[np.float64], same: NDArray[np.bool_], least: float) -> list[tuple[int, int]]:
    """Pair rows with columns, the largest overlaps first, each once.

    Args:
        iou: ``(n, m)``.
        same: ``(n, m)``: which may be paired, as they are of one class.
        least: Smallest IoU of a pair.

    Returns:
        Row and column of each pair.
    """
    rows, columns = np.nonzero(same & (iou >= least))
    order = np.argsort(-iou[rows, columns], kind="stable")
    found, used_rows, used_columns = [], set(), set()
    for row, column in zip(rows[order].tolist(), columns[order].tolist()):
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            found.append((row, column))
    return found
