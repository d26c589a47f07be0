"""Synthetic heads: a few objects that a decoder must find, in noise that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from native_tensors import deliver

#: Sizes (height, width), strides and numbers of classes that every head is tested with.
CASES = [
    ((320, 320), (8, 16, 32), 80),
    ((192, 320), (8, 16, 32), 1),
    ((384, 256), (8, 16, 32, 64), 5),
]
#: Stored type and layout of the outputs.
DELIVERIES = [
    ("int8", "c2=16"),
    ("int8", "pairs"),
    ("int8", "padded"),
    ("int8", "nchw"),
    ("int8", "nhwc"),
    ("uint8", "c2=8"),
    ("int16", "c2=16"),
    ("float16", "c2=16"),
    ("float32", "nchw"),
]
#: Run a test with each delivery; sizes, strides and classes take turns.
every_delivery = pytest.mark.parametrize(
    ("dtype", "form", "size", "strides", "classes"),
    [(*each, *CASES[i % len(CASES)]) for i, each in enumerate(DELIVERIES)],
)


def iou(a, b):
    """Return the IoU of each of a with each of b."""
    left = np.maximum(a[:, None, :2], b[None, :, :2])
    right = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.prod(np.maximum(right - left, 0), axis=2)
    areas = [np.prod(x[:, 2:] - x[:, :2], axis=1) for x in (a, b)]
    return inter / (areas[0][:, None] + areas[1][None] - inter)


class Scene:
    """Objects: ``xyxy (n, 4)``, ``class_id (n,)``, and the cells that report them."""

    def __init__(self, seed, size, strides, classes, objects=12):
        rng = np.random.default_rng(seed)
        height, width = size
        self.size, self.strides, self.classes, self.rng = size, strides, classes, rng
        boxes, ids, self.cells = [], [], []
        taken = set()
        for _ in range(2000):
            if len(boxes) == objects:
                break
            branch = int(rng.integers(len(strides)))
            stride = strides[branch]
            extent = np.minimum(rng.uniform(3, 7, 2) * stride, [width * 0.6, height * 0.6])
            centre = rng.uniform(extent / 2, np.array([width, height]) - extent / 2)
            box = np.concatenate([centre - extent / 2, centre + extent / 2])
            x, y = (int(c // stride) for c in centre)
            near = {(branch, y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)}
            if near & taken or (boxes and iou(box[None], np.array(boxes)).max() > 0.15):
                continue
            taken |= near
            score = 0.95 - 0.04 * len(boxes)
            self.cells.append((len(boxes), branch, y, x, score))
            if x + 1 < width // stride:
                self.cells.append((len(boxes), branch, y, x + 1, score - 0.1))
            boxes.append(box)
            ids.append(int(rng.integers(classes)))
        self.xyxy, self.class_id = np.array(boxes), np.array(ids)

    def grids(self):
        """Height and width of each scale's grid."""
        return [(self.size[0] // s, self.size[1] // s) for s in self.strides]

    def noise(self, channels, grid, highest=0.15):
        """Scores of a background: mostly near 0, at most `highest`."""
        return (self.rng.uniform(0, 1, (channels, *grid)) ** 4 * highest).astype(np.float32)


def deliver_all(tensors, dtype, form, **options):
    """Quantize and lay out ``(channels, h, w)`` tensors; attributes, raw arrays, real values."""
    made = [
        deliver(x[None], dtype, form, index=i, name=f"out{i}", **options)
        for i, x in enumerate(tensors)
    ]
    return [m[0] for m in made], [m[1] for m in made], [m[2][0] for m in made]
