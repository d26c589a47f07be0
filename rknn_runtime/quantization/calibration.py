"""From samples to ranges: one sample at a time, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import Array, as_int, plain
from rknn_runtime.quantization.divergence import absolute_histogram, kl_cut
from rknn_runtime.quantization.histogram import Histogram, cut, mmse_threshold
from rknn_runtime.quantization.parameters import affine_parameters

if TYPE_CHECKING:
    from typing import Literal

    from numpy.typing import NDArray

    Algorithm = Literal["normal", "kl_divergence", "mmse"]
else:
    Algorithm = str

__all__ = ["Algorithm", "Calibration", "Calibrator", "Range", "calibrate"]


@dataclass(frozen=True)
class Range:
    """The range of a tensor, or of one channel of it, and its quantization."""

    #: The range that is kept; values outside of it are clipped.
    lowest: float
    highest: float
    #: Minimum and maximum of the samples.
    measured_lowest: float
    measured_highest: float
    #: ``real = (q - zero_point) * scale``.
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Calibration:
    """The result for one tensor."""

    algorithm: str
    symmetric: bool
    #: 8 or 16.
    bits: int
    #: One for all values, or one per channel.
    ranges: tuple[Range, ...]

    @property
    def scale(self) -> NDArray[np.float64]:
        """``(n,) float64``: of each range; a copy."""
        return np.array([each.scale for each in self.ranges])

    @property
    def zero_point(self) -> NDArray[np.int64]:
        """``(n,) int64``: of each range; a copy."""
        return np.array([each.zero_point for each in self.ranges], np.int64)

    def __str__(self) -> str:
        rows = [
            f"{r.lowest:.6g} to {r.highest:.6g}, scale {r.scale:.6g}, zero point {r.zero_point}"
            for r in self.ranges
        ]
        return "\n".join(rows)


class Calibrator:
    """Collects the samples of one tensor; see `calibrate`.

    Args:
        algorithm: As for `calibrate`.
        axis: Of the channels, each of which gets a range; None: one range for all.
        symmetric: Whether 0.0 is the integer 0.
        bits: 8 or 16.

    Raises:
        TypeError: ``axis`` or ``bits`` is no integer.
        ValueError: An algorithm or bits that are not known.
    """

    def __init__(
        self,
        algorithm: Algorithm = "normal",
        *,
        axis: int | None = None,
        symmetric: bool = False,
        bits: int = 8,
    ) -> None:
        if algorithm not in _CHANNELS:
            listed = ", ".join(_CHANNELS)
            raise ValueError(f"algorithm: expected one of {listed}, got {algorithm!r}")
        affine_parameters(0.0, 0.0, bits)  # which knows the bits
        self._algorithm = algorithm
        self._axis = None if axis is None else as_int(axis, "axis", -32, 31)
        self._symmetric = bool(symmetric)
        self._bits = bits
        self._channels: list[_Channel] = []

    def add(self, sample: Array) -> None:
        """Take a sample; nothing of it is kept.

        Args:
            sample: Any shape, floats or integers; as many channels in each.

        Raises:
            TypeError: No array of numbers.
            ValueError: A value that is not finite, another number of channels, or no such axis.
        """
        array = plain(sample, "samples", "an array of numbers")
        if array.dtype.kind not in "fiu":
            raise TypeError(f"samples: expected arrays of numbers, got {array.dtype}")
        rows = [array.reshape(-1)]
        if self._axis is not None:
            if not -array.ndim <= self._axis < array.ndim:
                raise ValueError(f"axis: expected one of {array.ndim}, got {self._axis}")
            rows = list(np.moveaxis(array, self._axis, 0).reshape(array.shape[self._axis], -1))
        if self._channels and len(rows) != len(self._channels):
            raise ValueError(
                f"samples: expected {len(self._channels)} channels in each, got {len(rows)}"
            )
        if not self._channels:
            self._channels = [_CHANNELS[self._algorithm]() for _ in rows]
        for channel, row in zip(self._channels, rows):
            if row.size:
                channel.add(row)

    def result(self) -> Calibration:
        """Return the ranges of what was added; more may be added afterwards.

        Raises:
            ValueError: There was no value.
        """
        if not self._channels or any(math.isinf(each.lowest) for each in self._channels):
            raise ValueError("samples: expected at least one value, got none")
        ranges = tuple(map(self._range, self._channels))
        return Calibration(self._algorithm, self._symmetric, self._bits, ranges)

    def _range(self, channel: _Channel) -> Range:
        low, high = channel.kept(self._quantized)
        scale, zero_point = self._parameters(low, high)
        return Range(low, high, channel.lowest, channel.highest, scale, zero_point)

    def _parameters(self, low: float, high: float) -> tuple[float, int]:
        return affine_parameters(low, high, self._bits, symmetric=self._symmetric)

    def _quantized(self, values: NDArray[np.float64], low: float, high: float) -> Any:
        scale, zero_point = self._parameters(low, high)
        most = 2 ** (self._bits - 1)
        stored = np.clip(np.rint(values / scale) + zero_point, -most, most - 1)
        return (stored - zero_point) * scale


class _Channel:
    """What is kept of the values of one range: their smallest and largest."""

    def __init__(self) -> None:
        self.lowest, self.highest = math.inf, -math.inf

    def add(self, values: Array) -> None:
        """Take the values of a sample, flat and at least one."""
        low, high = float(values.min()), float(values.max())
        if not math.isfinite(low) or not math.isfinite(high):
            raise ValueError(f"samples: expected finite values, got {low} to {high}")
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)

    def kept(self, quantized: Any) -> tuple[float, float]:
        """Return the range; ``quantized`` is as for `mmse_threshold`."""
        return self.lowest, self.highest


class _DivergenceChannel(_Channel):
    """The widest of the ranges of all samples."""

    def __init__(self) -> None:
        super().__init__()
        self._low, self._high = math.inf, -math.inf

    def add(self, values: Array) -> None:
        super().add(values)
        low, high = float(values.min()), float(values.max())
        most = max(-low, high)
        part = kl_cut(absolute_histogram(values, most)) if most else None
        if part is not None:
            low, high = cut(low, high, part * most)
        self._low, self._high = min(self._low, low), max(self._high, high)

    def kept(self, quantized: Any) -> tuple[float, float]:
        return self._low, self._high


class _ErrorChannel(_Channel):
    """A histogram of all samples."""

    def __init__(self) -> None:
        super().__init__()
        self._histogram = Histogram()

    def add(self, values: Array) -> None:
        super().add(values)
        self._histogram.add(values)

    def kept(self, quantized: Any) -> tuple[float, float]:
        low, high = self.lowest, self.highest
        if low == high == 0:
            return low, high
        return cut(low, high, mmse_threshold(self._histogram, low, high, quantized))


_CHANNELS = {
    "normal": _Channel,
    "kl_divergence": _DivergenceChannel,
    "mmse": _ErrorChannel,
}


def calibrate(
    samples: Iterable[Array],
    algorithm: Algorithm = "normal",
    *,
    per_channel: bool = False,
    axis: int = 0,
    symmetric: bool = False,
    bits: int = 8,
) -> Calibration:
    """Find the range of a tensor from samples of it, and the quantization for that.

    Samples are taken one by one and not kept: a generator over any number needs the memory of
    one, and of a histogram.

    ``"kl_divergence"`` looks at each sample by itself, and the widest range counts: so the toolkit
    does it for inputs of a network. All other tensors it takes as one sample:
    ``calibrate([numpy.stack(samples)], "kl_divergence")``.

    Args:
        samples: Arrays of any shape, floats or integers.
        algorithm: As the toolkit's ``quantized_algorithm``. ``"normal"``: from the smallest to
            the largest value. ``"kl_divergence"``: cut where the least information is lost, see
            `kl_cut` in ``divergence.py``. Both are as the toolkit does it. ``"mmse"``: cut where
            the mean squared error is least; the toolkit's files have the ranges of
            ``"kl_divergence"`` there.
        per_channel: One range for each channel, as the toolkit quantizes weights.
        axis: Of the channels: 0 of weights, 1 of activations in NCHW.
        symmetric: Whether 0.0 is the integer 0.
        bits: 8 or 16.

    Returns:
        The ranges.

    Raises:
        TypeError: A sample is no array of numbers, or ``samples`` no iterable of them.
        ValueError: No value, one that is not finite, or an argument that is not known.
    """
    calibrator = Calibrator(
        algorithm, axis=axis if per_channel else None, symmetric=symmetric, bits=bits
    )
    if isinstance(samples, (np.ndarray, str, bytes)) or not isinstance(samples, Iterable):
        kind = type(samples).__name__
        raise TypeError(f"samples: expected an iterable of arrays, got {kind}")
    for sample in samples:
        calibrator.add(sample)
    return calibrator.result()
