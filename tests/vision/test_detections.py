from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rknn_runtime.vision.detections import Detection, Detections


def some(n: int = 4, **optional: Any) -> Detections:
    """Detections with a different value in every element."""
    xyxy = np.arange(n * 4, dtype=np.float32).reshape(n, 4) + np.float32([0, 0, 20, 30])
    return Detections(
        xyxy,
        np.linspace(0.9, 0.1, n, dtype=np.float32),
        np.arange(n, dtype=np.int32) % 3,
        **optional,
    )


def everything(n: int = 4, height: int = 40, width: int = 50) -> Detections:
    mask = np.zeros((n, height, width), bool)
    mask[:, 3:20, 5:30] = True
    keypoints = np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3)
    corners = np.arange(n * 8, dtype=np.float32).reshape(n, 4, 2)
    return some(n, mask=mask, keypoints=keypoints, xyxyxyxy=corners)


def test_fields_are_read_only_views() -> None:
    """Nothing is copied, and nothing can be written through the detections."""
    xyxy = np.zeros((2, 4), np.float32)
    d = Detections(xyxy, np.zeros(2, np.float32), np.zeros(2, np.int32))
    assert np.shares_memory(d.xyxy, xyxy)
    assert xyxy.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        d.xyxy[0, 0] = 1
    with pytest.raises(AttributeError):
        d.xyxy = xyxy  # type: ignore[misc]
    with pytest.raises(AttributeError):
        d.other = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("xyxy", np.zeros((2, 4)), TypeError, "xyxy: expected an array of float32, got float64"),
        ("xyxy", [[0, 0, 1, 1]] * 2, TypeError, "xyxy: .* got list"),
        ("xyxy", None, TypeError, "xyxy: .* got NoneType"),
        ("xyxy", np.zeros((2, 5), np.float32), ValueError, r"shape \(any, 4\), got \(2, 5\)"),
        ("xyxy", np.zeros(4, np.float32), ValueError, r"got \(4,\)"),
        ("xyxy", np.float32(1), TypeError, "xyxy: .* got float32"),
        ("xyxy", np.zeros((), np.float32), ValueError, r"got \(\)"),
        ("confidence", np.zeros(2), TypeError, "confidence: .* got float64"),
        ("confidence", np.zeros(3, np.float32), ValueError, r"shape \(2\), got \(3,\)"),
        ("confidence", np.zeros((2, 1), np.float32), ValueError, r"got \(2, 1\)"),
        ("class_id", np.zeros(2), TypeError, "class_id: .* of int32, got float64"),
        ("mask", np.zeros((2, 4, 4), np.uint8), TypeError, "mask: .* of bool, got uint8"),
        ("mask", np.zeros((2, 4), bool), ValueError, r"shape \(2, any, any\), got \(2, 4\)"),
        ("keypoints", np.zeros((2, 5, 2), np.float32), ValueError, r"shape \(2, any, 3\)"),
        ("xyxyxyxy", np.zeros((1, 4, 2), np.float32), ValueError, r"shape \(2, 4, 2\)"),
    ],
)
def test_wrong_arrays_are_refused(
    field: str, value: Any, error: type[Exception], message: str
) -> None:
    """Another dtype or shape than a field's raises and names both."""
    fields = {
        "xyxy": np.zeros((2, 4), np.float32),
        "confidence": np.zeros(2, np.float32),
        "class_id": np.zeros(2, np.int32),
        field: value,
    }
    with pytest.raises(error, match=message):
        Detections(**fields)


def test_empty() -> None:
    """No detections are arrays of length 0 with the right shapes and dtypes."""
    d = Detections.empty()
    assert len(d) == 0 and list(d) == []
    assert d.xyxy.shape == (0, 4) and d.xyxy.dtype == np.float32
    assert d.confidence.shape == (0,) and d.confidence.dtype == np.float32
    assert d.class_id.shape == (0,) and d.class_id.dtype == np.int32
    assert d.to_dict() == {"detections": []}
    assert d[[]] == d and d[d.confidence > 0.5] == d


