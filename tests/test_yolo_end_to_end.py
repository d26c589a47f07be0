"""Graphs that end with their own selection."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, dequantize, quantize

from rknn_runtime.yolo.end_to_end import EndToEndDecoder


def rows(n=300, classes=80, size=(480, 640), seed=0):
    """Detections by falling score, most of them background."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 0.7, (n, 2)) * size[::-1]
    far = corner + rng.uniform(0.05, 0.3, (n, 2)) * size[::-1]
    score = np.sort(rng.uniform(0, 1, n) ** 4)[::-1]
    class_id = rng.integers(0, classes, n)
    return np.column_stack([corner, far, score, class_id])[None].astype(np.float32)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("classes", [1, 80])
def test_rows_above_the_threshold(dtype, classes):
    """Every row that passes is a detection, in the order of the scores."""
    x = rows(classes=classes).astype(dtype)
    decoder = EndToEndDecoder(attribute(x.shape, dtype), (480, 640))
    found = decoder(x)
    real = x[0].astype(np.float32)
    passed = real[real[:, 4] >= 0.25]
    passed = passed[np.argsort(-passed[:, 4], kind="stable")]
    assert len(found) == len(passed) > 50
    assert np.array_equal(found.xyxy, passed[:, :4])
    assert np.array_equal(found.confidence, passed[:, 4])
    assert np.array_equal(found.class_id, passed[:, 5].astype(np.int32))


def test_order_is_made():
    """Rows that come unordered are ordered, equal ones keep their order."""
    x = rows()
    x[0, :, 4] = np.round(np.random.default_rng(1).uniform(0.3, 1, 300), 1)
    found = EndToEndDecoder(attribute(x.shape, "float32"), (480, 640))(x)
    order = np.argsort(-x[0, :, 4], kind="stable")
    assert np.array_equal(found.xyxy, x[0, order, :4])


def test_nothing_is_suppressed():
    """Two equal boxes are two detections."""
    x = np.array([[[1, 2, 30, 40, 0.9, 3]] * 2], np.float32)
    assert len(EndToEndDecoder(attribute(x.shape, "float32"), (64, 64))(x)) == 2


def test_normalized():
    """Boxes 0..1 become pixels of the input."""
    x = np.array([[[0.25, 0.5, 0.5, 1, 0.9, 3]]], np.float32)
    found = EndToEndDecoder(attribute(x.shape, "float32"), (100, 200), normalized=True)(x)
    assert found.xyxy.tolist() == [[50, 50, 100, 100]]


def test_int16():
    """An integer output is read with its scale, and its class number rounded."""
    x = rows(size=(480, 640))
    q, zero_point, scale = quantize(x, "int16")
    attr = attribute(q.shape, "int16", zero_point, scale)
    with pytest.warns(UserWarning, match="smallest confidence"):
        decoder = EndToEndDecoder(attribute(q.shape, "int16", zero_point, 0.025), (480, 640))
    decoder = EndToEndDecoder(attr, (480, 640))
    found = decoder(q)
    real = dequantize(q, zero_point, scale)[0]
    passed = real[real[:, 4] >= 0.25]
    passed = passed[np.argsort(-passed[:, 4], kind="stable")]
    assert np.array_equal(found.xyxy, passed[:, :4])
    assert np.array_equal(found.class_id, np.rint(passed[:, 5]).astype(np.int32))


def test_impossible_rows_are_dropped():
    """Classes, scores and boxes that are no numbers."""
    x = np.tile(np.array([1, 2, 30, 40, 0.9, 3], np.float32), (9, 1))[None]
    x[0, 0, 5], x[0, 1, 5], x[0, 2, 5], x[0, 3, 5] = np.nan, -1, 3e9, np.inf
    x[0, 4, 4], x[0, 5, 4], x[0, 6, 0], x[0, 7, 3] = np.nan, np.inf, np.nan, -np.inf
    found = EndToEndDecoder(attribute(x.shape, "float32"), (64, 64))(x)
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(1, 300, 5), (1, 300, 7), (2, 300, 6), (300, 6), (1, 6, 3, 3)])
def test_refusals(shape):
    """Other shapes are refused."""
    with pytest.raises(ValueError, match=r"expected \[1, N, 6\]"):
        EndToEndDecoder(attribute(shape, "float32"), (64, 64))
