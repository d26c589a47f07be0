"""Images as uint8 arrays: from arrays, Pillow images and files.

Every image file is opened by `_opened`: Pillow alone would decide by the content, and starts
Ghostscript for an EPS file named ``photo.jpg``.
"""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime._files import read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


#: Far larger than any image for a model.
MAX_FILE_BYTES = 1 << 28
#: Order of the first three channels; a fourth is alpha in either.
COLORS = ("RGB", "BGR")
#: Formats of image files, as Pillow names them, and their endings.
_FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
#: Pixels of an image file unless RKNN_MAX_PIXELS says otherwise: decoding takes 10 bytes of each.
_MOST_PIXELS = 64_000_000
_TURNED = 0x0112  # EXIF's orientation: 1 or nothing is upright, 5 to 8 a quarter turn
#: Pixels on each axis that a JPEG decoded at a smaller size keeps for one pixel of the model. With
#: fewer, detections differ more from those in the same image at full size.
_RESERVE = 2
#: Pixels that go from Pillow to NumPy at a time. All at once would need two more copies.
_BAND_PIXELS = 1 << 18
IMAGE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class ImageFile:
    """An image file that was read already, as from an upload."""

    #: For messages.
    name: str
    data: bytes


class Scaled(NamedTuple):
    """An image for a model: a large JPEG file is decoded at 1/2, 1/4 or 1/8 of its size.

    Attributes:
        pixels: As `as_pixels` returns them.
        order: The order of their channels.
        size: Height and width of the whole image, which the pixels cover exactly.
    """

    pixels: NDArray[np.uint8]
    order: str
    size: tuple[int, int]

    @property
    def is_smaller(self) -> bool:
        """Whether the pixels are fewer than the image has."""
        return self.pixels.shape[:2] != self.size


def files_with(suffixes: Sequence[str], folder: Path, *, recursive: bool = False) -> list[Path]:
    """List the files of a folder with one of some endings, in lower case with the dot, by name."""
    paths = folder.rglob("*") if recursive else folder.iterdir()
    return sorted(path for path in paths if path.suffix.lower() in suffixes)


def import_pillow() -> Any:
    """Return the package ``PIL`` with the modules that this package uses."""
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
        import PIL.ImageOps
    except ImportError as error:
        raise ImportError("Pillow is needed for this: pip install Pillow") from error
    return PIL


def check_color(color: str) -> None:
    """Raise ValueError unless `color` is ``"RGB"`` or ``"BGR"``."""
    if color not in COLORS:
        raise ValueError(f'color: expected "RGB" or "BGR", got {color!r}')


def as_pixels(image: Any, color: str = "RGB") -> tuple[NDArray[np.uint8], str]:
    """Return an image as pixels, without a copy where it is an array.

    Args:
        image: An array ``(H, W)``, ``(H, W, 1)``, ``(H, W, 3)`` or ``(H, W, 4)`` of uint8, a
            Pillow image, or a file: its path or an `ImageFile` (turned upright by its EXIF data).
        color: Order of an array's channels, ``"RGB"`` or ``"BGR"``.

    Returns:
        ``(H, W, C) uint8`` with C in {1, 3, 4}, a view if `image` is an array, and the order of
        its channels: `color` for an array, otherwise ``"RGB"``.
    """
    check_color(color)
    if is_file(image):
        return _decoded(image, None)[:2]
    if isinstance(image, np.ndarray):
        return _array_pixels(image.view(np.ndarray)), color
    if hasattr(image, "getbands") and hasattr(image, "convert"):
        return _pillow_pixels(image), "RGB"
    got = "None, as cv2.imread returns for a file that it cannot read"
    raise TypeError(
        "image: expected an array of uint8, a Pillow image or the path of a file, "
        f"got {got if image is None else type(image).__name__}"
    )


def as_scaled(
    image: Any, color: str, needed: Callable[[tuple[int, int]], tuple[int, int]]
) -> Scaled:
    """Return an image as `as_pixels` does, of a JPEG file only as many pixels as are needed.

    `needed` turns the image's height and width into those that it will be scaled to. A `Scaled` is
    returned unchanged.
    """
    if isinstance(image, Scaled):
        return image
    check_color(color)
    if is_file(image):
        return _decoded(image, needed)
    pixels, order = as_pixels(image, color)
    return Scaled(pixels, order, (pixels.shape[0], pixels.shape[1]))


def is_file(image: Any) -> bool:
    """Return whether an image is the path of a file, or a file that was read."""
    return isinstance(image, (str, os.PathLike, ImageFile))