def test_iteration_yields_each_object() -> None:
    """Iterating and integer indices give the same objects, with Python numbers."""
    d = everything()
    for i, one in enumerate(d):
        assert type(one) is Detection
        assert one == d[i] and one == d[i - len(d)] and one == d[np.int64(i)]
        assert type(one.confidence) is float and type(one.class_id) is int
        np.testing.assert_array_equal(one.xyxy, d.xyxy[i])
        assert one.keypoints is not None and one.keypoints.shape == (2, 3)
    with pytest.raises(IndexError):
        d[4]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        (np.array([False, True, False, True]), [1, 3]),
        ([False, True, False, True], [1, 3]),
        ([2, 0, 2], [2, 0, 2]),
        (np.array([-1], np.int16), [3]),
        ([], []),
    ],
)
def test_selection(index: Any, rows: list[int]) -> None:
    """Slices, boolean masks and indices select the same rows of every field."""
    d = everything()
    chosen = d[index]
    assert type(chosen) is Detections and len(chosen) == len(rows)
    for field in ("xyxy", "confidence", "class_id", "mask", "keypoints", "xyxyxyxy"):
        np.testing.assert_array_equal(getattr(chosen, field), getattr(d, field)[rows])


@pytest.mark.filterwarnings("ignore:Creating an ndarray from ragged")  # of older NumPy
@pytest.mark.parametrize(
    "index", [True, 1.0, "xyxy", None, [0.5], [[0]], [[0], [0, 1]], (0, 1), np.zeros(4)]
)
def test_other_indices_are_refused(index: Any) -> None:
    """What could be misread as a selection raises TypeError."""
    with pytest.raises(TypeError, match="index: expected an integer, a slice"):
        some()[index]


def test_indices_out_of_range_are_refused() -> None:
    """One that no array can have is an IndexError as well."""
    for index in (4, -5, 2**63, -(2**63) - 1, 2**70, np.uint64(2**63)):
        with pytest.raises(IndexError, match=f"expected one of 4 objects, got {index}"):
            some()[index]
    for selection in ([7], [-5], [2**63], [2**64 - 1], np.ones(3, bool)):
        with pytest.raises(IndexError):
            some()[selection]


def test_equality() -> None:
    """Equal fields make equal detections; a missing field differs from one that is there."""
    assert everything() == everything()
    assert everything() != some() and some() != everything()
    assert some(3) != some(4)
    assert some() != "other"
    changed = some().class_id.copy()
    changed[-1] += 1
    assert some() != Detections(some().xyxy, some().confidence, changed)
    with pytest.raises(TypeError, match="unhashable"):
        hash(some())


def test_to_dict() -> None:
    """A record per object, with a label only where labels are given."""
    d = some(2)
    assert d.to_dict(["cat", "dog"]) == {
        "detections": [
            {"class_id": 0, "label": "cat", "confidence": 0.9, "xyxy": [0.0, 1.0, 22.0, 33.0]},
            {"class_id": 1, "label": "dog", "confidence": 0.1, "xyxy": [4.0, 5.0, 26.0, 37.0]},
        ]
    }
    assert "label" not in d.to_dict()["detections"][0]
    assert d[1].to_dict({1: "dog"})["label"] == "dog"


@pytest.mark.parametrize("labels", [["cat"], {0: "cat"}, []])
def test_a_class_without_a_label_is_refused(labels: Any) -> None:
    """Too few labels raise with the class number."""
    with pytest.raises(IndexError, match=r"labels: expected a name for class \d, got \d names"):
        some(2).to_dict(labels)


@given(
    hnp.arrays(
        np.float32, (3, 4), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
    )
)
def test_json_keeps_every_float32(xyxy: Any) -> None:
    """Numbers in the JSON text read back to the same float32."""
    d = Detections(xyxy, np.float32([0.1, 0.2, 0.7]), np.int32([1, 2, 3]))
    back = json.loads(d.to_json())["detections"]
    np.testing.assert_array_equal(np.float32([one["xyxy"] for one in back]), xyxy)
    assert [one["confidence"] for one in back] == [0.1, 0.2, 0.7]


