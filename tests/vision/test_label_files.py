"""Labels from files, and the folder of an export."""

from __future__ import annotations

from pathlib import Path

import pytest

from rknn_runtime.vision.coco import COCO_IDS, COCO_NAMES
from rknn_runtime.vision.export_folder import read_export_folder
from rknn_runtime.vision.flat_yaml import FlatYaml
from rknn_runtime.vision.label_files import read_labels

#: As Ultralytics' export writes it, with a folded text, a nested map and quoted scalars.
METADATA = """\
description: Ultralytics YOLO11n model trained on /datasets/some/long/path/which/does/not/fit/
  shapes.yaml
author: Ultralytics
date: '2026-01-15T12:00:00.123456'
version: 8.3.60
license: AGPL-3.0 License (https://ultralytics.com/license)
stride: 32
task: detect
batch: 1
imgsz:
- 320
- 256
names:
  0: disc  # a comment
  1: 'don''t'
  2: "caf\\u00e9: \\"a\\""
  3: traffic light
args:
  nested:
    deeper: [1, 2]
channels: 3
"""


def test_coco_has_eighty_classes() -> None:
    """Names as models have them, and the numbers of the annotations."""
    assert len(COCO_NAMES) == len(COCO_IDS) == len(set(COCO_NAMES)) == 80
    pairs = dict(zip(COCO_NAMES, COCO_IDS))
    assert (pairs["person"], pairs["stop sign"], pairs["toothbrush"]) == (1, 13, 90)
    assert read_labels("coco") == list(COCO_NAMES)


def test_names_a_line(tmp_path: Path) -> None:
    """In ``.txt`` and ``.names``, with either end of line, a mark in front and lines behind."""
    for name, text in (("a.txt", "cat\r\ndog \r\n\r\n"), ("b.names", "\ufeffcat\ndog")):
        (tmp_path / name).write_bytes(text.encode())
        assert read_labels(tmp_path / name) == ["cat", "dog"]
        assert read_labels(str(tmp_path / name)) == ["cat", "dog"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("names:\n  0: cat\n  3: 'dog'\n", {0: "cat", 3: "dog"}),
        ("names:\n- cat\n- dog\n", ["cat", "dog"]),
        ("names:\n  - cat\n  # and\n  - dog\n", ["cat", "dog"]),
        ("names: [cat, 'a, b', \"c\"]  # three\n", ["cat", "a, b", "c"]),
        ("names: ['cat',\n        'dog',\n]\n", ["cat", "dog"]),
        ("names: {0: cat, 1: big dog}\n", {0: "cat", 1: "big dog"}),
        ("---\npath: ../data\ndownload: |\n  import os\n  x = {1: [\nnames: [yes]\n...\n", ["yes"]),
    ],
)
def test_names_of_a_data_set(tmp_path: Path, names: str, expected: object) -> None:
    """In each form that YAML has for them, whatever else stands in the file."""
    path = tmp_path / "data.yaml"
    path.write_text(names, "utf-8")
    assert read_labels(path) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "cat\n\ndog\n", "a name in each line, got an empty line 2"),
        ("a.txt", "\n", "a name in each line, got none"),
        ("a.txt", "", "expected content, got 0 bytes"),
        ("a.json", "[]", 'expected "coco" or a file .txt, .names, .yaml or .yml, got'),
        ("a.yaml", "nc: 3\n", "a list or a map behind 'names', got no such key"),
        ("a.yaml", "names: many\n", "a list or a map behind 'names', got 'many'"),
        ("a.yaml", "names: []\n", r"a list or a map behind 'names', got \[\]"),
        ("a.yaml", "names:\n  cat: 0\n", "class numbers in 'names', got 'cat'"),
        ("a.yaml", "names:\n  0: a\n  0: b\n", "line 3: expected the key '0' once"),
        ("a.yaml", "names: [a]\nnames: [b]\n", "line 2: expected the key 'names' once"),
        ("a.yaml", "names:\n  0:\n    - a\n", "line 3: expected a list or map of one level"),
        ("a.yaml", "names:\n  - a\n  b: c\n", "line 3: expected '- entry', got 'b: c'"),
        ("a.yaml", "names: [a, [b]]\n", "line 1: expected a list or map of one level"),
        ("a.yaml", "names: [a, b\n", "line 1: expected ']' at the end"),
        ("a.yaml", "names: {0: a, 0: b}\n", "entries of one scalar each, no key twice"),
        ("a.yaml", "names: &x [a]\n", "expected plain text behind 'names', got '&x"),
        ("a.yaml", "names: |\n  a\n", "expected plain text behind 'names', got '|'"),
        ("a.yaml", "names:\n  - 'a\n", "expected ' at the end of the text"),
        ("a.yaml", "names:\n\t- a\n", "expected spaces in front, no tab"),
        ("a.yaml", "  names: [a]\n", "line 1: expected 'key: value'"),
        ("a.yaml", "names\n", "line 1: expected 'key: value', got 'names'"),
    ],
)
def test_what_is_not_read_is_told(tmp_path: Path, name: str, text: str, message: str) -> None:
    """With the file, the line, what was expected and what is there."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=message.replace("|'", r"\|'")) as caught:
        read_labels(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """Is refused with the place."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"cat\xff\n")
    with pytest.raises(ValueError, match=r"a\.txt: expected text in UTF-8, got .* position 3"):
        read_labels(path)
    with pytest.raises(FileNotFoundError):
        read_labels(tmp_path / "no.txt")
    with pytest.raises(ValueError, match="expected a regular file, got a directory"):
        (tmp_path / "b.txt").mkdir()
        read_labels(tmp_path / "b.txt")


