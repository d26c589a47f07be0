"""A histogram of values whose range is not known before, and the threshold read from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Histogram", "cut", "mmse_threshold"]

#: Bins on either side of 0. The range in use is at least half of them.
HALF = 8192
#: Cuts that are tried.
STEPS = 128
#: Values that are taken at once, to keep their float64 copies small.
_BLOCK = 1 << 20


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
        for start in range(0, values.size, _BLOCK):
            self._add(values[start : start + _BLOCK])

    def _add(self, values: NDArray[Any]) -> None:
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
        return np.linspace(-self.limit, self.limit, 4 * HALF + 1, dtype=np.float64)[1::2]


def cut(lowest: float, highest: float, threshold: float) -> tuple[float, float]:
    """Return what is left of a range between minus and plus a threshold.

    Of a range that lies outside altogether only the threshold is left, which makes a range with 0.
    """
    low, high = max(lowest, -threshold), min(highest, threshold)
    if low > high:
        low = high = -threshold if highest < 0 else threshold
    return low, high


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
    for step in range(STEPS, 0, -1):
        threshold = most * step / STEPS
        again = quantized(values, *cut(lowest, highest, threshold))
        error = float(((again - values) ** 2) @ counts)
        if error < best:
            best, found = error, threshold
    return found
