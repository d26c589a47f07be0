"""Dequantization, alone and in one pass with unpacking, against filling and NumPy.

int8 to NCHW also against plain tiled C and 20 lines of intrinsics (kernels_baseline.c).
"""

from __future__ import annotations

import ctypes
import tempfile

import numpy as np
from _timing import LEVELS, Case, Report, arguments, check, compiled, levels

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
    ("1 x 80 x 80", 1, (1, 1, 80, 80, 16), "int8"),
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


def strangers(library, src, channels, zero_point, scale):
    """Return the baselines of one output, as functions of the array to write to."""
    positions = src.shape[2] * src.shape[3]

    def case(function):
        rest = ctypes.c_size_t(channels), ctypes.c_size_t(positions), zero_point
        factor, read = ctypes.c_float(scale), ctypes.c_void_p(src.ctypes.data)
        return lambda out: function(read, ctypes.c_void_p(out.ctypes.data), *rest, factor)

    return {"tiled C": case(library.tiled_nchw), "intrinsics": case(library.by_hand_nchw)}


def compare(report, title, function, by_numpy, inputs, others=()):
    """Time the variants of a function(out=) against filling `out`, NumPy and other functions."""
    expected = by_numpy()
    out = np.empty_like(expected)
    for level in levels():
        lib.rkr_cpu_select(level)
        check(function(*inputs, out=out), expected)
    cases = [Case(LEVELS[level], lambda: function(*inputs, out=out), level) for level in levels()]
    cases += [Case("fill", lambda: out.fill(1)), Case("NumPy", by_numpy)]
    for name, other in dict(others).items():
        again = np.empty_like(expected)
        other(again)
        check(again, expected)
        cases.append(Case(name, lambda other=other: other(out)))
    report.compare(title, out.nbytes, cases, ["fill", "NumPy", *dict(others)])


def main():
    report = Report(arguments(__doc__))
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(compiled("kernels_baseline.c", folder))
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
                strangers(library, src, channels, *parameters)
                if (dtype, layout) == ("int8", "NCHW")
                else (),
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
