"""NC1HWC2 by its index formula, element by element."""

from __future__ import annotations

import numpy as np


def packed_index(shape, channels, height, width):
    """Flat index into ``(N, C1, H, W, C2)`` of every element of ``(N, C, height, width)``."""
    n, c1, rows, columns, c2 = shape
    plane = rows * columns
    item, c, y, x = np.ix_(range(n), range(channels), range(height), range(width))
    return ((item * c1 + c // c2) * plane + y * width + x) * c2 + c % c2


def nchw(src, channels, height=None, width=None):
    height = src.shape[2] if height is None else height
    width = src.shape[3] if width is None else width
    return src.ravel()[packed_index(src.shape, channels, height, width)]


def nhwc(src, channels, height=None, width=None):
    return np.ascontiguousarray(nchw(src, channels, height, width).transpose(0, 2, 3, 1))


def pack(src_nchw, shape, pad):
    _, channels, height, width = src_nchw.shape
    out = np.full(int(np.prod(shape)), pad, src_nchw.dtype)
    out[packed_index(shape, channels, height, width)] = src_nchw
    return out.reshape(shape)
