"""The NPU's NC1HWC2 layout: unpack to NCHW and NHWC, and pack.

Channels come in ``C1`` groups of ``C2``. Element ``(n, c, y, x)`` of an array of shape
``(N, C1, H, W, C2)`` is ``[n, c // C2, y, x, c % C2]``. ``C1 * C2`` may exceed the number of
channels; the padding channels are then undefined. If ``H * W`` is no multiple of 4, the runtimes
lay rows end to end and pad the plane: the shape is ``(N, C1, 1, plane, C2)``, and you give
``height`` and ``width``.
"""

from __future__ import annotations

import math
from typing import Any, Optional, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    MAX_DIMENSION,
    Array,
    as_float,
    as_int,
    check_status,
    result,
    source,
    untyped,
)
from rknn_runtime._ffi import lib

__all__ = [
    "limits",
    "nc1hwc2_to_flat",
    "nc1hwc2_to_nchw",
    "nc1hwc2_to_nhwc",
    "nchw_to_nc1hwc2",
    "nhwc_to_nc1hwc2",
    "packed",
]

#: A number of rows, columns, groups or positions; None: as the shapes say.
Side = Optional[SupportsIndex]
#: An array to write to; None: a new one.
Out = Optional[Array]


def nc1hwc2_to_nchw(
    src: Array, channels: SupportsIndex, *, height: Side = None, width: Side = None, out: Out = None
) -> Array:
    """Unpack NC1HWC2 to NCHW.

    Args:
        src: ``(N, C1, H, W, C2)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        channels: C, at most ``C1 * C2``.
        height: Rows, if ``src`` has the shape ``(N, C1, 1, plane, C2)``.
        width: Columns, likewise; together at most ``plane`` positions.
        out: ``(N, C, height, width)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.
    """
    return _unpack(lib.rkr_unpack_nchw, src, channels, height, width, out)


def nc1hwc2_to_nhwc(
    src: Array, channels: SupportsIndex, *, height: Side = None, width: Side = None, out: Out = None
) -> Array:
    """Unpack NC1HWC2 to NHWC: as `nc1hwc2_to_nchw`, to ``(N, height, width, C)``."""
    return _unpack(lib.rkr_unpack_nhwc, src, channels, height, width, out)


def _unpack(
    kernel: Any, src: Array, channels: SupportsIndex, height: Side, width: Side, out: Out
) -> Array:
    src = source(src, "src", shape="N, C1, H, W, C2")
    n, c, h, w, c1, plane, c2 = packed(src.shape, channels, height, width)
    out = result(out, (n, c, h, w) if kernel is lib.rkr_unpack_nchw else (n, h, w, c), src.dtype)
    status = kernel(
        untyped(src), src.size, untyped(out), out.size, src.itemsize, n, c, h * w, c1, plane, c2
    )
    if status:
        check_status(status, "unpacking of NC1HWC2")
    return out


def packed(
    shape: tuple[int, ...], channels: SupportsIndex, height: Side, width: Side
) -> tuple[int, int, int, int, int, int, int]:
    """Return N, C, height, width, C1, positions of a plane and C2 of an NC1HWC2 array.

    Without height and width they are taken from the shape.
    """
    n, c1, rows, columns, c2 = shape
    if channels.__class__ is not int or not 0 < channels <= c1 * c2:
        if c1 * c2 == 0:
            raise ValueError(f"src: expected C1 and C2 above 0, got shape {shape}")
        channels = as_int(channels, "channels", 1, c1 * c2)
    plane = rows * columns
    if height is None and width is None:
        return n, channels, rows, columns, c1, plane, c2
    if height is None or width is None:
        raise ValueError(f"height, width: expected both or neither, got {height} and {width}")
    height = as_int(height, "height", 0, MAX_DIMENSION)
    width = as_int(width, "width", 0, MAX_DIMENSION)
    fits = height * width <= plane if rows == 1 else (height, width) == (rows, columns)
    if not fits:
        expected = f"at most {plane} positions" if rows == 1 else f"{rows} x {columns}"
        raise ValueError(f"height, width: expected {expected}, got {height} x {width}")
    return n, channels, height, width, c1, plane, c2


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
        c1: Channel groups.
        h: Rows.
        w: Columns.
        c2: Channels of a group.
        channels: Channels that carry data, at most ``c1 * c2``.

    Returns:
        ``(channels * h * w,)``, a copy; channel c at position p is ``[c * h * w + p]``.
    """
    data = source(data, "data", shape="c1 * h * w * c2")
    sizes = {"c1": (c1, 1), "h": (h, 0), "w": (w, 0), "c2": (c2, 1)}
    shape = [as_int(size, name, low, MAX_DIMENSION) for name, (size, low) in sizes.items()]
    if data.size != math.prod(shape):
        raise ValueError(
            f"data: expected c1 * h * w * c2 = {math.prod(shape)} elements, got {data.size}"
        )
    return nc1hwc2_to_nchw(data.reshape(1, *shape), channels).reshape(-1)


def nchw_to_nc1hwc2(
    src: Array,
    c2: SupportsIndex,
    *,
    c1: Side = None,
    plane: Side = None,
    pad_value: float = 0,
    out: Out = None,
) -> Array:
    """Pack NCHW to NC1HWC2.

    Args:
        src: ``(N, C, H, W)``, elements of 1, 2, 4 or 8 bytes, C-contiguous.
        c2: Channels of a group, as the native attribute's shape says.
        c1: Groups; None for as many as the channels need.
        plane: Positions of a plane padded beyond ``H * W``; the result then has the shape
            ``(N, C1, 1, plane, C2)``.
        pad_value: Value of padding channels and positions; for quantized data use the zero
            point, which stands for 0.0.
        out: ``(N, C1, H, W, C2)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: always a copy.
    """
    src = source(src, "src", shape="N, C, H, W")
    return _pack(lib.rkr_pack_nchw, src, src.shape, c2, c1, plane, pad_value, out)


def nhwc_to_nc1hwc2(
    src: Array,
    c2: SupportsIndex,
    *,
    c1: Side = None,
    plane: Side = None,
    pad_value: float = 0,
    out: Out = None,
) -> Array:
    """Pack NHWC, ``(N, H, W, C)``, to NC1HWC2: as `nchw_to_nc1hwc2`."""
    src = source(src, "src", shape="N, H, W, C")
    n, height, width, channels = src.shape
    sizes = n, channels, height, width
    return _pack(lib.rkr_pack_nhwc, src, sizes, c2, c1, plane, pad_value, out)


def _pack(
    kernel: Any,
    src: Array,
    sizes: tuple[int, ...],
    c2: SupportsIndex,
    c1: Side,
    plane: Side,
    pad_value: float,
    out: Out,
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
        lowest, highest = (0, 1) if dtype.kind == "b" else limits(dtype)
        value = as_int(value, "pad_value", lowest, highest)  # type: ignore[arg-type]
    else:
        value = as_float(value, "pad_value")
        if math.isfinite(value) and abs(value) > float(np.finfo(dtype).max):
            raise ValueError(f"pad_value: expected what {dtype.name} holds, got {value}")
    return int.from_bytes(np.array(value, dtype).tobytes(), "little")


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer dtype."""
    found = np.iinfo(dtype)
    return int(found.min), int(found.max)
