"""Plain NumPy decoding of YOLO heads, on float tensors in the exported graph's own order.

Written from the papers and the published layouts; imports nothing of the package.
Results are ``(xyxy, confidence, class_id, source)``, ordered as the decoders promise.
"""

from __future__ import annotations

import numpy as np


def nms(xyxy, confidence, class_id, iou_threshold, max_detections=300):
    """Greedy suppression in float32; a stable sort makes equal scores keep their order."""
    one = np.float32
    order = np.argsort(-confidence, kind="stable")
    x1, y1, x2, y2 = (xyxy[:, k].astype(one) for k in range(4))
    area = np.maximum(x2 - x1, one(0)) * np.maximum(y2 - y1, one(0))
    keep = []
    while order.size and len(keep) < max_detections:
        best, rest = order[0], order[1:]
        keep.append(best)
        width = np.minimum(x2[best], x2[rest]) - np.maximum(x1[best], x1[rest])
        height = np.minimum(y2[best], y2[rest]) - np.maximum(y1[best], y1[rest])
        inter = np.maximum(width, one(0)) * np.maximum(height, one(0))
        with np.errstate(invalid="ignore"):
            iou = inter / (area[best] + area[rest] - inter)
        drop = iou > one(iou_threshold)
        if class_id is not None:
            drop &= class_id[rest] == class_id[best]
        order = rest[~drop]
    return np.array(keep, dtype=np.intp)


def finish(xyxy, scores, conf_threshold, iou_threshold, class_agnostic=False, max_detections=300):
    """Best class of each prediction, threshold, suppression: ``xyxy (n, 4), scores (n, c)``."""
    class_id = scores.argmax(axis=1)
    confidence = scores[np.arange(len(scores)), class_id]
    passed = np.flatnonzero(confidence >= np.float32(conf_threshold))
    xyxy, confidence, class_id = xyxy[passed], confidence[passed], class_id[passed]
    keep = nms(
        xyxy, confidence, None if class_agnostic else class_id, iou_threshold, max_detections
    )
    return xyxy[keep], confidence[keep], class_id[keep], passed[keep]


def single(tensor, conf_threshold, iou_threshold, scale=(1, 1), num_classes=None, **options):
    """Decode ``(4 + classes, n)``: cx, cy, w, h, scores."""
    num_classes = num_classes or len(tensor) - 4
    cx, cy, w, h = tensor[:4]
    xyxy = np.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], axis=1)
    xyxy = xyxy * np.array([*scale, *scale], np.float32)
    return finish(xyxy, tensor[4 : 4 + num_classes].T, conf_threshold, iou_threshold, **options)


def cells_of(height, width):
    """Column and row of every cell, row after row."""
    row, column = np.divmod(np.arange(height * width), width)
    return column.astype(np.float32), row.astype(np.float32)


def softmax(x, axis):
    """Exponentials that sum to 1."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def sigmoid(x):
    """1 / (1 + e^-x)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.astype(np.float32)))


def distances_of(box):
    """``(4 * bins, h, w)`` -> ``(4, h * w)``: the mean of each distribution."""
    bins = len(box) // 4
    flat = box.reshape(4, bins, -1)
    if bins == 1:
        return flat[:, 0]
    return (softmax(flat, 1) * np.arange(bins, dtype=np.float32)[:, None]).sum(axis=1)


def split_boxes(box, stride, offset=0.5):
    """Boxes of one scale, ``(h * w, 4)``."""
    left, top, right, bottom = distances_of(box)
    x, y = (each + np.float32(offset) for each in cells_of(*box.shape[1:]))
    sides = [x - left, y - top, x + right, y + bottom]
    return np.stack(sides, axis=1) * np.array([stride[1], stride[0]] * 2, np.float32)


def split(branches, strides, conf_threshold, iou_threshold, logits=False, offset=0.5, **options):
    """Decode ``[(box, score), ...]`` with strides ``[(down, across), ...]``."""
    boxes = [split_boxes(box, stride, offset) for (box, _), stride in zip(branches, strides)]
    scores = [score.reshape(len(score), -1).T for _, score in branches]
    scores = np.concatenate(scores)
    return finish(
        np.concatenate(boxes),
        sigmoid(scores) if logits else scores,
        conf_threshold,
        iou_threshold,
        **options,
    )


