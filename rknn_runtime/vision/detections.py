"""What a detector found in one image."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime.vision.detection import (
    FIELDS,
    NAMES,
    Compared,
    Detection,
    checked_field,
    extras,
)
from rknn_runtime.vision.labels import Labels, names_of
from rknn_runtime.vision.writers import Writers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Detections"]

#: The first fields, which are never None.
_REQUIRED = 3
#: Objects that are printed.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class Detections(Compared, Writers):
    """Objects found in one image, as parallel arrays.

    Field names are those of roboflow/supervision, so
    ``sv.Detections(xyxy=d.xyxy, confidence=d.confidence, class_id=d.class_id)`` works as is.
    The arrays are kept without a copy, as read-only views: who passed an array in and writes
    to it afterwards changes the detections.

    ``len(d)`` is the number of objects; iterating yields `Detection`. ``d[i]`` is one
    `Detection`; ``d[2:5]``, ``d[d.confidence > 0.5]`` and ``d[[3, 1]]`` are `Detections`
    (a slice views, a boolean mask or an array of indices copies). ``==`` compares all fields.
    """

    __slots__ = NAMES

    #: ``(n, 4) float32``: left, top, right, bottom in pixels.
    xyxy: NDArray[np.float32]
    #: ``(n,) float32``, 0..1.
    confidence: NDArray[np.float32]
    #: ``(n,) int32``.
    class_id: NDArray[np.int32]
    #: ``(n, height, width) bool`` or None.
    mask: NDArray[np.bool_] | None
    #: ``(n, k, 3) float32``: x and y in pixels, confidence; or None.
    keypoints: NDArray[np.float32] | None
    #: ``(n, 4, 2) float32``, pixels: the corners of oriented boxes; or None.
    xyxyxyxy: NDArray[np.float32] | None

    def __init__(
        self,
        xyxy: NDArray[np.float32],
        confidence: NDArray[np.float32],
        class_id: NDArray[np.int32],
        mask: NDArray[np.bool_] | None = None,
        keypoints: NDArray[np.float32] | None = None,
        xyxyxyxy: NDArray[np.float32] | None = None,
    ) -> None:
        """Take the arrays; each has the dtype and shape that its field states.

        Raises:
            TypeError: Something is not an ndarray or has another dtype.
            ValueError: An array has another shape, or another number of objects than `xyxy`.
        """
        set_field = object.__setattr__
        n = None
        for i, value in enumerate((xyxy, confidence, class_id, mask, keypoints, xyxyxyxy)):
            if value is not None or i < _REQUIRED:
                name, dtype, shape = FIELDS[i]
                value = checked_field(value, name, dtype, (n, *shape))
            set_field(self, NAMES[i], value)
            if i == 0:
                n = len(self.xyxy)

    @classmethod
    def _of(
        cls,
        columns: Any,
        n: int,
        mask: NDArray[np.bool_] | None = None,
        keypoints: NDArray[np.float32] | None = None,
        xyxyxyxy: NDArray[np.float32] | None = None,
    ) -> Detections:
        """Take what a native decoder found, and new arrays known to be right.

        Once per frame, so without a check and with few objects.

        Args:
            columns: The bytes of ``rkr_detections.columns``, which are copied.
            n: Objects in them.
            mask: As the field; it becomes read-only, and so do the others.
            keypoints: Likewise.
            xyxyxyxy: Likewise.
        """
        data = columns[: _COLUMN_BYTES * n]  # as `bytes`: arrays over them are read-only
        found: Any = _new(_Thawed)
        found.xyxy = _ndarray((n, 4), _FLOAT32, data)
        found.confidence = _ndarray(n, _FLOAT32, data, 16 * n)
        found.class_id = _ndarray(n, _INT32, data, 20 * n)
        found.mask, found.keypoints, found.xyxyxyxy = mask, keypoints, xyxyxyxy
        for array in (mask, keypoints, xyxyxyxy):
            if array is not None:
                array.setflags(write=False)
        found.__class__ = cls
        return found  # type: ignore[no-any-return]

    @classmethod
    def empty(cls) -> Detections:
        """Return no detections: arrays of length 0 with the right shapes and dtypes."""
        return cls(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.xyxy)

    def __repr__(self) -> str:
        """Say how many objects there are, and what is known of them besides boxes."""
        return f"<Detections of {', '.join([_objects(len(self)), *extras(self)])}>"

    def __str__(self) -> str:
        """Show the objects as a table, the first ones where there are many."""
        lines = [", ".join([_objects(len(self)), *extras(self)])]
        if len(self) > 0:
            lines.append("class confidence      left       top     right    bottom")
        for one in self[:_SHOWN]:
            box = "".join(f"{v:10.1f}" for v in one.xyxy.tolist())
            lines.append(f"{one.class_id:5} {one.confidence:10.1%}{box}")
        if len(self) > _SHOWN:
            lines.append(f"... and {len(self) - _SHOWN} more")
        return "\n".join(lines)

    def __iter__(self) -> Iterator[Detection]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Detection: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[Any]) -> Detections: ...

    def __getitem__(self, index: Any) -> Detection | Detections:
        """Return one object (integer) or a selection (slice, boolean mask, indices).

        Raises:
            IndexError: An index is out of range, or a boolean mask has another length.
            TypeError: `index` is none of these.
        """
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            index = int(index)
            if not -len(self) <= index < len(self):
                raise IndexError(f"index: expected one of {_objects(len(self))}, got {index}")
            one = Detection.__new__(Detection)  # nothing to be checked again
            for set_field, value in zip(_DETECTION_SETTERS, self._values()):
                set_field(one, None if value is None else value[index])
            _DETECTION_SETTERS[1](one, float(one.confidence))
            _DETECTION_SETTERS[2](one, int(one.class_id))
            return one
        rows = index if isinstance(index, slice) else _selection(index, len(self))
        chosen: list[Any] = [None if value is None else value[rows] for value in self._values()]
        return Detections(*chosen)

    def to_dict(self, labels: Labels | None = None) -> dict[str, list[dict[str, Any]]]:
        """Return ``{"detections": [...]}`` with one `Detection.to_dict` per object.

        Raises:
            IndexError: `labels` has no name for a class.
            TypeError: `labels` does not hold names.
        """
        return {"detections": [detection.to_dict(labels) for detection in self]}

    def to_json(self, labels: Labels | None = None, *, indent: int | None = None) -> str:
        """Return `to_dict` as a JSON text; numbers read back to the same float32.

        Raises:
            IndexError: `labels` has no name for a class.
            TypeError: `labels` does not hold names, or `indent` is not an integer.
            ValueError: A number is infinite or not a number, which JSON cannot say, or
                `indent` is not 0 to 99.
        """
        if indent is not None:
            indent = as_int(indent, "indent", 0, 99)
        import json

        return json.dumps(self.to_dict(labels), indent=indent, allow_nan=False, ensure_ascii=False)

    def draw(
        self,
        image: Any,
        labels: Labels | None = None,
        *,
        color: str = "RGB",
        skeleton: Sequence[tuple[int, int]] | None = None,
        keypoint_threshold: float = 0.5,
        font: str | os.PathLike[str] | None = None,
        out: NDArray[np.uint8] | None = None,
    ) -> Any:
        """Draw the objects on a copy of an image, or on the image itself.

        Boxes (or oriented boxes), masks, keypoints, and a caption each: the label (the class
        number without `labels`) and the confidence in percent. A class has one colour; the
        lines and letters grow with the image. What lies outside of the image is not drawn, of
        a mask neither what lies outside of its box. Without Pillow captions are written in
        letters of our own, which are ASCII: any other character is a question mark.

        Args:
            image: The image that the coordinates belong to: an array ``(H, W)``, ``(H, W, 1)``,
                ``(H, W, 3)`` or ``(H, W, 4)`` of uint8, a Pillow image, or the path of a file
                (these two need Pillow: ``pip install Pillow``).
            labels: Names of the classes.
            color: Order of an array's channels, ``"RGB"`` or ``"BGR"``; that of the result too.
            skeleton: Pairs of keypoints to join, counted from 0. None: COCO's where there are
                17, else no lines.
            keypoint_threshold: Keypoints with less confidence are left out.
            font: A TrueType file for the captions, where labels are not Latin; needs Pillow.
            out: ``(H, W, 3) uint8`` to draw on, for arrays: ``out=image`` draws on the image
                itself, any other array gets a copy of it first.

        Returns:
            For an array `out`, or without it a new array ``(H, W, 3) uint8``; for the others a
            Pillow image in mode RGB.

        Raises:
            ImportError: `image` or `font` needs Pillow.
            IndexError: `labels` has no name for a class.
            OSError: A file cannot be read, or is no image or no font.
            TypeError: `image` is nothing that can be an image, or another argument has another
                type than stated.
            ValueError: `image` or `out` has a wrong shape, `out` cannot be drawn on, a mask has
                another size than the image, a coordinate is not finite, or `skeleton` names a
                keypoint that is not there. Nothing was drawn, as with all exceptions.
        """
        # Programs that draw nothing do not load it.
        from rknn_runtime.vision.drawing import draw_objects

        ids = self.class_id.tolist()
        names = list(map(str, ids)) if labels is None else names_of(labels, ids)
        captions = [(name, f"{c:.0%}") for name, c in zip(names, self.confidence.tolist())]
        return draw_objects(image, self, captions, color, skeleton, keypoint_threshold, font, out)


class _Thawed(Compared):
    """What becomes `Detections` once its fields are set.

    Assignments to a class that takes them cost a third of calls that get around a frozen one.
    """

    __slots__ = NAMES


# Looked up once: these are on the path of every frame.
_new, _ndarray = object.__new__, np.ndarray
_FLOAT32, _INT32 = np.dtype(np.float32), np.dtype(np.int32)
#: Of an object in `rkr_detections.columns`.
_COLUMN_BYTES = 24
_DETECTION_SETTERS = tuple(getattr(Detection, name).__set__ for name in NAMES)


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


def _objects(n: int) -> str:
    return f"{n} object" if n == 1 else f"{n} objects"
