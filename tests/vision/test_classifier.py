"""From an image to its most likely classes, on the simulated NPU; and the example of it."""

from __future__ import annotations

import numpy as np
import pytest
from paths import PROJECT
from planting.classification import LOGITS, bundle

from rknn_runtime import Classifier, Model
from rknn_runtime.kernels.resize import resize_bilinear

ROOT = PROJECT
NET = ROOT / "tests" / "data" / "models" / "fc1000_softmax_rv1106.rknn"
SCENE = np.random.default_rng(0).integers(0, 256, (50, 90, 3), np.uint8)


def test_finds_what_its_parts_find():
    """The whole image is scaled to the input, whatever its proportions; a real graph."""
    with Model(NET, library="sim") as model:
        classifier = Classifier(model, top_k=1000)
        found = classifier(SCENE)
        assert found.class_id.dtype == np.int32 and found.confidence.dtype == np.float32
        (scores,) = model(resize_bilinear(SCENE, (32, 32)))
        order = np.argsort(-scores[0], kind="stable")
        assert np.array_equal(found.class_id, order)
        assert np.array_equal(found.confidence, scores[0][order])
        assert scores[0].sum() == pytest.approx(1, abs=0.01)
        flipped = classifier(np.ascontiguousarray(SCENE[..., ::-1]), color="BGR")
        assert np.array_equal(flipped.confidence, found.confidence)
        assert repr(classifier).startswith("<Classifier of 1000 classes, 32x32 pixels, <Model")
        other = Classifier(model, input_color="BGR")(SCENE)
        assert not np.array_equal(other.confidence, found.confidence[:5])


def test_softmax_top_k_and_labels():
    """Logits become probabilities; names come from the argument, or the custom string."""
    e = np.exp(LOGITS) / np.exp(LOGITS).sum()
    with Model(bundle(labels=list("abcd")), library="sim") as model:
        found = Classifier(model, top_k=2)(SCENE)
        assert found.class_id.tolist() == [1, 3]
        np.testing.assert_allclose(found.confidence, e[[1, 3]], rtol=1e-5)
        classifier = Classifier(model)
        assert [name for name, _ in classifier(SCENE).named(classifier.labels)] == list("bdac")
        mine = {0: "w", 1: "x", 2: "y", 3: "z"}
        assert Classifier(model, mine)(SCENE).named(mine)[0][0] == "x"
        raw = Classifier(model, softmax=False)(SCENE)
        np.testing.assert_allclose(raw.confidence, [4, 3, 1, -2], atol=0.03)


@pytest.mark.parametrize(
    ("made", "options", "error", "match"),
    [
        ({"outputs": 2}, {}, ValueError, r"one output.*got\n.*o0.*\n.*o1"),
        (
            {},
            {"labels": ["a", "b"]},
            ValueError,
            "labels: expected 4",
        ),
        ({"labels": ["a"]}, {}, ValueError, "labels: expected 4"),
        ({}, {"labels": "abcd"}, ValueError, 'labels: expected "coco" or a .txt'),
        ({}, {"labels": 4}, TypeError, "labels: expected a sequence of names"),
        ({}, {"top_k": 0}, ValueError, "top_k"),
        ({}, {"top_k": 2.5}, TypeError, "top_k"),
        ({}, {"input_color": "rgb"}, ValueError, "input_color: expected"),
    ],
)
def test_refusals(made, options, error, match):
    """Other models and options are refused when the object is made."""
    with Model(bundle(**made), library="sim") as model, pytest.raises(error, match=match):
        Classifier(model, **options)
