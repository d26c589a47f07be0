"""Heads for faces: RetinaFace, SCRFD, YuNet, YOLOv5-face."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, deliver
from planting import DELIVERIES, Scene, deliver_all
from planting import faces as planted
from planting.compare import assert_equal, assert_finds
from planting.rows import as_rows, from_rows
from reference.faces import anchors_of, columns_of, points
from reference.yolo import anchors

from rknn_runtime.vision.heads import find_head
from rknn_runtime.vision.heads.faces import (
    FACE_1MB_PRIORS,
    RETINAFACE_PRIORS,
    YOLOV5_FACE_ANCHORS,
    RetinaFaceDecoder,
)
from rknn_runtime.vision.letterbox import LetterboxTransform

STRIDES = (8, 16, 32)
#: Head, and what its outputs are made with.
HEADS = [
    ("retinaface", {}),
    ("scrfd", {"per_cell": 2}),
    ("scrfd", {"per_cell": 1}),
    ("yunet", {}),
]


def scales_of(head, scene, logits, **kind):
    make = {"retinaface": planted.retinaface, "scrfd": planted.scrfd, "yunet": planted.yunet}
    return make[head](scene, logits, **kind)


def grouped(parts, n):
    """A flat list of outputs, grouped by scale."""
    return [tuple(parts[i : i + n]) for i in range(0, len(parts), n)]


def assert_decodes(decoder, raw, expected, truth, scene):
    found = decoder(raw)
    assert_equal(found, expected)
    assert_finds(found, scene)
    assert np.array_equal(found.keypoints[:, :, 2], np.ones((len(found), 5)))
    np.testing.assert_allclose(found.keypoints[:, :, :2], truth[expected[3]], atol=0.02)
    return found


@pytest.mark.parametrize(("dtype", "form"), DELIVERIES)
@pytest.mark.parametrize(("head", "kind"), HEADS)
def test_grids_of_each_scale(head, kind, dtype, form):
    """Logits as convolutions give them: found, and NumPy's faces and points."""
    scene = Scene(7, (256, 192), STRIDES, 1)
    scales = scales_of(head, scene, True, **kind)
    attrs, raw, real = deliver_all([x for scale in scales for x in scale], dtype, form)
    reading = find_head(attrs, scene.size)
    assert (reading.head, reading.num_classes) == (head, 1)
    decoder = reading.make(logits=True)
    expected, truth = planted.reference_of(head, grouped(real, len(scales[0])), scene, True, **kind)
    assert_decodes(decoder, raw, expected, truth, scene)
    if dtype == "int8":
        assert reading.make().logits


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize(("head", "kind"), HEADS[1:])
def test_rows_of_each_scale(head, kind, dtype):
    """Probabilities, as the published graphs end; outputs by kind, then by scale."""
    scene = Scene(8, (256, 192), STRIDES, 1)
    scales = scales_of(head, scene, False, **kind)
    channels = [1, 1, 4, 10] if head == "yunet" else [1, 4, 10]
    per_cell, n = kind.get("per_cell", 1), len(channels)
    tensors = [as_rows(scale[i], channels[i]) for i in range(n) for scale in scales]
    attrs, raw, real = deliver_all(tensors, dtype, "transposed")
    reading = find_head(attrs, scene.size)
    assert (reading.head, reading.num_classes) == (head, 1)
    decoder = reading.make()
    assert not decoder.logits
    back = [
        tuple(from_rows(real[i * 3 + s], per_cell, grid) for i in range(n))
        for s, grid in enumerate(scene.grids())
    ]
    expected, truth = planted.reference_of(head, back, scene, False, **kind)
    found = assert_decodes(decoder, raw, expected, truth, scene)
    # insightface's own exports have no batch.
    flat = [
        attribute(a.shape[1:], dtype, a.zero_point, a.scale, index=i) for i, a in enumerate(attrs)
    ]
    assert find_head(flat, scene.size).make()([x[0] for x in raw]) == found


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize(
    ("sides", "strides"), [(RETINAFACE_PRIORS, STRIDES), (FACE_1MB_PRIORS, (8, 16, 32, 64))]
)
def test_rows_of_all_scales(sides, strides, logits, dtype):
    """RetinaFace's own export, and its smaller relatives with other priors."""
    scene = Scene(9, (256, 192), strides, 1)
    scales = planted.retinaface(scene, logits, sides)
    tensors = [
        np.concatenate([as_rows(scale[i], k) for scale in scales], axis=1)
        for i, k in enumerate((4, 2, 10))
    ]
    attrs, raw, real = deliver_all(tensors, dtype, "transposed")
    reading = find_head(attrs, scene.size)
    assert reading.head == "retinaface"
    decoder = reading.make(**({"logits": logits} if dtype == "float16" else {}))
    assert decoder.logits == logits
    ends = np.cumsum([len(s) * h * w for s, (h, w) in zip(sides, scene.grids())])[:-1]
    parts = [np.split(each, ends, axis=1) for each in real]
    back = [
        tuple(from_rows(part[s], len(sides[s]), grid) for part in parts)
        for s, grid in enumerate(scene.grids())
    ]
    expected, truth = planted.reference_of("retinaface", back, scene, logits, sides=sides)
    found = assert_decodes(decoder, raw, expected, truth, scene)
    # Files of older toolkits have a fourth dimension; unpacked memory is needed to read it so.
    raw = [x[..., None] for x in raw]
    deep = [attribute(x.shape, dtype, a.zero_point, a.scale, index=a.index)
            for a, x in zip(attrs, raw)]  # fmt: skip
    assert find_head(deep, scene.size).make(logits=logits)(raw) == found
    packed, _, _ = deliver_all([x[0] for x in raw], dtype, "c2=16")
    with pytest.raises(ValueError, match="cannot tell how to decode"):
        find_head(packed, scene.size)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_uneven_grids(dtype):
    """The smaller relatives of RetinaFace, before the softmax, cut off at the convolutions."""
    scene = Scene(10, (256, 192), (8, 16, 32, 64), 1)
    scales = planted.retinaface(scene, True, FACE_1MB_PRIORS)
    attrs, raw, real = deliver_all([x for scale in scales for x in scale], dtype, "c2=16")
    reading = find_head(attrs, scene.size)
    expected, truth = planted.reference_of(
        "retinaface", grouped(real, 3), scene, True, sides=FACE_1MB_PRIORS
    )
    assert reading.head == "retinaface"
    assert_decodes(reading.make(), raw, expected, truth, scene)