def objectness(boxes, scores, logits, conf_threshold, iou_threshold, class_scores=True, **options):
    """Confidence = objectness * class score; ``boxes (n, 4)`` centred, ``scores (n, 1 + c)``."""
    scores = sigmoid(scores) if logits else scores
    if not class_scores:
        scores = np.stack([scores[:, 0], np.ones(len(scores), np.float32)], axis=1)
    half = boxes[:, 2:] / 2
    xyxy = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    return finish(xyxy, scores[:, 1:] * scores[:, :1], conf_threshold, iou_threshold, **options)


def anchors(tensors, sizes, strides, conf_threshold, iou_threshold, logits=False, **options):
    """YOLOv5, v7: ``(n * (5 + c), h, w)`` per scale, anchor sizes ``(scales, n, 2)``."""
    boxes, scores = [], []
    for tensor, anchors_of_scale, stride in zip(tensors, sizes, strides):
        x, y = cells_of(*tensor.shape[1:])
        for part, anchor in zip(np.split(tensor, len(anchors_of_scale)), anchors_of_scale):
            flat = part.reshape(len(part), -1)
            s = sigmoid(flat[:4]) if logits else flat[:4]
            cx, cy = (s[0] * 2 - 0.5 + x) * stride[1], (s[1] * 2 - 0.5 + y) * stride[0]
            w, h = (s[2] * 2) ** 2 * anchor[0], (s[3] * 2) ** 2 * anchor[1]
            boxes.append(np.stack([cx, cy, w, h], axis=1).astype(np.float32))
            scores.append(flat[4:].T)
    boxes, scores = np.concatenate(boxes), np.concatenate(scores)
    return objectness(boxes, scores, logits, conf_threshold, iou_threshold, **options)


def yolox(tensors, strides, conf_threshold, iou_threshold, logits=False, **options):
    """YOLOX: ``(5 + c, h, w)`` per scale."""
    boxes, scores = [], []
    for tensor, (down, across) in zip(tensors, strides):
        x, y = cells_of(*tensor.shape[1:])
        flat = tensor.reshape(len(tensor), -1)
        cx, cy = (flat[0] + x) * across, (flat[1] + y) * down
        with np.errstate(over="ignore"):
            w, h = np.exp(flat[2]) * across, np.exp(flat[3]) * down
        boxes.append(np.stack([cx, cy, w, h], axis=1))
        scores.append(flat[4:].T)
    boxes, scores = np.concatenate(boxes), np.concatenate(scores)
    return objectness(boxes, scores, logits, conf_threshold, iou_threshold, **options)


def masks(coefficients, prototypes, xyxy, image_size, mapping):
    """Masks of n instances over ``image_size`` (height, width).

    ``mapping``: scale and offset, down and across, from pixels of the masks to pixels of
    prototypes. Interpolates the sum of all prototypes, then cuts to the box.
    """
    sums = np.tensordot(coefficients, prototypes, axes=1).astype(np.float64)
    lines = []
    for size, cells, (scale, offset) in zip(image_size, prototypes.shape[1:], mapping):
        at = np.clip((np.arange(size) + 0.5) * scale + offset - 0.5, 0, cells - 1)
        low = np.floor(at).astype(int)
        lines.append((low, np.minimum(low + 1, cells - 1), at - low))
    (up, down, fy), (left, right, fx) = lines
    x, y = np.arange(image_size[1]) + 0.5, np.arange(image_size[0]) + 0.5
    logits = np.full((len(xyxy), *image_size), -1.0)
    for total, (x1, y1, x2, y2), one in zip(sums, xyxy, logits):
        i, j = np.flatnonzero((y >= y1) & (y < y2)), np.flatnonzero((x >= x1) & (x < x2))
        rows = total[up[i]] * (1 - fy[i])[:, None] + total[down[i]] * fy[i][:, None]
        one[np.ix_(i, j)] = rows[:, left[j]] * (1 - fx[j]) + rows[:, right[j]] * fx[j]
    return logits


