"""Text in images: found, read, and both, on the simulated NPU."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from planting.keypoints import embedding
from planting.text import detector, recognizer

from rknn_runtime import (
    Classifier,
    Detections,
    Model,
    Pool,
    TextDetector,
    TextLine,
    TextLines,
    TextReader,
    TextRecognizer,
)
from rknn_runtime.errors import ClosedError
from rknn_runtime.vision.letterbox import letterbox, placed
from rknn_runtime.vision.text import reading_order

IMAGE = np.full((128, 192, 3), 100, np.uint8)


def test_words_are_boxes_with_corners():
    """In pixels of the image, by falling score; a pool makes the same."""
    options = {"unclip_ratio": 0.0, "box_threshold": 0.82}
    with Model(detector(), library="sim") as model:
        found = TextDetector(model, **options)(IMAGE)
        assert found.xyxy.tolist() == [[101, 21, 161, 41], [21, 25, 61, 45]]
        np.testing.assert_allclose(found.confidence, [0.9, 0.85], rtol=1e-6)
        assert found.xyxyxyxy[0].tolist() == [[101, 21], [161, 21], [161, 41], [101, 41]]
        grown = TextDetector(model)(IMAGE)
        assert len(grown) == 3 and grown.xyxy[0, 0] < 101
    with Pool(detector(), TextDetector, contexts=2, library="sim", **options) as pool:
        assert all(one == found for _, one in pool.map([IMAGE] * 3, copy=True))


def test_a_line_is_read():
    """The characters come from the argument, a file, or the model's custom string."""
    with Model(recognizer(), library="sim") as model:
        line = TextRecognizer(model, list("abc"))(IMAGE)
        assert line.text == "cab" and line.confidence == pytest.approx(0.94)
        assert TextRecognizer(model, ["", "x", "y", "z"])(IMAGE).text == "zxy"
        assert TextRecognizer(model, list("abc"), blank="last")(IMAGE).text != "cab"
        assert repr(TextRecognizer(model, list("abc"))).startswith("<TextRecognizer of 3 char")
        twin = TextRecognizer(model, list("abc"))._twin(model)
        assert twin(IMAGE) == line
    for custom in ({"characters": "xyz"}, {"labels": ["x", "y", "z"]}):
        with Model(recognizer(**custom), library="sim") as model:
            assert TextRecognizer(model)(IMAGE).text == "zxy"


def test_a_file_of_characters(tmp_path):
    """Has one in each line, and a line may be a space."""
    path = tmp_path / "keys.txt"
    path.write_text("a\n \nc\n", encoding="utf-8")
    with Model(recognizer(), library="sim") as model:
        assert TextRecognizer(model, path)(IMAGE).text == "ca "
        path.write_text("a\n\nc\n", encoding="utf-8")
        with pytest.raises(ValueError, match="expected a character in each line, got an empty"):
            TextRecognizer(model, path)
        with pytest.raises(ValueError, match=r"characters: expected a \.txt file.*got 'abc'"):
            TextRecognizer(model, "abc")


@pytest.mark.parametrize(
    ("kind", "made", "options", "error", "match"),
    [
        (TextRecognizer, recognizer(), {}, ValueError, "characters: expected the text of each"),
        (TextRecognizer, recognizer(), {"characters": 3}, TypeError, "characters: expected a seq"),
        (TextRecognizer, recognizer(), {"characters": ["a"]}, ValueError, "expected scores of 1"),
        (TextRecognizer, detector(), {"characters": "ab"}, ValueError, "expected a .txt file"),
        (TextDetector, detector(), {"labels": ["a"]}, ValueError, "labels: expected None"),
        (TextDetector, recognizer(), {}, ValueError, "expected"),
        (TextDetector, detector(), {"min_size": 3}, TypeError, "min_size"),
    ],
)
def test_refusals(kind, made, options, error, match):
    """Other models and options are refused when the object is made."""
    with Model(made, library="sim") as model, pytest.raises(error, match=match):
        kind(model, **options)


def test_lines_lie_at_the_left():
    """A line gets the input's height; longer ones are made narrower, and the rest is gray."""
    line = np.full((10, 20, 3), 200, np.uint8)
    frame = placed(line, (16, 64), "RGB", "line")[0]
    assert np.all(frame[:, :32] == 200) and np.all(frame[:, 32:] == 127)
    assert np.all(placed(np.full((10, 99, 3), 200, np.uint8), (16, 64), "RGB", "line")[0] == 200)
    narrow = placed(np.full((999, 1, 3), 200, np.uint8), (16, 64), "RGB", "line")[0]
    assert np.all(narrow[:, 0] == 200) and np.all(narrow[:, 1:] == 127)
    assert np.array_equal(placed(line, (16, 64), "RGB", "center")[0], letterbox(line, (16, 64))[0])
    with Model(recognizer(), library="sim") as model:
        reader = TextRecognizer(model, list("abc"))
        reader(line)
        assert np.array_equal(model.input_view()[0], frame)
        reader(np.asfortranarray(line))  # which is written another way
        assert np.array_equal(model.input_view()[0], frame)
        TextRecognizer(model, list("abc"), stretch=True)(line)
        assert np.all(model.input_view()[0] == 200)


def reader_of(**options):
    return TextReader(
        TextDetector(Model(detector(), library="sim"), unclip_ratio=0),
        TextRecognizer(Model(recognizer(), library="sim"), list("abc")),
        **options,
    )


