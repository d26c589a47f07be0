"""Bilinear resizing of uint8 images without any dependency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    NDArray,
    as_int,
    as_list,
    byte_array,
    check_status,
    check_target,
    has_pixel_rows,
    pixel_rows,
    untyped,
)
from rknn_runtime._ffi import lib

__all__ = ["plain_order", "resize_bilinear"]

#: The kernel takes sides up to this many pixels.
MAX_SIDE = 1 << 20
_UINT8 = np.dtype(np.uint8)
_resize = lib.rkr_resize_bilinear_uint8
#: The channels of an image as they are.
_ORDERS = {1: b"\0", 3: b"\0\1\2", 4: b"\0\1\2\3"}


def resize_bilinear(
    image: NDArray[np.uint8],
    size: tuple[SupportsIndex, SupportsIndex],
    *,
    channels: Sequence[int] | None = None,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Resize an image by bilinear interpolation, within one grey level of OpenCV's INTER_LINEAR.

    Pixel centres are at half positions. Pillow's BILINEAR averages when it shrinks an image, this
    function never. The GIL is released meanwhile.

    Args:
        image: ``(H, W, C) uint8``, C in {1, 3, 4}, or ``(H, W)`` gray, whose result of one channel
            is ``(height, width)``. It is read in place if the pixels of a row are contiguous (a
            crop, say) or have their channels reversed (``image[..., ::-1]``), else copied first.
        size: Height and width of the result, 1..2**20.
        channels: Channel of `image` for each of the result's 1, 3 or 4 channels: ``(2, 1, 0)``
            turns BGR into RGB, ``(0, 0, 0)`` gray into RGB. None: all, as they are.
        out: ``(height, width, len(channels)) uint8``, or ``(height, width)`` for gray, to write to;
            its rows may be apart.

    Returns:
        `out`, or a new array.

    Raises:
        MemoryError: No room for the temporary rows.
    """
    if channels is None:
        resized = _resized_plainly(image, size, out)
        if resized is not None:
            return resized
    is_flat = isinstance(image, np.ndarray) and image.ndim == 2
    image = _plain_image(image[..., np.newaxis] if is_flat else image, "image")
    order = tuple(range(image.shape[2])) if channels is None else _channels(channels, image)
    if len(order) not in (1, 3, 4):
        raise ValueError(f"channels: expected 1, 3 or 4 of them, got {order}")
    is_flat = is_flat and len(order) == 1
    given = out[..., np.newaxis] if is_flat and isinstance(out, np.ndarray) else out
    target = target_image(size, len(order), given)
    image, order = plain_order(image, order)
    status = lib.rkr_resize_bilinear_uint8(*pixel_rows(image), *pixel_rows(target), bytes(order))
    check_resized(status, target.shape[1], "rkr_resize_bilinear_uint8")
    if out is None:
        return target[..., 0] if is_flat else target
    return out


def _resized_plainly(image: Any, size: Any, out: Any) -> NDArray[np.uint8] | None:
    """Resize arrays as most are, with few checks: all of them take longer than a small image.

    Returns:
        The result; None: the caller resizes, or tells what is wrong.
    """
    if not (
        type(image) is np.ndarray
        and image.dtype is _UINT8
        and image.ndim == 3
        and image.shape[2] in _ORDERS
        and image.flags.c_contiguous
        and type(size) is tuple
        and len(size) == 2
        and type(size[0]) is type(size[1]) is int
    ):
        return None
    (height, width, n), (rows, row) = image.shape, size
    if out is None and 0 < rows <= MAX_SIDE and 0 < row <= MAX_SIDE:
        out = np.empty((rows, row, n), np.uint8)
    elif not (
        type(out) is np.ndarray
        and out.dtype is _UINT8
        and out.shape == (rows, row, n)
        and out.flags.carray
    ):
        return None
    source = untyped(image), image.nbytes, height, width, width * n, n
    target = untyped(out), out.nbytes, rows, row, row * n, n
    return None if _resize(*source, *target, _ORDERS[n]) else out


def is_plain(array: Any) -> bool:
    """Tell whether an object is an array of contiguous bytes."""
    return type(array) is np.ndarray and array.dtype is _UINT8 and array.flags.c_contiguous


def plain_order(
    image: NDArray[np.uint8], order: tuple[int, ...]
) -> tuple[NDArray[np.uint8], tuple[int, ...]]:
    """Return an image whose rows have contiguous pixels, and the order of its channels.

    Reversed channels are read in place, in the other order. Any other image is copied.
    """
    if image.shape[2] > 1 and image.strides[2] == -1:
        image = image[..., ::-1]
        order = tuple(image.shape[2] - 1 - channel for channel in order)
    return (image if has_pixel_rows(image) else np.ascontiguousarray(image)), order


def target_image(size: Any, n_channels: int, out: Any) -> NDArray[np.uint8]:
    """Return the array to write to: `out`, checked, or a new one."""
    height, width = size
    height, width = as_int(height, "height", 1, MAX_SIDE), as_int(width, "width", 1, MAX_SIDE)
    shape = (height, width, n_channels)
    if out is None:
        return np.empty(shape, np.uint8)
    target = _plain_image(out, "out")
    if target.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {target.shape}")
    check_target(target)
    return target


def check_resized(status: int, width: int, call: str) -> None:
    """Raise for the status of a kernel whose arguments were checked before."""
    if status == lib.RKR_ERR_OVERLAP:
        raise ValueError("out: expected memory of its own, got that of image")
    if status == lib.RKR_ERR_MEMORY:
        raise MemoryError(f"no memory for rows of {width} pixels")
    check_status(status, call)


def _plain_image(image: Any, name: str) -> NDArray[np.uint8]:
    pixels = byte_array(image, name)
    shape = pixels.shape
    if len(shape) != 3 or shape[2] not in (1, 3, 4):
        raise ValueError(f"{name}: expected shape (height, width, 1, 3 or 4 channels), got {shape}")
    if not 0 < shape[0] <= MAX_SIDE or not 0 < shape[1] <= MAX_SIDE:
        raise ValueError(f"{name}: expected sides of 1..{MAX_SIDE} pixels, got {shape}")
    return pixels


def _channels(channels: Sequence[int], image: NDArray[np.uint8]) -> tuple[int, ...]:
    given = as_list(channels, "channels", "a list of integers")
    return tuple(as_int(channel, "channels", 0, image.shape[2] - 1) for channel in given)
