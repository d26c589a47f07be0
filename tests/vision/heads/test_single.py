"""The single output of YOLOv8, v9, 11, 12, and that with objectness of YOLOv5 and v7."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, deliver, dequantize, quantize
from planting.compare import assert_equal
from reference import yolo as reference

from rknn_runtime.vision.heads import find_head
from rknn_runtime.vision.heads.single import EndToEndDecoder, SingleOutputDecoder


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

    Scores multiply to `planted`'s scores; in the background one of the factors may be high.
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
    """Impossible arguments are refused at construction, and the message has the expected ones."""
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
    """Masks or angles next to boxes in 0..1 may be above 1, and make them no pixels."""
    n = predictions(size, (8, 16, 32))
    attr = attribute((1, 6, n), "int8", -128, highest / 255)
    assert SingleOutputDecoder(attr, size).normalized == normalized


@pytest.mark.parametrize("objectness", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_a_confidence_is_at_most_1(dtype, objectness):
    """If a step of the scale is above 1, one step stands for 1."""
    x = np.zeros((1, 7, 8), np.float32)
    x[0, :4, :3] = np.array([300, 300, 40, 40])[:, None] + np.arange(3) * 60
    x[0, 4:, :3] = 1.46
    attr, raw, _ = deliver(x[..., None], dtype, "nchw", lowest=0, highest=1.46 * 255)
    decoder = SingleOutputDecoder(attr, (640, 640), normalized=False, objectness=objectness)
    assert decoder(raw).confidence.tolist() == [1, 1, 1]


# Graphs that end with their own selection


def rows(n=300, classes=80, size=(480, 640), seed=0):
    """Detections by falling score, most of them background."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 0.7, (n, 2)) * size[::-1]
    far = corner + rng.uniform(0.05, 0.3, (n, 2)) * size[::-1]
    score = np.sort(rng.uniform(0, 1, n) ** 4)[::-1]
    class_id = rng.integers(0, classes, n)
    return np.column_stack([corner, far, score, class_id])[None].astype(np.float32)


