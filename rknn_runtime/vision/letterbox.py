"""Fit images into a model's input, and map coordinates back onto the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    MAX_DIMENSION,
    NDArray,
    address,
    as_int,
    byte_array,
    check_target,
    exact_int,
    pixel_rows,
)
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.kernels.resize import MAX_SIDE, check_resized, is_plain, plain_order
from rknn_runtime.kernels.yuv import FORMATS, YuvFrame, check_yuv_options
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import COLORS, as_scaled, bilinear, import_pillow

# Looked up once: these are used for every frame.
_ndarray, _UINT8 = np.ndarray, np.dtype(np.uint8)
_LETTERBOX, _PLACEMENT = ffi.typeof("rkr_letterbox *"), ffi.typeof("rkr_placement *")
_NO_IMAGE = 0, 0, 0, 0
_ORIGIN = np.zeros(2)
_OUT_COLORS = ("RGB", "BGR", "GRAY")
_COLORS = (*COLORS, *FORMATS)
#: Right of a line of text: the value that PaddleOCR's normalization turns into nearly 0.
LINE_PAD = 127


@dataclass(frozen=True)
class LetterboxTransform:
    """Where an image lies in its letterbox, and the mapping of coordinates between the two.

    Coordinates are continuous, in pixels: 0 is the left (top) edge of the first pixel, and the
    width (height) is the right (bottom) edge of the last. On each axis
    ``letterboxed = coordinate * resized_size / image_size + offset``, with the sizes that were
    actually used: both directions are exact except for the rounding of the result to its dtype.
    """

    #: Height and width of the image.
    image_size: tuple[int, int]
    #: Height and width of the letterbox.
    size: tuple[int, int]
    #: Height and width of the image within the letterbox.
    resized_size: tuple[int, int]
    #: Rows above and columns to the left of it.
    offset: tuple[int, int]

    def __post_init__(self) -> None:
        """Check the numbers."""
        for field in fields(self):
            pair, lowest = getattr(self, field.name), 0 if field.name == "offset" else 1
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{field.name}: expected (height, width), got {pair!r}")
            for number in pair:
                as_int(number, field.name, lowest, MAX_DIMENSION)

    @property
    def _placement(self) -> Any:
        """The ``rkr_placement *`` that decoders read."""
        return _placement(*self.offset, *self.image_size, *self.resized_size)

    def boxes_to_image(self, boxes: NDArray[Any], *, clip: bool = True) -> NDArray[Any]:
        """Map ``(..., 4)`` boxes xyxy from the letterbox to the image; a new array.

        Args:
            boxes: Float32 or float64, pixels of the letterbox.
            clip: Cut off the parts outside the image.
        """
        _check_floats(boxes, "boxes", 4, 4)
        return self.points_to_image(boxes.reshape(-1, 2), clip=clip).reshape(boxes.shape)

    def boxes_from_image(self, boxes: NDArray[Any]) -> NDArray[Any]:
        """Map ``(..., 4)`` boxes xyxy from the image to the letterbox; a new array."""
        _check_floats(boxes, "boxes", 4, 4)
        return self.points_from_image(boxes.reshape(-1, 2)).reshape(boxes.shape)

    def points_to_image(self, points: NDArray[Any], *, clip: bool = False) -> NDArray[Any]:
        """Map points from the letterbox to the image; a new array.

        Args:
            points: ``(..., 2 or more)`` float32 or float64: x and y in pixels of the letterbox;
                further columns, such as a keypoint's confidence, are kept.
            clip: Move points outside the image onto its edge.
        """
        xy, offset, image_size, resized_size = self._axes(points)
        xy -= offset
        xy *= image_size
        xy /= resized_size
        if clip:
            np.maximum(xy, _ORIGIN, out=xy)
            np.minimum(xy, image_size, out=xy)
        return _with_xy(points, xy)

    def points_from_image(self, points: NDArray[Any]) -> NDArray[Any]:
        """Map points from the image to the letterbox; see `points_to_image`."""
        xy, offset, image_size, resized_size = self._axes(points)
        xy *= resized_size
        xy /= image_size
        xy += offset
        return _with_xy(points, xy)

    def _axes(self, points: NDArray[Any]) -> tuple[NDArray[np.float64], ...]:
        """Return x and y of points to calculate with, then offset and sizes as x and y."""
        _check_floats(points, "points", 2, None)
        return (
            points[..., :2].astype(np.float64),
            *_xy(self.offset, self.image_size, self.resized_size),
        )

    def detections_to_image(self, detections: Detections, *, clip: bool = True) -> Detections:
        """Map detections from the letterbox to the image.

        Args:
            detections: Objects in pixels of the letterbox.
            clip: Cut off the parts of upright boxes outside the image.

        Raises:
            ValueError: They have masks, whose pixels do not map one to one.
        """
        if detections.mask is not None:
            raise ValueError("masks are made in the image's own size, they are not mapped")
        keypoints, corners = detections.keypoints, detections.xyxyxyxy
        return Detections(
            self.boxes_to_image(detections.xyxy, clip=clip),
            detections.confidence,
            detections.class_id,
            keypoints=None if keypoints is None else self.points_to_image(keypoints),
            xyxyxyxy=None if corners is None else self.points_to_image(corners),
            labels=detections.labels,
            tracker_id=detections.tracker_id,
        )


# The frames of a video have the same transform.
@lru_cache(maxsize=64)
def transform_for(
    image_size: tuple[int, int], size: tuple[int, int], fit: str
) -> LetterboxTransform:
    """Find the largest size with the image's proportions that fits a frame, in integers.

    `fit` is ``"center"``, ``"corner"`` or ``"stretch"``, as `letterbox` describes them; or
    ``"line"``: the frame's whole height at the left, as wide as the proportions ask and the frame
    allows, for lines of text.
    """
    image_height, image_width = image_size
    height, width = size
    if fit == "stretch":
        resized = size
    elif fit == "line":
        resized = height, min(width, -(-height * image_width // image_height))
    elif height * image_width <= width * image_height:
        resized = height, max(1, (2 * height * image_width + image_height) // (2 * image_height))
    else:
        resized = max(1, (2 * width * image_height + image_width) // (2 * image_width)), width
    offset = (0, 0)
    if fit == "center":
        offset = ((height - resized[0]) // 2, (width - resized[1]) // 2)
    return LetterboxTransform((image_height, image_width), size, resized, offset)


@lru_cache(maxsize=64)
def _placement(*numbers: int) -> Any:
    return ffi.new(_PLACEMENT, numbers)


@lru_cache(maxsize=64)
def _xy(*pairs: tuple[int, int]) -> tuple[NDArray[np.float64], ...]:
    """Return pairs y, x as arrays x, y."""
    return tuple(np.array(pair[::-1], np.float64) for pair in pairs)


def _check_floats(array: Any, name: str, lowest: int, highest: int | None) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.float64):
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"{name}: expected an array of float32 or float64, got {got}")
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
            Pillow image, or a file's path (turned upright by its EXIF data); the last two need
            Pillow: ``pip install Pillow``. Alpha is ignored. Or a camera frame: see `color`.
        size: Height and width of the frame.
        pad_value: 0..255 for the rest of the frame: one for all channels, or one per channel.
        out: The frame, to write in place: ``(height, width, C)`` or ``(1, height, width, C)``
            uint8 with contiguous pixels, such as ``model.input_view()``; its rows may be apart.
        resize: ``"native"``: this package's bilinear kernel. ``"opencv"``: INTER_LINEAR (extra
            ``opencv``). ``"pillow"``: BILINEAR, which averages when it shrinks.
        center: Put the image in the middle (an odd row or column goes below or to the
            right); False: to the top left.
        stretch: Fill the whole frame instead, ignoring proportions.
        color: Channel order of an array, ``"RGB"`` or ``"BGR"`` (as from OpenCV); or the format of
            a camera frame, ``"NV12"``, ``"NV21"``, ``"I420"``, ``"YUYV"`` or ``"UYVY"``. Then
            `image` is as for `rknn_runtime.kernels.yuv.YuvFrame`, and ``"native"`` scales and
            converts it in one pass.
        out_color: Channels of the frame: ``"RGB"``, ``"BGR"`` or ``"GRAY"`` (C = 1, ITU-R
            BT.601 luma; for a camera frame its own luma).
        matrix: For a camera frame: ``"bt601"`` or ``"bt709"``, the standard of its colours.
        full_range: For a camera frame: its values use 0..255 (JPEG), not 16..235.

    Returns:
        The frame (`out`, or a new ``(height, width, C)`` array) and the transform that maps
        coordinates back to the image.

    Raises:
        ImportError: `resize` or `image` needs a package that is not installed.
        OSError: The file cannot be read.
        ValueError: A shape, size, name or value is not as described, or the file cannot be
            decoded as an image.
    """
    fit = "stretch" if stretch else "center" if center else "corner"
    # Arrays as most are, without the checks that take longer than a small image.
    if (
        resize == "native"
        and matrix == "bt601"
        and full_range is False
        and is_plain(image)
        and (out is None or (is_plain(out) and out.flags.writeable))
        and type(size) is tuple
        and list(map(type, (*size, pad_value, color, out_color))) == [int, int, int, str, str]
    ):
        known = _known(image.shape, size, fit, pad_value, color, out_color)  # type: ignore[arg-type]
        if known is not None and (out is None or out.shape == known[2]):
            box, transform, shape = known
            frame = np.empty(shape, _UINT8) if out is None else out
            box = ffi.new(_LETTERBOX, box[0])
            box.frame = address(frame)
            status = lib.rkr_letterbox_uint8(box, address(image))
            if status == lib.RKR_ERR_MEMORY:
                _refuse(status, transform)
            if status == lib.RKR_OK:
                return frame, transform
    return _fitted(image, size, fit, pad_value, out, resize, color, out_color, matrix, full_range)


