"""Run a program, and compare each inference of it with this package's own class.

::

    python watched.py PROGRAM [ARGUMENT ...]

Its last line says how many inferences were equal.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rknn_runtime import GeneralModel
from rknn_runtime.enums import Layout, TensorType
from rknn_runtime.rknnlite import RKNNLite

theirs = RKNNLite.inference
compared = 0


def inference(self: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    """Compare the outputs with those of `GeneralModel`."""
    global compared
    found = theirs(self, inputs, *args, **options)
    with GeneralModel(self._path) as model:
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        layout = options.get("data_format") or "nhwc"
        is_nchw = "nchw" in str(layout).lower()
        arrays = []
        for array, attr in zip(given, model.inputs):
            array = array[None] if array.ndim < len(attr.shape) else array
            if array.dtype == np.int64 and attr.dtype is TensorType.FLOAT16:
                array = array.astype(np.float32)  # as the runtime does
            if is_nchw and attr.layout is Layout.NHWC:
                array = np.moveaxis(array, 1, 3)
            arrays.append(np.ascontiguousarray(array))
        if model.dynamic_shapes:
            model.set_input_shapes([array.shape for array in arrays])
        arrays = [array.reshape(attr.shape) for array, attr in zip(arrays, model.inputs)]
        ours = model.run(*arrays)
    assert found is not None, "the inference failed"
    assert len(found) == len(ours)
    for theirs_, ours_ in zip(found, ours):
        assert theirs_.shape == ours_.shape, f"{theirs_.shape} there, {ours_.shape} here"
        assert np.array_equal(theirs_, ours_), "the outputs differ"
    compared += len(ours)
    return found


if __name__ == "__main__":
    RKNNLite.inference = inference
    cv2.imshow = cv2.waitKey = lambda *_: 0  # there is no display
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(f"{compared} outputs equal")
