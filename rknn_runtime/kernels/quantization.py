"""Quantize and dequantize arrays, the latter also straight from NC1HWC2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    SCALE_RANGE,
    Array,
    as_float,
    as_int,
    check_status,
    pointer,
    result,
    source,
    untyped,
)
from rknn_runtime._ffi import lib
from rknn_runtime.enums import Layout
from rknn_runtime.kernels.layout import limits, packed

__all__ = [
    "dequantize_affine",
    "dequantize_dfp",
    "dequantize_nc1hwc2",
    "float16_to_float32",
    "float32_to_float16",
    "quantize_affine",
]

_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
_INTEGERS = {dtype: limits(dtype) for dtype in map(np.dtype, ("int8", "uint8", "int16"))}
#: The types as C numbers them.
_TYPES = {
    dtype: getattr(lib, f"RKNN_TENSOR_{dtype.name.upper()}") for dtype in (*_INTEGERS, _FLOAT16)
}
#: What unpacks to a layout, by its name and by the enum.
_UNPACK: dict[object, Any] = {
    **dict.fromkeys(("NCHW", Layout.NCHW), lib.rkr_dequantize_nchw),
    **dict.fromkeys(("NHWC", Layout.NHWC), lib.rkr_dequantize_nhwc),
}


def dequantize_affine(
    q: Array, zero_point: SupportsIndex, scale: float, out: Array | None = None
) -> Array:
    """Turn quantized integers into real numbers: ``(q - zero_point) * scale``.

    The subtraction is done in integers, the product in float32.

    Args:
        q: Any shape, int8, uint8 or int16, C-contiguous.
        zero_point: The integer that stands for 0.0, of the range of ``q``'s dtype.
        scale: Positive; what float32 holds as a normal number.
        out: float32 of the same shape to write to.

    Returns:
        ``out``, or a new array.
    """
    q = source(q, "q", _INTEGERS)
    zero_point, scale = _affine(zero_point, scale, q.dtype)
    out = result(out, q.shape, _FLOAT32)
    status = lib.rkr_dequantize(
        _TYPES[q.dtype], untyped(q), q.size, pointer(out), zero_point, scale
    )
    if status:
        check_status(status, "dequantize_affine")
    return out


def dequantize_dfp(q: Array, fl: SupportsIndex, out: Array | None = None) -> Array:
    """Turn dynamic fixed point into real numbers: ``q * 2**-fl``, exactly.

    As `dequantize_affine`, with the fractional length ``fl``, -127 to 126. Beyond float32's range
    the result holds infinity.
    """
    return dequantize_affine(q, 0, 2.0 ** -as_int(fl, "fl", -127, 126), out)


def quantize_affine(
    x: Array,
    zero_point: SupportsIndex,
    scale: float,
    dtype: Any,
    out: Array | None = None,
) -> Array:
    """Turn real numbers into integers: ``round(clamp(x / scale + zero_point))``.

    The formula of the vendor's guide (RKNN API for RK356x, "Quantification and
    dequantization"), evaluated in float32. A half goes to the even integer, as in ONNX
    QuantizeLinear. The clamp is to the range of ``dtype`` and includes infinity.

    Args:
        x: Any shape, float32, C-contiguous.
        zero_point: The integer that stands for 0.0, of the range of ``dtype``.
        scale: Positive; what float32 holds as a normal number.
        dtype: int8, uint8 or int16.
        out: Of that dtype and of the same shape, to write to; undefined after an error.

    Returns:
        ``out``, or a new array.

    Raises:
        ValueError: A NaN in ``x``, a number outside its range, a shape that does not fit, memory
            that C cannot use, or ``out`` overlapping ``x``.
    """
    x = source(x, "x", (_FLOAT32,))
    dtype = np.dtype(dtype)
    if dtype not in _INTEGERS:
        raise TypeError(f"dtype: expected int8, uint8 or int16, got {dtype}")
    zero_point, scale = _affine(zero_point, scale, dtype)
    out = result(out, x.shape, dtype)
    status = lib.rkr_quantize(_TYPES[dtype], pointer(x), x.size, untyped(out), zero_point, scale)
    if status:
        check_status(status, "quantize_affine")
    return out


def float16_to_float32(x: Array, out: Array | None = None) -> Array:
    """Widen float16, any shape and C-contiguous, to ``out`` or a new float32 array, exactly."""
    x = source(x, "x", (_FLOAT16,))
    out = result(out, x.shape, _FLOAT32)
    status = lib.rkr_dequantize(_TYPES[_FLOAT16], untyped(x), x.size, pointer(out), 0, 1.0)
    check_status(status, "float16_to_float32")
    return out


def float32_to_float16(x: Array, out: Array | None = None) -> Array:
    """Narrow float32 to the nearest float16 (IEEE 754: half to even, overflow to infinity).

    ``x`` is float32, ``out`` float16.
    """
    x = source(x, "x", (_FLOAT32,))
    out = result(out, x.shape, _FLOAT16)
    status = lib.rkr_quantize(_TYPES[_FLOAT16], pointer(x), x.size, untyped(out), 0, 1.0)
    check_status(status, "float32_to_float16")
    return out


def dequantize_nc1hwc2(
    src: Array,
    channels: SupportsIndex,
    zero_point: SupportsIndex = 0,
    scale: float = 1.0,
    *,
    height: SupportsIndex | None = None,
    width: SupportsIndex | None = None,
    layout: Layout | str = "NCHW",
    out: Array | None = None,
) -> Array:
    """Unpack a native output and turn it into real numbers, in one pass.

    The same bits as unpacking (`rknn_runtime.kernels.layout`), then `dequantize_affine` or
    `float16_to_float32`.

    Args:
        src: ``(N, C1, H, W, C2)``, int8, uint8, int16 or float16, C-contiguous.
        channels: C, at most ``C1 * C2``.
        zero_point: The integer that stands for 0.0; 0 for float16.
        scale: Positive, a normal float32. For float16, which is not quantized, 1, or the 0
            that runtimes report.
        height: Rows, if ``src`` has the shape ``(N, C1, 1, plane, C2)``.
        width: Columns, likewise; together at most ``plane`` positions.
        layout: Order of the result's dimensions, NCHW or NHWC.
        out: float32 to write to, ``(N, C, height, width)`` or ``(N, height, width, C)``.

    Returns:
        ``out``, or a new array.
    """
    shape, write = unpacking(src, channels, zero_point, scale, height, width, layout)
    return write(result(out, shape, _FLOAT32))


def unpacking(
    src: Array,
    channels: SupportsIndex,
    zero_point: SupportsIndex,
    scale: float,
    height: SupportsIndex | None,
    width: SupportsIndex | None,
    layout: Layout | str,
) -> tuple[tuple[int, ...], Callable[[Array], Array]]:
    """Check the arguments of `dequantize_nc1hwc2` once, for many calls.

    Returns:
        The shape of the result, and a function that writes it to a checked array and returns that.
    """
    src = source(src, "src", _TYPES, "N, C1, H, W, C2")
    n, c, h, w, c1, plane, c2 = packed(src.shape, channels, height, width)
    kernel = _UNPACK.get(layout)
    if kernel is None:
        raise ValueError(f"layout: expected NCHW or NHWC, got {layout!r}")
    if src.dtype != _FLOAT16:
        zero_point, scale = _affine(zero_point, scale, src.dtype)
    elif zero_point == 0 and scale in (0, 1):
        zero_point, scale = 0, 1.0
    else:
        raise ValueError(
            "zero_point, scale: expected 0 and 1 (or 0) for float16, which is not quantized, got "
            f"{zero_point!r} and {scale!r}"
        )
    shape = (n, c, h, w) if kernel is _UNPACK["NCHW"] else (n, h, w, c)
    begin = _TYPES[src.dtype], untyped(src), src.size
    end = n, c, h * w, c1, plane, c2, zero_point, scale

    def write(out: Array) -> Array:
        status = kernel(*begin, pointer(out), out.size, *end)
        if status:
            check_status(status, "dequantize_nc1hwc2")
        return out

    return shape, write


def _affine(zero_point: SupportsIndex, scale: float, dtype: np.dtype[Any]) -> tuple[int, float]:
    """Check a zero point by the range of the dtype, and a scale for a positive normal float32."""
    lowest, highest = _INTEGERS[dtype]
    zero_point = as_int(zero_point, "zero_point", lowest, highest)
    if scale.__class__ is not float:
        scale = as_float(scale, "scale")
    if not SCALE_RANGE[0] <= scale <= SCALE_RANGE[1]:
        raise ValueError(f"scale: expected a positive, normal, finite float32, got {scale}")
    return zero_point, scale
