"""Elements of a native tensor where they are, without unpacking it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import Array, as_float, as_int
from rknn_runtime.enums import Layout
from rknn_runtime.kernels.layout import limits
from rknn_runtime.tensor import TensorAttr


@dataclass(frozen=True)
class Nc1hwc2Layout:
    """Find elements of one native tensor in place, without unpacking it.

    Channel ``c`` of prediction ``p`` (position ``y * width + x`` of batch item 0) is element
    ``channel_offset(c) + p * prediction_stride`` of the flat native array.
    """

    #: Channels that carry data.
    channels: int
    c1: int
    c2: int
    #: Positions from one channel group to the next, padding included.
    plane: int
    #: Positions that carry data, ``H * W``.
    num_predictions: int
    zero_point: int
    scale: float
    #: Range of the stored integers.
    lowest: int
    highest: int

    @classmethod
    def from_attr(cls, attr: TensorAttr) -> Nc1hwc2Layout:
        """Take the layout from an output's attribute.

        Args:
            attr: A logical attribute (``model.outputs[i]``), or its ``native`` alone, whose
                padding then counts as data.

        Raises:
            ValueError: The native layout is not NC1HWC2, the logical one neither NCHW nor NHWC,
                or the elements are not integers.
        """
        if not isinstance(attr, TensorAttr):
            raise TypeError(f"attr: expected a TensorAttr, got {type(attr).__name__}")
        native = attr.stored
        if native.layout is not Layout.NC1HWC2 or len(native.shape) != 5:
            raise ValueError(
                f"{attr.name!r}: expected NC1HWC2 with 5 dimensions in memory, got "
                f"{native.layout.name} {native.shape}"
            )
        dtype = native.dtype.numpy
        if dtype.kind not in "iu":
            raise ValueError(f"{attr.name!r}: expected integer elements, got {dtype.name}")
        _, c1, rows, columns, c2 = native.shape
        channels, positions = c1 * c2, rows * columns
        if attr is not native:
            channels, positions = attr.channels, attr.height * attr.width
        if not (channels <= c1 * c2 and positions <= rows * columns):
            raise ValueError(
                f"{attr.name!r}: expected a native shape that holds {attr.layout.name} "
                f"{attr.shape}, got {native.shape}"
            )
        lowest, highest = limits(dtype)
        # Integers that are not quantized stand for themselves.
        zero_point, scale = native.affine or (0, 1.0)
        return cls(
            channels=channels,
            c1=c1,
            c2=c2,
            plane=rows * columns,
            num_predictions=positions,
            zero_point=zero_point,
            scale=scale,
            lowest=lowest,
            highest=highest,
        )

    @property
    def prediction_stride(self) -> int:
        """Elements from one prediction to the next, in every channel: ``c2``."""
        return self.c2

    def channel_offset(self, channel: SupportsIndex) -> int:
        """Element of prediction 0 in a channel."""
        channel = as_int(channel, "channel", 0, self.channels - 1)
        return channel // self.c2 * self.plane * self.c2 + channel % self.c2

    def channel_offsets(self, start: SupportsIndex, count: SupportsIndex) -> Array:
        """Offsets of consecutive channels, ``(count,) int64``."""
        start = as_int(start, "start", 0, self.channels)
        count = as_int(count, "count", 0, self.channels - start)
        channels = np.arange(start, start + count, dtype=np.int64)
        return channels // self.c2 * (self.plane * self.c2) + channels % self.c2

    def dequantize(self, raw: Any) -> Any:
        """Turn stored integers, one or an array, into float32: ``(raw - zero_point) * scale``."""
        difference = np.asarray(raw).astype(np.int64) - self.zero_point
        return difference.astype(np.float32) * np.float32(self.scale)

    def integer_threshold(self, threshold: float) -> int:
        """Return the smallest stored integer whose value reaches ``threshold``.

        ``raw >= integer_threshold(t)`` then equals ``dequantize(raw) >= t``, exactly. It is
        ``highest + 1`` if no stored integer reaches the threshold, ``lowest`` if all do.
        """
        threshold = as_float(threshold, "threshold")
        if math.isnan(threshold):
            raise ValueError("threshold: expected a number, got nan")
        if not self.scale > 0:
            raise ValueError(f"scale: expected a number above 0, got {self.scale}")
        low, high = self.lowest, self.highest + 1
        while low < high:
            middle = (low + high) // 2
            if float(self.dequantize(middle)) >= threshold:
                high = middle
            else:
                low = middle + 1
        return low
