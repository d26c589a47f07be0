"""The NPU's NC1HWC2 layout: unpack to NCHW and NHWC, pack, and find elements in place.

Channels come in ``C1`` groups of ``C2``. Element ``(n, c, y, x)`` of an array of shape
``(N, C1, H, W, C2)`` is ``[n, c // C2, y, x, c % C2]``; ``C1 * C2`` may exceed the number
of channels, and what is in the padding channels is undefined. Where ``H * W`` is no
multiple of 4 the runtimes lay rows end to end and pad the plane instead: the shape is then
``(N, C1, 1, plane, C2)``, and ``height`` and ``width`` must be given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    MAX_DIMENSION,
    Array,
    as_float,
    as_int,
    check_status,
    packed,
    result,
    source,
    untyped,
)
from rknn_runtime._ffi import lib
from rknn_runtime._frozen import Frozen
from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr

__all__ = [
    "Nc1hwc2Layout",
    "nc1hwc2_to_flat",
    "nc1hwc2_to_nchw",
    "nc1hwc2_to_nhwc",
    "nchw_to_nc1hwc2",
    "nhwc_to_nc1hwc2",
]


def nc1hwc2_to_nchw(
    src: Array,
    channels: SupportsIndex,
    *,
    height: SupportsIndex | None = None,
    width: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Unpack NC1HWC2 to NCHW.

    Args:
        src: ``(N, C1, H, W, C2)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        channels: C, at most ``C1 * C2``.
        height: rows, where ``src`` has the shape ``(N, C1, 1, plane, C2)``.
        width: columns, likewise; together at most ``plane`` positions.
        out: ``(N, C, height, width)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.

    Raises:
        TypeError: an argument of another type, or an array of another dtype.
        ValueError: shapes that do not fit, memory that is not C-contiguous, aligned and
            (``out``) writable, or ``out`` overlapping ``src``.
    """
    src = source(src, "src", shape="N, C1, H, W, C2")
    n, c, h, w, c1, plane, c2 = packed(src.shape, channels, height, width)
    out = result(out, (n, c, h, w), src.dtype)
    status = lib.rkr_unpack_nchw(
        untyped(src), src.size, untyped(out), out.size, src.itemsize, n, c, h * w, c1, plane, c2
    )
    if status:
        check_status(status, "nc1hwc2_to_nchw")
    return out


