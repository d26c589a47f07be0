"""The results that ``rknn-runtime detect`` writes: texts in five formats, images and videos."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rknn_runtime._files import printable, replace_file, replaced_file
from rknn_runtime.cli.files import counted, line_of, write_text
from rknn_runtime.cli.sources import Item, Names
from rknn_runtime.streams.address import path_of
from rknn_runtime.vision.decimals import doubles
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import as_pixels, import_pillow, size_of_file
from rknn_runtime.vision.labels import Labels, names_of
from rknn_runtime.vision.tasks import as_dict

#: Frames per second of a video whose source tells no rate.
_FPS = 25.0


class Report:
    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        self._out, self._labels = out, labels

    def add(self, item: Item, result: Any) -> None:
        raise NotImplementedError

    def fail(self, item: Item, error: Exception) -> None:
        """Write that an image failed, if the format can."""

    def flush(self) -> None:
        """Hand the text to a program that reads along."""
        self._out.flush()

    def end(self) -> None:
        """Write the end of the file, also after an error."""


class Text(Report):
    """A line for each image, and one for each object or class; of a video a line for each frame."""

    def add(self, item: Item, result: Any) -> None:
        if isinstance(result, np.ndarray):
            self._write(item, f" a vector of {len(result)} numbers", [])
            return
        if not isinstance(result, Detections):
            self._write(item, "", [f"  {line}" for line in result._lines(self._labels)])
            return
        lines = []
        names: Counter[str] = Counter()
        labels = self._labels
        for found in result:
            left, top, right, bottom = (round(side) for side in found.xyxy)
            number = found.class_id
            name = f"class {number}" if labels is None else names_of(labels, [number])[0]
            if found.tracker_id is not None and found.tracker_id >= 0:
                name = f"{name} #{found.tracker_id}"
            names[name] += 1
            lines.append(
                f"  {name:<16} {found.confidence:6.1%}  {left},{top} {right - left}x{bottom - top}"
            )
        summary = f" {counted(len(lines), 'object')}"
        if item.frame is not None:
            counts = ", ".join(f"{n} {name}" if n > 1 else name for name, n in names.items())
            summary, lines = f"{summary}: {counts}" if counts else summary, []
        self._write(item, summary, lines)

    def _write(self, item: Item, summary: str, lines: list[str]) -> None:
        place = item.source if item.frame is None else f"{item.source} {item.frame}"
        for line in [f"{place}:{summary}", *lines]:
            self._out.write(printable(line) + "\n")


class JsonLines(Report):
    """One JSON object per image, a line each."""

    def add(self, item: Item, result: Any) -> None:
        height, width = image_size(item)
        self._line(item, {"width": width, "height": height, **as_dict(result, self._labels)})

    def fail(self, item: Item, error: Exception) -> None:
        self._line(item, {"error": line_of(error)})

    def _line(self, item: Item, rest: dict[str, Any]) -> None:
        place: dict[str, Any] = {"source": item.source}
        if item.frame is not None:
            place.update(frame=item.frame, time_s=round(item.time_s, 6))
        self._out.write(json.dumps({**place, **rest}) + "\n")


class Csv(Report):
    """A table with one line per object, or per class of a classifier."""

    _has_header = False

    def add(self, item: Item, result: Any) -> None:
        import csv

        if isinstance(result, np.ndarray):
            rows: list[Any] = [range(len(result)), doubles(result).tolist()]
        else:
            rows = list(csv.reader(result.to_csv(self._labels).splitlines()))
        writer = csv.writer(self._out, lineterminator="\n")
        if not self._has_header:
            self._has_header = True
            writer.writerow(["source", "frame", *rows[0]])
        frame = "" if item.frame is None else item.frame
        # A spreadsheet shows no escape sequences, and a terminal obeys them.
        cells = ([item.source, frame, *row] for row in rows[1:])
        writer.writerows([printable(str(cell)) for cell in row] for row in cells)


class Coco(Report):
    """COCO results, one JSON array.

    The id of an image is its name, or its number if the name is one, as in COCO. The id of a frame
    is ``name#frame``.
    """

    #: As in `Detections.to_coco`; set by the command.
    categories: Any = None
    _separator = "\n"

    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        super().__init__(out, labels)
        # At once, so that the array is complete after any interrupt.
        out.write("[")

    def add(self, item: Item, result: Any) -> None:
        stem = item.stem
        name: int | str = int(stem) if stem.isascii() and stem.isdigit() else stem
        if item.frame is not None:
            name = f"{stem}#{item.frame}"
        for row in result.to_coco(name, self.categories):
            self._out.write(self._separator + json.dumps(row))
            self._separator = ",\n"

    def end(self) -> None:
        self._out.write("\n]\n")


class Yolo(Report):
    """A label file for each image, in the folder that the command sets."""

    folder = Path()

    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        super().__init__(out, labels)
        self._names = Names()

    def add(self, item: Item, result: Any) -> None:
        """Write the file of an image, empty if nothing was found."""
        stem = self._names.of(item, "")
        if item.frame is not None:
            stem = f"{stem}_{item.frame}"
        text = result.to_yolo(image_size(item))
        write_text(str(self.folder / f"{stem}.txt"), text)


def image_size(item: Item) -> tuple[int, int]:
    """Return height and width of an upright image in pixels."""
    if not isinstance(item.image, str):
        height, width = item.image.shape[:2]
        return int(height), int(width)
    return size_of_file(item.image)


FORMATS: dict[str, Callable[[TextIO, Any], Report]] = {
    "text": Text,
    "jsonl": JsonLines,
    "csv": Csv,
    "coco": Coco,
    "yolo": Yolo,
}


class Gallery:
    """Draws results into images and videos; a context manager that closes the videos."""

    def __init__(self, folder: Path, labels: Labels | None) -> None:
        self._folder, self._labels = folder, labels
        self._pillow = import_pillow()
        self._names = Names()
        self._video: _Video | None = None
        self._video_of = ""
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, item: Item, found: Any) -> None:
        image, color = as_pixels(item.image, "BGR")
        drawn = found.draw(image, self._labels, color=color)
        if item.frame is not None:
            if self._video is None or item.source != self._video_of:
                self._end_video()
                path = self._folder / self._names.of(item, ".mp4")
                self._video, self._video_of = _Video(path, item, drawn.shape), item.source
            self._video.add(item, drawn)
            return
        if color == "BGR":
            drawn = drawn[..., ::-1]
        path = self._folder / self._names.of(item, path_of(item.source).suffix)
        grey, file = drawn.shape[2] == 1, io.BytesIO()
        format = self._pillow.Image.registered_extensions()[path.suffix.lower()]
        self._pillow.Image.fromarray(drawn[..., 0] if grey else drawn).save(file, format)
        replace_file(path, file.getvalue())

    def _end_video(self) -> None:
        if self._video is not None:
            self._video.close()
        self._video, self._video_of = None, ""

    def __enter__(self) -> Gallery:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_video()


class _Video:
    """A video file with the frame rate of its source.

    Live sources drop frames. An image is then repeated until the next one, so that the video lasts
    as long as the scene. Frames that come more than half a second early are left out.
    """

    def __init__(self, path: Path, first: Item, shape: tuple[int, ...]) -> None:
        import cv2

        self._cv: Any = cv2
        self._fps = first.fps or _FPS
        self._began_s, self._written, self._last = first.time_s, 0, None
        self._size, code = (shape[1], shape[0]), self._cv.VideoWriter_fourcc(*"mp4v")
        self._place = ExitStack()
        name = self._place.enter_context(replaced_file(path))
        self._file = self._cv.VideoWriter(name, code, self._fps, self._size)
        if not self._file.isOpened():
            Path(name).unlink(missing_ok=True)
            raise OSError(f"{path}: OpenCV cannot write a video there")

    def add(self, item: Item, drawn: Any) -> None:
        if item.is_live:
            due = (item.time_s - self._began_s) * self._fps
            if self._written - due > self._fps / 2:
                return
            while self._last is not None and self._written + 1 <= due:
                self._write(self._last)
        if drawn.shape[1::-1] != self._size:  # OpenCV would drop it silently
            drawn = self._cv.resize(drawn, self._size)
        self._write(drawn)
        self._last = drawn

    def _write(self, drawn: Any) -> None:
        self._file.write(drawn)
        self._written += 1

    def close(self) -> None:
        self._file.release()
        self._place.close()
