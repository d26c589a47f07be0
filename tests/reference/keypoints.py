"""Keypoints from heatmaps, as HRNet's and mmpose's code finds them."""

from __future__ import annotations

import numpy as np


def peaks(maps, shift=0.25):
    """``(k, h, w)`` -> ``(k, 3)``: x and y in cells, moved towards the higher neighbour, value."""
    found = []
    for one in maps:
        clean = np.nan_to_num(one, nan=-np.inf)
        y, x = np.unravel_index(clean.argmax(), one.shape)
        dx = dy = 0.0
        if shift and 1 < x < one.shape[1] - 1 and 1 < y < one.shape[0] - 1:
            dx = np.sign(one[y, x + 1] - one[y, x - 1]) * shift
            dy = np.sign(one[y + 1, x] - one[y - 1, x]) * shift
        found.append((x + dx, y + dy, one[y, x]))
    return np.array(found, np.float32)


def dark(maps, blur):
    """DARK (arXiv 1910.06278) cell by cell: ``(k, h, w)`` -> ``(k, 2)``."""
    sigma = 0.3 * ((blur - 1) / 2 - 1) + 0.8
    offsets = [
        (i, j)
        for i in range(-(blur // 2), blur // 2 + 1)
        for j in range(-(blur // 2), blur // 2 + 1)
    ]
    weights = np.array([np.exp(-(i * i + j * j) / (2 * sigma**2)) for i, j in offsets])
    found = []
    for one in maps:
        height, width = one.shape
        y, x = np.unravel_index(one.argmax(), one.shape)
        if not (1 < x < width - 2 and 1 < y < height - 2):
            found.append((x, y))
            continue

        def log(dy, dx, one=one, y=y, x=x):
            values = [
                one[y + dy + i, x + dx + j]
                if 0 <= y + dy + i < one.shape[0] and 0 <= x + dx + j < one.shape[1]
                else 0.0
                for i, j in offsets
            ]
            return np.log(max((weights * values).sum() / weights.sum(), 1e-10))

        gradient = np.array([log(0, 1) - log(0, -1), log(1, 0) - log(-1, 0)]) / 2
        across = log(1, 1) - log(-1, 1) - log(1, -1) + log(-1, -1)
        hessian = np.array(
            [
                [log(0, 2) - 2 * log(0, 0) + log(0, -2), across],
                [across, log(2, 0) - 2 * log(0, 0) + log(-2, 0)],
            ]
        )
        found.append(np.array([x, y]) - np.linalg.solve(hessian / 4, gradient))
    return np.array(found)
