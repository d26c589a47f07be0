"""Oriented boxes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_tensors import deliver
from planting import Scene, deliver_all
from planting import split as planted_split
from planting.oriented import iou, planted
from reference import yolo as reference

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads.find import find_head
from rknn_runtime.vision.heads.oriented import SingleOrientedDecoder, SplitOrientedDecoder

SIZE, STRIDES = (192, 256), (8, 16, 32)

in_four_deliveries = pytest.mark.parametrize(
    ("dtype", "form"),
    [("int8", "c2=16"), ("int16", "padded"), ("float16", "c2=8"), ("float32", "nchw")],
)


def assert_equal(found, expected, atol=0.05):
    corners, confidence, class_id = expected
    assert np.array_equal(found.class_id, class_id)
    np.testing.assert_allclose(found.confidence, confidence, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found.xyxyxyxy, corners, rtol=0, atol=atol)
    assert np.array_equal(found.xyxy[:, :2], found.xyxyxyxy.min(axis=1))
    assert np.array_equal(found.xyxy[:, 2:], found.xyxyxyxy.max(axis=1))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1, 10]))
def test_iou_of_random_rectangles(seed, spread):
    """The overlap of two rectangles at any angle equals another algorithm's."""
    rng = np.random.default_rng(seed)
    centred = np.column_stack([rng.normal(0, spread, (2, 2)), rng.uniform(0.5, 10, (2, 2))])
    a, b = reference.corners_of(centred, rng.uniform(-4, 4, 2)).astype(np.float32)
    expected = reference.quadrangle_iou(a, b)
    assert iou(a, b) == pytest.approx(expected, abs=1e-5)
    assert iou(b, a) == pytest.approx(expected, abs=1e-5)
    assert iou(a, b[::-1]) == pytest.approx(expected, abs=1e-5)


def test_iou_of_known_pairs():
    """Equal, apart, touching, one in the other, a square turned by an eighth."""
    square = np.array([[0, 0], [2, 0], [2, 2], [0, 2]], np.float32)
    assert iou(square, square) == pytest.approx(1)
    assert iou(square, square + 5) == 0
    assert iou(square, square + np.array([2, 0])) == 0
    assert iou(square, square * 2 - 1) == pytest.approx(0.25)
    assert iou(square, square + np.array([1, 0])) == pytest.approx(1 / 3)
    turned = reference.corners_of(np.array([[1, 1, 2, 2]]), np.array([np.pi / 4]))[0]
    octagon = 8 * (np.sqrt(2) - 1)
    assert iou(square, turned) == pytest.approx(octagon / (8 - octagon), abs=1e-6)


@pytest.mark.parametrize(
    "bad", [np.zeros((4, 2)), np.full((4, 2), np.nan), np.diag([np.inf] * 4)[:, :2]]
)
def test_iou_of_what_is_no_rectangle(bad):
    """No area, or no numbers: no overlap."""
    square = np.array([[0, 0], [2, 0], [2, 2], [0, 2]], np.float32)
    assert iou(square, bad) == iou(bad, square) == iou(bad, bad) == 0


@pytest.mark.parametrize("form", ["c2=16", "rank3", "transposed"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("normalized", [False, True])
def test_single(dtype, form, normalized):
    """Ultralytics' form: the angle in radians behind the scores; many boxes overlap."""
    rng = np.random.default_rng(4)
    n = sum((SIZE[0] // s) * (SIZE[1] // s) for s in STRIDES)
    x = np.zeros((1, 4 + 3 + 1, n, 1), np.float32)
    unit = np.array([SIZE[1], SIZE[0]] * 2, np.float32)
    x[0, :4, :, 0] = (rng.uniform(0.2, 0.8, (n, 4)) * [1, 1, 0.5, 0.2]).T
    if not normalized:
        x[0, :4, :, 0] *= unit[:, None]
    cells = rng.permutation(n)[:60]
    x[0, 4 + rng.integers(0, 3, 60), cells, 0] = rng.uniform(0.3, 1, 60)
    x[0, 7] = rng.uniform(-0.7, 2.3, (n, 1))
    attr, raw, real = deliver(x, "float32" if not normalized else dtype, form)
    decoder = SingleOrientedDecoder(attr, SIZE, normalized=normalized, iou_threshold=0.3)
    assert decoder.num_classes == 3
    found = decoder(raw)
    values = real[0, :, :, 0]
    centred = values[:4].T * (unit if normalized else 1)
    expected = reference.oriented(centred, values[7], values[4:7].T, 0.25, 0.3)
    assert 10 < len(found) < 60
    assert_equal(found, expected)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: setattr(d._out, "corners", ffi.NULL),
        lambda d: setattr(d._out, "capacity", 1),
        lambda d: setattr(d._angles[0].view, "n_bytes", 3),
        lambda d: setattr(d._angles[0].view, "width", 7),
        lambda d: setattr(d._angles[0], "first", 1),
        lambda d: setattr(d._branches[0], "stride_x", float("nan")),
        lambda d: setattr(d._branches[1].box, "width", 3),
        lambda d: setattr(d._options, "iou_threshold", 1.5),
    ],
)
def test_nonsense_is_refused(spoil):
    """Native code checks all that it is given."""
    scene = Scene(9, SIZE, STRIDES, 3)
    tensors, angles = planted(scene)
    flat = [np.concatenate(pair) for pair in tensors]
    attrs, raw, _ = deliver_all([*flat, angles[None, None]], "float32", "nchw")
    decoder = SplitOrientedDecoder(attrs, SIZE)
    decoder(raw)
    spoil(decoder)
    assert lib.rkr_yolo_decode(decoder._native, ffi.NULL) < 0


def angle_maps(scene, angles, lowest=1e-3):
    """What convolutions give for these angles, as ``(1, h, w)`` per scale."""
    clipped = np.clip(angles.ravel(), lowest, 1 - lowest)
    logits, maps, first = np.log(clipped / (1 - clipped)), [], 0
    for height, width in scene.grids():
        maps.append(logits[first : first + height * width].reshape(1, height, width))
        first += height * width
    return [each.astype(np.float32) for each in maps]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1)])
