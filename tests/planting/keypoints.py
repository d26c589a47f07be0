"""Networks for keypoints and embeddings with recorded answers."""

from __future__ import annotations

import json

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

COUNT, SIZE = 17, (64, 48)
#: x and y of the first keypoint, in pixels of the input.
POINT = (20, 36)


def heatmaps(**custom):
    """Cells of 4 pixels; all keypoints but the first are at 4, 4."""
    maps = np.zeros((1, COUNT, 16, 12), np.float32)
    maps[:, :, 1, 1] = 0.7
    maps[0, 0] = 0
    maps[0, 0, POINT[1] // 4, POINT[0] // 4] = 0.8
    return _bundle([maps], custom)


def simcc(**custom):
    """Two bins for each pixel."""
    axes = [np.zeros((1, COUNT, 2 * side), np.float32) for side in SIZE[::-1]]
    for axis, at in zip(axes, POINT):
        axis[:, :, 8] = 0.7
        axis[0, 0] = 0
        axis[0, 0, 2 * at] = 0.8
    return _bundle(axes, custom)


def embedding(vector, **custom):
    return _bundle([vector[None]], custom)


def _bundle(outputs, custom):
    size = SIZE if len(outputs[0].shape) > 2 else (32, 32)
    return bundle_from_arrays(
        [describe_input("image", (1, 3, *size), zero_point=-128, scale=1 / 255)],
        [
            describe_output(f"o{i}", x.shape, index=i, dtype=TensorType.FLOAT32)
            for i, x in enumerate(outputs)
        ],
        [Record(outputs)],
        custom_string=json.dumps(custom),
    )
