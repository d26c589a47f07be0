"""Every call of every flow fails once with every status: one table, and what follows.

A call that fails while a flow is opened leaves nothing alive; in a frame it leaves the flow usable;
at the end everything else is released.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from flows import FLOWS, Opened, opened

from rknn_runtime import open_library
from rknn_runtime.errors import AllocationError, RknnStatusError, status_error
from rknn_runtime.npu import raw
from rknn_runtime.sim import Control, Live

NOTHING = Live(0, 0, 0)
#: The statuses of the headers and RKNNLite, and one unknown.
CODES = [*range(-16, 0), -42]
#: How many of them each call is given: all of them with `make torture`. They take turns, so that
#: every function gets all.
EACH = len(CODES) if os.environ.get("RKNN_TEST_FAULTS") == "all" else 5
#: These return a pointer and no status.
POINTERS = {
    "rknn_create_mem",
    "rknn_create_mem2",
    "rknn_create_mem_from_fd",
    "rknn_create_mem_from_phys",
}
#: With these a runtime says that it does not have a query: of dynamic shapes (all three), of NHWC
#: views (-5), or of what librknnmrt alone has (-1). How many queries of a model of three tensors
#: may be answered so.
TOLERATED = {-5: 4, -1: 2, -6: 1}
FUNCTIONS = sorted(
    name
    for name in raw.functions(open_library("sim"))
    if "op_attr" not in name and name != "rknn_B_normal_layout_to_native_layout"
)


@dataclass(frozen=True)
class Fault:
    """The nth call of a function in a phase of a flow gives a status."""

    phase: str
    function: str
    nth: int
    code: int


def calls(control: Control) -> dict[str, int]:
    """Count the calls since the last reset."""
    return {name: control.calls(name) for name in FUNCTIONS if control.calls(name)}


def plan(control: Control, name: str) -> tuple[object, dict[str, dict[str, int]]]:
    """Go through a flow without any fault; return the frame's result and the calls by phase."""
    phases = {}
    control.reset()
    made = opened(name)
    phases["open"] = calls(control)
    control.reset()
    result = made.run()
    phases["frame"] = calls(control)
    control.reset()
    made.close()
    phases["close"] = calls(control)
    return result, phases


def faults(phases: dict[str, dict[str, int]]) -> Iterator[Fault]:
    """All of a flow."""
    turn = 0
    for phase, counts in phases.items():
        for function, count in counts.items():
            for nth in range(1, count + 1):
                for _ in range(EACH):
                    yield Fault(phase, function, nth, CODES[turn % len(CODES)])
                    turn += 1


def same(one: object, other: object) -> bool:
    """Whether two results are equal."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return bool(np.array_equal(one, other))
    return one == other


def raised(call: object) -> tuple[type[Exception], int, str] | None:
    """Call, and return class, code and text of the exception, whose traceback is gone then."""
    try:
        call()  # type: ignore[operator]
    except Exception as error:
        return type(error), getattr(error, "code", 0), str(error)
    return None


def check_error(fault: Fault, error: tuple[type[Exception], int, str]) -> None:
    """The class of the status, with the status and the name of the call."""
    kind, code, text = error
    if fault.function in POINTERS:
        assert kind is AllocationError, (fault, error)
    else:
        assert kind is type(status_error(fault.code, "")), (fault, error)
        assert issubclass(kind, RknnStatusError)
        assert code == fault.code, (fault, error)
    assert fault.function in text, (fault, error)


def may_be_ignored(name: str, fault: Fault) -> bool:
    """A query that some models lack; a pool tries which cores there are."""
    if fault.function == "rknn_set_core_mask":
        return name == "Pool" and fault.code in (-1, -5)
    return fault.function == "rknn_query" and fault.code in TOLERATED


def fail_opening(control: Control, name: str, fault: Fault, expected: object) -> bool:
    """Return whether the fault was none to the flow, which then works."""
    control.fail(fault.function, fault.nth, fault.code)
    made: list[Opened] = []
    error = raised(lambda: made.append(opened(name)))
    # Of a simulated model the runtime alone says whether it is dynamic: who says no is believed.
    is_believed = "dynamic" in name and may_be_ignored(name, fault)
    if error is not None:
        if not is_believed:
            check_error(fault, error)
        control.reset()
        return False
    assert may_be_ignored(name, fault), fault
    results: list[object] = []
    error = raised(lambda: results.append(made[0].run()))
    made[0].close()
    assert same(results, [expected]) or (is_believed and error is not None), (fault, error)
    return True


def fail_a_frame(control: Control, name: str, fault: Fault, expected: object) -> bool:
    """Fail a call in a frame; afterwards the flow works as before."""
    made = opened(name)
    try:
        control.reset()
        control.fail(fault.function, fault.nth, fault.code)
        error = raised(made.run)
        if error is not None:
            check_error(fault, error)
        else:
            assert may_be_ignored(name, fault), fault
        control.reset()
        assert same(made.run(), expected), fault
    finally:
        made.close()
    return error is None


def fail_closing(control: Control, name: str, fault: Fault) -> None:
    """The status is raised, everything is released, and a second close has nothing to do."""
    made = opened(name)
    made.run()
    control.reset()
    control.fail(fault.function, fault.nth, fault.code)
    error = raised(made.close)
    assert error is not None, fault
    check_error(fault, error)
    made.close()


def open_files() -> set[tuple[str, str]]:
    """The open descriptors and their files; others in this process may close theirs meanwhile."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add((path.name, str(path.readlink())))
    return found


@pytest.mark.parametrize("name", FLOWS)
def test_every_call_fails_with_every_status(control, record_property, name):
    """The right exception with code and call; nothing stays alive; the flow works, or is closed."""
    expected, phases = plan(control, name)
    # Tensors are asked for when a context is made, and for every shape that is chosen.
    asked = sum(
        counts.get(function, 0)
        for counts in phases.values()
        for function in ("rknn_init", "rknn_dup_context", "rknn_set_input_shapes")
    )
    gc.collect()
    before = open_files(), threading.active_count()
    tried, ignored = 0, dict.fromkeys(TOLERATED, 0)
    for fault in faults(phases):
        control.reset()
        is_ignored = False
        if fault.phase == "open":
            is_ignored = fail_opening(control, name, fault, expected)
        elif fault.phase == "frame":
            is_ignored = fail_a_frame(control, name, fault, expected)
        else:
            fail_closing(control, name, fault)
        if is_ignored and fault.function == "rknn_query":
            ignored[fault.code] += 1
        tried += 1
        if control.live != NOTHING:
            gc.collect()
        assert control.live == NOTHING, fault
        assert control.last_violation == "", fault
    gc.collect()
    assert open_files() <= before[0]
    assert threading.active_count() <= before[1]
    control.reset()
    record_property("combinations", tried)
    assert all(count <= TOLERATED[code] * asked for code, count in ignored.items()), ignored
