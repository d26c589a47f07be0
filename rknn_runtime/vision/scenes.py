"""What networks say of each pixel: its class, or a value such as a depth."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rknn_runtime._arrays import NDArray, as_int
from rknn_runtime._files import printable
from rknn_runtime.vision.detections import _checked, _quoted, _run_lengths
from rknn_runtime.vision.images import as_pixels, import_pillow
from rknn_runtime.vision.labels import Labels, names_of
from rknn_runtime.vision.nms import as_threshold
from rknn_runtime.vision.outlines import outlines

#: Names of the class that is no thing.
_BACKGROUND = ("background", "_background_", "__background__", "bg")
#: Red, green and blue from the lowest value to the highest.
_COLORS_OF_MAP = ((0, 0, 130), (0, 120, 255), (0, 230, 180), (255, 230, 0), (200, 0, 0))


@dataclass(frozen=True, eq=False, repr=False)
class Segmentation:
    """The class of each pixel of one image.

    `class_id`, `areas` and `names` are parallel and tell the classes that are in the image, the
    largest first. The class map is a read-only view of the array that was passed in.
    """

    #: ``(H, W) uint8``, in the size of the image.
    class_map: NDArray[np.uint8]
    #: Names of all classes, as `Segmenter` knows them; or None.
    labels: Labels | None = None
    #: ``(H, W) float32``: the probability of each pixel's class; None unless it was asked for.
    confidence: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Check the maps."""
        checked = _checked(self.class_map, "class_map", np.dtype(np.uint8), (None, None))
        self.__dict__["class_map"] = checked
        if self.confidence is not None:
            size = checked.shape
            known = _checked(self.confidence, "confidence", np.dtype(np.float32), size)
            self.__dict__["confidence"] = known

    def __eq__(self, other: object) -> bool:
        """Compare maps and names."""
        if not isinstance(other, Segmentation):
            return NotImplemented
        is_same = np.array_equal(self.class_map, other.class_map) and self.labels == other.labels
        one, another = self.confidence, other.confidence
        if one is None or another is None:
            return is_same and one is another
        return is_same and np.array_equal(one, another)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _counted(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        counts = np.bincount(self.class_map.ravel(), minlength=1)
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        return order.astype(np.int32), counts[order].astype(np.int64)

    @property
    def class_id(self) -> NDArray[np.int32]:
        """The classes in the image, ``(k,) int32``, the largest first."""
        return self._counted[0]

    @property
    def areas(self) -> NDArray[np.int64]:
        """Their pixels, ``(k,) int64``."""
        return self._counted[1]

    @property
    def names(self) -> list[str]:
        """Their names, from `labels`; ``"class 3"`` if one is not known."""
        return self._names(self.labels)

    def _names(self, labels: Labels | None) -> list[str]:
        return [self._name(class_id, labels) for class_id in self.class_id.tolist()]

    @staticmethod
    def _name(class_id: int, labels: Labels | None) -> str:
        is_mapping = isinstance(labels, Mapping)
        if labels is None or (
            class_id not in labels if is_mapping else not 0 <= class_id < len(labels)
        ):
            return f"class {class_id}"
        return names_of(labels, [class_id])[0]

    def mask(self, class_id: int | str) -> NDArray[np.bool_]:
        """Return where a class is, ``(H, W) bool``, as a new array.

        Args:
            class_id: Its number, or its name in `labels`.
        """
        if isinstance(class_id, str):
            labels = self.labels if self.labels is not None else ()
            pairs = labels.items() if isinstance(labels, Mapping) else enumerate(labels)
            found = [number for number, name in pairs if name == class_id]
            if not found:
                raise ValueError(f"class_id: expected a name in labels, got {class_id!r}")
            class_id = found[0]
        mask: NDArray[np.bool_] = self.class_map == as_int(class_id, "class_id", 0, 255)
        return mask

    def polygons(self, class_id: int | str) -> list[NDArray[np.float64]]:
        """Return the outlines of the parts of a class, the largest first, without holes.

        Returns:
            ``(n, 2) float64`` each: x and y of the corners in pixels, clockwise.
        """
        return outlines(self.mask(class_id))

    def __repr__(self) -> str:
        height, width = self.class_map.shape
        return f"<Segmentation of {width}x{height} pixels, {len(self.class_id)} classes>"

    def __str__(self) -> str:
        """Return one line per class, with its part of the image."""
        return "\n".join(["class              area", *self._lines(self.labels)])

    def _lines(self, labels: Labels | None) -> list[str]:
        pairs = zip(self._names(labels), self.areas.tolist())
        return [printable(f"{name:<16} {area / self.class_map.size:6.1%}") for name, area in pairs]

    def draw(
        self,
        image: Any,
        labels: Labels | None = None,
        *,
        color: str = "RGB",
        palette: Sequence[tuple[int, int, int]] | None = None,
        opacity: float = 0.6,
        skip: Collection[int] | None = None,
        out: NDArray[np.uint8] | None = None,
    ) -> Any:
        """Lay the colour of each class over a copy of an image, or over the image itself.

        Args:
            image: As for `Detections.draw`, in the size of the map.
            labels: Names of the classes, which only tell the background; None: `labels`.
            color: Channel order of an array.
            palette: Red, green and blue of each class; None: as `Detections.draw` has them.
            opacity: 0: the image; 1: the colours alone.
            skip: Classes that are not drawn. None: class 0 if it is named ``"background"``.
            out: As for `Detections.draw`.

        Returns:
            A Pillow image if `image` is one or a file, else ``(H, W, 3) uint8``.

        Raises:
            ImportError: `image` is a file and Pillow is not installed.
        """
        from rknn_runtime.vision.drawing import _canvas, _drawn, class_color

        pixels, order = as_pixels(image, color)
        if pixels.shape[:2] != self.class_map.shape:
            raise ValueError(
                f"image: expected {self.class_map.shape}, the size of the map, got "
                f"{pixels.shape[:2]}"
            )
        opacity = as_threshold(opacity, "opacity", 1)
        if skip is None:
            first = self._name(0, self.labels if labels is None else labels).lower()
            skip = (0,) if first in _BACKGROUND else ()
        canvas = _canvas(image, pixels, out)
        alpha = np.uint8(round(opacity * 255))
        for class_id in self.class_id.tolist():
            if class_id in skip:
                continue
            rgb = class_color(class_id) if palette is None else palette[class_id % len(palette)]
            stencil = np.ascontiguousarray(self.mask(class_id).view(np.uint8) * alpha)
            canvas.blend(stencil, 0, 0, bytes(rgb if order == "RGB" else rgb[::-1]))
        return _drawn(canvas, image, out)

    def to_dict(self, labels: Labels | None = None) -> dict[str, Any]:
        """Return the classes as plain Python values, ready for JSON.

        Args:
            labels: Names of the classes, for ``"label"``; None: those that are known.

        Returns:
            ``{"classes": [...]}``, each with ``class_id``, ``label`` (if it is known), ``area`` in
            pixels and ``mask``, in COCO's uncompressed run-length form.
        """
        labels = self.labels if labels is None else labels
        size, records = list(self.class_map.shape), []
        for class_id, name, area in zip(
            self.class_id.tolist(), self._names(labels), self.areas.tolist()
        ):
            record: dict[str, Any] = {"class_id": class_id}
            if labels is not None:
                record["label"] = name
            record["area"] = area
            record["mask"] = {"size": size, "counts": _run_lengths(self.mask(class_id))}
            records.append(record)
        return {"classes": records}

    def to_csv(self, labels: Labels | None = None, *, header: bool = True) -> str:
        """Return a table with one line per class: ``class_id``, ``label``, ``area`` in pixels."""
        names = self._names(self.labels if labels is None else labels)
        lines = ["class_id,label,area"] * header
        lines += [
            f"{class_id},{_quoted(name)},{area}"
            for class_id, name, area in zip(self.class_id.tolist(), names, self.areas.tolist())
        ]
        return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, eq=False, repr=False)