@pytest.mark.parametrize(
    "labels",
    [None, ["a"], ["cat", 'd"o\\g\n'], {5: 'b"', 0: "\u00e9"}, {np.int64(5): "c"},
     {"0": "x", 2**40: "y"}, np.array(["d"])],
)  # fmt: skip
@pytest.mark.parametrize("n", [0, 1, 3])
def test_json_is_that_of_the_dicts(n: int, labels: Any) -> None:
    """Character by character, with names for some classes or none, and fields without elements."""
    boxes = some(n).xyxy, some(n).confidence, np.int32([0, 5, -1][:n])
    points, corners = np.full((n, 2, 3), 1.7, np.float32), np.full((n, 4, 2), 0.1, np.float32)
    empty = {"keypoints": points[:, :0], "mask": np.zeros((n, 0, 0), bool)}
    tracked = {**empty, "tracker_id": np.int32([1, -1, 2][:n])}
    for fields in ({}, {"keypoints": points}, {"xyxyxyxy": corners}, empty, tracked):
        d = Detections(*boxes, labels=labels, **fields)
        assert d.to_json() == json.dumps(d.to_dict(), allow_nan=False, ensure_ascii=False)
        assert [one.to_dict() for one in d] == d.to_dict()["detections"]
        rows = d.to_csv(header=False).splitlines()
        assert [line.split(",")[0] for line in rows] == ["0", "5", "-1"][:n]


def test_json_refuses_what_it_cannot_say() -> None:
    """A NaN raises instead of becoming a text that no parser takes."""
    d = Detections(np.full((1, 4), np.nan, np.float32), np.zeros(1, np.float32), np.int32([0]))
    with pytest.raises(ValueError):
        d.to_json()


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)))
def test_mask_run_lengths(mask: Any) -> None:
    """A mask's runs, laid end to end down the columns, give the mask again."""
    d = Detections(*_one(), mask=mask[np.newaxis])
    record = d.to_dict()["detections"][0]["mask"]
    counts = record["counts"]
    values = np.arange(len(counts)) % 2 == 1
    back = np.repeat(values, counts).reshape(record["size"], order="F")
    np.testing.assert_array_equal(back, mask)
    assert all(count > 0 for count in counts[1:])


def _one() -> tuple[Any, Any, Any]:
    return np.float32([[4, 6, 30, 28]]), np.float32([0.8]), np.int32([1])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("person", "labels: expected a sequence or a mapping of names, got str"),
        (b"person", "got bytes"),
        (5, "got int"),
        ({"person"}, "got set"),
        ([1, 2, 3], "labels: expected a str for class 0, got int"),
        ({0: None}, "labels: expected a str for class 0, got NoneType"),
    ],
)
def test_what_is_no_list_of_names_is_refused(labels: Any, message: str) -> None:
    """A str is no list of names, and a name must be a str."""
    for use in (some().to_dict, some().to_json, some()[0].to_dict):
        with pytest.raises(TypeError, match=message):
            use(labels)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("xyxy", None, TypeError, "xyxy: expected an array of float32, got NoneType"),
        ("xyxy", np.zeros((1, 4), np.float32), ValueError, r"xyxy: expected shape \(4\)"),
        ("confidence", "high", TypeError, "confidence: expected a number, got 'high'"),
        ("class_id", 0.5, TypeError, "class_id: expected an integer, got 0.5"),
        ("class_id", 2**31, ValueError, "class_id: expected -2147483648 to 2147483647"),
        ("mask", [True], TypeError, "mask: expected an array of bool, got list"),
        ("mask", np.zeros(3, bool), ValueError, r"mask: expected shape \(any, any\), got \(3,\)"),
        ("keypoints", 5, TypeError, "keypoints: expected an array of float32, got int"),
        (
            "xyxyxyxy",
            np.zeros((2, 4), np.float32),
            ValueError,
            r"xyxyxyxy: expected shape \(4, 2\)",
        ),
    ],
)
def test_an_object_of_other_fields_is_refused(
    field: str, value: Any, error: type[Exception], message: str
) -> None:
    """Who makes a `Detection` gets the error there, and not from what reads it later."""
    fields = {
        "xyxy": np.zeros(4, np.float32),
        **dict.fromkeys(("confidence", "class_id"), 1),
        **dict.fromkeys(("mask", "keypoints", "xyxyxyxy")),
        field: value,
    }
    with pytest.raises(error, match=message):
        Detection(**fields)


