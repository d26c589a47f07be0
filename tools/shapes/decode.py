"""Decode the outputs of the example nets in plain NumPy, in float: the yardstick.

Written from the papers and the heads' definitions; imports nothing of the product.
"""

from __future__ import annotations

import numpy as np

# The anchors that YOLOv5 publishes for COCO: (level, anchor, (width, height)), pixels.
ANCHORS = np.array(
    [
        [[10, 13], [16, 30], [33, 23]],
        [[30, 61], [62, 45], [59, 119]],
        [[116, 90], [156, 198], [373, 326]],
    ],
    np.float32,
)

Found = tuple[np.ndarray, np.ndarray, np.ndarray]


def decode(
    outputs: list[np.ndarray],
    size: int,
    *,
    conf_threshold: float = 0.01,
    iou_threshold: float = 0.6,
    max_detections: int = 100,
) -> Found:
    """Decode one image's float outputs; the number of outputs tells the head.

    Args:
        outputs: 1 output: ``[1, 4 + classes, 1, n]``, boxes normalised cxcywh.
            3: YOLOv5 ``[1, 3 * (5 + classes), h, w]`` after sigmoid.
            6: one-to-one (box 4*16, scores) per level. 9: (box 4*16, scores, sum) per level, NMS.
        size: Side of the square input in pixels.
        conf_threshold: Least confidence, that of a prediction's best class.
        iou_threshold: Of the class-aware NMS; not used with 6 outputs.
        max_detections: Best ones kept.

    Returns:
        ``xyxy (n, 4) float32, pixels``, ``confidence (n,)``, ``class_id (n,)``, best first.
    """
    if len(outputs) == 1:
        boxes, scores = _single(outputs[0], size)
    elif len(outputs) == 3:
        boxes, scores = _anchors(outputs, size)
    elif len(outputs) in (6, 9):
        boxes, scores = _dfl(outputs, size)
    else:
        raise ValueError(f"1, 3, 6 or 9 outputs expected, got {len(outputs)}")
    class_id, confidence = scores.argmax(1), scores.max(1)
    order = np.argsort(-confidence, kind="stable")
    order = order[confidence[order] >= conf_threshold]
    boxes, confidence, class_id = boxes[order], confidence[order], class_id[order]
    if len(outputs) != 6:
        kept = nms(boxes, class_id, iou_threshold)
        boxes, confidence, class_id = boxes[kept], confidence[kept], class_id[kept]
    n = max_detections
    return boxes[:n], confidence[:n], class_id[:n]


def nms(boxes: np.ndarray, class_id: np.ndarray, iou_threshold: float) -> np.ndarray:
    """Return the indices that class-aware NMS keeps; boxes come best first."""
    alive = np.ones(len(boxes), bool)
    kept = []
    for i in range(len(boxes)):
        if not alive[i]:
            continue
        kept.append(i)
        rest = alive & (class_id == class_id[i])
        rest[: i + 1] = False
        j = np.nonzero(rest)[0]
        alive[j[iou_matrix(boxes[i : i + 1], boxes[j])[0] > iou_threshold]] = False
    return np.array(kept, np.int64)


def iou_matrix(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the IoU of every pair, ``(len(a), len(b))``; boxes xyxy."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.clip(high - low, 0, None).prod(-1)
    area_a, area_b = (a[:, 2:] - a[:, :2]).prod(-1), (b[:, 2:] - b[:, :2]).prod(-1)
    return inter / np.maximum(area_a[:, None] + area_b[None] - inter, 1e-9)


def _single(output: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    rows = output[0].reshape(output.shape[1], -1).T
    centre, wh = rows[:, :2] * size, rows[:, 2:4] * size
    return np.concatenate([centre - wh / 2, centre + wh / 2], 1), rows[:, 4:]


def _dfl(outputs: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    per_level = len(outputs) // 3
    boxes, scores = [], []
    for box, score in zip(outputs[::per_level], outputs[1::per_level]):
        _, channels, h, w = box.shape
        bins = box[0].reshape(4, channels // 4, h * w)
        p = np.exp(bins - bins.max(1, keepdims=True))
        ltrb = ((p / p.sum(1, keepdims=True)) * np.arange(channels // 4)[:, None]).sum(1)
        xx, yy = np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5)
        x, y = xx.ravel(), yy.ravel()
        sides = [x - ltrb[0], y - ltrb[1], x + ltrb[2], y + ltrb[3]]
        boxes.append(np.stack(sides, 1) * (size / h))
        scores.append(score[0].reshape(score.shape[1], -1).T)
    return np.concatenate(boxes).astype(np.float32), np.concatenate(scores)


def _anchors(outputs: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    boxes, scores = [], []
    for output, anchors in zip(outputs, ANCHORS):
        _, channels, h, w = output.shape
        p = output[0].reshape(3, channels // 3, h, w)
        xx, yy = np.meshgrid(np.arange(w), np.arange(h))
        x = (p[:, 0] * 2 - 0.5 + xx) * (size / w)
        y = (p[:, 1] * 2 - 0.5 + yy) * (size / h)
        half_w = (p[:, 2] * 2) ** 2 * anchors[:, 0, None, None] / 2
        half_h = (p[:, 3] * 2) ** 2 * anchors[:, 1, None, None] / 2
        box = np.stack([x - half_w, y - half_h, x + half_w, y + half_h], -1)
        boxes.append(box.reshape(-1, 4))
        score = p[:, 4:5] * p[:, 5:]
        scores.append(score.transpose(0, 2, 3, 1).reshape(-1, channels // 3 - 5))
    return np.concatenate(boxes), np.concatenate(scores)
