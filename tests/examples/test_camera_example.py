"""The camera example: sources, windows and output."""

from __future__ import annotations

import runpy
import sys

import numpy as np
import pytest
from paths import PROJECT
from videos import write_video

Image = pytest.importorskip("PIL.Image")
EXAMPLE = PROJECT / "examples" / "camera.py"


def frames(n):
    return [np.full((48, 64, 3), i, np.uint8) for i in range(n)]


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [EXAMPLE.name, *map(str, arguments), "--library", "sim"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_images_of_a_folder(model, tmp_path, monkeypatch, capsys):
    """In the order of their names, without OpenCV; the last one is saved annotated."""
    monkeypatch.setitem(sys.modules, "cv2", None)
    folder, saved = tmp_path / "images", tmp_path / "last.png"
    folder.mkdir()
    for i in range(5):
        Image.new("RGB", (64, 48), (10, 20, 30 + i)).save(folder / f"{i}.png")
    run(monkeypatch, model, folder, "--frames", "3", "--save", saved, "--stats")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["frame 1: star", "frame 2: star", "frame 3: star"]
    assert lines[-1].startswith("3 frames, ") and lines[-1].endswith(" FPS, 0 dropped")
    assert any("decode" in line for line in lines[3:-1])
    with Image.open(saved) as drawn:
        assert drawn.size == (64, 48) and drawn.getpixel((0, 47)) == (10, 20, 32)
        assert len(drawn.getcolors()) > 1


def test_a_video_is_read_through_opencv(model, tmp_path, monkeypatch, capsys):
    """Every frame of a video file is run."""
    path = tmp_path / "video.avi"
    write_video(path, frames(4), 10)
    run(monkeypatch, model, path)
    assert "4 frames, " in capsys.readouterr().out


def test_a_video_to_save_is_refused_before_the_first_frame(model, image, monkeypatch, capsys):
    """Not when all frames are run and lost."""
    with pytest.raises(SystemExit) as caught:
        run(monkeypatch, model, image, "--frames", "1", "--save", "x.mp4")
    captured = capsys.readouterr()
    assert caught.value.code == 2 and captured.out == ""
    assert "--save: x.mp4: expected the name of an image" in captured.err


class OpenCV:
    """An OpenCV as far as a window goes."""

    def __init__(self, gui, key=-1):
        self.gui, self.key, self.shown = gui, key, []

    def getBuildInformation(self):
        return f"  GUI:                           {self.gui}\n"

    def imshow(self, title, image):
        self.shown.append(image)

    def waitKey(self, milliseconds):
        return self.key


@pytest.mark.parametrize(
    ("opencv", "display", "message"),
    [
        (None, ":0", "pip install opencv-python"),
        (OpenCV("NONE"), ":0", "pip uninstall opencv-python-headless, then pip install"),
        (OpenCV("QT5"), "", "neither DISPLAY nor WAYLAND_DISPLAY"),
    ],
)
def test_a_window_that_cannot_be_is_told_at_once(
    model, image, monkeypatch, capsys, opencv, display, message
):
    """Without OpenCV, with the headless one, and without a screen; what to install is said."""
    monkeypatch.setitem(sys.modules, "cv2", opencv)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(SystemExit, match=message):
        run(monkeypatch, model, image, "--show")
    assert capsys.readouterr().out == ""


def test_escape_ends_the_window(model, image, monkeypatch, capsys):
    """Every frame is shown, annotated, until the key is pressed."""
    opencv = OpenCV("GTK3", key=27)
    monkeypatch.setitem(sys.modules, "cv2", opencv)
    monkeypatch.setenv("DISPLAY", ":0")
    run(monkeypatch, model, image, "--show")
    assert capsys.readouterr().out.splitlines()[1].startswith("1 frames, ")
    (shown,) = opencv.shown
    assert shown.shape == (48, 64, 3) and len(np.unique(shown.reshape(-1, 3), axis=0)) > 1
