"""Graphs that end with their own selection."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import attribute, dequantize, quantize

from rknn_runtime.vision.heads.single import EndToEndDecoder


def rows(n=300, classes=80, size=(480, 640), seed=0):
    """Detections by falling score, most of them background."""
    rng = np.random.default_rng(seed)
    corner = rng.uniform(0, 0.7, (n, 2)) * size[::-1]
    far = corner + rng.uniform(0.05, 0.3, (n, 2)) * size[::-1]
    score = np.sort(rng.uniform(0, 1, n) ** 4)[::-1]
    class_id = rng.integers(0, classes, n)
    return np.column_stack([corner, far, score, class_id])[None].astype(np.float32)


def expected(real, scale=(1, 1)):
    """Boxes, scores and classes that NumPy reads from ``(n, 6)`` rows."""
    passed = real[real[:, 4] >= np.float32(0.25)]
    passed = passed[np.argsort(-passed[:, 4], kind="stable")]
    xyxy = passed[:, :4] * np.array([*scale, *scale], np.float32)
    return xyxy, passed[:, 4], np.rint(passed[:, 5]).astype(np.int32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("classes", [1, 80])
def test_rows_above_the_threshold(classes, normalized, dtype):
    """Every row that passes is a detection, in the order of the scores.

    The range of integers tells 0..1 from pixels, whatever the class numbers need of it.
    """
    x = rows(classes=classes)
    if normalized:
        x[..., :4] /= np.array([640, 480, 640, 480], np.float32)
    q, zero_point, scale = quantize(x, dtype)
    attr = attribute(q.shape, dtype, zero_point, scale)
    told = normalized if "float" in dtype else None
    decoder = EndToEndDecoder(attr, (480, 640), normalized=told)
    assert decoder.normalized == normalized
    found = decoder(q)
    real = dequantize(q, zero_point, scale)[0]
    xyxy, confidence, class_id = expected(real, (640, 480) if normalized else (1, 1))
    assert len(found) == len(xyxy) and (len(xyxy) > 50 or scale > 0.25)
    np.testing.assert_allclose(found.xyxy, xyxy, rtol=1e-6, atol=0)
    assert np.array_equal(found.confidence, confidence)
    assert np.array_equal(found.class_id, class_id)
    assert scale > 1 or np.array_equal(np.rint(real[:, 5]), x[0, :, 5])


def test_order_is_made():
    """Rows that come unordered are ordered, equal ones keep their order."""
    x = rows()
    x[0, :, 4] = np.round(np.random.default_rng(1).uniform(0.3, 1, 300), 1)
    found = EndToEndDecoder(attribute(x.shape, "float32"), (480, 640))(x)
    order = np.argsort(-x[0, :, 4], kind="stable")
    assert np.array_equal(found.xyxy, x[0, order, :4])


def test_a_shared_scale_is_warned_of():
    """Boxes, scores and class numbers of one scale: the warning says what is left."""
    (symptom,) = EndToEndDecoder(attribute((1, 300, 6), "int16", 0, 0.025), (480, 640)).symptoms
    assert "every score below 0.0125 is stored as 0" in symptom.text


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