@lru_cache(maxsize=64)
def _known(
    shape: tuple[int, ...], size: tuple[int, int], fit: str, pad_value: int, color: str, to: str
) -> tuple[Any, LetterboxTransform, tuple[int, int, int]] | None:
    """Return `_box_of` a contiguous image, but for the frame's address, and the frame's shape.

    None for anything unusual.
    """
    if min(size) < 1 or max(size) > MAX_SIDE or to not in _OUT_COLORS:
        return None
    if not 0 <= pad_value <= 255:
        return None
    n_channels = 1 if to == "GRAY" else 3
    row_bytes = size[1] * n_channels
    rows = ffi.NULL, size[0] * row_bytes, *size, row_bytes, n_channels
    learned = _box_of(shape, color, rows, to, size, fit, _padding_of(pad_value, n_channels))
    return None if learned is None else (*learned, (*size, n_channels))


def _box_of(
    shape: tuple[int, ...],
    color: str,
    rows: tuple[Any, ...],
    out_color: str,
    size: tuple[int, int],
    fit: str,
    padding: bytes,
) -> tuple[Any, LetterboxTransform] | None:
    """Return the ``rkr_letterbox *`` of a contiguous image and the transform.

    None: the image needs more than this, or the shape is not an image's.
    """
    height, width, channels = shape if len(shape) == 3 else (*shape, 1, 0)[:3]
    if len(shape) not in (2, 3) or 0 in shape or channels not in (1, 3, 4) or color not in COLORS:
        return None
    transform = transform_for((height, width), size, fit)
    order = _channel_order(channels, color, out_color)
    image = (None, 0, height, width, width * channels, channels)
    return _native_letterbox(rows, transform, padding, image, order), transform