def test_flat_yaml_reads_scalars() -> None:
    """A long text goes on in the next lines, a number stays text, a # needs a blank in front."""
    text = FlatYaml(METADATA + 'url: http://a#b # c\nempty:\nquoted: "a\\tb\\q"\n', "x")
    assert text.get("description") == (
        "Ultralytics YOLO11n model trained on /datasets/some/long/path/which/does/not/fit/ "
        "shapes.yaml"
    )
    assert text.get("stride") == "32"
    assert text.get("url") == "http://a#b"
    assert text.get("empty") == ""
    assert text.get("quoted") == "a\tb\\q"
    assert text.get("missing") is None
    with pytest.raises(ValueError, match="x, line 20: expected a list or map of one level"):
        text.get("args")


def test_an_export_folder(tmp_path: Path) -> None:
    """Its model, labels, task and size."""
    (tmp_path / "metadata.yaml").write_text(METADATA, "utf-8")
    (tmp_path / "yolo11n-rk3588.rknn").write_bytes(b"RKNN")
    folder = read_export_folder(tmp_path)
    assert folder.model == tmp_path / "yolo11n-rk3588.rknn"
    assert folder.labels == {0: "disc", 1: "don't", 2: 'caf\u00e9: "a"', 3: "traffic light"}
    assert (folder.task, folder.image_size) == ("detect", (320, 256))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("task: detect", "task: dance", "expected task: one of detect, segment, .*, got 'dance'"),
        ("task: detect\n", "", "expected task: one of .*, got None"),
        ("- 320\n", "- -3\n", r"expected imgsz: height and width, got \['-3', '256'\]"),
        ("- 320\n- 256\n", "  0: 320\n", "expected imgsz: height and width, got {'0': '320'}"),
    ],
)
def test_metadata_that_are_not_ultralytics(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """Are refused with their file."""
    (tmp_path / "a.rknn").write_bytes(b"RKNN")
    (tmp_path / "metadata.yaml").write_text(METADATA.replace(old, new), "utf-8")
    with pytest.raises(ValueError, match=f"metadata.yaml: {message}"):
        read_export_folder(tmp_path)


def test_a_folder_has_one_model(tmp_path: Path) -> None:
    """None, or two: which would it be?"""
    (tmp_path / "metadata.yaml").write_text(METADATA, "utf-8")
    with pytest.raises(ValueError, match=r"expected one \.rknn file in the folder, got none"):
        read_export_folder(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.rknn").write_bytes(b"RKNN")
    with pytest.raises(ValueError, match=r"one \.rknn file in the folder, got a\.rknn, b\.rknn"):
        read_export_folder(tmp_path)
