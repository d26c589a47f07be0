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
