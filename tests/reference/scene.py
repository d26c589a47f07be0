"""Scenes: a network's scores of cells, for each pixel of an image."""

from __future__ import annotations

import numpy as np


def positions(size, cells, scale, offset):
    """Where the centres of pixels lie among the centres of cells, on one axis."""
    return np.clip((np.arange(size) + 0.5) * scale + offset - 0.5, 0, cells - 1)


def interpolated(values, image_size, mapping):
    """``(C, h, w)`` -> ``(C, H, W)``; mapping: scale and offset, down and across."""
    lines = []
    for size, cells, (scale, offset) in zip(image_size, values.shape[1:], mapping):
        at = positions(size, cells, scale, offset)
        low = np.floor(at).astype(int)
        lines.append((low, np.minimum(low + 1, cells - 1), at - low))
    (up, down, fy), (left, right, fx) = lines
    values = values.astype(np.float64)
    rows = values[:, up] * (1 - fy)[:, None] + values[:, down] * fy[:, None]
    return rows[..., left] * (1 - fx) + rows[..., right] * fx


def nearest(labels, image_size, mapping):
    """``(h, w)`` numbers of classes -> ``(H, W)``."""
    rows, columns = (
        (positions(size, cells, scale, offset) + 0.5).astype(int)
        for size, cells, (scale, offset) in zip(image_size, labels.shape, mapping)
    )
    return labels[np.ix_(rows, columns)]
