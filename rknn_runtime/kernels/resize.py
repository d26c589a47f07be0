"""Bilinear resizing of uint8 images without any dependency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import check, has_pixel_rows, pixel_rows, plain, whole
from rknn_runtime._ffi import lib

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["resize_bilinear"]

#: The kernel takes sides up to this many pixels.
_MAX_SIDE = 1 << 20


def resize_bilinear(
    image: NDArray[np.uint8],
    size: tuple[SupportsIndex, SupportsIndex],
    *,
    channels: Sequence[int] | None = None,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Resize an image by bilinear interpolation, within one grey level of OpenCV's INTER_LINEAR.

    Pixel centres are at half positions, and nothing is averaged when the image shrinks (as
    Pillow's BILINEAR does). The GIL is released meanwhile.

    Args:
        image: ``(H, W, C) uint8``, C in {1, 3, 4}. Read in place when the pixels of a row are
            contiguous, whatever the distance of the rows (a crop, say), also with the
            channels reversed (``image[..., ::-1]``); a copy is made of any other view.
        size: Height and width of the result, 1..2**20.
        channels: Channel of `image` for each of the result's 1, 3 or 4 channels: ``(2, 1, 0)``
            turns BGR into RGB, ``(0, 0, 0)`` gray into RGB. None: all, as they are.
        out: ``(height, width, len(channels)) uint8`` to write to; its rows may be apart.

    Returns:
        `out`, or a new array.

    Raises:
        MemoryError: No room for the temporary rows.
        TypeError: `image` or `out` is not an array of uint8.
        ValueError: A shape, size or channel is not as said above, `out` cannot be written in
            place, or `out` overlaps `image`.
    """
    height, width = size
    height, width = whole(height, "height", 1, _MAX_SIDE), whole(width, "width", 1, _MAX_SIDE)
    image = _plain_image(image, "image")
    order = tuple(range(image.shape[2])) if channels is None else _channels(channels, image)
    shape = (height, width, len(order))
    target = np.empty(shape, np.uint8) if out is None else _plain_image(out, "out")
    if target.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {target.shape}")
    if not target.flags.writeable:
        raise ValueError("out: expected a writable array, got a read-only one")
    # Reversed channels are contiguous pixels too, read in the other order.
    if image.shape[2] > 1 and image.strides[2] == -1:
        image = image[..., ::-1]
        order = tuple(image.shape[2] - 1 - channel for channel in order)
    if not has_pixel_rows(image):
        image = np.ascontiguousarray(image)
    if not has_pixel_rows(target):
        raise ValueError(
            "out: expected rows of contiguous pixels (strides (any, channels, 1)), "
            f"got strides {target.strides}"
        )
    status = lib.rkr_resize_bilinear_uint8(*pixel_rows(image), *pixel_rows(target), bytes(order))
    if status == lib.RKR_ERR_OVERLAP:
        raise ValueError("out overlaps image: give an array of its own memory")
    if status == lib.RKR_ERR_MEMORY:
        raise MemoryError(f"no memory for two rows of {width} pixels")
    check(status, "rkr_resize_bilinear_uint8")
    return target if out is None else out


def _plain_image(image: Any, name: str) -> NDArray[np.uint8]:
    """Check an image; one of a subclass becomes a plain array."""
    pixels: NDArray[np.uint8] = plain(image, name, "an array of uint8")
    if pixels.dtype != np.uint8:
        raise TypeError(f"{name}: expected an array of uint8, got {pixels.dtype}")
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4):
        raise ValueError(
            f"{name}: expected shape (height, width, 1, 3 or 4 channels), got {pixels.shape}"
        )
    if not 0 < pixels.shape[0] <= _MAX_SIDE or not 0 < pixels.shape[1] <= _MAX_SIDE:
        raise ValueError(f"{name}: expected sides of 1..{_MAX_SIDE} pixels, got {pixels.shape}")
    return pixels


def _channels(channels: Sequence[int], image: NDArray[np.uint8]) -> tuple[int, ...]:
    order = tuple(whole(channel, "channels", 0, image.shape[2] - 1) for channel in channels)
    if len(order) not in (1, 3, 4):
        raise ValueError(f"channels: expected 1, 3 or 4 of them, got {order}")
    return order
