"""From an image to the class or the value of each pixel, on the simulated NPU."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from planting.scene import bundle, numbers, scores

from rknn_runtime import MapEstimator, Model, Pool, Segmentation, Segmenter, ValueMap
from rknn_runtime.vision.drawing import class_color

IMAGE = np.full((64, 96, 3), 100, np.uint8)
NAMES = ["background", "road", "person"]
#: Of an image twice the size of the input.
EXPECTED = np.tile(np.repeat(np.arange(3, dtype=np.uint8), (24, 48, 24)), (64, 1))


@pytest.mark.parametrize("made", [bundle(), numbers(), bundle(labels=NAMES)])
def test_the_map_has_the_size_of_the_image(made):
    """For scores and for numbers of classes; an image of other proportions is letterboxed."""
    with Model(made, library="sim") as model:
        segmenter = Segmenter(model)
        found = segmenter(IMAGE)
        assert np.array_equal(found.class_map, EXPECTED)
        assert found.class_id.tolist() == [1, 0, 2] and found.areas.tolist() == [3072, 1536, 1536]
        tall = np.zeros((64, 12, 3), np.uint8)  # 6 columns of the input, in its middle
        assert np.all(segmenter(tall).class_map == np.ones((64, 12)))
        stretched = Segmenter(model, stretch=True)(tall).class_map
        assert np.array_equal(stretched, EXPECTED[:, 4::8])


def test_names_come_from_the_file_or_the_argument():
    """And masks are taken by number or by name."""
    with Model(bundle(labels=NAMES), library="sim") as model:
        found = Segmenter(model)(IMAGE)
        assert found.names == ["road", "background", "person"]
        assert np.array_equal(found.mask("person"), EXPECTED == 2)
        assert np.array_equal(found.mask(1), EXPECTED == 1)
        (polygon,) = found.polygons(2)
        assert polygon.tolist() == [[72, 0], [96, 0], [96, 64], [72, 64]]
        assert found.confidence is None
        known = Segmenter(model, confidence=True)
        sure = known._twin(model)(IMAGE)
        assert sure != found and sure == known(IMAGE)
        assert sure.confidence.shape == (64, 96) and 0.5 < sure.confidence.min() < 0.9995
        assert sure.confidence.max() == pytest.approx(np.exp(4) / (np.exp(4) + 2 * np.exp(-4)))
        with pytest.raises(ValueError, match="class_id: expected a name in labels, got 'dog'"):
            found.mask("dog")
        mine = Segmenter(model, {0: "a", 1: "b", 2: "c"})(IMAGE)
        assert mine.names == ["b", "a", "c"]
        assert str(mine).splitlines()[1] == "b                 50.0%"
    assert Segmentation(EXPECTED).names == ["class 1", "class 0", "class 2"]


def test_polygons_of_all_parts():
    """The largest first; holes and nothing else are left out."""
    classes = np.zeros((6, 9), np.uint8)
    classes[0:2, 0:2] = classes[1:6, 4:9] = 1
    classes[3, 6] = 0
    large, small = Segmentation(classes).polygons(1)
    assert large.tolist() == [[4, 1], [9, 1], [9, 6], [4, 6]]
    assert small.tolist() == [[0, 0], [2, 0], [2, 2], [0, 2]]
    assert Segmentation(classes).polygons(7) == []


def test_a_map_that_lies_by_columns_is_drawn():
    """As fancy indices of NumPy leave it."""
    pixels = np.zeros((6, 9, 3), np.uint8)
    plain = np.arange(54, dtype=np.uint8).reshape(6, 9) // 9
    drawn = Segmentation(np.asfortranarray(plain)).draw(pixels)
    assert np.array_equal(drawn, Segmentation(plain).draw(pixels))


def test_a_network_of_one_class():
    """It has a threshold and default names."""
    x = scores()[:, 2:]
    with Model(bundle([x]), library="sim") as model:
        segmenter = Segmenter(model)
        assert segmenter.decoder.logits and segmenter.labels == ["background", "foreground"]
        assert np.array_equal(segmenter(IMAGE).class_map, EXPECTED == 2)
        assert Segmenter(model, ["sky"])(IMAGE).names == ["background", "sky"]
        few = Segmenter(model, threshold=0.9)(IMAGE)
        assert 0 < few.mask(1).sum() < (EXPECTED == 2).sum()


def test_a_pool_makes_the_same():
    """With the options that were given."""
    options = {"threshold": 0.9, "labels": ["sky"]}
    x = scores()[:, 2:]
    with (
        Model(bundle([x]), library="sim") as model,
        Pool(bundle([x]), Segmenter, contexts=2, library="sim", **options) as pool,
    ):
        expected = Segmenter(model, **options)(IMAGE)
        assert all(found == expected for _, found in pool.map([IMAGE] * 4, copy=True))
        twin = Segmenter(model, **options)._twin(model)
        assert twin(IMAGE) == expected
        estimator = MapEstimator(model)
        assert estimator._twin(model)(IMAGE) == estimator(IMAGE)


def test_drawing():
    """The colour of each class over the image, but not of the background."""
    found = Segmentation(EXPECTED, NAMES)
    drawn = found.draw(IMAGE, opacity=1)
    assert np.all(drawn[EXPECTED == 0] == 100)
    assert np.all(drawn[EXPECTED == 2] == class_color(2))
    half = found.draw(IMAGE, opacity=0.5)[40, 80].astype(int)
    assert np.abs(half - (np.array(class_color(2)) + 100) / 2).max() <= 1
    mine = [(1, 2, 3), (4, 5, 6), (7, 8, 9)]
    drawn = found.draw(IMAGE, color="BGR", palette=mine, opacity=1, skip=[1])
    assert np.all(drawn[EXPECTED == 0] == (3, 2, 1)) and np.all(drawn[EXPECTED == 1] == 100)
    out = IMAGE.copy()
    assert found.draw(out, out=out) is out and (out != 100).any()
    assert Segmentation(EXPECTED).draw(IMAGE, opacity=1)[0, 0].tolist() == list(class_color(0))
    with pytest.raises(ValueError, match=r"image: expected \(64, 96\), the size of the map"):
        found.draw(IMAGE[1:])
    with pytest.raises(ValueError, match="opacity: expected 0"):
        found.draw(IMAGE, opacity=2)


def test_as_text():
    """JSON with masks in COCO's run lengths, and CSV with areas."""
    found = Segmentation(EXPECTED, NAMES)
    record = json.loads(json.dumps(found.to_dict()))["classes"][2]
    assert record["class_id"] == 2 and record["label"] == "person" and record["area"] == 1536
    counts = record["mask"]["counts"]
    values = np.repeat(np.arange(len(counts)) % 2, counts).reshape(96, 64).T
    assert np.array_equal(values, EXPECTED == 2)
    assert "label" not in Segmentation(EXPECTED).to_dict()["classes"][0]
    rows = list(csv.reader(found.to_csv().splitlines()))
    assert rows[:2] == [["class_id", "label", "area"], ["1", "road", "3072"]]


