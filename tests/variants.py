"""Every variant of the kernels, for tests that must hold for each."""

from __future__ import annotations

import numpy as np
import pytest

from rknn_runtime._ffi import lib

LEVELS = {"plain": lib.RKR_CPU_PLAIN, "vector": lib.RKR_CPU_VECTOR}

#: Around the widths of the vectors: 8, 16 and 32 elements, and more than two of them.
SIZES = (1, 3, 8, 9, 15, 17, 31, 32, 33, 65, 97)
CANARY = 0xA5


@pytest.fixture(params=LEVELS, scope="module")  # Hypothesis wants no narrower one
def variant(request):
    """Select one variant for a test; skip what this CPU does not have."""
    before = lib.rkr_cpu_level()
    if lib.rkr_cpu_select(LEVELS[request.param]) != lib.RKR_OK:
        pytest.skip(f"needs a CPU with the {request.param} variant")
    yield request.param
    lib.rkr_cpu_select(before)


def at_every_level(function, *arguments):
    """Return a function's result, which must be the same bytes at every level of the CPU."""
    before, results = lib.rkr_cpu_level(), []
    for level in LEVELS.values():
        if lib.rkr_cpu_select(level) == lib.RKR_OK:
            results.append(function(*arguments).copy())
    lib.rkr_cpu_select(before)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    return results[0]


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
