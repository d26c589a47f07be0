"""Where an image lies in its letterbox, and the way of coordinates between the two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import MAX_DIMENSION, as_int
from rknn_runtime._ffi import ffi
from rknn_runtime.vision.detections import Detections

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LetterboxTransform", "place"]

_PLACEMENT = ffi.typeof("rkr_placement *")


class _Placed:
    """What C reads of a transform: no field of it, since it follows from those."""

    _placement: Any


@dataclass(frozen=True)
class LetterboxTransform(_Placed):
    """Where an image lies in its letterbox, and the mapping of coordinates between the two.

    Coordinates are continuous, in pixels: 0 is the left (top) edge of the first pixel and the
    width (height) the right (bottom) edge of the last. On each axis
    ``letterboxed = coordinate * resized_size / image_size + offset``, with the sizes that were
    in fact used: both directions are exact but for the rounding of the result to its dtype.
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
        """Check the numbers.

        Raises:
            TypeError: A field is not a pair of integers.
            ValueError: A size is not from 1 to 2**31 - 1, or the offset below 0 or above that.
        """
        for name in ("image_size", "offset", "resized_size", "size"):
            pair, lowest = getattr(self, name), 0 if name == "offset" else 1
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{name}: expected (height, width), got {pair!r}")
            for number in pair:
                as_int(number, name, lowest, MAX_DIMENSION)
        numbers = (*self.offset, *self.image_size, *self.resized_size)
        object.__setattr__(self, "_placement", ffi.new(_PLACEMENT, numbers))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.image_size, self.size, self.resized_size, self.offset)

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
        xy, offset, image_size, resized_size = self._axes(points)
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
        xy, offset, image_size, resized_size = self._axes(points)
        xy *= resized_size
        xy /= image_size
        xy += offset
        return _with_xy(points, xy)

    def _axes(self, points: Any) -> tuple[NDArray[np.float64], ...]:
        """Return x and y of points to calculate with, and offset and sizes likewise.

        Raises:
            TypeError: `points` is not an array of float32 or float64.
            ValueError: Its last dimension is less than 2.
        """
        _check_floats(points, "points", 2, None)
        return (
            points[..., :2].astype(np.float64),
            *_xy(self.offset, self.image_size, self.resized_size),
        )

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
        return Detections(
            self.boxes_to_image(detections.xyxy, clip=clip),
            detections.confidence,
            detections.class_id,
            keypoints=None if keypoints is None else self.points_to_image(keypoints),
            xyxyxyxy=None if corners is None else self.points_to_image(corners),
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


@lru_cache(maxsize=64)
def place(
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
