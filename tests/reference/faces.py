"""Plain NumPy decoding of heads for faces, written from the original projects' Python code.

Tensors are ``(per_cell * k, h, w)`` per scale. Results are ``(xyxy, confidence, class_id, source)``
as in `reference.yolo`; ``points(...)`` returns the points of all predictions, ``(N, 5, 2)``.
"""

from __future__ import annotations

import numpy as np

from reference.yolo import cells_of, finish, sigmoid, softmax


def predictions(tensor, per_cell):
    """``(per_cell * k, h, w)`` -> ``(per_cell, k, h * w)``."""
    return tensor.reshape(per_cell, -1, tensor.shape[1] * tensor.shape[2])


def in_order(columns):
    """``[(per_cell, k, cells)]`` -> ``(N, k)``: prediction after prediction, then the cells."""
    return np.concatenate([x.transpose(0, 2, 1).reshape(-1, x.shape[1]) for x in columns])


def anchors_of(tensors, strides, sides, offset):
    """Centre and size of the anchor of each prediction, ``(N, 4)``."""
    rows = []
    for tensor, stride, each in zip(tensors, strides, sides):
        x, y = cells_of(*tensor.shape[1:])
        for side in each:
            centre = [(x + offset) * stride, (y + offset) * stride]
            rows.append(np.stack([*centre, np.full_like(x, side), np.full_like(x, side)], axis=1))
    return np.concatenate(rows)


def columns_of(tensors, sides):
    return in_order([predictions(t, len(each)) for t, each in zip(tensors, sides)])


def by_priors(boxes, anchors, variances):
    """Corners of boxes that are relative to priors."""
    centre = anchors[:, :2] + boxes[:, :2] * variances[0] * anchors[:, 2:]
    half = np.exp(boxes[:, 2:] * variances[1]) * anchors[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1).astype(np.float32)


def points(values, anchors, variance=1.0):
    """``(N, 10)`` -> ``(N, 5, 2)``."""
    shape = len(values), 5, 2
    return anchors[:, None, :2] + values.reshape(shape) * variance * anchors[:, None, 2:]


def retinaface(scales, strides, sides, logits, *thresholds):
    """``[(boxes, scores, points)]``; background before face."""
    box, score, point = (columns_of(part, sides) for part in zip(*scales))
    anchors = anchors_of([each[0] for each in scales], strides, sides, 0.5)
    probability = (softmax(score, 1) if logits else score)[:, 1:]
    found = finish(by_priors(box, anchors, (0.1, 0.2)), probability, *thresholds)
    return found, points(point, anchors, 0.1)


def yunet(scales, strides, logits, *thresholds):
    """``[(class scores, objectness, boxes, points)]``."""
    sides = [[stride] for stride in strides]
    score, objectness, box, point = (columns_of(part, sides) for part in zip(*scales))
    anchors = anchors_of([each[0] for each in scales], strides, sides, 0.0)
    if logits:
        score, objectness = sigmoid(score), sigmoid(objectness)
    confidence = np.sqrt(np.clip(score, 0, 1) * np.clip(objectness, 0, 1))
    return finish(by_priors(box, anchors, (1, 1)), confidence, *thresholds), points(point, anchors)


def scrfd(scales, strides, per_cell, logits, *thresholds):
    """``[(scores, boxes, points)]``."""
    sides = [[stride] * per_cell for stride in strides]
    score, box, point = (columns_of(part, sides) for part in zip(*scales))
    anchors = anchors_of([each[0] for each in scales], strides, sides, 0.0)
    distances = box * anchors[:, 2:3]
    xyxy = np.concatenate(
        [anchors[:, :2] - distances[:, :2], anchors[:, :2] + distances[:, 2:]], axis=1
    )
    found = finish(xyxy.astype(np.float32), sigmoid(score) if logits else score, *thresholds)
    return found, points(point, anchors)
