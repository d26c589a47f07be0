"""Numbers between what a caller has and what the NPU holds, exactly as ``csrc/sim`` computes.

Float32 throughout: ``(value - mean) / std``, then ``rint(real / scale) + zero_point``,
clamped to the type. Records are compared bit by bit, so these two must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.inspect import Preprocessing
from rknn_runtime.sim.bundle import framework_shape, native_dtype
from rknn_runtime.tensor import TensorAttr

__all__ = ["dequantize", "input_values", "is_image", "is_real", "output_values", "real_input"]

if TYPE_CHECKING:  # NumPy before 1.22 has no subscript at run time.
    Array = np.ndarray[Any, Any]
else:
    Array = np.ndarray


def is_image(attr: TensorAttr) -> bool:
    """Whether an input takes uint8 pixels in NHWC, which the NPU normalizes."""
    native = attr.native or attr
    return native.layout is Layout.NHWC and len(native.shape) == 4


def is_real(attr: TensorAttr) -> bool:
    """Whether the graph sees the tensor as float32: floating point and quantized types."""
    return native_dtype(attr) <= TensorType.UINT16


def real_input(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Turn what a caller gives for an input into the numbers that the graph sees.

    Args:
        attr: The input.
        preprocessing: Its mean and std.
        array: An image input: ``(N, H, W, C) uint8``. Any other, in the framework's order:
            float32, or the model's type where that is int32, int64 or bool.

    Returns:
        The numbers in the framework's order (NCHW for images), not yet quantized.

    Raises:
        ValueError: Another shape or dtype.
    """
    dtype = np.dtype(np.float32) if is_real(attr) else native_dtype(attr).numpy
    expected: tuple[Any, tuple[int, ...]] = (dtype, framework_shape(attr))
    if is_image(attr):
        expected = (np.dtype(np.uint8), attr.shape)
    if (array.dtype, array.shape) != expected:
        raise ValueError(
            f"input {attr.name!r}: expected {expected[0]} {expected[1]}, "
            f"got {array.dtype} {array.shape}"
        )
    if not is_image(attr):
        return array
    real = array.transpose(0, 3, 1, 2).astype(np.float32)
    if preprocessing is not None:
        mean, std = (
            np.asarray(values, np.float32).reshape(1, -1, 1, 1)
            for values in (preprocessing.mean, preprocessing.std)
        )
        real = (real - mean) / std
    return np.ascontiguousarray(real)


def input_values(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Turn what a caller gives for an input into the values that reach the graph.

    As `real_input`, but quantized; an array of the model's own type in the framework's
    order is taken as it is.
    """
    if not is_image(attr) and array.dtype == native_dtype(attr).numpy:
        return array
    return _quantize(attr, real_input(attr, preprocessing, array))


def output_values(attr: TensorAttr, array: Array) -> Array:
    """Quantize float32 outputs; an array of the model's own type is taken as it is."""
    if array.dtype == native_dtype(attr).numpy:
        return array
    if array.dtype != np.float32:
        raise ValueError(
            f"output {attr.name!r}: expected {native_dtype(attr).numpy} or float32, "
            f"got {array.dtype}"
        )
    return _quantize(attr, array)


def _scale(attr: TensorAttr) -> np.float32:
    return np.float32(attr.scale if attr.scale > 0 else 1.0)


def _quantize(attr: TensorAttr, real: Array) -> Array:
    dtype = native_dtype(attr).numpy
    if dtype.kind == "f":
        return real.astype(dtype)
    limits = np.iinfo(dtype)
    q = np.rint(real / _scale(attr)).astype(np.float64) + attr.zero_point
    return np.clip(q, limits.min, limits.max).astype(dtype)


def dequantize(attr: TensorAttr, values: Array) -> Array:
    """Turn values of the model's type into what the graph sees.

    float32, ``(q - zero_point) * scale``; int32, int64 and bool stay as they are.
    """
    if not is_real(attr):
        return values
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    return (values.astype(np.int64) - attr.zero_point).astype(np.float32) * _scale(attr)
