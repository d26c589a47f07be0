"""Whatever happens, in whatever order: nothing leaks, nothing crashes, nothing is used late."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from bundles import image, recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, softmax
from paths import PROJECT
from processes import python

from rknn_runtime import InputSpec, Layout, Model, TensorMemory, TensorType
from rknn_runtime.kernels import quantization
from rknn_runtime.sim import Live, describe_input

NOTHING = Live(0, 0, 0)
FRAME = np.zeros((8, 20, 3), np.uint8)


# Failures


def test_a_failing_release_of_the_collector_is_logged(control, caplog):
    """There is nobody to raise to: the log has the status."""
    model = Model(recorded().data, library="sim")
    control.fail("rknn_destroy", 1, -7)
    with caplog.at_level("WARNING", logger="rknn_runtime"):
        del model
        gc.collect()
    assert "rknn_destroy(...) failed with -7" in caplog.text


# Order


INPUT_KINDS = {
    "pixels": (image(), None),
    "image as elements": (image(), InputSpec(pass_through=True)),
    "image as floats": (image(), InputSpec(dtype=TensorType.FLOAT32, normalized=True)),
    "feature map": (describe_input("x", (1, 17, 8, 20), zero_point=5, scale=0.25), None),
    "packed": (
        describe_input("x", (1, 17, 8, 20), zero_point=5, scale=0.25),
        InputSpec(pass_through=True, layout=Layout.NC1HWC2),
    ),
    "vector": (describe_input("x", (1, 12), zero_point=3, scale=0.25), None),
    "half floats": (describe_input("x", (1, 12), dtype=TensorType.FLOAT16), None),
    "integers": (
        describe_input("x", (1, 8), dtype=TensorType.INT64, zero_point=None, scale=None), None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", INPUT_KINDS)
@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(3, np.float32), np.zeros((8, 20, 3), np.complex64), np.zeros((0,), np.int8),
        np.zeros((1, 3, 8, 20), object), "no array",
    ],
    ids=["shape", "dtype", "empty", "objects", "text"],
)  # fmt: skip
def test_a_refused_input_does_not_keep_the_model_open(control, kind, wrong):
    """Neither at the end of ``with`` nor in ``except``, where its traceback is alive."""
    attr, spec = INPUT_KINDS[kind]
    for ends_itself in (True, False):
        options = {} if spec is None else {"inputs": [spec]}
        model = Model(recorded(inputs=[attr]).data, library="sim", **options)
        try:
            with model if ends_itself else contextlib.nullcontext():
                model.run(wrong)
        except (TypeError, ValueError):
            assert model.is_closed is ends_itself
            model.close()
        else:
            pytest.fail("taken")
        assert control.live == NOTHING


def test_close_is_refused_while_a_traceback_holds_memory(control, monkeypatch):
    """What interrupts a kernel has its arrays in the traceback: no debugger reads freed memory."""
    unpacking, interrupts = quantization.unpacking, [KeyboardInterrupt]

    def interrupted(*arguments):
        shape, write = unpacking(*arguments)

        def write_later(out):
            if interrupts:
                raise interrupts.pop()
            return write(out)

        return shape, write_later

    case = recorded()
    model = Model(case.data, library="sim")
    monkeypatch.setattr(quantization, "unpacking", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        model(FRAME)
    with pytest.raises(BufferError, match="tracebacks that hold output 0 'map'"):
        model.close()
    assert not model.is_closed
    assert (model(FRAME)[0] == case.expected[0]).all()
    del caught
    gc.collect()
    model.close()


# Threads


def test_other_threads_run_while_the_npu_works(control):
    """The GIL is free during rknn_run: this thread wakes before the run has ended."""
    started, ended = threading.Event(), []
    interval = sys.getswitchinterval()

    def work(model):
        started.set()
        model.run(FRAME)
        ended.append(True)

    with Model(recorded().data, library="sim") as model:
        control.set_latency(300_000)
        thread = threading.Thread(target=work, args=(model,))
        # So long that without a release the other thread would reach its end first.
        sys.setswitchinterval(60)
        try:
            thread.start()
            started.wait()
            free = not ended
        finally:
            sys.setswitchinterval(interval)
            thread.join()
    assert free
    assert ended


# Processes


def script(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a new process, which newer ones warn of threads beside a fork."""
    return python(body, *arguments, env={**os.environ, "PYTHONWARNINGS": "ignore"})


@pytest.fixture
def bundle(tmp_path) -> str:
    path = tmp_path / "model.bundle"
    path.write_bytes(recorded().data)
    return str(path)


HEAD = """
import atexit, gc, os, sys
def late():
    if "late" in sys.argv:
        try:
            model.run(frame)
        except ClosedError:
            return
        os._exit(3)
    if "view" in sys.argv:
        view[...] = 1
atexit.register(late)
import numpy as np
from rknn_runtime import Model
from rknn_runtime.errors import ClosedError, ForkError
from rknn_runtime.sim import Control, Live
model = Model(sys.argv[1], library="sim")
frame = np.zeros((8, 20, 3), np.uint8)
"""


