"""Unpacking and packing of NC1HWC2, against a copy of as many bytes and NumPy."""

from __future__ import annotations

import numpy as np
from _timing import LEVELS, Case, Report, arguments, check, levels

from rknn_runtime._arrays import untyped
from rknn_runtime._ffi import lib
from rknn_runtime.kernels.layout import (
    nc1hwc2_to_nchw,
    nc1hwc2_to_nhwc,
    nchw_to_nc1hwc2,
    nhwc_to_nc1hwc2,
)

#: Channels and (N, C1, H, W, C2): outputs of YOLO heads; planes that alias in the cache; the
#: groups of 8 of the RK3566, and of 16-bit elements.
OUTPUTS = [
    ("84 x 8400 int8", 84, (1, 6, 1, 8400, 16), "int8"),
    ("84 x 2100 int8", 84, (1, 6, 1, 2100, 16), "int8"),
    ("255 x 80 x 80 int8", 255, (1, 16, 80, 80, 16), "int8"),
    ("64 x 64 x 64 int8", 64, (1, 4, 64, 64, 16), "int8"),
    ("84 x 8400 int8, C2 = 8", 84, (1, 11, 1, 8400, 8), "int8"),
    ("84 x 8400 float16", 84, (1, 11, 1, 8400, 8), "float16"),
]


def numpy_nchw(src, channels, out):
    n, c1, height, width, c2 = src.shape
    out[...] = src.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c2, height, width)[:, :channels]


def numpy_nhwc(src, channels, out):
    n, c1, height, width, c2 = src.shape
    out[...] = src.transpose(0, 2, 3, 1, 4).reshape(n, height, width, c1 * c2)[..., :channels]


def native_unpack(native, src, channels, out):
    """Return a call of the C function alone, with all that Python finds out for it."""
    n, c1, height, width, c2 = src.shape
    plane = height * width
    arrays = untyped(src), src.size, untyped(out), out.size
    return lambda: native(*arrays, src.itemsize, n, channels, plane, c1, plane, c2)


def compare(report, title, src, channels, functions):
    """Time one direction after the other against the same copy."""
    unpack, pack, by_numpy, native = functions
    expected = unpack(src, channels)
    other = np.empty_like(expected)
    by_numpy(src, channels, other)
    check(other, expected)
    packed = pack(expected, src.shape[4], c1=src.shape[1])
    check(unpack(packed, channels), expected)
    for level in levels():
        lib.rkr_cpu_select(level)
        check(unpack(src, channels), expected)
        check(pack(expected, src.shape[4], c1=src.shape[1]), packed)
    out, again = np.empty_like(expected), np.empty_like(packed)
    report.compare(
        f"unpack {title}",
        out.nbytes,
        [
            *(
                Case(LEVELS[level], lambda: unpack(src, channels, out=out), level)
                for level in levels()
            ),
            Case("the native part alone", native_unpack(native, src, channels, out)),
            Case("copy", lambda: np.copyto(out, other)),
            Case("NumPy", lambda: by_numpy(src, channels, out)),
        ],
        ["copy", "NumPy"],
    )
    report.compare(
        f"pack {title}",
        again.nbytes,
        [
            *(
                Case(
                    LEVELS[level],
                    lambda: pack(expected, src.shape[4], c1=src.shape[1], out=again),
                    level,
                )
                for level in levels()
            ),
            Case("copy", lambda: np.copyto(again, packed)),
        ],
        ["copy"],
    )


#: Unpack, pack, unpack in NumPy, and the C function behind the first.
LAYOUTS = {
    "NCHW": (nc1hwc2_to_nchw, nchw_to_nc1hwc2, numpy_nchw, lib.rkr_unpack_nchw),
    "NHWC": (nc1hwc2_to_nhwc, nhwc_to_nc1hwc2, numpy_nhwc, lib.rkr_unpack_nhwc),
}


def main():
    report = Report(arguments(__doc__))
    random = np.random.default_rng(0)
    for name, channels, shape, dtype in OUTPUTS:
        n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        src = random.integers(0, 256, n_bytes, dtype=np.uint8).view(dtype).reshape(shape)
        for layout, functions in LAYOUTS.items():
            compare(report, f"{name} {layout}", src, channels, functions)
    report.finish()


if __name__ == "__main__":
    main()
