"""Heads of YOLOv5 and v7, and what NumPy decodes of them."""

from __future__ import annotations

import numpy as np
from reference import yolo as reference


def logit(p):
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.log(p / (1 - p)).astype(np.float32)


def planted(scene, anchors, logits=False):
    """Per scale ``(n * (5 + classes), h, w)``, after the sigmoid or before."""
    tensors = []
    for grid in scene.grids():
        parts = []
        for _ in anchors[0]:
            box = scene.rng.uniform(0, 1, (4, *grid)).astype(np.float32)
            objectness = scene.noise(1, grid)
            parts += [box, objectness, scene.noise(scene.classes, grid, 0.9)]
        tensors.append(np.concatenate(parts))
    for k, branch, y, x, score in scene.cells:
        stride, sizes = scene.strides[branch], np.array(anchors[branch], np.float64)
        x1, y1, x2, y2 = scene.xyxy[k]
        extent = np.array([x2 - x1, y2 - y1])
        best = np.abs(np.log(sizes / extent)).max(axis=1).argmin()
        centre = np.array([x1 + x2, y1 + y2]) / 2 / stride - [x, y]
        values = [*((centre + 0.5) / 2), *(np.sqrt(extent / sizes[best]) / 2)]
        if not 0 <= min(values) <= max(values) <= 1:
            continue
        step = 5 + scene.classes
        part = tensors[branch][best * step : (best + 1) * step, y, x]
        part[:4], part[4] = values, score
        part[5:] = 0.01
        part[5 + scene.class_id[k]] = 0.95
    return [logit(t) for t in tensors] if logits else tensors


def sized(scene):
    """Anchors near the scene's objects, so that every object has one: 4 strides a side."""
    return [[(3 * s, 3 * s), (4 * s, 5 * s), (6 * s, 5 * s)] for s in scene.strides]


def reference_of(tensors, scene, anchors, **options):
    strides = [(s, s) for s in scene.strides]
    return reference.anchors(tensors, anchors, strides, 0.25, 0.45, **options)
