"""Softmax and the most likely classes."""

from __future__ import annotations

import guarded
import numpy as np
import pytest
from native_tensors import attribute, deliver

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads.classification import ClassificationDecoder, Classifications


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max())
    return e / e.sum()


def top(p, k):
    order = np.argsort(-p, kind="stable")[:k]
    return order, p[order]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "float32"])
@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_logits(dtype, classes):
    """Logits become probabilities, the highest first, equal ones by their number."""
    for form in ("c2=16", "c2=8", "pairs", "padded", "nchw"):
        x = np.random.default_rng(classes).normal(0, 4, (1, classes, 1, 1)).astype(np.float32)
        attr, raw, real = deliver(x, dtype, form)
        found = ClassificationDecoder(attr)(raw)
        order, p = top(softmax(real.ravel()), min(5, classes))
        assert found.class_id.tolist() == order.tolist()
        np.testing.assert_allclose(found.confidence, p, rtol=1e-5)
        assert found.class_id.dtype == np.int32 and found.confidence.dtype == np.float32


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("shape", [(1, 1000), (1, 1000, 1, 1), (1000,)])
def test_probabilities_are_left_alone(dtype, shape):
    """A graph that ends with its softmax is recognised, quantized or not."""
    rng = np.random.default_rng(0)
    x = softmax(rng.normal(0, 3, 1000)).astype(np.float32)
    attr, raw, real = deliver(x.reshape(1, 1000, 1, 1), dtype, "nchw", highest=1)
    attr = attribute(shape, dtype, attr.zero_point, attr.scale)
    found = ClassificationDecoder(attr, top_k=3)(raw.reshape(shape))
    order, p = top(real.ravel(), 3)
    assert found.class_id.tolist() == order.tolist()
    assert np.array_equal(found.confidence, p)


@pytest.mark.parametrize(
    ("zero_point", "scale", "is_probability"),
    [(-128, 1 / 255, True), (-127, 1 / 255, True), (0, 1 / 128, True), (0, 0.1, False),
     (-124, 0.0012, False), (32, 0.0033, False), (-128, 0.1, False)],
)  # fmt: skip
def test_ranges_tell_logits(zero_point, scale, is_probability):
    """A range below 0 means logits, unless it is symmetric."""
    q = np.array([[-120, 60, -110, 5]], np.int8)
    attr = attribute(q.shape, "int8", zero_point, scale)
    found = ClassificationDecoder(attr, top_k=4)(q)
    real = (q[0].astype(np.float32) - zero_point) * np.float32(scale)
    expected = np.clip(real, 0, 1) if is_probability else softmax(real)
    np.testing.assert_allclose(found.confidence, np.sort(expected)[::-1], rtol=1e-5)


def test_labels():
    """Sequences and mappings name the classes."""
    x = np.array([[0.1, 0.7, 0.2]], np.float32)
    found = ClassificationDecoder(attribute(x.shape, "float32"), top_k=2)(x)
    names = [name for name, _ in found.named(["cat", "dog", "cow"])]
    assert names == ["dog", "cow"]
    assert found.named({1: "dog", 2: "cow"})[0] == ("dog", pytest.approx(0.7))
    for missing in (["cat", "dog"], {1: "dog"}, []):
        with pytest.raises(IndexError, match="labels: expected a name for class"):
            found.named(missing)
    for wrong in (None, "cat", 5, [0, 1, 2]):
        with pytest.raises(TypeError, match="labels: expected"):
            found.named(wrong)


def test_what_is_printed():
    """A class and its confidence in each line, and with names a list."""
    found = Classifications(np.int32([281, 7]), np.float32([0.91, 0.025]))
    assert str(found).splitlines() == [
        "class  confidence",
        "  281       91.0%",
        "    7        2.5%",
    ]
    names = [("cat", pytest.approx(0.91)), ("cow", 0.02500000037252903)]
    assert found.named({281: "cat", 7: "cow"}) == names


