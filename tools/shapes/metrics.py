"""Average precision as COCO defines it: greedy matching by score, 101-point interpolation."""

from __future__ import annotations

import numpy as np
from decode import iou_matrix

IOU_THRESHOLDS = np.arange(0.5, 0.96, 0.05)


def average_precision(
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    truth: list[tuple[np.ndarray, np.ndarray]],
    classes: int,
) -> np.ndarray:
    """Return the AP per class and IoU threshold, ``(classes, 10)``, NaN for an absent class.

    Args:
        found: Per image ``xyxy (n, 4)``, ``confidence (n,)``, ``class_id (n,)``, best first.
        truth: Per image ``xyxy (m, 4)``, ``class_id (m,)``.
        classes: Number of classes.
    """
    result = np.full((classes, len(IOU_THRESHOLDS)), np.nan)
    for k in range(classes):
        confidences, hits, objects = [], [], 0
        for (boxes, confidence, class_id), (gt_boxes, gt_class) in zip(found, truth):
            mine, theirs = class_id == k, gt_class == k
            objects += int(theirs.sum())
            confidences.append(confidence[mine])
            hits.append(_match(iou_matrix(boxes[mine], gt_boxes[theirs])))
        if objects:
            order = np.argsort(-np.concatenate(confidences), kind="stable")
            hit = np.concatenate(hits)[order]
            result[k] = [_interpolate(hit[:, t], objects) for t in range(hit.shape[1])]
    return result


def _match(iou: np.ndarray) -> np.ndarray:
    """Return which detections hit, ``(n, thresholds) bool``; each object is hit once."""
    hit = np.zeros((iou.shape[0], len(IOU_THRESHOLDS)), bool)
    if iou.shape[1] == 0:
        return hit
    for t, threshold in enumerate(IOU_THRESHOLDS):
        free = np.ones(iou.shape[1], bool)
        for i, row in enumerate(iou):
            best = int(np.argmax(np.where(free, row, -1.0)))
            if free[best] and row[best] >= threshold:
                free[best] = False
                hit[i, t] = True
    return hit


def _interpolate(hit: np.ndarray, objects: int) -> float:
    """Return the mean, over 101 recalls, of the best precision at that recall or above."""
    true = np.cumsum(hit)
    recall = true / objects
    precision = true / np.arange(1, len(hit) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
    return float(
        np.where(at < len(hit), np.append(envelope, 0.0)[np.minimum(at, len(hit))], 0).mean()
    )
