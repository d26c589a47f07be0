"""Where frames come from: folders, videos, cameras, network streams."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rknn_runtime._arrays import as_float, as_int
from rknn_runtime._frozen import dataclass
from rknn_runtime.vision.images import IMAGE_SUFFIXES, as_pixels, files_with

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Frame", "FrameSource", "is_live"]

_NO_OPENCV = "videos and cameras need OpenCV: pip install opencv-python-headless"
_MOST_CAMERA = 2**31 - 1
_MJPG = int.from_bytes(b"MJPG", "little")
#: Between attempts to open a live source again: the first, and the longest, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


@dataclass(frozen=True, eq=False)
class Frame:
    """One image of a source."""

    __slots__ = ("image", "index", "jpeg", "name", "time_s")

    #: ``(H, W, 3) uint8``, BGR.
    image: NDArray[Any]
    #: Counts from 0 within the source.
    index: int
    #: Seconds: in a video, its place there; of a live source, when it was read
    #: (``time.monotonic``); of image files 0.
    time_s: float
    #: Of its file; else as the source was given.
    name: str
    #: The image as the camera encoded it, where `FrameSource` was asked to keep that; else empty.
    jpeg: bytes


def is_live(source: str | os.PathLike[str] | int) -> bool:
    """Whether frames are lost when nobody reads them: a camera or a network stream."""
    if isinstance(source, int):
        return True
    text = os.fspath(source)
    return text.isdigit() or text.startswith("/dev/video") or "://" in text


class FrameSource(Iterator[Frame]):
    """Reads the frames of a source one after the other.

    Args:
        source: A folder of images (in the order of their names), an image file, a video file, the
            number or ``/dev/video`` path of a camera, or the URL of a stream. Videos, cameras and
            streams need OpenCV, images Pillow.
        start: Number of the first frame that is wanted of a file.
        reconnect_s: So long a live source is opened again after it broke off, with pauses that
            grow from 0.5 to 30 seconds; 0 ends at once. Files end where they end.
        keep_jpeg: Keep the JPEG of each frame of a live source that sends such, to hand it on
            without encoding it again. A camera of this machine is asked to send JPEG; streams
            need OpenCV 4.7 or newer, and come as pixels alone with older ones.

    Raises:
        ImportError: What reads the source is not installed.
        OSError: The source cannot be opened.
        TypeError: An argument of another type.
        ValueError: A folder without images; a FIFO; a camera's number that none has; a name that
            OpenCV cannot take; or `start` or `reconnect_s` is negative.
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
        self.name = str(source) if isinstance(source, int) else os.fsdecode(source)
        self.is_live = is_live(source if isinstance(source, int) else self.name)
        self._is_closed = threading.Event()
        path = Path(self.name)
        if not self.is_live and (path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES):
            self._frames = self._images(path)
        else:
            # Opened here, so that what cannot be opened is told at once.
            capture = self._open()
            self._frames = self._live(capture) if self.is_live else self._video(capture)

    def __next__(self) -> Frame:
        frame = next(self._frames)
        if self._is_closed.is_set():  # while it was read
            self._release()
        return frame

    def close(self) -> None:
        """End: the frame that is being read is the last one. Any thread may call it.

        The camera or stream is let go at once, or when that frame is read.
        """
        self._is_closed.set()
        self._release()

    def _release(self) -> None:
        with suppress(ValueError):  # it is being read: `__next__` does this then
            self._frames.close()

    def __enter__(self) -> FrameSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Any:
        capture = _opened(self.name)
        if self._keep_jpeg and self.is_live:
            _leave_encoded(capture, self.name)
        return capture

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
            index = _skipped(capture, self._start, self.name)
            fps = capture.get(5)  # CAP_PROP_FPS; 0 or NaN where the container does not say
            while not self._is_closed.is_set():
                is_read, image = capture.read()
                if not is_read:
                    return
                yield Frame(image, index, index / fps if fps > 0 else 0.0, self.name, b"")
                index += 1
        finally:
            capture.release()

    def _live(self, capture: Any) -> Generator[Frame, None, None]:
        index = 0
        try:
            while not self._is_closed.is_set():
                is_read, image = capture.read()
                if is_read:
                    image, jpeg = _decoded(image) if self._keep_jpeg else (image, b"")
                    if image is not None:
                        yield Frame(image, index, monotonic(), self.name, jpeg)
                        index += 1
                    continue
                capture.release()
                again = _reopened(self._open, self._reconnect_s, self._is_closed.wait)
                if again is None:
                    return
                capture = again
        finally:
            capture.release()


def _skipped(capture: Any, start: int, name: str) -> int:
    """Go to a frame of a video and return its number."""
    if start and not (capture.set(1, start) and capture.get(1) == start):  # CAP_PROP_POS_FRAMES
        raise OSError(f"source: OpenCV cannot go to frame {start} of {name!r}")
    return start


def _check_name(name: str) -> None:
    """Refuse what OpenCV hangs on, or ends the process."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"source: expected a name in UTF-8 for OpenCV, got {name!r}") from None
    if "\0" in name:
        raise ValueError(f"source: expected no null character, got {name!r}")
    try:
        mode = Path(name).stat().st_mode
    except OSError:  # a URL, a number, or what GStreamer is told
        return
    if stat.S_ISFIFO(mode):
        raise ValueError(f"source: expected a file or a camera, got the FIFO {name!r}")


def _opened(name: str) -> Any:
    try:
        import cv2
    except ImportError:
        raise ImportError(_NO_OPENCV) from None
    _check_name(name)
    is_number = name.isdecimal() and int(name) <= _MOST_CAMERA
    capture = cv2.VideoCapture(int(name) if is_number else name)
    if not capture.isOpened():
        raise OSError(
            f"source: OpenCV cannot open {name!r}: no such camera, file or stream, or no permission"
        )
    return capture


def _leave_encoded(capture: Any, name: str) -> None:
    """Ask for JPEG as it comes; what knows nothing of that goes on giving pixels."""
    is_here = "://" not in name
    if is_here:
        capture.set(6, _MJPG)  # CAP_PROP_FOURCC
    if int(capture.get(6)) != _MJPG:
        return
    if is_here:
        capture.set(16, 0)  # CAP_PROP_CONVERT_RGB, of V4L2
    else:
        capture.set(8, -1)  # CAP_PROP_FORMAT, of FFmpeg


def _decoded(image: Any) -> tuple[Any, bytes]:
    """Return pixels and JPEG of what was read; None for a JPEG that is damaged."""
    if image.ndim == 3 and image.shape[2] == 3:
        return image, b""
    import cv2

    return cv2.imdecode(image.reshape(-1), cv2.IMREAD_COLOR), image.tobytes()


def _reopened(opened: Callable[[], Any], patience_s: float, wait: Callable[[float], bool]) -> Any:
    """Open a live source again; None when it does not come back in time, or nobody wants it."""
    end, pause = monotonic() + patience_s, _FIRST_PAUSE
    while monotonic() + pause <= end:
        if wait(pause):
            return None
        try:
            return opened()
        except OSError:
            pause = min(2 * pause, _LONGEST_PAUSE)
    return None
