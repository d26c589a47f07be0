"""The single output of YOLOv8, v9, 11, 12, and that with objectness of YOLOv5 and v7."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting.compare import assert_equal
from reference import yolo as reference

from rknn_runtime.vision.heads.single import SingleOutputDecoder


def predictions(size, strides):
    return sum((size[0] // s) * (size[1] // s) for s in strides)


def planted(rng, size, strides, classes, objects=12, per_cell=1):
    """A head's tensor (1, 4 + classes, n, 1), boxes 0..1, and the objects that are in it."""
    n = per_cell * predictions(size, strides)
    x = np.empty((4 + classes, n), np.float32)
    x[:2] = rng.uniform(0, 1, (2, n))
    x[2:4] = rng.uniform(0.01, 0.3, (2, n))
    x[4:] = rng.uniform(0, 0.15, (classes, n)) ** 2
    truth = []
    for k, cell in enumerate(rng.permutation(n)[: 3 * objects].reshape(objects, 3)):
        centre = [(k % 4 + 0.5) / 4, (k // 4 % 4 + 0.5) / 4]
        box = np.array([*centre, *rng.uniform(0.1, 0.2, 2)], np.float32)
        class_id = int(rng.integers(classes))
        for j, p in enumerate(cell):
            x[:4, p] = box + (rng.uniform(-0.004, 0.004, 4) if j else 0)
            x[4 + class_id, p] = 0.9 - 0.01 * k - 0.1 * j
        truth.append((box, class_id))
    return x[None, :, :, None], truth


def planted_with_objectness(rng, size, strides, classes):
    """The same with three anchors per cell, (1, 5 + classes, 3 * n, 1).

    Scores multiply to those of `planted`; in the background one of them may be high.
    """
    x, truth = planted(rng, size, strides, classes, per_cell=3)
    boxes, scores = x[0, :4, :, 0], x[0, 4:, :, 0]
    best = scores.max(axis=0)
    found = best > 0.2
    objectness = np.where(found, best / 0.95, rng.uniform(0, 0.2, best.shape))
    noise = rng.uniform(0, 0.9, scores.shape)
    scores = np.where(found, np.where(scores == best, 0.95, 0.01), noise)
    whole = np.concatenate([boxes, objectness[None], scores]).astype(np.float32)
    return whole[None, :, :, None], truth


def reference_with_objectness(real, scale):
    boxes = real[0, :4, :, 0].T * np.array([*scale, *scale], np.float32)
    return reference.objectness(boxes, real[0, 4:, :, 0].T, False, 0.25, 0.45)


def matched_iou(a, b):
    left, right = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    inter = np.prod(np.maximum(right - left, 0), axis=1)
    area = np.prod(a[:, 2:] - a[:, :2], axis=1) + np.prod(b[:, 2:] - b[:, :2], axis=1)
    return inter / (area - inter)


@pytest.mark.parametrize("dtype", ["int16", "float16", "float32"])
def test_objectness_in_pixels(dtype):
    """As YOLOv5's and YOLOX's own exporters give it; an int16 scale serves pixels and scores."""
    size = (160, 192)
    x, truth = planted_with_objectness(np.random.default_rng(6), size, (8, 16, 32), 3)
    x[:, :4] *= np.array([192, 160, 192, 160], np.float32)[:, None, None]
    for cut, objectness in ((x, None), (x[:, :, : x.shape[2] // 3 * 2], True)):
        attr, raw, real = deliver(cut, dtype, "transposed")
        decoder = SingleOutputDecoder(attr, size, objectness=objectness)
        assert (decoder.objectness, decoder.normalized) == (True, False)
        found = decoder(raw)
        assert_equal(found, reference_with_objectness(real, (1, 1)), 1e-3)
        assert len(found) > len(truth) / 3


def test_pixels_and_normalized():
    """Boxes in pixels are taken as they are; an integer output that ends below 2 is 0..1."""
    x, _ = planted(np.random.default_rng(1), (320, 320), (32,), 3)
    in_pixels = x.copy()
    in_pixels[:, :4] *= 320
    small, raw_small, _ = deliver(x, "int8", "c2=16")
    floats, raw, _ = deliver(in_pixels, "float32", "rank3")
    a = SingleOutputDecoder(small, (320, 320))
    b = SingleOutputDecoder(floats, (320, 320))
    assert (a.normalized, b.normalized) == (True, False)
    found, expected = a(raw_small), b(raw)
    assert np.array_equal(found.class_id, expected.class_id)
    assert matched_iou(found.xyxy, expected.xyxy).min() > 0.9


def test_one_more_than_the_last_integer():
    """A threshold between the largest stored value and the next one is not clamped to it."""
    scale = np.float32(1 / 256)
    raw = np.full((1, 6, 8), 127, np.int8)
    attr = attribute((1, 6, 8), "int8", -128, float(scale))
    decoder = SingleOutputDecoder(attr, (64, 64), conf_threshold=255 / 256)
    assert len(decoder(raw)) == 1
    decoder.conf_threshold = float(np.nextafter(np.float32(255 / 256), np.float32(1)))
    assert len(decoder(raw)) == 0


@pytest.mark.parametrize("threshold", [0.0, 0.25])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_is_not_finite_is_dropped(dtype, threshold):
    """NaN loses against every other score; infinite scores and boxes give no detection."""
    x = np.zeros((1, 7, 6), dtype)
    x[0, 2:4] = 1
    x[0, 0] = np.arange(6) * 10
    x[0, 4] = 0.5
    x[0, 5, 0] = np.nan
    x[0, 4:, 1] = -np.nan
    x[0, 6, 2] = np.inf
    x[0, 0, 3] = np.inf
    x[0, 3, 4] = np.nan
    attr = attribute(x.shape, dtype)
    decoder = SingleOutputDecoder(attr, (64, 64), conf_threshold=threshold, transposed=False)
    found = decoder(x)
    assert found.xyxy[:, 0].tolist() == [-0.5, 49.5]
    assert found.class_id.tolist() == [0, 0]


def test_equal_scores_keep_the_order_of_the_head():
    """Ties go to the earlier prediction and to the lower class."""
    x = np.zeros((1, 6, 300), np.float32)
    x[0, 0] = np.arange(300) * 10
    x[0, 2:4] = 4
    x[0, 4:] = 0.5
    found = SingleOutputDecoder(attribute(x.shape, "float32"), (64, 4000))(x)
    assert found.xyxy[:, 0].tolist() == (np.arange(300) * 10 - 2).tolist()
    assert set(found.class_id.tolist()) == {0}


def test_limits():
    """max_candidates keeps the best of all, max_detections the best of those."""
    rng = np.random.default_rng(5)
    x = np.zeros((1, 5, 1000), np.float32)
    x[0, 0] = np.arange(1000) * 10
    x[0, 2:4] = 4
    x[0, 4] = rng.integers(300, 310, 1000) / 500
    attr = attribute(x.shape, "float32")
    best = np.argsort(-x[0, 4], kind="stable")
    for limits in ({"max_candidates": 37}, {"max_detections": 37}):
        found = SingleOutputDecoder(attr, (64, 64), **limits)(x)
        assert found.xyxy[:, 0].tolist() == (x[0, 0][best[:37]] - 2).tolist()


def test_class_agnostic():
    """Boxes of two classes on one spot are both kept, unless classes do not count."""
    x = np.zeros((1, 6, 8), np.float32)
    x[0, :4] = [[50], [50], [20], [20]]
    x[0, 4, 0] = x[0, 5, 1] = 0.9
    attr = attribute(x.shape, "float32")
    assert len(SingleOutputDecoder(attr, (64, 64))(x)) == 2
    assert len(SingleOutputDecoder(attr, (64, 64), class_agnostic=True)(x)) == 1


def test_coarse_scores_are_warned_of():
    """One scale for pixels and scores: the warning states the smallest score."""
    for shape, step, smallest in (((1, 84, 8400), 2.5, "1.25"), ((1, 25200, 85), 0.5, "0.25")):
        (symptom,) = SingleOutputDecoder(attribute(shape, "int8", -128, step), (640, 640)).symptoms
        assert f"every score below {smallest} is stored as 0" in symptom.text
        assert "rknn-runtime convert" in symptom.cure
    assert (
        SingleOutputDecoder(attribute((1, 84, 8400), "int8", -128, 0.004), (640, 640)).symptoms
        == ()
    )


@pytest.mark.parametrize(
    ("shape", "options", "error", "match"),
    [
        ((84, 8400), {}, ValueError, r"expected \[1, channels, N\]"),
        ((2, 84, 8400), {}, ValueError, "one image"),
        ((1, 4, 8400), {}, ValueError, "no room"),
        ((1, 5, 25200), {}, ValueError, "no room"),
        ((1, 5, 8400), {"objectness": True}, ValueError, "no room"),
        ((1, 84, 8400), {"num_classes": 81}, ValueError, "no room"),
        ((1, 84, 8400), {"num_classes": 0}, ValueError, "no room"),
        ((1, 84, 8400), {"conf_threshold": -0.1}, ValueError, "conf_threshold"),
        ((1, 84, 8400), {"conf_threshold": float("nan")}, ValueError, "conf_threshold"),
        ((1, 84, 8400), {"conf_threshold": float("inf")}, ValueError, "conf_threshold"),
        ((1, 84, 8400), {"conf_threshold": "0.5"}, TypeError, "conf_threshold: expected a number"),
        ((1, 84, 8400), {"conf_threshold": 10**400}, ValueError, "conf_threshold"),
        ((1, 84, 8400), {"iou_threshold": 1.1}, ValueError, "iou_threshold"),
        ((1, 84, 8400), {"iou_threshold": None}, TypeError, "iou_threshold: expected a number"),
        ((1, 84, 8400), {"max_detections": 0}, ValueError, "max_detections"),
        ((1, 84, 8400), {"max_candidates": 2.5}, TypeError, "max_candidates"),
    ],
)
def test_refusals_at_construction(shape, options, error, match):
    """What cannot be is refused before a frame comes, and the message says what was expected."""
    with pytest.raises(error, match=match):
        SingleOutputDecoder(attribute(shape, "float32"), (640, 640), **options)


def test_refusals_of_a_frame():
    """An array that is not the output's native one is refused, with both named."""
    attr, raw, _ = deliver(np.zeros((1, 6, 40, 1), np.float32), "int8", "c2=16")
    decoder = SingleOutputDecoder(attr, (64, 64))
    with pytest.raises(TypeError, match="expected int8 values, got uint8"):
        decoder(raw.view(np.uint8))
    with pytest.raises(ValueError, match=r"expected the native shape \[1, 1, 40, 1, 16\]"):
        decoder(raw[:, :, :-1])
    with pytest.raises(ValueError, match="C-contiguous"):
        decoder(np.asfortranarray(np.concatenate([raw, raw], 4))[..., ::2])
    with pytest.raises(ValueError, match="expected 1 outputs, got 2"):
        decoder([raw, raw])
    with pytest.raises(TypeError, match="got list"):
        decoder([[1, 2]])


def test_a_native_shape_too_small_is_refused():
    """Attributes that contradict each other never reach the native code."""
    attr = attribute((1, 84, 100, 1), "int8", 0, 0.004, native=(1, 5, 100, 1, 16))
    with pytest.raises(ValueError, match="expected a native shape that holds"):
        SingleOutputDecoder(attr, (64, 64))


@pytest.mark.parametrize(
    ("size", "highest", "normalized"),
    [
        ((640, 640), 1.0, True),
        ((640, 640), 3.6, True),
        ((640, 640), 17.0, True),
        ((640, 640), 635.0, False),
        ((64, 96), 90.0, False),
        ((64, 96), 15.0, True),
    ],
)
def test_the_range_is_compared_with_the_input(size, highest, normalized):
    """What lies beside boxes in 0..1, such as masks or angles, may be above 1, but is no pixel."""
    n = predictions(size, (8, 16, 32))
    attr = attribute((1, 6, n), "int8", -128, highest / 255)
    assert SingleOutputDecoder(attr, size).normalized == normalized


@pytest.mark.parametrize("objectness", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_a_confidence_is_at_most_1(dtype, objectness):
    """Where a step of the scale is above 1, one step stands for 1."""
    x = np.zeros((1, 7, 8), np.float32)
    x[0, :4, :3] = np.array([300, 300, 40, 40])[:, None] + np.arange(3) * 60
    x[0, 4:, :3] = 1.46
    attr, raw, _ = deliver(x[..., None], dtype, "nchw", lowest=0, highest=1.46 * 255)
    decoder = SingleOutputDecoder(attr, (640, 640), normalized=False, objectness=objectness)
    assert decoder(raw).confidence.tolist() == [1, 1, 1]
