"""Scale image after image into one frame, such as a model's input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import pixel_rows
from rknn_runtime.kernels.resize import check_resized
from rknn_runtime.vision.images import COLORS
from rknn_runtime.vision.letterbox import (
    channel_order,
    frame_of,
    letterbox,
    native_letterbox,
    padding_of,
)
from rknn_runtime.vision.transform import LetterboxTransform, place

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rknn_runtime.kernels.yuv import YuvFrame

__all__ = ["ImageWriter"]

# Looked up once: it is on the path of every frame.
_ndarray, _uint8 = np.ndarray, np.dtype(np.uint8)


class ImageWriter:
    """Do as `letterbox` does, image after image into the same frame.

    What follows from an image's size is worked out when it is another than that of the image
    before. Not thread-safe.

    Args:
        frame: ``(1, height, width, C) uint8`` as for `letterbox`. Only its address is kept: the
            caller vouches that the memory is there at each writing.
        out_color: Channels of the frame, ``"RGB"``, ``"BGR"`` or ``"GRAY"``.
        pad_value: As for `letterbox`.
        stretch: As for `letterbox`.

    Raises:
        TypeError: `frame` is no array of uint8, or `pad_value` no integer.
        ValueError: `frame` has another shape or cannot be written in place, or `pad_value` is out
            of range.
    """

    __slots__ = ("_last", "_options", "_padding", "_rows", "_size")

    def __init__(
        self, frame: NDArray[np.uint8], out_color: str, *, pad_value: Any = 114, stretch: bool
    ) -> None:
        n_channels = 1 if out_color == "GRAY" else 3
        self._size = int(frame.shape[1]), int(frame.shape[2])
        self._padding = padding_of(pad_value, n_channels)
        self._options = {"out_color": out_color, "pad_value": pad_value, "stretch": stretch}
        self._rows = pixel_rows(frame_of(frame, (*self._size, n_channels)))
        #: Shape and color of the last image, and what `prepare` returned.
        self._last: tuple[Any, str, tuple[Any, LetterboxTransform] | None] = None, "", None

    def prepare(self, image: Any, color: str) -> tuple[Any, LetterboxTransform] | None:
        """Say how an image goes into the frame.

        Args:
            image: As for `letterbox`.
            color: As for `letterbox`.

        Returns:
            The ``rkr_letterbox *`` that writes it and the transform; None where the image takes
            more than this knows, or is none: then `write_any` does it, or says why not.
        """
        if (
            type(image) is not _ndarray
            or image.dtype is not _uint8
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
        transform = place(source.size, self._size, True, self._options["stretch"])
        box = native_letterbox(self._rows, transform, self._padding)
        check_resized(
            source.fill(box, self._options["out_color"]), self._size[1], "rkr_letterbox_yuv_uint8"
        )
        return transform

    def write_any(self, image: Any, color: str, frame: NDArray[np.uint8]) -> LetterboxTransform:
        """Write what `prepare` does not know into the frame, given once more, as `letterbox`."""
        return letterbox(image, self._size, out=frame, color=color, **self._options)[1]

    def _learn(self, shape: tuple[int, ...], color: str) -> tuple[Any, LetterboxTransform] | None:
        """Work out what follows from an image's shape; None where it takes more."""
        height, width, channels = shape if len(shape) == 3 else (*shape, 1, 0)[:3]
        if (
            len(shape) not in (2, 3)
            or 0 in shape
            or channels not in (1, 3, 4)
            or color not in COLORS
        ):
            return None
        transform = place((height, width), self._size, True, self._options["stretch"])
        order = channel_order(channels, color, self._options["out_color"])
        image = (None, 0, height, width, width * channels, channels)
        return native_letterbox(self._rows, transform, self._padding, image, order), transform
