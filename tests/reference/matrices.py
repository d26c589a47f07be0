"""Matrices as an NPU has them, in NumPy; shares no code with the package."""

from __future__ import annotations

import numpy as np


def groups(values, group):
    """Native A or C: ``(columns / group, rows, group)``."""
    rows, columns = values.shape
    return np.ascontiguousarray(values.reshape(rows, columns // group, group).transpose(1, 0, 2))


def tiles(b, tile_k, tile_n, segment_k=None):
    """Native B: per segment ``(N / tile_n, K / tile_k, tile_n, tile_k)``, in one dimension."""
    k, n = b.shape
    parts = []
    for begin in range(0, k, segment_k or k):
        part = b[begin : begin + (segment_k or k)]
        rows = len(part)
        part = part.reshape(rows // tile_k, tile_k, n // tile_n, tile_n)
        parts.append(part.transpose(2, 0, 3, 1).reshape(-1))
    return np.concatenate(parts)


def nibbles(values):
    """Two int4 a byte, the first in the low half."""
    bits = values.reshape(-1).astype(np.uint8) & 15
    return bits[0::2] | bits[1::2] << 4


def bfloat16(values):
    """Float64 rounded to the nearest bfloat16, as float32; ties to even."""
    bits = np.asarray(values, np.float64).astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return bits.astype(np.uint32).view(np.float32)


def product(a, b, c_type, scales=(1.0, 1.0, 1.0)):
    """``C`` of real numbers, of an int8 with a scale, or of sums, each rounded once."""
    sums = a.astype(np.float64) @ b.astype(np.float64)
    if c_type in ("INT16", "INT32"):
        return sums.astype(c_type.lower())
    real = sums * float(np.float32(scales[0])) * np.asarray(scales[1], np.float32).astype(float)
    if c_type == "INT8":
        return np.clip(np.rint(real / float(np.float32(scales[2]))), -128, 127).astype(np.int8)
    if c_type == "BFLOAT16":
        return bfloat16(real)
    return real.astype(np.float32).astype(c_type.lower())
