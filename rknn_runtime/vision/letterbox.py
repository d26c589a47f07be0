"""Fit images into a model's input, and map what was found back onto the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    address,
    as_int,
    as_list,
    exact_int,
    has_pixel_rows,
    pixel_rows,
    plain,
)
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import MAX_SIDE, check_resized, plain_order
from rknn_runtime.kernels.yuv import FORMATS, YuvFrame, check_yuv_options
from rknn_runtime.vision.images import as_pixels, import_pillow
from rknn_runtime.vision.transform import LetterboxTransform, place

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "channel_order",
    "frame_of",
    "letterbox",
    "native_letterbox",
    "padding_of",
]

_LETTERBOX, _UINT8 = ffi.typeof("rkr_letterbox *"), np.dtype(np.uint8)
_NO_IMAGE = 0, 0, 0, 0
_OUT_COLORS = ("RGB", "BGR", "GRAY")
_COLORS = ("RGB", "BGR", *FORMATS)


def letterbox(
    image: Any,
    size: tuple[SupportsIndex, SupportsIndex],
    *,
    pad_value: SupportsIndex | Sequence[SupportsIndex] = 114,
    out: NDArray[np.uint8] | None = None,
    resize: str = "native",
    center: bool = True,
    stretch: bool = False,
    color: str = "RGB",
    out_color: str = "RGB",
    matrix: str = "bt601",
    full_range: bool = False,
) -> tuple[NDArray[np.uint8], LetterboxTransform]:
    """Scale an image into a frame, keeping its proportions, and fill the rest of the frame.

    Args:
        image: An array ``(H, W)``, ``(H, W, 1)``, ``(H, W, 3)`` or ``(H, W, 4)`` of uint8, a
            Pillow image, or the path of a file (turned upright as its EXIF data say; both
            need Pillow: ``pip install Pillow``). Alpha is ignored. Or a camera frame: see
            `color`.
        size: Height and width of the frame.
        pad_value: 0..255 for the rest of the frame, one for all channels or one for each.
        out: The frame, to write in place: ``(height, width, C)`` or ``(1, height, width, C)``
            uint8 with contiguous pixels, such as ``model.input_view()``; its rows may be apart.
        resize: ``"native"``: this package's bilinear kernel. ``"opencv"``: INTER_LINEAR (extra
            ``opencv``). ``"pillow"``: BILINEAR, which averages when it shrinks.
        center: Put the image in the middle (an odd row or column goes below or to the
            right); False: to the top left.
        stretch: Fill the whole frame instead, without regard to proportions.
        color: Order of the channels of an array, ``"RGB"`` or ``"BGR"`` (as from OpenCV); or
            the format of a camera frame, ``"NV12"``, ``"NV21"``, ``"I420"``, ``"YUYV"`` or
            ``"UYVY"``: `image` is then what `rknn_runtime.kernels.yuv.YuvFrame` takes, scaled and
            converted in one pass, by ``"native"`` alone.
        out_color: Channels of the frame: ``"RGB"``, ``"BGR"`` or ``"GRAY"`` (C = 1, ITU-R
            BT.601 luma; of a camera frame its own luma).
        matrix: Of a camera frame: ``"bt601"`` or ``"bt709"``, the standard of its colours.
        full_range: Of a camera frame: its values use 0..255 (JPEG), not 16..235.

    Returns:
        The frame (`out`, or a new ``(height, width, C)`` array) and the transform that maps
        coordinates back to the image.

    Raises:
        ImportError: What `resize` or the kind of `image` needs is not installed.
        OSError: The file cannot be read.
        TypeError: `image` is nothing that can be an image, or an argument has a wrong type.
        ValueError: A shape, size, name or value is not as said above, or the file is no
            image that can be decoded.
    """
    if resize not in _RESIZERS:
        raise ValueError(f"resize: expected one of {sorted(_RESIZERS)}, got {resize!r}")
    if out_color not in _OUT_COLORS:
        raise ValueError(f'out_color: expected "RGB", "BGR" or "GRAY", got {out_color!r}')
    if color not in _COLORS:
        raise ValueError(f"color: expected one of {_COLORS}, got {color!r}")
    is_camera = color in FORMATS
    if is_camera and resize != "native":
        raise ValueError(f'resize: expected "native" for {color}, got {resize!r}')
    if is_camera:
        camera = YuvFrame(image, color, matrix, full_range)
        image_size = camera.size
    else:
        check_yuv_options(matrix, full_range)
        pixels, order = as_pixels(image, color)
        image_size = pixels.shape[0], pixels.shape[1]
    transform = place(image_size, _sides(size), center, stretch)
    n_channels = 1 if out_color == "GRAY" else 3
    frame = frame_of(out, (*transform.size, n_channels))
    rows, padding = pixel_rows(frame), padding_of(pad_value, n_channels)
    # One call each: after an error the frame is as it was.
    if is_camera:
        status = camera.fill(native_letterbox(rows, transform, padding), out_color)
    else:
        channels = channel_order(pixels.shape[2], order, out_color)
        pixels, channels = plain_order(pixels, channels)
        if resize != "native":
            pixels = _RESIZERS[resize](pixels, transform.resized_size)
        status = lib.rkr_letterbox_uint8(
            native_letterbox(rows, transform, padding, pixel_rows(pixels), channels),
            address(pixels),
        )
    if status != lib.RKR_OK:
        _refuse(status, transform)
    return frame if out is None else out, transform


def _refuse(status: int, transform: LetterboxTransform) -> None:
    """Raise for the status of a kernel."""
    sides = (*transform.image_size, *transform.size)
    if status == lib.RKR_ERR_SHAPE and max(sides) > MAX_SIDE:
        raise ValueError(
            f"image, size: expected sides of up to {MAX_SIDE} pixels, got an image of "
            f"{transform.image_size} and a frame of {transform.size}"
        )
    check_resized(status, transform.resized_size[1], "rkr_letterbox_uint8")


def _sides(size: Any) -> tuple[int, int]:
    try:
        height, width = size
        height, width = (exact_int(side, "size", "an integer") for side in (height, width))
    except (TypeError, ValueError):
        raise TypeError(f"size: expected (height, width) as integers, got {size!r}") from None
    if height < 1 or width < 1:
        raise ValueError(f"size: expected a height and width of at least 1, got {size!r}")
    return height, width


def frame_of(out: Any, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return the array ``(height, width, C)`` to write to, a new one where `out` is None.

    Raises:
        TypeError: `out` is no array of uint8.
        ValueError: It has another shape, or cannot be written in place.
    """
    if out is None:
        return np.empty(shape, np.uint8)
    frame: NDArray[np.uint8] = plain(out, "out", "an array of uint8")
    if frame.dtype is not _UINT8 and frame.dtype != _UINT8:
        raise TypeError(f"out: expected an array of uint8, got {frame.dtype}")
    if frame.shape not in (shape, (1, *shape)):
        raise ValueError(f"out: expected shape {shape} or {(1, *shape)}, got {frame.shape}")
    if not frame.flags.writeable:
        raise ValueError("out: expected a writable array, got a read-only one")
    frame = frame if frame.ndim == 3 else frame[0]
    if not has_pixel_rows(frame):
        raise ValueError(
            "out: expected rows of contiguous pixels (strides (any, channels, 1)), "
            f"got strides {frame.strides}"
        )
    return frame


