"""Keypoints of heatmaps and SimCC, and embeddings."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting import DELIVERIES
from reference.keypoints import dark, peaks

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.vision.heads.keypoints import EmbeddingDecoder, KeypointDecoder

SIZE = (64, 48)


def blobs(count, rows=16, columns=12, seed=0):
    """A Gaussian for each keypoint, some at the edge, in noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:rows, 0:columns]
    maps = rng.uniform(0, 0.05, (count, rows, columns))
    for one in maps:
        cy, cx = rng.uniform(-0.5, rows - 0.5), rng.uniform(-0.5, columns - 0.5)
        one += np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 4)
    return maps.astype(np.float32)[None]


@pytest.mark.parametrize("count", [1, 17, 40])
@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_the_highest_cell_moves_by_a_quarter(dtype, form, count):
    """Towards the higher neighbour, in every layout and type."""
    attr, raw, real = deliver(blobs(count), dtype, form)
    decoder = KeypointDecoder([attr], SIZE)
    expected = peaks(real[0])
    found = decoder(raw)
    assert decoder.count == count and found.dtype == np.float32
    np.testing.assert_allclose(found[:, :2], expected[:, :2] * 4, atol=1e-6)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-6)
    plain = KeypointDecoder([attr], SIZE, shift=0)(raw)
    assert np.array_equal(plain[:, :2] % 4, np.zeros((count, 2)))


@pytest.mark.parametrize(("dtype", "form"), [("int8", "c2=16"), ("float16", "nchw")])
@pytest.mark.parametrize("blur", [5, 11])
def test_dark(dtype, form, blur):
    """DARK finds the middle of a Gaussian between cells; at the edge the cell stays."""
    maps = np.random.default_rng(3).uniform(0, 0.01, (6, 24, 24)).astype(np.float32)
    y, x = np.mgrid[0:24, 0:24]
    middles = np.array([(12.3, 9.8), (11.5, 12.4), (10, 10), (13.9, 8.2), (9.2, 14.6), (0.4, 23)])
    for one, (cx, cy) in zip(maps, middles):
        one += np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 8)
    attr, raw, real = deliver(maps[None], dtype, form)
    size = (96, 96)
    found = KeypointDecoder([attr], size, dark=blur)(raw)[:, :2] / 4
    assert np.abs(found[:5] - middles[:5]).max() < 0.06
    quarters = KeypointDecoder([attr], size)(raw)[:, :2] / 4
    assert np.abs(quarters[:5] - middles[:5]).max() > 0.2
    assert found[5].tolist() == [0, 23]
    np.testing.assert_allclose(found, dark(real[0], blur), atol=1e-4)
    with pytest.raises(ValueError, match="dark: expected an odd number, and heatmaps, got 4"):
        KeypointDecoder([attr], size, dark=4)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize(("ratio", "swapped"), [(2, False), (2, True), (1, False)])
def test_simcc(dtype, ratio, swapped):
    """The highest bins of x and y, whichever output has which; the lower score of both."""
    rng = np.random.default_rng(3)
    axes = [rng.normal(0, 1, (17, n * ratio)).astype(np.float32) for n in SIZE[::-1]]
    attrs, raws, real = [], [], []
    for i, axis in enumerate(axes[::-1] if swapped else axes):
        attr, raw, value = deliver(axis[None, :, :, None], dtype, "rank3", index=i, name=f"o{i}")
        attrs, raws, real = [*attrs, attr], [*raws, raw], [*real, value[0, :, :, 0]]
    decoder = KeypointDecoder(attrs, SIZE)
    assert decoder.is_simcc and decoder.count == 17
    across, down = real[::-1] if swapped else real
    found = decoder(raws[::-1] if swapped else raws)
    assert np.array_equal(found[:, 0], across.argmax(1) / ratio)
    assert np.array_equal(found[:, 1], down.argmax(1) / ratio)
    np.testing.assert_allclose(found[:, 2], np.minimum(across.max(1), down.max(1)), rtol=1e-6)


def test_what_is_not_finite():
    """NaN loses against everything; a map of NaN gives its first cell."""
    maps = blobs(3)
    maps[0, 0].flat[::2] = np.nan
    maps[0, 1] = np.nan
    attr, raw, real = deliver(maps, "float16", "c2=8")
    found = KeypointDecoder([attr], SIZE, shift=0)(raw)
    np.testing.assert_allclose(found[0], peaks(real[0], 0)[0] * (4, 4, 1), rtol=1e-6)
    assert found[1, :2].tolist() == [0, 0] and np.isnan(found[1, 2])


