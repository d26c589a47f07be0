"""Detections written for other tools, and read back."""

from __future__ import annotations

import csv
import io
import json
import sys
import warnings
from typing import Any

import numpy as np
import pytest

from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.outlines import filled, outline
from rknn_runtime.vision.readers import from_yolo

SIZE = (120, 160)


def some(**optional: Any) -> Detections:
    """Three objects of an image of 160 x 120 pixels."""
    xyxy = np.float32([[10.5, 20, 30.25, 60], [0, 0, 160, 120], [40, 50, 70.125, 80]])
    scores = np.float32([0.9, 0.5, 0.1])
    return Detections(xyxy, scores, np.int32([2, 0, 1]), **optional)


def masks() -> np.ndarray:
    """A block, a ring with a speck next to it, and nothing."""
    found = np.zeros((3, *SIZE), bool)
    found[0, 20:60, 11:30] = True
    found[1, 10:50, 10:90] = True
    found[1, 20:30, 20:30] = False
    found[1, 100, 100] = True
    return found


def corners() -> np.ndarray:
    return np.float32([[[10, 20], [30, 10], [35, 20], [15, 30]]] * 3) + np.float32(
        [[[0]], [[5]], [[9]]]
    )


def test_boxes_come_back_from_yolo() -> None:
    """Class, middle and size as parts of the image, confidence at the end."""
    found = some()
    text = found.to_yolo(SIZE)
    assert text.splitlines()[1] == "0 0.5 0.5 1.0 1.0 0.5"
    back = from_yolo(text, SIZE, confidence=True)
    np.testing.assert_allclose(back.xyxy, found.xyxy, atol=2e-5)
    np.testing.assert_array_equal(back.confidence, found.confidence)
    np.testing.assert_array_equal(back.class_id, found.class_id)
    labels = from_yolo(found.to_yolo(SIZE, confidence=False), SIZE)
    np.testing.assert_array_equal(labels.confidence, np.ones(3, np.float32))


def test_keypoints_come_back_from_yolo() -> None:
    """They follow the box, with their own confidence."""
    points = np.random.default_rng(0).uniform(0, 1, (3, 4, 3)).astype(np.float32)
    points[..., :2] *= [160, 120]
    found = some(keypoints=points)
    back = from_yolo(found.to_yolo(SIZE), SIZE, task="pose", confidence=True)
    np.testing.assert_allclose(back.xyxy, found.xyxy, atol=2e-5)
    np.testing.assert_allclose(back.keypoints, points, atol=2e-5)


def test_oriented_boxes_come_back_from_yolo() -> None:
    """Four corners; their box is the one around them."""
    found = some(xyxyxyxy=corners())
    back = from_yolo(found.to_yolo(SIZE), SIZE, task="obb", confidence=True)
    np.testing.assert_allclose(back.xyxyxyxy, found.xyxyxyxy, atol=2e-5)
    assert back.xyxy[0].tolist() == [10, 10, 35, 30]


def test_masks_come_back_from_yolo() -> None:
    """A part without holes exactly; of the ring its outline, and an empty mask has no line."""
    found = some(mask=masks())
    back = from_yolo(found.to_yolo(SIZE), SIZE, task="segment", confidence=True)
    assert len(back) == 2
    assert back.mask is not None
    np.testing.assert_array_equal(back.mask[0], masks()[0])
    expected = masks()[1]
    expected[20:30, 20:30], expected[100, 100] = True, False
    np.testing.assert_array_equal(back.mask[1], expected)


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("detect", "0 100 50 20 10"),
        ("segment", "0 1 1 30 1 30 40"),
        ("obb", "0 1 1 30 1 30 40 1 40"),
        ("pose", "0 .5 .5 .1 .1 80 60 2"),
    ],
)
def test_pixels_are_no_labels(task: str, line: str) -> None:
    """YOLO's files hold fractions, also of keypoints, whose visibility is 0, 1 or 2."""
    with pytest.raises(ValueError, match="line 1: expected fractions of the image's width"):
        from_yolo(line, SIZE, task=task)


