"""Failures on demand, latency, counters; through functions and through the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import TESTS
from processes import python
from sim_api import Api, computed_bundle

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Control, Record, bundle_from_arrays, describe_input, describe_output

SOURCE = describe_input("image", (1, 3, 4, 20))
TARGET = describe_output("output", (1, 4))
ANSWER = np.arange(4, dtype=np.int8).reshape(1, 4)


def bundle() -> bytes:
    return bundle_from_arrays([SOURCE], [TARGET], [Record([ANSWER])])


@pytest.fixture
def control() -> Iterator[Control]:
    control = Control()
    control.reset()
    assert control.live == (0, 0, 0)
    yield control
    assert control.live == (0, 0, 0)
    control.reset()


def test_functions_that_return_a_pointer_return_null(control: Control) -> None:
    """All five of them, whatever the code."""
    with Api(bundle()) as api:
        handle, context = api.handle, api.context
        out = ffi.new("rknn_tensor_mem **")
        page = ffi.new("char[64]")
        for name, call in {
            "create_mem": lambda: lib.rkr_create_mem(handle, context, 64, out),
            "create_mem2": lambda: lib.rkr_create_mem2(handle, context, 64, 0, out),
            "create_mem_from_phys": lambda: lib.rkr_create_mem_from_phys(
                handle, context, 0, page, 64, out
            ),
        }.items():
            control.fail(f"rknn_{name}", code=-4)
            assert call() == lib.RKR_ERR_NULL
            assert call() == 0
            assert api.destroy_mem(out[0]) == 0
        control.fail("rknn_create_mem_from_fd")
        fd = os.open(os.devnull, os.O_RDWR)
        status = lib.rkr_create_mem_from_fd(handle, context, fd, ffi.NULL, 64, 0, out)
        os.close(fd)
        assert status == lib.RKR_ERR_NULL
        assert "on demand" in control.last_message
        null = ffi.NULL
        assert lib.rkr_create_mem_from_mb_blk(handle, context, null, 0, out) == lib.RKR_ERR_NULL


def test_the_nth_call_fails_or_every_one(control: Control) -> None:
    """Counting starts when the failure is set; 0 stays until the reset."""
    with Api(bundle()) as api:
        control.fail("rknn_run", nth=3, code=-2)
        control.fail("rknn_run", nth=4, code=-3)
        assert [api.run() for _ in range(5)] == [0, 0, -2, -3, 0]
        control.fail("rknn_run", nth=0, code=-1)
        assert [api.run() for _ in range(3)] == [-1, -1, -1]
        control.reset()
        assert api.run() == 0


def test_bad_requests_are_refused(control: Control) -> None:
    """Unknown functions and more than 64 failures."""
    with pytest.raises(ValueError, match="function: expected one of the RKNN API"):
        control.fail("rknn_nothing")
    with pytest.raises(ValueError, match="function: expected one of the RKNN API"):
        control.calls("run")
    for _ in range(64):
        control.fail("rknn_run")
    with pytest.raises(ValueError, match="64 failures"):
        control.fail("rknn_run")
    wrong: Any
    for wrong in (5, None, b"rknn_run"):
        with pytest.raises(TypeError, match="function: expected a str"):
            control.fail(wrong)
        with pytest.raises(TypeError, match="function: expected a str"):
            control.calls(wrong)
    for wrong, error in ((-1, ValueError), (1 << 32, ValueError), (0.5, TypeError)):
        with pytest.raises(error, match="nth: expected"):
            control.fail("rknn_run", nth=wrong)
        with pytest.raises(error, match="microseconds: expected"):
            control.set_latency(wrong)
    with pytest.raises(ValueError, match="code: expected -2147483648"):
        control.fail("rknn_run", code=1 << 31)
    with pytest.raises(TypeError, match="library: expected a Library, got str"):
        Control("sim")  # type: ignore[arg-type]


def test_the_environment_steers_a_process(tmp_path: Path) -> None:
    """RKNN_SIM_FAIL, RKNN_SIM_LATENCY_US, RKNN_SIM_LOG, or the vendor's RKNN_LOG_LEVEL."""
    model = tmp_path / "model.rknnsim"
    model.write_bytes(bundle())
    log = tmp_path / "log.txt"
    script = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from sim_api import *
