"""SSD of TensorFlow's object detection."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute
from planting import deliver_all
from planting.compare import assert_equal
from planting.rows import as_rows
from reference import yolo as reference

from rknn_runtime.vision.heads import SsdDecoder, find_head
from rknn_runtime.vision.heads.priors import ssd_anchors

SIZE = (300, 300)
GRIDS = [(19, 19), (10, 10), (5, 5), (3, 3), (2, 2), (1, 1)]
COUNTS = [3, 6, 6, 6, 6, 6]


def priors(grids):
    """Centre y, x, height, width of all anchors in parts of the input, as TensorFlow makes them."""
    scales = [0.2 + 0.15 * i for i in range(6)] + [1.0]
    rows = []
    for i, (height, width) in enumerate(grids):
        each = [(scales[i], r) for r in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
        each = [(0.1, 1.0), *each[1:3]] if i == 0 else each
        each += [((scales[i] * scales[i + 1]) ** 0.5, 1.0)] if i else []
        for y in range(height):
            for x in range(width):
                for scale, ratio in each:
                    centre = (y + 0.5) / height, (x + 0.5) / width
                    rows.append((*centre, scale / ratio**0.5, scale * ratio**0.5))
    return np.array(rows)


def decoded(boxes, logits, grids, size):
    """What TensorFlow's box coder and a suppression by class make of rows.

    Equal scores are in the order of the decoder: anchor after anchor of a scale.
    """
    anchors = priors(grids)
    y = boxes[:, 0] / 10 * anchors[:, 2] + anchors[:, 0]
    x = boxes[:, 1] / 10 * anchors[:, 3] + anchors[:, 1]
    h, w = np.exp(boxes[:, 2] / 5) * anchors[:, 2], np.exp(boxes[:, 3] / 5) * anchors[:, 3]
    xyxy = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
    xyxy = xyxy * np.tile(size[::-1], 2)
    scores = reference.sigmoid(logits)
    scores[:, 0] = 0  # the background
    ends = np.cumsum([0] + [n * h * w for n, (h, w) in zip(COUNTS, grids)])
    order = [np.arange(a, b).reshape(-1, n).T.ravel() for a, b, n in zip(ends, ends[1:], COUNTS)]
    order = np.concatenate(order)
    xyxy, scores = xyxy[order], scores[order]
    return reference.finish(xyxy.astype(np.float32), scores, 0.25, 0.45)


def tensors(grids, classes, seed=0):
    """Boxes and class logits of each scale, a few of them high."""
    rng = np.random.default_rng(seed)
    scales = []
    for (height, width), n in zip(grids, COUNTS):
        box = rng.normal(0, 1.5, (4 * n, height, width))
        score = rng.uniform(-9, -3, (classes * n, height, width))
        score[rng.uniform(0, 1, score.shape) < 0.01] += 8
        scales.append((box.astype(np.float32), score.astype(np.float32)))
    return scales


def test_anchors_of_1917_predictions():
    """The anchors equal ssd_mobilenet_v1's, in its order."""
    anchors = priors(GRIDS)
    assert len(anchors) == 1917
    flat = [
        pair for each, (h, w) in zip(ssd_anchors(), GRIDS) for _ in range(h * w) for pair in each
    ]
    np.testing.assert_allclose(np.array(flat)[:, ::-1], anchors[:, 2:], atol=1e-12)
    assert [len(each) for each in ssd_anchors()] == COUNTS


@pytest.mark.parametrize("dtype", ["int8", "int16", "float16", "float32"])
@pytest.mark.parametrize("classes", [91, 4, 2])
def test_rows(classes, dtype):
    """Boxes and classes of all scales, each in one output; class numbers count the background."""
    scales = tensors(GRIDS, classes)
    rows = [
        np.concatenate([as_rows(scale[i], n) for scale in scales], axis=1)
        for i, n in enumerate((4, classes))
    ]
    attrs, raw, real = deliver_all(rows, dtype, "transposed")
    reading = find_head(attrs, SIZE)
    assert (reading.head, reading.num_classes) == ("ssd", classes)
    decoder = reading.make()
    assert decoder.logits
    boxes, logits = (x[..., 0].T for x in real)
    expected = decoded(boxes, logits, GRIDS, SIZE)
    found = decoder(raw)
    assert len(found) > 10 and found.class_id.min() >= 1
    assert_equal(found, expected, atol=0.05)


@pytest.mark.parametrize("size", [(300, 300), (128, 200)])
@pytest.mark.parametrize(("dtype", "form"), [("int8", "c2=16"), ("float32", "nchw")])
def test_grids(dtype, form, size):
    """As a cut leaves them, in any order; grids need not divide the input."""
    grids = [tuple(-(-side // 16) for side in size)]
    while len(grids) < 6:
        grids.append(tuple(-(-side // 2) for side in grids[-1]))
    scales = tensors(grids, 6, seed=1)
    flat = [x for scale in scales for x in scale[::-1]]
    attrs, raw, real = deliver_all(flat, dtype, form)
    reading = find_head(attrs, size)
    assert (reading.head, reading.num_classes) == ("ssd", 6)
    rows = [
        np.concatenate([as_rows(x, n)[..., 0].T for x in part])
        for part, n in ((real[1::2], 4), (real[::2], 6))
    ]
    assert_equal(reading.make()(raw), decoded(*rows, grids, size), atol=0.05)


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 1917, 4), (1, 1917, 1)],
        [(1, 1918, 4), (1, 1918, 91)],
        [(1, 1917, 5), (1, 1917, 91)],
        [(1, n * k, *grid) for n, grid in zip(COUNTS, GRIDS) for k in (4, 1)],
        [(1, n * k, *grid) for n, grid in zip(COUNTS[:5], GRIDS) for k in (4, 91)],
        [(1, 6 * k, *grid) for grid in GRIDS for k in (4, 91)],
    ],
)
def test_other_outputs_are_refused(shapes):
    """Other predictions, no background, other anchors."""
    attrs = [attribute(shape, "float32", index=i) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match="expected"):
        SsdDecoder(attrs, SIZE)
    with pytest.raises(ValueError, match="cannot tell how to decode"):
        find_head(attrs, SIZE)
