"""Odd but legal input: pictures, names of files, a full disk, an empty word, nothing at all."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest
from bundles import one_object
from paths import PROJECT

from rknn_runtime.cli import main

Image = pytest.importorskip("PIL.Image")
SHAPES = str(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")
#: Names that end a line, steer a terminal, or are no text.
NAMES = ["new\nline.png", "red\x1b[31m.png", os.fsdecode(b"\xff\xfe.png"), "a %s {} b.png"]
PRINTED = ["new\\nline.png", "red\\x1b[31m.png", "\\udcff\\udcfe.png", "a %s {} b.png"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the process, with a model that always sees something."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.rknn").write_bytes(one_object())
    return tmp_path


def run(capsys, *words):
    """Return the status and the output."""
    status = main([*words])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("mode", "size", "name"),
    [
        ("L", (1, 1), "dot.png"), ("RGB", (20_000, 1), "wide.png"),
        ("CMYK", (64, 48), "print.jpg"), ("1", (64, 48), "bits.png"), ("LA", (64, 48), "alpha.png"),
        ("RGB", (64, 48), "moving.webp"), ("P", (64, 48), "two.tif"),
    ],
)  # fmt: skip
def test_pictures(folder, capsys, mode, size, name):
    """Of every kind and size; of several in one file the first."""
    several = {"save_all": True, "append_images": [Image.new(mode, size)]}
    Image.new(mode, size).save(name, **(several if name in ("moving.webp", "two.tif") else {}))
    status, out, err = run(
        capsys, "detect", "m.rknn", name, "--sim", "--json", "--save", "drawn", "--quiet"
    )
    assert (status, err) == (0, "")
    (row,) = map(json.loads, out.splitlines())
    assert (row["width"], row["height"]) == size
    with Image.open(folder / "drawn" / name) as drawn:
        assert drawn.size == size


@pytest.mark.parametrize("form", ["text", "coco"])
def test_names(folder, capsys, form):
    """A line of text is one, whatever the name is, on the terminal, in a file and of an error."""
    for name in NAMES:
        Image.new("RGB", (8, 8)).save(folder / name)
    words = ["detect", "m.rknn", *NAMES, "--sim", "--format", form]
    status, out, err = run(capsys, *words)
    assert (status, err) == (0, "")
    assert run(capsys, *words, "--output", "found") == (0, "", "")
    written = (folder / "found").read_text("utf-8")
    if form == "text":
        for text in (out, written):
            assert [line[:-10] for line in text.splitlines() if line[0] != " "] == PRINTED
    else:
        assert len(json.loads(written)) == 4
    for name in NAMES:
        (folder / name).write_bytes(b"torn")
    status, out, err = run(capsys, *words)
    assert status == 1 and err.count("\n") == 4 and "\x1b" not in err


#: Of a model: names of tensors and layers, and of an operator, in as many bytes as they have.
#: Names of inputs and outputs are in JSON, too, which refuses bytes below 32.
HOSTILE = {
    b"images": "\x9b31mE",
    b"output0": "\x85\x9b1mE",
    b"ConvSigmoid": "C\x1b[2J\nEEE\x9b",
    b"/net/features/": "/n\x1b[31m\nEEEE\x07/",
}


@pytest.fixture
def hostile(folder):
    """A model that would steer the terminal, and a measurement of such a one."""
    content = Path(SHAPES).read_bytes()
    for name, other in HOSTILE.items():
        assert len(other.encode()) == len(name) and name in content
        content = content.replace(name, other.encode())
    path = folder / "new\nEvil\x1b[31m.rknn"
    path.write_bytes(content)
    bench = ["bench", SHAPES, "--sim", "--frames", "2", "--warm-up", "0", "--quiet"]
    assert main([*bench, "--output", "good.json"]) == 0
    measured = json.loads((folder / "good.json").read_text("utf-8"))
    for timing in measured["timings"]:
        timing["cores"] += "\x1b[2J\nE"
    measured["about"]["throttled"] = ["\x1b[2J\nE"]
    (folder / "bad.json").write_text(json.dumps(measured), "utf-8")
    np.save("a.npy", np.zeros((1, 320, 320, 3), np.uint8))
    (folder / "photos").mkdir()
    Image.new("RGB", (8, 8)).save("photos/a.png")
    return str(path)


def test_names_in_a_model_steer_no_terminal(hostile, capsys):
    """Names of tensors, layers and measurements never break a line or reach the terminal raw."""
    for row in (
        "info {m}", "info {m} --layers", "predict {m} --layers", "doctor {m} --sim",
        "bench {m} --sim --frames 1 --warm-up 0", "bench {m} --sim --frames 1 --markdown",
        "bench {m} --sim --layers", "bench {m} --sim --layers --markdown",
        "bench suite {m} --sim --frames 1", "bench suite {m} --sim --frames 1 --markdown",
        "bench compare bad.json bad.json", "bench compare bad.json bad.json --markdown",
        "accuracy {m} {m} --images photos", "detect {m} photos --sim",
        "record {m} a.npy -o made", "info {m}/nowhere",
    ):  # fmt: skip
        words = [hostile if word == "{m}" else word for word in row.split()]
        status, out, err = run(capsys, *[word.replace("{m}", hostile) for word in words])
        assert status == ("nowhere" in row), row
        for line in (out + err).split("\n"):
            assert line.isprintable() and not line.startswith("E"), row


def test_a_video_without_frames(folder, capsys):
    """As of a recording that was cut: no success."""
    cv2 = pytest.importorskip("cv2")
    cv2.VideoWriter("no.avi", cv2.VideoWriter_fourcc(*"MJPG"), 25, (64, 48)).release()
    status, out, err = run(capsys, "detect", "m.rknn", "no.avi", "--sim")
    assert (status, out) == (1, "")
    assert err.startswith("rknn-runtime: ") and "no.avi" in err


def test_a_full_disk(folder, capsys):
    """The error has the file's name, and the measurements are printed."""
    full, told = "/dev/full", "rknn-runtime: /dev/full: no space left on device\n"
    Image.new("RGB", (8, 8)).save("a.png")
    np.save("a.npy", np.zeros((1, 64, 64, 3), np.uint8))
    words = ["detect", "m.rknn", "a.png", "--sim", "--format", "coco", "-o", full]
    assert run(capsys, *words) == (1, "", told)
    assert run(capsys, "record", "m.rknn", "a.npy", "-o", full) == (1, "", told)
    bench = ["bench", SHAPES, "--sim", "--frames", "1", "--warm-up", "0"]
    for option in ("-o", "--html"):
        status, out, err = run(capsys, *bench, option, full)
        assert (status, err) == (1, told) and "AUTO, 1 context" in out


@pytest.mark.parametrize(
    "words",
    [["detect", "m.rknn", ""], ["detect", "", "a.png"], ["info", "m.rknn", ""],
     ["detect", "m.rknn", "a.png", "--output", ""], ["serve", "m.rknn", "a.png", "--token="]],
)  # fmt: skip
def test_an_empty_word(folder, capsys, words):
    """As of "$OUTPUT" where it is not set: neither this folder nor none."""
    with pytest.raises(SystemExit) as caught:
        main([*words, "--sim"] if words[0] != "info" else words)
    assert caught.value.code == 2
    assert "expected no empty word, got one" in capsys.readouterr().err


def test_an_address_that_is_taken(folder, capsys):
    """It is named, as is one that no machine has."""
    Image.new("RGB", (8, 8)).save("a.png")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["serve", "m.rknn", "a.png", "--sim", "--listen"]
        told = f"rknn-runtime: {address}: address already in use\n"
        assert run(capsys, *words, address) == (1, "", told)
    status, out, err = run(capsys, *words, "256.0.0.1:1", "--token", "x")
    assert (status, out) == (1, "") and err.startswith("rknn-runtime: 256.0.0.1:1: ")