def _decoded(image: Any, needed: Callable[[tuple[int, int]], tuple[int, int]] | None) -> Scaled:
    """Decode an image file and turn it upright; see `as_scaled`."""
    pillow = import_pillow()  # when it is missing, that is the message, whatever the file
    if not isinstance(image, ImageFile):
        image = ImageFile(os.fspath(image), read_file(image, MAX_FILE_BYTES))
    with _opened(image) as opened:
        size, is_turned = _upright_size(opened)
        if needed is not None:
            opened = _drafted(opened, needed(size), is_turned)
        if opened.getexif().get(_TURNED, 1) != 1:
            opened = pillow.ImageOps.exif_transpose(opened)
        opened.load()
    # Leaving the block closes the file, not the image.
    return Scaled(_pillow_pixels(opened), "RGB", size)


def _drafted(image: Any, needed: tuple[int, int], is_turned: bool) -> Any:
    """Let a JPEG be decoded at a fraction of its size; return it, or the same image."""
    width, height = image.size
    rows, columns = needed[::-1] if is_turned else needed
    draft = image.draft(image.mode, (columns * _RESERVE, rows * _RESERVE))
    if draft is None or image.size == (width, height):
        return image
    scale = -(-width // image.size[0])
    if width % scale or height % scale:  # the last pixels reach beyond the image
        box = (0, 0, width / scale, height / scale)
        sides = max(round(width / scale), 1), max(round(height / scale), 1)
        image = image.resize(sides, bilinear(), box=box)
    return image


def bilinear() -> Any:
    """Return Pillow's constant, which Pillow 9.1 moved."""
    images = import_pillow().Image
    return getattr(images, "Resampling", images).BILINEAR


def size_of_file(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return height and width of an upright image file in pixels, without decoding it."""
    with _opened(ImageFile(os.fspath(path), read_file(path, MAX_FILE_BYTES))) as image:
        return _upright_size(image)[0]


def _upright_size(image: Any) -> tuple[tuple[int, int], bool]:
    """Return height and width of an upright image, and whether the file has it on its side."""
    width, height = image.size
    is_turned = image.getexif().get(_TURNED, 1) >= 5
    return ((width, height) if is_turned else (height, width)), is_turned


@contextmanager
def _opened(file: ImageFile) -> Iterator[Any]:
    """Open an image of a known format and a bounded size, and name it in errors."""
    pillow = import_pillow()
    most = _most_pixels()
    try:
        with pillow.Image.open(io.BytesIO(file.data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height <= most:
                yield image
                return
        reason = f"expected at most {most} pixels, got {width} x {height}"
    except MemoryError:
        raise
    except pillow.UnidentifiedImageError:
        reason = f"expected one of {', '.join(_FORMATS)}, got another format or a damaged file"
    except pillow.Image.DecompressionBombError:
        reason = f"expected at most {most} pixels, got more than Pillow takes"
    except Exception as error:  # Pillow raises many kinds for damaged files
        reason = str(error)
    if "pixels" in reason:
        reason += ": make it smaller, or set RKNN_MAX_PIXELS"
    raise ValueError(f"{file.name} cannot be decoded as an image: {reason}")


def _most_pixels() -> int:
    text = os.environ.get("RKNN_MAX_PIXELS", str(_MOST_PIXELS))
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"RKNN_MAX_PIXELS: expected a number of pixels, got {text!r}")
    return int(text)


def _array_pixels(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype != np.uint8:
        raise TypeError(f"image: expected an array of uint8 (0..255), got {array.dtype}")
    pixels = array[..., np.newaxis] if array.ndim == 2 else array
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        cure = ""
        if array.ndim == 4:
            cure = ": pass one image at a time, or all to Pool.map"
        elif array.ndim == 3 and array.shape[0] in (1, 3, 4):
            cure = ": pass image.transpose(1, 2, 0)"
        raise ValueError(
            "image: expected shape (height, width) or (height, width, channels) with "
            f"1, 3 or 4 channels, got {array.shape}{cure}"
        )
    if pixels.size == 0:
        raise ValueError(f"image: expected at least one pixel, got shape {array.shape}")
    return pixels


def _pillow_pixels(image: Any) -> NDArray[np.uint8]:
    if 0 in image.size:
        raise ValueError(f"image: expected at least one pixel, got size {image.size}")
    if image.mode[0] in "IF":
        raise ValueError(
            f"image: expected 8 bits per channel, got mode {image.mode}: "
            "scale its values to 0..255 and convert it"
        )
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("L" if image.mode in ("1", "LA", "La") else "RGB")
    width, height = image.size
    pixels = np.empty((height, width, len(image.getbands())), np.uint8)
    step = -(-_BAND_PIXELS // width)
    for top in range(0, height, step):
        band = pixels[top : top + step]
        band[:] = np.asarray(image.crop((0, top, width, top + len(band)))).reshape(band.shape)
    return pixels
