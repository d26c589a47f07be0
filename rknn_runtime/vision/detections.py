"""The objects that a detector found in one image, and the formats that other tools read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Union, overload

import numpy as np

from rknn_runtime._arrays import NDArray, as_float, as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import html_table, printable
from rknn_runtime.vision.decimals import Cell, Table, Texts, doubles
from rknn_runtime.vision.images import as_pixels
from rknn_runtime.vision.labels import COCO_IDS, Labels, names_of

#: ``category_id`` of each class, by position or by class number; or ``"coco"``.
Categories = Union[Sequence[int], Mapping[int, int], str]

#: Field, dtype, and its shape for one object; None: any length.
_FIELDS: tuple[tuple[str, np.dtype[Any], tuple[int | None, ...]], ...] = (
    ("xyxy", np.dtype(np.float32), (4,)),
    ("confidence", np.dtype(np.float32), ()),
    ("class_id", np.dtype(np.int32), ()),
    ("mask", np.dtype(np.bool_), (None, None)),
    ("keypoints", np.dtype(np.float32), (None, 3)),
    ("xyxyxyxy", np.dtype(np.float32), (4, 2)),
    ("tracker_id", np.dtype(np.int32), ()),
)
#: The fields that are never None.
_REQUIRED = ("xyxy", "confidence", "class_id")
#: How many objects `str` shows.
_SHOWN = 20
#: No image has more pixels in a row.
_MAX_SIDE = 1 << 20

# Looked up once: these are used for every frame.
_new, _ndarray = object.__new__, np.ndarray
_FLOAT32, _INT32 = np.dtype(np.float32), np.dtype(np.int32)
_INTEGERS = (int, np.integer)
#: Memory that is written before it is read.
_uncleared = ffi.new_allocator(should_clear_after_alloc=False)
#: Bytes of one object in ``rkr_detections.columns``.
_COLUMN_BYTES = 24


@dataclass(frozen=True, eq=False)
class Detection:
    """One object. The arrays are views into the `Detections` that it was taken from."""

    #: ``(4,) float32``: left, top, right, bottom in pixels.
    xyxy: NDArray[np.float32]
    #: 0..1.
    confidence: float
    class_id: int
    #: ``(height, width) bool`` or None.
    mask: NDArray[np.bool_] | None = None
    #: ``(k, 3) float32``: x and y in pixels, confidence; or None.
    keypoints: NDArray[np.float32] | None = None
    #: ``(4, 2) float32``, pixels: the corners of an oriented box; or None.
    xyxyxyxy: NDArray[np.float32] | None = None
    #: The name of the class; None: not known.
    name: str | None = None
    #: The number of its track; -1: in no track yet. None: not tracked.
    tracker_id: int | None = None

    def __post_init__(self) -> None:
        """Check the fields; the arrays become read-only views."""
        for name, dtype, shape in _FIELDS:
            value = getattr(self, name)
            if name == "confidence":
                value = as_float(value, name)
            elif name == "class_id" or (name == "tracker_id" and value is not None):
                value = as_int(value, name, -(2**31), 2**31 - 1)
            elif value is not None or name == "xyxy":
                value = _checked(value, name, dtype, shape)
            self.__dict__[name] = value

    def __eq__(self, other: object) -> bool:
        """Compare all fields; arrays are equal if all elements are."""
        return _equal(self, other) if isinstance(other, Detection) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show class, confidence and box, and the size of everything else."""
        box = ", ".join(map(str, doubles(self.xyxy).tolist()))
        more = "".join(f", {each}" for each in _extras(self))
        what = f"class {self.class_id}" if self.name is None else self.name
        return f"<Detection of {what}, {self.confidence:.1%}, xyxy [{box}]{more}>"

    def crop(self, image: Any) -> NDArray[np.uint8]:
        """Cut the box out of its image; see `Detections.crop`."""
        return _cut(as_pixels(image)[0], self.xyxy)

    def to_dict(self, labels: Labels | None = None) -> dict[str, Any]:
        """Return the object as plain Python values, ready for JSON.

        Args:
            labels: Names of the classes, for ``"label"``; None: `name`, if it is known.

        Returns:
            ``class_id``, ``label`` (if it is known), ``confidence`` and ``xyxy``; ``tracker_id``,
            ``keypoints``, ``xyxyxyxy`` and ``mask`` if the object has them. A mask is in COCO's
            uncompressed run-length form, ``{"size": [height, width], "counts": [...]}``:
            alternating runs of 0 and 1 down the columns, starting with 0.
        """
        record: dict[str, Any] = {"class_id": self.class_id}
        if labels is not None:
            (record["label"],) = names_of(labels, [self.class_id])
        elif self.name is not None:
            record["label"] = self.name
        *xyxy, confidence = doubles((*self.xyxy.tolist(), self.confidence)).tolist()
        record["confidence"], record["xyxy"] = confidence, xyxy
        if self.tracker_id is not None:
            record["tracker_id"] = self.tracker_id
        if self.keypoints is not None:
            record["keypoints"] = doubles(self.keypoints).tolist()
        if self.xyxyxyxy is not None:
            record["xyxyxyxy"] = doubles(self.xyxyxyxy).tolist()
        if self.mask is not None:
            record["mask"] = {"size": list(self.mask.shape), "counts": _run_lengths(self.mask)}
        return record


