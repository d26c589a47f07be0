"""Keypoints."""

from __future__ import annotations

import re

import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting import Scene, deliver_all
from planting import faces as planted_faces
from planting import split as planted_split
from planting.compare import assert_equal, assert_finds
from reference import yolo as reference

from rknn_runtime.vision.heads.anchors import YOLOV5_P6_ANCHORS
from rknn_runtime.vision.heads.find import find_head
from rknn_runtime.vision.heads.pose import (
    YOLOV7_FACE_ANCHORS,
    SinglePoseDecoder,
    SplitPoseDecoder,
)

SIZE, STRIDES, K = (192, 256), (8, 16, 32), 17


def keypoints_of(rng, n, dims=3):
    """``(k, dims, n)``: x and y in pixels, confidence."""
    points = rng.uniform(0, 1, (K, dims, n)).astype(np.float32)
    points[:, 0] *= SIZE[1]
    points[:, 1] *= SIZE[0]
    return points


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize(
    ("dtype", "form"),
    [("int8", "c2=16"), ("int16", "padded"), ("float16", "c2=8"), ("float32", "nchw")],
)
def test_split(dtype, form, joined, rank):
    """The zoo's form: distributions and logits in one output, keypoints of all cells."""
    scene = Scene(1, SIZE, STRIDES, 1)
    tensors = planted_split.planted(scene, 16, logits=True)
    n = sum(h * w for h, w in scene.grids())
    points = keypoints_of(scene.rng, n)
    if joined:
        flat = [np.concatenate(pair) for pair in tensors]
    else:
        flat = [x for pair in tensors for x in pair]
    attrs, raw, real = deliver_all([*flat, points], dtype, form)
    exact = "float16" if dtype == "int8" else dtype
    attrs[-1], raw[-1], real_points = deliver(
        points.reshape(1, 3 * K, 1, n) if rank == 3 else points[None],
        exact,
        "rank3" if rank == 3 else form,
        index=len(flat),
        name="points",
    )
    real[-1] = real_points[0]
    decoder = SplitPoseDecoder(attrs, SIZE, logits=True)
    found = decoder(raw)
    if joined:
        pairs = [(x[:64], x[64:]) for x in real[:-1]]
    else:
        pairs = list(zip(real[:-1:2], real[1:-1:2]))
    expected = planted_split.reference_of(pairs, scene, logits=True)
    assert_equal(found, expected)
    assert_finds(found, scene)
    assert found.keypoints.shape == (len(found), K, 3)
    values = real[-1].reshape(K, 3, n)[..., expected[3]]
    assert np.array_equal(found.keypoints, values.transpose(2, 0, 1))


def test_coarse_keypoints_are_warned_of():
    """One scale for pixels and confidences: the warning has the size of the steps."""
    attrs = [
        attribute((1, 65, 8, 8), "int8", 0, 0.1),
        attribute((1, 17, 3, 64), "int8", -128, 2.5, index=1, name="points"),
    ]
    (symptom,) = SplitPoseDecoder(attrs, (64, 64)).symptoms
    assert symptom.kind == "shared-scale"
    assert re.search(r"off by up to 1\.25 pixels.*float16", str(symptom))


