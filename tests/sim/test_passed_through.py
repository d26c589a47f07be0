"""Images that are passed through: the NPU takes the model's own elements as they are."""

from __future__ import annotations

import numpy as np
import pytest
from paths import PROJECT
from sim_api import Api, bytes_of

from rknn_runtime._ffi import lib
from rknn_runtime.sim import Control
from rknn_runtime.sim.emulator import Emulator

MODELS = PROJECT / "examples" / "models"


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_elements_that_are_passed_through_are_not_normalised(control: Control, soc: str) -> None:
    """As librknnmrt 2.3.2 has it, too, though it takes any other type for pixels."""
    path = MODELS / f"shapes_{soc}.rknn"
    values = np.random.default_rng(0).integers(-128, 128, (1, 320, 320, 3)).astype(np.int8)
    with Api(path.read_bytes()) as api:
        image = api.bind("in", type=lib.RKNN_TENSOR_INT8, pass_through=1)
        bytes_of(image)[: values.size] = values.view(np.uint8).ravel()
        api.sync(image, lib.RKNN_MEMORY_SYNC_TO_DEVICE)
        output = api.bind("out", view="logical")
        assert api.run() == 0, api.control.last_message
        api.sync(output, lib.RKNN_MEMORY_SYNC_FROM_DEVICE)
        count = api.good_attr("out", "logical").n_elems
        found = bytes_of(output)[:count].view(np.int8).copy()
        for memory in (image, output):
            assert api.destroy_mem(memory) == 0
    emulator = Emulator(path)
    emulator.set_input(0, values.transpose(0, 3, 1, 2).copy())
    emulator.run()
    np.testing.assert_array_equal(found, emulator.read(emulator.outputs[0]).ravel())


@pytest.mark.parametrize(
    ("value", "stored"),
    [(1.5, -126), (2.5, -126), (2.5000002, -126), (2.50001, -125), (200.5, 72), (999.0, 127)],
)
def test_float_pixels_are_rounded_after_the_zero_point(value: float, stored: int) -> None:
    """With a step of 1 pixel, -128 is added in float32, and ties are then even.

    2.5000002 - 128 is -125.5 in float32: librknnrt 2.3.2 makes -126 of it, not -125.
    """
    path = MODELS / "shapes_rk3588.rknn"
    pixels = np.full((1, 320, 320, 3), value, np.float32)
    with Api(path.read_bytes()) as api:
        image = api.bind("in", view="logical", type=lib.RKNN_TENSOR_FLOAT32)
        bytes_of(image)[: pixels.nbytes] = pixels.view(np.uint8).ravel()
        output = api.bind("out", view="logical")
        assert api.run() == 0, api.control.last_message
        count = api.good_attr("out", "logical").n_elems
        found = bytes_of(output)[:count].view(np.int8).copy()
        for memory in (image, output):
            assert api.destroy_mem(memory) == 0
    results = []
    for level in (stored - 1, stored, min(stored + 1, 127)):
        emulator = Emulator(path)
        emulator.set_input(0, np.full((1, 3, 320, 320), level, np.int8))
        emulator.run()
        results.append((found == emulator.read(emulator.outputs[0]).ravel()).all())
    assert results == [False, True, stored == 127]
