"""Prototypes and coefficients of masks."""

from __future__ import annotations

import numpy as np

P = 32


def ellipse(xyxy, y, x):
    """Above 0 within the ellipse that a box holds, at most 1, at least -1."""
    centre, radius = (xyxy[:2] + xyxy[2:]) / 2, (xyxy[2:] - xyxy[:2]) / 2
    return np.clip(
        1.5 * (1 - ((x - centre[0]) / radius[0]) ** 2 - ((y - centre[1]) / radius[1]) ** 2), -1, 1
    )


def planted_masks(scene, copies=1):
    """Prototypes, and coefficients per scale: object k is the ellipse in prototype k."""
    height, width = scene.size[0] // 4, scene.size[1] // 4
    prototypes = scene.rng.uniform(-1, 1, (P, height, width)).astype(np.float32)
    y, x = np.mgrid[0:height, 0:width] * 4 + 2
    for k, box in enumerate(scene.xyxy):
        prototypes[k] = ellipse(box, y, x)
    coefficients = [scene.rng.uniform(-1, 1, (P, *grid)) for grid in scene.grids()]
    for k, branch, row, column, _ in scene.cells:
        coefficients[branch][:, row, column] = scene.rng.uniform(-0.01, 0.01, P)
        coefficients[branch][k, row, column] = 2
    return prototypes, [np.concatenate([c] * copies).astype(np.float32) for c in coefficients]


def rows_of(tensors, anchors=1):
    """Coefficients of every prediction."""
    parts = [part for t in tensors for part in np.split(t, anchors)]
    return np.concatenate([part.reshape(P, -1).T for part in parts])
