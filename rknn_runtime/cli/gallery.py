"""Images and videos with what was found in them, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknn_runtime.cli.files import naming
from rknn_runtime.cli.sources import Item, Names
from rknn_runtime.streams.address import path_of
from rknn_runtime.vision.images import as_pixels, import_pillow

if TYPE_CHECKING:
    from rknn_runtime.vision.detections import Detections
    from rknn_runtime.vision.labels import Labels

__all__ = ["Gallery"]

#: Frames per second of a video from a source that does not say it.
_FPS = 25.0


class Gallery:
    """Draws results and writes them; a context manager, at whose end videos are closed.

    Args:
        folder: Created if missing; files have the names of the sources, with a number where two
            are equal.
        labels: Names of the classes, or None.

    Raises:
        ImportError: Pillow is missing.
        OSError: The folder cannot be made.
    """

    def __init__(self, folder: Path, labels: Labels | None) -> None:
        self._folder, self._labels = folder, labels
        self._pillow = import_pillow()
        self._names = Names()
        self._video: _Video | None = None
        self._video_of = ""
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, item: Item, found: Detections) -> None:
        """Draw what was found in an image, and write it.

        Raises:
            ImportError: A video, and OpenCV is missing.
            OSError: It cannot be written.
        """
        image, color = as_pixels(item.image, "BGR")
        drawn = found.draw(image, self._labels, color=color)
        if item.frame is not None:
            self._write_frame(item, drawn)
            return
        if color == "BGR":
            drawn = drawn[..., ::-1]
        path = self._folder / self._names.of(item, path_of(item.source).suffix)
        with naming(str(path)):
            grey = drawn.shape[2] == 1
            self._pillow.Image.fromarray(drawn[..., 0] if grey else drawn).save(path)

    def _write_frame(self, item: Item, drawn: Any) -> None:
        if self._video is None or item.source != self._video_of:
            self._end_video()
            path = self._folder / self._names.of(item, ".mp4")
            self._video, self._video_of = _Video(path, item, drawn.shape), item.source
        self._video.add(item, drawn)

    def _end_video(self) -> None:
        if self._video is not None:
            self._video.close()
        self._video, self._video_of = None, ""

    def __enter__(self) -> Gallery:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_video()


class _Video:
    """A video file of as many frames a second as its source says.

    Of a live source frames come at any time, and some are dropped. An image is repeated until the
    next one was there, so that the video lasts as long as what it shows; while more come than the
    file is due, they are left out from half a second on.

    Args:
        path: Of the file.
        first: The first frame.
        shape: Of the images.

    Raises:
        ImportError: OpenCV is missing.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, first: Item, shape: tuple[int, ...]) -> None:
        import cv2

        self._cv: Any = cv2
        self._fps = first.fps or _FPS
        self._began_s, self._written, self._last = first.time_s, 0, None
        self._size, code = (shape[1], shape[0]), self._cv.VideoWriter_fourcc(*"mp4v")
        self._file = self._cv.VideoWriter(str(path), code, self._fps, self._size)
        if not self._file.isOpened():
            raise OSError(f"{path}: OpenCV cannot write a video there")

    def add(self, item: Item, drawn: Any) -> None:
        """Write a frame at its time."""
        if item.is_live:
            due = (item.time_s - self._began_s) * self._fps
            if self._written - due > self._fps / 2:
                return
            while self._last is not None and self._written + 1 <= due:
                self._write(self._last)
        if drawn.shape[1::-1] != self._size:  # OpenCV would leave it out without a word
            drawn = self._cv.resize(drawn, self._size)
        self._write(drawn)
        self._last = drawn

    def _write(self, drawn: Any) -> None:
        self._file.write(drawn)
        self._written += 1

    def close(self) -> None:
        """Write its end."""
        self._file.release()
