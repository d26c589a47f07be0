"""A network of scenes with a recorded answer: three upright stripes."""

from __future__ import annotations

import json

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output


def scores(classes=3, rows=8, columns=12):
    """``(1, classes, rows, columns)``: 4 for the class of a stripe, -4 for all others."""
    grid = np.full((1, classes, rows, columns), -4, np.float32)
    for class_id, (first, last) in enumerate(((0, 3), (3, 9), (9, 12))):
        grid[0, class_id, :, first:last] = 4
    return grid


def bundle(outputs=None, dtype=TensorType.INT8, size=(32, 48), **custom):
    """A model of `size` pixels that always sees the same."""
    outputs = [scores()] if outputs is None else outputs
    values = {"zero_point": 0, "scale": 0.0625} if dtype is TensorType.INT8 else {}
    image = describe_input("image", (1, 3, *size), zero_point=-128, scale=1 / 255)
    return bundle_from_arrays(
        [image],
        [
            describe_output(f"o{i}", x.shape, index=i, dtype=dtype, **values)
            for i, x in enumerate(outputs)
        ],
        [Record([x.astype(np.float32 if x.dtype.kind == "f" else x.dtype) for x in outputs])],
        custom_string=json.dumps(custom),
    )


def numbers():
    """A model that ends with an ArgMax."""
    return bundle([scores().argmax(axis=1)], TensorType.INT64)
