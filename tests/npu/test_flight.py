"""Runs that go on while their caller does something else."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from bundles import changed, recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, softmax
from sim_api import set_executor
from threads import running

from rknn_runtime import GeneralModel, Model, TensorMemory
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import InitFlag
from rknn_runtime.errors import ClosedError, RknnStatusError, UnavailableError
from rknn_runtime.npu import raw

FENCE = InitFlag.FENCE_OUT_OUTSIDE


class Engine:
    """Computes a bundle, and is over when it is told so."""

    def __init__(self):
        self.function = ffi.callback("rknn_sim_executor_fn", self.execute)
        self.may_end, self.thread, self.status = threading.Event(), None, 0

    def execute(self, _, n_inputs, inputs, n_outputs, outputs):
        assert self.may_end.wait(60)
        self.thread = threading.get_ident()
        for i in range(n_outputs):
            buffer = ffi.buffer(outputs[i].data, outputs[i].n_elems)
            buffer[:] = bytes([14]) * len(buffer)  # 7 steps of 0.125
        return self.status


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def model(control, engine):
    data = changed(recorded().data, has_records=False)
    with Model(data, library="sim", flags=FENCE) as loaded:
        set_executor(loaded.library, loaded._context.opened(), engine.function)
        loaded.input_view()[...] = 1
        loaded.input_memory().sync_to_device()
        yield loaded
        engine.may_end.set()


def read(model):
    model.output_memory().sync_from_device()
    return set(model.output_f32().ravel().tolist())


def test_a_run_goes_on_by_itself(model, engine):
    """`start` returns before it is over; it computes on another thread; `wait` waits for it."""
    flight = raw.start(model, frame_id=2**64 - 1)
    assert engine.thread is None and not flight.is_over
    assert repr(flight) == "<Flight not waited for>"
    engine.may_end.set()
    flight.wait()
    assert engine.thread not in (None, threading.get_ident())
    assert flight.is_over and repr(flight) == "<Flight over>"
    assert read(model) == {0.875}
    flight.wait()
    raw.start(model).wait()
    model.run()


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.run(),
        lambda model: model(np.zeros((8, 20, 3), np.uint8)),
        lambda model: raw.start(model),
        lambda model: raw.run(model),
        lambda model: raw.wait(model),
        lambda model: raw.query(model, 5),
        lambda model: model.input_memory().array(),
        lambda model: model.input_memory().sync_to_device(),
        lambda model: model.bind_input(0, model.input_memory()),
        lambda model: model.output_f32(),
        lambda model: model.duplicate(),
        lambda model: model.sdk_version,
        lambda model: model.set_input_shapes([(1, 8, 20, 3)]),
        lambda model: TensorMemory(model, 64),
        lambda model: model.register_custom_op("x", softmax),
    ],
)
def test_nothing_else_meanwhile(model, engine, use):
    """Every other call of the model is refused until somebody has waited."""
    flight = raw.start(model)
    with pytest.raises(RuntimeError, match="in flight"):
        use(model)
    engine.may_end.set()
    flight.wait()
    assert read(model) == {0.875}


def test_close_waits(model, engine):
    """For the run, then releases; to wait afterwards is to wait for nothing."""
    flight = raw.start(model)
    threading.Timer(0.05, engine.may_end.set).start()
    model.close()
    assert engine.thread is not None
    flight.wait()
    with pytest.raises(ClosedError):
        raw.start(model)


def test_a_run_that_fails(model, engine):
    """`wait` raises it; the next one is as ever."""
    engine.status = lib.RKNN_ERR_TIMEOUT
    engine.may_end.set()
    flight = raw.start(model)
    with pytest.raises(RknnStatusError, match="rknn_wait"):
        flight.wait()
    assert flight.is_over
    engine.status = 0
    raw.start(model).wait()
    assert read(model) == {0.875}


def test_a_wait_that_fails(control, model, engine):
    """It has waited all the same, and raises; the next run and the end are as ever."""
    for code in (*range(-16, 0), -999):
        engine.may_end.clear()
        engine.thread = None
        flight = raw.start(model)
        threading.Timer(0.01, engine.may_end.set).start()
        control.fail("rknn_wait", 1, code)
        with pytest.raises(RknnStatusError, match="rknn_wait") as caught:
            flight.wait()
        assert caught.value.code == code
        assert engine.thread is not None and flight.is_over
        assert read(model) == {0.875}
    assert control.violations == 0


def test_waiting_in_another_thread(model, engine):
    """Any thread can wait; two at once wait for one run."""
    flight = raw.start(model)
    with running(flight.wait, [()] * 4):
        engine.may_end.set()
    assert flight.is_over
    assert read(model) == {0.875}


def test_who_cannot(control):
    """No flag, no librknnrt, custom operators, the copying flow, no model, missing memory."""
    with (
        Model(recorded().data, library="sim") as model,
        pytest.raises(ValueError, match="FENCE_OUT"),
    ):
        raw.start(model)
    with pytest.raises(UnavailableError, match="FENCE_OUT_OUTSIDE"):
        Model(recorded("rv1106").data, library="sim", flags=FENCE)
    with pytest.raises(ValueError, match="fences"):
        GeneralModel(recorded().data, library="sim", flags=FENCE)
    with Model(CUSTOM_SOFTMAX, library="sim", flags=FENCE) as model:
        model.register_custom_op(CUSTOM, softmax)
        with pytest.raises(ValueError, match="custom operators"):
            raw.start(model)
    for wrong in (None, 5, object()):
        with pytest.raises(TypeError, match="model: expected a Model"):
            raw.start(wrong)
    flags = FENCE | InitFlag.MEM_ALLOC_OUTSIDE
    with Model(recorded().data, library="sim", flags=flags) as model:
        with pytest.raises(RuntimeError, match="memory is missing"):
            raw.start(model)
        for wrong, error in ((-1, ValueError), (2**64, ValueError), ("1", TypeError)):
            with pytest.raises(error, match="frame_id"):
                raw.start(model, frame_id=wrong)


def test_a_runtime_before_its_time(control):
    """Of librknnrt 1.5.2 it is not known what rknn_wait waits for: refused before the call."""
    data = recorded(runtime_version="1.5.2").data
    with (
        Model(data, library="sim", flags=FENCE) as model,
        pytest.raises(UnavailableError, match=r"2\.3\.2 or newer"),
    ):
        raw.start(model)
    assert control.calls("rknn_run") == 0


def test_a_wait_that_is_too_short(control, model, engine):
    """Of a C program: success, as librknnrt 2.3.2, the fence is gone, and a violation says so."""
    context = model._context
    extend = ffi.new("rknn_run_extend *", {"non_block": 1, "timeout_ms": 1})
    assert lib.rkr_run(context.handle, context.opened(), extend) == 0
    assert lib.rkr_wait(context.handle, context.opened(), extend) == 0
    assert "nobody can wait for it again" in control.last_violation
    engine.may_end.set()
    assert lib.rkr_wait(context.handle, context.opened(), extend) == -1
    control.reset()


@pytest.fixture
def fence():
    """The fence that the simulated NPU waits for, and the end that makes it ready."""
    ready, camera = os.pipe()
    yield ready, camera
    os.close(ready)
    os.close(camera)


@pytest.fixture
def fenced(control):
    flags = InitFlag.FENCE_IN_OUTSIDE | FENCE
    with Model(recorded().data, library="sim", flags=flags) as loaded:
        loaded.input_view()[...] = 1
        loaded.input_memory().sync_to_device()
        yield loaded


@pytest.mark.parametrize("starts", [False, True])
def test_a_run_waits_for_a_fence(control, fenced, fence, starts):
    """It begins when the fence is ready; the descriptor stays open, for the next run, too."""
    ready, camera = fence
    ended = threading.Event()

    def work():
        if starts:
            raw.start(fenced, fence_fd=ready).wait()
        else:
            raw.run(fenced, fence_fd=ready)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    while control.calls("rknn_run") == 0:
        pass
    assert not ended.is_set()
    os.write(camera, b"1")
    thread.join()
    assert ended.is_set()
    for _ in range(2):
        raw.run(fenced, fence_fd=ready)
    os.fstat(ready)
    assert control.violations == 0


@pytest.mark.slow  # 6 s
def test_a_fence_that_does_not_come(control, fenced, fence):
    """The NPU runs all the same, as the driver has it; a violation says so."""
    raw.run(fenced, fence_fd=fence[0])
    assert "did not come in 6000 ms" in control.last_violation
    control.reset()


def test_what_is_no_fence(control, fenced, fence):
    """No run, and the next one is as ever; out of range it is refused before the call."""
    os.write(fence[1], b"1")
    with pytest.raises(RknnStatusError, match="knows no fence with the descriptor 1000000"):
        raw.run(fenced, fence_fd=1_000_000)
    with pytest.raises(RknnStatusError, match="non_block"):
        raw.start(fenced, fence_fd=1_000_000)
    for wrong, error in (
        (-1, ValueError),
        (2**31, ValueError),
        (None, ValueError),
        ("1", TypeError),
    ):
        for call in (raw.run, raw.start):
            with pytest.raises(error, match="fence_fd"):
                call(fenced, fence_fd=wrong)
    raw.run(fenced, fence_fd=fence[0])


def test_who_takes_no_fence(control, model, fenced, fence):
    """A model without the flag; with it the model's own `run`; runtimes that nobody has asked."""
    for call in (raw.run, raw.start):
        with pytest.raises(ValueError, match="made without InitFlag"):
            call(model, fence_fd=fence[0])
    calls = control.calls("rknn_run")
    for use in (lambda: fenced.run(), lambda: fenced(np.zeros((8, 20, 3), np.uint8))):
        with pytest.raises(RuntimeError, match="each run waits for a fence"):
            use()
    assert control.calls("rknn_run") == calls
    flags = InitFlag.FENCE_IN_OUTSIDE
    with pytest.raises(UnavailableError, match="FENCE_IN_OUTSIDE"):
        Model(recorded("rv1106").data, library="sim", flags=flags)
    with pytest.raises(ValueError, match="fences"):
        GeneralModel(recorded().data, library="sim", flags=flags)
    data = recorded(runtime_version="1.5.2").data
    with (
        Model(data, library="sim", flags=flags) as old,
        pytest.raises(UnavailableError, match=r"fence_fd needs librknnrt 2\.3\.2"),
    ):
        raw.run(old, fence_fd=fence[0])


def test_a_c_program_without_a_fence(control, fenced, fence):
    """As of librknnrt 2.3.2: the last one is handed on, and the driver refuses none."""
    context = fenced._context
    assert lib.rkr_run(context.handle, context.opened(), ffi.NULL) == -1
    assert "the last one is used" in control.last_violation
    os.write(fence[1], b"1")
    raw.run(fenced, fence_fd=fence[0])
    assert lib.rkr_run(context.handle, context.opened(), ffi.NULL) == 0
    control.reset()
