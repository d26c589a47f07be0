"""``rknn-runtime demo``: from a wheel alone to a picture with objects."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime import Detector
from rknn_runtime.cli.demo import MODEL, PICTURE
from rknn_runtime.cli.main import main


def test_it_needs_no_package_and_says_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works without Pillow, writes the named picture, and its first suggested command works."""
    code = (
        "import sys, importlib.util as u; find = u.find_spec\n"
        "sys.modules.update(dict.fromkeys(('PIL', 'onnx', 'cv2', 'yaml')))\n"
        "u.find_spec = lambda name: None if name == 'PIL' else find(name)\n"
        "from rknn_runtime.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (
        "simulated NPU" in done.stdout
        and "Wrote rknn-demo.png and rknn-demo.rknn; with" in done.stdout
    )
    assert (tmp_path / "rknn-demo.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^  rknn-runtime (.*)$", done.stdout, re.MULTILINE)
    assert len(shown) == 3
    assert main(shlex.split(shown[0])) == 0


def test_the_picture_shows_what_is_found(tmp_path: Path) -> None:
    """Any viewer reads it; its objects are the detector's own, and mostly right."""
    image_module = pytest.importorskip("PIL.Image")
    path = tmp_path / "found.png"
    assert main(["demo", "-o", str(path)]) == 0
    with np.load(PICTURE) as stored:
        image = stored["palette"][stored["pixels"]]
    with Detector.open(tmp_path / "rknn-demo.rknn", library="sim") as detector:
        found = detector(image)
    assert np.array_equal(np.asarray(image_module.open(path)), found.draw(image))
    assert sorted(found.names) == ["circle"] * 4 + ["star", "triangle"]


def test_it_is_small() -> None:
    """A wheel of a board has less than 1 MB."""
    assert MODEL.stat().st_size < 50_000 and PICTURE.stat().st_size < 20_000
