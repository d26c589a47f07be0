"""Non-maximum suppression for boxes that did not come from a decoder."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from rknn_runtime._arrays import NDArray, as_float, as_int, check_status, pointer, source
from rknn_runtime._ffi import ffi, lib

_FLOAT32 = np.dtype(np.float32)
_INT32 = np.dtype(np.int32)


def nms(
    xyxy: NDArray[np.float32],
    confidence: NDArray[np.float32],
    class_id: NDArray[np.int32] | None = None,
    *,
    iou_threshold: float = 0.45,
    max_detections: int = 300,
) -> NDArray[np.intp]:
    """Return the indices of the boxes that no more confident box overlaps too much.

    Greedy: boxes are taken by falling confidence, equal ones by rising index; a box is kept
    unless its IoU with a box kept before is above `iou_threshold`. IoU is
    ``inter / (area_a + area_b - inter)`` in float32.

    Args:
        xyxy: ``(n, 4) float32``.
        confidence: ``(n,) float32``.
        class_id: ``(n,) int32``: only boxes of the same class suppress each other. None: all do.
        iou_threshold: 0..1.
        max_detections: The most indices returned.

    Returns:
        ``(k,) intp``, by falling confidence; a copy.
    """
    xyxy = source(xyxy, "xyxy", (_FLOAT32,), "n, 4")
    confidence = source(confidence, "confidence", (_FLOAT32,), "n")
    if class_id is not None:
        class_id = source(class_id, "class_id", (_INT32,), "n")
    n = len(xyxy)
    if xyxy.shape[1] != 4 or len(confidence) != n or (class_id is not None and len(class_id) != n):
        shapes = [array.shape for array in (xyxy, confidence, class_id) if array is not None]
        raise ValueError(f"expected shapes (n, 4), (n,) and (n,) of one n, got {shapes}")
    iou_threshold = as_threshold(iou_threshold, "iou_threshold", 1)
    max_detections = as_int(max_detections, "max_detections", 1, 2**31 - 1)
    if not (np.isfinite(xyxy).all() and np.isfinite(confidence).all()):
        raise ValueError("xyxy, confidence: expected finite numbers, got infinite ones or nan")
    keep = np.empty(min(n, max_detections), np.uint32)
    count = ffi.new("size_t *")
    status = lib.rkr_nms(
        pointer(xyxy),
        pointer(confidence),
        ffi.NULL if class_id is None else pointer(class_id),
        n,
        iou_threshold,
        max_detections,
        pointer(keep),
        count,
    )
    check_status(status, f"nms of {n} boxes")
    return keep[: count[0]].astype(np.intp)


def as_threshold(value: SupportsFloat, name: str, highest: float) -> float:
    """Return a number, which must be from 0 to `highest`."""
    number = as_float(value, name)
    if not 0 <= number <= highest:
        expected = f"0..{highest}" if highest == 1 else "a finite number >= 0"
        raise ValueError(f"{name}: expected {expected}, got {number}")
    return number
