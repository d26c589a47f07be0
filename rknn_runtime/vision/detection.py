"""One object that a detector found, and what it has in common with all of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import as_float, as_int, plain
from rknn_runtime.vision.labels import Labels, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FIELDS", "NAMES", "Compared", "Detection", "checked_field", "extras"]

#: Field, dtype, and the shape behind the first dimension; None: any length.
FIELDS: tuple[tuple[str, np.dtype[Any], tuple[int | None, ...]], ...] = (
    ("xyxy", np.dtype(np.float32), (4,)),
    ("confidence", np.dtype(np.float32), ()),
    ("class_id", np.dtype(np.int32), ()),
    ("mask", np.dtype(np.bool_), (None, None)),
    ("keypoints", np.dtype(np.float32), (None, 3)),
    ("xyxyxyxy", np.dtype(np.float32), (4, 2)),
)
NAMES = tuple(name for name, _, _ in FIELDS)


class Compared:
    """Comparison by the fields; arrays compare as wholes."""

    __slots__ = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in NAMES)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._values(), other._values())
        return all(
            a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()


@dataclass(frozen=True, eq=False)
class Detection(Compared):
    """One object: what iterating over `Detections` yields.

    The arrays are views into the `Detections` that it came from.
    """

    __slots__ = NAMES

    #: ``(4,) float32``: left, top, right, bottom in pixels.
    xyxy: NDArray[np.float32]
    #: 0..1.
    confidence: float
    class_id: int
    #: ``(height, width) bool`` or None.
    mask: NDArray[np.bool_] | None
    #: ``(k, 3) float32``: x and y in pixels, confidence; or None.
    keypoints: NDArray[np.float32] | None
    #: ``(4, 2) float32``, pixels: the corners of an oriented box; or None.
    xyxyxyxy: NDArray[np.float32] | None

    def __post_init__(self) -> None:
        """Take the arrays as read-only views, and refuse what no decoder makes.

        Raises:
            TypeError: A field has another type or dtype than stated.
            ValueError: An array has another shape, or `class_id` is beyond 32 bits.
        """
        for name, dtype, shape in FIELDS:
            value = getattr(self, name)
            if name == "confidence":
                value = as_float(value, name)
            elif name == "class_id":
                value = as_int(value, name, -(2**31), 2**31 - 1)
            elif value is not None or name == "xyxy":
                value = checked_field(value, name, dtype, shape)
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Show the box as it is, and of what else there is the size."""
        box = ", ".join(map(str, _shortest(self.xyxy)))
        more = "".join(f", {each}" for each in extras(self))
        return f"<Detection of class {self.class_id}, {self.confidence:.1%}, xyxy [{box}]{more}>"

    def to_dict(self, labels: Labels | None = None) -> dict[str, Any]:
        """Return the object as plain Python values, ready for JSON.

        Args:
            labels: Names of the classes; adds ``"label"``.

        Returns:
            ``class_id``, ``label`` (with `labels`), ``confidence``, ``xyxy``, and those of
            ``keypoints``, ``xyxyxyxy`` and ``mask`` that are there. A mask is in COCO's
            uncompressed run-length form: ``{"size": [height, width], "counts": [...]}``, runs
            of 0 and 1 in turn, beginning with 0, counted down the columns.

        Raises:
            IndexError: `labels` has no name for the class.
            TypeError: `labels` does not hold names.
        """
        record: dict[str, Any] = {"class_id": self.class_id}
        if labels is not None:
            (record["label"],) = names_of(labels, [self.class_id])
        record["confidence"] = _shortest(np.float32(self.confidence))
        record["xyxy"] = _shortest(self.xyxy)
        if self.keypoints is not None:
            record["keypoints"] = _shortest(self.keypoints)
        if self.xyxyxyxy is not None:
            record["xyxyxyxy"] = _shortest(self.xyxyxyxy)
        if self.mask is not None:
            record["mask"] = _run_lengths(self.mask)
        return record


def checked_field(
    value: Any, name: str, dtype: np.dtype[Any], expected: tuple[int | None, ...]
) -> NDArray[Any]:
    """Return a read-only view of an array that has the dtype and shape of a field."""
    view = plain(value, name, f"an array of {dtype}").view()
    if view.dtype != dtype:
        raise TypeError(f"{name}: expected an array of {dtype}, got {view.dtype}")
    if view.shape != expected and (
        view.ndim != len(expected)
        or any(want not in (None, have) for want, have in zip(expected, view.shape))
    ):
        shape = ", ".join("any" if want is None else str(want) for want in expected)
        raise ValueError(f"{name}: expected shape ({shape}), got {view.shape}")
    view.setflags(write=False)
    return view


def extras(found: Any) -> list[str]:
    """Say in words what a `Detection` or `Detections` has besides boxes."""
    extras = []
    if found.mask is not None:
        height, width = found.mask.shape[-2:]
        extras.append(f"mask {width}x{height}")
    if found.keypoints is not None:
        extras.append(f"{found.keypoints.shape[-2]} keypoints")
    if found.xyxyxyxy is not None:
        extras.append("oriented")
    return extras


def _shortest(values: Any) -> Any:
    """Return floats with the fewest digits that give the same float32 again."""
    return np.asarray(values).astype(str).astype(np.float64).tolist()


def _run_lengths(mask: NDArray[np.bool_]) -> dict[str, list[int]]:
    flat = np.concatenate([[False], mask.ravel(order="F")])
    ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]), mask.size)
    return {"size": list(mask.shape), "counts": np.diff(ends, prepend=0).tolist()}
