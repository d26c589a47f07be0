"""The formulas of quantization, each step a float32 operation."""

from __future__ import annotations

import numpy as np


def dequantize(q, zero_point, scale):
    return (q.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)


def quantize(x, zero_point, scale, dtype):
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        value = x / np.float32(scale) + np.float32(zero_point)
    value = np.clip(value, np.float32(limits.min), np.float32(limits.max))
    return np.rint(value).astype(dtype)  # rint: a half goes to the even integer


def widen_bits(half):
    """float16 bits -> float32 bits: sign, exponent and fraction taken apart."""
    half = half.astype(np.int64)
    sign, exponent, fraction = half >> 15, (half >> 10) & 31, half & 1023
    value = np.where(
        exponent == 0, fraction * 2.0**-24, (1024 + fraction) * 2.0 ** (exponent - 25.0)
    )
    finite = value.astype(np.float32).view(np.uint32).astype(np.int64)
    quiet = np.where(fraction != 0, 1 << 22, 0)
    special = (255 << 23) | (fraction << 13) | quiet
    return ((sign << 31) | np.where(exponent == 31, special, finite)).astype(np.uint32)


def narrow_bits(single):
    """float32 bits -> float16 bits; NumPy rounds, NaNs keep the upper payload."""
    value = single.view(np.float32)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        number = value.astype(np.float16).view(np.uint16)
    nan = ((single >> 16) & 0x8000) | 0x7E00 | ((single >> 13) & 0x3FF)
    return np.where(np.isnan(value), nan, number).astype(np.uint16)
