"""Quantization and dequantization, plain and fused with unpacking."""

from __future__ import annotations

import subprocess
import sys

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import layout as reference_layout
from reference import quantization as reference
from test_layout import tensors
from variants import SIZES, random, same_bits, variant

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels import quantization

__all__ = ["variant"]

pytestmark = pytest.mark.filterwarnings("error")

DTYPES = ("int8", "uint8", "int16")
#: Zero points at the ends and inside, per dtype.
ZERO_POINTS = {"int8": (-128, -5, 127), "uint8": (0, 17, 255), "int16": (-32768, 3, 32767)}
SCALES = (2.0**-126, 0.003921568859368563, 1e30)
EVERY = {
    "int8": np.arange(-128, 128).astype(np.int8),
    "uint8": np.arange(256).astype(np.uint8),
    "int16": np.arange(-32768, 32768).astype(np.int16),
}
EVERY_HALF = np.arange(65536).astype(np.uint16)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_integer_dequantizes_to_the_formula(variant, dtype, scale):
    """All values of the dtype with zero points at both ends: no subtraction wraps."""
    for zero_point in ZERO_POINTS[dtype]:
        actual = quantization.dequantize_affine(EVERY[dtype], zero_point, scale)
        same_bits(actual, reference.dequantize(EVERY[dtype], zero_point, scale))


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dequantize_stays_inside_its_buffers(variant, dtype, end):
    """No element beyond source or result is touched, at any size around the vectors."""
    for size in SIZES:
        q = guarded.copy(random(size, dtype), end)
        out = guarded.empty(size, np.float32, end)
        quantization.dequantize_affine(q, 3, 0.25, out)
        same_bits(out, reference.dequantize(q, 3, 0.25))


