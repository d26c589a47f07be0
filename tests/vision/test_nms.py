"""Non-maximum suppression."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import yolo as reference

from rknn_runtime.vision.nms import nms


def boxes(rng, n, size=640, grid=None):
    corner = rng.uniform(-20, size, (n, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(-1, 120, (n, 2))], axis=1)
    return (xyxy if grid is None else np.round(xyxy / grid) * grid).astype(np.float32)


@pytest.mark.parametrize(
    ("n", "classes"),
    [
        *itertools.product((0, 1, 2, 11, 12, 13, 25, 100, 1000), (None, 1, 3, 80)),
        pytest.param(5000, 80, marks=pytest.mark.soak),
    ],
)
def test_equals_the_reference(n, classes):
    """Same indices in the same order, on coarse grids with many equal scores and boxes too."""
    for seed, grid in ((0, None), (1, 16)):
        rng = np.random.default_rng(seed + n)
        xyxy = boxes(rng, n, grid=grid)
        confidence = rng.integers(0, 40, n).astype(np.float32) / 40
        class_id = None if classes is None else rng.integers(0, classes, n).astype(np.int32)
        for threshold in (0.0, 0.45, 1.0):
            kept = nms(xyxy, confidence, class_id, iou_threshold=threshold, max_detections=10000)
            expected = reference.nms(xyxy, confidence, class_id, threshold, 10000)
            assert np.array_equal(kept, expected)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(0, 200), st.floats(0, 1, width=32), st.integers(1, 50)
)
def test_equals_the_reference_anywhere(seed, n, threshold, most):
    """Any threshold and any limit."""
    rng = np.random.default_rng(seed)
    xyxy, confidence = boxes(rng, n, size=100, grid=4), rng.random(n).astype(np.float32)
    class_id = rng.integers(0, 3, n).astype(np.int32)
    kept = nms(xyxy, confidence, class_id, iou_threshold=threshold, max_detections=most)
    assert np.array_equal(kept, reference.nms(xyxy, confidence, class_id, threshold, most))


def test_classes_are_told_apart_by_all_their_bits():
    """Classes that are equal in their lowest byte, and negative ones, are different classes."""
    rng = np.random.default_rng(5)
    xyxy, confidence = boxes(rng, 300, size=60), rng.random(300).astype(np.float32)
    values = np.array([0, 1, 256, 257, 65536, -1, -256, 255, 511, 2**31 - 1], np.int32)
    class_id = rng.choice(values, 300)
    kept = nms(xyxy, confidence, class_id)
    assert np.array_equal(kept, reference.nms(xyxy, confidence, class_id, 0.45, 300))
    one_byte = (class_id & 255).astype(np.int32)
    assert not np.array_equal(kept, nms(xyxy, confidence, one_byte))


def test_a_suppressed_box_suppresses_nothing():
    """Of a chain of overlapping boxes every other one stays."""
    xyxy = np.array([[4 * i, 0, 4 * i + 10, 10] for i in range(5)], np.float32)
    confidence = np.linspace(0.9, 0.5, 5).astype(np.float32)
    assert nms(xyxy, confidence, iou_threshold=0.4).tolist() == [0, 2, 4]


def test_iou_equal_to_the_threshold_is_kept():
    """Only more than the threshold suppresses."""
    xyxy = np.array([[0, 0, 2, 1], [1, 0, 3, 1]], np.float32)
    confidence = np.array([0.9, 0.8], np.float32)
    third = float(np.float32(1) / np.float32(3))
    assert len(nms(xyxy, confidence, iou_threshold=third)) == 2
    assert len(nms(xyxy, confidence, iou_threshold=0.333)) == 1


def test_huge_boxes_do_not_suppress_by_accident():
    """Areas that overflow give no IoU, so nothing is suppressed."""
    xyxy = np.array([[-3e38, -3e38, 3e38, 3e38]] * 2, np.float32)
    assert len(nms(xyxy, np.ones(2, np.float32))) == 2


BOX, ONE = np.zeros((1, 4), np.float32), np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((BOX.astype(float), ONE), {}, TypeError, "xyxy: expected dtype float32"),
        ((BOX, ONE.astype(float)), {}, TypeError, "confidence"),
        ((BOX, ONE, np.zeros(1)), {}, TypeError, "class_id: expected dtype int32"),
        ((BOX.tolist(), ONE), {}, TypeError, "xyxy"),
        ((BOX[0], ONE), {}, ValueError, "xyxy"),
        ((BOX[:, :3].copy(), ONE), {}, ValueError, "shapes"),
        ((BOX, np.ones(2, np.float32)), {}, ValueError, "shapes"),
        ((BOX, ONE, np.zeros(2, np.int32)), {}, ValueError, "shapes"),
        ((np.zeros((1, 8), np.float32)[:, ::2], ONE), {}, ValueError, "contiguous"),
        ((BOX * np.float32(np.nan), ONE), {}, ValueError, "finite"),
        ((BOX, ONE * np.float32(np.inf)), {}, ValueError, "finite"),
        ((BOX, ONE), {"iou_threshold": 1.5}, ValueError, "iou_threshold"),
        ((BOX, ONE), {"iou_threshold": float("nan")}, ValueError, "iou_threshold"),
        ((BOX, ONE), {"iou_threshold": "x"}, TypeError, "iou_threshold: expected a number"),
        ((BOX, ONE), {"max_detections": 0}, ValueError, "max_detections"),
        ((BOX, ONE), {"max_detections": 1.5}, TypeError, "max_detections"),
    ],
)
def test_refusals(arguments, options, error, match):
    """Nothing is converted: the message names the argument."""
    with pytest.raises(error, match=match):
        nms(*arguments, **options)
