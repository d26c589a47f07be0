"""Images for calibration, prepared as on the board."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rknn_runtime._arrays import Array, as_int, load_arrays
from rknn_runtime.vision.images import IMAGE_SUFFIXES, files_with
from rknn_runtime.vision.letterbox import placed


def images_in(
    folder: str | os.PathLike[str], name: str, limit: int | None = None, *, recursive: bool = True
) -> list[Path]:
    """List the images and ``.npy`` files of a folder in the order of their names.

    `limit` of them are spread evenly, since folders are often sorted by class.
    """
    if limit is not None:
        limit = as_int(limit, "limit", 1, 2**31 - 1)
    place = Path(folder)
    if not place.is_dir():
        raise ValueError(f"{name}: expected a folder of images, got {str(folder)!r}")
    found = files_with((*IMAGE_SUFFIXES, ".npy"), place, recursive=recursive)
    if not found:
        raise ValueError(
            f"{name}: expected images ({', '.join(IMAGE_SUFFIXES)}) or .npy files in {place}, "
            "got none"
        )
    count = len(found) if limit is None else min(limit, len(found))
    return [found[i * len(found) // count] for i in range(count)]


def framed(path: Path, size: tuple[int, int], color: str, fit: str = "center") -> Array:
    """Read an image and place it as `Detector` (``"center"``) or `TextRecognizer` (``"line"``) do.

    Returns:
        ``(1, height, width, C) uint8``.
    """
    channels = 1 if color == "GRAY" else 3
    if path.suffix.lower() != ".npy":
        try:
            return placed(path, size, color, fit)[0][None]
        except ValueError as error:
            text = str(error)
            raise ValueError(text if str(path) in text else f"{path}: {text}") from error
    (pixels, *_) = load_arrays(path).values()
    whole = pixels[None] if pixels.ndim == 3 else pixels
    if whole.shape != (1, *size, channels) or whole.dtype != np.uint8:
        raise ValueError(
            f"{path}: expected {(1, *size, channels)} uint8, got {pixels.shape} {pixels.dtype}"
        )
    return np.ascontiguousarray(whole)


def written(
    images: Sequence[Path], size: tuple[int, int], color: str, folder: Path, fit: str = "center"
) -> list[str]:
    """Write each image as an array in NCHW, which the toolkit takes unchanged."""
    paths = []
    for i, image in enumerate(images):
        path = folder / f"{i:05}.npy"
        np.save(path, framed(image, size, color, fit).transpose(0, 3, 1, 2).copy())
        paths.append(str(path))
    return paths


def listing(paths: Sequence[str], folder: Path) -> str:
    """Write the list of files for the toolkit, and return its path."""
    path = folder / "calibration.txt"
    path.write_text("".join(f"{each}\n" for each in paths), "utf-8")
    return str(path)
