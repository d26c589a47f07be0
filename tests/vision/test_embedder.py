"""From an image to its vector, and boxes to keypoints, on the simulated NPU."""

from __future__ import annotations

import numpy as np
import pytest
from planting.keypoints import COUNT, POINT, embedding, heatmaps, simcc

from rknn_runtime import Detections, Embedder, Model, Pool, PoseEstimator

Image = pytest.importorskip("PIL.Image")
IMAGE = np.zeros((128, 96, 3), np.uint8)


def test_an_image_becomes_a_vector():
    """Of length 1; a pool makes the same."""
    vector = np.arange(1, 9, dtype=np.float32)
    with Model(embedding(vector), library="sim") as model:
        embedder = Embedder(model)
        found = embedder(IMAGE)
        np.testing.assert_allclose(found, vector / np.linalg.norm(vector), rtol=1e-6)
        assert embedder.numbers == 8 and repr(embedder).startswith("<Embedder of 8 numbers")
        assert np.array_equal(Embedder(model, normalize=False)(IMAGE), vector)
        assert embedder.batch([IMAGE] * 3).shape == (3, 8)
        assert embedder.batch([]).shape == (0, 8)
        assert np.array_equal(embedder._twin(model)(IMAGE), found)
    with Pool(embedding(vector), Embedder, contexts=2, library="sim") as pool:
        assert all(np.array_equal(one, found) for _, one in pool.map([IMAGE] * 3, copy=True))


def test_the_middle_is_cut_out(tmp_path):
    """With the input's proportions, without the edges of the longer side, from a large JPEG too."""
    image = np.zeros((60, 200, 3), np.uint8)
    image[:, 70:130] = 200
    with Model(embedding(np.ones(4, np.float32)), library="sim") as model:
        Embedder(model, crop=True)(image)
        assert np.all(model.input_view() == 200)
        Embedder(model, crop=True)(np.ascontiguousarray(image.transpose(1, 0, 2)))
        assert np.all(model.input_view() == 200)
        path = tmp_path / "large.jpg"
        Image.fromarray(image.repeat(10, axis=0).repeat(10, axis=1)).save(path)
        Embedder(model, crop=True)(path)
        assert np.abs(model.input_view()[:, :, 1:-1].astype(int) - 200).max() <= 2
        Embedder(model)(image)
        assert model.input_view()[0, 0, 0, 0] == 0


def test_similarity():
    """The cosine of two vectors, of one with many, and of many with many."""
    a, b = np.array([1.0, 0]), np.array([[2.0, 0], [0, 3], [-1, 0], [1, 1], [0, 0]])
    assert Embedder.similarity(a, a * 5) == 1
    np.testing.assert_allclose(Embedder.similarity(a, b), [1, 0, -1, 0.5**0.5, 0], atol=1e-12)
    assert Embedder.similarity(b, b[:2]).shape == (5, 2)
    with pytest.raises(ValueError, match="expected vectors of one length"):
        Embedder.similarity(a, np.ones(3))


@pytest.mark.parametrize("made", [heatmaps(), simcc()])
def test_keypoints_of_an_image(made):
    """A point of the input lies where that pixel of the enlarged box lies in the image."""
    with Model(made, library="sim") as model:
        estimator = PoseEstimator(model, padding=1)
        found = estimator(IMAGE)  # twice the input
        assert found.xyxy.tolist() == [[0, 0, 96, 128]] and found.keypoints.shape == (1, COUNT, 3)
        np.testing.assert_allclose(found.keypoints[0, 0, :2], np.multiply(POINT, 2), atol=1)
        assert found.confidence[0] == pytest.approx(found.keypoints[0, :, 2].mean(), rel=1e-6)
        assert repr(estimator).startswith(f"<PoseEstimator of {COUNT} keypoints, 48x64")
        wide = PoseEstimator(model)(IMAGE)  # 1.25 times the box, around its middle
        expected = (np.multiply(POINT, 2) - (48, 64)) * 1.25 + (48, 64)
        np.testing.assert_allclose(wide.keypoints[0, 0, :2], expected, atol=1.3)
    with Pool(made, PoseEstimator, contexts=1, library="sim", padding=1) as pool:
        assert [one for _, one in pool.map([IMAGE])] == [found]


def test_keypoints_of_boxes():
    """Of a detector, whose other columns stay; or of an array. The crop has the box's pixels."""
    image = np.zeros((200, 300, 3), np.uint8)
    image[50:114, 100:148] = (10, 20, 30)
    boxes = np.array([[100, 50, 148, 114], [100, 50, 148, 82]], np.float32)
    with Model(heatmaps(), library="sim") as model:
        estimator = PoseEstimator(model, ["person"], padding=1)
        found = estimator(image, boxes[:1])
        assert np.all(model.input_view() == (10, 20, 30))
        np.testing.assert_allclose(found.keypoints[0, 0, :2], np.add(POINT, (100, 50)), atol=0.5)
        assert found.names == ["person"]
        given = Detections(
            boxes, np.array([0.9, 0.8], np.float32), np.array([3, 4], np.int32)
        )  # fmt: skip
        found = estimator(image, given)
        assert np.array_equal(found.confidence, given.confidence) and found.class_id.tolist() == [
            3,
            4,
        ]
        assert np.array_equal(found.keypoints[0], estimator(image, boxes[:1]).keypoints[0])
        assert len(estimator(image, given[:0]).keypoints) == 0
        flipped = np.ascontiguousarray(image[..., ::-1])
        assert estimator(flipped, given, color="BGR") == found
        for wrong in (boxes[:, :3], boxes[:, ::-1], np.full((1, 4), np.nan)):
            with pytest.raises(ValueError, match="boxes: expected"):
                estimator(image, wrong)


@pytest.mark.parametrize(
    ("kind", "options", "match"),
    [
        (Embedder, {}, "expected one vector"),
        (Embedder, {"labels": ["a"]}, "labels: expected None"),
        (PoseEstimator, {"padding": 0.5}, "padding: expected 1 to 10"),
        (PoseEstimator, {"shift": -1}, "shift: expected 0..1"),
    ],
)
def test_refusals(kind, options, match):
    """Other models and options are refused when the object is made."""
    with Model(heatmaps(), library="sim") as model, pytest.raises(ValueError, match=match):
        kind(model, **options)
