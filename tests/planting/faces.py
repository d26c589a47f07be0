"""Heads for faces with a scene's objects in them, and what NumPy decodes of them."""

from __future__ import annotations

import numpy as np
from reference import faces as reference

from rknn_runtime.vision.heads.faces import RETINAFACE_PRIORS

#: Where points are in a face, as parts of its width and height.
FACE = np.array([(0.3, 0.4), (0.7, 0.4), (0.5, 0.6), (0.35, 0.8), (0.65, 0.8)])


def points_of(xyxy):
    """Return the points of a face, ``(5, 2)``."""
    return xyxy[:2] + FACE * (xyxy[2:] - xyxy[:2])


def scores(scene, shape, logits):
    """Scores of a background."""
    if logits:
        return scene.rng.uniform(-12, -4, shape).astype(np.float32)
    return scene.noise(shape[0], shape[1:])


def stored(score, logits):
    return np.log(score / (1 - score)) if logits else score


def relative(xyxy, anchor, variances):
    """Encode a box and its points as they are relative to an anchor: centre and size."""
    centre, size = (xyxy[:2] + xyxy[2:]) / 2, xyxy[2:] - xyxy[:2]
    box = [
        *((centre - anchor[:2]) / anchor[2:] / variances[0]),
        *(np.log(size / anchor[2:]) / variances[1]),
    ]
    points = (points_of(xyxy) - anchor[:2]) / anchor[2:] / variances[0]
    return box, points.ravel()


def retinaface(scene, logits, sides=RETINAFACE_PRIORS):
    """``[(boxes, scores, points)]`` per scale; scores of background and face."""
    scales = []
    for grid, each in zip(scene.grids(), sides):
        n = len(each)
        box = scene.rng.normal(0, 1, (4 * n, *grid)).astype(np.float32)
        face = scores(scene, (n, *grid), logits)
        rest = np.zeros_like(face) if logits else 1 - face
        pair = np.stack([rest, face], axis=1).reshape(2 * n, *grid)
        scales.append((box, pair, scene.rng.normal(0, 3, (10 * n, *grid)).astype(np.float32)))
    for k, branch, y, x, score in scene.cells:
        stride = scene.strides[branch]
        box, pair, points = scales[branch]
        a = k % len(sides[branch])
        side = sides[branch][a]
        anchor = np.array([(x + 0.5) * stride, (y + 0.5) * stride, side, side])
        box[4 * a : 4 * a + 4, y, x], points[10 * a : 10 * a + 10, y, x] = relative(
            scene.xyxy[k], anchor, (0.1, 0.2)
        )
        pair[2 * a : 2 * a + 2, y, x] = [0 if logits else 1 - score, stored(score, logits)]
    return scales


def yunet(scene, logits):
    """``[(class scores, objectness, boxes, points)]`` per scale."""
    scales = []
    for grid in scene.grids():
        pair = [scores(scene, (1, *grid), logits) for _ in range(2)]
        box, points = (scene.rng.normal(0, 1, (n, *grid)).astype(np.float32) for n in (4, 10))
        scales.append((*pair, box, points))
    for k, branch, y, x, score in scene.cells:
        stride = scene.strides[branch]
        cls, objectness, box, points = scales[branch]
        anchor = np.array([x * stride, y * stride, stride, stride])
        box[:, y, x], points[:, y, x] = relative(scene.xyxy[k], anchor, (1, 1))
        cls[0, y, x], objectness[0, y, x] = stored(0.97, logits), stored(score**2 / 0.97, logits)
    return scales


def scrfd(scene, logits, per_cell):
    """``[(scores, boxes, points)]`` per scale."""
    scales = []
    for grid in scene.grids():
        face = scores(scene, (per_cell, *grid), logits)
        box, points = (
            scene.rng.uniform(0, 4, (n * per_cell, *grid)).astype(np.float32) for n in (4, 10)
        )
        scales.append((face, box, points))
    for k, branch, y, x, score in scene.cells:
        stride = scene.strides[branch]
        face, box, points = scales[branch]
        a = k % per_cell
        corner = np.array([x * stride, y * stride])
        xyxy = scene.xyxy[k]
        sides = np.concatenate([corner - xyxy[:2], xyxy[2:] - corner]) / stride
        box[4 * a : 4 * a + 4, y, x] = sides
        points[10 * a : 10 * a + 10, y, x] = ((points_of(xyxy) - corner) / stride).ravel()
        face[a, y, x] = stored(score, logits)
    return scales


def reference_of(head, scales, scene, logits, **kind):
    """What NumPy finds, and the points of all predictions."""
    if head == "retinaface":
        sides = kind.get("sides", RETINAFACE_PRIORS)
        return reference.retinaface(scales, scene.strides, sides, logits, 0.25, 0.45)
    if head == "yunet":
        return reference.yunet(scales, scene.strides, logits, 0.25, 0.45)
    return reference.scrfd(scales, scene.strides, kind["per_cell"], logits, 0.25, 0.45)


def yolov5_face(scene, logits, sizes):
    """``[(boxes, objectness and class scores, points)]`` per scale; sizes of the anchors."""
    scales = []
    for grid, each in zip(scene.grids(), sizes):
        n = len(each)
        values = scene.rng.uniform(0.2, 0.8, (n, 6, *grid))
        values[:, 4:] = scene.noise(2 * n, grid).reshape(n, 2, *grid)
        scales.append([values, scene.rng.normal(0, 1, (10 * n, *grid)).astype(np.float32)])
    for k, branch, y, x, score in scene.cells:
        stride, xyxy = scene.strides[branch], scene.xyxy[k]
        values, points = scales[branch]
        size = xyxy[2:] - xyxy[:2]
        a = np.abs(np.log(np.array(sizes[branch]) / size)).max(axis=1).argmin()
        anchor = np.array(sizes[branch][a], float)
        values[a, :2, y, x] = ((xyxy[:2] + xyxy[2:]) / 2 / stride - [x, y] + 0.5) / 2
        values[a, 2:4, y, x] = np.sqrt(size / anchor) / 2
        values[a, 4:, y, x] = score / 0.98, 0.98
        corner = np.array([x, y]) * stride
        points[10 * a : 10 * a + 10, y, x] = ((points_of(xyxy) - corner) / anchor).ravel()
    for each in scales:
        values = np.clip(each[0], 0.002, 0.998)
        values = np.log(values / (1 - values)) if logits else values
        each[0] = values.reshape(-1, *values.shape[2:]).astype(np.float32)
    return scales
