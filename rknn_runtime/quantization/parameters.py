"""Scale and zero point of a range: the one rule for all that quantizes here."""

from __future__ import annotations

import math

from rknn_runtime._arrays import as_float, as_int

__all__ = ["affine_parameters"]


def affine_parameters(
    lowest: float, highest: float, bits: int = 8, *, symmetric: bool = False
) -> tuple[float, int]:
    """Return scale and zero point for signed integers that cover a range.

    0.0 is always covered, as padding and ReLU need it exactly. Not symmetric: ``scale =
    (highest - lowest) / (2**bits - 1)``, ``zero_point = round(-2**(bits - 1) - lowest / scale)``.
    Symmetric: ``scale = max(-lowest, highest) / (2**(bits - 1) - 1)``, zero point 0.

    Args:
        lowest: Of the range; above 0 it counts as 0.
        highest: Likewise; below 0 it counts as 0.
        bits: 8 or 16.
        symmetric: Whether 0.0 is the integer 0.

    Returns:
        ``real = (q - zero_point) * scale``; a scale of 1.0 for a range of nothing but 0.

    Raises:
        TypeError: No numbers.
        ValueError: A bound is not finite, or they are the wrong way round; or other bits.
    """
    lowest, highest = as_float(lowest, "lowest"), as_float(highest, "highest")
    bits = as_int(bits, "bits", 1, 64)
    if bits not in (8, 16):
        raise ValueError(f"bits: expected 8 or 16, got {bits!r}")
    if not (math.isfinite(lowest) and math.isfinite(highest)) or lowest > highest:
        raise ValueError(f"range: expected finite numbers, low and high, got {lowest} to {highest}")
    low, high = min(0.0, lowest), max(0.0, highest)
    most = 2 ** (bits - 1)
    if symmetric:
        return max(high, -low) / (most - 1) or 1.0, 0
    scale = (high - low) / (2 * most - 1) or 1.0
    return scale, max(-most, min(most - 1, round(-most - low / scale)))
