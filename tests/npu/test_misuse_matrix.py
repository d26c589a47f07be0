"""What nobody should do with a flow: for every row of the table, without crash, leak or deadlock.

Forks and the end of the process are in `test_last_moments.py`.
"""

from __future__ import annotations

import contextlib
import gc
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError

import numpy as np
import pytest
from flows import FLOWS, Opened, data_of, opened
from test_fault_matrix import same

from rknn_runtime import Matmul, Model, TensorMemory
from rknn_runtime.errors import ClosedError, RknnError, RknnStatusError, UnavailableError
from rknn_runtime.sim import Live

NOTHING = Live(0, 0, 0)
THREADS = 8
#: A frame of these is several calls that change the model, so that threads have to agree on
#: whose turn it is: their results are those of anybody.
OF_SEVERAL_CALLS = {
    "partial sync",
    "memory from outside",
    "memory that comes and goes",
    "dynamic shapes",
    "dynamic shapes of a GeneralModel",
    "raw",
    "a run without blocking",
    "a run behind a fence",
    "Matmul",
    "Matmul of several M",
}
#: What threads may be told who disturb each other.
TOLD = (RknnError, ValueError, BufferError, RuntimeError)
every_flow = pytest.mark.parametrize("name", FLOWS)


def close_at_last(made: Opened) -> None:
    """Close, as often as somebody has bound a memory meanwhile."""
    while True:
        try:
            made.close()
            return
        except BufferError:
            continue


def in_threads(work: Callable[[], None]) -> list[BaseException]:
    """Do the same in all threads at once; return their exceptions."""
    start, errors = threading.Barrier(THREADS), []

    def run() -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error.with_traceback(None))

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@every_flow
def test_after_close(control, name):
    """`ClosedError`, again and again; another close does nothing, and results stay."""
    made = opened(name)
    result = made.run()
    kept = [np.copy(each) for each in _arrays(result)]
    made.close()
    made.close()
    for _ in range(2):
        with pytest.raises(ValueError if name == "RKNNLite" else ClosedError):
            made.run()
    made.close()
    assert control.live == NOTHING
    assert all(np.array_equal(one, other) for one, other in zip(_arrays(result), kept))


def _arrays(result: object) -> list[np.ndarray]:
    if isinstance(result, np.ndarray):
        return [result]
    parts = result if isinstance(result, (list, tuple)) else ()
    return [array for part in parts for array in _arrays(part)]


@every_flow
def test_in_a_cycle(control, name):
    """What nobody closes is collected, although it refers to itself."""

    class Holder:
        pass

    others = set(threading.enumerate())
    holder = Holder()
    holder.made = opened(name)
    holder.result = holder.made.run()
    holder.made.holder = holder
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None
    for thread in set(threading.enumerate()) - others:  # a pool's, which are told to end
        thread.join(60)
        assert not thread.is_alive(), thread
    assert control.live == NOTHING


@every_flow
def test_eight_threads(control, name):
    """Every result is whole, or an exception names the other thread's interference."""
    made = opened(name)
    expected = made.run()
    wrong: list[object] = []

    def work() -> None:
        for _ in range(5):
            if name not in OF_SEVERAL_CALLS:
                found = made.run()
                if not same(found, expected):
                    wrong.append(found)
                continue
            try:
                made.run()
            except TOLD:
                continue

    assert in_threads(work) == []
    assert wrong == []
    close_at_last(made)
    assert control.live == NOTHING
    control.reset()


@every_flow
def test_closed_while_others_run(control, name):
    """Each thread ends with an exception of this package, and nothing is left."""
    made = opened(name)
    made.run()
    ran = threading.Event()

    def work() -> None:
        while True:
            made.run()
            ran.set()

    def patient() -> None:
        while True:
            try:
                made.run()
            except ClosedError:
                raise
            except TOLD:
                continue
            ran.set()

    def close() -> None:
        ran.wait()
        close_at_last(made)

    closing = threading.Thread(target=close)
    closing.start()
    errors = in_threads(patient if name in OF_SEVERAL_CALLS else work)
    closing.join()
    assert len(errors) == THREADS
    told = {"RKNNLite": ValueError, "Pool": (ClosedError, CancelledError)}.get(name, ClosedError)
    assert all(isinstance(error, told) for error in errors), errors
    errors.clear()
    made.close()
    gc.collect()
    assert control.live == NOTHING
    control.reset()


