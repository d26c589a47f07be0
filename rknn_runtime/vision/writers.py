"""Detections in the forms that other tools read: YOLO's text, COCO's JSON, CSV, supervision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime.vision.labels import Labels, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Writers", "size_of_image"]

#: ``category_id`` of classes: a number each by position or by class, or ``"coco"``.
Categories = Union[Sequence[int], Mapping[int, int], str]
#: No image has more pixels in a row.
_MAX_SIDE = 1 << 20


class Writers:
    """What `Detections` write. Not for direct use."""

    __slots__ = ()

    if TYPE_CHECKING:
        xyxy: NDArray[np.float32]
        confidence: NDArray[np.float32]
        class_id: NDArray[np.int32]
        mask: NDArray[np.bool_] | None
        keypoints: NDArray[np.float32] | None
        xyxyxyxy: NDArray[np.float32] | None

        def __len__(self) -> int: ...

    def to_yolo(self, image_size: tuple[int, int], *, confidence: bool = True) -> str:
        """Return the text of a YOLO label file: one line an object.

        Coordinates are parts of the image's width and height. A line is the class, then
        ``x1 y1 ... x4 y4`` of an oriented box; else the outline of a mask (of its largest part,
        without holes), ``x1 y1 x2 y2 ...``, and no line where the mask is empty; else the
        middle, width and height of the box, and ``x y confidence`` of each keypoint.

        Args:
            image_size: Height and width of the image in pixels.
            confidence: Whether the confidence ends each line, as in predictions; labels for a
                training have none.

        Returns:
            The text; read back by ``rknn_runtime.vision.readers.from_yolo``.

        Raises:
            TypeError: `image_size` is no pair of integers.
            ValueError: It is below 1, a mask has another size, or a number is not finite.
        """
        height, width = size_of_image(image_size)
        if self.mask is not None and self.mask.shape[1:] != (height, width):
            raise ValueError(
                f"image_size: expected that of the masks, {self.mask.shape[1:]}, "
                f"got {(height, width)}"
            )
        scale = np.array([width, height], np.float64)
        lines = []
        for i in range(len(self)):
            numbers = self._yolo_numbers(i, scale)
            if not np.isfinite(numbers).all():
                raise ValueError(f"object {i}: expected finite coordinates, got {numbers}")
            if len(numbers):
                end = [_number(self.confidence[i])] if confidence else []
                lines.append(" ".join([str(self.class_id[i]), *map(_number, numbers), *end]))
        return "".join(line + "\n" for line in lines)

    def _yolo_numbers(self, i: int, scale: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.xyxyxyxy is not None:
            corners: NDArray[np.float64] = self.xyxyxyxy[i] / scale
            return corners.ravel()
        if self.mask is not None:
            # Programs that write no masks do not load it.
            from rknn_runtime.vision.outlines import outline

            return (outline(self.mask[i]) / scale).ravel()
        first, last = self.xyxy[i].astype(np.float64).reshape(2, 2)
        centre_and_size = [(first + last) / 2 / scale, (last - first) / scale]
        box: NDArray[np.float64] = np.concatenate(centre_and_size)
        if self.keypoints is None:
            return box
        points = self.keypoints[i].astype(np.float64)
        points[:, :2] /= scale
        return np.concatenate([box, points.ravel()])

    def to_coco(
        self, image_id: int | str, categories: Categories | None = None
    ) -> list[dict[str, Any]]:
        """Return the objects as COCO's results: what ``COCO.loadRes`` of pycocotools reads.

        Args:
            image_id: Of the image in the annotations.
            categories: ``category_id`` of each class, or ``"coco"`` for the 80 of COCO, which are
                numbered 1 to 90 there. None: the class numbers as they are.

        Returns:
            Per object ``image_id``, ``category_id``, ``bbox`` (left, top, width, height) and
            ``score``; ``segmentation`` where there is a mask (run lengths, as text) or an
            oriented box (a polygon), ``keypoints`` with their confidence in the third place.
            ``json.dumps`` of the lists of all images, joined, is the file.

        Raises:
            IndexError: `categories` has none for a class.
            TypeError: `categories` are none, or `image_id` is neither integer nor text.
            ValueError: A number is not finite, which JSON cannot say.
        """
        if not isinstance(image_id, (int, str)) or isinstance(image_id, bool):
            raise TypeError(f"image_id: expected an int or a str, got {type(image_id).__name__}")
        self._check_finite()
        rows = []
        for i in range(len(self)):
            left, top, right, bottom = self.xyxy[i].astype(np.float64).tolist()
            row: dict[str, Any] = {
                "image_id": image_id,
                "category_id": _category(categories, int(self.class_id[i])),
                "bbox": [left, top, right - left, bottom - top],
                "score": float(_number(self.confidence[i])),
            }
            if self.mask is not None:
                row["segmentation"] = _compressed(self.mask[i])
            elif self.xyxyxyxy is not None:
                row["segmentation"] = [self.xyxyxyxy[i].ravel().tolist()]
            if self.keypoints is not None:
                row["keypoints"] = self.keypoints[i].ravel().tolist()
            rows.append(row)
        return rows

    def _check_finite(self) -> None:
        for name in ("xyxy", "confidence", "keypoints", "xyxyxyxy"):
            values = getattr(self, name)
            if values is not None and not np.isfinite(values).all():
                raise ValueError(f"{name}: expected finite numbers, got others among them")

    def to_csv(self, labels: Labels | None = None, *, header: bool = True) -> str:
        """Return a table: one line an object, numbers as they read back to the same float32.

        Columns are ``class_id``, ``label`` (with `labels`), ``confidence``, ``left``, ``top``,
        ``right``, ``bottom`` in pixels; then ``x1`` to ``y4`` of oriented boxes, ``x``, ``y`` and
        ``confidence`` of each keypoint as ``keypoint_0_x`` and so on, and ``mask_pixels``, the
        number of pixels of a mask: its form does not fit into a table, `to_coco` has it.

        Args:
            labels: Names of the classes.
            header: Whether the first line names the columns.

        Raises:
            IndexError: `labels` has no name for a class.
            TypeError: `labels` does not hold names.
        """
        columns: list[tuple[list[str], Any]] = [(["class_id"], self.class_id[:, None].tolist())]
        if labels is not None:
            names = names_of(labels, self.class_id.tolist())
            columns.append((["label"], [[name] for name in names]))
        columns.append((["confidence"], _shown(self.confidence[:, None])))
        columns.append((["left", "top", "right", "bottom"], _shown(self.xyxy)))
        if self.xyxyxyxy is not None:
            titles = [f"{axis}{corner}" for corner in range(1, 5) for axis in "xy"]
            columns.append((titles, _shown(self.xyxyxyxy.reshape(len(self), -1))))
        if self.keypoints is not None:
            titles = [
                f"keypoint_{k}_{part}"
                for k in range(self.keypoints.shape[1])
                for part in ("x", "y", "confidence")
            ]
            columns.append((titles, _shown(self.keypoints.reshape(len(self), -1))))
        if self.mask is not None:
            columns.append((["mask_pixels"], self.mask.sum(axis=(1, 2))[:, None].tolist()))
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if header:
            writer.writerow([title for titles, _ in columns for title in titles])
        for i in range(len(self)):
            writer.writerow([cell for _, rows in columns for cell in rows[i]])
        return text.getvalue()

    def to_supervision(self, labels: Labels | None = None) -> Any:
        """Return ``supervision.Detections``, with masks, and corners of oriented boxes.

        Args:
            labels: Names of the classes, which become ``data["class_name"]``.

        Returns:
            A ``supervision.Detections``; keypoints, which have a class of their own there, lie
            in ``data["keypoints"]``, ``(n, k, 3)``. The arrays are copies.

        Raises:
            ImportError: supervision is not installed: ``pip install supervision``.
            IndexError: `labels` has no name for a class.
            TypeError: `labels` does not hold names.
        """
        try:
            import supervision
        except ImportError as error:
            raise ImportError(
                "to_supervision needs supervision: pip install supervision"
            ) from error
        data: dict[str, Any] = {}
        if labels is not None:
            data["class_name"] = np.array(names_of(labels, self.class_id.tolist()), str)
        if self.xyxyxyxy is not None:
            data["xyxyxyxy"] = self.xyxyxyxy.copy()
        if self.keypoints is not None:
            data["keypoints"] = self.keypoints.copy()
        return supervision.Detections(
            xyxy=self.xyxy.copy(),
            mask=None if self.mask is None else self.mask.copy(),
            confidence=self.confidence.copy(),
            class_id=self.class_id.astype(int),
            data=data,
        )


def size_of_image(image_size: Any) -> tuple[int, int]:
    """Return height and width of an image.

    Raises:
        TypeError: No pair of integers.
        ValueError: One of them is below 1, or beyond what images have.
    """
    if not isinstance(image_size, (tuple, list)) or len(image_size) != 2:
        raise TypeError(f"image_size: expected a pair of integers, got {image_size!r}")
    height, width = (as_int(side, "image_size", 1, _MAX_SIDE) for side in image_size)
    return height, width


def _number(value: Any) -> str:
    """The fewest digits that give the same float32 again."""
    return str(np.float32(value))


def _shown(values: NDArray[Any]) -> list[list[str]]:
    return [[_number(value) for value in row] for row in values]


def _category(categories: Categories | None, class_id: int) -> int:
    if categories is None:
        return class_id
    if isinstance(categories, str):
        if categories != "coco":
            raise TypeError(f'categories: expected numbers or "coco", got {categories!r}')
        from rknn_runtime.vision.coco import COCO_IDS

        categories = COCO_IDS
    is_mapping = isinstance(categories, Mapping)
    if not is_mapping and not isinstance(categories, Sequence):
        kind = type(categories).__name__
        raise TypeError(f"categories: expected a sequence or a mapping, got {kind}")
    if class_id not in categories if is_mapping else not 0 <= class_id < len(categories):
        raise IndexError(
            f"categories: expected one for class {class_id}, got {len(categories)} of them"
        )
    return as_int(categories[class_id], "categories", -(2**63), 2**63 - 1)


def _compressed(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """COCO's compressed run lengths, down the columns and beginning with 0.

    As maskApi of the COCO API writes them: from the fourth on as the difference to the run two
    before, in groups of 5 bits, the lowest first, with a bit for more to come, from "0" on.
    """
    flat = np.concatenate([[False], mask.ravel(order="F")])
    ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]), mask.size)
    counts = np.diff(ends, prepend=0).tolist()
    text = []
    for i, count in enumerate(counts):
        value = count - counts[i - 2] if i > 2 else count
        more = True
        while more:
            group = value & 0x1F
            value >>= 5
            more = value != -1 if group & 0x10 else value != 0
            text.append(chr(48 + (group | 0x20 if more else group)))
    return {"size": list(mask.shape), "counts": "".join(text)}