def test_any_outline_fills_its_part() -> None:
    """Of 300 random masks the filled outline is the largest part, joined along edges, and holes."""
    random = np.random.default_rng(3)
    for _ in range(300):
        mask = random.random(random.integers(1, 9, 2)) < random.uniform(0.2, 0.95)
        points = outline(mask)
        again = filled(points, mask.shape)
        if not mask.any():
            assert points.shape == (0, 2)
            assert not again.any()
            continue
        # The filled pixels of the mask are one part; no pixel around them is mask.
        part = again & mask
        around = np.zeros_like(mask)
        around[1:] |= again[:-1]
        around[:-1] |= again[1:]
        around[:, 1:] |= again[:, :-1]
        around[:, :-1] |= again[:, 1:]
        assert part.any()
        assert not (around & ~again & mask).any()
        np.testing.assert_array_equal(filled(outline(again), mask.shape), again)


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        ("0 1 2 3\n", "detect", "line 1: expected a class and the numbers of the task detect"),
        ("\n0.5 1 2 3 4\n", "detect", "line 2: expected a class"),
        ("-1 1 2 3 4", "detect", "line 1"),
        ("0 1 2 3 nan", "detect", "line 1"),
        ("0 1 2 3 x", "detect", "line 1"),
        ("0", "detect", "line 1"),
        ("0 1 2 3 4", "segment", "task segment"),
        ("0 1 2 3 4 5", "pose", "task pose"),
        ("0 0 0 1 1 1 1 1\n0 0 0 1 1 1 1 1 1 1 1\n", "pose", "as many keypoints in each line"),
        ("0 1 2 3 4", "dance", "task: expected detect, segment, pose or obb, got 'dance'"),
    ],
)
def test_lines_of_another_form_are_refused(text: str, task: str, message: str) -> None:
    """The message has the line's number and text."""
    with pytest.raises(ValueError, match=message):
        from_yolo(text, SIZE, task=task)


def test_coco_results_are_json() -> None:
    """Boxes as left, top, width, height; category numbers as they are told."""
    rows = some().to_coco(7)
    assert json.loads(json.dumps(rows))[0] == {
        "image_id": 7,
        "category_id": 2,
        "bbox": [10.5, 20.0, 19.75, 40.0],
        "score": 0.9,
    }
    assert [row["category_id"] for row in some().to_coco(7, "coco")] == [3, 1, 2]
    assert [row["category_id"] for row in some().to_coco("a", [5, 6, 7])] == [7, 5, 6]
    assert [row["category_id"] for row in some().to_coco("a", {0: 9, 1: 8, 2: 7})] == [7, 9, 8]
    assert Detections.empty().to_coco(1) == []


def _runs(counts: str) -> list[int]:
    """Read the compressed form, by the definition of the COCO API."""
    runs: list[int] = []
    at = 0
    while at < len(counts):
        value, shift, more = 0, 0, True
        while more:
            code = ord(counts[at]) - 48
            value |= (code & 0x1F) << shift
            more = bool(code & 0x20)
            at, shift = at + 1, shift + 5
            if not more and code & 0x10:
                value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return runs


def test_coco_masks_are_run_lengths() -> None:
    """Compressed as the COCO API does, down the columns."""
    random = np.random.default_rng(5)
    found = masks()
    found[2] = random.random(SIZE) < 0.5
    for row, mask in zip(some(mask=found).to_coco(1), found):
        runs = _runs(row["segmentation"]["counts"])
        values = np.repeat(np.arange(len(runs)) % 2, runs)
        np.testing.assert_array_equal(values.reshape(SIZE, order="F"), mask)
        assert row["segmentation"]["size"] == list(SIZE)


