"""Fit images into a model's input, and map what was found back onto the image."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    MAX_DIMENSION,
    as_int,
    check_status,
    has_pixel_rows,
    pixel_rows,
    plain,
    pointer,
)
from rknn_runtime._ffi import lib
from rknn_runtime._frozen import Frozen
from rknn_runtime.kernels.resize import plain_order, resize_bilinear, resize_luma
from rknn_runtime.kernels.yuv import FORMATS, YuvFrame, check_yuv_options
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import as_pixels, import_pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LetterboxTransform", "letterbox"]


@dataclass(frozen=True)
class LetterboxTransform(Frozen):
    """Where an image lies in its letterbox, and the mapping of coordinates between the two.

    Coordinates are continuous, in pixels: 0 is the left (top) edge of the first pixel and the
    width (height) the right (bottom) edge of the last. On each axis
    ``letterboxed = coordinate * resized_size / image_size + offset``, with the sizes that were
    in fact used: both directions are exact but for the rounding of the result to its dtype.
    """

    __slots__ = ("image_size", "offset", "resized_size", "size")

    #: Height and width of the image.
    image_size: tuple[int, int]
    #: Height and width of the letterbox.
    size: tuple[int, int]
    #: Height and width of the image within the letterbox.
    resized_size: tuple[int, int]
    #: Rows above and columns to the left of it.
    offset: tuple[int, int]

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            TypeError: A field is not a pair of integers.
            ValueError: A size is not from 1 to 2**31 - 1, or the offset below 0 or above that.
        """
        for name in self.__slots__:
            pair, lowest = getattr(self, name), 0 if name == "offset" else 1
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{name}: expected (height, width), got {pair!r}")
            for number in pair:
                as_int(number, name, lowest, MAX_DIMENSION)

    def boxes_to_image(self, boxes: NDArray[Any], *, clip: bool = True) -> NDArray[Any]:
        """Map ``(..., 4)`` boxes xyxy from the letterbox to the image; a new array.

        Args:
            boxes: Float32 or float64, pixels of the letterbox.
            clip: Cut off what lies outside of the image.

        Raises:
            TypeError: `boxes` is not an array of float32 or float64.
            ValueError: Its last dimension is not 4.
        """
        _check_floats(boxes, "boxes", 4, 4)
        return self.points_to_image(boxes.reshape(-1, 2), clip=clip).reshape(boxes.shape)

    def _boxes_of(self, boxes: Any, n: int) -> NDArray[np.float32]:
        """Map n boxes as `boxes_to_image` does, from ``float *`` to a new ``(n, 4)`` array."""
        mapped = np.empty((n, 4), np.float32)
        if n:
            lib.rkr_boxes_to_image(
                boxes, n, *self.offset, *self.image_size, *self.resized_size, pointer(mapped)
            )
        return mapped

    def boxes_from_image(self, boxes: NDArray[Any]) -> NDArray[Any]:
        """Map ``(..., 4)`` boxes xyxy from the image to the letterbox; a new array.

        Raises:
            TypeError: `boxes` is not an array of float32 or float64.
            ValueError: Its last dimension is not 4.
        """
        _check_floats(boxes, "boxes", 4, 4)
        return self.points_from_image(boxes.reshape(-1, 2)).reshape(boxes.shape)

    def points_to_image(self, points: NDArray[Any], *, clip: bool = False) -> NDArray[Any]:
        """Map points from the letterbox to the image; a new array.

        Args:
            points: ``(..., 2 or more)`` float32 or float64: x and y in pixels of the letterbox;
                what follows, as a keypoint's confidence, is kept.
            clip: Move points outside of the image onto its edge.

        Raises:
            TypeError: `points` is not an array of float32 or float64.
            ValueError: Its last dimension is less than 2.
        """
        _check_floats(points, "points", 2, None)
        offset, image_size, resized_size = _xy(self.offset, self.image_size, self.resized_size)
        xy = points[..., :2].astype(np.float64)
        xy -= offset
        xy *= image_size
        xy /= resized_size
        if clip:
            np.maximum(xy, _ORIGIN, out=xy)
            np.minimum(xy, image_size, out=xy)
        return _with_xy(points, xy)

    def points_from_image(self, points: NDArray[Any]) -> NDArray[Any]:
        """Map points from the image to the letterbox; a new array.

        Args:
            points: ``(..., 2 or more)`` float32 or float64: x and y in pixels of the image.

        Raises:
            TypeError: `points` is not an array of float32 or float64.
            ValueError: Its last dimension is less than 2.
        """
        _check_floats(points, "points", 2, None)
        offset, image_size, resized_size = _xy(self.offset, self.image_size, self.resized_size)
        xy = points[..., :2].astype(np.float64)
        xy *= resized_size
        xy /= image_size
        xy += offset
        return _with_xy(points, xy)

    def detections_to_image(self, detections: Detections, *, clip: bool = True) -> Detections:
        """Map detections from the letterbox to the image.

        Args:
            detections: Objects in pixels of the letterbox.
            clip: Cut off what of the upright boxes lies outside of the image.

        Raises:
            ValueError: They have masks, whose pixels do not map one to one.
        """
        if detections.mask is not None:
            raise ValueError("masks are made in the image's own size, they are not mapped")
        keypoints, corners = detections.keypoints, detections.xyxyxyxy
        return Detections._of(
            self.boxes_to_image(detections.xyxy, clip=clip),
            detections.confidence,
            detections.class_id,
            None if keypoints is None else self.points_to_image(keypoints),
            None if corners is None else self.points_to_image(corners),
        )


