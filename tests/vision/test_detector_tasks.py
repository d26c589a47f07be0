"""Masks, keypoints and oriented boxes from an image, through a simulated NPU's own layouts."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import dequantize, quantize
from planting import Scene, iou
from planting import faces as planted_faces
from planting import oriented as planted_oriented
from planting import segmentation as planted_segmentation
from planting import split as planted_split

from rknn_runtime import Detector, Model
from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.vision import letterbox

SIZE, STRIDES, CLASSES = (192, 320), (8, 16, 32), 3
SOCS = ["rk3588", "rk3566", "rv1106"]
IMAGE = np.zeros((300, 400, 3), np.uint8)


def model_of(tensors, soc, floats=()):
    """A model that answers every image with these outputs, and their values after quantization."""
    outputs, arrays, real = [], [], []
    for i, x in enumerate(tensors):
        dtype = "float16" if i in floats else "int8"
        q, zero_point, scale = quantize(x[None], dtype)
        quantization = {} if i in floats else {"zero_point": zero_point, "scale": scale}
        kind = TensorType[dtype.upper()]
        outputs.append(
            describe_output(f"o{i}", q.shape, soc=soc, index=i, dtype=kind, **quantization)
        )
        arrays.append(q.astype(np.float32) if i in floats else q)
        real.append(dequantize(q, zero_point, scale)[0])
    image = describe_input("image", (1, 3, *SIZE), soc=soc, zero_point=-128, scale=1 / 255)
    bundle = bundle_from_arrays([image], outputs, [Record(arrays)], soc=soc)
    return Model(bundle, library="sim"), real


def scene_of(classes=CLASSES):
    return Scene(3, SIZE, STRIDES, classes)


def in_image(boxes):
    """The boxes that are at least partly in the image."""
    return np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) > 0


def assert_boxes(found, scene):
    """The boxes equal the planted objects' boxes, as far as they are in the image."""
    truth = letterbox(IMAGE, SIZE)[1].boxes_to_image(scene.xyxy)
    seen = in_image(truth)
    found = found[in_image(found.xyxy)]
    overlap = iou(found.xyxy, truth[seen])
    best = overlap.argmax(axis=1)
    assert sorted(best.tolist()) == list(range(seen.sum())) and seen.sum() >= 5
    assert overlap.max(axis=1).min() > 0.85
    assert np.array_equal(found.class_id, scene.class_id[seen][best])


@pytest.mark.parametrize("soc", SOCS)
def test_masks(soc):
    """In the image's size, on the planted ellipses; `test_families` has every form."""
    scene = scene_of()
    prototypes, c = planted_segmentation.planted_masks(scene)
    pairs = planted_split.planted(scene, 16)
    tensors = [x for (box, score), k in zip(pairs, c) for x in (box, score, k)]
    model, _ = model_of([*tensors, prototypes], soc)
    with model:
        detector = Detector(model)
        assert detector.head == "yolov8-seg-split"
        found = detector(IMAGE)
    assert_boxes(found, scene)
    assert found.mask.shape == (len(found), *IMAGE.shape[:2])
    transform = letterbox(IMAGE, SIZE)[1]
    truth, whole = (transform.boxes_to_image(scene.xyxy, clip=clip) for clip in (True, False))
    y, x = np.mgrid[0 : IMAGE.shape[0], 0 : IMAGE.shape[1]] + 0.5
    for one in found[in_image(found.xyxy)]:
        k = np.abs(truth - one.xyxy).sum(axis=1).argmin()
        expected = planted_segmentation.ellipse(whole[k], y, x) > 0
        assert (one.mask & expected).sum() / (one.mask | expected).sum() > 0.8


@pytest.mark.parametrize("soc", SOCS)
def test_keypoints(soc):
    """The zoo's form of pose, keypoints in float16: to a pixel of the image."""
    scene = scene_of(1)
    pairs = planted_split.planted(scene, 16, logits=True)
    n = sum(h * w for h, w in scene.grids())
    points = scene.rng.uniform(0, 1, (17, 3, n)).astype(np.float32)
    points[:, :2] *= np.array(SIZE[::-1], np.float32)[:, None]
    model, real = model_of([*map(np.concatenate, pairs), points], soc, floats=(3,))
    with model:
        detector = Detector(model)
        assert detector.head == "yolov8-pose-split"
        found = detector(IMAGE)
    assert_boxes(found, scene)
    halves = [(x[:64], x[64:]) for x in real[:3]]
    expected = planted_split.reference_of(halves, scene, logits=True)
    transform = letterbox(IMAGE, SIZE)[1]
    mapped = transform.points_to_image(points[..., expected[3]].transpose(2, 0, 1).copy())
    assert np.abs(found.keypoints[..., :2] - mapped[..., :2]).max() < 1
    assert np.abs(found.keypoints[..., 2] - mapped[..., 2]).max() < 1e-3


@pytest.mark.parametrize("soc", SOCS)
def test_oriented_boxes(soc):
    """The zoo's form of oriented boxes: the planted rectangles in the image."""
    scene = scene_of()
    pairs, angles = planted_oriented.planted(scene)
    model, _ = model_of([*map(np.concatenate, pairs), angles[None]], soc)
    with model:
        detector = Detector(model)
        assert detector.head == "yolov8-obb-split"
        found = detector(IMAGE)
    transform = letterbox(IMAGE, SIZE)[1]
    truth = transform.points_to_image(planted_oriented.truth(scene))
    overlaps = np.array([[planted_oriented.iou(a, b) for b in truth] for a in found.xyxyxyxy])
    best = overlaps.argmax(axis=1)
    assert sorted(best.tolist()) == list(range(len(truth)))
    assert overlaps.max(axis=1).min() > 0.9
    assert np.array_equal(found.class_id, scene.class_id[best])


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("head", ["retinaface", "scrfd", "yunet"])
def test_faces(head, soc):
    """Five points of each planted face, in pixels of the image."""
    scene = scene_of(1)
    kind = {"per_cell": 2} if head == "scrfd" else {}
    scales = getattr(planted_faces, head)(scene, True, **kind)
    model, _ = model_of([x for scale in scales for x in scale], soc)
    with model:
        detector = Detector(model, ["face"])
        assert detector.head == head
        found = detector(IMAGE)
        assert_boxes(found, scene)
        transform = letterbox(IMAGE, SIZE)[1]
        truth = np.stack([planted_faces.points_of(box) for box in scene.xyxy])
        truth = transform.points_to_image(truth.astype(np.float32))
        apart = np.abs(found.keypoints[:, None, :, :2] - truth).max(axis=(2, 3)).min(axis=1)
        assert found.keypoints.shape[1:] == (5, 3) and apart.max() < 6
        assert found.names == ["face"] * len(found)
