"""What `Model` does to float32 before it quantizes it, as librknnrt does for a `GeneralModel`.

Pixels are the NPU's own affair. Of any other input it takes numbers that are normalised and
quantized already, and librknnmrt has no call that would do so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.enums import Layout
from rknn_runtime.errors import RknnError
from rknn_runtime.tensor import TensorAttr

__all__ = ["normalisation"]

if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import Preprocessing

    # NumPy before 1.22 has no subscript at run time.
    _Array = np.ndarray[Any, Any]
else:
    _Array = np.ndarray


def normalisation(
    name: str, attr: TensorAttr, given: Preprocessing | None
) -> tuple[_Array, _Array] | None:
    """Return mean and std in the form that is broadcast over an input.

    Args:
        name: Such as ``input 0 'images'``, for messages.
        attr: The logical attribute.
        given: What the model file says; None: nothing.

    Returns:
        Two float32 arrays, or None where they change nothing.

    Raises:
        RknnError: They do not fit the input.
    """
    if given is None or (set(given.mean) <= {0.0} and set(given.std) <= {1.0}):
        return None
    axis = len(attr.shape) - 1
    if len(attr.shape) == 4 and attr.layout is not Layout.NHWC:
        axis = 1
    numbers = []
    for values in (given.mean, given.std):
        count = attr.shape[axis] if attr.shape else 1
        if len(values) not in (1, count) or not all(map(math.isfinite, values)):
            raise RknnError(f"{name}: mean or std {values} for {count} channels")
        shape = [1] * len(attr.shape)
        if len(values) > 1:
            shape[axis] = count
        numbers.append(np.array(values, np.float32).reshape(shape))
    if not numbers[1].all():
        raise RknnError(f"{name}: std {given.std} has a 0")
    return numbers[0], numbers[1]
