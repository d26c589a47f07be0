"""YOLOv5, YOLOv7 and YOLOX."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, dequantize, quantize
from planting import Scene, deliver_all
from planting import yolox as planted_yolox
from planting.anchors import logit, planted, reference_of, sized
from planting.compare import assert_equal, assert_finds
from reference import yolo as reference

from rknn_runtime.vision.heads.anchors import (
    YOLOV5_ANCHORS,
    YOLOV7_ANCHORS,
    AnchorDecoder,
)
from rknn_runtime.vision.heads.yolox import YoloxDecoder


@pytest.mark.parametrize("anchors", [None, YOLOV7_ANCHORS])
def test_published_anchors(anchors):
    """The default anchors are YOLOv5's; others can be given."""
    scene = Scene(4, (640, 640), (8, 16, 32), 3)
    tensors = planted(scene, YOLOV5_ANCHORS if anchors is None else anchors)
    attrs, raw, real = deliver_all(tensors, "int8", "c2=16")
    found = AnchorDecoder(attrs, (640, 640), anchors=anchors)(raw)
    expected = reference_of(real, scene, YOLOV5_ANCHORS if anchors is None else anchors)
    assert len(found) > 5
    assert_equal(found, expected)


@pytest.mark.parametrize("channels_last", [False, True])
def test_rank_5(channels_last):
    """``[1, n, h, w, 5 + c]`` and ``[1, n, 5 + c, h, w]`` hold the same head."""
    scene = Scene(8, (256, 320), (8, 16, 32), 6)
    anchors = sized(scene)
    attrs, raw, real = [], [], []
    for i, tensor in enumerate(planted(scene, anchors)):
        q, zero_point, scale = quantize(tensor, "int8")
        q = q.reshape(1, 3, 11, *tensor.shape[1:])
        q = np.ascontiguousarray(np.moveaxis(q, 2, 4)) if channels_last else q
        attrs.append(attribute(q.shape, "int8", zero_point, scale, index=i, name=f"out{i}"))
        raw.append(q)
        real.append(dequantize(quantize(tensor, "int8")[0], zero_point, scale))
    found = AnchorDecoder(attrs[::-1], (256, 320), anchors=anchors)(raw[::-1])
    assert_equal(found, reference_of(real, scene, anchors))
    assert_finds(found, scene)


@pytest.mark.parametrize("logits", [False, True])
def test_objectness_alone(logits):
    """YOLOv7 leaves the score of a single class untrained: it never halves the confidence."""
    scene = Scene(3, (256, 320), (8, 16, 32), 1)
    anchors = sized(scene)
    tensors = planted(scene, anchors, logits)
    for tensor in tensors:
        tensor[5::6] = logit(0.5) if logits else 0.5
    attrs, raw, real = deliver_all(tensors, "int8", "c2=16")
    options = {"anchors": anchors, "logits": logits}
    found = AnchorDecoder(attrs, (256, 320), class_scores=False, **options)(raw)
    assert_equal(found, reference_of(real, scene, anchors, logits=logits, class_scores=False))
    assert_finds(found, scene)
    assert set(found.class_id) == {0}
    halved = AnchorDecoder(attrs, (256, 320), **options)(raw)
    assert halved.confidence.max() < 0.51 < found.confidence.max()


def test_low_class_scores_raise_what_objectness_needs():
    """The objectness scan misses no product, even if the type cannot hold 1."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 0.6, (18, 32, 32)).astype(np.float32)
    for threshold in (0.05, 0.2, 0.3, 0.359):
        attrs, raw, real = deliver_all([x], "int8", "c2=16")
        anchors = [[(8, 8), (9, 9), (10, 10)]]
        options = {"conf_threshold": threshold, "max_detections": 5000, "iou_threshold": 1.0}
        found = AnchorDecoder(attrs, (256, 256), anchors=anchors, **options)(raw)
        expected = reference.anchors(real, anchors, [(8, 8)], threshold, 1.0, max_detections=5000)
        assert len(found) == len(expected[0])
        assert_equal(found, expected)


# YOLOX


def test_logits_of_yolox():
    """Exports that end before the sigmoid."""
    scene = Scene(3, (256, 256), (8, 16, 32), 4)
    tensors = planted_yolox.planted(scene)
    for t in tensors:
        p = np.clip(t[4:], 1e-4, 1 - 1e-4)
        t[4:] = np.log(p / (1 - p))
    attrs, raw, real = deliver_all(tensors, "int16", "c2=16")
    found = YoloxDecoder(attrs, (256, 256), logits=True)(raw)
    assert_equal(found, planted_yolox.reference_of(real, scene, logits=True))
    assert_finds(found, scene)
