"""The decoders' first pass over native tensors, and their access to single elements."""

from __future__ import annotations

import sys

import guarded
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from variants import SIZES, variant

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib

__all__ = ["variant"]

TYPES = {
    "int8": lib.RKNN_TENSOR_INT8,
    "uint8": lib.RKNN_TENSOR_UINT8,
    "int16": lib.RKNN_TENSOR_INT16,
    "float16": lib.RKNN_TENSOR_FLOAT16,
    "float32": lib.RKNN_TENSOR_FLOAT32,
}


def view_of(raw, channels, cells, zero_point=0, scale=1.0):
    """Describe raw[groups, plane, c2] to C."""
    _, plane, c2 = raw.shape
    return ffi.new(
        "rkr_tensor_view *",
        {
            "data": pointer(raw.reshape(-1)),
            "n_bytes": raw.nbytes,
            "type": TYPES[raw.dtype.name],
            "zero_point": zero_point,
            "scale": scale,
            "channels": channels,
            "height": 1,
            "width": cells,
            "plane": plane,
            "c2": c2,
        },
    )


def logical(raw, channels, cells, zero_point=0, scale=1.0):
    """Return float32 [channels, cells]."""
    q = raw.transpose(0, 2, 1).reshape(-1, raw.shape[1])[:channels, :cells]
    if q.dtype.kind == "f":
        return q.astype(np.float32)
    return (q.astype(np.int32) - zero_point).astype(np.float32) * np.float32(scale)


def scan(raw, channels, cells, first, n, threshold, **quantization):
    hits = np.full(cells + 16, 0xA5, np.uint8)
    view = view_of(raw, channels, cells, **quantization)
    status = lib.rkr_view_scan(view, first, n, threshold, pointer(hits))
    assert status == lib.RKR_OK
    assert (hits[cells:] == 0xA5).all()
    return hits[:cells]


def random_raw(rng, dtype, groups, plane, c2):
    """Make values of which few are high; every byte lies against a forbidden page."""
    shape = (groups, plane, c2)
    if dtype.startswith("float"):
        values = rng.uniform(-1, 1, shape) ** 9
    else:
        info = np.iinfo(dtype)
        values = info.min + (info.max - info.min) * rng.uniform(0, 1, shape) ** 9
    return guarded.copy(values.astype(dtype))


