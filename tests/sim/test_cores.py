"""The cores of the simulated NPU: each has one run at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from sim_api import Api, computed_bundle
from threads import in_threads

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask
from rknn_runtime.sim import describe_input, describe_output

SOURCE = describe_input("x", (1, 4), scale=None, zero_point=None)
TARGET = describe_output("y", (1, 4), scale=None, zero_point=None)
#: Runs of each thread.
ROUNDS = 20


class Meter:
    """An executor that sees how many cores are at work while it is."""

    def __init__(self, together: int = 0) -> None:
        self.lock = threading.Lock()
        self.busy = self.most = 0
        #: So many runs must meet: none ends before.
        self.meeting = threading.Barrier(together) if together else None

    def of(self, cores: int) -> Callable[..., None]:
        def execute(*_: object) -> None:
            with self.lock:
                self.busy += cores
                self.most = max(self.most, self.busy)
            if self.meeting is not None:
                self.meeting.wait(60)
            for _ in range(5):
                time.sleep(0)  # gives the others every chance
            with self.lock:
                self.busy -= cores

        return execute


@contextmanager
def bound(soc: str, executor: Callable[..., object]) -> Iterator[Api]:
    """A context with everything that a run needs."""
    with Api(computed_bundle([SOURCE], [TARGET], soc=soc)) as api:
        memories = [api.bind("in"), api.bind("out")]
        api.set_executor(executor)
        yield api
        for memory in memories:
            api.destroy_mem(memory)


def set_mask(api: Api, mask: CoreMask) -> None:
    assert lib.rkr_set_core_mask(api.handle, api.context, int(mask)) == 0


def run_all(masks: list[CoreMask], meter: Meter, rounds: int = ROUNDS, soc: str = "rk3588") -> None:
    """Run a context for each mask, all at once."""

    def work(api: Api) -> None:
        for _ in range(rounds):
            assert api.run() == 0

    with ExitStack() as stack:
        executors = [meter.of(max(1, bin(mask).count("1"))) for mask in masks]
        apis = [stack.enter_context(bound(soc, executor)) for executor in executors]
        for api, mask in zip(apis, masks):
            if mask:
                set_mask(api, mask)
        in_threads(work, ((api,) for api in apis))


def test_contexts_on_one_core_take_turns(control):
    """Three of them are no faster than one."""
    meter = Meter()
    run_all([CoreMask.CORE_1] * 3, meter)
    assert meter.most == 1


def test_contexts_on_three_cores_run_at_once(control):
    """They meet in the middle of their runs, each time."""
    run_all([CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2], Meter(3))


def test_a_run_that_waited_begins_when_the_one_before_it_ends(control):
    """Not when a thread has woken: a core that has work does all that it can, and no more."""
    control.set_latency(2000)
    durations: list[int] = []

    def work(api: Api) -> None:
        perf = ffi.new("rknn_perf_run *")
        for _ in range(ROUNDS):
            assert api.run() == 0
            assert api.query(lib.RKNN_QUERY_PERF_RUN, perf) == 0
            durations.append(perf.run_duration)

    with ExitStack() as stack:
        apis = [stack.enter_context(bound("rk3566", lambda *_: None)) for _ in range(3)]
        begin = time.monotonic()
        in_threads(work, ((api,) for api in apis))
        took_us = 1e6 * (time.monotonic() - begin)
    assert min(durations) == 2000  # also of those that waited for a thread to wake
    assert 3 * ROUNDS * 2000 <= sum(durations) <= took_us + 1  # a time is cut to microseconds


def test_auto_takes_a_free_core(control):
    """Three runs go on at once, a fourth waits."""
    run_all([CoreMask.AUTO] * 3, Meter(3))
    meter = Meter()
    run_all([CoreMask.AUTO] * 6, meter)
    assert meter.most <= 3


def test_an_npu_of_one_core_has_one_run(control):
    """As RK3566 and RV1106."""
    for soc in ("rk3566", "rv1106"):
        meter = Meter()
        run_all([CoreMask.AUTO] * 3, meter, soc=soc)
        assert meter.most == 1


def test_a_run_on_three_cores_gets_its_turn(control):
    """Also while others keep each core busy; then it has all three for itself."""
    meter = Meter()
    run_all([CoreMask.AUTO] * 4 + [CoreMask.CORE_0_1_2, CoreMask.CORE_0_1], meter)
    assert meter.most <= 3


def test_a_run_within_a_run_does_not_wait_for_itself(control):
    """As by an executor that uses another model."""
    with ExitStack() as stack:
        inner = stack.enter_context(bound("rk3566", lambda *_: None))
        outer = stack.enter_context(bound("rk3566", lambda *_: inner.run()))
        assert outer.run() == 0
        assert outer.run() == 0


def test_a_child_finds_all_cores_free(control):
    """Whatever runs in the parent while it forks."""
    inside, leave = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        inside.set()
        leave.wait(60)

    with bound("rk3566", wait) as api:
        thread = threading.Thread(target=api.run)
        thread.start()
        inside.wait(60)
        child = os.fork()
        if child == 0:
            with bound("rk3566", lambda *_: None) as own:
                os._exit(own.run())
        _, status = os.waitpid(child, 0)
        leave.set()
        thread.join()
        assert os.waitstatus_to_exitcode(status) == 0


def test_runs_share_the_bus(control):
    """Three cores that move 1 MB each over a bus of 20 MB/s need 0.15 s together, not 0.05."""
    masks = [CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2]
    control.set_bus(20_000_000, 1_000_000)
    begin = time.monotonic()
    run_all(masks[:1], Meter(), rounds=1)
    assert time.monotonic() - begin >= 0.05
    begin = time.monotonic()
    run_all(masks, Meter(together=3), rounds=1)
    assert time.monotonic() - begin >= 0.15
    control.set_bus(0, 2**53 - 1)
    run_all(masks, Meter(together=3), rounds=1)  # without limit, else it would take 14 years


def test_a_bus_may_change_while_runs_wait_for_it(control):
    """The rest of a run then moves at the new speed."""
    control.set_bus(1, 1_000_000_000)
    with bound("rk3588", lambda *_: control.set_bus(10**12, 0)) as api:
        assert api.run() == 0
    for wrong in (-1, 2**53):
        with pytest.raises(ValueError, match="bytes_per_second"):
            control.set_bus(wrong, 1)
        with pytest.raises(ValueError, match="bytes_per_run"):
            control.set_bus(1, wrong)
    with pytest.raises(TypeError, match="bytes_per_run"):
        control.set_bus(1, 1.5)


def test_more_cores_are_faster_when_that_is_asked_for(control):
    """By the factor given; one core keeps the latency."""
    with bound("rk3588", lambda *_: None) as api:
        set_mask(api, CoreMask.CORE_0_1_2)
        control.set_latency(60_000_000)
        control.set_core_speed(3, 1000)
        assert api.run() == 0  # in 60 ms, not in a minute
        perf = ffi.new("rknn_perf_run *")
        assert api.query(lib.RKNN_QUERY_PERF_RUN, perf) == 0
        assert 60_000 <= perf.run_duration < 60_000_000
        control.reset()
        control.set_latency(20_000)
        assert api.run() == 0
        assert api.query(lib.RKNN_QUERY_PERF_RUN, perf) == 0
        assert perf.run_duration >= 20_000
    for cores in (1, 4):
        with pytest.raises(ValueError, match="cores"):
            control.set_core_speed(cores, 2.0)
    for factor in (0, -1, 1001, float("nan")):
        with pytest.raises(ValueError, match="factor"):
            control.set_core_speed(2, factor)
    for wrong in ("2", None):
        with pytest.raises(TypeError):
            control.set_core_speed(2, wrong)
