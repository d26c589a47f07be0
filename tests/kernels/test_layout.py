"""Unpacking and packing of NC1HWC2."""

from __future__ import annotations

from itertools import product

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import layout as reference
from variants import SIZES, random, same_bits, variant

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.layout import (
    nc1hwc2_to_flat,
    nc1hwc2_to_nchw,
    nc1hwc2_to_nhwc,
    nchw_to_nc1hwc2,
    nhwc_to_nc1hwc2,
)

__all__ = ["variant"]

UNPACK = {"NCHW": (nc1hwc2_to_nchw, reference.nchw), "NHWC": (nc1hwc2_to_nhwc, reference.nhwc)}
DTYPES = ("bool", "int8", "uint16", "float32", "int64")
SHAPES = [
    # (N, C1, H, W, C2), channels
    ((1, 1, 1, 1, 1), 1), ((1, 6, 1, 8400, 16), 84), ((2, 4, 7, 9, 8), 25), ((3, 2, 5, 5, 4), 8),
    ((1, 8, 3, 3, 16), 20),  # C1 well above what the channels need
    ((1, 2, 4, 4, 5), 7),  # C2 of no NPU
    ((1, 2, 1, 300, 33), 64), ((0, 2, 4, 4, 16), 20), ((1, 2, 0, 4, 16), 20),
]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(("shape", "channels"), SHAPES)
def test_unpack_equals_the_index_formula(variant, shape, channels):
    """Every element size and shape unpacks by the formula."""
    for dtype, order in product(DTYPES, UNPACK):
        function, oracle = UNPACK[order]
        src = random(shape, np.uint8, 1).astype(dtype) if dtype == "bool" else random(shape, dtype)
        same_bits(function(src, channels), oracle(src, channels))


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize(("itemsize", "c2"), [(1, 16), (1, 8), (2, 8), (2, 4), (4, 4), (8, 2)])
def test_both_ways_stay_inside_their_buffers(variant, itemsize, c2, end):
    """No byte beyond source or result is touched, at any size around the vectors."""
    for positions in SIZES:
        for channels in (1, c2 - 1, c2, c2 + 1, 2 * c2):
            c1 = -(-channels // c2)
            src = guarded.copy(random((1, c1, 1, positions, c2), f"u{itemsize}"), end)
            planes = {}
            for order, (function, oracle) in UNPACK.items():
                expected = oracle(src, channels)
                out = planes[order] = guarded.empty(expected.shape, src.dtype, end)
                assert function(src, channels, out=out) is out
                same_bits(out, expected)
            packed = reference.pack(planes["NCHW"], (1, c1 + 1, 1, positions, c2), 7)
            out = guarded.empty(packed.shape, src.dtype, end)
            options = {"c1": c1 + 1, "pad_value": 7, "out": out}
            same_bits(nchw_to_nc1hwc2(planes["NCHW"], c2, **options), packed)
            out.fill(0)
            same_bits(nhwc_to_nc1hwc2(planes["NHWC"], c2, **options), packed)


@pytest.mark.parametrize("order", UNPACK)
@pytest.mark.parametrize(("height", "width", "plane"), [(7, 7, 52), (21, 37, 780)])
def test_unpack_skips_the_padding_of_a_collapsed_plane(variant, height, width, plane, order):
    """Shapes that runtimes report for H * W that is no multiple of 4 give the H x W tensor."""
    function, oracle = UNPACK[order]
    src = random((2, 2, 1, plane, 16), np.int8)
    actual = function(src, 20, height=height, width=width)
    same_bits(actual, oracle(src, 20, height, width))


def tensors():
    """Draw a packed shape, channels, height and width; the plane may be padded."""

    @st.composite
    def draw_tensor(draw):
        n, c1 = draw(st.integers(0, 3)), draw(st.integers(1, 5))
        c2 = draw(st.sampled_from([4, 8, 16, 16, 16, 1, 3, 32, 50]))
        height, width = draw(st.integers(0, 9)), draw(st.integers(0, 40))
        padded = draw(st.booleans())
        plane = height * width + draw(st.integers(0, 5)) if padded else height * width
        shape = (n, c1, 1, plane, c2) if padded else (n, c1, height, width, c2)
        return shape, draw(st.integers(1, c1 * c2)), height, width

    return draw_tensor()


@settings(deadline=None)
@given(tensors(), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**32))
def test_any_tensor_unpacks_and_packs(variant, tensor, itemsize, seed):
    """Unpacking follows the formula and packing, both ways, undoes it."""
    shape, channels, height, width = tensor
    src = random(shape, f"u{itemsize}", seed)
    size = {"height": height, "width": width}
    expected = reference.nchw(src, channels, height, width)
    nchw = nc1hwc2_to_nchw(src, channels, **size)
    nhwc = nc1hwc2_to_nhwc(src, channels, **size)
    same_bits(nchw, expected)
    same_bits(nhwc, reference.nhwc(src, channels, height, width))
    packing = {"c1": shape[1], "pad_value": 99}
    if shape[2] * shape[3] != height * width or shape[2:4] != (height, width):
        packing["plane"] = shape[2] * shape[3]
    repacked = reference.pack(expected, shape, 99)
    same_bits(nchw_to_nc1hwc2(nchw, shape[4], **packing), repacked)
    same_bits(nhwc_to_nc1hwc2(nhwc, shape[4], **packing), repacked)