@dataclass(frozen=True, eq=False, repr=False)
class Detections:
    """The objects found in one image, as parallel arrays.

    Fields have the names of roboflow/supervision's, so
    ``sv.Detections(xyxy=d.xyxy, confidence=d.confidence, class_id=d.class_id)`` works unchanged.
    The arrays are read-only views of the arrays that were passed in, not copies.

    ``len(d)`` is the number of objects; iterating yields `Detection`. ``d[i]`` is one
    `Detection`; ``d[2:5]``, ``d[d.confidence > 0.5]`` and ``d[[3, 1]]`` are `Detections`
    (a slice views, a boolean mask or an array of indices copies). ``==`` compares all fields.
    """

    #: ``(n, 4) float32``: left, top, right, bottom in pixels.
    xyxy: NDArray[np.float32]
    #: ``(n,) float32``, 0..1.
    confidence: NDArray[np.float32]
    #: ``(n,) int32``.
    class_id: NDArray[np.int32]
    #: ``(n, height, width) bool`` or None.
    mask: NDArray[np.bool_] | None = None
    #: ``(n, k, 3) float32``: x and y in pixels, confidence; or None.
    keypoints: NDArray[np.float32] | None = None
    #: ``(n, 4, 2) float32``, pixels: the corners of oriented boxes; or None.
    xyxyxyxy: NDArray[np.float32] | None = None
    #: Names of all classes, as `Detector` knows them; or None.
    labels: Labels | None = None
    #: ``(n,) int32``: the number of each object's track, -1 for none yet; None: not tracked. See
    #: `rknn_runtime.vision.tracking.Tracker`.
    tracker_id: NDArray[np.int32] | None = None

    def __post_init__(self) -> None:
        """Check the arrays."""
        n = None
        for name, dtype, shape in _FIELDS:
            value = getattr(self, name)
            if value is not None or name in _REQUIRED:
                self.__dict__[name] = _checked(value, name, dtype, (n, *shape))
            if n is None:
                n = len(self.xyxy)

    @classmethod
    def _of(
        cls,
        columns: Any,
        n: int,
        mask: NDArray[np.bool_] | None = None,
        keypoints: NDArray[np.float32] | None = None,
        xyxyxyxy: NDArray[np.float32] | None = None,
        labels: Labels | None = None,
    ) -> Detections:
        """Take `n` objects from ``rkr_detections.columns``, whose bytes are copied.

        For every frame, so nothing is checked; the arrays given become read-only.
        """
        data = columns[: _COLUMN_BYTES * n]  # bytes: arrays over them are read-only
        found: Detections = _new(cls)
        fields = found.__dict__
        fields["xyxy"] = _ndarray((n, 4), _FLOAT32, data)
        fields["confidence"] = _ndarray(n, _FLOAT32, data, 16 * n)
        fields["class_id"] = _ndarray(n, _INT32, data, 20 * n)
        fields["mask"], fields["keypoints"], fields["xyxyxyxy"] = mask, keypoints, xyxyxyxy
        fields["labels"], fields["tracker_id"] = labels, None
        for array in (mask, keypoints, xyxyxyxy):
            if array is not None:
                array.setflags(write=False)
        return found

    @classmethod
    def empty(cls) -> Detections:
        """Return no detections: arrays of length 0 with the right shapes and dtypes."""
        return cls(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))

    def __eq__(self, other: object) -> bool:
        """Compare all fields; arrays are equal if all elements are."""
        return _equal(self, other) if isinstance(other, Detections) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.xyxy)

    @property
    def names(self) -> list[str]:
        """The name of each object's class, from `labels`; ``"class 3"`` if it is not known."""
        ids = self.class_id.tolist()
        known = self._known(ids)
        if not all(known):
            known = [name or f"class {i}" for name, i in zip(known, ids)]
        return known  # type: ignore[return-value]

    def _known(self, ids: Sequence[int]) -> list[str | None]:
        """Return the name of each class, or None."""
        labels = self.labels
        if labels is None:
            return [None] * len(ids)
        if isinstance(labels, (list, tuple)):
            try:
                return [labels[i] if i >= 0 else None for i in ids]
            except IndexError:
                pass
        if isinstance(labels, Mapping):
            return [labels.get(i) for i in ids]
        return [labels[i] if 0 <= i < len(labels) else None for i in ids]

    def _names_by(self, given: Labels | None) -> tuple[Any, ...] | None:
        """Return the labels that were given, or its own, as the writers remember them."""
        labels = self.labels
        if given is not None:
            ids = list(set(self.class_id.tolist()))
            labels = dict(zip(ids, names_of(given, ids)))
        if labels is None:
            return None
        return tuple(labels.items() if isinstance(labels, Mapping) else labels)

    def _write(self, table: Table, values: Sequence[Any], are_finite: bool = False) -> str:
        """Return the objects as text, without the arrays that are None."""
        text = table.text(len(self), [each for each in values if each is not None], are_finite)
        if text is None:
            self._check_finite("xyxy", "confidence", "keypoints", "xyxyxyxy")
            raise ValueError("xyxy: expected finite fractions of the image, got others among them")
        return text

    def _labels(self, given: Labels | None) -> list[str] | None:
        """Return the name of each object's class by labels that were given, or else by its own."""
        if given is not None:
            return names_of(given, self.class_id.tolist())
        return None if self.labels is None else self.names

    def crop(self, image: Any) -> list[NDArray[np.uint8]]:
        """Cut the boxes out of their image, as for a classifier.

        Args:
            image: As for `draw`.

        Returns:
            For each object a copy ``(h, w, C) uint8`` of the part of its box in the image, of at
            least one pixel, with the channels of the image.

        Raises:
            ImportError: `image` is a file and Pillow is not installed.
            OSError: The file cannot be read.
        """
        pixels, _ = as_pixels(image)
        return [_cut(pixels, box) for box in self.xyxy]

    def align(self, image: Any, size: int = 112) -> NDArray[np.uint8]:
        """Turn faces upright and cut them out, as ArcFace and networks like it take them.

        A turn, scale and shift brings the five points of each face as close as possible to
        ArcFace's points (Umeyama; InsightFace's ``norm_crop``). The image is interpolated
        bilinearly and is black outside of its edges.

        Args:
            image: As for `draw`; the `keypoints` are in its pixels.
            size: Height and width of the crops in pixels.

        Returns:
            ``(n, size, size, C) uint8``, new, with the channels of the image.

        Raises:
            ImportError: `image` is a file and Pillow is not installed.
            OSError: The file cannot be read.
        """
        # Programs that find no faces do not load it.
        from rknn_runtime.vision.alignment import aligned

        return aligned(image, self.keypoints, size)

    def crop_turned(self, image: Any) -> list[NDArray[np.uint8]]:
        """Cut turned boxes out upright, as for a `TextRecognizer`.

        The first corner comes to the upper left, the second to the upper right; the image is
        interpolated bilinearly and is black outside of its edges. Boxes at least 1.5 times as
        high as wide are then turned by 90 degrees, counter-clockwise, so that vertical text
        becomes horizontal.

        Args:
            image: As for `draw`; the corners are in its pixels.

        Returns:
            For each object ``(h, w, C) uint8``, new, with the channels of the image.

        Raises:
            ImportError: `image` is a file and Pillow is not installed.
            OSError: The file cannot be read.
        """
        from rknn_runtime.vision.alignment import turned

        return turned(image, self.xyxyxyxy)

    def __repr__(self) -> str:
        """Show the number of objects and the size of masks and keypoints."""
        return f"<Detections of {', '.join([_objects(len(self)), *_extras(self)])}>"

    def __str__(self) -> str:
        """Show the objects, at most 20 of them, as a table."""
        lines = [", ".join([_objects(len(self)), *_extras(self)])]
        shown = self[:_SHOWN]
        titles = [str(i) for i in shown.class_id.tolist()] if self.labels is None else shown.names
        width = max([5, *map(len, titles)])
        if len(self) > 0:
            lines.append(f"{'class':<{width}} confidence      left       top     right    bottom")
        for title, one in zip(titles, shown):
            box = "".join(f"{v:10.1f}" for v in one.xyxy.tolist())
            aligned = f"{title:>{width}}" if self.labels is None else f"{title:<{width}}"
            lines.append(printable(f"{aligned} {one.confidence:10.1%}{box}"))
        if len(self) > _SHOWN:
            lines.append(f"... and {len(self) - _SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown = self[:_SHOWN]
        boxes = [[f"{v:.1f}" for v in box] for box in shown.xyxy.tolist()]
        rows = [
            (name, f"{confidence:.1%}", *box)
            for name, confidence, box in zip(shown.names, shown.confidence.tolist(), boxes)
        ]
        if len(self) > _SHOWN:
            rows.append((f"... and {len(self) - _SHOWN} more",))
        titles = ("class", "confidence", "left", "top", "right", "bottom")
        return html_table(titles, rows) + f"<p>{', '.join([_objects(len(self)), *_extras(self)])}"

    def __iter__(self) -> Iterator[Detection]:
        found: list[Detection] = []
        new, kind, ids = _new, Detection, self.class_id.tolist()
        for xyxy, confidence, class_id, name in zip(
            self.xyxy, self.confidence.tolist(), ids, self._known(ids)
        ):
            one = new(kind)  # checked already
            fields = one.__dict__
            fields["xyxy"], fields["confidence"], fields["class_id"] = xyxy, confidence, class_id
            fields["name"] = name
            found.append(one)
        for field in ("mask", "keypoints", "xyxyxyxy", "tracker_id"):
            values = self.__dict__[field]
            if values is not None:
                for one, value in zip(found, values.tolist() if field == "tracker_id" else values):
                    one.__dict__[field] = value
        return iter(found)

    @overload
    def __getitem__(self, index: int) -> Detection: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> Detections: ...

    def __getitem__(self, index: Any) -> Detection | Detections:
        """Return one object (integer) or a selection (slice, boolean mask, indices)."""
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            index = int(index)
            if not -len(self) <= index < len(self):
                raise IndexError(f"index: expected one of {_objects(len(self))}, got {index}")
            (one,) = self._take(slice(index, index + 1 or None))
            return one
        return self._take(index if isinstance(index, slice) else _selection(index, len(self)))

    def _take(self, rows: Any) -> Detections:
        values = {name: self.__dict__[name] for name, _, _ in _FIELDS}
        chosen: dict[str, Any] = {n: None if v is None else v[rows] for n, v in values.items()}
        return Detections(**chosen, labels=self.labels)

    def draw(
        self,
        image: Any,
        labels: Labels | None = None,
        *,
        color: str = "RGB",
        skeleton: Sequence[tuple[int, int]] | None = None,
        keypoint_threshold: float = 0.5,
        captions: bool | Sequence[str] = True,
        line_width: int | None = None,
        color_by: str = "class",
        font: str | os.PathLike[str] | None = None,
        out: NDArray[np.uint8] | None = None,
    ) -> Any:
        """Draw the objects on a copy of an image, or on the image itself.

        Draws boxes (or oriented boxes), masks, the largest below, keypoints, and a caption for
        each object: the name (or the class number), the number of its track, such as ``#3``, if it
        has one, and the confidence in percent. Lines and letters grow with the image; letters
        shrink with small boxes, and a caption that would hide a box is left out. COCO's persons
        have blue left limbs and orange right ones.
        Only the part of a mask inside its box is drawn. Captions need Pillow.

        Args:
            image: The image that the coordinates belong to: an array ``(H, W)``, ``(H, W, 1)``,
                ``(H, W, 3)`` or ``(H, W, 4)`` of uint8, a Pillow image, or a file's path.
            labels: Names of the classes; None: those of the objects.
            color: Channel order of an array and of the result, ``"RGB"`` or ``"BGR"``.
            skeleton: Pairs of keypoints to join, counted from 0. None: COCO's for 17 keypoints,
                otherwise no lines.
            keypoint_threshold: Keypoints with less confidence are left out.
            captions: False for none, or a text for each object instead of name and confidence.
            line_width: Pixels; 0 draws no boxes. None: by the image's size.
            color_by: ``"class"``: a colour for each class; ``"instance"``: for each object;
                ``"track"``: for each track.
            font: A TrueType file for the captions, for labels that are not Latin.
            out: ``(H, W, 3) uint8`` to draw on, for arrays: ``out=image`` draws on the image
                itself, any other array gets a copy of the image first.

        Returns:
            For an array `out`, or without it a new array ``(H, W, 3) uint8``; otherwise a Pillow
            image in mode RGB.

        Raises:
            ImportError: Pillow is not installed.
            OSError: A file cannot be read.
        """
        # Programs that draw nothing do not load it.
        from rknn_runtime.vision.drawing import Style, draw_objects

        names = self._labels(labels) or list(map(str, self.class_id.tolist()))
        if self.tracker_id is not None:
            names = [n if i < 0 else f"{n} #{i}" for n, i in zip(names, self.tracker_id.tolist())]
        texts = [(name, f"{c:.0%}") for name, c in zip(names, self.confidence.tolist())]
        if not isinstance(captions, bool):
            if isinstance(captions, str) or len(captions) != len(self):
                raise ValueError(
                    f"captions: expected a text for each of {_objects(len(self))}, got {captions!r}"
                )
            texts = [(str(caption), "") for caption in captions]
        style = Style(
            captions is not False, line_width, color_by, skeleton, keypoint_threshold, font
        )
        return draw_objects(image, self, texts, color, style, out)

    def to_dict(self, labels: Labels | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return ``{"detections": [...]}`` with one `Detection.to_dict` per object."""
        ids = self.class_id.tolist()
        names = self._known(ids) if labels is None else names_of(labels, ids)
        rows, _ = self._rows(is_coco=False)
        if all(names):
            records: list[dict[str, Any]] = [
                {"class_id": i, "label": name, "confidence": row.pop(), "xyxy": row}
                for i, name, row in zip(ids, names, rows)
            ]
        else:
            records = [
                {"class_id": i, "confidence": row.pop(), "xyxy": row}
                if name is None
                else {"class_id": i, "label": name, "confidence": row.pop(), "xyxy": row}
                for i, name, row in zip(ids, names, rows)
            ]
        if self.tracker_id is not None:
            for record, track in zip(records, self.tracker_id.tolist()):
                record["tracker_id"] = track
        for field in ("keypoints", "xyxyxyxy"):
            values = getattr(self, field)
            if values is not None:
                for record, value in zip(records, doubles(values).tolist()):
                    record[field] = value
        if self.mask is not None:
            size = list(self.mask.shape[1:])
            for record, mask in zip(records, self.mask):
                record["mask"] = {"size": size, "counts": _run_lengths(mask)}
        return {"detections": records}

    def _rows(self, is_coco: bool) -> tuple[list[list[float]], bool]:
        """Return a box and the confidence of each object, and whether all are finite."""
        rows = np.empty((len(self), 5))
        boxes, scores = np.ascontiguousarray(self.xyxy), np.ascontiguousarray(self.confidence)
        are_finite = lib.rkr_box_rows(
            ffi.from_buffer("float[]", boxes), ffi.from_buffer("float[]", scores), len(self),
            is_coco, ffi.from_buffer("double[]", rows),
        )  # fmt: skip
        return rows.tolist(), bool(are_finite)

    def to_json(self, labels: Labels | None = None, *, indent: int | None = None) -> str:
        """Return `to_dict` as a JSON text; numbers read back to the same float32."""
        if indent is not None:
            import json

            indent = as_int(indent, "indent", 0, 99)
            return json.dumps(
                self.to_dict(labels), indent=indent, allow_nan=False, ensure_ascii=False
            )
        return self._json(labels, are_finite=True)

    def _json(self, labels: Labels | None, are_finite: bool = False) -> str:
        """Do as `to_json` on one line; infinite numbers and NaN make no JSON."""
        names, corners, tracks = self._names_by(labels), self.xyxyxyxy, self.tracker_id
        ids, masks, numbers = self.class_id, None, None
        table: Callable[..., Table] = _in_json
        if self.mask is not None:
            size, table = list(self.mask.shape[1:]), _in_json.__wrapped__  # for this once
            numbers = np.arange(len(ids), dtype=np.int32)
            runs = {i: str(_run_lengths(mask)) for i, mask in enumerate(self.mask)}
            masks = Cell(f', "mask": {{"size": {size}, "counts": ', None, Texts(runs))
        text = self._write(
            table(names, _count(self.keypoints), corners is not None, tracks is not None, masks),
            (ids, None if names is None else ids, self.confidence, self.xyxy, tracks,
             self.keypoints, corners, numbers),
            are_finite,
        )  # fmt: skip
        return f'{{"detections": [{text[:-2]}]}}'

    def _check_finite(self, *names: str) -> None:
        for name in names or ("xyxy", "confidence", "keypoints", "xyxyxyxy"):
            values = getattr(self, name)
            if values is not None and not np.isfinite(values).all():
                raise ValueError(f"{name}: expected finite numbers, got others among them")

    def to_yolo(self, image_size: tuple[int, int], *, confidence: bool = True) -> str:
        """Return the text of a YOLO label file: one line per object.

        Coordinates are fractions of the image's width and height. After the class, a line has
        ``x1 y1 ... x4 y4`` of an oriented box; or the outline ``x1 y1 x2 y2 ...`` of the largest
        part of a mask, without holes (empty masks give no line); or the centre, width and height
        of the box, then ``x y confidence`` of each keypoint.

        Args:
            image_size: Height and width of the image in pixels.
            confidence: Whether the confidence ends each line, as in predictions; training labels
                have none.

        Returns:
            The text; `rknn_runtime.vision.readers.from_yolo` reads it.
        """
        height, width = size_of_image(image_size)
        if self.mask is not None and self.mask.shape[1:] != (height, width):
            raise ValueError(
                f"image_size: expected that of the masks, {self.mask.shape[1:]}, "
                f"got {(height, width)}"
            )
        corners, scores = self.xyxyxyxy, [self.confidence] if confidence else []
        if self.mask is None or corners is not None:
            points = None if corners is not None else self.keypoints
            table = _in_yolo(width, height, corners is not None, _count(points), confidence)
            values = [self.class_id, self.xyxy if corners is None else corners, points, *scores]
            return self._write(table, values, are_finite=True)
        # Programs that write no masks do not load it.
        from rknn_runtime.vision.outlines import outline

        lines = []
        for i, mask in enumerate(self.mask):
            points = outline(mask).astype(np.float32)
            if points.size:
                table = _yolo_lines([Cell(" ", points.shape, None, (width, height))], confidence)
                one = [each[i : i + 1] for each in (self.class_id, *scores)]
                lines.append(str(table.text(1, [one[0], points, *one[1:]])))
        return "".join(lines)

    def to_coco(
        self, image_id: int | str, categories: Categories | None = None
    ) -> list[dict[str, Any]]:
        """Return the objects as COCO results, which pycocotools' ``COCO.loadRes`` reads.

        Args:
            image_id: The image's id in the annotations.
            categories: ``category_id`` of each class, or ``"coco"`` for COCO's 80 classes, which
                are numbered 1 to 90. None: the class numbers.

        Returns:
            ``image_id``, ``category_id``, ``category_name`` (if known), ``bbox`` (left, top,
            width, height) and ``score`` per object; ``segmentation`` for a mask (run lengths as
            text) or an oriented box (a polygon); ``keypoints`` with their confidence in the third
            place. Join the lists of all images and pass them to ``json.dumps`` to get the file.
        """
        if not isinstance(image_id, (int, str)) or isinstance(image_id, bool):
            raise TypeError(f"image_id: expected an int or a str, got {type(image_id).__name__}")
        numbers: list[int] = self.class_id.tolist()
        boxes, are_finite = self._rows(is_coco=True)
        if not are_finite:
            self._check_finite("xyxy", "confidence")
        self._check_finite("keypoints", "xyxyxyxy")
        if categories is not None:
            known = {class_id: _category(categories, class_id) for class_id in set(numbers)}
            numbers = [known[class_id] for class_id in numbers]
        if self.labels is None:
            rows: list[dict[str, Any]] = [
                {"image_id": image_id, "category_id": number, "bbox": box, "score": box.pop()}
                for number, box in zip(numbers, boxes)
            ]
        else:
            rows = [
                {"image_id": image_id, "category_id": number, "category_name": name, "bbox": box,
                 "score": box.pop()}
                for number, name, box in zip(numbers, self.names, boxes)
            ]  # fmt: skip
        if self.mask is not None:
            for row, mask in zip(rows, self.mask):
                row["segmentation"] = _compressed(mask)
        elif self.xyxyxyxy is not None:
            for row, corners in zip(rows, self.xyxyxyxy.reshape(len(self), 8).tolist()):
                row["segmentation"] = [corners]
        if self.keypoints is not None:
            width = math.prod(self.keypoints.shape[1:])
            for row, points in zip(rows, self.keypoints.reshape(len(self), width).tolist()):
                row["keypoints"] = points
        return rows

    def to_csv(self, labels: Labels | None = None, *, header: bool = True) -> str:
        """Return a table with one line per object; numbers read back to the same float32.

        The columns are ``class_id``, ``label`` (with `labels`), ``confidence``, ``left``, ``top``,
        ``right``, ``bottom`` in pixels; ``x1`` to ``y4`` of oriented boxes; ``keypoint_0_x``,
        ``keypoint_0_y``, ``keypoint_0_confidence`` and so on; ``mask_pixels``, the number of
        pixels in a mask (its shape is in `to_coco`); ``tracker_id`` of tracked objects.

        Args:
            labels: Names of the classes.
            header: Whether the first line names the columns.
        """
        names, ids, corners = self._names_by(labels), self.class_id, self.xyxyxyxy
        points = self.keypoints if _count(self.keypoints) else None
        pixels = self.mask
        if pixels is not None:
            pixels = np.array(list(map(np.count_nonzero, pixels)), np.int32)
        has = (corners is not None, pixels is not None, self.tracker_id is not None)
        first, table = _in_csv(names, _count(points), *has)
        named = None if names is None else ids
        values = (ids, named, self.confidence, self.xyxy, corners, points, pixels, self.tracker_id)
        return (first if header else "") + self._write(table, values)

    def to_supervision(self, labels: Labels | None = None) -> Any:
        """Return ``supervision.Detections`` with copies of the arrays.

        Args:
            labels: Names of the classes, which become ``data["class_name"]``.

        Returns:
            A ``supervision.Detections``. Corners of oriented boxes are in ``data["xyxyxyxy"]``,
            keypoints in ``data["keypoints"]``, ``(n, k, 3)``.

        Raises:
            ImportError: supervision is not installed.
        """
        try:
            import supervision
        except ImportError as error:
            raise ImportError(
                "to_supervision needs supervision: pip install supervision"
            ) from error
        data: dict[str, Any] = {}
        names = self._labels(labels)
        if names is not None:
            data["class_name"] = np.array(names, str)
        if self.xyxyxyxy is not None:
            data["xyxyxyxy"] = self.xyxyxyxy.copy()
        if self.keypoints is not None:
            data["keypoints"] = self.keypoints.copy()
        return supervision.Detections(
            xyxy=self.xyxy.copy(),
            mask=None if self.mask is None else self.mask.copy(),
            confidence=self.confidence.copy(),
            class_id=self.class_id.astype(int),
            tracker_id=None if self.tracker_id is None else self.tracker_id.astype(int),
            data=data,
        )


def size_of_image(image_size: Any) -> tuple[int, int]:
    """Return the height and width of an image, checked."""
    if not isinstance(image_size, (tuple, list)) or len(image_size) != 2:
        raise TypeError(f"image_size: expected a pair of integers, got {image_size!r}")
    height, width = (as_int(side, "image_size", 1, _MAX_SIDE) for side in image_size)
    return height, width


def _checked(
    value: Any, name: str, dtype: np.dtype[Any], expected: tuple[int | None, ...]
) -> NDArray[Any]:
    """Return a read-only view of an array with the dtype and shape of a field."""
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name}: expected an array of {dtype}, got {type(value).__name__}")
    if name == "class_id" and value.dtype.kind in "iu" and value.dtype != dtype:
        fitting = value.astype(dtype)
        if not np.array_equal(fitting, value):
            raise ValueError(f"class_id: expected numbers that fit int32, got {value.max()}")
        value = fitting
    if value.dtype != dtype:
        raise TypeError(f"{name}: expected an array of {dtype}, got {value.dtype}")
    view: NDArray[Any] = value.view(np.ndarray)
    if view.ndim != len(expected) or any(
        want not in (None, have) for want, have in zip(expected, view.shape)
    ):
        shape = ", ".join("any" if want is None else str(want) for want in expected)
        raise ValueError(f"{name}: expected shape ({shape}), got {view.shape}")
    view.setflags(write=False)
    return view


def _cut(pixels: NDArray[np.uint8], box: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Copy the part of a box in an image, of at least one pixel."""
    if not np.isfinite(box).all():
        raise ValueError("xyxy: expected finite numbers, got a NaN or an infinity")
    height, width = pixels.shape[:2]
    left, top, right, bottom = box.tolist()
    x, y = (int(min(max(low, 0), side - 1)) for low, side in ((left, width), (top, height)))
    rows, columns = slice(y, max(math.ceil(bottom), y + 1)), slice(x, max(math.ceil(right), x + 1))
    return np.array(pixels[rows, columns], np.uint8)


def _equal(one: Any, other: Any) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name, _, _ in _FIELDS]
    return all(
        a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs
    )


def _extras(found: Detection | Detections) -> list[str]:
    extras = []
    if found.mask is not None:
        height, width = found.mask.shape[-2:]
        extras.append(f"mask {width}x{height}")
    if found.keypoints is not None:
        extras.append(f"{found.keypoints.shape[-2]} keypoints")
    if found.xyxyxyxy is not None:
        extras.append("oriented")
    if isinstance(found, Detections) and found.tracker_id is not None:
        extras.append("tracked")
    elif isinstance(found, Detection) and found.tracker_id is not None and found.tracker_id >= 0:
        extras.append(f"track {found.tracker_id}")
    return extras


def _objects(n: int) -> str:
    return f"{n} object" if n == 1 else f"{n} objects"


def _selection(index: Any, n: int) -> NDArray[Any]:
    """Return a boolean mask, or an array of indices of `n` objects."""
    try:
        array = np.empty((0, 0)) if isinstance(index, tuple) else np.asarray(index)
    except ValueError:  # lists of different lengths
        array = np.empty((0, 0))
    if array.ndim == 1 and array.size == 0 and array.dtype != np.bool_:
        return array.astype(np.intp)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        raise TypeError(
            "index: expected an integer, a slice, or a one-dimensional array or list of "
            f"booleans or integers, got {index!r}"
        )
    if array.dtype != np.bool_:
        # NumPy would take 2**64 - 1 for the last one.
        for each in (int(array.min()), int(array.max())):
            if not -n <= each < n:
                raise IndexError(f"index: expected some of {_objects(n)}, got {each}")
    return array


def _count(keypoints: NDArray[Any] | None) -> int | None:
    return None if keypoints is None else keypoints.shape[1]


def _numbered(labels: tuple[Any, ...]) -> list[tuple[int, str]]:
    """Return the numbers and names of classes; no object has any other number."""
    pairs = [each if isinstance(each, tuple) else (i, each) for i, each in enumerate(labels)]
    return [
        (int(i), name) for i, name in pairs if isinstance(i, _INTEGERS) and -(2**31) <= i < 2**31
    ]


@lru_cache(16)
def _in_json(
    labels: tuple[Any, ...] | None,
    points: int | None,
    corners: bool,
    tracks: bool,
    mask: Cell | None,
) -> Table:
    cells = [Cell('{"class_id": ')]
    if labels is not None:
        from json.encoder import encode_basestring

        names = _numbered(labels)
        texts = {i: f', "label": {encode_basestring(name)}' for i, name in names}
        cells.append(Cell("", None, Texts(texts)))
    cells += [Cell(', "confidence": ', (1, 1)), Cell(', "xyxy": [', (1, 4))]
    end = "]"
    if tracks:
        cells.append(Cell(f'{end}, "tracker_id": '))
        end = ""
    for field, rows, columns in (("keypoints", points, 3), ("xyxyxyxy", 4 if corners else None, 2)):
        if rows is not None:
            cells.append(Cell(f'{end}, "{field}": [{"[" if rows else ""}', (rows, columns)))
            end = "]]" if rows else "]"
    if mask is not None:
        cells.append(mask._replace(before=f"{end}{mask.before}"))
        end = "}"
    return Table(cells, f"{end}}}, ", ", ", "], [")


@lru_cache(16)
def _in_csv(
    labels: tuple[Any, ...] | None, points: int | None, corners: bool, pixels: bool, tracks: bool
) -> tuple[str, Table]:
    titles, cells = ["class_id"], [Cell("")]
    if labels is not None:
        titles.append("label")
        texts = Texts({i: _quoted(name) for i, name in _numbered(labels)}, b"class ")
        cells.append(Cell(",", None, texts))
    titles += ["confidence", "left", "top", "right", "bottom"]
    cells += [Cell(",", (1, 1)), Cell(",", (1, 4))]
    if corners:
        titles += [f"{axis}{corner}" for corner in range(1, 5) for axis in "xy"]
        cells.append(Cell(",", (4, 2)))
    if points is not None:
        parts = ("x", "y", "confidence")
        titles += [f"keypoint_{k}_{part}" for k in range(points) for part in parts]
        cells.append(Cell(",", (points, 3)))
    for title, is_there in (("mask_pixels", pixels), ("tracker_id", tracks)):
        if is_there:
            titles.append(title)
            cells.append(Cell(","))
    return ",".join(titles) + "\n", Table(cells, "\n", ",", ",")


@lru_cache(16)
def _in_yolo(width: int, height: int, corners: bool, points: int | None, scores: bool) -> Table:
    sides = (width, height)
    if corners:
        return _yolo_lines([Cell(" ", (4, 2), None, sides)], scores)
    cells = [Cell(" ", (1, 4), None, sides, is_centre=True)]
    if points is not None:
        cells.append(Cell(" " if points else "", (points, 3), None, (*sides, 1)))
    return _yolo_lines(cells, scores)


def _yolo_lines(cells: list[Cell], scores: bool) -> Table:
    return Table([Cell(""), *cells, *([Cell(" ", (1, 1))] if scores else [])], "\n", " ", " ")


def _quoted(name: str) -> str:
    """Return a cell of a CSV file, in quotes if it needs them."""
    if any(each in name for each in ',"\r\n'):
        return '"' + name.replace('"', '""') + '"'
    return name


def _category(categories: Categories | None, class_id: int) -> int:
    if categories is None:
        return class_id
    if isinstance(categories, str):
        if categories != "coco":
            raise TypeError(f'categories: expected numbers or "coco", got {categories!r}')
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


def _runs(mask: NDArray[np.bool_]) -> tuple[Any, int]:
    """Return alternating runs of 0 and 1 down the columns, starting with 0, and their number."""
    data = np.ascontiguousarray(mask).view(np.uint8)
    height, width = data.shape
    runs, places = _uncleared("uint32_t[]", data.size + 1), _uncleared("uint32_t[]", width + 1)
    return runs, lib.rkr_mask_runs(ffi.from_buffer(data), height, width, places, runs)


def _run_lengths(mask: NDArray[np.bool_]) -> list[int]:
    lengths: list[int] = ffi.unpack(*_runs(mask))
    return lengths


def _compressed(mask: NDArray[np.bool_]) -> dict[str, Any]:
    runs, count = _runs(mask)
    text = _uncleared("char[]", 7 * count)
    size = lib.rkr_compress_runs(runs, count, text)
    return {"size": list(mask.shape), "counts": ffi.unpack(text, size).decode("ascii")}
