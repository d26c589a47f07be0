"""Every allocation of C fails once: an exception comes, nothing leaks, all works afterwards.

Only in the build of `tools/sanitize.py --allocations` can allocations be made to fail.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from bundles import one_object, output, recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, softmax
from custom_models import FRAME as OPERATED
from native_tensors import deliver
from paths import DATA
from planting.scene import numbers
from planting.text import words_map

from rknn_runtime import (
    Detector,
    GeneralModel,
    InitFlag,
    Model,
    Segmenter,
    TensorMemory,
    _rkr,
    letterbox,
)
from rknn_runtime.errors import RknnError
from rknn_runtime.npu import raw
from rknn_runtime.npu.library import open_library
from rknn_runtime.sim import Live
from rknn_runtime.vision import nms
from rknn_runtime.vision.heads import MapDecoder, SceneDecoder, TextBoxDecoder

#: The result of a file when nothing failed.
EXPECTED: dict[str, str] = {}
FRAME = np.zeros((8, 20, 3), np.uint8)
LIBRARIES = [ctypes.CDLL(_rkr.__file__), ctypes.CDLL(open_library("sim").path)]
pytestmark = pytest.mark.skipif(
    not all(hasattr(library, "fail_allocation") for library in LIBRARIES),
    reason="needs a build in which allocations can fail: `make sanitize-allocations`",
)


def use_a_model(soc: str) -> None:
    made = recorded(soc, outputs=[output(f"o{i}", (1, 5, 4, 6), soc, i) for i in range(3)])
    with Model(made.data, library="sim") as model:
        found = model(FRAME)
        memory = TensorMemory(model._context, 64)
        memory.close()
    for one, other in zip(found, made.expected):
        np.testing.assert_array_equal(one, other)


def use_a_file(name: str) -> None:
    with GeneralModel(DATA / "models" / f"{name}.rknn", library="sim") as model:
        frame = np.full(model.inputs[0].shape, 100, np.uint8)
        digest = hashlib.sha256(model.run(frame)[0].tobytes()).hexdigest()
    assert EXPECTED.setdefault(name, digest) == digest


def use_the_general_api() -> None:
    made = recorded()
    with GeneralModel(made.data, library="sim") as model:
        np.testing.assert_array_equal(model.run(FRAME)[0], made.expected[0])
        model.run(FRAME, float_outputs=False)


def use_a_detector() -> None:
    with Model(one_object(), library="sim") as model:
        found = Detector(model)(np.zeros((48, 64, 3), np.uint8))
    assert found.class_id.tolist() == [1]


def use_an_operator() -> None:
    with Model(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(CUSTOM, softmax)
        (scores,) = model(OPERATED)
    digest = hashlib.sha256(scores.tobytes()).hexdigest()
    assert EXPECTED.setdefault("operator", digest) == digest


def use_a_flight() -> None:
    made = recorded()
    with Model(made.data, library="sim", flags=InitFlag.FENCE_OUT_OUTSIDE) as model:
        model.input_view()[...] = 0
        model.input_memory().sync_to_device()
        raw.start(model).wait()
        model.output_memory().sync_from_device()
        np.testing.assert_array_equal(model.output_f32(), made.expected[0])


def use_kernels() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [50, 50, 60, 60]], np.float32)
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    assert nms(boxes, scores, iou_threshold=0.5).tolist() == [0, 2]
    for shape in ((48, 64, 3), (49, 63), (96, 128, 4)):
        letterbox(np.zeros(shape, np.uint8), (64, 64))


def use_maps_and_text() -> None:
    attr, raw_map, _ = deliver(words_map(), "int8", "c2=16")
    assert len(TextBoxDecoder([attr], (64, 96))(raw_map)) == 3
    assert SceneDecoder([attr], (64, 96))(raw_map).max() == 1
    assert MapDecoder([attr], (64, 96))(raw_map).max() > 0.8
    with Model(numbers(), library="sim") as model:
        assert Segmenter(model)(np.zeros((32, 48, 3), np.uint8)).class_map.max() == 2


USES: dict[str, Callable[[], None]] = {
    "Model-rk3588": lambda: use_a_model("rk3588"),
    "Model-rv1106": lambda: use_a_model("rv1106"),
    "file": lambda: use_a_file("ic3_w37_rk3588"),
    "file with shapes": lambda: use_a_file("dyn_in_rk3588"),
    "GeneralModel": use_the_general_api,
    "Detector": use_a_detector,
    "custom operator": use_an_operator,
    "flight": use_a_flight,
    "kernels": use_kernels,
    "maps and text": use_maps_and_text,
}


@pytest.mark.parametrize("library", LIBRARIES, ids=["extension", "simulated runtime"])
@pytest.mark.parametrize("name", USES)
def test_every_allocation_fails_once(control, name: str, library: ctypes.CDLL) -> None:
    """The nth fails, for every n that there is."""
    use = USES[name]
    use()
    failures = 0
    for nth in range(1, 1000):
        library.fail_allocation(nth)
        try:
            use()
        except (MemoryError, RknnError):
            failures += 1
        finally:
            left = library.fail_allocation(0)
        gc.collect()
        assert control.live == Live(0, 0, 0), nth
        assert control.last_violation == "", nth
        if left > 0:
            break
    else:
        pytest.fail("there is no end of allocations")
    # Some of the simulated runtime may fail without harm, such as a line of its log.
    assert failures >= (nth - 1) * 0.8
    use()
