"""Every variant of the kernels, for tests that must hold for each."""

from __future__ import annotations

import numpy as np
import pytest

from rknn_runtime._ffi import lib

LEVELS = {"plain": lib.RKR_CPU_PLAIN, "vector": lib.RKR_CPU_VECTOR}

#: Around the widths of the vectors: 8, 16, 32 and 64 elements.
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97)
CANARY = 0xA5


@pytest.fixture(params=LEVELS, scope="module")  # Hypothesis wants no narrower one
def variant(request):
    """Select one variant for a test; skip what this CPU does not have."""
    before = lib.rkr_cpu_level()
    if lib.rkr_cpu_select(LEVELS[request.param]) != lib.RKR_OK:
        pytest.skip(f"needs a CPU with the {request.param} variant")
    yield request.param
    lib.rkr_cpu_select(before)


def random(shape, dtype, seed=0):
    """Fill an array with random bits."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    bits = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return bits.view(dtype).reshape(shape)


def with_canaries(shape, dtype):
    """Make an output with bytes around it that must stay; returns it and the check."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.full(size + 256, CANARY, np.uint8)

    def check():
        assert (memory[:128] == CANARY).all()
        assert (memory[128 + size :] == CANARY).all()

    return memory[128 : 128 + size].view(dtype).reshape(shape), check


def same_bits(actual, expected):
    """Compare arrays bit by bit: NaNs and signed zeros count."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    unsigned = np.dtype(f"u{actual.itemsize}")
    assert np.array_equal(
        np.ascontiguousarray(actual).view(unsigned), np.ascontiguousarray(expected).view(unsigned)
    )
