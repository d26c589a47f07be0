"""Scale image after image into one frame, such as a model's input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import pixel_rows
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.images import COLORS
from rknn_runtime.vision.letterbox import (
    LetterboxTransform,
    _border,
    _channel_order,
    _frame,
    _pad_values,
    _place,
    letterbox,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rknn_runtime.kernels.yuv import YuvFrame

__all__ = ["ImageWriter"]

#: Of images, whose arguments are kept; a camera has one.
_MOST_SIZES = 32

# Looked up once: it is on the path of every frame.
_ndarray, _uint8, _from_buffer = np.ndarray, np.dtype(np.uint8), ffi.from_buffer
_resize, _fill = lib.rkr_resize_bilinear_uint8, lib.rkr_fill_border_uint8


class ImageWriter:
    """Do as `letterbox` does, image after image into the same frame.

    What follows from an image's size is worked out once per size. Not thread-safe.

    Args:
        frame: ``(1, height, width, C) uint8`` as for `letterbox`. Only its address is kept: the
            caller vouches that the memory is there at each `write`.
        out_color: Channels of the frame, ``"RGB"``, ``"BGR"`` or ``"GRAY"``.
        pad_value: As for `letterbox`.
        stretch: As for `letterbox`.

    Raises:
        TypeError: `frame` is no array of uint8, or `pad_value` no integer.
        ValueError: `frame` has another shape or cannot be written in place, or `pad_value` is out
            of range.
    """

    __slots__ = ("_known", "_options", "_padding", "_rows", "_size")

    def __init__(
        self, frame: NDArray[np.uint8], out_color: str, *, pad_value: Any = 114, stretch: bool
    ) -> None:
        n_channels = 1 if out_color == "GRAY" else 3
        self._size = int(frame.shape[1]), int(frame.shape[2])
        self._padding = _pad_values(pad_value, n_channels)
        self._options = {"out_color": out_color, "pad_value": pad_value, "stretch": stretch}
        self._rows = pixel_rows(_frame(frame, (*self._size, n_channels)))
        self._known: dict[Any, tuple[Any, Any, LetterboxTransform]] = {}

    def write(self, image: Any, color: str) -> LetterboxTransform | None:
        """Write an image into the frame.

        Args:
            image: As for `letterbox`.
            color: As for `letterbox`.

        Returns:
            The transform; None where the image takes more than this knows, or is none, and
            nothing was written: then `letterbox` does it, or says why not.
        """
        if (
            type(image) is not _ndarray
            or image.dtype is not _uint8
            or color.__class__ is not str
            or not image.flags.c_contiguous
        ):
            return None
        known = self._known.get((image.shape, color)) or self._learn(image.shape, color)
        if known is None:
            return None
        resize, border, transform = known
        # Refused when the image overlaps the frame, or there is no memory.
        if _resize(_from_buffer(image), *resize):
            return None
        _fill(*border)
        return transform

    def write_camera(self, source: YuvFrame, frame: NDArray[np.uint8]) -> LetterboxTransform:
        """Write a camera frame into the frame, given once more."""
        transform = _place(source.size, self._size, True, self._options["stretch"])
        (top, left), (height, width) = transform.offset, transform.resized_size
        region = frame[0][top : top + height, left : left + width]
        source.resize((height, width), self._options["out_color"], region)
        _fill(*_border(self._rows, transform, self._padding))
        return transform

    def write_any(self, image: Any, color: str, frame: NDArray[np.uint8]) -> LetterboxTransform:
        """Write into the frame, given once more, what `write` did not; raises as `letterbox`."""
        return letterbox(image, self._size, out=frame, color=color, **self._options)[1]

    def _learn(
        self, shape: tuple[int, ...], color: str
    ) -> tuple[Any, Any, LetterboxTransform] | None:
        """Work out what follows from an image's shape; None where `write` does not take it."""
        height, width, channels = shape if len(shape) == 3 else (*shape, 1, 0)[:3]
        frame, _, _, _, stride, n_channels = self._rows
        if (
            len(shape) not in (2, 3)
            or 0 in shape
            or channels not in ((1,) if n_channels == 1 else (1, 3, 4))
            or color not in COLORS
        ):
            return None
        transform = _place((height, width), self._size, True, self._options["stretch"])
        (top, left), (rows, columns) = transform.offset, transform.resized_size
        row_bytes = columns * n_channels
        order = _channel_order(channels, color, self._options["out_color"])
        resize = (
            height * width * channels,
            *(height, width, width * channels, channels),
            frame + top * stride + left * n_channels,
            (rows - 1) * stride + row_bytes,
            *(rows, columns, stride, n_channels),
            bytes(order),
        )
        if len(self._known) == _MOST_SIZES:
            self._known.clear()
        known = resize, _border(self._rows, transform, self._padding), transform
        self._known[shape, color] = known
        return known