def test_what_is_printed() -> None:
    """A table of the objects, and in one line what an object has."""
    assert str(some(2)).splitlines() == [
        "2 objects",
        "class confidence      left       top     right    bottom",
        "    0      90.0%       0.0       1.0      22.0      33.0",
        "    1      10.0%       4.0       5.0      26.0      37.0",
    ]
    assert repr(some(1)) == "<Detections of 1 object>"
    assert repr(everything()) == "<Detections of 4 objects, mask 50x40, 2 keypoints, oriented>"
    expected = "<Detection of class 0, 90.0%, xyxy [0.0, 1.0, 22.0, 33.0], mask 50x40, 2 keypoints"
    assert repr(everything()[0]) == str(everything()[0]) == expected + ", oriented>"
    assert str(Detections.empty()) == "0 objects"


def test_many_objects_are_not_all_printed() -> None:
    """After 20 lines the rest is counted."""
    assert len(str(some(20)).splitlines()) == 22
    assert str(some(23)).splitlines()[-1] == "... and 3 more"
    assert len(str(some(23)).splitlines()) == 23


NAMED = Detections(
    np.array([[1, 2, 30.5, 40], [-5, -5, -1, 2]], np.float32),
    np.array([0.9, 0.4], np.float32),
    np.array([1, 7]),
    labels=["cat", "dog"],
)


def test_names_come_with_the_objects():
    """Whatever shows them has the names of their classes without being told."""
    assert NAMED.names == ["dog", "class 7"]
    assert [one.name for one in NAMED] == ["dog", None]
    assert "dog" in str(NAMED)
    assert "Detection of dog" in repr(NAMED[0])
    assert "class 7" in str(NAMED)
    assert NAMED.to_dict()["detections"][0]["label"] == "dog"
    assert "label" not in NAMED.to_dict()["detections"][1]
    assert NAMED.to_csv().splitlines()[1].startswith("1,dog,0.9")
    assert [row["category_name"] for row in NAMED.to_coco(1)] == ["dog", "class 7"]


def test_a_notebook_shows_a_table():
    """Jupyter shows 20 objects and counts the rest; names from files are escaped."""
    named = replace(NAMED, labels=["cat", "<dog>"])
    shown = named._repr_html_()
    assert "<td>&lt;dog&gt;</td><td>90.0%</td><td>1.0</td><td>2.0</td><td>30.5</td>" in shown
    assert shown.count("<tr>") == 3
    assert "... and 3 more" in some(23)._repr_html_()
    assert some(23)._repr_html_().count("<tr>") == 22
    assert NAMED[:1].names == NAMED[[0]].names == ["dog"]
    assert NAMED.to_dict(list("abcdefgh"))["detections"][1]["label"] == "h"
    assert NAMED[-1].class_id == 7 and NAMED[-1].name is None


def test_class_numbers_of_any_integer_type():
    """int64, as NumPy makes it, is taken where it fits 32 bits."""
    assert NAMED.class_id.dtype == np.int32
    with pytest.raises(ValueError, match="class_id: expected numbers that fit int32"):
        Detections(NAMED.xyxy, NAMED.confidence, np.array([1, 2**40]))


def test_crops():
    """The part of each box in the image, at least a pixel, as copies."""
    image = np.arange(50 * 60 * 3, dtype=np.uint8).reshape(50, 60, 3)
    first, second = NAMED.crop(image)
    assert np.array_equal(first, image[2:40, 1:31])
    assert not np.shares_memory(first, image)
    assert second.shape == (2, 1, 3)
    assert np.array_equal(NAMED[0].crop(image), first)
