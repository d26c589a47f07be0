"""Numbers between what a caller has and what the NPU holds, exactly as ``csrc/sim`` computes.

Float32 throughout: ``(value - mean) / std``, then ``rint(real / scale) + zero_point``,
clamped to the type. Records are compared bit by bit, so these two must agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim.bundle import normalization
from rknn_runtime.tensor import TensorAttr

__all__ = [
    "dequantize",
    "input_values",
    "is_real",
    "output_values",
    "real_input",
]


def is_real(attr: TensorAttr) -> bool:
    """Whether the graph sees the tensor as float32: floating point and quantized types."""
    return attr.stored.dtype <= TensorType.UINT16


def real_input(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Turn what a caller gives for an input into the numbers that the graph sees.

    Args:
        attr: The input.
        preprocessing: Its mean and std.
        array: As `Model.run` takes it, in the attribute's shape: an image as uint8, others
            as float32, or in the model's type where that is int32, int64 or bool.

    Returns:
        The numbers in the framework's order (NCHW for rank 4), not yet quantized.

    Raises:
        ValueError: Another shape or dtype, or a mean and std that do not fit.
    """
    dtype = attr.stored.dtype.numpy
    if attr.takes_pixels:
        dtype = np.dtype(np.uint8)
    elif is_real(attr):
        dtype = np.dtype(np.float32)
    values = _framework_order(attr, array, dtype)
    if not (attr.takes_pixels or is_real(attr)):
        return values
    real = values.astype(np.float32)
    given = normalization(attr, preprocessing)
    if not given[0]:
        return real
    mean, std = (
        np.asarray(numbers, np.float32).reshape((-1, 1, 1) if len(numbers) > 1 else ())
        for numbers in given
    )
    return (real - mean) / std


def input_values(attr: TensorAttr, preprocessing: Preprocessing | None, array: Array) -> Array:
    """Turn what a caller gives for an input into the values that reach the graph.

    As `real_input`, but quantized; of an input that is no image, an array of the model's
    own type is taken as it is.
    """
    dtype = attr.stored.dtype.numpy
    if not attr.takes_pixels and array.dtype == dtype:
        return _framework_order(attr, array, dtype)
    return _quantize(attr, real_input(attr, preprocessing, array))


def _framework_order(attr: TensorAttr, array: Array, dtype: np.dtype[Any]) -> Array:
    if (array.dtype, array.shape) != (dtype, attr.shape):
        raise ValueError(
            f"input {attr.name!r}: expected {dtype} {attr.shape}, got {array.dtype} {array.shape}"
        )
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2) if attr.is_nhwc else array)


def output_values(attr: TensorAttr, array: Array) -> Array:
    """Quantize float32 outputs; an array of the model's own type is taken as it is."""
    if array.dtype == attr.stored.dtype.numpy:
        return array
    if array.dtype != np.float32:
        raise ValueError(
            f"output {attr.name!r}: expected {attr.stored.dtype.numpy} or float32, "
            f"got {array.dtype}"
        )
    return _quantize(attr, array)


def _quantize(attr: TensorAttr, real: Array) -> Array:
    dtype = attr.stored.dtype.numpy
    if dtype.kind == "f":
        return real.astype(dtype)
    limits = np.iinfo(dtype)
    zero_point, scale = attr.affine or (0, 1.0)
    q = np.rint(real / np.float32(scale)).astype(np.float64) + zero_point
    return np.clip(q, limits.min, limits.max).astype(dtype)


def dequantize(attr: TensorAttr, values: Array) -> Array:
    """Turn values of the model's type into what the graph sees.

    float32, ``(q - zero_point) * scale``; int32, int64 and bool stay as they are.
    """
    if not is_real(attr):
        return values
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    zero_point, scale = attr.affine or (0, 1.0)
    return (values.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)