def test_values():
    """In the network's unit, drawn from blue to red."""
    x = scores()[:, 2:]
    with Model(bundle([x]), library="sim") as model:
        found = MapEstimator(model)(IMAGE)
        assert found.values.shape == (64, 96) and found.values.dtype == np.float32
        assert found.values[0, 0] == -4 and found.values[-1, -1] == 4 and found.range == (-4, 4)
        drawn = found.draw(IMAGE)
        assert drawn[0, 0].tolist() == [0, 0, 130] and drawn[-1, -1].tolist() == [200, 0, 0]
        assert found.draw(IMAGE, color="BGR")[0, 0].tolist() == [130, 0, 0]
        assert found.to_dict()["map"]["highest"] == 4
    holes = ValueMap(np.array([[np.nan, 1], [3, np.inf]], np.float32))
    assert holes.range == (1, 3) and holes.draw()[0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "made", "options", "error", "match"),
    [
        (Segmenter, bundle(), {"labels": ["a"]}, ValueError, "labels: expected 3.*got 1:\n"),
        (Segmenter, bundle([scores()] * 2), {}, ValueError, "expected one output, or output="),
        (Segmenter, bundle(), {"threshold": 0.3}, ValueError, "threshold: expected none"),
        (Segmenter, bundle([np.zeros((1, 9))]), {}, ValueError, "of one image, got\n"),
        (MapEstimator, bundle(), {}, ValueError, "expected one value for each cell, got 3"),
        (MapEstimator, numbers(), {}, ValueError, "expected one value for each cell, got class"),
    ],
)  # fmt: skip
def test_refusals(kind, made, options, error, match):
    """Other models and options are refused when the object is made."""
    with Model(made, library="sim") as model, pytest.raises(error, match=match):
        kind(model, **options)


@pytest.mark.parametrize("value", [np.zeros((2, 3, 1), np.uint8), np.zeros((2, 3)), [1]])
def test_results_are_checked(value):
    """A map has two dimensions and its own dtype."""
    with pytest.raises((TypeError, ValueError), match="class_map: expected"):
        Segmentation(value)
