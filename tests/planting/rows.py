"""Grids of numbers as rows, which some exporters write."""

from __future__ import annotations

import numpy as np


def as_rows(tensor, channels):
    """``(p * k, h, w)`` -> ``(k, h * w * p, 1)``, which "transposed" lays out as rows."""
    _, height, width = tensor.shape
    each = tensor.reshape(-1, channels, height, width)  # p, k, h, w
    return np.ascontiguousarray(each.transpose(1, 2, 3, 0).reshape(channels, -1, 1))


def from_rows(rows, per_cell, grid):
    """The inverse of `as_rows`."""
    channels = len(rows)
    each = rows.reshape(channels, *grid, per_cell)
    return each.transpose(3, 0, 1, 2).reshape(per_cell * channels, *grid)
