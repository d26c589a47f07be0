"""Heads of YOLOX, and what NumPy decodes of them."""

from __future__ import annotations

import numpy as np
from reference import yolo as reference


def planted(scene):
    """Per scale ``(5 + classes, h, w)``."""
    tensors = []
    for grid in scene.grids():
        box = scene.rng.uniform(-0.5, 1.5, (4, *grid)).astype(np.float32)
        tensors.append(
            np.concatenate([box, scene.noise(1, grid), scene.noise(scene.classes, grid, 0.9)])
        )
    for k, branch, y, x, score in scene.cells:
        stride = scene.strides[branch]
        x1, y1, x2, y2 = scene.xyxy[k] / stride
        cell = tensors[branch][:, y, x]
        cell[:4] = (x1 + x2) / 2 - x, (y1 + y2) / 2 - y, np.log(x2 - x1), np.log(y2 - y1)
        cell[4], cell[5:] = score, 0.01
        cell[5 + scene.class_id[k]] = 0.95
    return tensors


def reference_of(tensors, scene, **options):
    return reference.yolox(tensors, [(s, s) for s in scene.strides], 0.25, 0.45, **options)