@pytest.mark.parametrize("shape", [(2, 10), (1, 10, 2, 1), (1, 1), (), (1, 10, 7, 7)])
def test_refusals_of_shapes(shape):
    """The scores of one image, and at least two of them."""
    with pytest.raises(ValueError, match="expected the scores of one image"):
        ClassificationDecoder(attribute(shape, "float32"))


def test_refusals():
    """A wrong number of classes to return, a wrong array."""
    attr = attribute((1, 10), "float32")
    with pytest.raises(ValueError, match="top_k"):
        ClassificationDecoder(attr, top_k=0)
    with pytest.raises(TypeError, match="top_k"):
        ClassificationDecoder(attr, top_k=1.5)
    decoder = ClassificationDecoder(attr)
    with pytest.raises(TypeError, match="expected float32"):
        decoder(np.zeros((1, 10)))
    with pytest.raises(ValueError, match="native shape"):
        decoder(np.zeros((1, 11), np.float32))


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "int16", "float16", "float32"])
@pytest.mark.parametrize("classes", [2, 7, 16, 1000])
def test_within_the_bounds(classes, dtype, end):
    """An output that ends, or begins, where the memory does gives the same classes."""
    x = np.random.default_rng(0).normal(0, 4, (1, classes, 1, 1)).astype(np.float32)
    for form in ("c2=16", "nchw"):
        attr, raw, _ = deliver(x, dtype, form)
        decoder = ClassificationDecoder(attr, top_k=classes)
        expected, found = decoder(raw), decoder(guarded.copy(raw, end))
        assert np.array_equal(found.class_id, expected.class_id)
        assert np.array_equal(found.confidence, expected.confidence)
        assert sorted(found.class_id.tolist()) == list(range(classes))


@pytest.mark.parametrize(
    ("mode", "k", "change"),
    [
        (-1, 1, {}),
        (3, 1, {}),
        (0, 0, {}),
        (0, 6, {}),
        (0, 1, {"width": 2}),
        (0, 1, {"channels": 6}),
        (0, 1, {"channels": 0}),
        (0, 1, {"n_bytes": 19}),
        (0, 1, {"type": 99}),
        (0, 1, {"data": ffi.NULL}),
    ],
)
def test_nonsense_is_refused(mode, k, change):
    """Native code checks all that it is given."""
    scores = np.zeros(5, np.float32)
    view = ffi.new("rkr_tensor_view *")
    view.data, view.n_bytes, view.type = pointer(scores), 20, lib.RKNN_TENSOR_FLOAT32
    view.channels, view.height, view.width, view.plane, view.c2 = 5, 1, 1, 1, 1
    scratch, ids = np.empty(18, np.uint64), np.empty(6, np.int32)
    confidence = np.empty(6, np.float32)
    arguments = (pointer(scratch), pointer(ids), pointer(confidence))
    assert lib.rkr_top_k(view, 0, 5, *arguments) == lib.RKR_OK
    for name, value in change.items():
        setattr(view, name, value)
    assert lib.rkr_top_k(view, mode, k, *arguments) < 0
    for missing in range(3):
        some = [ffi.NULL if i == missing else a for i, a in enumerate(arguments)]
        assert lib.rkr_top_k(view, 0, 1, *some) < 0


def test_plain_values():
    """For JSON, with names if they are known."""
    found = Classifications(np.array([2, 0], np.int32), np.array([0.75, 0.25], np.float32))
    assert found.to_dict() == {
        "classes": [{"class_id": 2, "confidence": 0.75}, {"class_id": 0, "confidence": 0.25}]
    }
    assert found.to_dict(["a", "b", "c"])["classes"][0] == {
        "class_id": 2, "label": "c", "confidence": 0.75
    }  # fmt: skip
    with pytest.raises(IndexError, match="labels: expected a name for class 2"):
        found.to_dict(["a"])