@pytest.mark.parametrize("form", ["c2=16", "rank3", "transposed"])
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "normalized"),
    [("float32", False), ("float32", True), ("float16", True), ("int16", False), ("int8", True)],
)
def test_single(dtype, normalized, form, dims):
    """Ultralytics' form: keypoints behind the class score, in the unit of the boxes."""
    rng = np.random.default_rng(4)
    n = sum((SIZE[0] // s) * (SIZE[1] // s) for s in STRIDES)
    x = np.zeros((1, 5 + K * dims, n, 1), np.float32)
    for k, cell in enumerate(rng.permutation(n)[:9]):
        x[0, :4, cell, 0] = 40 + 80 * (k % 3), 30 + 60 * (k // 3), 70, 50
        x[0, 4, cell, 0] = 0.9 - 0.05 * k
    x[0, 5:, :, 0] = keypoints_of(rng, n, dims).reshape(K * dims, n)
    unit = np.array([SIZE[1], SIZE[0]] if normalized else [1, 1], np.float32)
    x[0, :4, :, 0] /= np.tile(unit, 2)[:, None]
    x[0, 5:, :, 0].reshape(K, dims, n)[:, :2] /= unit[:, None]
    attr, raw, real = deliver(x, dtype, form)
    decoder = SinglePoseDecoder(attr, SIZE, keypoint_shape=(K, dims), normalized=normalized)
    found = decoder(raw)
    real = real[0, :, :, 0]
    expected = reference.single(real, 0.25, 0.45, unit, num_classes=1)
    assert_equal(found, expected)
    assert len(found) == 9
    values = real[5:].reshape(K, dims, n)[..., expected[3]].transpose(2, 0, 1).copy()
    values[..., :2] *= unit
    np.testing.assert_allclose(found.keypoints[..., :dims], values, rtol=1e-6)
    if dims == 2:
        assert (found.keypoints[..., 2] == 1).all()


@pytest.mark.parametrize("points", [(1, 17, 3, 315), (1, 51, 315)])
def test_a_grid_of_three_rows(points):
    """The coarsest scale of a low image, [1, 65, 3, 5], is never taken for keypoints."""
    shapes = [(1, 65, 12, 20), (1, 65, 6, 10), (1, 65, 3, 5), points]
    attrs = [attribute(shape, "float32", index=i, name=f"o{i}") for i, shape in enumerate(shapes)]
    decoder = SplitPoseDecoder(attrs, (96, 160))
    found = decoder([np.full(shape, -9, np.float32) for shape in shapes])
    assert found.keypoints.shape == (0, 17, 3)


@pytest.mark.parametrize("shape", [(0, 3), (17, 1), (17, 4), (18, 3)])
def test_refusals_of_keypoint_shapes(shape):
    """A shape that needs other channels is refused."""
    with pytest.raises(ValueError, match=r"keypoint_shape|no room"):
        SinglePoseDecoder(attribute((1, 56, 1008), "float32"), SIZE, keypoint_shape=shape)


@pytest.mark.parametrize("bins", [16, 1])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_keypoints_as_convolutions_give_them(dtype, bins):
    """Per scale: YOLOv8's formula for outputs with distributions, YOLO26's for plain distances."""
    scene = Scene(1, SIZE, STRIDES, 1)
    tensors = planted_split.planted(scene, bins, logits=True)
    maps = [scene.rng.normal(0, 2, (3 * K, h, w)).astype(np.float32) for h, w in scene.grids()]
    flat = [x for (box, score), points in zip(tensors, maps) for x in (box, score, points)]
    attrs, raw, real = deliver_all(flat, dtype, "c2=8" if dtype == "int16" else "nchw")
    reading = find_head(attrs, SIZE)
    assert reading.head == "yolov8-pose-split"
    found = reading.make(logits=True)(raw)
    pairs = list(zip(real[::3], real[1::3]))
    expected = planted_split.reference_of(pairs, scene, logits=True)
    assert_equal(found, expected)
    points = []
    for stride, x in zip(STRIDES, real[2::3]):
        _, height, width = x.shape[-3:]
        x = x.reshape(K, 3, height, width).astype(np.float64)
        row, column = np.mgrid[:height, :width]
        if bins == 1:
            xy = (x[:, :2] + np.stack([column, row]) + 0.5) * stride
        else:
            xy = (x[:, :2] * 2 + np.stack([column, row])) * stride
        each = np.concatenate([xy, 1 / (1 + np.exp(-x[:, 2:]))], axis=1)
        points.append(each.reshape(K, 3, -1))
    expected_points = np.concatenate(points, axis=2)[..., expected[3]].transpose(2, 0, 1)
    np.testing.assert_allclose(found.keypoints, expected_points, rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_faces_of_one_output_for_each_scale(dtype):
    """YOLOv8-face's own export: told by a single label or its name, and the same faces."""
    scene = Scene(21, (256, 256), (8, 16, 32), 1)
    pairs = planted_split.planted(scene, 16, logits=True)
    points = [scene.rng.normal(0, 2, (15, *grid)).astype(np.float32) for grid in scene.grids()]
    joined = [np.concatenate([*pair, each]) for pair, each in zip(pairs, points)]
    attrs, raw, real = deliver_all(joined, dtype, "c2=16")
    cut = [x[a:b] for x in real for a, b in ((0, 64), (64, 65), (65, 80))]
    apart, arrays, _ = deliver_all(cut, "float32", "nchw")
    expected = find_head(apart, scene.size, "yolov8-pose").make(logits=True)(arrays)
    with pytest.raises(ValueError, match=r"'yolov8-joined' of 16 .* or 'yolov8-face' of 1"):
        find_head(attrs, scene.size)
    for head, labels in (("auto", 1), ("yolov8-face", None)):
        reading = find_head(attrs, scene.size, head, labels)
        assert (reading.head, reading.num_classes) == ("yolov8-face", 1)
        found = reading.make()(raw)
        assert found.keypoints.shape[1:] == (5, 3)
        np.testing.assert_allclose(found.xyxy, expected.xyxy, atol=0.02)
        np.testing.assert_allclose(found.keypoints, expected.keypoints, atol=0.02)
        assert len(found) == len(scene.xyxy)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize(
    ("k", "size", "anchors", "family"),
    [
        (5, (256, 192), YOLOV7_FACE_ANCHORS, "yolov7-face"),
        (17, (320, 256), YOLOV5_P6_ANCHORS, "yolov7-pose"),
    ],
)
def test_keypoints_beside_anchors(k, size, anchors, family, dtype):
    """YOLOv7-face and -pose, raw and worked out, as NumPy has them; not YOLOv5 without labels."""
    strides = [8 << i for i in range(len(anchors))]
    scene = Scene(31, size, strides, 1)
    planted = planted_faces.yolov5_face(scene, True, anchors)
    tensors = [
        np.concatenate(
            [x.reshape(3, 6, *x.shape[1:]), scene.rng.normal(0, 2, (3, 3 * k, *x.shape[1:]))], 1
        )
        for x, _ in planted
    ]
    tensors = [x.reshape(-1, *x.shape[2:]).astype(np.float32) for x in tensors]
    attrs, raw, real = deliver_all(tensors, dtype, "c2=16")
    rows, points, boxes = [], [], []
    for tensor, stride, sizes in zip(real, strides, anchors):
        whole = np.float64(tensor.reshape(3, 6 + 3 * k, *tensor.shape[1:]))
        boxes.append(np.float32(whole[:, :6]).reshape(18, *tensor.shape[1:]))
        cell = np.stack(np.indices(tensor.shape[1:])[::-1])
        s, anchor = reference.sigmoid(whole[:, :6]), np.array(sizes)[:, :, None, None]
        v = whole[:, 6:].reshape(3, k, 3, *tensor.shape[1:])
        centre, sides = (s[:, :2] * 2 - 0.5 + cell) * stride, (s[:, 2:4] * 2) ** 2 * anchor
        v[:, :, :2] = (v[:, :, :2] * 2 - 0.5 + cell) * stride
        v[:, :, 2] = reference.sigmoid(v[:, :, 2])
        points.append(v.transpose(0, 3, 4, 1, 2).reshape(-1, k, 3))
        parts = centre, sides, s[:, 4:], v.reshape(3, 3 * k, *tensor.shape[1:])
        rows.append(np.concatenate(parts, axis=1).transpose(0, 2, 3, 1).reshape(-1, 6 + 3 * k))
    squares = [(stride, stride) for stride in strides]
    expected = reference.anchors(boxes, anchors, squares, 0.25, 0.45, logits=True)
    single = np.concatenate(rows)[None].astype(np.float32)
    one = attribute(single.shape, "float32")
    classes = 1 + 3 * k
    with pytest.raises(ValueError, match=f"'yolov5' of {classes} .* or 'yolov7-pose' of 1 classes"):
        find_head(attrs, size)
    with pytest.raises(ValueError, match=f"'yolov5-single' of {classes} .*'yolov7-pose-single'"):
        find_head([one], size)
    assert find_head(attrs, size, num_classes=classes).head == "yolov5"
    for given, arrays, head in ((attrs, raw, "yolov7-pose"), ([one], single, "yolov7-pose-single")):
        reading = find_head(given, size, num_classes=1)
        assert (reading.head, reading.num_classes) == (head, 1)
        assert find_head(given, size, family).head == head
        found = reading.make()(arrays)
        assert_equal(found, expected, 0.05)
        at = np.concatenate(points)[expected[3]]
        np.testing.assert_allclose(found.keypoints, at, atol=0.05)
        assert len(found) == len(scene.xyxy)
        assert reading.make(conf_threshold=1.0)(arrays).keypoints.shape == (0, k, 3)
    # The values of a sigmoid hold no keypoints.
    attrs, _, _ = deliver_all([reference.sigmoid(x) for x in tensors], "int8", "c2=16")
    assert find_head(attrs, size).head == "yolov5"