@pytest.mark.parametrize(("use", "ending"), [("late", ""), ("view", "view = model.output_raw()")])
def test_a_use_after_the_release_at_exit_is_harmless(bundle, use, ending):
    """A late exit handler gets `ClosedError`, and an array that is still alive its memory."""
    run = script(HEAD + ending, bundle, use)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_importing_needs_no_vendor_library(tmp_path):
    """``import rknn_runtime`` touches no library and no root logger, and prints nothing."""
    run = script(
        "import logging, sys; import rknn_runtime\n"
        "from rknn_runtime.npu import library\n"
        "assert library._opened == {}\n"
        "assert logging.getLogger().handlers == []\n"
        "assert logging.getLogger('rknn_runtime').handlers == []"
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


# Interruptions

INTERRUPT = (
    HEAD
    + """
import random, signal
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
interrupts = 0
while interrupts < 400:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 5e-4))
        while True:
            model.output_f32()
    except KeyboardInterrupt:
        interrupts += 1
model.run(frame)
model.close()
print("ended")
"""
)


@pytest.mark.skipif(
    not (3, 10) <= sys.version_info < (3, 14),
    reason="needs Python 3.10 to 3.13: others interrupt a with statement before its block begins",
)
def test_an_interrupted_call_does_not_keep_the_lock(bundle):
    """After a `KeyboardInterrupt` at any point of a call the model can be used and closed."""
    done = script(INTERRUPT, bundle)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_owns_npu_memory_is_not_copied(control, take):
    """A copy's arrays would outlive the memory: copying and pickling are refused."""
    with Model(recorded().data, library="sim") as model:
        for owner in (model, model.input_memory()):
            with pytest.raises(TypeError, match="neither copied nor pickled"):
                take(owner)


def test_views_that_only_a_cycle_holds_do_not_keep_a_model_open(control):
    """They are collected before it refuses to close, as nobody can drop them."""
    gc.disable()
    try:
        model = Model(recorded().data, library="sim")
        cycle = [model.output_raw(0)]
        cycle.append(cycle)
        with pytest.raises(BufferError, match="arrays that view the memory of output 0"):
            model.close()
        del cycle
        model.close()
    finally:
        gc.enable()


def test_close_is_refused_while_further_memory_is_viewed(control):
    """Further memory of a model is released with it, but never under a view."""
    with Model(recorded().data, library="sim") as model:
        further = TensorMemory(model._context, 64)
        view = further.array()
        with pytest.raises(BufferError, match="arrays that view NPU memory"):
            model.close()
        view[:] = 1
        assert model.output_f32().dtype == np.float32
        del view


# Collected in the middle of a call


def test_a_memory_dropped_while_another_thread_runs_is_released_after_the_run(control):
    """The collector calls no runtime that another thread is in; the next user of it does."""
    with Model(recorded().data, library="sim") as model:
        memory = TensorMemory(model._context, 64)
        control.set_latency(200_000)
        before = control.calls("rknn_run")
        thread = threading.Thread(target=model.run, args=(FRAME,))
        thread.start()
        while control.calls("rknn_run") == before:
            pass
        alive = control.live.memories
        del memory
        gc.collect()
        assert control.live.memories == alive
        thread.join()
        assert control.live.memories == alive
        model.output_f32()
        assert control.live.memories == alive - 1


def test_a_memory_dropped_within_this_threads_own_run_is_released_after_it(control):
    """A custom operator is Python, called from within ``rknn_run``."""
    model = Model(CUSTOM_SOFTMAX, library="sim")
    memories = [TensorMemory(model._context, 64)]
    seen: list[int] = []

    def dropping(node, inputs, outputs):
        memories.clear()
        gc.collect()
        seen.append(control.calls("rknn_destroy_mem"))
        softmax(node, inputs, outputs)

    model.register_custom_op(CUSTOM, dropping)
    before = control.calls("rknn_destroy_mem")
    model.run()
    assert seen == [before]
    assert model.sdk_version.api
    assert control.calls("rknn_destroy_mem") == before + 1
    model.close()


# Forks while a thread is inside


@pytest.mark.parametrize("kind", ["decoder", "classifier", "detector"])
def test_a_fork_while_a_thread_is_inside_does_not_stop_the_child(kind):
    """Decoders go on in the child; objects with a model raise `ForkError` at once."""
    run = script(
        """
import os, signal, sys, threading
import numpy as np
from rknn_runtime import Detector, Model
from rknn_runtime.errors import ForkError
from rknn_runtime.sim import Control, describe_output
from rknn_runtime.vision.heads import ClassificationDecoder
kind, path = sys.argv[1:]
if kind == "classifier":
    used = ClassificationDecoder(describe_output("y", (1, 10)))
    raw = np.zeros((1, 10), np.int8)
    use, lock = lambda: used(raw), used._lock
else:
    model = Model(path, library="sim")
    detector = Detector(model)
    frame = np.zeros((320, 320, 3), np.uint8)
    raw = [model.output_raw(i).copy() for i in range(len(model.outputs))]
    use = (lambda: detector(frame)) if kind == "detector" else lambda: detector.decoder(raw)
    lock = model._context._owned.lock if kind == "detector" else detector.decoder._lock
inside, leave = threading.Event(), threading.Event()
def hold():
    with lock.held():
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)
    try:
        use()
        os._exit(0 if kind != "detector" else 1)
    except ForkError:
        os._exit(0 if kind == "detector" else 2)
assert os.waitpid(pid, 0)[1] == 0
leave.set()
thread.join()
use()
print("fine")
""",
        kind,
        str(PROJECT / "examples" / "models" / "shapes_rk3588.rknn"),
    )
    assert (run.stdout, run.stderr) == ("fine\n", "")
