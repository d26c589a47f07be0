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


def test_single_output_decode():
    """Normalised cxcywh becomes pixels xyxy, for both placements of the predictions axis."""
    output = np.zeros((1, 6, 1, 3), np.float32)
    output[0, :, 0, 1] = [0.5, 0.25, 0.2, 0.1, 0.0, 0.9]
    for form in (output, output.reshape(1, 6, 3, 1)):
        boxes, confidence, class_id = decode.decode([form], 100)
        np.testing.assert_allclose(boxes, [[40, 20, 60, 30]], rtol=1e-6)
        np.testing.assert_allclose(confidence, [0.9])
        assert class_id.tolist() == [1]


def split_outputs(per_level):
    """Empty outputs of the split form, 2 classes, 64 x 64 input."""
    outputs = []
    for side in (8, 4, 2):
        level = [np.zeros((1, 64, side, side)), np.zeros((1, 2, side, side))]
        outputs += [*level, np.zeros((1, 1, side, side))][:per_level]
    return outputs


@pytest.mark.parametrize("per_level", [2, 3])
def test_dfl_decode(per_level):
    """A peaked bin is a distance in strides from the cell's centre."""
    outputs = split_outputs(per_level)
    bins = outputs[per_level].reshape(4, 16, 4, 4)
    for side, distance in enumerate((1, 0, 2, 1)):
        bins[side, distance, 2, 1] = 50.0
    outputs[per_level + 1][0, 0, 2, 1] = 0.7
    boxes, confidence, class_id = decode.decode(outputs, 64)
    # centre of column 1, row 2 at stride 16: (24, 40)
    np.testing.assert_allclose(boxes, [[8, 40, 56, 56]], atol=1e-3)
    np.testing.assert_allclose(confidence, [0.7])
    assert class_id.tolist() == [0]


def test_anchor_decode():
    """YOLOv5: xy = 2p - 0.5 + cell, wh = (2p)^2 anchor, score = objectness * class."""
    outputs = [np.zeros((1, 3 * 7, side, side), np.float32) for side in (8, 4, 2)]
    outputs[1].reshape(3, 7, 4, 4)[2, :, 0, 3] = [0.5, 0.75, 0.5, 0.25, 0.8, 0.1, 0.5]
    boxes, confidence, class_id = decode.decode(outputs, 64, conf_threshold=0.3)
    x, y, w, h = (2 * 0.5 - 0.5 + 3) * 16, (2 * 0.75 - 0.5) * 16, 59.0, 119 / 4
    expected = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2]]
    np.testing.assert_allclose(boxes, expected, rtol=1e-6)
    np.testing.assert_allclose(confidence, [0.4], rtol=1e-6)
    assert class_id.tolist() == [1]


def test_nms_is_per_class():
    """A worse box of the same class goes, one of another class stays; 6 outputs keep all."""
    boxes = np.array([[0, 0, 10, 10], [0, 0, 10, 9], [0, 0, 10, 9]], float)
    assert decode.nms(boxes, np.array([0, 0, 1]), 0.5).tolist() == [0, 2]
    for per_level, expected in ((3, 1), (2, 2)):
        outputs = split_outputs(per_level)
        outputs[1][0, 0, 3, 3:5] = 0.9, 0.8
        outputs[0].reshape(4, 16, 8, 8)[:, 6] = 50.0
        assert len(decode.decode(outputs, 64)[0]) == expected
