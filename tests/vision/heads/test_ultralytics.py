"""Ultralytics' own int8 exports: boxes in 0..1, and all else, in one tensor of one scale."""

from __future__ import annotations

import numpy as np
from native_tensors import deliver

from rknn_runtime.vision.heads import find_head

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
