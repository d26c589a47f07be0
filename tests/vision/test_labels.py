"""Labels from files, and the folder of an export."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rknn_runtime.vision.export_folder import read_export_folder
from rknn_runtime.vision.labels import COCO_IDS, COCO_NAMES, read_labels

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
    ("file", "text", "expected"),
    [
        ("a.yaml", "names:\n  0: cat\n  3: 'dog'\n", {0: "cat", 3: "dog"}),
        ("a.yml", "names:\n- cat\n- 1\n", ["cat", "1"]),
        (
            "a.yaml",
            "names: &all [cat, 'a, b', \"c\"]  # three\nothers: *all\n",
            ["cat", "a, b", "c"],
        ),
        (
            "a.yaml",
            "---\nurl: |\n  import os\n  x = {1: [\nnames: [yes, no, null]\n",
            ["yes", "no", "null"],
        ),
        ("a.yaml", "x: !!python/object/apply:os.abort []\nnames: [a]\n", ["a"]),
        ("a.json", '["cat", "dog"]', ["cat", "dog"]),
        ("a.json", '{"0": "cat", "3": "dog"}', {0: "cat", 3: "dog"}),
        ("a.json", '{"labels": ["cat"], "head": "yolov8"}', ["cat"]),
    ],
)
def test_names_in_yaml_and_json(tmp_path: Path, file: str, text: str, expected: object) -> None:
    """Scalars stay text, tags of Python are not obeyed, other keys do not matter."""
    (tmp_path / file).write_text(text, "utf-8")
    assert read_labels(tmp_path / file) == expected


#: Each line doubles the one before; printed it would have 2**60 names.
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "cat\n\ndog\n", "a name in each line, got an empty line 2"),
        ("a.txt", "\n", "a name in each line, got none"),
        ("a.txt", "", "expected content, got 0 bytes"),
        ("a.csv", "cat", 'expected "coco" or a .txt, .names, .yaml, .yml or .json file, got'),
        ("a.yaml", "nc: 3\n", "a list or a map of names in 'names', got nothing"),
        ("a.yaml", "names: many\n", "a list or a map of names in 'names', got str"),
        ("a.yaml", "names: []\n", "a list or a map of names in 'names', got nothing"),
        ("a.yaml", "names: [a, [b]]\n", "a list or a map of names in 'names', got list"),
        ("a.yaml", f"{BOMB}names: *a59\n", "a list or a map of names in 'names', got list"),
        ("a.yaml", "names:\n  cat: 0\n", "class numbers in 'names', got 'cat'"),
        ("a.yaml", "names: [a, b\n", "expected YAML, got .* line 2"),
        ("a.yaml", "[" * 5000, "expected YAML, got maximum recursion"),
        ("a.yaml", "{[a]: b}", "expected YAML, got "),
        ("a.yaml", "names\n", "expected keys and values, got str"),
        ("a.json", "cat", "expected JSON, got Expecting value"),
        ("a.json", "{}", "a list or a map of names in the file or its 'labels', got dict"),
        ("a.json", "[1]", "a list or a map of names in the file or its 'labels', got list"),
    ],
)
def test_what_is_not_read_is_told(tmp_path: Path, name: str, text: str, message: str) -> None:
    """The message has the file, the line, the expected and the given text."""
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=f"(?s){message}") as caught:
        read_labels(path)
    assert str(path) in str(caught.value)


def test_yaml_needs_pyyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install; other files do without."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="YAML files need PyYAML: pip install PyYAML"):
        read_labels(tmp_path / "a.yaml")
    assert len(read_labels("coco")) == 80


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
        ("task: detect\n", "", "expected task: one of .*, got NoneType"),
        ("- 320\n", "- -3\n", r"expected imgsz: height and width, got \['-3', '256'\]"),
        ("- 320\n- 256\n", "  0: 320\n", "expected imgsz: height and width, got dict"),
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