def expected(real, scale=(1, 1)):
    """Boxes, scores and classes that NumPy reads from ``(n, 6)`` rows."""
    passed = real[real[:, 4] >= np.float32(0.25)]
    passed = passed[np.argsort(-passed[:, 4], kind="stable")]
    xyxy = passed[:, :4] * np.array([*scale, *scale], np.float32)
    return xyxy, passed[:, 4], np.rint(passed[:, 5]).astype(np.int32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("classes", [1, 80])
def test_rows_above_the_threshold(classes, normalized, dtype):
    """Every row that passes is a detection, in the order of the scores.

    The range of integers tells 0..1 from pixels, whatever the class numbers need of it.
    """
    x = rows(classes=classes)
    if normalized:
        x[..., :4] /= np.array([640, 480, 640, 480], np.float32)
    q, zero_point, scale = quantize(x, dtype)
    attr = attribute(q.shape, dtype, zero_point, scale)
    told = normalized if "float" in dtype else None
    decoder = EndToEndDecoder(attr, (480, 640), normalized=told)
    assert decoder.normalized == normalized
    found = decoder(q)
    real = dequantize(q, zero_point, scale)[0]
    xyxy, confidence, class_id = expected(real, (640, 480) if normalized else (1, 1))
    assert len(found) == len(xyxy) and (len(xyxy) > 50 or scale > 0.25)
    np.testing.assert_allclose(found.xyxy, xyxy, rtol=1e-6, atol=0)
    assert np.array_equal(found.confidence, confidence)
    assert np.array_equal(found.class_id, class_id)
    assert scale > 1 or np.array_equal(np.rint(real[:, 5]), x[0, :, 5])


def test_order_is_made():
    """Rows that come unordered are ordered, equal ones keep their order."""
    x = rows()
    x[0, :, 4] = np.round(np.random.default_rng(1).uniform(0.3, 1, 300), 1)
    found = EndToEndDecoder(attribute(x.shape, "float32"), (480, 640))(x)
    order = np.argsort(-x[0, :, 4], kind="stable")
    assert np.array_equal(found.xyxy, x[0, order, :4])


def test_a_shared_scale_is_warned_of():
    """Boxes, scores and class numbers of one scale: the warning has the smallest score."""
    (symptom,) = EndToEndDecoder(attribute((1, 300, 6), "int16", 0, 0.025), (480, 640)).symptoms
    assert "every score below 0.0125 is stored as 0" in symptom.text


@pytest.mark.parametrize("shape", [(1, 300, 5), (1, 300, 7), (2, 300, 6), (300, 6), (1, 6, 3, 3)])
def test_refusals(shape):
    """Other shapes are refused."""
    with pytest.raises(ValueError, match=r"expected \[1, N, 6\]"):
        EndToEndDecoder(attribute(shape, "float32"), (64, 64))


# Ultralytics' own int8 exports: boxes in 0..1, and all else, in one tensor of one scale


SIZE = (320, 320)
N = 40 * 40 + 20 * 20 + 10 * 10
#: Centre and size in 0..1, class, and the prediction that reports it.
OBJECTS = [
    ((0.20, 0.25, 0.20, 0.30), 3, 100),
    ((0.70, 0.30, 0.40, 0.20), 0, 1700),
    ((0.50, 0.75, 0.30, 0.25), 7, 2050),
]
TRUTH = np.array([box for box, _, _ in OBJECTS])


def exported(classes, lowest, highest, extra):
    """Return the attribute and the array of the head, whose channels need this range.

    Args:
        classes: How many.
        lowest: The smallest value of the tensor, and
        highest: The largest, which only channels behind the class scores have.
        extra: ``(channels, objects)``, what these are for the objects.
    """
    random = np.random.default_rng(0)
    x = np.zeros((4 + classes + len(extra), N), np.float32)
    x[:4] = random.uniform(0, 0.3, (4, N))
    x[4 + classes :] = random.uniform(lowest, highest, (len(extra), N))
    for k, (box, class_id, cell) in enumerate(OBJECTS):
        x[:4, cell] = box
        x[4 + class_id % classes, cell] = 0.9 - 0.1 * k
        x[4 + classes :, cell] = extra[:, k]
    attr, raw, _ = deliver(x[None, :, :, None], "int8", "rank3", lowest=lowest, highest=highest)
    return attr, raw


def decoded(attrs, raw, labels, head):
    """Find the head, as a detector does with so many labels, and decode in pixels."""
    reading = find_head(attrs, SIZE, num_classes=labels)
    assert reading.head == head
    decoder = reading.make()
    assert decoder.normalized
    found = decoder(raw)
    assert found.class_id.tolist() == [class_id % labels for _, class_id, _ in OBJECTS]
    np.testing.assert_allclose(found.confidence, [0.9, 0.8, 0.7], atol=0.015)
    return found


def corners_of(boxes):
    """Return centred boxes in 0..1 as xyxy in pixels."""
    return (
        np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
        * (SIZE[0])
    )


def test_masks():
    """Coefficients reach from -3.5 to 3.5: too far for 0..1, not as far as pixels."""
    coefficients = np.zeros((32, len(OBJECTS)))
    coefficients[0], coefficients[1] = 3.5, -3.5
    attr, raw = exported(80, -3.5, 3.5, coefficients)
    planes = np.zeros((1, 32, 80, 80), np.float32)
    planes[0, 0] = 1  # the mask is all of the box,
    planes[0, 1, :, 64:] = 4  # but not what is to the right of column 256
    prototypes, raw_planes, _ = deliver(planes, "int8", "c2=16", index=1)
    found = decoded([attr, prototypes], [raw, raw_planes], 80, "yolov8-seg-single")
    np.testing.assert_allclose(found.xyxy, corners_of(TRUTH), atol=7)
    for mask, (left, top, right, bottom) in zip(found.mask, found.xyxy):
        expected = (min(right, 256) - left) * (bottom - top)
        assert abs(mask.sum() - expected) < 0.06 * expected
    assert [each.kind for each in find_head([attr, prototypes], SIZE).make().symptoms] == [
        "shared-scale"
    ]


def test_keypoints():
    """They are in 0..1 of the input, too, and some of them outside of it."""
    points = np.random.default_rng(1).uniform(-0.4, 1.4, (17, 3, len(OBJECTS)))
    points[:, 2] = np.linspace(0, 1, 17)[:, None]
    attr, raw = exported(1, -0.4, 2.1, points.reshape(51, -1))
    found = decoded([attr], raw, 1, "yolov8-pose-single")
    np.testing.assert_allclose(found.xyxy, corners_of(TRUTH), atol=3)
    expected = points.transpose(2, 0, 1) * [*SIZE, 1]
    np.testing.assert_allclose(found.keypoints[..., :2], expected[..., :2], atol=2)
    np.testing.assert_allclose(found.keypoints[..., 2], expected[..., 2], atol=0.01)


def test_oriented_boxes():
    """Angles reach from -pi / 4 to 3 * pi / 4."""
    angles = np.array([0.6, -0.5, 2.0])
    attr, raw = exported(15, -0.79, 2.36, angles[None])
    found = decoded([attr], raw, 15, "yolov8-obb-single")
    along = np.stack([np.cos(angles), np.sin(angles)], 1)[:, None] * TRUTH[:, None, 2:3] / 2
    across = np.stack([-np.sin(angles), np.cos(angles)], 1)[:, None] * TRUTH[:, None, 3:4] / 2
    signs = np.array([(1, 1), (1, -1), (-1, -1), (-1, 1)])
    expected = TRUTH[:, None, :2] + signs[:, :1] * along + signs[:, 1:] * across
    np.testing.assert_allclose(found.xyxyxyxy, expected * SIZE[0], atol=3)
