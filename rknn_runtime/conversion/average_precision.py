"""Overlap of boxes, pairs of detections, and mean average precision as COCO defines it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.vision.detections import Detections

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A detection counts as right from one of these IoUs on: 0.50, 0.55, ... 0.95.
THRESHOLDS = np.linspace(0.5, 0.95, 10)
#: The precision is read at these recalls: 0.00, 0.01, ... 1.00.
RECALLS = np.linspace(0, 1, 101)
#: The most detections of one class in one image that count.
MOST = 100
_NO_MORE = object()


@dataclass(frozen=True)
class AveragePrecision:
    """Precision over all classes that have objects; NaN if none has."""

    #: mAP: the mean over IoU 0.50 to 0.95.
    mean: float
    at_50: float
    at_75: float
    #: The mean over IoU 0.50 to 0.95 of each class that has objects, by class number.
    per_class: dict[int, float]

    def __str__(self) -> str:
        return f"mAP {self.mean:.4f}, at IoU 0.50 {self.at_50:.4f}, at 0.75 {self.at_75:.4f}"


def average_precision(found: Iterable[Detections], truth: Iterable[Detections]) -> AveragePrecision:
    """Compare detections with the ground truth as COCO does.

    The definition is at cocodataset.org, "Detection evaluation"; here for boxes of any area, and
    without crowds. Per class, at most 100 detections of an image are matched by falling confidence
    to the free object with the largest IoU. Precision is read at 101 recalls and made monotonic.

    Args:
        found: The detections of each image.
        truth: The objects of each image in the same order; confidences are ignored.

    Returns:
        The precision.
    """
    images: tuple[list[Detections], list[Detections]] = [], []
    # In pairs, and checked one at a time, since one of them may never end.
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
    """Return the average precision of a class at each threshold."""
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
    """Tell which detections of an image are right at each threshold."""
    n_found, n_objects = iou.shape
    right = np.zeros((len(THRESHOLDS), n_found), bool)
    for row, threshold in enumerate(THRESHOLDS):
        free = np.ones(n_objects, bool)
        for i in range(n_found):
            fits = np.where(free, iou[i], -1.0)
            if n_objects and fits.max() >= min(threshold, 1 - 1e-10):
                # The last one of several equal ones, as in pycocotools.
                free[n_objects - 1 - int(np.argmax(fits[::-1]))] = False
                right[row, i] = True
    return right


def _area(hits: NDArray[Any], n_objects: int) -> float:
    """Return the mean of the precisions at the recalls."""
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(true / n_objects, RECALLS, side="left")
    return float(np.append(falling, 0.0)[places].mean())


def overlaps(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the IoU of every box of one set with every box of the other.

    Args:
        a: ``(n, 4)``: left, top, right, bottom.
        b: ``(m, 4)``: left, top, right, bottom.

    Returns:
        ``(n, m) float64``, 0 to 1; 0.0 if both have no area.
    """
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    corner, other = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    shared = np.clip(other - corner, 0, None).prod(axis=-1)
    areas = [np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=-1) for boxes in (a, b)]
    union = areas[0][:, None] + areas[1] - shared
    found: NDArray[np.float64] = np.divide(
        shared, union, out=np.zeros_like(shared), where=union > 0
    )
    return found


def pairs(iou: NDArray[np.float64], same: NDArray[np.bool_], least: float) -> list[tuple[int, int]]:
    """Pair rows with columns, the largest overlaps first, each once."""
    rows, columns = np.nonzero(same & (iou >= least))
    order = np.argsort(-iou[rows, columns], kind="stable")
    found, used_rows, used_columns = [], set(), set()
    for row, column in zip(rows[order].tolist(), columns[order].tolist()):
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            found.append((row, column))
    return found
