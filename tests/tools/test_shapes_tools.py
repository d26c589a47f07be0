"""The yardstick itself: scenes, float decoders and mAP of tools/shapes, on known answers."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest
from paths import PROJECT

pytest.importorskip("PIL")
TOOLS = PROJECT / "tools" / "shapes"


def load(name: str) -> ModuleType:
    """Import a module of tools/shapes, whose modules import each other by plain name."""
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(TOOLS))


scenes, decode, metrics = load("scenes"), load("decode"), load("metrics")


def test_scene_box_encloses_the_shape():
    """Nothing but the shape's box changes when one shape is painted."""
    rng = np.random.default_rng(1)
    for class_id in range(len(scenes.CLASSES)):
        mask, x0, y0, box = scenes._shape(rng, class_id, 320, 320)
        ys, xs = np.nonzero(mask > 0)
        left, top, right, bottom = scenes._clip(box, 320, 320)
        assert abs(x0 + xs.min() - left) <= 1
        assert abs(y0 + ys.min() - top) <= 1
        assert abs(x0 + xs.max() + 1 - right) <= 1
        assert abs(y0 + ys.max() + 1 - bottom) <= 1


def test_seed_ranges_are_disjoint():
    """No held-out scene was trained on, calibrated with or looked at while training."""
    ranges = [
        scenes.TRAIN_SEEDS,
        scenes.CALIBRATION_SEEDS,
        scenes.PROGRESS_SEEDS,
        scenes.HELD_OUT_SEEDS,
    ]
    ends = [(r.start, r.stop) for r in ranges]
    assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:]))


BOXES = np.array([[0, 0, 10, 10], [20, 20, 40, 40]], np.float32)
TRUTH = [(BOXES, np.array([0, 0]))]


def ap(confidence, boxes, class_id=None):
    """AP at all thresholds for one class and one image."""
    class_id = np.zeros(len(boxes), int) if class_id is None else np.array(class_id)
    found = [(np.array(boxes, np.float32).reshape(-1, 4), np.array(confidence), class_id)]
    return metrics.average_precision(found, TRUTH, 1)[0]


def test_ap_of_a_perfect_answer_is_one():
    """Both objects found exactly: AP 1 at every threshold."""
    np.testing.assert_allclose(ap([0.9, 0.8], BOXES), 1.0)


def test_ap_counts_a_repeated_box_once():
    """hit, repeat, hit: precision 1 up to recall 0.5 (51 points), then 2/3 (50 points)."""
    value = ap([0.9, 0.8, 0.7], [BOXES[0], BOXES[0], BOXES[1]])
    np.testing.assert_allclose(value, (51 + 50 * 2 / 3) / 101)


def test_ap_honours_the_iou_threshold():
    """A box with IoU 0.8 counts up to 0.8 (7 of the 10 thresholds) and no further."""
    value = ap([0.9, 0.8], [[0, 0, 10, 8], BOXES[1]])
    np.testing.assert_allclose(value[:6], 1.0)
    assert (value[7:] < 0.6).all()
