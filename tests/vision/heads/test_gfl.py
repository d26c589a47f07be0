"""Heads of PicoDet and NanoDet: distributions of 8 bins, on grids that reach beyond the input."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute
from planting import Scene, deliver_all, every_delivery
from planting.compare import assert_equal, assert_finds
from planting.rows import as_rows, from_rows
from planting.split import planted
from reference import yolo as reference

from rknn_runtime.vision.heads import GflDecoder, find_head

STRIDES = (8, 16, 32, 64)


def reference_of(pairs, scene, logits, plus=False):
    strides = [(s, s) for s in scene.strides]
    offset = 0.0 if plus else 0.5
    return reference.split(pairs, strides, 0.25, 0.45, logits=logits, offset=offset)


@every_delivery
def test_grids(dtype, form, size, strides, classes):
    """As a cut leaves them: found if they are named, and NumPy's boxes."""
    scene = Scene(7, size, strides, classes)
    pairs = planted(scene, 8, logits=True)
    attrs, raw, real = deliver_all([x for box, score in pairs for x in (score, box)], dtype, form)
    real = list(zip(real[1::2], real[::2]))
    form_of = {"picodet": "picodet", "nanodet": "picodet", "nanodet-plus": "nanodet-plus"}
    for head in form_of:
        plus = head == "nanodet-plus"
        reading = find_head(attrs, scene.size, head)
        assert (reading.head, reading.num_classes) == (form_of[head], classes)
        found = reading.make(logits=True)(raw)
        assert_equal(found, reference_of(real, scene, True, plus))
        if not plus:
            assert_finds(found, scene)
    with pytest.raises(ValueError, match="head: expected 'picodet' or 'nanodet-plus', got 'auto'"):
        find_head(attrs, scene.size)


@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize("classes", [1, 32, 10])
def test_rows_of_each_scale(classes, dtype):
    """PicoDet's own export: probabilities of all scales, then distances of all scales."""
    scene = Scene(8, (256, 192), STRIDES, classes)
    pairs = planted(scene, 8)
    tensors = [as_rows(score, classes) for _, score in pairs] + [as_rows(x, 32) for x, _ in pairs]
    attrs, raw, real = deliver_all(tensors, dtype, "transposed")
    reading = find_head(attrs, scene.size)
    assert (reading.head, reading.num_classes) == ("picodet", classes)
    scores, boxes = (
        [from_rows(x, 1, grid) for x, grid in zip(part, scene.grids())]
        for part in (real[:4], real[4:])
    )
    found = reading.make()(raw)
    assert_equal(found, reference_of(list(zip(boxes, scores)), scene, False))
    assert_finds(found, scene)


@pytest.mark.parametrize("size", [(256, 192), (250, 185)])
@pytest.mark.parametrize("dtype", ["int16", "float16"])
def test_one_output_of_nanodet_plus(dtype, size):
    """Classes before distances, of all scales; the last cells may reach beyond the input."""
    scene = Scene(9, (256, 192), STRIDES, 3)
    pairs = planted(scene, 8)
    rows = [np.concatenate([as_rows(s, 3), as_rows(box, 32)]) for box, s in pairs]
    attrs, raw, real = deliver_all([np.concatenate(rows, axis=1)], dtype, "transposed")
    head = find_head(attrs, size, num_classes=3).head
    assert head == "nanodet-plus"
    decoder = find_head(attrs, size, "nanodet-plus").make()
    assert (decoder.plus, decoder.num_classes, decoder.logits) == (True, 3, False)
    parts = np.split(real[0], np.cumsum([h * w for h, w in scene.grids()])[:-1], axis=1)
    back = [from_rows(part, 1, grid) for part, grid in zip(parts, scene.grids())]
    expected = reference_of([(x[3:], x[:3]) for x in back], scene, False, plus=True)
    assert_equal(decoder(raw), expected)
    assert len(expected[0]) > 5


def test_one_output_of_80_classes_is_nanodet_plus():
    """112 columns are its usual export; others may be YOLOv6's with four scales, too."""
    attrs = [attribute((1, 2125, 112), "float32")]
    assert find_head(attrs, (320, 320)).head == "nanodet-plus"
    attrs = [attribute((1, 2125, 42), "float32")]
    with pytest.raises(ValueError, match=r"'yolox-single' of 37 .* or 'nanodet-plus' of 10"):
        find_head(attrs, (320, 320))
    assert find_head(attrs, (320, 320), num_classes=10).head == "nanodet-plus"


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 1600, 10), (1, 400, 10), (1, 1600, 32), (1, 400, 31)],
        [(1, 1600, 10), (1, 401, 10), (1, 1600, 32), (1, 401, 32)],
        [(1, 3200, 10), (1, 800, 10), (1, 3200, 32), (1, 800, 32)],
        [(1, 10, 40, 40), (1, 10, 20, 20), (1, 32, 40, 40), (1, 32, 21, 20)],
    ],
)
def test_other_outputs_are_refused(shapes):
    """Other bins, cells, or numbers of predictions."""
    attrs = [attribute(shape, "float32", index=i) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match="expected"):
        GflDecoder(attrs, (320, 320))
    with pytest.raises(ValueError, match="cannot tell how to decode"):
        find_head(attrs, (320, 320))
