"""The one door for image files: known formats, a bounded number of pixels, errors with names."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime.vision.images import as_pixels, size_of_file

Image = pytest.importorskip("PIL.Image")

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 40 30
%%EndComments
{} loop
"""


def encoded(format, size=(40, 30), **options):
    file = io.BytesIO()
    Image.new("RGB", size, (200, 100, 50)).save(file, format, **options)
    return file.getvalue()


def empty_png(width, height):
    """A PNG whose head promises that many pixels."""

    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize("format", ["BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_formats_that_folders_are_searched_for(tmp_path, format):
    """Each is decoded by its content, under any name, and its size is read without that."""
    path = tmp_path / "photo.any"
    path.write_bytes(encoded(format))
    pixels, order = as_pixels(path)
    assert (pixels.shape, order) == ((30, 40, 3), "RGB")
    assert np.abs(pixels.astype(int) - (200, 100, 50)).max() <= 8
    assert size_of_file(path) == (30, 40)


@pytest.mark.parametrize("format", ["GIF", "ICO", "PCX", "TGA", "ICNS"])
def test_other_formats_are_refused(tmp_path, format):
    """Even under the name of a known one."""
    path = tmp_path / "photo.png"
    path.write_bytes(encoded(format, (32, 32)))
    with pytest.raises(ValueError, match=r"photo\.png cannot .*: expected one of BMP, JPEG, PNG"):
        as_pixels(path)


@pytest.mark.parametrize("ending", ["jpg", "eps"])
def test_no_program_is_started_for_a_file(tmp_path, ending):
    """An EPS starts a `gs` from PATH otherwise, under any name, and a loop in it never ends."""
    path, gs, mark = tmp_path / f"photo.{ending}", tmp_path / "gs", tmp_path / "started"
    path.write_bytes(EPS)
    gs.write_text(f"#!/bin/sh\ntouch {mark}\n", "ascii")
    gs.chmod(0o755)
    code = "import sys; from rknn_runtime.vision.images import as_pixels; as_pixels(sys.argv[1])"
    search = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PATH": search},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"photo.{ending} cannot be decoded as an image: expected one of" in ran.stderr
    assert not mark.exists()


@pytest.mark.parametrize(("side", "most"), [(9000, ""), (2000, "3999999"), (14000, "200000000")])
def test_too_many_pixels(tmp_path, monkeypatch, side, most):
    """They are counted before they are decoded; the limit can be changed up to Pillow's own."""
    path = tmp_path / "bomb.png"
    path.write_bytes(empty_png(side, side))
    if most:
        monkeypatch.setenv("RKNN_MAX_PIXELS", most)
    for read in (as_pixels, size_of_file):
        with pytest.raises(ValueError, match=r"bomb\.png .*expected at most .* RKNN_MAX_PIXELS"):
            read(path)


def test_the_limit_is_a_number_of_pixels(tmp_path, monkeypatch):
    """Exactly that many pixels are accepted; a limit that is no number is refused."""
    path = tmp_path / "photo.png"
    path.write_bytes(encoded("PNG"))
    monkeypatch.setenv("RKNN_MAX_PIXELS", "1200")
    assert as_pixels(path)[0].shape == (30, 40, 3)
    monkeypatch.setenv("RKNN_MAX_PIXELS", "many")
    with pytest.raises(ValueError, match=r"RKNN_MAX_PIXELS: expected .* 'many'"):
        as_pixels(path)


def test_photos_are_turned_upright(tmp_path):
    """By their EXIF data, with the size that `size_of_file` says."""
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / "photo.jpg"
    path.write_bytes(encoded("JPEG", exif=exif))
    assert as_pixels(path)[0].shape[:2] == size_of_file(path) == (40, 30)


def test_no_other_place_opens_image_files():
    """`Image.open` without its formats would decide by the content."""
    package = Path(sys.modules["rknn_runtime"].__file__).parent
    found = [
        path.name for path in package.rglob("*.py") if "Image.open(" in path.read_text("utf-8")
    ]
    assert found == ["images.py"]


@pytest.mark.parametrize(
    ("shape", "cure"),
    [
        ((2, 8, 9, 3), "one image at a time"),
        ((3, 8, 9), r"transpose\(1, 2, 0\)"),
        ((8, 9, 2), r"\(8, 9, 2\)$"),
    ],
)
def test_the_usual_wrong_shapes_are_told_their_cure(shape: tuple[int, ...], cure: str) -> None:
    """A batch and PyTorch's order get a cure; other shapes only the expected ones."""
    with pytest.raises(ValueError, match=cure):
        as_pixels(np.zeros(shape, np.uint8))