def padding_of(pad_value: Any, n_channels: int) -> bytes:
    """Return a `pad_value` of `letterbox` as a byte for each channel.

    Raises:
        TypeError: It is no integer, or sequence of them.
        ValueError: One is not 0..255, or they are not as many as channels.
    """
    # An integer first: to ask for a sequence takes longer than all else here.
    if pad_value.__class__ is int and 0 <= pad_value <= 255:
        return bytes((pad_value,)) * n_channels
    is_one = not isinstance(pad_value, (Sequence, np.ndarray))
    given = [pad_value] if is_one else as_list(pad_value, "pad_value", "0..255")
    if len(given) not in (1, n_channels):
        raise ValueError(
            f"pad_value: expected 0..255, one or {n_channels} of them, got {pad_value!r}"
        )
    values = [as_int(value, "pad_value", 0, 255) for value in given]
    return bytes(values * (n_channels // len(values)))


def native_letterbox(
    rows: tuple[Any, ...],
    transform: LetterboxTransform,
    padding: bytes,
    image: tuple[Any, ...] = (),
    order: tuple[int, ...] = (),
) -> Any:
    """Return an ``rkr_letterbox *``, which does not keep the frame's memory alive.

    Args:
        rows: The frame, as `pixel_rows` views what `frame_of` returned.
        transform: Where the image goes.
        padding: As `padding_of` returns it.
        image: The image, as `pixel_rows` views it; a camera frame does without.
        order: As `channel_order` returns it; likewise.
    """
    return ffi.new(
        _LETTERBOX,
        (
            *rows,
            *transform.offset,
            *transform.resized_size,
            *(image[2:] or _NO_IMAGE),
            bytes(order),
            padding,
            len(order) > rows[5],
        ),
    )


def channel_order(n_channels: int, order: str, out_color: str) -> tuple[int, ...]:
    """Return the image's channel for each of the frame, or for R, G and B where that is gray."""
    if n_channels == 1:
        return (0,) if out_color == "GRAY" else (0, 0, 0)
    return (0, 1, 2) if order == ("RGB" if out_color == "GRAY" else out_color) else (2, 1, 0)


def _resize_opencv(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    try:
        import cv2
    except ImportError as error:
        raise ImportError(
            "OpenCV is needed for this: pip install opencv-python-headless"
        ) from error
    resized: Any = cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.asarray(resized, np.uint8).reshape(*size, -1)


def _resize_pillow(pixels: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    images = import_pillow().Image
    height, width, n_channels = pixels.shape
    # The fourth channel is none to Pillow, which would weight the colours by an alpha.
    mode = {1: "L", 3: "RGB", 4: "RGBX"}[n_channels]
    data = np.ascontiguousarray(pixels)
    image = images.frombuffer(mode, (width, height), data, "raw", mode, 0, 1)
    bilinear = getattr(images, "Resampling", images).BILINEAR  # Pillow 9.1 moved it there
    return np.asarray(image.resize(size[::-1], bilinear)).reshape(*size, -1)


_RESIZERS: dict[str, Any] = {
    "native": None,
    "opencv": _resize_opencv,
    "pillow": _resize_pillow,
}
