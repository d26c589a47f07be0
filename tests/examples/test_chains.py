"""Examples of two models in a chain, and of sound, on recorded answers."""

from __future__ import annotations

import runpy
import sys
import wave
from types import SimpleNamespace

import numpy as np
import pytest
from paths import PROJECT
from planting import Scene
from planting.split import planted

from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

Image = pytest.importorskip("PIL.Image")
FLOAT = {"dtype": TensorType.FLOAT32, "zero_point": None, "scale": None}


def bundle(path, inputs, outputs):
    """Write a model of inputs (name, shape, options) that always answers the same."""
    path.write_bytes(
        bundle_from_arrays(
            [describe_input(n, s, index=i, **more) for i, (n, s, more) in enumerate(inputs)],
            [
                describe_output(f"o{i}", x.shape, index=i, dtype=TensorType.FLOAT32)
                for i, x in enumerate(outputs)
            ],
            [Record([x.astype(np.float32) for x in outputs])],
        )
    )
    return str(path)


def start(monkeypatch, name, *words):
    monkeypatch.setattr(sys, "argv", [name, *map(str, words), "--library", "sim"])
    runpy.run_path(str(PROJECT / "examples" / name), run_name="__main__")


def pixels(side):
    return "image", (1, 3, side, side), {"zero_point": -128, "scale": 1 / 255}


def test_masks_of_a_prompt(tmp_path, monkeypatch, capsys):
    """The mask of the best score, in the image's size; the square's border is cut off."""
    encoder = bundle(tmp_path / "e.rknn", [pixels(64)], [np.zeros((1, 8, 4, 4))])
    masks = np.full((1, 4, 16, 16), -4.0)
    masks[0, 2, 2:6, 4:12] = 4  # of an image of 128 x 64: rows 16 to 48, columns 32 to 96
    given = [
        ("embeddings", (1, 8, 4, 4), FLOAT), ("coords", (1, 2, 2), FLOAT),
        ("labels", (1, 2), FLOAT), ("mask", (1, 1, 16, 16), FLOAT), ("has_mask", (1,), FLOAT),
    ]  # fmt: skip
    scores = np.array([[0.1, 0.2, 0.9, 0.3]])
    decoder = bundle(tmp_path / "d.rknn", given, [scores, masks])
    Image.new("RGB", (128, 64)).save(tmp_path / "a.png")
    drawn = tmp_path / "out.png"
    start(
        monkeypatch, "segment_anything.py", encoder, decoder, tmp_path / "a.png",
        "--box", "32,16,96,48", "--save", drawn,
    )  # fmt: skip
    found = capsys.readouterr().out
    assert found.startswith("score 0.90, ")
    area = int(found.split()[2])
    assert abs(area - 64 * 32) < 100
    with Image.open(drawn) as image:
        assert image.getpixel((64, 32)) != (0, 0, 0) == image.getpixel((10, 10))


def test_objects_of_words(tmp_path, monkeypatch, capsys):
    """Boxes carry the words; boxes of texts that were not given are left out."""
    seen = []

    class Tokenizer:
        """Of Hugging Face's package, as far as the example uses it."""

        @staticmethod
        def from_file(path):
            return Tokenizer()

        def encode(self, word):
            seen.append(word)
            return SimpleNamespace(ids=[7, len(word), 9])

    monkeypatch.setitem(sys.modules, "tokenizers", SimpleNamespace(Tokenizer=Tokenizer))
    ids = [("ids", (1, 20), {"dtype": TensorType.INT64, "zero_point": None, "scale": None})]
    text = bundle(tmp_path / "t.rknn", ids, [np.ones((1, 512))])
    scene = Scene(3, (64, 64), (8, 16, 32), 80)
    tensors = [x[None] for box, score in planted(scene, 1) for x in (score, box)]  # as the zoo's
    world = bundle(tmp_path / "w.rknn", [pixels(64), ("texts", (1, 80, 512), FLOAT)], tensors)
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    words = ["disc"] + ["star"] * int(scene.class_id.max())
    start(
        monkeypatch, "yolo_world.py", text, world, tmp_path / "a.png",
        "--words", ",".join(words), "--tokenizer", tmp_path / "tokenizer.json",
    )  # fmt: skip
    assert capsys.readouterr().out.count("star") == len(scene.class_id) - list(
        scene.class_id
    ).count(0)
    start(
        monkeypatch, "yolo_world.py", text, world, tmp_path / "a.png", "--words", "disc",
        "--tokenizer", tmp_path / "tokenizer.json",
    )  # fmt: skip
    assert "star" not in capsys.readouterr().out


def test_speech(tmp_path, monkeypatch, capsys):
    """Repeats are one, and speech longer than the input is read in two parts."""
    scores = np.zeros((1, 6, 32))
    scores[0, range(6), [11, 5, 15, 15, 0, 15]] = 1  # H, E, L, L, nothing, L
    model = bundle(tmp_path / "m.rknn", [("samples", (1, 160), FLOAT)], [scores])
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, 2, 16000, 0, "NONE", ""))
        file.writeframes(np.zeros(2 * 200, "<i2").tobytes())
    start(monkeypatch, "speech.py", model, tmp_path / "a.wav")
    assert capsys.readouterr().out == "HELL HELL\n"
