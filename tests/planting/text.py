"""Text networks with recorded answers."""

from __future__ import annotations

import json

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

#: Of a map of 64 x 96 cells: top, bottom, left, right.
WORDS = ((10, 21, 50, 81), (12, 23, 10, 31), (40, 51, 10, 71))
CHARACTERS = "abc"


def words_map():
    values = np.zeros((1, 1, 64, 96), np.float32)
    for i, (top, bottom, left, right) in enumerate(WORDS):
        values[..., top:bottom, left:right] = 0.9 - 0.05 * i
    return values


def detector(**custom):
    """A text detector of 64 x 96 pixels that always finds three words."""
    return _bundle((64, 96), words_map(), custom)


def recognizer(text="cab", size=(16, 64), **custom):
    """A recognizer of the letters a, b and c that always reads the same."""
    best = [k for letter in text for k in (1 + CHARACTERS.index(letter), 0)]
    scores = np.full((1, 16, 4), 0.02, np.float32)
    scores[0, :, 0] = 0.02
    scores[0, np.arange(16), [*best, *[0] * (16 - len(best))]] = 0.94
    return _bundle(size, scores, custom)


def _bundle(size, values, custom):
    image = describe_input("image", (1, 3, *size), zero_point=-128, scale=1 / 255)
    output = describe_output("scores", values.shape, dtype=TensorType.FLOAT32)
    return bundle_from_arrays(
        [image], [output], [Record([values])], custom_string=json.dumps(custom)
    )
