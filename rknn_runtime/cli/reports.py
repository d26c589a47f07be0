"""What was found in images, in the forms that ``rknn-runtime detect`` writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rknn_runtime._printable import printable
from rknn_runtime.cli.files import line_of, write_text
from rknn_runtime.cli.sources import Item, Names
from rknn_runtime.vision.heads.classification import Classifications

if TYPE_CHECKING:
    from rknn_runtime.vision.labels import Labels

__all__ = ["FORMATS", "Report", "image_size"]


class Report:
    """Writes results, one after the other; each format has its own subclass.

    Args:
        out: Where to write.
        labels: Names of the classes, or None.
    """

    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        self._out, self._labels = out, labels

    def add(self, item: Item, result: Any) -> None:
        """Write the results of an image."""
        raise NotImplementedError

    def fail(self, item: Item, error: Exception) -> None:
        """Write that an image has none, where the form can say so."""

    def flush(self) -> None:
        """Let whoever reads along have what was written."""
        self._out.flush()

    def end(self) -> None:
        """Write the end of the file; called however the command ends."""

    def _name(self, class_id: int) -> str:
        from rknn_runtime.vision.labels import names_of

        return (
            f"class {class_id}" if self._labels is None else names_of(self._labels, [class_id])[0]
        )

    def _classes(self, result: Classifications) -> list[tuple[int, str, float]]:
        pairs = zip(result.class_id.tolist(), result.confidence.tolist())
        return [(class_id, self._name(class_id), confidence) for class_id, confidence in pairs]


class Text(Report):
    """For people: a line for the image, and one for each object or class."""

    def add(self, item: Item, result: Any) -> None:
        """Write the lines."""
        if isinstance(result, Classifications):
            lines = [f"  {name:<16} {score:6.1%}" for _, name, score in self._classes(result)]
            self._write(item, "", lines)
            return
        lines = []
        for found in result:
            left, top, right, bottom = (round(side) for side in found.xyxy)
            lines.append(
                f"  {self._name(found.class_id):<16} {found.confidence:6.1%}  "
                f"{left},{top} {right - left}x{bottom - top}"
            )
        self._write(item, f" {len(lines)} object{'' if len(lines) == 1 else 's'}", lines)

    def _write(self, item: Item, summary: str, lines: list[str]) -> None:
        place = item.source if item.frame is None else f"{item.source} {item.frame}"
        for line in [f"{place}:{summary}", *lines]:
            self._out.write(printable(line) + "\n")


class JsonLines(Report):
    """One JSON object per image and line."""

    def add(self, item: Item, result: Any) -> None:
        """Write the line."""
        if isinstance(result, Classifications):
            rows = [
                {
                    "class_id": i,
                    **({} if self._labels is None else {"label": name}),
                    "confidence": c,
                }
                for i, name, c in self._classes(result)
            ]
            self._line(item, {"classes": rows})
        else:
            height, width = image_size(item)
            self._line(item, {"width": width, "height": height, **result.to_dict(self._labels)})

    def fail(self, item: Item, error: Exception) -> None:
        """Write a line with the error."""
        self._line(item, {"error": line_of(error)})

    def _line(self, item: Item, rest: dict[str, Any]) -> None:
        place: dict[str, Any] = {"source": item.source}
        if item.frame is not None:
            place.update(frame=item.frame, time_s=round(item.time_s, 6))
        self._out.write(json.dumps({**place, **rest}) + "\n")


class Csv(Report):
    """A table: one line per object, or per class of a classifier."""

    _has_header = False

    def add(self, item: Item, result: Any) -> None:
        """Write the lines, and the columns' names before the first."""
        import csv

        if isinstance(result, Classifications):
            rows: list[Any] = [("class_id", "label", "confidence"), *self._classes(result)]
        else:
            rows = list(csv.reader(result.to_csv(self._labels).splitlines()))
        writer = csv.writer(self._out, lineterminator="\n")
        if not self._has_header:
            self._has_header = True
            writer.writerow(["source", "frame", *rows[0]])
        frame = "" if item.frame is None else item.frame
        writer.writerows([item.source, frame, *row] for row in rows[1:])


class Coco(Report):
    """COCO's results, one JSON array.

    An image's id is its name, or its number where the name is one, as in COCO; a frame of a video
    is ``name#frame``.
    """

    #: As of `Detections.to_coco`; set by the command.
    categories: Any = None
    _separator = "\n"

    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        super().__init__(out, labels)
        # At once: so the array is whole wherever an interrupt comes.
        out.write("[")

    def add(self, item: Item, result: Any) -> None:
        """Write the objects."""
        stem = item.stem
        name: int | str = int(stem) if stem.isascii() and stem.isdigit() else stem
        if item.frame is not None:
            name = f"{stem}#{item.frame}"
        for row in result.to_coco(name, self.categories):
            self._out.write(self._separator + json.dumps(row))
            self._separator = ",\n"

    def end(self) -> None:
        """Close the array."""
        self._out.write("\n]\n")


class Yolo(Report):
    """A label file for each image, in a folder: ``folder`` is set by the command."""

    folder = Path()

    def __init__(self, out: TextIO, labels: Labels | None) -> None:
        super().__init__(out, labels)
        self._names = Names()

    def add(self, item: Item, result: Any) -> None:
        """Write the image's file; it is empty where nothing was found."""
        stem = self._names.of(item, "")
        if item.frame is not None:
            stem = f"{stem}_{item.frame}"
        text = result.to_yolo(image_size(item))
        write_text(str(self.folder / f"{stem}.txt"), text)


def image_size(item: Item) -> tuple[int, int]:
    """Height and width of an item's image in pixels, upright."""
    if not isinstance(item.image, str):
        height, width = item.image.shape[:2]
        return int(height), int(width)
    from rknn_runtime.vision.images import import_pillow

    with import_pillow().Image.open(item.image) as image:
        width, height = image.size
        turned = image.getexif().get(0x0112, 1) >= 5  # EXIF's orientation: a quarter turn
    return (width, height) if turned else (height, width)


FORMATS: dict[str, Callable[[TextIO, Any], Report]] = {
    "text": Text,
    "jsonl": JsonLines,
    "csv": Csv,
    "coco": Coco,
    "yolo": Yolo,
}
