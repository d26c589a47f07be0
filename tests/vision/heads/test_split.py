"""Heads with boxes and class scores apart: YOLOv6, v8 to 12, 26, PP-YOLOE."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import deliver
from planting import Scene, deliver_all
from planting.compare import assert_equal, assert_finds
from planting.split import planted, reference_of, with_sums
from reference import yolo as reference

from rknn_runtime.vision.heads.split import SplitDecoder


@pytest.mark.parametrize("dtype", ["int8", "float16"])
def test_logits(dtype):
    """Scores before the sigmoid are compared in the logit domain; integers show that they are."""
    scene = Scene(3, (256, 256), (8, 16, 32), 4)
    tensors = planted(scene, 16, logits=True)
    attrs, raw, real = deliver_all([x for pair in tensors for x in pair], dtype, "c2=16")
    decoder = SplitDecoder(attrs, (256, 256), logits=None if dtype == "int8" else True)
    assert decoder.logits
    found = decoder(raw)
    pairs = list(zip(real[::2], real[1::2]))
    assert_equal(found, reference_of(pairs, scene, logits=True))
    assert_finds(found, scene)
    for threshold in (0.5, 0.9, 0.99, 0.9999, 1.0, 1.1):
        decoder.conf_threshold = threshold
        high = decoder(raw)
        expected = found.confidence[found.confidence >= np.float32(threshold)]
        assert np.array_equal(high.confidence, expected)


def test_the_sum_rejects_without_changing_the_result():
    """A sum that rounds to just below the threshold never loses a class that reaches it."""
    scene = Scene(5, (256, 256), (8, 16, 32), 80)
    tensors = planted(scene, 16)
    for threshold in np.linspace(0.05, 0.95, 30):
        results = []
        for flat in ([x for pair in tensors for x in pair], with_sums(tensors)):
            attrs, raw, _ = deliver_all(flat, "int8", "c2=16")
            results.append(SplitDecoder(attrs, (256, 256), conf_threshold=threshold)(raw))
        assert results[0] == results[1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("highest", [1e-8, 0.1, 0.24])
def test_a_sum_at_the_end_of_its_range_rejects_nothing(highest, dtype):
    """Calibrated without objects, sums end below the threshold where scores do not."""
    scene = Scene(5, (256, 256), (8, 16, 32), 3)
    tensors = with_sums(planted(scene, 16))
    attrs, raw, _ = deliver_all(tensors, dtype, "c2=16")
    for i in range(2, len(tensors), 3):
        attrs[i], raw[i], _ = deliver(
            tensors[i][None], dtype, "c2=16", index=i, name=f"out{i}", highest=highest
        )
    assert_finds(SplitDecoder(attrs, (256, 256))(raw), scene)


def test_scales_in_any_order():
    """Groups are found by their grids, and ties are broken finest grid first."""
    scene = Scene(6, (256, 256), (8, 16, 32), 3)
    tensors = planted(scene, 16)
    orders = [
        [x for pair in tensors for x in pair],
        [x for pair in tensors[::-1] for x in pair],
        [pair[0] for pair in tensors] + [pair[1] for pair in tensors],
    ]
    results = []
    for order in orders:
        attrs, raw, _ = deliver_all(order, "int8", "c2=16")
        results.append(SplitDecoder(attrs, (256, 256))(raw))
    assert len(results[0]) == len(scene.xyxy)
    assert results[0] == results[1] == results[2]


def test_without_nms():
    """Heads that give one box per object are not suppressed, only cut to the best."""
    scene = Scene(7, (256, 256), (8, 16, 32), 3)
    tensors = planted(scene, 1)
    attrs, raw, real = deliver_all([x for pair in tensors for x in pair], "int8", "c2=16")
    found = SplitDecoder(attrs, (256, 256), nms=False)(raw)
    assert len(found) == len(scene.cells)
    expected = reference_of(list(zip(real[::2], real[1::2])), scene)
    everything = reference.split(
        list(zip(real[::2], real[1::2])), [(s, s) for s in scene.strides], 0.25, 1.0
    )
    assert_equal(found, everything)
    assert len(expected[0]) < len(found)
    limited = SplitDecoder(attrs, (256, 256), nms=False, max_detections=5)(raw)
    assert limited == found[:5]