@pytest.mark.parametrize("size", [(250, 190), (100, 360)])
def test_cells_reach_beyond_an_input_that_strides_do_not_divide(size):
    """The grid is rounded up, the stride stays."""
    scene = Scene(11, tuple(-(-side // 32) * 32 for side in size), STRIDES, 1)
    grids = [tuple(-(-side // stride) for side in size) for stride in STRIDES]
    scene.grids = lambda: grids
    scene.cells = [c for c in scene.cells if c[2] < grids[c[1]][0] and c[3] < grids[c[1]][1]]
    scales = planted.scrfd(scene, True, 2)
    attrs, raw, real = deliver_all([x for scale in scales for x in scale], "float32", "nchw")
    reading = find_head(attrs, size)
    assert reading.head == "scrfd"
    expected, truth = planted.reference_of("scrfd", grouped(real, 3), scene, True, per_cell=2)
    found = reading.make(logits=True)(raw)
    assert_equal(found, expected)
    np.testing.assert_allclose(found.keypoints[:, :, :2], truth[expected[3]], atol=0.02)
    assert len(found) > 3


@pytest.mark.parametrize(("head", "kind"), HEADS)
def test_points_are_mapped_to_the_image(head, kind):
    """As boxes are, but not cut off at its edges."""
    scene = Scene(12, (256, 192), STRIDES, 1)
    scales = scales_of(head, scene, True, **kind)
    attrs, raw, _ = deliver_all([x for scale in scales for x in scale], "int8", "c2=16")
    decoder = find_head(attrs, scene.size).make()
    transform = LetterboxTransform((500, 700), (256, 192), (137, 192), (59, 0))
    inside, mapped = decoder(raw), decoder(raw, transform)
    np.testing.assert_allclose(
        mapped.keypoints, transform.points_to_image(inside.keypoints), atol=1e-3
    )
    assert mapped.keypoints[:, :, 1].min() < 0  # in the border above the image
    assert mapped.xyxy.min() >= 0


@pytest.mark.parametrize("dtype", ["int16", "float16", "float32"])
@pytest.mark.parametrize("logits", [True, False])
def test_yolov5_face(logits, dtype):
    """Boxes of YOLOv5 with other anchors, and points from the cell's corner in sizes of anchors."""
    scene = Scene(15, (256, 192), STRIDES, 1)
    scales = planted.yolov5_face(scene, logits, YOLOV5_FACE_ANCHORS)
    attrs, raw, real = deliver_all([x for scale in scales for x in scale], dtype, "c2=16")
    reading = find_head(attrs, scene.size)
    assert (reading.head, reading.num_classes) == ("yolov5-face", 1)
    found = reading.make(logits=logits)(raw)
    strides = [(s, s) for s in STRIDES]
    expected = anchors(real[::2], YOLOV5_FACE_ANCHORS, strides, 0.25, 0.45, logits)
    assert_equal(found, expected)
    assert_finds(found, scene, 0.8)
    centres = anchors_of(real[::2], STRIDES, [(1, 1, 1)] * 3, 0.0)
    sizes = np.concatenate(
        [np.repeat(each, h * w, 0) for each, (h, w) in zip(YOLOV5_FACE_ANCHORS, scene.grids())]
    )
    centres[:, 2:] = sizes
    values = columns_of(real[1::2], YOLOV5_FACE_ANCHORS)
    np.testing.assert_allclose(
        found.keypoints[:, :, :2], points(values, centres)[expected[3]], atol=0.02
    )


@pytest.mark.parametrize("is_split", [False, True])
def test_yolov5_face_in_one_output_a_scale(is_split):
    """The points lie before the class; without labels it may as well be YOLOv5 of 11 classes."""

    def delivered(tensors, dtype, form):
        attrs, raw, _ = deliver_all(tensors, dtype, form)
        if is_split:
            shapes = [(1, 3, 16, *a.shape[2:]) for a in attrs]
            attrs = [
                attribute(s, dtype, a.zero_point, a.scale, index=a.index)
                for a, s in zip(attrs, shapes)
            ]
            raw = [x.reshape(s) for x, s in zip(raw, shapes)]
        return attrs, raw

    scene = Scene(15, (256, 192), STRIDES, 1)
    scales = planted.yolov5_face(scene, True, YOLOV5_FACE_ANCHORS)
    wholes = []
    for boxes, marks in scales:
        b, p = (x.reshape(3, -1, *x.shape[1:]) for x in (boxes, marks))
        whole = np.concatenate([b[:, :5], p, b[:, 5:]], axis=1)
        wholes.append(whole.reshape(48, *whole.shape[2:]))
    form = "nchw" if is_split else "c2=16"
    attrs, raw = delivered(wholes, "int16", form)
    with pytest.raises(ValueError, match="'yolov5' of 11 classes or 'yolov5-face' of 1 classes"):
        find_head(attrs, scene.size)
    assert find_head(attrs, scene.size, "auto", 11).head == "yolov5"
    reading = find_head(attrs, scene.size, "auto", 1)
    assert reading.head == "yolov5-face"
    found = reading.make()(raw)
    assert_finds(found, scene, 0.8)
    attrs, raw, _ = deliver_all([x for each in scales for x in each], "int16", "c2=16")
    same = find_head(attrs, scene.size).make()(raw)
    np.testing.assert_allclose(found.xyxy, same.xyxy, atol=0.1)
    np.testing.assert_allclose(found.keypoints, same.keypoints, atol=0.1)
    # The values of a sigmoid hold no points.
    attrs, _ = delivered([1 / (1 + np.exp(-x)) for x in wholes], "int8", form)
    assert find_head(attrs, scene.size).head == "yolov5"


@pytest.mark.parametrize("unit", [(1, 1), (192, 256)])
def test_yolov5_face_worked_out(unit):
    """The export of its own project, `[1, 3 * N, 16]`, in pixels or in 0..1."""
    scene = Scene(15, (256, 192), STRIDES, 1)
    scales = planted.yolov5_face(scene, True, YOLOV5_FACE_ANCHORS)
    rows = []
    for (boxes, marks), stride, sizes in zip(scales, STRIDES, YOLOV5_FACE_ANCHORS):
        s = 1 / (1 + np.exp(-boxes.reshape(3, 6, *boxes.shape[1:])))
        y, x = np.indices(s.shape[2:])
        cell, anchor = np.stack([x, y]), np.array(sizes)[:, :, None, None]
        centre, size = (s[:, :2] * 2 - 0.5 + cell) * stride, (s[:, 2:4] * 2) ** 2 * anchor
        placed = marks.reshape(3, 5, 2, *y.shape) * anchor[:, None] + cell * stride
        parts = [centre, size, s[:, 4:5], placed.reshape(3, 10, *y.shape), s[:, 5:]]
        rows.append(np.concatenate(parts, axis=1).transpose(0, 2, 3, 1).reshape(-1, 16))
    values = np.concatenate(rows)[None].astype(np.float32)
    values[..., [0, 1, 2, 3, *range(5, 15)]] /= unit * 7
    attr = attribute(values.shape, "float32")
    with pytest.raises(ValueError, match="'yolov5-single' of 11 classes or 'yolov5-face-single'"):
        find_head([attr], scene.size)
    assert find_head([attr], scene.size, "auto", 11).head == "yolov5-single"
    reading = find_head([attr], scene.size, "auto", 1)
    assert (reading.head, reading.num_classes) == ("yolov5-face-single", 1)
    found = reading.make(normalized=unit[0] > 1)(values)
    assert_finds(found, scene, 0.8)
    attrs, raw, _ = deliver_all([x for each in scales for x in each], "float32", "c2=16")
    same = find_head(attrs, scene.size).make(logits=True)(raw)
    np.testing.assert_allclose(found.xyxy, same.xyxy, atol=0.01)
    np.testing.assert_allclose(found.keypoints, same.keypoints, atol=0.01)


def test_scrfd_without_points():
    """Two predictions a cell, or rows, tell it; one prediction as grids is YOLOv6's form."""
    scene = Scene(13, (256, 192), STRIDES, 1)
    for per_cell, by_name in ((2, False), (1, True)):
        scales = [scale[:2] for scale in planted.scrfd(scene, True, per_cell)]
        attrs, raw, _ = deliver_all([x for scale in scales for x in scale], "int8", "c2=16")
        if by_name:
            with pytest.raises(ValueError, match="expected 'yolov6-split', got 'auto'"):
                find_head(attrs, scene.size)
        else:
            assert find_head(attrs, scene.size).head == "scrfd"
        reading = find_head(attrs, scene.size, "scrfd")
        found = reading.make()(raw)
        assert_finds(found, scene)
        assert found.keypoints is None


@pytest.mark.parametrize("narrow", [0, 1])
def test_one_of_two_factors_may_have_logits_that_are_hardly_negative(narrow):
    """YuNet's class scores reach from -1 to 2, its objectness down to -22: both are logits."""
    scene = Scene(14, (256, 192), STRIDES, 1)
    scales = planted.yunet(scene, True)
    tensors = [np.clip(x, -1.1, 4) if i == narrow else x for s in scales for i, x in enumerate(s)]
    attrs, raw, real = deliver_all(tensors, "int8", "c2=16")
    decoder = find_head(attrs, scene.size).make()
    assert decoder.logits
    expected, _ = planted.reference_of("yunet", grouped(real, 4), scene, True)
    assert_equal(decoder(raw), expected)


def test_a_threshold_on_the_edge():
    """A softmax that equals the threshold counts; one step less is dropped."""
    tensors = [
        np.full((channels, grid, grid), value, np.float32)
        for grid in (4, 2, 1)
        for channels, value in ((8, 0), (4, 0), (20, 0))
    ]
    for scores in tensors[1::3]:
        scores[1::2] = -8
    tensors[1][1, 2, 3], tensors[1][3, 1, 1] = 2.0, 1.875
    attrs, raw = [], []
    for i, tensor in enumerate(tensors):
        attr, array, real = deliver(
            tensor[None].astype(np.float32), "int8", "c2=16", index=i, lowest=-16, highest=15.875
        )
        assert np.array_equal(real[0], tensor)
        attrs.append(attr)
        raw.append(array)
    decoder = RetinaFaceDecoder(attrs, (32, 32))
    exact = float(np.float32(1) / (np.exp(np.float32(-2)) + np.float32(1)))
    for threshold, n in ((exact - 1e-6, 1), (exact + 1e-6, 0), (0.8, 2), (0.0, 42), (1.1, 0)):
        decoder.conf_threshold, decoder.iou_threshold = threshold, 1.0
        assert len(decoder(raw)) == n


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ([(1, 16800, 4), (1, 16800, 2)], "expected boxes"),
        ([(1, 16801, 4), (1, 16801, 2), (1, 16801, 10)], "expected boxes"),
        ([(1, 8, 80, 80), (1, 4, 80, 80), (1, 20, 80, 80)], "expected boxes"),
        ([(1, 4, 80, 80), (1, 4, 40, 40), (1, 20, 20, 20)], "expected boxes"),
        ([(2, 16800, 4), (2, 16800, 2), (2, 16800, 10)], "expected boxes"),
    ],
)
def test_other_outputs_are_refused(shapes, reason):
    """The message has the expected outputs and the given ones."""
    attrs = [attribute(shape, "float32", index=i) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match=reason):
        RetinaFaceDecoder(attrs, (640, 640))
    with pytest.raises(ValueError, match="cannot tell how to decode"):
        find_head(attrs, (640, 640))


def test_priors_of_another_number_are_refused():
    """As many sizes as predictions of a cell."""
    shapes = [(1, 16800, 4), (1, 16800, 2), (1, 16800, 10)]
    attrs = [attribute(shape, "float32", index=i) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match="priors: expected 2, 2, 2 sizes"):
        RetinaFaceDecoder(attrs, (640, 640), priors=[(16,), (64,), (256,)])
    own = [(10, 20), (40, 80), (160, 320)]
    assert RetinaFaceDecoder(attrs, (640, 640), priors=own).priors[1] == (40, 80)