@pytest.mark.parametrize(
    ("dtype", "pad"),
    [("int8", -128), ("int16", -32768), ("float16", 1.5), ("int64", -(2**62))],
)
def test_padding_takes_every_dtype(dtype, pad):
    """The pad value is written as an element of the source's dtype."""
    src = random((1, 3, 2, 2), "u1").astype(dtype)
    same_bits(nchw_to_nc1hwc2(src, 4, pad_value=pad), reference.pack(src, (1, 1, 2, 2, 4), pad))


def wrong_sources():
    good = np.zeros((1, 2, 4, 4, 16), np.int8)
    memory = np.zeros(1 + 2 * good.size, np.uint8)
    misaligned = memory[1:].view(np.int16).reshape(good.shape)
    return {
        "list": (good.tolist(), TypeError, "numpy.ndarray, got list"),
        "rank": (good[0], ValueError, r"\(N, C1, H, W, C2\), got shape \(2, 4, 4, 16\)"),
        "complex": (good.astype(np.complex64), TypeError, "got complex64"),
        "object": (good.astype(object), TypeError, "got object"),
        "foreign": (good.astype(">i2"), TypeError, "foreign byte order"),
        "strided": (good[:, :, ::2], ValueError, "C-contiguous"),
        "fortran": (np.asfortranarray(good), ValueError, "C-contiguous"),
        "misaligned": (misaligned, ValueError, "aligned"),
        "no group": (good[:, :0], ValueError, "src: expected C1 and C2 above 0"),
    }


@pytest.mark.parametrize("case", wrong_sources())
def test_unpack_refuses_a_source(case):
    """The error for a wrong source names the expected one and the given one."""
    src, error, message = wrong_sources()[case]
    with pytest.raises(error, match=message):
        nc1hwc2_to_nchw(src, 20)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"channels": 0}, ValueError, "channels: expected 1 to 32, got 0"),
        ({"channels": 2**70}, ValueError, "channels: expected"),
        ({"channels": 20.0}, TypeError, "channels: expected an integer, got 20.0"),
        ({"channels": 20, "height": 4}, ValueError, "height, width: expected both or neither"),
        ({"channels": 20, "height": 2, "width": 8}, ValueError, "expected 4 x 4, got 2 x 8"),
        ({"channels": 20, "height": -4, "width": -4}, ValueError, "height: expected"),
    ],
)
@pytest.mark.parametrize("function", [nc1hwc2_to_nchw, nc1hwc2_to_nhwc])
def test_unpack_refuses_dimensions(function, arguments, error, message):
    """Dimensions that contradict the source are an error; none is clamped."""
    with pytest.raises(error, match=message):
        function(np.zeros((1, 2, 4, 4, 16), np.int8), **arguments)


def test_a_collapsed_plane_must_hold_the_positions():
    """More positions than the plane has are refused."""
    src = np.zeros((1, 2, 1, 52, 16), np.int8)
    with pytest.raises(ValueError, match="at most 52 positions, got 7 x 8"):
        nc1hwc2_to_nchw(src, 20, height=7, width=8)


def wrong_outputs():
    shape = (1, 20, 4, 4)
    locked = np.zeros(shape, np.int8)
    locked.setflags(write=False)
    return {
        "list": ([0], TypeError, "out: expected a numpy.ndarray"),
        "dtype": (np.zeros(shape, np.uint8), TypeError, "out: expected dtype int8, got uint8"),
        "shape": (np.zeros((1, 4, 4, 20), np.int8), ValueError, r"out: expected shape \(1, 20"),
        "size": (np.zeros((1, 20, 4, 5), np.int8), ValueError, "out: expected shape"),
        "strided": (np.zeros((1, 20, 4, 8), np.int8)[..., ::2], ValueError, "C-contiguous"),
        "read-only": (locked, ValueError, "writable"),
    }


@pytest.mark.parametrize("case", wrong_outputs())
def test_out_is_taken_as_it_is_or_refused(case):
    """The error for a wrong ``out`` names the expected one and the given one."""
    out, error, message = wrong_outputs()[case]
    with pytest.raises(error, match=message):
        nc1hwc2_to_nchw(np.zeros((1, 2, 4, 4, 16), np.int8), 20, out=out)


