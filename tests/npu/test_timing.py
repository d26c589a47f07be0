"""The steps of a run, timed in C."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from bundles import one_object

from rknn_runtime import Detector, Model
from rknn_runtime.errors import ClosedError, RknnStatusError
from rknn_runtime.sim.control import Control


@pytest.fixture
def control():
    control = Control()
    yield control
    control.reset()


def zeros(model: Model) -> np.ndarray:
    (attr,) = model.inputs
    return np.zeros((attr.height, attr.width, 3), np.uint8)


def test_nothing_is_timed_unless_asked_for():
    """And what was timed is forgotten when timing ends."""
    with Model(one_object(), library="sim") as model:
        model.run(zeros(model))
        assert (model.is_timed, model.step_times) == (False, None)
        model.is_timed = True
        assert model.step_times is None
        model.run(zeros(model))
        assert model.step_times is not None
        model.is_timed = False
        assert model.step_times is None


@pytest.mark.parametrize("with_image", [False, True])
def test_the_steps_lie_one_behind_another_in_the_run(control, with_image):
    """The planted time is that of the run; only a detector's native frame has an image's step."""
    control.set_latency(20_000)
    with Model(one_object(), library="sim") as model:
        detector, image = Detector(model), zeros(model)
        model.is_timed = True
        before = time.perf_counter()
        if with_image:
            detector(image)
        else:
            model.run(image)
        after = time.perf_counter()
        steps = model.step_times
    assert steps is not None
    assert steps.run_s >= 0.02
    assert before <= steps.begin_s <= steps.end_s <= after
    assert (steps.image_s > 0) == with_image
    assert min(steps.sync_to_device_s, steps.sync_from_device_s) >= 0
    assert pickle.loads(pickle.dumps(steps)) == steps


@pytest.mark.parametrize("call", ["rknn_mem_sync", "rknn_run"])
def test_a_run_that_failed_has_no_times(control, call):
    """Not even those of the run before."""
    with Model(one_object(), library="sim") as model:
        model.is_timed = True
        model.run(zeros(model))
        control.fail(call)
        with pytest.raises(RknnStatusError):
            model.run(zeros(model))
        assert model.step_times is None


def test_only_a_bool_switches_it():
    """Neither 1 nor a string; and a closed model says that it is closed."""
    with Model(one_object(), library="sim") as model:
        for wrong in (1, "yes", None):
            with pytest.raises(TypeError, match="is_timed: expected a bool"):
                model.is_timed = wrong  # type: ignore[assignment]
    with pytest.raises(ClosedError):
        model.is_timed = True
    with pytest.raises(ClosedError):
        _ = model.step_times
