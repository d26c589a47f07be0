"""Windows that slide over an array."""

import numpy as np


def sliding_windows(array, shape, axis):
    """View every window along two axes, `axis` and the next one.

    As NumPy's ``sliding_window_view``, which 1.19 does not have yet.
    """
    sizes = list(array.shape)
    for i, length in enumerate(shape):
        sizes[axis + i] -= length - 1
    steps = array.strides[axis : axis + 2]
    return np.lib.stride_tricks.as_strided(
        array, (*sizes, *shape), (*array.strides, *steps), writeable=False
    )
