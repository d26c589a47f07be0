"""Bilinear resizing in float64, from the definition: pixel centres at half positions."""

from __future__ import annotations

import numpy as np


def _taps(src: int, dst: int):
    position = (np.arange(dst) + 0.5) * src / dst - 0.5
    position = np.clip(position, 0, src - 1)
    first = np.minimum(np.floor(position).astype(int), max(src - 2, 0))
    second = np.minimum(first + 1, src - 1)
    return first, second, position - first


def bilinear(image, height: int, width: int):
    """Resize ``(H, W, C)``; float64, not rounded."""
    first, second, weight = _taps(image.shape[1], width)
    weight = weight[None, :, None]
    rows = image[:, first] * (1 - weight) + image[:, second] * weight
    first, second, weight = _taps(image.shape[0], height)
    weight = weight[:, None, None]
    return rows[first] * (1 - weight) + rows[second] * weight