_ORIGIN = np.zeros(2)


@lru_cache(maxsize=64)
def _xy(*pairs: tuple[int, int]) -> tuple[NDArray[np.float64], ...]:
    """Return pairs y, x as arrays x, y; those of a video's frames are all the same."""
    return tuple(np.array(pair[::-1], np.float64) for pair in pairs)


def _check_floats(array: Any, name: str, lowest: int, highest: int | None) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64):
        came = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"{name}: expected an array of float32 or float64, got {came}")
    last = array.shape[-1] if array.ndim else 0
    if last < lowest or (highest is not None and last > highest):
        expected = f"{lowest}" if lowest == highest else f"at least {lowest}"
        raise ValueError(f"{name}: expected {expected} in the last dimension, got {array.shape}")


def _with_xy(points: NDArray[Any], xy: NDArray[np.float64]) -> NDArray[Any]:
    """Return a copy of the points with other x and y."""
    if points.shape[-1] == 2:
        return xy.astype(points.dtype, copy=False)
    result = points.copy()
    result[..., :2] = xy
    return result


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
            need Pillow: ``rknn-runtime[image]``). Alpha is ignored. Or a camera frame: see
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
    transform = _place(source.size, _sides(size), center, stretch)
    n_channels = 1 if out_color == "GRAY" else 3
    frame = _frame(out, (*transform.size, n_channels))
    (top, left), (height, width) = transform.offset, transform.resized_size
    padding = _pad_values(pad_value, n_channels)
    source.resize((height, width), out_color, frame[top : top + height, left : left + width])
    # Last, since it cannot fail: after an error the frame is as it was.
    _fill_border(frame, transform, padding)
    return frame if out is None else out, transform


def _sides(size: Any) -> tuple[int, int]:
    try:
        height, width = (operator.index(side) for side in size)
    except (TypeError, ValueError):
        raise TypeError(f"size: expected (height, width) as integers, got {size!r}") from None
    if height < 1 or width < 1:
        raise ValueError(f"size: expected a height and width of at least 1, got {size!r}")
    return height, width


@lru_cache(maxsize=64)
def _place(
    image_size: tuple[int, int], size: tuple[int, int], center: bool, stretch: bool
) -> LetterboxTransform:
    """Find the largest size with the image's proportions that fits, in integers.

    A video's frames all have the same.
    """
    image_height, image_width = image_size
    height, width = size
    if stretch:
        resized = size
    elif height * image_width <= width * image_height:
        resized = height, max(1, (2 * height * image_width + image_height) // (2 * image_height))
    else:
        resized = max(1, (2 * width * image_height + image_width) // (2 * image_width)), width
    offset = ((height - resized[0]) // 2, (width - resized[1]) // 2) if center else (0, 0)
    return LetterboxTransform((image_height, image_width), size, resized, offset)


def _frame(out: Any, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return the array ``(height, width, C)`` to write to."""
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


def _pad_values(pad_value: Any, n_channels: int) -> list[int]:
    given = list(pad_value) if isinstance(pad_value, (Sequence, np.ndarray)) else [pad_value]
    if len(given) not in (1, n_channels):
        raise ValueError(
            f"pad_value: expected 0..255, one or {n_channels} of them, got {pad_value!r}"
        )
    return [as_int(value, "pad_value", 0, 255) for value in given]


class _Pixels:
    """An image of 1, 3 or 4 channels, to be scaled into a frame as a `YuvFrame` is."""

    def __init__(self, pixels: NDArray[np.uint8], order: str, resize: str) -> None:
        self._pixels, self._order, self._resize = pixels, order, resize
        self.size: tuple[int, int] = (pixels.shape[0], pixels.shape[1])

    def resize(self, size: tuple[int, int], out_color: str, out: NDArray[np.uint8]) -> None:
        pixels = self._pixels
        channels = _channel_order(pixels.shape[2], self._order, out_color)
        if self._resize != "native":
            pixels, channels = plain_order(pixels, channels)
            pixels = _RESIZERS[self._resize](pixels, size)
        # What has its size already is copied, in the frame's order of channels.
        if out_color == "GRAY" and pixels.shape[2] > 1:
            resize_luma(pixels, size, channels=channels, out=out)
        else:
            resize_bilinear(pixels, size, channels=channels, out=out)


def _fill_border(
    frame: NDArray[np.uint8], transform: LetterboxTransform, values: list[int]
) -> None:
    status = lib.rkr_fill_border_uint8(*_border(pixel_rows(frame), transform, values))
    check_status(status, "rkr_fill_border_uint8")


def _border(
    rows: tuple[Any, ...], transform: LetterboxTransform, values: list[int]
) -> tuple[Any, ...]:
    """Return the arguments of ``rkr_fill_border_uint8`` for a frame as `pixel_rows` views it."""
    color = bytes(values * rows[5] if len(values) == 1 else values)
    return (*rows, *transform.offset, *transform.resized_size, color)


def _channel_order(n_channels: int, order: str, out_color: str) -> tuple[int, ...]:
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