@pytest.mark.parametrize(
    ("shapes", "options", "match"),
    [
        ([(1, 17, 15, 12)], {}, "expected heatmaps"),
        ([(1, 17, 16, 16)], {}, "expected heatmaps"),
        ([(1, 17, 96), (1, 17, 100)], {}, r"SimCC's \[1, keypoints, n \* 48\].*got\n  0: 'o0'"),
        ([(1, 17, 96), (1, 16, 128)], {}, "SimCC"),
        ([(1, 17, 16, 12)], {"shift": 2}, "shift: expected 0..1"),
        ([(1, 17, 16, 12)], {"shift": 10**400}, "shift"),
    ],
)
def test_other_outputs(shapes, options, match):
    """Are refused."""
    attrs = [attribute(s, "float32", index=i, name=f"o{i}") for i, s in enumerate(shapes)]
    with pytest.raises(ValueError, match=match):
        KeypointDecoder(attrs, SIZE, **options)


@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
def test_embeddings_have_length_one(dtype, form):
    """In every layout and type; or they stay as they are."""
    x = np.random.default_rng(5).normal(0, 3, (1, 70, 1, 1)).astype(np.float32)
    attr, raw, real = deliver(x, dtype, form)
    found = EmbeddingDecoder([attr])(raw)
    assert found.shape == (70,) and found.dtype == np.float32
    vector = real.ravel().astype(np.float64)
    np.testing.assert_allclose(found, vector / np.linalg.norm(vector), rtol=1e-6)
    assert np.array_equal(EmbeddingDecoder([attr], normalize=False)(raw), real.ravel())


def test_vectors_without_a_length():
    """Zeros stay zeros, and infinite or NaN values stay."""
    for vector in (np.zeros((1, 8)), np.full((1, 8), np.inf)):
        raw = vector.astype(np.float32)
        assert np.array_equal(EmbeddingDecoder([attribute((1, 8), "float32")])(raw), raw[0])


def test_one_of_several_vectors():
    """By index or name."""
    attrs = [attribute((1, n), "float32", index=i, name=f"o{i}") for i, n in enumerate((4, 8))]
    assert EmbeddingDecoder(attrs, output="o1").numbers == 8
    for options in ({}, {"output": 5}):
        with pytest.raises(ValueError, match="expected one vector"):
            EmbeddingDecoder(attrs, **options)
    with pytest.raises(ValueError, match="expected one vector"):
        EmbeddingDecoder([attribute((1, 4, 2), "float32")])


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize(("channels", "c2"), [(1, 1), (17, 16), (40, 40), (70, 70), (5, 8)])
def test_reads_and_writes_what_it_may(dtype, channels, c2):
    """Guard pages on both sides; bad arguments are refused."""
    rows, columns = 9, 31
    groups = -(-channels // c2)
    data = guarded.copy(np.ones(groups * rows * columns * c2, dtype))
    view = ffi.new("rkr_tensor_view *")
    view.data, view.n_bytes, view.scale = pointer(data), data.nbytes, 0.5
    view.type, view.channels, view.c2 = int(TensorType[dtype.upper()]), channels, c2
    view.height, view.width, view.plane = rows, columns, rows * columns
    points = guarded.empty((channels, 3), np.float32)
    flat = pointer(points.reshape(-1))
    assert lib.rkr_peaks(view, 0.25, flat) == lib.RKR_OK
    assert np.array_equal(points[:, :2], np.zeros((channels, 2)))
    assert lib.rkr_peaks(view, float("nan"), flat) == lib.RKR_ERR_ARGUMENT
    assert lib.rkr_peaks(view, 0.25, ffi.NULL) == lib.RKR_ERR_ARGUMENT
    out = guarded.empty(channels, np.float32)
    assert lib.rkr_embedding(view, 1, pointer(out)) == lib.RKR_ERR_SHAPE
    view.height = view.width = 1
    assert lib.rkr_embedding(view, 1, pointer(out)) == lib.RKR_OK
    assert np.linalg.norm(out) == pytest.approx(1)
    assert lib.rkr_embedding(view, 1, ffi.NULL) == lib.RKR_ERR_ARGUMENT