@every_flow
def test_control_c_in_a_long_run(control, name):
    """`KeyboardInterrupt` comes when the NPU is done; the next frame is as ever."""
    made = opened(name)
    expected = made.run()
    control.reset()
    made.run()
    assert control.calls("rknn_run") + control.calls("rknn_matmul_run") > 0
    control.set_latency(50_000)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            while True:
                made.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    control.reset()
    assert same(made.run(), expected)
    made.close()
    gc.collect()
    assert control.live == NOTHING


def memories(made: Opened) -> list[TensorMemory]:
    """The memories that models and matrix products show and the CPU sees."""
    found = []
    for thing in made.things:
        if isinstance(thing, Model):
            found += map(thing.input_memory, range(len(thing.inputs)))
            found += map(thing.output_memory, range(len(thing.outputs)))
        elif isinstance(thing, Matmul):
            found += [thing.a_memory, thing.b_memory, thing.c_memory]
    return [memory for memory in found if memory.is_mapped]


@every_flow
def test_views_outlive_models(control, name):
    """`close` is refused while a view lives; a view keeps its values when its models are gone."""
    made = opened(name)
    made.run()
    views = [memory.array() for memory in memories(made)]
    before = [view.copy() for view in views]
    if views:
        with pytest.raises(BufferError):
            made.close()
    else:
        made.close()  # GeneralModel, Pool and RKNNLite show no memory
        assert not any(isinstance(each, (Model, Matmul)) for each in made.things)
    del made
    gc.collect()
    while views:
        assert np.array_equal(views[-1], before.pop())
        views.pop().fill(0)
    gc.collect()
    assert control.live == NOTHING


@every_flow
def test_foreign_memories(control, name):
    """Memory of another model, and of one that is closed, is refused; the flow goes on."""
    made = opened(name)
    expected = made.run()
    other, closed = (Model(data_of(), library="sim") for _ in range(2))
    foreign = [TensorMemory(other, 8192), TensorMemory(closed, 8192), object(), None]
    closed.close()
    calls = control.calls("rknn_set_io_mem")
    for thing in made.things:
        if not isinstance(thing, Model):
            continue
        for memory in foreign:
            for bind in (
                thing.bind_input,
                thing.bind_output,
                lambda _, memory, thing=thing: thing.set_internal_memory(memory),
                lambda _, memory, thing=thing: thing.set_weight_memory(memory),
            ):
                with pytest.raises((ValueError, TypeError, ClosedError)):
                    bind(0, memory)
    assert control.calls("rknn_set_io_mem") == calls
    assert same(made.run(), expected)
    other.close()
    made.close()
    assert control.live == NOTHING


@every_flow
def test_exceptions_in_callbacks(control, name):
    """An exception of a custom operator ends the run that called it, and nothing else.

    Only the flow with custom operators has nodes that these could compute.
    """

    class Stop(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stop

    made = opened(name)
    expected = made.run()
    for thing in made.things:
        for op_type in ("cstNone", "exDataConvert"):
            if hasattr(thing, "register_custom_op"):
                with contextlib.suppress(UnavailableError, RknnStatusError):
                    thing.register_custom_op(op_type, stop)
    if name == "custom operators":
        for _ in range(2):
            with pytest.raises(Stop):
                made.run()
    elif name == "a run without blocking":  # which custom operators cannot have
        with pytest.raises(ValueError, match="custom operators"):
            made.run()
    else:
        assert same(made.run(), expected)
    made.close()
    gc.collect()
    assert control.live == NOTHING