@in_four_deliveries
def test_angles_per_scale(dtype, form, order):
    """Graphs that are cut behind the last convolutions: box, class and angle of each scale."""
    scene = Scene(1, SIZE, STRIDES, 3)
    tensors = planted_split.planted(scene, 16, logits=True)
    angles = scene.rng.uniform(0, 1, sum(h * w for h, w in scene.grids()))
    parts = [(*pair, each) for pair, each in zip(tensors, angle_maps(scene, angles))]
    attrs, raw, real = deliver_all([part[i] for part in parts for i in order], dtype, form)
    options = {} if dtype.startswith("int") else {"logits": True}
    reading = find_head(attrs, SIZE, "yolov8-obb", 3)
    found = reading.make(**options)(raw)
    by_part = [real[order.index(i) :: 3] for i in range(3)]
    flat = np.concatenate([each.ravel() for each in by_part[2]])
    sigmoid = 1 / (1 + np.exp(-flat.astype(np.float64)))
    pairs = list(zip(by_part[0], by_part[1]))
    expected = reference.split_oriented(pairs, STRIDES, sigmoid, 0.25, 0.45)
    assert len(found) >= len(scene.xyxy) - 2
    assert_equal(found, expected)
    if options == {} and order != (0, 2, 1):  # which may be a class and a keypoint
        assert find_head(attrs, SIZE).head == "yolov8-obb-split"


def test_a_row_of_angles_before_the_sigmoid():
    """An integer output that reaches below 0 is none that a sigmoid gives."""
    scene = Scene(1, SIZE, STRIDES, 3)
    flat = [np.concatenate(p) for p in planted_split.planted(scene, 16, logits=True)]
    angles = scene.rng.uniform(0, 1, sum(h * w for h, w in scene.grids()))
    row = np.concatenate([each.ravel() for each in angle_maps(scene, angles)])
    attrs, raw, real = deliver_all([*flat, row.reshape(1, 1, -1)], "int16", "nchw")
    found = SplitOrientedDecoder(attrs, SIZE)(raw)
    pairs = [(x[:64], x[64:]) for x in real[:-1]]
    sigmoid = 1 / (1 + np.exp(-real[-1].ravel().astype(np.float64)))
    expected = reference.split_oriented(pairs, STRIDES, sigmoid, 0.25, 0.45)
    assert len(found) >= len(scene.xyxy) - 2
    assert_equal(found, expected)


def test_angles_of_yolo26_are_radians():
    """With boxes of one bin, convolutions give the angle itself."""
    scene = Scene(1, SIZE, STRIDES, 3)
    tensors = planted_split.planted(scene, 1, logits=True)
    angles = [scene.rng.uniform(-0.7, 2.3, (1, *grid)).astype(np.float32) for grid in scene.grids()]
    flat = [x for pair, angle in zip(tensors, angles) for x in (*pair, angle)]
    attrs, raw, real = deliver_all(flat, "int16", "c2=8")
    reading = find_head(attrs, SIZE)
    assert reading.head == "yolov8-obb-split"
    radians = np.concatenate([each.ravel() for each in real[2::3]])
    pairs = list(zip(real[::3], real[1::3]))
    expected = reference.split_oriented(pairs, STRIDES, radians / np.pi + 0.25, 0.25, 0.45)
    assert len(expected[0]) >= len(scene.xyxy) - 2
    assert_equal(reading.make()(raw), expected)