def test_coco_keypoints_and_oriented_boxes() -> None:
    """Three numbers a keypoint; corners as a polygon."""
    points = np.arange(3 * 2 * 3, dtype=np.float32).reshape(3, 2, 3)
    rows = some(keypoints=points, xyxyxyxy=corners()).to_coco(1)
    assert rows[1]["keypoints"] == [6, 7, 8, 9, 10, 11]
    assert rows[0]["segmentation"] == [[10, 20, 30, 10, 35, 20, 15, 30]]
    assert some(keypoints=points, xyxyxyxy=corners())[:0].to_coco(1) == []


def test_csv_reads_back() -> None:
    """Every number to the same float32; labels with commas and quotes."""
    points = np.random.default_rng(0).random((3, 2, 3)).astype(np.float32)
    found = some(keypoints=points, xyxyxyxy=corners(), mask=masks())
    text = found.to_csv(["a,b", 'say "c"', "d"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["label"] for row in rows] == ["d", "a,b", 'say "c"']
    for i, row in enumerate(rows):
        assert int(row["class_id"]) == found.class_id[i]
        assert np.float32(row["confidence"]) == found.confidence[i]
        box = [np.float32(row[side]) for side in ("left", "top", "right", "bottom")]
        np.testing.assert_array_equal(box, found.xyxy[i])
        assert np.float32(row["y4"]) == corners()[i, 3, 1]
        assert np.float32(row["keypoint_1_x"]) == points[i, 1, 0]
        assert int(row["mask_pixels"]) == masks()[i].sum()
    assert some().to_csv(header=False).splitlines()[1] == "0,0.5,0.0,0.0,160.0,120.0"
    assert Detections.empty().to_csv() == "class_id,confidence,left,top,right,bottom\n"


def test_supervision_takes_it_all() -> None:
    """Names, corners and masks where supervision looks for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports are none of ours
        supervision = pytest.importorskip("supervision")
    points = np.ones((3, 2, 3), np.float32)
    theirs = some(mask=masks(), xyxyxyxy=corners(), keypoints=points).to_supervision(list("abc"))
    assert isinstance(theirs, supervision.Detections)
    assert theirs["class_name"].tolist() == ["c", "a", "b"]
    np.testing.assert_array_equal(theirs.data["xyxyxyxy"], corners())
    np.testing.assert_array_equal(theirs.mask, masks())
    np.testing.assert_array_equal(theirs[theirs.class_id == 1].data["keypoints"], points[:1])
    theirs.xyxy[0] = 0  # a copy
    assert len(Detections.empty().to_supervision()) == 0


def test_supervision_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs it."""
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(ImportError, match="to_supervision needs supervision: pip install superv"):
        some().to_supervision()


def test_misuse_is_told() -> None:
    """Nothing is written that would be wrong."""
    with pytest.raises(TypeError, match="image_size: expected a pair of integers, got 3"):
        some().to_yolo(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="image_size"):
        some().to_yolo((0, 5))
    with pytest.raises(ValueError, match=r"that of the masks, \(120, 160\), got \(160, 120\)"):
        some(mask=masks()).to_yolo(SIZE[::-1])
    odd = Detections(np.full((1, 4), np.nan, np.float32), np.ones(1, np.float32), np.int32([0]))
    with pytest.raises(ValueError, match="xyxy: expected finite numbers"):
        odd.to_yolo(SIZE)
    with pytest.raises(ValueError, match="xyxy: expected finite numbers"):
        odd.to_coco(1)
    with pytest.raises(TypeError, match="image_id: expected an int or a str, got float"):
        some().to_coco(1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="categories: expected numbers or \"coco\", got 'voc'"):
        some().to_coco(1, "voc")
    with pytest.raises(TypeError, match="categories: expected a sequence or a mapping, got int"):
        some().to_coco(1, 5)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="expected one for class 2, got 2 of them"):
        some().to_coco(1, [1, 2])
    with pytest.raises(IndexError, match="expected a name for class 2"):
        some().to_csv(["a", "b"])
    with pytest.raises(TypeError, match="text: expected a str, got bytes"):
        from_yolo(b"", SIZE)  # type: ignore[arg-type]