def nc1hwc2_to_nhwc(
    src: Array,
    channels: SupportsIndex,
    *,
    height: SupportsIndex | None = None,
    width: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Unpack NC1HWC2 to NHWC.

    Args:
        src: ``(N, C1, H, W, C2)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        channels: C, at most ``C1 * C2``.
        height: rows, where ``src`` has the shape ``(N, C1, 1, plane, C2)``.
        width: columns, likewise; together at most ``plane`` positions.
        out: ``(N, height, width, C)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.

    Raises:
        TypeError: an argument of another type, or an array of another dtype.
        ValueError: shapes that do not fit, memory that is not C-contiguous, aligned and
            (``out``) writable, or ``out`` overlapping ``src``.
    """
    src = source(src, "src", shape="N, C1, H, W, C2")
    n, c, h, w, c1, plane, c2 = packed(src.shape, channels, height, width)
    out = result(out, (n, h, w, c), src.dtype)
    status = lib.rkr_unpack_nhwc(
        untyped(src), src.size, untyped(out), out.size, src.itemsize, n, c, h * w, c1, plane, c2
    )
    if status:
        check_status(status, "nc1hwc2_to_nhwc")
    return out


def nc1hwc2_to_flat(
    data: Array,
    c1: SupportsIndex,
    h: SupportsIndex,
    w: SupportsIndex,
    c2: SupportsIndex,
    channels: SupportsIndex,
) -> Array:
    """Unpack one flat NC1HWC2 tensor to flat NCHW.

    Args:
        data: ``(c1 * h * w * c2,)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        c1: channel groups.
        h: rows.
        w: columns.
        c2: channels of a group.
        channels: channels that carry data, at most ``c1 * c2``.

    Returns:
        ``(channels * h * w,)``, a copy; channel c at position p is ``[c * h * w + p]``.

    Raises:
        TypeError: an argument of another type, or an array of another dtype.
        ValueError: ``data`` has another length, or is not C-contiguous and aligned.
    """
    data = source(data, "data", shape="c1 * h * w * c2")
    shape = (
        1,
        as_int(c1, "c1", 1, MAX_DIMENSION),
        as_int(h, "h", 0, MAX_DIMENSION),
        as_int(w, "w", 0, MAX_DIMENSION),
        as_int(c2, "c2", 1, MAX_DIMENSION),
    )
    if data.size != math.prod(shape):
        raise ValueError(
            f"data: expected c1 * h * w * c2 = {math.prod(shape)} elements, got {data.size}"
        )
    return nc1hwc2_to_nchw(data.reshape(shape), channels).reshape(-1)


def nchw_to_nc1hwc2(
    src: Array,
    c2: SupportsIndex,
    *,
    c1: SupportsIndex | None = None,
    plane: SupportsIndex | None = None,
    pad_value: float = 0,
    out: Array | None = None,
) -> Array:
    """Pack NCHW to NC1HWC2.

    Args:
        src: ``(N, C, H, W)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        c2: channels of a group, as the native attribute's shape says.
        c1: groups; None for as many as the channels need.
        plane: positions of a plane padded beyond ``H * W``; the result then has the shape
            ``(N, C1, 1, plane, C2)``.
        pad_value: what padding channels and positions get; for quantized data the zero
            point, which stands for 0.0.
        out: ``(N, C1, H, W, C2)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.

    Raises:
        TypeError: an argument of another type, or an array of another dtype.
        ValueError: shapes that do not fit, a ``pad_value`` that the dtype cannot hold,
            memory that is not C-contiguous, aligned and (``out``) writable, or ``out``
            overlapping ``src``.
    """
    src = source(src, "src", shape="N, C, H, W")
    n, channels, height, width = src.shape
    sizes = n, channels, height, width
    return _pack(lib.rkr_pack_nchw, src, sizes, c2, c1, plane, pad_value, out)


def nhwc_to_nc1hwc2(
    src: Array,
    c2: SupportsIndex,
    *,
    c1: SupportsIndex | None = None,
    plane: SupportsIndex | None = None,
    pad_value: float = 0,
    out: Array | None = None,
) -> Array:
    """Pack NHWC to NC1HWC2.

    Args:
        src: ``(N, H, W, C)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        c2: channels of a group, as the native attribute's shape says.
        c1: groups; None for as many as the channels need.
        plane: positions of a plane padded beyond ``H * W``; the result then has the shape
            ``(N, C1, 1, plane, C2)``.
        pad_value: what padding channels and positions get; for quantized data the zero
            point, which stands for 0.0.
        out: ``(N, C1, H, W, C2)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.

    Raises:
        TypeError: an argument of another type, or an array of another dtype.
        ValueError: shapes that do not fit, a ``pad_value`` that the dtype cannot hold,
            memory that is not C-contiguous, aligned and (``out``) writable, or ``out``
            overlapping ``src``.
    """
    src = source(src, "src", shape="N, H, W, C")
    n, height, width, channels = src.shape
    sizes = n, channels, height, width
    return _pack(lib.rkr_pack_nhwc, src, sizes, c2, c1, plane, pad_value, out)


def _pack(
    kernel: Any,
    src: Array,
    sizes: tuple[int, int, int, int],
    c2: SupportsIndex,
    c1: SupportsIndex | None,
    plane: SupportsIndex | None,
    pad_value: float,
    out: Array | None,
) -> Array:
    """Pack a checked array of these N, C, H and W."""
    n, channels, height, width = sizes
    if channels == 0:
        raise ValueError(f"src: expected at least one channel, got shape {src.shape}")
    c2 = as_int(c2, "c2", 1, MAX_DIMENSION)
    needed = -(-channels // c2)
    c1 = needed if c1 is None else as_int(c1, "c1", needed, MAX_DIMENSION)
    rows, columns = height, width
    if plane is not None:
        rows, columns = 1, as_int(plane, "plane", height * width, MAX_DIMENSION)
    pad = _bits(pad_value, src.dtype)
    out = result(out, (n, c1, rows, columns, c2), src.dtype)
    status = kernel(
        untyped(src), src.size, untyped(out), out.size, src.itemsize,
        n, channels, height * width, c1, rows * columns, c2, pad,
    )  # fmt: skip
    if status:
        check_status(status, "packing to NC1HWC2")
    return out


def _bits(value: float, dtype: np.dtype[Any]) -> int:
    """The bit pattern of one element; exact for integers, rounded for floats."""
    if dtype.kind != "f":
        lowest, highest = (0, 1) if dtype.kind == "b" else _limits(dtype)
        value = as_int(value, "pad_value", lowest, highest)  # type: ignore[arg-type]
    else:
        value = as_float(value, "pad_value")
        if math.isfinite(value) and abs(value) > float(np.finfo(dtype).max):
            raise ValueError(f"pad_value: expected what {dtype.name} holds, got {value}")
    return int.from_bytes(np.array(value, dtype).tobytes(), "little")


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@dataclass(frozen=True)
class Nc1hwc2Layout(Frozen):
    """Find elements of one native tensor in place, without unpacking it.

    Channel ``c`` of prediction ``p`` (position ``y * width + x`` of batch item 0) is element
    ``channel_offset(c) + p * prediction_stride`` of the flat native array.
    """

    __slots__ = (
        "c1", "c2", "channels", "highest", "lowest", "num_predictions", "plane", "scale",
        "zero_point",
    )  # fmt: skip

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
            attr: a logical attribute (``model.outputs[i]``), or its ``native`` alone, which
                does not tell padding from data: all ``C1 * C2`` channels and all positions
                then count.

        Raises:
            TypeError: ``attr`` is no TensorAttr, or NumPy has no dtype for its elements.
            ValueError: the native layout is not NC1HWC2, the logical one neither NCHW nor NHWC,
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
        lowest, highest = _limits(dtype)
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
        """Element of prediction 0 in a channel.

        Raises:
            TypeError: not an integer.
            ValueError: no such channel.
        """
        channel = as_int(channel, "channel", 0, self.channels - 1)
        return channel // self.c2 * self.plane * self.c2 + channel % self.c2

    def channel_offsets(self, start: SupportsIndex, count: SupportsIndex) -> Array:
        """Offsets of consecutive channels, ``(count,) int64``.

        Raises:
            TypeError: not an integer.
            ValueError: the channels do not all exist.
        """
        start = as_int(start, "start", 0, self.channels)
        count = as_int(count, "count", 0, self.channels - start)
        channels = np.arange(start, start + count, dtype=np.int64)
        return channels // self.c2 * (self.plane * self.c2) + channels % self.c2

    def dequantize(self, raw: Any) -> Any:
        """Turn stored integers, one or an array, into float32: ``(raw - zero_point) * scale``."""
        difference = np.asarray(raw).astype(np.int64) - self.zero_point
        return difference.astype(np.float32) * np.float32(self.scale)

    def integer_threshold(self, threshold: float) -> int:
        """The smallest stored integer whose value reaches ``threshold``.

        ``raw >= integer_threshold(t)`` then equals ``dequantize(raw) >= t``, exactly. One above
        ``highest``, which no element reaches, when the threshold is beyond the
        representable range; ``lowest``, which all reach, when it is below it.

        Raises:
            TypeError: the threshold is no number.
            ValueError: the threshold is NaN, or the scale is not positive.
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
