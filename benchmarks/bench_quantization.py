"""Dequantization, alone and in one pass with unpacking, beside filling and NumPy."""

from __future__ import annotations

import numpy as np
from _timing import LEVELS, Case, Report, arguments, check, levels

from rknn_runtime._ffi import lib
from rknn_runtime.kernels.quantization import (
    dequantize_affine,
    dequantize_nc1hwc2,
    float16_to_float32,
    float32_to_float16,
    quantize_affine,
)

ZERO_POINT = -5
SCALE = 0.0039

#: Channels and (N, C1, H, W, C2) of outputs of YOLO heads.
OUTPUTS = [
    ("84 x 8400", 84, (1, 6, 1, 8400, 16), "int8"),
    ("84 x 2100", 84, (1, 6, 1, 2100, 16), "int8"),
    ("255 x 80 x 80", 255, (1, 16, 80, 80, 16), "int8"),
    ("84 x 8400", 84, (1, 11, 1, 8400, 8), "int16"),
    ("84 x 8400", 84, (1, 11, 1, 8400, 8), "float16"),
]


def numpy_nchw(src, channels, zero_point, scale):
    """Unpack, widen, subtract, multiply: what one writes without this package."""
    n, c1, height, width, c2 = src.shape
    plain = src.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c2, height, width)[:, :channels]
    if src.dtype == np.float16:
        return plain.astype(np.float32)
    return (plain.astype(np.float32) - np.float32(zero_point)) * np.float32(scale)


def numpy_nhwc(src, channels, zero_point, scale):
    return np.ascontiguousarray(numpy_nchw(src, channels, zero_point, scale).transpose(0, 2, 3, 1))


def compare(report, title, function, by_numpy, inputs):
    """Time the variants of a function(out=) against filling `out`, and against NumPy."""
    expected = by_numpy()
    out = np.empty_like(expected)
    for level in levels():
        lib.rkr_cpu_select(level)
        check(function(*inputs, out=out), expected)
    cases = [Case(LEVELS[level], lambda: function(*inputs, out=out), level) for level in levels()]
    fill, numpy = Case("fill", lambda: out.fill(1)), Case("NumPy", by_numpy)
    report.compare(title, out.nbytes, [*cases, fill, numpy], ["fill", "NumPy"])


def main():
    report = Report(arguments(__doc__))
    random = np.random.default_rng(0)
    for name, channels, shape, dtype in OUTPUTS:
        if dtype == "float16":
            src, parameters = random.standard_normal(shape).astype(dtype), (0, 1.0)
        else:
            limits = np.iinfo(dtype)
            src = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
            parameters = (ZERO_POINT, SCALE)
        for layout, by_numpy in (("NCHW", numpy_nchw), ("NHWC", numpy_nhwc)):
            compare(
                report,
                f"unpack and dequantize {name} {dtype} to {layout}",
                lambda *inputs, out, layout=layout: dequantize_nc1hwc2(
                    *inputs, layout=layout, out=out
                ),
                lambda src=src, channels=channels, parameters=parameters, by_numpy=by_numpy: (
                    by_numpy(src, channels, *parameters)
                ),
                (src, channels, *parameters),
            )
    q = random.integers(-128, 127, (84, 8400), np.int8, endpoint=True)
    x = random.normal(0, 0.4, q.shape).astype(np.float32)
    half = x.astype(np.float16)
    scale, zero_point = np.float32(SCALE), np.float32(ZERO_POINT)
    compare(
        report,
        "dequantize 84 x 8400 int8",
        dequantize_affine,
        lambda: (q.astype(np.float32) - zero_point) * scale,
        (q, ZERO_POINT, SCALE),
    )
    compare(
        report,
        "quantize 84 x 8400 int8",
        lambda *inputs, out: quantize_affine(*inputs, out=out),
        lambda: np.rint(np.clip(x / scale + zero_point, -128, 127)).astype(np.int8),
        (x, ZERO_POINT, SCALE, np.int8),
    )
    compare(
        report,
        "float16 to float32, 84 x 8400",
        float16_to_float32,
        lambda: half.astype(np.float32),
        (half,),
    )
    compare(
        report,
        "float32 to float16, 84 x 8400",
        float32_to_float16,
        lambda: x.astype(np.float16),
        (x,),
    )
    report.finish()


if __name__ == "__main__":
    main()