def _fitted(
    image: Any,
    size: Any,
    fit: str,
    pad_value: Any,
    out: NDArray[np.uint8] | None,
    resize: str = "native",
    color: str = "RGB",
    out_color: str = "RGB",
    matrix: str = "bt601",
    full_range: bool = False,
) -> tuple[NDArray[np.uint8], LetterboxTransform]:
    """Do what `letterbox` does; `fit` is as for `transform_for`."""
    if resize not in _RESIZERS:
        raise ValueError(f"resize: expected one of {sorted(_RESIZERS)}, got {resize!r}")
    if out_color not in _OUT_COLORS:
        raise ValueError(f'out_color: expected "RGB", "BGR" or "GRAY", got {out_color!r}')
    if color not in _COLORS:
        raise ValueError(f"color: expected one of {_COLORS}, got {color!r}")
    is_camera, sides = color in FORMATS, _sides(size)
    if is_camera and resize != "native":
        raise ValueError(f'resize: expected "native" for {color}, got {resize!r}')
    if is_camera:
        camera = YuvFrame(image, color, matrix, full_range)
        image_size = camera.size
    else:
        check_yuv_options(matrix, full_range)
        pixels, order, image_size = as_scaled(
            image, color, lambda whole: transform_for(whole, sides, fit).resized_size
        )
    transform = transform_for(image_size, sides, fit)
    n_channels = 1 if out_color == "GRAY" else 3
    frame = _frame_of(out, (*transform.size, n_channels))
    rows, padding = pixel_rows(frame), _padding_of(pad_value, n_channels)
    # One call each, which leaves the frame unchanged after an error.
    if is_camera:
        status = camera.fill(_native_letterbox(rows, transform, padding), out_color)
    else:
        channels = _channel_order(pixels.shape[2], order, out_color)
        pixels, channels = plain_order(pixels, channels)
        if resize != "native":
            pixels = _RESIZERS[resize](pixels, transform.resized_size)
        status = lib.rkr_letterbox_uint8(
            _native_letterbox(rows, transform, padding, pixel_rows(pixels), channels),
            address(pixels),
        )
    if status != lib.RKR_OK:
        _refuse(status, transform)
    return frame if out is None else out, transform


