"""Arguments of products of matrices, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import Array, as_int

__all__ = ["FLOAT32", "MOST", "one_scale", "rows_of"]

#: Of one dimension, and of shapes.
MOST = 2**31 - 1
_MOST_SHAPES = 1024
FLOAT32 = np.dtype("float32")


def rows_of(m: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Read one number of rows, or several."""
    if not isinstance(m, Sequence):
        return (as_int(m, "m", 1, MOST),)
    rows = tuple(as_int(each, "m", 1, MOST) for each in m)
    if not rows or len(rows) > _MOST_SHAPES or len(set(rows)) < len(rows):
        raise ValueError(f"m: expected 1 to {_MOST_SHAPES} different numbers, got {m!r}")
    return rows


def one_scale(scale: Any) -> Array:
    """Read one scale."""
    if isinstance(scale, (str, bytes)) or not hasattr(scale, "__float__"):
        raise TypeError(f"scales: expected a number or an array of float32, got {scale!r}")
    number = float(scale)
    return np.array([number if math.isfinite(number) else math.inf], FLOAT32)