@settings(deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=False), max_size=70),
    st.sampled_from(DTYPES),
    st.integers(-32768, 32767),
    st.floats(2.0**-126, 2.0**127, width=32),
)
def test_any_floats_quantize_to_the_formula(variant, values, dtype, zero_point, scale):
    """Whatever the floats, subnormal and infinite ones too."""
    limits = np.iinfo(dtype)
    zero_point = int(np.clip(zero_point, limits.min, limits.max))
    x = np.array(values, np.float32)
    actual = quantization.quantize_affine(x, zero_point, scale, dtype)
    same_bits(actual, reference.quantize(x, zero_point, scale, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_and_their_neighbours_round_to_the_formula(variant, dtype):
    """Every tie of the range, the float before it and the float after it."""
    limits = np.iinfo(dtype)
    ties = np.arange(limits.min - 2, limits.max + 3, dtype=np.float32) + np.float32(0.5)
    x = np.concatenate(
        [ties, np.nextafter(ties, np.float32(-1e9)), np.nextafter(ties, np.float32(1e9))]
    )
    for zero_point in ZERO_POINTS[dtype]:
        same_bits(
            quantization.quantize_affine(x, zero_point, 1.0, dtype),
            reference.quantize(x, zero_point, 1.0, dtype),
        )


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_stays_inside_its_buffers(variant, dtype, end):
    """No element beyond source or result is touched, at any size around the vectors."""
    for size in SIZES:
        x = guarded.copy(np.linspace(-300, 300, size, dtype=np.float32), end)
        out = guarded.empty(size, dtype, end)
        quantization.quantize_affine(x, 3, 0.75, dtype, out)
        same_bits(out, reference.quantize(x, 3, 0.75, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_refuses_nan_at_any_position(variant, dtype):
    """One NaN, in the main loop or in the tail, is an error."""
    for size in (1, 33):
        for position in {0, size // 2, size - 1}:
            x = np.zeros(size, np.float32)
            x[position] = np.nan
            with pytest.raises(ValueError, match="NaN"):
                quantization.quantize_affine(x, 0, 1.0, dtype)


@pytest.mark.parametrize("fl", [-127, 7, 126])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dfp_is_a_power_of_two(variant, dtype, fl):
    """``q * 2**-fl``, exact, for every integer; infinity beyond float32."""
    with np.errstate(over="ignore"):
        expected = (EVERY[dtype].astype(np.float64) * 2.0**-fl).astype(np.float32)
    same_bits(quantization.dequantize_dfp(EVERY[dtype], fl), expected)


def test_every_float16_widens_to_its_value(variant):
    """All 65536 patterns: subnormals exact, NaNs quiet with sign and payload."""
    actual = quantization.float16_to_float32(EVERY_HALF.view(np.float16))
    same_bits(actual.view(np.uint32), reference.widen_bits(EVERY_HALF))


def test_every_boundary_between_float16_narrows_as_ieee_says(variant):
    """Each float16, each midpoint, their neighbours; overflow, subnormals and NaNs."""
    halves = EVERY_HALF.view(np.float16)
    finite = np.sort(halves[np.isfinite(halves)].astype(np.float64))
    middle = (finite[1:] + finite[:-1]) / 2
    exact = np.concatenate([finite, middle, [65519.9, 65520.0, 65536.0]]).astype(np.float32)
    bits = np.concatenate([exact.view(np.int32) + delta for delta in (-1, 0, 1)])
    bits = bits.astype(np.int32).view(np.uint32)
    actual = quantization.float32_to_float16(bits.view(np.float32))
    same_bits(actual.view(np.uint16), reference.narrow_bits(bits))


@pytest.mark.parametrize("end", [True, False])
def test_float16_conversions_stay_inside_their_buffers(variant, end):
    """No element beyond source or result is touched, at any size around the vectors."""
    for size in SIZES:
        half = guarded.copy(random(size, np.uint16).view(np.float16), end)
        single = guarded.empty(size, np.float32, end)
        quantization.float16_to_float32(half, single)
        same_bits(single.view(np.uint32), reference.widen_bits(half.view(np.uint16)))
        back = guarded.empty(size, np.float16, end)
        quantization.float32_to_float16(single, back)
        same_bits(back.view(np.uint16), reference.narrow_bits(single.view(np.uint32)))


def fused_reference(src, channels, zero_point, scale, height, width, layout):
    order = reference_layout.nchw if layout == "NCHW" else reference_layout.nhwc
    unpacked = order(src, channels, height, width)
    if src.dtype == np.float16:
        return reference.widen_bits(unpacked.view(np.uint16)).view(np.float32)
    return reference.dequantize(unpacked, zero_point, scale)


@settings(deadline=None)
@given(
    tensors(),
    st.sampled_from([*DTYPES, "float16"]),
    st.sampled_from(["NCHW", "NHWC"]),
    st.integers(0, 2**32),
)
def test_any_tensor_dequantizes_in_one_pass(variant, tensor, dtype, layout, seed):
    """The fused kernels give what unpacking and dequantizing give."""
    shape, channels, height, width = tensor
    src = random(shape, dtype, seed)
    zero_point, scale = (0, 1.0) if dtype == "float16" else (5, 0.02)
    actual = quantization.dequantize_nc1hwc2(
        src, channels, zero_point, scale, height=height, width=width, layout=layout
    )
    expected = fused_reference(src, channels, zero_point, scale, height, width, layout)
    same_bits(actual, expected)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [*DTYPES, "float16"])
@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((1, 6, 1, 2100, 16), 84),
        ((1, 1, 1, 1025, 8), 5),
        ((1, 2, 3, 513, 4), 8),
        ((1, 700, 2, 1, 16), 11111),  # more channels than a tile holds
        ((1, 1, 2, 3, 9000), 8999),
    ],
)
def test_large_tensors_dequantize_in_one_pass(variant, shape, channels, dtype, layout):
    """Sizes beyond one tile in positions and in channels, and the real heads."""
    src = random(shape, dtype)
    zero_point, scale = (0, 1.0) if dtype == "float16" else (5, 0.02)
    actual = quantization.dequantize_nc1hwc2(src, channels, zero_point, scale, layout=layout)
    same_bits(actual, fused_reference(src, channels, zero_point, scale, None, None, layout))


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [*DTYPES, "float16"])
def test_one_pass_stays_inside_its_buffers(variant, dtype, layout, end):
    """No element beyond source or result is touched, at any size around the vectors."""
    zero_point, scale = (0, 1.0) if dtype == "float16" else (5, 0.02)
    for positions in SIZES:
        for channels in (1, 4, 15, 16, 17, 33):
            shape = (1, -(-channels // 16), 1, positions, 16)
            src = guarded.copy(random(shape, dtype), end)
            expected = fused_reference(src, channels, zero_point, scale, None, None, layout)
            out = guarded.empty(expected.shape, np.float32, end)
            quantization.dequantize_nc1hwc2(
                src, channels, zero_point, scale, layout=layout, out=out
            )
            same_bits(out, expected)


def test_float16_takes_no_quantization():
    """Float16 needs zero point 0 and scale 1, or the scale 0 that runtimes report."""
    src = random((1, 1, 2, 2, 8), np.float16)
    same_bits(
        quantization.dequantize_nc1hwc2(src, 3), quantization.dequantize_nc1hwc2(src, 3, 0, 0.0)
    )
    for zero_point, scale in ((1, 1.0), (0, 0.5)):
        with pytest.raises(ValueError, match="for float16, which is not quantized"):
            quantization.dequantize_nc1hwc2(src, 3, zero_point, scale)


CALLS = (
    lambda *affine: quantization.dequantize_affine(np.zeros(4, np.int8), *affine),
    lambda *affine: quantization.quantize_affine(np.zeros(4, np.float32), *affine, np.int8),
    lambda *affine: quantization.dequantize_nc1hwc2(
        np.zeros((1, 1, 2, 2, 16), np.int8), 3, *affine
    ),
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("zero_point", "scale", "error", "message"),
    [
        (128, 1.0, ValueError, "zero_point: expected -128 to 127, got 128"),
        (-129, 1.0, ValueError, "zero_point: expected -128 to 127, got -129"),
        (0.0, 1.0, TypeError, "zero_point: expected an integer"),
        (0, 0.0, ValueError, "scale: expected a positive"),
        (0, float("nan"), ValueError, "scale: expected a positive, normal, finite"),
        (0, 1e-40, ValueError, "scale: expected a positive, normal, finite"),
        (0, 10**400, ValueError, "scale: expected a positive, normal, finite"),
        (0, "1", TypeError, "scale: expected a number"),
    ],
)
def test_quantization_parameters_are_checked(call, zero_point, scale, error, message):
    """A zero point outside the dtype or a scale that is no positive number is an error."""
    with pytest.raises(error, match=message):
        call(zero_point, scale)


def floats(n, dtype=np.float32):
    return np.zeros(n, dtype)


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("dequantize_affine", (floats(3), 0, 1.0), "int8, uint8, int16, got"),
        ("dequantize_affine", (floats(3, ">i2"), 0, 1.0), "foreign byte order"),
        ("dequantize_affine", ([1], 0, 1.0), "got list"),
        ("dequantize_affine", (floats(3, "i1"), 0, 1.0, floats(3, float)), "got float64"),
        ("quantize_affine", (floats(3, float), 0, 1.0, np.int8), "float32, got float64"),
        ("quantize_affine", (floats(3), 0, 1.0, np.int32), "dtype: expected int8"),
        ("float16_to_float32", (floats(3),), "float16, got float32"),
        ("float32_to_float16", (floats(3, "f2"),), "float32, got float16"),
        ("dequantize_nc1hwc2", (floats((1, 1, 1, 1, 1), "i4"), 1, 0, 1.0), "got int32"),
    ],
)
def test_another_dtype_is_refused(function, arguments, message):
    """No array is converted silently."""
    with pytest.raises(TypeError, match=message):
        getattr(quantization, function)(*arguments)


def test_memory_is_checked():
    """Strided sources, another shape, read-only and shared results are errors."""
    q = np.zeros((4, 4), np.int8)
    with pytest.raises(ValueError, match="C-contiguous"):
        quantization.dequantize_affine(q.T[1:], 0, 1.0)
    with pytest.raises(ValueError, match=r"shape \(4, 4\), got \(16,\)"):
        quantization.dequantize_affine(q, 0, 1.0, np.zeros(16, np.float32))
    locked = np.zeros((4, 4), np.float32)
    locked.setflags(write=False)
    with pytest.raises(ValueError, match="writable"):
        quantization.dequantize_affine(q, 0, 1.0, locked)
    memory = np.zeros(64, np.uint8)
    with pytest.raises(ValueError, match="shares memory"):
        quantization.dequantize_affine(memory[48:].view(np.int8), 0, 1.0, memory.view(np.float32))
    with pytest.raises(ValueError, match="shares memory"):
        quantization.quantize_affine(
            memory.view(np.float32), 0, 1.0, "i1", memory[48:].view(np.int8)
        )


def test_the_c_entries_validate_what_they_are_given():
    """Null, parameters and products are checked in C too."""
    q, x = ffi.new("int8_t[16]"), ffi.new("float[16]")
    int8, huge = lib.RKNN_TENSOR_INT8, 2 ** (8 * ffi.sizeof("size_t") - 1)
    assert lib.rkr_dequantize(int8, q, 16, x, 0, 1.0) == lib.RKR_OK
    assert lib.rkr_dequantize(int8, ffi.NULL, 16, x, 0, 1.0) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_dequantize(int8, q, 16, x, 128, 1.0) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_dequantize(int8, q, 16, x, 0, float("nan")) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_dequantize(int8, q, huge, x, 0, 1.0) == lib.RKR_ERR_OVERFLOW
    assert lib.rkr_quantize(int8, x, 16, q, 0, 0.0) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_quantize(int8, x, 16, ffi.NULL, 0, 1.0) == lib.RKR_ERR_ARGUMENT
    for wrong in (lib.RKNN_TENSOR_FLOAT32, lib.RKNN_TENSOR_INT64, -1, 2**31 - 1):
        assert lib.rkr_dequantize(wrong, q, 2, x, 0, 1.0) == lib.RKR_ERR_ARGUMENT
        assert lib.rkr_quantize(wrong, x, 2, q, 0, 1.0) == lib.RKR_ERR_ARGUMENT
    nchw = lib.rkr_dequantize_nchw
    assert nchw(int8, q, 16, x, 12, 1, 3, 4, 1, 4, 4, 0, 1.0) == lib.RKR_OK
    assert nchw(int8, q, 16, x, 12, 1, 3, 4, 1, 4, 4, 200, 1.0) == lib.RKR_ERR_ARGUMENT
    assert nchw(int8, q, 16, x, 11, 1, 3, 4, 1, 4, 4, 0, 1.0) == lib.RKR_ERR_SHAPE
    assert nchw(lib.RKNN_TENSOR_INT64, q, 2, x, 2, 1, 1, 1, 1, 1, 1, 0, 1.0) == lib.RKR_ERR_ARGUMENT


def test_levels_above_the_cpu_are_refused():
    """A variant is selected only where it runs, and the best one to begin with."""
    code = "from rknn_runtime._ffi import lib; assert lib.rkr_cpu_level() == lib.rkr_cpu_best()"
    subprocess.run([sys.executable, "-c", code], check=True)
    before = lib.rkr_cpu_level()
    assert lib.rkr_cpu_select(-1) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_cpu_select(lib.RKR_CPU_VECTOR + 1) == lib.RKR_ERR_ARGUMENT
    for level in range(lib.rkr_cpu_best() + 1, lib.RKR_CPU_VECTOR + 1):
        assert lib.rkr_cpu_select(level) == lib.RKR_ERR_UNAVAILABLE
    assert lib.rkr_cpu_level() == before