@pytest.mark.parametrize("function", [nc1hwc2_to_nchw, nc1hwc2_to_nhwc])
def test_out_must_not_share_memory_with_the_source(function):
    """One common byte is enough to be refused; neighbours are accepted."""
    memory = np.zeros(2 * 256, np.int8)
    src = memory[:256].reshape(1, 1, 4, 4, 16)
    shape = (1, 16, 4, 4) if function is nc1hwc2_to_nchw else (1, 4, 4, 16)
    with pytest.raises(ValueError, match="shares memory"):
        function(src, 16, out=memory[255:511].reshape(shape))
    function(src, 16, out=memory[256:].reshape(shape))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"c2": 0}, ValueError, "c2: expected 1"),
        ({"c2": 4, "c1": 1}, ValueError, "c1: expected 2"),
        ({"c2": 4, "plane": 5}, ValueError, "plane: expected 6"),
        ({"c2": 4, "pad_value": 128}, ValueError, "pad_value: expected -128 to 127"),
        ({"c2": 4, "pad_value": 0.5}, TypeError, "pad_value: expected an integer"),
        ({"c2": "4"}, TypeError, "c2: expected an integer"),
    ],
)
@pytest.mark.parametrize("function", [nchw_to_nc1hwc2, nhwc_to_nc1hwc2])
def test_pack_refuses_dimensions(function, arguments, error, message):
    """Dimensions that do not hold the source, and pads that do not fit, are errors."""
    shape = (1, 7, 2, 3) if function is nchw_to_nc1hwc2 else (1, 2, 3, 7)
    with pytest.raises(error, match=message):
        function(np.zeros(shape, np.int8), **arguments)


def test_flat_refuses_another_length():
    """The length must be the product of the dimensions."""
    with pytest.raises(ValueError, match="= 120 elements, got 119"):
        nc1hwc2_to_flat(np.zeros(119, np.int8), 2, 3, 5, 4, 7)


UNPACK_C = [lib.rkr_unpack_nchw, lib.rkr_unpack_nhwc]


@pytest.mark.parametrize("function", UNPACK_C)
def test_the_c_entry_validates_what_it_is_given(function):
    """Null, lengths, dimensions and products are checked in C too."""
    src, dst = ffi.new("char[64]"), ffi.new("char[64]")
    good = (1, 3, 4, 1, 4, 4)  # n, c, hw, c1, plane, c2
    assert function(src, 16, dst, 12, 1, *good) == lib.RKR_OK
    assert function(ffi.NULL, 16, dst, 12, 1, *good) == lib.RKR_ERR_ARGUMENT
    assert function(src, 16, ffi.NULL, 12, 1, *good) == lib.RKR_ERR_ARGUMENT
    assert function(src, 16, dst, 12, 3, *good) == lib.RKR_ERR_ARGUMENT
    assert function(src, 15, dst, 12, 1, *good) == lib.RKR_ERR_SHAPE
    assert function(src, 16, dst, 13, 1, *good) == lib.RKR_ERR_SHAPE
    assert function(src, 16, dst, 20, 1, 1, 5, 4, 1, 4, 4) == lib.RKR_ERR_SHAPE
    assert function(src, 16, dst, 15, 1, 1, 3, 5, 1, 4, 4) == lib.RKR_ERR_SHAPE
    assert function(src, 0, dst, 0, 1, 1, 0, 4, 1, 4, 0) == lib.RKR_ERR_SHAPE
    assert function(src, 16, src + 15, 12, 1, *good) == lib.RKR_ERR_OVERLAP
    huge = 2 ** (8 * ffi.sizeof("size_t") - 1)
    assert function(src, 0, dst, 0, 8, huge, 3, 4, 1, 4, 4) == lib.RKR_ERR_OVERFLOW
    assert function(src, 0, dst, 0, 1, 0, 3, 4, huge, 4, 4) == lib.RKR_ERR_OVERFLOW


@pytest.mark.parametrize("pad_value", [None, "1", np.array([1.0, 2.0])])
def test_a_pad_value_of_floats_is_a_number(pad_value):
    """NumPy would make NaN of None and read text: neither is a number here."""
    with pytest.raises(TypeError, match="pad_value: expected a number"):
        nchw_to_nc1hwc2(np.zeros((1, 3, 2, 2), np.float32), 8, pad_value=pad_value)


def test_a_pad_value_beyond_the_dtype_is_refused():
    """It would become infinity."""
    src = np.zeros((1, 3, 2, 2), np.float16)
    with pytest.raises(ValueError, match="pad_value: expected what float16 holds"):
        nchw_to_nc1hwc2(src, 8, pad_value=65536)
    assert np.isinf(nchw_to_nc1hwc2(src, 8, pad_value=np.inf)[0, 0, 0, 0, 7])