def placed(
    image: Any, size: tuple[int, int], out_color: str, fit: str, color: str = "RGB"
) -> tuple[NDArray[np.uint8], LetterboxTransform]:
    """Place an image as `Detector` (``"center"``) or `TextRecognizer` (``"line"``) do."""
    pad_value = LINE_PAD if fit == "line" else 114
    return _fitted(image, size, fit, pad_value, None, color=color, out_color=out_color)


def _refuse(status: int, transform: LetterboxTransform) -> None:
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


def _frame_of(out: Any, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return the array ``(height, width, C)`` to write to: `out` checked, or a new one."""
    if out is None:
        return np.empty(shape, np.uint8)
    frame = byte_array(out, "out")
    if frame.shape not in (shape, (1, *shape)):
        raise ValueError(f"out: expected shape {shape} or {(1, *shape)}, got {frame.shape}")
    frame = frame if frame.ndim == 3 else frame[0]
    check_target(frame)
    return frame


def _padding_of(pad_value: Any, n_channels: int) -> bytes:
    """Return a `pad_value` of `letterbox` as one byte per channel."""
    if type(pad_value) is int and 0 <= pad_value <= 255:  # the usual case, for every frame
        return bytes((pad_value,)) * n_channels
    is_one = not isinstance(pad_value, (Sequence, np.ndarray))
    given = [pad_value] if is_one else list(pad_value)
    if len(given) not in (1, n_channels):
        raise ValueError(
            f"pad_value: expected 0..255, one or {n_channels} of them, got {pad_value!r}"
        )
    values = [as_int(value, "pad_value", 0, 255) for value in given]
    return bytes(values * (n_channels // len(values)))


def _native_letterbox(
    rows: tuple[Any, ...],
    transform: LetterboxTransform,
    padding: bytes,
    image: tuple[Any, ...] = (),
    order: tuple[int, ...] = (),
) -> Any:
    """Return an ``rkr_letterbox *``. Keep the frame's memory alive yourself.

    Frame and image are as `pixel_rows` describes them. A camera frame needs neither `image` nor
    `order`.
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


def _channel_order(n_channels: int, order: str, out_color: str) -> tuple[int, ...]:
    """Return the image's channel for each of the frame, or for R, G and B if that is gray."""
    if n_channels == 1:
        return (0,) if out_color == "GRAY" else (0, 0, 0)
    return (0, 1, 2) if order == ("RGB" if out_color == "GRAY" else out_color) else (2, 1, 0)


class ImageWriter:
    """Does the same as `letterbox` for image after image into one frame, a model's input.

    Everything that follows from an image's size is kept for the next image. Not thread-safe.

    Args:
        frame: ``(1, height, width, C) uint8`` as for `letterbox`. Only its address is kept: the
            caller makes sure that the memory exists whenever something is written.
        out_color: Channels of the frame, ``"RGB"``, ``"BGR"`` or ``"GRAY"``.
        pad_value: As for `letterbox`.
        fit: How images lie in the frame; see `transform_for`.
    """

    def __init__(
        self, frame: NDArray[np.uint8], out_color: str, *, pad_value: Any = 114, fit: str
    ) -> None:
        n_channels = 1 if out_color == "GRAY" else 3
        self._size = int(frame.shape[1]), int(frame.shape[2])
        self._padding = _padding_of(pad_value, n_channels)
        self._fit, self._out_color, self._pad_value = fit, out_color, pad_value
        self._rows = pixel_rows(_frame_of(frame, (*self._size, n_channels)))
        #: Shape and color of the last image, and the result of `prepare`.
        self._last: tuple[Any, str, tuple[Any, LetterboxTransform, Any] | None] = None, "", None

    def prepare(self, image: Any, color: str) -> tuple[Any, LetterboxTransform, Any] | None:
        """Say how an image goes into the frame.

        Returns:
            The ``rkr_letterbox *`` that writes it, the transform and its ``rkr_placement *``. None
            if the image needs more than this knows, or is not an image: then call `write_any`.
        """
        if (
            type(image) is not _ndarray
            or image.dtype is not _UINT8
            or color.__class__ is not str
            or not image.flags.c_contiguous
        ):
            return None
        shape, last_color, prepared = self._last
        if image.shape != shape or color != last_color:
            prepared = self._learn(image.shape, color)
            self._last = image.shape, color, prepared
        return prepared

    def write_camera(self, source: YuvFrame) -> LetterboxTransform:
        """Write a camera frame into the frame."""
        transform = transform_for(source.size, self._size, self._fit)
        box = _native_letterbox(self._rows, transform, self._padding)
        check_resized(source.fill(box, self._out_color), self._size[1], "rkr_letterbox_yuv_uint8")
        return transform

    def write_any(self, image: Any, color: str, frame: NDArray[np.uint8]) -> LetterboxTransform:
        """Write any image into the frame, which is given again, as `letterbox` does."""
        return _fitted(
            image, self._size, self._fit, self._pad_value, frame, color=color,
            out_color=self._out_color,
        )[1]  # fmt: skip

    def _learn(
        self, shape: tuple[int, ...], color: str
    ) -> tuple[Any, LetterboxTransform, Any] | None:
        """Work out everything that follows from an image's shape; see `prepare`."""
        learned = _box_of(
            shape, color, self._rows, self._out_color, self._size, self._fit, self._padding
        )
        return None if learned is None else (*learned, learned[1]._placement)


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
    # Not RGBA: Pillow would weight the colours by the alpha.
    mode = {1: "L", 3: "RGB", 4: "RGBX"}[n_channels]
    data = np.ascontiguousarray(pixels)
    image = images.frombuffer(mode, (width, height), data, "raw", mode, 0, 1)
    return np.asarray(image.resize(size[::-1], bilinear())).reshape(*size, -1)


_RESIZERS: dict[str, Any] = {
    "native": None,
    "opencv": _resize_opencv,
    "pillow": _resize_pillow,
}
