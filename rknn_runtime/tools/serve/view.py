"""The newest frame and what was found in it, for any number of viewers."""

from __future__ import annotations

import io
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import as_int, plain
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import import_pillow

if TYPE_CHECKING:
    from rknn_runtime.vision.labels import Labels

__all__ = ["LiveView", "Snapshot"]

#: The rate is that of so many last frames.
_RATE_FRAMES = 60
#: Pixels a side that an encoder takes.
_MAX_JPEG = 65500


class Snapshot(NamedTuple):
    """One frame, as it goes to viewers.

    Attributes:
        number: Counts the frames that were shown, from 1.
        found: What was found, as the text of a JSON object.
        jpeg: The image; empty if there were no viewers when it came.
    """

    number: int
    found: str
    jpeg: bytes


class LiveView:
    """Holds only the newest frame, so that a slow viewer does not make memory grow.

    Thread-safe. An image is encoded once for all viewers, and not at all without viewers.

    Args:
        labels: Names of the classes, or None.
        quality: Of the JPEG, 1 to 95.
        draw: Draw the objects into the image, instead of leaving it to the page.

    Raises:
        TypeError: An argument of another type.
        ValueError: A quality out of range.
    """

    def __init__(self, labels: Labels | None = None, *, quality: int = 80, draw: bool = False):
        if not isinstance(draw, bool):
            raise TypeError(f"draw: expected a bool, got {draw!r}")
        self._labels, self._draw = labels, draw
        self._changed = threading.Condition()
        self._newest = Snapshot(0, "{}", b"")
        self._frame: tuple[Any, Any] | None = None
        self._times: deque[float] = deque(maxlen=_RATE_FRAMES)
        self._watchers = 0
        self._is_closed = False
        self._encode = _encoder(as_int(quality, "quality", 1, 95))

    def publish(
        self, image: Any, found: Detections, place: Mapping[str, Any], jpeg: bytes = b""
    ) -> None:
        """Show a frame.

        Args:
            image: ``(H, W, 3) uint8``, BGR. It must stay as it is until the next is published.
            found: In its pixels.
            place: What else the JSON says: ``source``, ``frame``.
            jpeg: The image as a camera encoded it, which viewers are sent as it is. Empty, or
                with `draw`: it is encoded here, if there are viewers.

        Raises:
            IndexError: A class has no label.
            TypeError: An argument of another type, or a place that JSON does not know.
            ValueError: An image of another shape, or of more pixels than JPEG allows.
        """
        image = _checked_image(image)
        if not isinstance(found, Detections):
            raise TypeError(f"found: expected Detections, got {type(found).__name__}")
        height, width = image.shape[:2]
        words = {**place, "width": width, "height": height, **found.to_dict(self._labels)}
        if not isinstance(jpeg, bytes):
            raise TypeError(f"jpeg: expected bytes, got {type(jpeg).__name__}")
        if self._draw or not jpeg:
            jpeg = self._jpeg(image, found) if self._watchers else b""
        with self._changed:
            number = self._newest.number + 1
            self._newest = Snapshot(number, json.dumps({"number": number, **words}), jpeg)
            self._frame = image, found
            self._times.append(time.monotonic())
            self._changed.notify_all()

    def _jpeg(self, image: Any, found: Detections) -> bytes:
        if self._draw:
            image = found.draw(image, self._labels, color="BGR")
        return self._encode(image)

    def wait(self, after: int, timeout: float) -> Snapshot | None:
        """Wait for a frame newer than `after`; None: none came in time, or there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest.number > after or self._is_closed, timeout)
            is_new = self._newest.number > after and not self._is_closed
            return self._newest if is_new else None

    def snapshot(self) -> Snapshot:
        """Return the newest frame, with its image; number 0: there is none yet."""
        with self._changed:
            newest, frame = self._newest, self._frame
        if newest.jpeg or frame is None:
            return newest
        return newest._replace(jpeg=self._jpeg(*frame))

    def watch(self, change: int) -> None:
        """Count a viewer of images in, or out (-1)."""
        with self._changed:
            self._watchers += change

    @property
    def watchers(self) -> int:
        """Viewers of images."""
        return self._watchers

    @property
    def fps(self) -> float:
        """Frames a second, of the last ones; it falls when no more come."""
        with self._changed:
            times = list(self._times)
        gaps = len(times) - 1
        if gaps < 1:
            return 0.0
        took = times[-1] - times[0]
        late = time.monotonic() - times[-1] - 2 * took / gaps
        return gaps / (took + max(0.0, late))

    @property
    def is_closed(self) -> bool:
        """Whether no more frames come."""
        return self._is_closed

    def close(self) -> None:
        """End the view for all viewers; idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _checked_image(image: Any) -> Any:
    image = plain(image, "image")
    if image.dtype != np.uint8:
        raise TypeError(f"image: expected uint8, got {image.dtype}")
    if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
        raise ValueError(f"image: expected shape (H, W, 3), got {image.shape}")
    if max(image.shape) > _MAX_JPEG:
        raise ValueError(f"image: expected up to {_MAX_JPEG} pixels a side, got {image.shape}")
    return np.ascontiguousarray(image)


def _encoder(quality: int) -> Callable[[Any], bytes]:
    """Return what encodes BGR images as JPEG: OpenCV where installed (faster), else Pillow."""
    try:
        import cv2
    except ImportError:
        pillow = import_pillow()

        def encode(image: Any) -> bytes:
            file = io.BytesIO()
            pillow.Image.fromarray(image[..., ::-1]).save(file, "JPEG", quality=quality)
            return file.getvalue()

        return encode

    def encode_by_opencv(image: Any) -> bytes:
        data: bytes = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
        return data

    return encode_by_opencv
