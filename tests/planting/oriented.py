"""Heads with oriented boxes."""

from __future__ import annotations

import numpy as np
from reference import yolo as reference

from planting import split as planted_split
from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import lib


def iou(a, b):
    a, b = (np.ascontiguousarray(x, np.float32).ravel() for x in (a, b))
    return lib.rkr_quadrangle_iou(pointer(a), pointer(b))


def planted(scene):
    """Per scale boxes and logits, and the angles: each object has one, its cells agree."""
    tensors = planted_split.planted(scene, 16, logits=True)
    grids = scene.grids()
    starts = np.cumsum([0] + [h * w for h, w in grids])
    angles = scene.rng.uniform(0, 1, starts[-1]).astype(np.float32)
    for k, branch, y, x, _ in scene.cells:
        stride = scene.strides[branch]
        centre = (scene.xyxy[k, :2] + scene.xyxy[k, 2:]) / 2
        extent = (scene.xyxy[k, 2:] - scene.xyxy[k, :2]) * [0.9, 0.5]
        value = (k % 6) / 6 + 0.08
        angles[starts[branch] + y * grids[branch][1] + x] = value
        angle = (value - 0.25) * np.pi
        # The centre as the box sees it, from the cell: turned back by its angle.
        dx, dy = centre / stride - [x + 0.5, y + 0.5]
        along = dx * np.cos(angle) + dy * np.sin(angle)
        across = dy * np.cos(angle) - dx * np.sin(angle)
        half = extent / stride / 2
        distances = [half[0] - along, half[1] - across, half[0] + along, half[1] + across]
        tensors[branch][0][:, y, x] = np.concatenate(
            [planted_split.distribution(max(d, 0), 16) for d in distances]
        )
    return tensors, angles


def truth(scene):
    """The planted rectangles, ``(n, 4, 2)``."""
    centre = (scene.xyxy[:, :2] + scene.xyxy[:, 2:]) / 2
    extent = (scene.xyxy[:, 2:] - scene.xyxy[:, :2]) * [0.9, 0.5]
    angle = (np.arange(len(centre)) % 6 / 6 + 0.08 - 0.25) * np.pi
    return reference.corners_of(np.concatenate([centre, extent], axis=1), angle)