def corners_of(centred, angle):
    """``(n, 4)`` centred boxes and ``(n,)`` angles -> ``(n, 4, 2)``."""
    cosine, sine = np.cos(angle), np.sin(angle)
    along = np.stack([cosine, sine], axis=1) * centred[:, 2:3] / 2
    across = np.stack([-sine, cosine], axis=1) * centred[:, 3:4] / 2
    c = centred[:, :2]
    return np.stack(
        [c + along + across, c + along - across, c - along - across, c - along + across], 1
    )


def quadrangle_iou(a, b):
    """IoU of two convex quadrangles: the hull of inner corners and crossings of sides."""

    def cross(u, v):
        return u[0] * v[1] - u[1] * v[0]

    def area(p):
        x, y = np.array(p).T
        return abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2

    def inside(p, q):
        signs = [cross(q[(i + 1) % 4] - q[i], p - q[i]) for i in range(4)]
        return all(s >= -1e-9 for s in signs) or all(s <= 1e-9 for s in signs)

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    points = [p for p in a if inside(p, b)] + [p for p in b if inside(p, a)]
    for i in range(4):
        for j in range(4):
            r, s = a[(i + 1) % 4] - a[i], b[(j + 1) % 4] - b[j]
            parallel = cross(r, s)
            if abs(parallel) > 1e-12:
                t = cross(b[j] - a[i], s) / parallel
                u = cross(b[j] - a[i], r) / parallel
                if 0 <= t <= 1 and 0 <= u <= 1:
                    points.append(a[i] + t * r)
    if len(points) < 3:
        return 0.0
    points = np.array(points)
    middle = points.mean(axis=0)
    order = np.argsort(np.arctan2(*(points - middle).T[::-1]))
    common = area(points[order])
    return common / (area(a) + area(b) - common)


def oriented_nms(corners, confidence, class_id, iou_threshold):
    """Greedy suppression of quadrangles."""
    keep = []
    for i in np.argsort(-confidence, kind="stable"):
        if all(
            (class_id is not None and class_id[i] != class_id[k])
            or quadrangle_iou(corners[i], corners[k]) <= iou_threshold
            for k in keep
        ):
            keep.append(i)
    return np.array(keep, dtype=np.intp)


def oriented(centred, angle, scores, conf_threshold, iou_threshold):
    """Best class, threshold, oriented suppression: ``(corners, confidence, class_id)``."""
    class_id = scores.argmax(axis=1)
    confidence = scores.max(axis=1)
    passed = np.flatnonzero(confidence >= np.float32(conf_threshold))
    corners = corners_of(centred[passed], angle[passed])
    keep = oriented_nms(corners, confidence[passed], class_id[passed], iou_threshold)
    return corners[keep], confidence[passed][keep], class_id[passed][keep]


def split_oriented(branches, strides, angles, conf_threshold, iou_threshold):
    """YOLOv8-obb: ``[(box, class logits), ...]`` and angles 0..1 of all cells."""
    centred, start = [], 0
    for (box, _), stride in zip(branches, strides):
        left, top, right, bottom = distances_of(box)
        x, y = cells_of(*box.shape[1:])
        angle = (angles[start : start + len(x)] - 0.25) * np.pi
        start += len(x)
        along, across = (right - left) / 2, (bottom - top) / 2
        cx = x + 0.5 + along * np.cos(angle) - across * np.sin(angle)
        cy = y + 0.5 + along * np.sin(angle) + across * np.cos(angle)
        centred.append(np.stack([cx, cy, left + right, top + bottom], axis=1) * stride)
    scores = np.concatenate([score.reshape(len(score), -1).T for _, score in branches])
    return oriented(
        np.concatenate(centred),
        (angles - 0.25) * np.pi,
        sigmoid(scores),
        conf_threshold,
        iou_threshold,
    )
