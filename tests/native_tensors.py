"""Float tensors as an NPU would deliver them: quantized, packed, padding full of garbage."""

from __future__ import annotations

import math

import numpy as np

from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.tensor import TensorAttr

RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def quantize(x, dtype, lowest=None, highest=None):
    """Return values, zero point and scale; the range is measured, and holds 0."""
    if dtype not in RANGES:
        return x.astype(dtype), 0, 0.0
    low, high = RANGES[dtype]
    x_low = min(0.0, float(x.min() if lowest is None else lowest))
    x_high = max(1e-6, float(x.max() if highest is None else highest))
    scale = np.float32((x_high - x_low) / (high - low))
    zero_point = round(low - x_low / float(scale))
    q = np.clip(np.rint(x / scale + zero_point), low, high).astype(dtype)
    return q, zero_point, float(scale)


def dequantize(q, zero_point, scale):
    """Return the float32 that a stored value stands for."""
    if q.dtype.kind == "f":
        return q.astype(np.float32)
    return (q.astype(np.int32) - zero_point).astype(np.float32) * np.float32(scale)


def attribute(shape, dtype, zero_point=0, scale=0.0, *, native=None, index=0, name="output0"):
    """Make the logical attribute of an output whose native shape is given.

    Five dimensions are NC1HWC2, four NHWC; None: planar.
    """

    def attr(dims, layout, inner):
        n = math.prod(dims)
        size = n * np.dtype(dtype).itemsize
        kind = TensorType[dtype.upper()]
        return TensorAttr(
            index, name, tuple(dims), layout, kind, QuantType.AFFINE, zero_point, scale, 0,
            n, size, size, 0, 0, inner, None,
        )  # fmt: skip

    planar = Layout.NCHW if len(shape) == 4 else Layout.UNDEFINED
    if native is None:
        return attr(shape, planar, attr(shape, planar, None))
    packed = Layout.NC1HWC2 if len(native) == 5 else Layout.NHWC
    return attr(shape, planar, attr(native, packed, None))


def pack(q, c2, *, c1=None, plane=None, rng=None):
    """Pack ``(1, C, H, W)`` as ``[1, C1, H, W, C2]``, or ``[1, C1, 1, plane, C2]``."""
    rng = rng or np.random.default_rng(0)
    _, channels, height, width = q.shape
    c1 = c1 or -(-channels // c2)
    cells = height * width
    garbage = rng.integers(0, 256, c1 * (plane or cells) * c2 * q.itemsize, dtype=np.uint8)
    out = garbage.view(q.dtype).reshape(c1, plane or cells, c2).copy()
    full = q.reshape(channels, cells)
    for channel in range(channels):
        out[channel // c2, :cells, channel % c2] = full[channel]
    shape = (1, c1, 1, plane, c2) if plane else (1, c1, height, width, c2)
    return out.reshape(shape)


def deliver(x, dtype, form, *, index=0, name="output0", lowest=None, highest=None):
    """Quantize a float tensor and lay it out.

    Args:
        x: ``(1, C, H, W)`` float32.
        dtype: NumPy name of the stored type.
        form: ``"c2=16"``, ``"c2=8"``, ``"pairs"`` (C1 even), ``"padded"`` (a collapsed plane
            that is longer than H * W), ``"nchw"``, ``"nhwc"`` (the logical shape stays NCHW),
            ``"rank3"`` (``[1, C, H * W]``), ``"transposed"`` (``[1, H * W, C]``).
        index: Position among the outputs.
        name: Name of the output.
        lowest: The lower end of the quantized range; None: measured.
        highest: The upper end.

    Returns:
        The attribute, the raw array, and the float32 tensor that it stands for.
    """
    q, zero_point, scale = quantize(x, dtype, lowest, highest)
    real = dequantize(q, zero_point, scale)
    _, channels, height, width = x.shape
    shape, native = x.shape, None
    if form in ("c2=16", "c2=8", "pairs", "padded"):
        c2 = 8 if form == "c2=8" else max(1, 16 // q.itemsize)
        c1 = -(-channels // c2)
        plane = height * width + 5 if form == "padded" else None
        raw = pack(q, c2, c1=c1 + c1 % 2 if form == "pairs" else c1, plane=plane)
        native = raw.shape
    elif form == "nchw":
        raw = q
    elif form == "nhwc":
        raw = np.ascontiguousarray(q.transpose(0, 2, 3, 1))
        native = raw.shape
    else:
        flat = q.reshape(1, channels, -1)
        raw = flat if form == "rank3" else np.ascontiguousarray(flat.transpose(0, 2, 1))
        shape = raw.shape
    attr = attribute(shape, dtype, zero_point, scale, native=native, index=index, name=name)
    return attr, raw, real
