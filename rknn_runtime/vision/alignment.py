"""Parts of images turned upright and cut out, as networks for recognition take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import NDArray, as_int, check_status, pixel_rows, pointer
from rknn_runtime._ffi import lib
from rknn_runtime.kernels.resize import plain_order
from rknn_runtime.vision.images import as_pixels

#: Where eyes, nose and corners of the mouth are in a crop of 112 x 112 pixels (InsightFace).
ARCFACE_POINTS = np.array(
    [(38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655),
     (70.7299, 92.2041)]
)  # fmt: skip
_SIDE = 112
_LARGEST = 4096


def warp(pixels: NDArray[np.uint8], matrix: tuple[float, ...], crop: NDArray[np.uint8]) -> None:
    """Fill a crop from an image; the matrix turns pixels of the crop into those of the image."""
    rows = pixel_rows(pixels)
    status = lib.rkr_warp_affine_uint8(*rows, matrix, pointer(crop), crop.nbytes, *crop.shape[:2])
    check_status(status, "rkr_warp_affine_uint8")


def aligned(image: Any, keypoints: NDArray[np.float32] | None, size: int) -> NDArray[np.uint8]:
    """Cut out faces; see `Detections.align`."""
    side = as_int(size, "size", 1, _LARGEST)
    if keypoints is None or keypoints.shape[1] != len(ARCFACE_POINTS):
        got = "none" if keypoints is None else keypoints.shape[1]
        raise ValueError(f"keypoints: expected the five points of faces, got {got}")
    pixels, _ = as_pixels(image)
    order = tuple(range(pixels.shape[2]))
    pixels, placed = plain_order(pixels, order)
    crops = np.empty((len(keypoints), side, side, pixels.shape[2]), np.uint8)
    for i, (points, crop) in enumerate(zip(keypoints, crops)):
        found = similarity(points[:, :2], ARCFACE_POINTS * (side / _SIDE))
        if found is None:
            raise ValueError(
                f"keypoints: expected finite points that are apart, got {points.tolist()} of "
                f"face {i}"
            )
        # From the crop back to the image: z = (w - b) / a.
        a, b = found
        back = 1 / a
        shift = -b * back
        matrix = (back.real, -back.imag, shift.real, back.imag, back.real, shift.imag)
        warp(pixels, matrix, crop)
    return crops if placed == order else np.ascontiguousarray(crops[..., placed])


def turned(image: Any, corners: NDArray[np.float32] | None) -> list[NDArray[np.uint8]]:
    """Cut out turned boxes; see `Detections.crop_turned`."""
    if corners is None:
        raise ValueError("xyxyxyxy: expected the corners of turned boxes, got none")
    pixels, _ = as_pixels(image)
    order = tuple(range(pixels.shape[2]))
    pixels, placed = plain_order(pixels, order)
    crops = []
    for corner, right, _, below in corners.astype(np.float64):
        sides = np.hypot(*(right - corner)), np.hypot(*(below - corner))
        if not np.isfinite(sides).all() or max(sides) > _LARGEST:
            raise ValueError(
                f"xyxyxyxy: expected finite corners up to {_LARGEST} pixels apart, got "
                f"{[corner.tolist(), right.tolist(), below.tolist()]}"
            )
        width, height = (max(1, round(side)) for side in sides)
        crop = np.empty((height, width, pixels.shape[2]), np.uint8)
        # Of pixel centres, which the kernel has at whole numbers.
        across, down = (right - corner) / width, (below - corner) / height
        x, y = corner + (across + down) / 2 - 0.5
        matrix = (across[0], down[0], x, across[1], down[1], y)
        warp(pixels, matrix, crop)
        crop = crop if placed == order else np.ascontiguousarray(crop[..., placed])
        crops.append(np.ascontiguousarray(np.rot90(crop)) if 2 * height >= 3 * width else crop)
    return crops


def similarity(points: NDArray[Any], target: NDArray[Any]) -> tuple[complex, complex] | None:
    """Find the turn, scale and shift that bring points closest to others, by least squares.

    With points as complex numbers x + yi it is z -> a z + b, which has no reflection: the solution
    of Umeyama (IEEE PAMI 13, 1991) for two dimensions. None: the points do not tell.
    """
    if not np.isfinite(points).all():
        return None
    z, w = (each.astype(np.float64) @ (1, 1j) for each in (points, target))
    z0, w0 = z.mean(), w.mean()
    spread, turned = np.sum(np.abs(z - z0) ** 2), np.vdot(z - z0, w - w0)
    if spread == 0 or turned == 0:
        return None
    a = turned / spread
    return complex(a), complex(w0 - a * z0)
