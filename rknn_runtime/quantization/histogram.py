"""A histogram of values whose range is not known before, and the thresholds read from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Histogram", "cut", "kl_threshold", "mmse_threshold"]

#: Bins on either side of 0. The range in use is at least half of them.
HALF = 8192
#: Bins in which absolute values are compared, as many as the toolkit has.
COARSE = 1024
#: Levels of an absolute value in 8 bits.
LEVELS = 128


class Histogram:
    """Counts of values in bins of one width, symmetric around 0.

    A value beyond the last bin doubles the width: two bins become one. So memory is bounded,
    whatever comes; and as widths are powers of 2, the order of the values makes no difference.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(2 * HALF, np.int64)
        #: Exact zeros, which every quantization holds exactly; they are in no bin.
        self.zeros = 0
        self.limit = 0.0

    def add(self, values: NDArray[Any]) -> None:
        """Count finite values, flat."""
        self.zeros += int((values == 0).sum())
        values = values[values != 0]
        if not values.size:
            return
        most = float(np.abs(values).max())
        if not self.limit:
            self.limit = 2.0 ** min(1023, math.frexp(most)[1])
        while most > self.limit:
            pairs = self.counts.reshape(2, HALF // 2, 2).sum(axis=2)
            self.counts[:] = 0
            self.counts[HALF // 2 : HALF] = pairs[0]
            self.counts[HALF : HALF + HALF // 2] = pairs[1]
            self.limit *= 2
        places = np.floor(values.astype(np.float64) * (HALF / self.limit)).astype(np.int64) + HALF
        self.counts += np.bincount(np.clip(places, 0, 2 * HALF - 1), minlength=2 * HALF)

    @property
    def middles(self) -> NDArray[np.float64]:
        """The middle of each bin."""
        return np.linspace(-self.limit, self.limit, 4 * HALF + 1)[1::2]

    def absolute(self, most: float) -> NDArray[np.float64]:
        """Counts of absolute values in `COARSE` bins from 0 to ``most``."""
        places = (np.abs(self.middles) * (COARSE / most)).astype(np.int64)
        found = np.zeros(COARSE)
        np.add.at(found, np.minimum(places, COARSE - 1), self.counts)
        return found


def cut(lowest: float, highest: float, threshold: float) -> tuple[float, float]:
    """Return what is left of a range between minus and plus a threshold.

    Of a range that lies outside altogether only the threshold is left, which makes a range with 0.
    """
    low, high = max(lowest, -threshold), min(highest, threshold)
    if low > high:
        low = high = -threshold if highest < 0 else threshold
    return low, high


def kl_threshold(counts: NDArray[np.float64], most: float) -> float:
    """Return the absolute value at which to cut, so that the least information is lost.

    For each number of bins from 128 on: P are these bins, with all that lies beyond in the last of
    them, Q the same bins in 128 levels, each level spread over its bins that are not empty; the
    one with the least ``sum(P log(P / Q))`` counts (S. Migacz, "8-bit inference with TensorRT",
    2017). The cut is in the middle of the bin behind, as the toolkit's is.

    Args:
        counts: `Histogram.absolute`.
        most: The largest absolute value.
    """
    best, found = np.inf, len(counts)
    beyond = np.append(np.cumsum(counts[::-1])[::-1], 0.0)
    for size in range(LEVELS, len(counts) + 1):
        inside = counts[:size]
        expected = inside.copy()
        expected[-1] += beyond[size]
        level = np.arange(size) * LEVELS // size
        filled = inside > 0
        sums = np.bincount(level, weights=inside, minlength=LEVELS)
        bins = np.bincount(level, weights=filled, minlength=LEVELS)
        spread = np.where(filled, (sums / np.maximum(bins, 1))[level], 0.0)
        if not spread.any():
            continue
        p, q = expected / expected.sum(), spread / spread.sum()
        seen = p > 0
        lost = float((p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-9))).sum())
        if lost < best:
            best, found = lost, size
    return most if found == len(counts) else (found + 0.5) * most / len(counts)


def mmse_threshold(histogram: Histogram, lowest: float, highest: float, quantized: Any) -> float:
    """Return the absolute value at which to cut, so that the mean squared error is least.

    Tried are all of 128 steps from the largest absolute value down.

    Args:
        histogram: Of the values.
        lowest: The smallest value.
        highest: The largest.
        quantized: ``quantized(values, low, high)`` gives what becomes of values that are
            quantized to a range and back.
    """
    most = max(-lowest, highest)
    filled = histogram.counts > 0
    values, counts = histogram.middles[filled], histogram.counts[filled]
    best, found = np.inf, most
    for step in range(LEVELS, 0, -1):
        threshold = most * step / LEVELS
        again = quantized(values, *cut(lowest, highest, threshold))
        error = float(((again - values) ** 2) @ counts)
        if error < best:
            best, found = error, threshold
    return found