class ValueMap:
    """A value for each pixel of one image, such as its depth."""

    #: ``(H, W) float32``, in the size of the image and in the network's unit.
    values: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Check the values."""
        checked = _checked(self.values, "values", np.dtype(np.float32), (None, None))
        self.__dict__["values"] = checked

    def __eq__(self, other: object) -> bool:
        """Compare the values."""
        if not isinstance(other, ValueMap):
            return NotImplemented
        return np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        height, width = self.values.shape
        lowest, highest = self.range
        return f"<ValueMap of {width}x{height} pixels, {lowest:g} to {highest:g}>"

    @cached_property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest finite value; zeros if there is none."""
        finite = self.values[np.isfinite(self.values)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)

    def draw(self, image: Any = None, labels: object = None, *, color: str = "RGB") -> Any:
        """Draw the values from blue, the lowest, to red, the highest.

        Args:
            image: Decides the type of the result alone: a Pillow image for a Pillow image or a
                file, else an array.
            labels: Not used.
            color: Channel order of an array.

        Returns:
            ``(H, W, 3) uint8`` or a Pillow image. What is not finite is black.
        """
        lowest, highest = self.range
        with np.errstate(invalid="ignore"):
            shares = (self.values - np.float32(lowest)) / np.float32(max(highest - lowest, 1e-30))
        places = np.linspace(0, 1, len(_COLORS_OF_MAP))
        table = np.stack(
            [np.interp(np.linspace(0, 1, 256), places, c) for c in zip(*_COLORS_OF_MAP)], axis=1
        ).astype(np.uint8)
        finite = np.isfinite(shares)
        pixels = table[(np.where(finite, shares, 0) * 255).round().astype(np.uint8)]
        pixels[~finite] = 0
        if image is None or isinstance(image, np.ndarray):
            return pixels if color == "RGB" else np.ascontiguousarray(pixels[..., ::-1])
        return import_pillow().Image.fromarray(pixels)

    def _lines(self, labels: object) -> list[str]:
        lowest, highest = self.range
        return [f"{lowest:g} to {highest:g}"]

    def to_csv(self, labels: object = None, *, header: bool = True) -> str:
        """Return a table with one line, the range: ``lowest`` and ``highest``."""
        lowest, highest = self.range
        return "lowest,highest\n" * header + f"{lowest},{highest}\n"

    def to_dict(self, labels: object = None) -> dict[str, Any]:
        """Return size and range, ready for JSON; for the values use NumPy."""
        (height, width), (lowest, highest) = self.values.shape, self.range
        return {"map": {"height": height, "width": width, "lowest": lowest, "highest": highest}}