with Api(open({str(model)!r}, "rb").read()) as api:
    print([api.run() for _ in range(3)], api.create_mem(64) == ffi.NULL)
    perf = ffi.new("rknn_perf_run *")
    api.query(lib.RKNN_QUERY_PERF_RUN, perf)
    print(perf.run_duration >= 3000)
"""
    environment = {
        **os.environ,
        "RKNN_SIM_FAIL": "rknn_run:2:-7;rknn_create_mem:1:-4;nonsense;rknn_run:x:1",
        "RKNN_SIM_LATENCY_US": "3000",
        "RKNN_SIM_LOG": str(log),
    }
    done = python(script, env=environment)
    assert done.stdout.splitlines() == ["[0, -7, 0] True", "True"]
    lines = log.read_text().splitlines()
    assert lines.count("rknn_sim error: RKNN_SIM_FAIL is not function:nth:code[;...]") == 2
    assert "rknn_sim note: rknn_run fails with -7 on demand" in lines
    environment.update(RKNN_SIM_LOG="stderr", RKNN_SIM_LATENCY_US="fast", RKNN_SIM_FAIL="")
    done = python(script, env=environment)
    assert "RKNN_SIM_LATENCY_US is not a number" in done.stderr
    del environment["RKNN_SIM_LOG"]
    for level, talks in (("0", False), ("4", True)):
        environment["RKNN_LOG_LEVEL"] = level
        done = python(script, env=environment)
        assert ("RKNN_SIM_LATENCY_US is not a number" in done.stderr) == talks


class Gate:
    """An executor that says when it was entered, and waits until it may go on."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()

    def __call__(self, _: Any, outputs: Any) -> None:
        self.entered.set()
        assert self.go_on.wait(60)
        outputs[0][...] = 1


def test_contexts_run_at_the_same_time(control: Control) -> None:
    """While one executor waits, another context runs; calls on one context queue up."""
    gate = Gate()
    computed = computed_bundle([SOURCE], [TARGET], "rk3588")
    statuses: list[int] = []
    with Api(computed) as slow, Api(bundle()) as fast:
        slow.set_executor(gate)
        mem = slow.bind("in", type=TensorType.UINT8)
        runner = threading.Thread(target=lambda: statuses.append(slow.run()))
        runner.start()
        assert gate.entered.wait(60)
        assert fast.run() == 0
        queued = threading.Thread(target=lambda: statuses.append(slow.sync(mem, 1)))
        queued.start()
        assert statuses == []
        gate.go_on.set()
        runner.join()
        queued.join()
        assert statuses == [0, 0]
        assert slow.destroy_mem(mem) == 0


def test_a_context_destroyed_while_others_wait_for_it(control: Control) -> None:
    """They find it gone and are refused."""
    gate = Gate()
    api = Api(computed_bundle([SOURCE], [TARGET], "rk3588"))
    api.set_executor(gate)
    mem = api.bind("in", type=TensorType.UINT8)
    statuses: dict[str, int] = {}
    calls = {
        "run": api.run,
        "mem": lambda: api.destroy_mem(mem),
        "destroy": lambda: lib.rkr_destroy(api.handle, api.context),
        "query": lambda: api.attr("in", "native")[0],
    }
    threads = [
        threading.Thread(target=lambda name=name, call=call: statuses.update({name: call()}))
        for name, call in calls.items()
    ]
    threads[0].start()
    assert gate.entered.wait(60)
    for thread in threads[1:]:
        thread.start()
    gate.go_on.set()
    for thread in threads:
        thread.join()
    assert statuses["run"] == 0
    # The context and its memory are gone, in any order.
    assert statuses["destroy"] in (0, lib.RKNN_ERR_FAIL)
    assert statuses["mem"] in (0, lib.RKNN_ERR_CTX_INVALID)
    assert statuses["query"] in (0, lib.RKNN_ERR_CTX_INVALID)


def test_a_forked_child_can_use_the_library(control: Control) -> None:
    """The locks are free in the child, whatever other threads of the parent do."""
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            with Api(bundle()) as api:
                assert api.run() == 0

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                with Api(bundle()) as api:
                    os._exit(-api.run())
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
