"""Fit images into a model's input, and map what was found back onto the image."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    as_int,
    check_status,
    has_pixel_rows,
    pixel_rows,
    plain,
)
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import plain_order, resize_bilinear, resize_luma
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

_LETTERBOX = ffi.typeof("rkr_letterbox *")


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
    if out_color not in ("RGB", "BGR", "GRAY"):
        raise ValueError(f'out_color: expected "RGB", "BGR" or "GRAY", got {out_color!r}')
    if color not in ("RGB", "BGR", *FORMATS):
        raise ValueError(f"color: expected one of {('RGB', 'BGR', *FORMATS)}, got {color!r}")
    if color in FORMATS and resize != "native":
        raise ValueError(f'resize: expected "native" for {color}, got {resize!r}')
    check_yuv_options(matrix, full_range)
    source = (
        YuvFrame(image, color, matrix, full_range)
        if color in FORMATS
        else _Pixels(*as_pixels(image, color), resize)
    )
    transform = place(source.size, _sides(size), center, stretch)
    n_channels = 1 if out_color == "GRAY" else 3
    frame = frame_of(out, (*transform.size, n_channels))
    (top, left), (height, width) = transform.offset, transform.resized_size
    padding = padding_of(pad_value, n_channels)
    source.resize((height, width), out_color, frame[top : top + height, left : left + width])
    # Last, since it cannot fail: after an error the frame is as it was.
    border = native_letterbox(pixel_rows(frame), transform, padding)
    check_status(lib.rkr_fill_border_uint8(border), "rkr_fill_border_uint8")
    return frame if out is None else out, transform


def _sides(size: Any) -> tuple[int, int]:
    try:
        height, width = (operator.index(side) for side in size)
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
    if frame.dtype != np.uint8:
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
    is_one = type(pad_value) is int or not isinstance(pad_value, (Sequence, np.ndarray))
    given = [pad_value] if is_one else list(pad_value)
    if len(given) not in (1, n_channels):
        raise ValueError(
            f"pad_value: expected 0..255, one or {n_channels} of them, got {pad_value!r}"
        )
    values = [as_int(value, "pad_value", 0, 255) for value in given]
    return bytes(values * (n_channels // len(values)))


class _Pixels:
    """An image of 1, 3 or 4 channels, to be scaled into a frame as a `YuvFrame` is."""

    def __init__(self, pixels: NDArray[np.uint8], order: str, resize: str) -> None:
        self._pixels, self._order, self._resize = pixels, order, resize
        self.size: tuple[int, int] = (pixels.shape[0], pixels.shape[1])

    def resize(self, size: tuple[int, int], out_color: str, out: NDArray[np.uint8]) -> None:
        pixels = self._pixels
        channels = channel_order(pixels.shape[2], self._order, out_color)
        if self._resize != "native":
            pixels, channels = plain_order(pixels, channels)
            pixels = _RESIZERS[self._resize](pixels, size)
        # What has its size already is copied, in the frame's order of channels.
        if out_color == "GRAY" and pixels.shape[2] > 1:
            resize_luma(pixels, size, channels=channels, out=out)
        else:
            resize_bilinear(pixels, size, channels=channels, out=out)


def native_letterbox(
    rows: tuple[Any, ...],
    transform: LetterboxTransform,
    padding: bytes,
    order: tuple[int, ...] = (),
    n_channels: int = 0,
) -> Any:
    """Return an ``rkr_letterbox *``, which does not keep the frame's memory alive.

    Args:
        rows: The frame, as `pixel_rows` views what `frame_of` returned.
        transform: Where the image goes.
        padding: As `padding_of` returns it.
        order: The image's channel for each of the frame; only the border does without.
        n_channels: Channels of the image; likewise.
    """
    return ffi.new(
        _LETTERBOX,
        (
            *rows,
            *transform.offset,
            *transform.resized_size,
            *transform.image_size,
            n_channels,
            bytes(order),
            padding,
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
