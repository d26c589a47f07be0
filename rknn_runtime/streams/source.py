"""Sources of frames: folders, videos, cameras, network streams."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from rknn_runtime._arrays import NDArray, as_float, as_int
from rknn_runtime.npu.context import Closing
from rknn_runtime.npu.locks import ExclusiveLock
from rknn_runtime.streams import capture as opencv
from rknn_runtime.streams.address import is_image, shown
from rknn_runtime.vision.images import IMAGE_SUFFIXES, as_pixels, files_with

_MOST_CAMERA = 2**31 - 1
#: First and longest pause between attempts to reopen a live source, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
#: A source ends after so many images in a row that cannot be decoded.
_MOST_DAMAGED = 100


@dataclass(frozen=True, eq=False)
class Frame:
    """One image of a source."""

    #: ``(H, W, 3) uint8``, BGR.
    image: NDArray[Any]
    #: Counts from 0 within the source.
    index: int
    #: Seconds: its time in a video; when it was read from a live source (``time.monotonic``); 0 for
    #: image files.
    time_s: float
    #: Name of its file, otherwise the source as given, with ``***`` for a password in it.
    name: str
    #: The image as the camera encoded it, if `FrameSource` was asked to keep it; otherwise empty.
    jpeg: bytes


def is_live(source: str | os.PathLike[str] | int) -> bool:
    """Whether a source is a camera or may be a stream; opening an address shows the latter."""
    if isinstance(source, int):
        return True
    text = os.fspath(source)
    return text.isdigit() or text.startswith("/dev/video") or "://" in text


class FrameSource(Closing, Iterator[Frame]):
    """Reads the frames of a source one after another.

    Several threads may iterate over it: one reads at a time, and each frame goes to one of them.
    Any thread may `close` it.

    Args:
        source: A folder of images (in the order of their names), an image file, a video file, the
            number or ``/dev/video`` path of a camera, or the URL of a stream, a video or an image.
            Videos, cameras and URLs need OpenCV, images Pillow.
        start: Number of the first frame to read from a file.
        reconnect_s: How long to try to reopen a live source that broke off, with pauses that grow
            from 0.5 to 30 seconds; 0 ends at once. Each attempt is logged as a warning of the
            logger ``rknn_runtime``. Files simply end, even those on a server.
        keep_jpeg: Keep the JPEG of each frame of a live source, so that it need not be encoded
            again. A local camera is asked to send JPEG; streams need OpenCV 4.7 or newer, older
            versions give pixels alone.

    Attributes:
        name: The source as it was given, with ``***`` for a password in it.
        is_live: Whether frames are lost if nobody reads them: a camera, or a stream without end.
        fps: Frames per second that a video, camera or stream states; 0 if it states none.
        damaged: How many images of a live source were left out because their JPEG could not be
            decoded. The first is logged; 100 in a row end the source. Without `keep_jpeg` OpenCV
            decodes and does not report damage.
        ended: Why a live source ended by itself; empty if it has not.

    Raises:
        ImportError: OpenCV or Pillow is not installed.
        OSError: The source cannot be opened.
        ValueError: A folder has no images, a file is a FIFO, OpenCV cannot take the name, or an
            argument is out of range.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | int,
        *,
        start: int = 0,
        reconnect_s: float = 60.0,
        keep_jpeg: bool = False,
    ) -> None:
        if isinstance(source, bool) or not isinstance(source, (str, os.PathLike, int)):
            raise TypeError(
                f"source: expected a path, a URL or a camera's number, got {type(source).__name__}"
            )
        self._start = as_int(start, "start", 0, 2**31 - 1)
        self._reconnect_s = as_float(reconnect_s, "reconnect_s")
        if not self._reconnect_s >= 0:
            raise ValueError(f"reconnect_s: expected 0 or more, got {reconnect_s}")
        if not isinstance(keep_jpeg, bool):
            raise TypeError(f"keep_jpeg: expected a bool, got {keep_jpeg!r}")
        self._keep_jpeg = keep_jpeg
        if isinstance(source, int):
            source = as_int(source, "source", 0, _MOST_CAMERA)
        self._address = str(source) if isinstance(source, int) else os.fsdecode(source)
        self.name = shown(self._address)
        self.is_live = is_live(self._address)
        self.fps = 0.0
        self.damaged, self.ended = 0, ""
        self._is_closed = threading.Event()
        self._lock = ExclusiveLock()
        path = Path(self._address)
        if not self.is_live and (path.is_dir() or is_image(self._address)):
            self._frames = self._images(path)
        else:
            # Opened here, so that errors are raised at once.
            capture = opencv.opened(self._address)
            self.fps = opencv.rate_of(capture)
            if "://" in self._address:
                self.is_live = not (opencv.is_finite(capture) or is_image(self._address))
            self._frames = self._live(capture) if self.is_live else self._video(capture)

    def __next__(self) -> Frame:
        """Read the next frame.

        Raises:
            OSError: An image cannot be read, or there is no frame `start`.
            ValueError: An image cannot be decoded.
        """
        if self._is_closed.is_set():
            raise StopIteration
        try:
            with self._lock.held():
                return next(self._frames)
        finally:
            if self._is_closed.is_set():  # while it was read
                self._release()

    def close(self) -> None:
        """Stop: a frame that is being read is the last one. Any thread may call it.

        The camera or stream is released at once, or after that frame.
        """
        self._is_closed.set()
        self._release()

    def _release(self) -> None:
        if self._lock.try_acquire():  # otherwise `__next__` is reading and does this
            try:
                self._frames.close()
            finally:
                self._lock.release()

    def _images(self, path: Path) -> Generator[Frame, None, None]:
        paths = [path]
        if path.is_dir():
            paths = files_with(IMAGE_SUFFIXES, path)
            if not paths:
                raise ValueError(f"source: expected images in {path}, got none")

        def frames() -> Generator[Frame, None, None]:
            for i, each in enumerate(paths[self._start :], self._start):
                if self._is_closed.is_set():
                    return
                pixels, _ = as_pixels(each)
                if pixels.shape[2] == 1:
                    pixels = pixels.repeat(3, axis=2)
                yield Frame(pixels[..., 2::-1], i, 0.0, str(each), b"")

        return frames()

    def _video(self, capture: Any) -> Generator[Frame, None, None]:
        try:
            index = self._start
            opencv.go_to(capture, index, self._address)
            while not self._is_closed.is_set():
                is_read, image = capture.read()
                if not is_read:
                    return
                time_s = index / self.fps if self.fps else 0.0
                yield Frame(image, index, time_s, self.name, b"")
                index += 1
        finally:
            capture.release()

    def _live(self, capture: Any) -> Generator[Frame, None, None]:
        index, damaged_before = 0, 0
        try:
            self._prepare(capture)
            while not self._is_closed.is_set():
                is_read, image = capture.read()
                if is_read:
                    image, jpeg = opencv.decoded(image) if self._keep_jpeg else (image, b"")
                    if image is not None:
                        yield Frame(image, index, monotonic(), self.name, jpeg)
                        index, damaged_before = index + 1, self.damaged
                    else:
                        self._leave_out()
                    if self.damaged - damaged_before >= _MOST_DAMAGED:
                        self.ended = f"{_MOST_DAMAGED} images in a row could not be decoded"
                        return
                    continue
                capture.release()
                again = self._reopened()
                if again is None:
                    return
                capture = again
                self._prepare(capture)
        finally:
            capture.release()

    def _leave_out(self) -> None:
        """Count an image that cannot be decoded; log the first."""
        self.damaged += 1
        if self.damaged == 1:
            import logging

            log = logging.getLogger("rknn_runtime").warning
            log("%s: a JPEG that cannot be decoded; such images are left out", self.name)

    def _prepare(self, capture: Any) -> None:
        if self._keep_jpeg:
            opencv.leave_encoded(capture, self._address)

    def _reopened(self) -> Any:
        """Reopen a live source; None if it stays away too long or was closed."""
        import logging

        log = logging.getLogger("rknn_runtime").warning
        began, pause, attempt = monotonic(), _FIRST_PAUSE, 1
        while monotonic() + pause <= began + self._reconnect_s:
            log(
                "%s: broke off; opening it again in %g s (attempt %d of %.3g s)",
                self.name, pause, attempt, self._reconnect_s,
            )  # fmt: skip
            if self._is_closed.wait(pause):
                return None
            try:
                capture = opencv.opened(self._address)
            except OSError:
                pause, attempt = min(2 * pause, _LONGEST_PAUSE), attempt + 1
            else:
                log("%s: back after %.1f s", self.name, monotonic() - began)
                return capture
        self.ended = f"it broke off, and did not come back in {self._reconnect_s:g} seconds"
        return None