@pytest.mark.parametrize("c2", [1, 2, 4, 8, 16, 5, 33, 84])
@pytest.mark.parametrize("dtype", TYPES)
def test_hits_are_those_of_numpy(variant, dtype, c2):
    """Every layout, channel range and number of cells, at a page's end, in every variant."""
    rng = np.random.default_rng(c2)
    quantization = {} if dtype.startswith("float") else {"zero_point": 7, "scale": 0.013}
    channels = 84 if c2 in (1, 84) else 3 * c2 - 1
    for cells in (*SIZES, 63, 64, 65, 129):
        raw = random_raw(rng, dtype, -(-channels // c2), cells, c2)
        real = logical(raw, channels, cells, **quantization)
        ranges = [(0, channels), (0, 1), (channels - 1, 1), (channels // 3, channels // 2)]
        for first, n in ranges:
            highest = real[first : first + n].max(axis=0)
            for threshold in (0.25, float(np.quantile(highest, 0.9)), float(highest.max())):
                threshold = max(threshold, 1e-6)
                hits = scan(raw, channels, cells, first, n, threshold, **quantization)
                assert np.array_equal(hits, highest >= np.float32(threshold))


def test_lanes_beyond_the_range_do_not_count(variant):
    """Garbage in padding channels and in neighbouring channels is masked."""
    raw = np.full((3, 64, 16), 127, np.int8)
    raw[0, :, 5:] = raw[1] = -128
    raw[2, :, :9] = -128
    assert not scan(raw, 48, 64, 5, 36, 0.5).any()
    assert scan(raw, 48, 64, 5, 37, 0.5).all()
    assert scan(raw, 48, 64, 4, 36, 0.5).all()


@settings(max_examples=300, deadline=None)
@given(
    zero_point=st.integers(-128, 127),
    scale=st.floats(2**-20, 2**20, width=32),
    threshold=st.floats(-(2**27), 2**27, width=32),
)
def test_the_integer_threshold_is_exact(zero_point, scale, threshold):
    """A stored value hits if and only if its dequantized value reaches the threshold."""
    raw = np.arange(-128, 128, dtype=np.int8).reshape(1, 256, 1)
    real = logical(raw, 1, 256, zero_point, scale)[0]
    hits = scan(raw, 1, 256, 0, 1, threshold, zero_point=zero_point, scale=scale)
    assert np.array_equal(hits, real >= np.float32(threshold))


@settings(max_examples=200, deadline=None)
@given(threshold=st.floats(2**-24, 2**17, width=32))
def test_the_float16_threshold_is_exact(threshold):
    """Of all finite float16 values, those from the threshold on hit."""
    bits = np.arange(2**16, dtype=np.uint16)
    raw = bits.view(np.float16)[np.isfinite(bits.view(np.float16))].reshape(1, -1, 1)
    n = raw.shape[1]
    hits = scan(raw, 1, n, 0, 1, threshold)
    assert np.array_equal(hits, raw[0, :, 0].astype(np.float32) >= np.float32(threshold))


def grids_of(*parts):
    """Describe (view, first channel) pairs to C."""
    grids = ffi.new("rkr_yolo_grid[]", len(parts))
    for grid, (view, first) in zip(grids, parts):
        grid.view, grid.first = view[0], first
    return grids


@pytest.mark.parametrize("dtype", TYPES)
def test_gather(dtype):
    """Channel ranges of chosen cells come dequantized, across channel groups and grids."""
    rng = np.random.default_rng(3)
    quantization = {} if dtype.startswith("float") else {"zero_point": 3, "scale": 0.5}
    raws = [random_raw(rng, dtype, 3, 50, 8), random_raw(rng, dtype, 22, 9, 1)]
    real = np.concatenate(
        [
            logical(raws[0], 22, 50, **quantization)[5:18],
            logical(raws[1], 22, 9, **quantization)[9:22],
        ],
        axis=1,
    )
    source = np.array([0, 49, 17, 17, 50, 58], np.uint32)
    out = np.empty((6, 13), np.float32)
    views = [view_of(raws[0], 22, 50, **quantization), view_of(raws[1], 22, 9, **quantization)]
    grids = grids_of((views[0], 5), (views[1], 9))
    status = lib.rkr_yolo_gather(grids, 2, 13, pointer(source), 6, pointer(out))
    assert status == lib.RKR_OK
    assert np.array_equal(out, real[:, source].T)


#: More than the memory holds, and on a 32-bit machine than size_t does.
TOO_LARGE = lib.RKR_ERR_SHAPE if sys.maxsize > 2**32 else lib.RKR_ERR_OVERFLOW


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"data": ffi.NULL}, lib.RKR_ERR_ARGUMENT),
        ({"type": 99}, lib.RKR_ERR_ARGUMENT),
        ({"scale": 0.0}, lib.RKR_ERR_ARGUMENT),
        ({"scale": float("nan")}, lib.RKR_ERR_ARGUMENT),
        ({"zero_point": 2**31 - 1}, lib.RKR_ERR_ARGUMENT),
        ({"channels": 0}, lib.RKR_ERR_SHAPE),
        ({"height": 0}, lib.RKR_ERR_SHAPE),
        ({"c2": 0}, lib.RKR_ERR_SHAPE),
        ({"plane": 49}, lib.RKR_ERR_SHAPE),
        ({"n_bytes": 3 * 50 * 8 - 1}, lib.RKR_ERR_SHAPE),
        ({"channels": 25}, lib.RKR_ERR_SHAPE),
        ({"height": 2**31, "width": 2}, lib.RKR_ERR_SHAPE),
        ({"plane": 2**32 - 1, "c2": 1, "channels": 2**32 - 1}, TOO_LARGE),
        ({"plane": 2**32 - 1, "c2": 2**32 - 1, "channels": 2**32 - 1}, TOO_LARGE),
        ({"type": TYPES["int16"], "data": ffi.cast("void *", 1)}, lib.RKR_ERR_ARGUMENT),
    ],
)
def test_impossible_views_are_refused(change, status):
    """Nothing is read before the numbers of a view are known to fit its memory."""
    raw = np.zeros((3, 50, 8), np.int8)
    view = view_of(raw, 22, 50)
    assert lib.rkr_view_check(view) == lib.RKR_OK
    for name, value in change.items():
        setattr(view, name, value)
    assert lib.rkr_view_check(view) == status
    assert lib.rkr_view_scan(view, 0, 1, 0.5, pointer(np.zeros(50, np.uint8))) == status


@pytest.mark.parametrize(("first", "n"), [(0, 0), (0, 23), (22, 1), (23, 0), (1, 2**32 - 1)])
def test_channel_ranges_outside_are_refused(first, n):
    """A range must lie within the channels."""
    raw = np.zeros((3, 50, 8), np.int8)
    view = view_of(raw, 22, 50)
    out = pointer(np.zeros(50, np.uint8))
    assert lib.rkr_view_scan(view, first, n, 0.5, out) == lib.RKR_ERR_SHAPE
    cells, dst = np.zeros(1, np.uint32), np.zeros(1, np.float32)
    grids = grids_of((view, first))
    status = lib.rkr_yolo_gather(grids, 1, n, pointer(cells), 1, pointer(dst))
    assert status == lib.RKR_ERR_SHAPE


def test_cells_outside_are_refused():
    """Gathering checks every cell before it writes anything."""
    view = view_of(np.zeros((3, 50, 8), np.int8), 22, 50)
    cells, dst = np.array([0, 50], np.uint32), np.full(2, 7, np.float32)
    status = lib.rkr_yolo_gather(grids_of((view, 0)), 1, 1, pointer(cells), 2, pointer(dst))
    assert status == lib.RKR_ERR_ARGUMENT
    assert dst.tolist() == [7, 7]
