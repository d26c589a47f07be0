"""Worked-out boxes with scores in another output: YOLO-NAS, RT-DETR; and RT-DETR's one output."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute
from planting import Scene, deliver_all
from planting.compare import assert_equal, assert_finds
from reference import yolo as reference

from rknn_runtime.vision.heads import PairDecoder, QueriesDecoder, find_head

SIZE, STRIDES = (256, 192), (8, 16, 32)


def sigmoid_inverse(score):
    return np.log(score / (1 - score)).astype(np.float32)


def rows_of(scene, n, centred):
    """``(4, n, 1)`` boxes and ``(classes, n, 1)`` scores with the objects in some of the rows."""
    boxes = scene.rng.uniform(0, 1, (4, n)).astype(np.float32)
    scores = scene.noise(scene.classes, (n,))
    rows = scene.rng.permutation(n)
    per_object = 1 if centred else 2  # one prediction for each, where nothing is suppressed
    for k, (x1, y1, x2, y2) in enumerate(scene.xyxy):
        for row in rows[per_object * k : per_object * (k + 1)]:
            boxes[:, row] = [x1, y1, x2, y2]
            if centred:
                boxes[:, row] = [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]
                boxes[:, row] /= [SIZE[1], SIZE[0]] * 2
            scores[scene.class_id[k], row] = 0.9 - 0.03 * k
    return boxes[..., None], scores[..., None]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize("classes", [1, 3, 80])
@pytest.mark.parametrize("scores_first", [False, True])
def test_yolo_nas(scores_first, classes, dtype):
    """Corners in pixels and probabilities of each cell, in any order."""
    scene = Scene(3, SIZE, STRIDES, classes)
    n = sum(h * w for h, w in scene.grids())
    tensors = list(rows_of(scene, n, False))
    order = slice(None, None, -1 if scores_first else 1)
    attrs, raw, real = deliver_all(tensors[order], dtype, "transposed")
    reading = find_head(attrs, SIZE)
    assert (reading.head, reading.num_classes) == ("yolo-nas", classes)
    decoder = reading.make()
    assert not decoder.logits
    found = decoder(raw)
    boxes, scores = (x[..., 0].T for x in real[order])
    assert_equal(found, reference.finish(boxes, scores, 0.25, 0.45))
    assert_finds(found, scene)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("classes", [1, 3, 80])
def test_rt_detr(classes, dtype):
    """Parts of the input, logits, nothing suppressed; integers show that they are logits."""
    scene = Scene(4, SIZE, STRIDES, classes)
    boxes, scores = rows_of(scene, 300, True)
    attrs, raw, real = deliver_all(
        [sigmoid_inverse(np.maximum(scores, 1e-4)), boxes], dtype, "transposed"
    )
    reading = find_head(attrs, SIZE)
    assert (reading.head, reading.num_classes) == ("rt-detr", classes)
    decoder = reading.make()
    assert decoder.logits
    found = decoder(raw)
    logits, boxes = (x[..., 0].T for x in real)
    half = boxes[:, 2:] / 2
    corners = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    corners *= np.array([SIZE[1], SIZE[0]] * 2, np.float32)
    assert_equal(found, reference.finish(corners, reference.sigmoid(logits), 0.25, 1.0))
    assert_finds(found, scene)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_one_output_of_rt_detr(dtype):
    """Ultralytics' export: boxes in 0..1 and probabilities, without suppression."""
    scene = Scene(5, SIZE, STRIDES, 4)
    boxes, scores = rows_of(scene, 300, True)
    attrs, raw, real = deliver_all([np.concatenate([boxes, scores])], dtype, "transposed")
    reading = find_head(attrs, SIZE, num_classes=4)
    assert (reading.head, reading.num_classes, reading.shares_scale) == ("rt-detr-single", 4, True)
    found = reading.make()(raw)
    scale = SIZE[1], SIZE[0]
    assert_equal(found, reference.single(real[0][..., 0], 0.25, 1.0, scale))
    assert_finds(found, scene)


@pytest.mark.parametrize(
    ("columns", "options", "head"),
    [
        (84, {}, "rt-detr-single"),
        (84, {"num_classes": 80}, "rt-detr-single"),
        (24, {"num_classes": 20}, "rt-detr-single"),
        (24, {"head": "rt-detr"}, "rt-detr-single"),
        (6, {}, "end-to-end"),
        (57, {}, None),  # YOLO26-pose: box, score, class, 17 points
        (57, {"num_classes": 1}, None),
        (7, {}, None),  # YOLO26-obb
        (7, {"num_classes": 3}, None),
        (38, {}, None),
    ],
)
def test_rows_of_other_heads_are_not_taken_for_it(columns, options, head):
    """300 rows are RT-DETR's with 80 classes, with as many labels, or if they are named."""
    attrs = [attribute((1, 300, columns), "float32")]
    if head is None:
        with pytest.raises(
            ValueError, match=r"cannot tell|there are 1 labels|or those of YOLO26-obb"
        ):
            find_head(attrs, (640, 640), **options)
    else:
        assert find_head(attrs, (640, 640), **options).head == head


def test_a_range_of_0_to_1_has_no_angles():
    """Nor pixels: three classes of RT-DETR, not YOLO26's oriented boxes."""
    attrs = [attribute((1, 300, 7), "int8", -128, 1 / 255)]
    assert find_head(attrs, (640, 640), num_classes=3).head == "rt-detr-single"


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 300, 4), (1, 301, 80)],
        [(1, 100, 4), (1, 100, 92)],  # DETR has softmax and a class for no object
        [(1, 1917, 4), (1, 1917, 91)],
        [(1, 16800, 4), (1, 16800, 2)],
        [(1, 300, 5), (1, 300, 80)],
        [(2, 300, 4), (2, 300, 80)],
    ],
)
def test_other_pairs_are_refused(shapes):
    """Another number of predictions, or no boxes."""
    attrs = [attribute(shape, "float32", index=i) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match="expected"):
        PairDecoder(attrs, (640, 640))
    with pytest.raises(ValueError, match="cannot tell how to decode"):
        find_head(attrs, (640, 640))


def test_other_rows_are_refused():
    """Another number of queries."""
    with pytest.raises(ValueError, match=r"expected \[1, 300, 4 \+ classes\], got"):
        QueriesDecoder(attribute((1, 8400, 84), "float32"), (640, 640))
