"""Mean average precision by the definition of COCO's detection task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.conversion.accuracy.boxes import overlaps
from rknn_runtime.vision.detections import Detections

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AveragePrecision", "average_precision"]

#: IoU from which a detection counts as right: 0.50, 0.55, ... 0.95.
THRESHOLDS = np.linspace(0.5, 0.95, 10)
#: Recalls at which the precision is read: 0.00, 0.01, ... 1.00.
RECALLS = np.linspace(0, 1, 101)
#: Detections of one class in one image that count.
MOST = 100
_NO_MORE = object()


@dataclass(frozen=True)
class AveragePrecision:
    """mAP over all classes that have objects; NaN where none has."""

    #: Over IoU 0.50 to 0.95: the number that is called mAP.
    mean: float
    at_50: float
    at_75: float
    #: mAP over IoU 0.50 to 0.95 of each class that has objects, by class number.
    per_class: dict[int, float]

    def __str__(self) -> str:
        return f"mAP {self.mean:.4f}, at IoU 0.50 {self.at_50:.4f}, at 0.75 {self.at_75:.4f}"


def average_precision(found: Iterable[Detections], truth: Iterable[Detections]) -> AveragePrecision:
    """Compare detections with the ground truth.

    As COCO defines it (cocodataset.org, "Detection evaluation"), for boxes of any area without
    marks for crowds: per class at most 100 detections an image, matched in the order of falling
    confidence to the free object with the largest IoU; precision at 101 recalls, made monotonic.

    Args:
        found: Of each image.
        truth: Of each image, in the same order; confidences count for nothing.

    Returns:
        The result.

    Raises:
        TypeError: Something else than `Detections`.
        ValueError: Not as many images in both.
    """
    images: tuple[list[Detections], list[Detections]] = [], []
    # Side by side, and looked at as they come: one of them may never end.
    for pair in zip_longest(found, truth, fillvalue=_NO_MORE):
        for name, one, taken in zip(("found", "truth"), pair, images):
            if one is _NO_MORE:
                raise ValueError(
                    f"{name}: expected as many images in both, got {len(taken)} and no more"
                )
            if not isinstance(one, Detections):
                raise TypeError(f"{name}: expected Detections, got {type(one).__name__}")
            taken.append(one)
    classes = sorted({int(c) for one in images[1] for c in one.class_id})
    rows = np.array([_of_class(c, *images) for c in classes]).reshape(-1, len(THRESHOLDS))
    if not classes:
        return AveragePrecision(float("nan"), float("nan"), float("nan"), {})
    return AveragePrecision(
        float(rows.mean()),
        float(rows[:, 0].mean()),
        float(rows[:, 5].mean()),
        {c: float(row.mean()) for c, row in zip(classes, rows)},
    )


def _of_class(
    class_id: int, found: list[Detections], truth: list[Detections]
) -> NDArray[np.float64]:
    """Average precision of a class at each threshold."""
    n_objects = 0
    scores, right = [], []
    for ours, theirs in zip(found, truth):
        boxes = theirs.xyxy[theirs.class_id == class_id]
        mine = ours[ours.class_id == class_id]
        order = np.argsort(-mine.confidence, kind="stable")[:MOST]
        n_objects += len(boxes)
        scores.append(mine.confidence[order])
        right.append(_right(overlaps(mine.xyxy[order], boxes)))
    order = np.argsort(-np.concatenate(scores), kind="stable")
    hits = np.concatenate(right, axis=1)[:, order]
    return np.array([_area(row, n_objects) for row in hits])


def _right(iou: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which detections of an image are right, at each threshold."""
    n_found, n_objects = iou.shape
    right = np.zeros((len(THRESHOLDS), n_found), bool)
    for row, threshold in enumerate(THRESHOLDS):
        free = np.ones(n_objects, bool)
        for i in range(n_found):
            fits = np.where(free, iou[i], -1.0)
            if n_objects and fits.max() >= min(threshold, 1 - 1e-10):
                # Where several are equal the last one, as in pycocotools.
                free[n_objects - 1 - int(np.argmax(fits[::-1]))] = False
                right[row, i] = True
    return right


def _area(hits: NDArray[Any], n_objects: int) -> float:
    """Mean of the precisions at the recalls."""
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(true / n_objects, RECALLS, side="left")
    return float(np.append(falling, 0.0)[places].mean())
