"""Images and videos with what was found in them, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.cli.sources import Item
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
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._video: Any = None
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
        path = self._folder / self._name(item.source, Path(item.source).suffix)
        self._pillow.Image.fromarray(np.squeeze(drawn)).save(path)

    def _name(self, source: str, suffix: str) -> str:
        stem = Path(source).stem or "camera"
        if source not in self._names:
            name, number = f"{stem}{suffix}", 1
            while name in self._taken:
                number += 1
                name = f"{stem}-{number}{suffix}"
            self._taken.add(name)
            self._names[source] = name
        return self._names[source]

    def _write_frame(self, item: Item, drawn: Any) -> None:
        if item.source != self._video_of:
            self._end_video()
            self._video, self._video_of = self._new_video(item, drawn.shape), item.source
        self._video.write(drawn)

    def _new_video(self, item: Item, shape: tuple[int, ...]) -> Any:
        import cv2

        cv: Any = cv2

        fps = _FPS
        if Path(item.source).is_file():
            capture = cv2.VideoCapture(item.source)
            fps = capture.get(cv2.CAP_PROP_FPS) or _FPS
            capture.release()
        path = self._folder / self._name(item.source, ".mp4")
        video = cv2.VideoWriter(
            str(path), cv.VideoWriter_fourcc(*"mp4v"), fps, (shape[1], shape[0])
        )
        if not video.isOpened():
            raise OSError(f"{path}: OpenCV cannot write a video there")
        return video

    def _end_video(self) -> None:
        if self._video is not None:
            self._video.release()
        self._video, self._video_of = None, ""

    def __enter__(self) -> Gallery:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_video()
