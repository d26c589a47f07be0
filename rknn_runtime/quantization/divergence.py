"""Where rknn-toolkit2 cuts a tensor for ``kl_divergence``, to the last bit.

The idea is S. Migacz, "8-bit inference with TensorRT", 2017: keep what loses the least information
in 128 levels. The details are those of version 2.3.2, measured by giving it histograms and looking
where it cuts. They matter: a histogram of a smooth tensor loses about as much at hundreds of
places, and float32 decides among them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BINS", "absolute_histogram", "kl_cut"]

#: Bins of absolute values. The first of them, with the zeros, counts for nothing.
BINS = 1024
#: Of an absolute value in 8 bits.
LEVELS = 128
#: What an empty bin gets, in counts: a logarithm wants something.
_EPSILON = np.float32(1e-4)
#: A cut that loses as much is none.
_BOUND = 0.1


def absolute_histogram(values: NDArray[Any], most: float, block: int = 1 << 20) -> NDArray[Any]:
    """Count absolute values in `BINS` bins from 0 to ``most``, which itself is in none of them.

    Args:
        values: Flat, finite.
        most: Above 0.
        block: How many values are taken at once, which bounds memory.
    """
    counts = np.zeros(BINS, np.int64)
    for start in range(0, values.size, block):
        part = np.abs(values[start : start + block].astype(np.float64))
        places = (part[part < most] * (BINS / most)).astype(np.int64)
        counts += np.bincount(np.minimum(places, BINS - 1), minlength=BINS)
    return counts


def kl_cut(counts: NDArray[Any]) -> float | None:
    """Return where to cut, as a part of the largest absolute value; None: nowhere.

    For each number of bins from 128 on, P are these bins, the last of them with all that lies
    beyond, and Q the same in 128 levels of as many whole bins each, the last level with what is
    left over. A level is spread over all of its bins, also empty ones, at the average of those
    that are not. The last bin gets nothing, and the last level nothing where no bin is left over.
    Of ``sum(P log(P / Q))`` the least above 0 counts, if it is below 0.1.

    Args:
        counts: As `absolute_histogram` gives them.
    """
    bins = counts[1:].astype(np.float32)
    best, found = _BOUND, None
    beyond = _sum(bins[LEVELS:])
    levels: NDArray[np.float32] = np.zeros(0, np.float32)
    width = 0
    for size in range(LEVELS, bins.size):
        if size // LEVELS != width:
            width = size // LEVELS
            levels = _averages(bins, width)
        p, q = bins[:size].copy(), np.zeros(size, np.float32)
        p[-1] += beyond
        beyond = beyond - bins[size]
        q[: levels.size] = levels
        rest = bins[levels.size : size]
        filled = np.count_nonzero(rest[:-1])
        if filled and size % LEVELS:
            q[levels.size : -1] = _sum(rest) / np.float32(filled)
        lost = _divergence(_smooth(p), _smooth(q))
        if 0 < lost < best:
            best, found = lost, size
    return None if found is None else (found + 1.5) / BINS


def _averages(bins: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """All levels but the last, each spread over its bins."""
    parts = bins[: (LEVELS - 1) * width].reshape(LEVELS - 1, width)
    sums = np.add.accumulate(parts, axis=1)[:, -1]
    filled = np.count_nonzero(parts, axis=1).astype(np.float32)
    return np.repeat(sums / np.maximum(filled, np.float32(1)), width)


def _smooth(bins: NDArray[np.float32]) -> NDArray[np.float32]:
    """Give empty bins a little of what the others have."""
    empty = bins == 0
    count = np.float32(np.count_nonzero(empty))
    filled = np.float32(bins.size) - count
    if not filled:
        return bins
    return np.where(empty, _EPSILON, bins - _EPSILON * count / filled)


def _divergence(p: NDArray[np.float32], q: NDArray[np.float32]) -> float:
    """The sum of ``P log(P / Q)`` for what is scaled to a sum of 1; nan where there is none."""
    with np.errstate(all="ignore"):
        p, q = p / _sum(p), q / _sum(q)
        logarithm = np.log((p / q).astype(np.float64)).astype(np.float32)
        return float(_sum(p * logarithm))


def _sum(values: NDArray[np.float32]) -> np.float32:
    """One value after the other, as a loop in C does it."""
    found: np.float32 = np.add.accumulate(values)[-1]
    return found
