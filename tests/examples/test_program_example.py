"""Shared by all examples: start, arguments and end."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys

import pytest
from _program import image_file, run
from paths import PROJECT
from planting import classification

from rknn_runtime.errors import LibraryLoadError

Image = pytest.importorskip("PIL.Image")
EXAMPLES = PROJECT / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("[a-z]*.py"))
#: Two models, and their further arguments.
CHAINS = {
    "segment_anything": ("--point", "1,1"),
    "yolo_world": ("--words", "a dog", "--tokenizer", "none.json"),
}


@pytest.fixture
def scores(tmp_path):
    """A classifier with a recorded answer."""
    path = tmp_path / "scores.rknn"
    path.write_bytes(classification.bundle())
    return path


@pytest.fixture
def ended(monkeypatch):
    """Run an example to its end, somewhere else than in the checkout; return its exit code."""

    def run_to_its_end(program: str, *arguments: str) -> object:
        monkeypatch.chdir(EXAMPLES.anchor)
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / f"{program}.py"), *arguments])
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(sys.argv[0], run_name="__main__")
        return caught.value.code

    return run_to_its_end


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_says_how_it_is_used(ended, program, capsys):
    """It starts from any folder."""
    assert ended(program, "--help") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: {program}.py ") and err == ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_come_without_a_traceback(ended, program, capsys):
    """A missing model ends each example with one line that names it."""
    models = ["none.rknn"] * (2 if program in CHAINS else 1)
    said = ended(program, *models, "none.png", "--library", "sim", *CHAINS.get(program, ()))
    assert capsys.readouterr() == ("", "")
    assert said.startswith(f"{program}.py: ") and "\n" not in said
    assert "none." in said or said == "yolo_world.py: No module named 'tokenizers'"


@pytest.fixture
def folder(image):
    """More images than any test has time for."""
    folder = image.with_name("images")
    folder.mkdir()
    for i in range(1000):
        (folder / f"{i:04}.png").symlink_to(image)
    return folder


@pytest.mark.parametrize(
    ("program", "arguments", "first", "status"),
    [
        ("camera", ["MODEL", "FOLDER", "--save", "SAVED"], "frame 1: star\n", 0),
        ("classify", ["SCORES", *["IMAGE"] * 500], "IMAGE:\n", 130),
        ("coco_test", ["MODEL", "IMAGE"], "Model: MODEL\n", 130),
    ],
)
def test_ctrl_c_ends_with_what_is_done(
    program, arguments, first, status, model, image, folder, scores
):
    """There is no traceback; a camera reports its results so far."""
    saved = image.with_name("last.png")
    paths = {"MODEL": model, "SCORES": scores, "IMAGE": image, "SAVED": saved, "FOLDER": folder}
    arguments = [paths.get(word, word) for word in arguments]
    process = subprocess.Popen(
        [sys.executable, "-u", EXAMPLES / f"{program}.py", *arguments, "--library", "sim"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RKNN_SIM_LATENCY_US": "20000"},
    )
    for name, path in paths.items():
        first = first.replace(name, str(path))
    assert process.stdout.readline() == first
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == status
    assert "Traceback" not in err
    assert "stopped" in err
    last = out.splitlines()[-1] if out else ""
    if program == "camera":
        assert re.fullmatch(r"\d+ frames, \d+\.\d FPS, 0 dropped", last)
        assert saved.exists()


def test_without_a_board_the_error_leads_to_the_simulated_npu(monkeypatch):
    """The example prints the package's whole message, and how to select the simulated NPU."""

    def refused():
        raise LibraryLoadError('pass library="sim"', [("/a.so", "not there")])

    monkeypatch.setattr(sys, "argv", ["/somewhere/detect.py"])
    with pytest.raises(SystemExit) as caught:
        run(refused)
    message, _, option = caught.value.code.rpartition("\n")
    assert message == 'detect.py: pass library="sim"\n  /a.so: not there'
    assert option.endswith("the simulated NPU: --library sim")


@pytest.mark.parametrize("name", ["out.png", "out.JPG", "new/folder/out.jpeg", "out.bmp"])
def test_an_image_can_be_saved_there(name, tmp_path):
    """What Pillow writes; a folder that is missing is made."""
    path = image_file(str(tmp_path / name))
    Image.new("RGB", (2, 2)).save(path)
    assert path.exists()
