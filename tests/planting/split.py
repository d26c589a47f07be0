"""Heads with boxes and class scores apart, and what NumPy decodes of them."""

from __future__ import annotations

import numpy as np
from reference import yolo as reference


def distribution(distance, bins):
    """Logits whose softmax has its mass on the two bins around a distance."""
    x = np.full(bins, -9.0)
    low = int(distance)
    x[low], x[low + 1] = np.log(np.maximum([low + 1 - distance, distance - low], 1e-4))
    return x


def planted(scene, bins, logits=False):
    """Per scale: box and class tensor."""
    tensors = []
    for grid in scene.grids():
        box = scene.rng.uniform(-9 if bins > 1 else 0, 0 if bins > 1 else 3, (4 * bins, *grid))
        score = scene.noise(scene.classes, grid)
        if logits:
            score = scene.rng.uniform(-12, -4, score.shape)
        tensors.append((box.astype(np.float32), score.astype(np.float32)))
    for k, branch, y, x, score in scene.cells:
        stride = scene.strides[branch]
        left, top, right, bottom = scene.xyxy[k] / stride
        distances = [x + 0.5, y + 0.5, right, bottom] - np.array([left, top, x + 0.5, y + 0.5])
        box, scores = tensors[branch]
        encoded = (
            distances if bins == 1 else np.concatenate([distribution(d, bins) for d in distances])
        )
        box[:, y, x] = encoded
        scores[scene.class_id[k], y, x] = np.log(score / (1 - score)) if logits else score
    return tensors


def with_sums(tensors):
    sums = [np.clip(score.sum(axis=0, keepdims=True), 0, 1) for _, score in tensors]
    return [x for (box, score), s in zip(tensors, sums) for x in (box, score, s)]


def reference_of(tensors, scene, **options):
    return reference.split(tensors, [(s, s) for s in scene.strides], 0.25, 0.45, **options)
