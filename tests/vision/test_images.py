"""The one door for image files: known formats, a bounded number of pixels, errors with names."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from processes import python

from rknn_runtime.vision.images import ImageFile, as_pixels, as_scaled, size_of_file

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
    ran = python(code, path, env={**os.environ, "PATH": search})
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


def ramp(width, height):
    """A picture whose red grows to the right and whose green grows downwards."""
    pixels = np.zeros((height, width, 3), np.float32)
    pixels[..., 0] = (np.arange(width) + 0.5) * 200 / width
    pixels[..., 1] = ((np.arange(height) + 0.5) * 200 / height)[:, None]
    return Image.fromarray(pixels.round().astype(np.uint8))


@pytest.mark.parametrize(
    ("size", "sides"),
    [((800, 400), (200, 100)), ((797, 405), (199, 101)), ((790, 1610), (198, 402))],
)
@pytest.mark.parametrize("turned", [1, 3, 6, 8])
def test_large_photos_are_decoded_smaller(tmp_path, size, sides, turned):
    """They keep twice the needed size, and cover the photo from edge to edge, also turned."""
    exif = Image.Exif()
    exif[0x0112] = turned
    path = tmp_path / "photo.jpg"
    ramp(*size).save(path, quality=95, subsampling=0, exif=exif)
    whole, _ = as_pixels(path)
    asked = []

    def needed(shape):
        asked.append(shape)
        return (shape[0] // 9, shape[1] // 9)

    pixels, order, shape = as_scaled(path, "RGB", needed)
    assert asked == [shape] == [whole.shape[:2]] == [size_of_file(path)]
    assert (pixels.shape[:2], order) == ((sides if turned > 4 else sides[::-1]), "RGB")
    places = [(np.arange(small) + 0.5) * large / small for small, large in zip(pixels.shape, shape)]
    rows, columns = (
        np.minimum(place.astype(int), large - 1) for place, large in zip(places, shape)
    )
    apart = np.abs(pixels.astype(float) - whole[rows][:, columns])
    assert apart.max() <= 4 and apart[..., :2].mean() < 0.6


@pytest.mark.parametrize(
    ("format", "options", "needed", "side"),
    [
        ("PNG", {}, 25, 400),
        ("JPEG", {}, 101, 400),
        ("JPEG", {}, 100, 200),
        ("JPEG", {"progressive": True}, 25, 50),
    ],
)
def test_twice_what_is_needed_is_kept(format, options, needed, side):
    """Only a JPEG becomes smaller, and only by halves."""
    file = ImageFile("photo", encoded(format, (400, 400), **options))
    scaled = as_scaled(file, "RGB", lambda size: (needed, needed))
    assert (scaled.pixels.shape[0], scaled.size) == (side, (400, 400))
    assert scaled.is_smaller == (side < 400)


def test_photos_of_two_lenses_are_decoded_smaller():
    """A file of several pictures, as phones write it, has another reader in Pillow."""
    pictures, file = [Image.new("RGB", (400, 200), each) for each in ("red", "blue")], io.BytesIO()
    pictures[0].save(file, "MPO", save_all=True, append_images=pictures[1:])
    scaled = as_scaled(ImageFile("photo.jpg", file.getvalue()), "RGB", lambda size: (20, 40))
    assert scaled.pixels.shape == (50, 100, 3) and scaled.size == (200, 400)
    assert np.abs(scaled.pixels.astype(int) - (254, 0, 0)).max() <= 2


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