def test_reading():
    """Lines come in reading order, each with its place."""
    found = reader_of()(IMAGE)
    assert found.text == "cab\ncab\ncab" and len(found) == 3
    assert found.detections.xyxy[:, 0].tolist() == [21, 101, 21]
    assert [line.text for line in found] == ["cab"] * 3
    assert len(reader_of(conf_threshold=0.95)(IMAGE)) == 0
    record = json.loads(json.dumps(found.to_dict()))["lines"][1]
    assert record["text"] == "cab" and record["xyxyxyxy"][0] == [101, 21]
    rows = list(csv.reader(found.to_csv().splitlines()))
    assert rows[0][:4] == ["text", "confidence", "x1", "y1"] and rows[2][2] == "101.0"
    drawn = found.draw(IMAGE)
    assert (drawn != 100).any() and IMAGE.max() == 100
    assert found == reader_of()(IMAGE)


@pytest.mark.parametrize(("confidence", "is_turned"), [(0.95, True), (0.85, False)])
def test_lines_that_stand_on_their_heads(confidence, is_turned):
    """Are turned round if the classifier is sure."""
    scores = np.array([[1 - confidence, confidence]], np.float32)
    image = IMAGE.copy()
    image[:, 96:] = 200
    with (
        Model(detector(), library="sim") as first,
        Model(recognizer(), library="sim") as second,
        Model(embedding(scores[0]), library="sim") as third,
    ):
        direction = Classifier(third, softmax=False)
        reader = TextReader(
            TextDetector(first, unclip_ratio=0),
            TextRecognizer(second, list("abc")),
            direction,
        )
        (crop,) = reader.detector(image)[[2]].crop_turned(image)  # the lowest: lighter at the right
        shown = placed(crop, (32, 32), "RGB", "line")[0]
        reader(image)
        assert np.array_equal(third.input_view()[0], shown)
        read = crop[::-1, ::-1] if is_turned else crop
        assert np.array_equal(second.input_view()[0], placed(read, (16, 64), "RGB", "line")[0])
    with pytest.raises(TypeError, match="direction: expected a Classifier, got int"):
        TextReader(reader.detector, reader.recognizer, 3)


def test_both_models_are_opened_and_closed(tmp_path):
    """And the first one is closed if the second cannot be opened."""
    paths = [tmp_path / name for name in ("det.rknn", "rec.rknn")]
    paths[0].write_bytes(detector())
    paths[1].write_bytes(recognizer(characters="abc"))
    with TextReader.open(*paths, library="sim") as reader:
        assert reader(IMAGE).text.startswith("cab")
        models = reader.detector.model, reader.recognizer.model
    for model in models:
        with pytest.raises(ClosedError):
            model.input_view()
    with pytest.raises(ValueError, match="expected"):
        TextReader.open(paths[0], paths[0], ["a"], library="sim")
    with pytest.raises(TypeError, match="detector: expected a TextDetector, got int"):
        TextReader(3, 4)


def test_the_order_of_reading():
    """Rows from top to bottom; boxes whose middles are close are one row."""
    boxes = np.array(
        [[50, 12, 90, 32], [5, 40, 30, 60], [0, 10, 40, 30], [60, 36, 90, 90], [40, 41, 55, 62]],
        np.float32,
    )
    assert reading_order(boxes).tolist() == [2, 0, 1, 4, 3]
    assert reading_order(boxes[:0]).tolist() == []


def test_results_are_checked():
    """There is a place for each line."""
    with pytest.raises(ValueError, match="lines: expected 0, as there are detections, got 1"):
        TextLines((TextLine("a", 1.0),), Detections.empty())


def corners_of(centre, width, height, degrees):
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    along, across = np.array([c, s]) * width / 2, np.array([-s, c]) * height / 2
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return np.array([[centre + a * along + b * across for a, b in signs]], np.float32)


def detections_of(corners):
    n = len(corners)
    return Detections(
        np.concatenate([corners.min(1), corners.max(1)], 1), np.ones(n, np.float32),
        np.zeros(n, np.int32), xyxyxyxy=corners,
    )  # fmt: skip


@pytest.mark.parametrize("degrees", [0, 30, -20, 90])
def test_turned_boxes_are_cut_out_upright(degrees):
    """Each pixel of the crop is the image at its place in the box."""
    y, x = np.mgrid[0:100, 0:120]
    image = np.stack([x, y, x + y], axis=2).astype(np.uint8)
    corners = corners_of(np.array([60, 50]), 40, 20, degrees)
    (crop,) = detections_of(corners).crop_turned(image)
    assert crop.shape == (20, 40, 3)
    corner, right, _, below = corners[0].astype(np.float64)
    for i, k in ((0, 0), (3, 30), (19, 39), (10, 20)):
        at = corner + (right - corner) * (k + 0.5) / 40 + (below - corner) * (i + 0.5) / 20 - 0.5
        np.testing.assert_allclose(crop[i, k], [*at, at.sum()], atol=1.01)
    (upright,) = detections_of(corners_of(np.array([60, 50]), 40, 20, 0)).crop_turned(image)
    assert np.array_equal(upright, image[40:60, 40:80])


def test_text_that_runs_downwards_is_laid():
    """A box half as high again as wide is turned against the clock."""
    image = np.zeros((100, 120, 3), np.uint8)
    image[20:50] = 200
    found = detections_of(corners_of(np.array([60, 50]), 20, 60, 0))
    (crop,) = found.crop_turned(image)
    assert crop.shape == (20, 60, 3) and np.all(crop[:, :30] == 200) and np.all(crop[:, 30:] == 0)


def test_corners_that_cannot_be_cut_out():
    """Missing corners and infinite ones are refused."""
    image = np.zeros((50, 50, 3), np.uint8)
    with pytest.raises(
        ValueError, match="xyxyxyxy: expected the corners of turned boxes, got none"
    ):
        Detections.empty().crop_turned(image)
    with pytest.raises(ValueError, match="xyxyxyxy: expected finite corners"):
        detections_of(np.full((1, 4, 2), np.nan, np.float32)).crop_turned(image)
