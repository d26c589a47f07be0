"""Comparisons of a decoder's objects with the expected ones."""

from __future__ import annotations

import numpy as np

from planting import iou


def assert_equal(found, expected, atol=0.02):
    """The very boxes, in the very order, of NumPy on the same values."""
    xyxy, confidence, class_id = expected[:3]
    assert np.array_equal(found.class_id, class_id)
    np.testing.assert_allclose(found.confidence, confidence, rtol=0, atol=2e-6)
    np.testing.assert_allclose(found.xyxy, xyxy, rtol=0, atol=atol)


def assert_same_set(found, expected, step, iou_at_least=0.99):
    """The boxes of NumPy on the values before quantization, up to what that costs."""
    xyxy, confidence, class_id = expected[:3]
    assert len(found) == len(xyxy)
    overlap = iou(found.xyxy.astype(np.float64), xyxy.astype(np.float64))
    best = overlap.argmax(axis=1)
    assert sorted(best.tolist()) == list(range(len(xyxy)))
    assert overlap.max(axis=1).min() >= iou_at_least
    assert np.array_equal(found.class_id, class_id[best])
    assert np.abs(found.confidence - confidence[best]).max() <= step


def assert_finds(found, scene, iou_at_least=0.9):
    """Every planted object once, and nothing else."""
    overlap = iou(found.xyxy.astype(np.float64), scene.xyxy)
    best = overlap.argmax(axis=1)
    assert sorted(best.tolist()) == list(range(len(scene.xyxy)))
    assert overlap.max(axis=1).min() >= iou_at_least
    assert np.array_equal(found.class_id, scene.class_id[best])
