"""YOLOX."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute
from planting import Scene, deliver_all
from planting.compare import assert_equal, assert_finds
from planting.yolox import planted, reference_of

from rknn_runtime.vision.heads.yolox import YoloxDecoder


def test_logits():
    """Exports that end before the sigmoid."""
    scene = Scene(3, (256, 256), (8, 16, 32), 4)
    tensors = planted(scene)
    for t in tensors:
        p = np.clip(t[4:], 1e-4, 1 - 1e-4)
        t[4:] = np.log(p / (1 - p))
    attrs, raw, real = deliver_all(tensors, "int16", "c2=16")
    found = YoloxDecoder(attrs, (256, 256), logits=True)(raw)
    assert_equal(found, reference_of(real, scene, logits=True))
    assert_finds(found, scene)


def test_sizes_that_overflow_are_dropped():
    """A width of e to the power of 100 is none."""
    x = np.zeros((7, 4, 4), np.float32)
    x[4:6] = 0.9
    x[2, 0, 0], x[3, 1, 1], x[2, 2, 2] = 100, 1e30, np.nan
    attrs, raw, _ = deliver_all([x, x[:, :2, :2].copy()], "float32", "nchw")
    found = YoloxDecoder(attrs, (32, 32), iou_threshold=1.0)(raw)
    assert np.isfinite(found.xyxy).all()
    assert len(found) == 16 - 3 + 4 - 2


@pytest.mark.parametrize(
    ("shapes", "options", "match"),
    [
        ([(1, 84, 86)], {}, "do not give 86 predictions"),
        ([(1, 84, 85)], {"strides": (7,)}, "give strides="),
        ([(1, 84, 85)], {"strides": (0,)}, "give strides="),
        ([(1, 84, 5)], {}, "5 \\+ classes"),
        ([(84, 85)], {}, "expected"),
        ([(1, 7, 8, 8), (1, 7, 8, 8)], {}, "as many outputs for each scale, 1,"),
        ([(1, 7, 8, 8), (1, 8, 4, 4)], {}, "same channels"),
        ([(1, 7, 7, 7), (1, 7, 4, 4)], {}, "that divide the input"),
    ],
)
def test_refusals(shapes, options, match):
    """What does not fit is refused with what was expected."""
    attrs = [attribute(shape, "float32", index=i, name=f"out{i}") for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match=match):
        YoloxDecoder(attrs, (64, 64), **options)
