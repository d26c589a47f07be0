"""Matrix B in the NPU's tiles, and 4-bit integers."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from reference import matrices as reference

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels import b_to_native, native_to_b, pack_int4, unpack_int4

#: K, N, tile_k, tile_n, segment_k, as SoCs have them and odd; some segments leave a rest.
SHAPES = [
    (64, 48, 32, 16, None), (7, 9, 7, 3, None), (1, 1, 1, 1, None), (96, 16, 32, 16, 64),
    (6, 10, 3, 5, 3), (64, 32, 32, 32, 128),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_are_those_of_the_formula_and_come_back(shape, dtype):
    """Both ways, between pages that nobody may touch."""
    k, n, tile_k, tile_n, segment_k = shape
    bits = np.random.default_rng(k).integers(0, 2**16, (k, n), np.uint16)
    b = guarded.copy(bits.astype(np.uint8).view(dtype) if dtype[-1] == "8" else bits.view(dtype))
    out = guarded.empty((k * n,), dtype)
    native = b_to_native(b, tile_k, tile_n, segment_k, out=out)
    assert native is out
    assert native.tobytes() == reference.tiles(b, tile_k, tile_n, segment_k).tobytes()
    back = native_to_b(native, k, n, tile_k, tile_n, segment_k, out=guarded.empty((k, n), dtype))
    assert back.tobytes() == b.tobytes()
    assert b_to_native(b, tile_k, tile_n, segment_k).tobytes() == native.tobytes()


@pytest.mark.parametrize("count", [2, 34])
@pytest.mark.parametrize("end", [False, True])
def test_int4_comes_back(count, end):
    """Every value, in both halves of a byte."""
    values = guarded.copy(np.resize(np.arange(-8, 8, dtype=np.int8), count), end)
    packed = pack_int4(values, out=guarded.empty((count // 2,), "uint8", end))
    assert packed.tobytes() == reference.nibbles(values).tobytes()
    assert unpack_int4(packed, out=guarded.empty((count,), "int8", end)).tolist() == values.tolist()
    assert pack_int4(values.reshape(1, -1)).shape == (1, count // 2)


@pytest.mark.parametrize(("value", "position"), [(-128, 0), (-9, 1), (8, 17), (127, 16)])
def test_what_is_no_int4_is_refused(value, position):
    """Wherever it stands; nothing is cut to 4 bits."""
    values = np.zeros(18, np.int8)
    values[position] = value
    with pytest.raises(ValueError, match="-8 to 7 for int4"):
        pack_int4(values)


B = np.zeros((64, 32), np.int8)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: b_to_native(B, 24, 32), "tile_k: expected a divisor of 64"),
        (lambda: b_to_native(B, 32, 24), "tile_n: expected a divisor of 32"),
        (lambda: b_to_native(B, 32, 32, 48), "segment_k: expected a multiple"),
        (lambda: b_to_native(B, 0, 32), "tile_k: expected 1 to"),
        (lambda: b_to_native(B[:, ::2], 32, 16), "C-contiguous"),
        (lambda: b_to_native(B.reshape(-1), 32, 16), "dimensions"),
        (lambda: b_to_native(B, 32, 32, out=np.zeros(7, np.int8)), "out: expected shape"),
        (lambda: b_to_native(B, 32, 32, out=B.reshape(-1)), "shares memory"),
        (lambda: native_to_b(B.reshape(-1), 32, 32, 32, 32), "contradict"),
        (lambda: pack_int4(np.zeros(3, np.int8)), "even number"),
        (lambda: pack_int4(np.zeros((), np.int8)), "even number"),
        (lambda: unpack_int4(np.zeros((), np.uint8)), "dimension"),
    ],
)
def test_wrong_arguments_are_named(call, error):
    """And nothing is written."""
    with pytest.raises(ValueError, match=error):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: b_to_native(B.astype(np.float32), 32, 32),
        lambda: b_to_native([[1]], 1, 1),
        lambda: b_to_native(B, 32.0, 32),
        lambda: native_to_b(B.reshape(-1), "64", 32, 32, 32),
        lambda: pack_int4(np.zeros(4, np.uint8)),
        lambda: unpack_int4(np.zeros(4, np.int8)),
    ],
)
def test_wrong_types_are_refused(call):
    """With a TypeError."""
    with pytest.raises(TypeError):
        call()


def test_c_refuses_what_python_never_passes():
    """Null pointers, other sizes of elements, products that do not fit."""
    data = ffi.new("uint8_t[]", 64)
    half = 2 ** (4 * ffi.sizeof("size_t"))  # its square is one more than fits
    cases = {
        (ffi.NULL, data, 1, 8, 8): lib.RKR_ERR_ARGUMENT,
        (data, ffi.NULL, 1, 8, 8): lib.RKR_ERR_ARGUMENT,
        (data, data, 4, 8, 8): lib.RKR_ERR_ARGUMENT,
        (data, data + 32, 1, half, half): lib.RKR_ERR_OVERFLOW,
        (data, data + 32, 1, 0, 8): lib.RKR_ERR_SHAPE,
        (data, data + 1, 1, 4, 4): lib.RKR_ERR_OVERLAP,
    }
    for function in (lib.rkr_tile_b, lib.rkr_untile_b):
        for (src, dst, size, k, n), expected in cases.items():
            count = k * n % 2**32
            assert function(src, count, dst, count, size, k, n, 1, 1, 1) == expected
    assert lib.rkr_pack_int4(ffi.NULL, 0, data, 0) == lib.RKR_ERR_ARGUMENT
    signed = ffi.cast("int8_t *", data)
    assert lib.rkr_pack_int4(signed, 3, data + 8, 1) == lib.RKR_ERR_SHAPE
    assert lib.rkr_pack_int4(signed, 4, data + 3, 2) == lib.RKR_ERR_OVERLAP
    assert lib.rkr_unpack_int4(data, 2, signed, 5) == lib.RKR_ERR_SHAPE
