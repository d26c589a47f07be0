"""Caches of the simulated librknnmrt: use of old bytes is a violation, needless syncs are none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import TESTS
from processes import python
from sim_api import Api, bytes_of, computed_bundle

from rknn_runtime import Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.npu.library import SIMULATED
from rknn_runtime.sim import Control, Record, bundle_from_arrays, describe_input, describe_output

MINI, FULL = "rv1106", "rk3588"
TO_DEVICE, FROM_DEVICE = lib.RKNN_MEMORY_SYNC_TO_DEVICE, lib.RKNN_MEMORY_SYNC_FROM_DEVICE


def bundle(soc: str = MINI) -> bytes:
    """64 numbers in, 64 out, of one unit per step."""
    return computed_bundle(
        [describe_input("x", (1, 64), soc=soc)], [describe_output("y", (1, 64), soc=soc)], soc
    )


def add_one(inputs: list[Any], outputs: list[Any]) -> None:
    outputs[0][...] = inputs[0] + 1


@pytest.fixture(autouse=True)
def control() -> Iterator[Control]:
    control = Control()
    control.reset()
    yield control
    control.reset()
    control.set_caches(strict=True)


class Bound(Api):
    """A context with a memory for its input and one for its output, which adds one."""

    def __init__(self, soc: str = MINI, *, strict: bool = True) -> None:
        super().__init__(bundle(soc), strict=strict)
        self.set_executor(add_one)
        self.source = self.bind("in", pass_through=int(soc == FULL))
        self.target = self.bind("out")

    def __exit__(self, *_: object) -> None:
        assert self.destroy_mem(self.source) == self.destroy_mem(self.target) == 0
        assert self.destroy() == 0

    def write(self, *numbers: int) -> None:
        bytes_of(self.source)[: len(numbers)] = numbers

    def read(self) -> list[int]:
        return bytes_of(self.target)[:4].tolist()


def test_an_input_that_is_not_synced_is_a_violation() -> None:
    """The NPU computes with the old bytes, and the violation names input and call."""
    with Bound() as api:
        api.write(1, 2, 3, 4)
        assert api.sync(api.source, TO_DEVICE) == 0
        assert api.run() == 0
        assert api.control.violations == 0
        api.write(5, 6, 7, 8)
        assert api.run() == 0
        assert api.control.violations == 1
        assert "input x" in api.control.last_violation
        assert "rknn_mem_sync(RKNN_MEMORY_SYNC_TO_DEVICE)" in api.control.last_violation
        assert api.sync(api.target, FROM_DEVICE) == 0
        assert api.read() == [2, 3, 4, 5]
        assert api.sync(api.source, TO_DEVICE) == 0
        assert api.run() == 0
        assert api.sync(api.target, FROM_DEVICE) == 0
        assert api.read() == [6, 7, 8, 9]
        assert api.control.violations == 1


def test_an_output_that_is_read_before_its_sync_is_a_violation() -> None:
    """The CPU sees the old bytes, once per run the violation names output and call."""
    with Bound() as api:
        for run in (1, 2):
            api.write(run, run, run, run)
            assert api.sync(api.source, TO_DEVICE) == 0
            assert api.run() == 0
            before = [run if run > 1 else 0] * 4
            assert api.read() == api.read() == before
            assert api.control.violations == run
            assert "output y" in api.control.last_violation
            assert "rknn_mem_sync(RKNN_MEMORY_SYNC_FROM_DEVICE)" in api.control.last_violation
            assert api.sync(api.target, FROM_DEVICE) == 0
            assert api.read() == [run + 1] * 4
            assert api.control.violations == run


def test_an_output_that_nobody_reads_is_no_violation() -> None:
    """Several runs, then a sync and a look; or none at all."""
    with Bound() as api:
        for _ in range(3):
            assert api.run() == 0
        assert api.sync(api.target, FROM_DEVICE) == 0
        assert api.read() == [1] * 4
        assert api.run() == 0
    assert api.control.violations == 0


def test_what_the_npu_wrote_it_may_read_itself() -> None:
    """One memory as output and then as input needs no sync: the CPU has no part in it."""
    with Bound() as api:
        assert api.run() == 0
        assert api.set_io_mem(api.target, api.good_attr("in", "native")) == 0
        assert api.set_io_mem(api.source, api.good_attr("out", "native")) == 0
        assert api.run() == 0
        assert api.sync(api.source, FROM_DEVICE) == 0
        assert bytes_of(api.source)[:4].tolist() == [2] * 4
        assert api.control.violations == 0


def test_a_destroyed_memory_that_is_still_bound_can_be_read() -> None:
    """As before the NPU wrote to it: the pages stay until it is unbound."""
    with Bound() as api:
        assert api.run() == 0
        view = bytes_of(api.target)
        assert api.destroy_mem(api.target) == 0
        assert view[:4].tolist() == [0] * 4
        api.target = api.bind("out")


@pytest.mark.parametrize(("soc", "strict"), [(MINI, False), (FULL, True)])
def test_coherent_caches_need_no_sync(soc: str, strict: bool) -> None:
    """CPU and NPU see the same bytes: on librknnmrt when asked for, on librknnrt always."""
    with Bound(soc, strict=strict) as api:
        for run in (1, 2):
            api.write(run, run, run, run)
            assert api.run() == 0
            assert api.read() == [run + 1] * 4
        assert api.control.violations == 0


def test_the_caches_are_chosen_by_a_bool(control: Control) -> None:
    """Nothing else, and by keyword alone."""
    with pytest.raises(TypeError, match="strict: expected a bool, got str"):
        control.set_caches(strict="yes")  # type: ignore[arg-type]


def test_a_choice_outlives_the_loading_of_a_model(control: Control) -> None:
    """Model asks for strict caches only where nobody said anything."""
    source, target = describe_input("x", (1, 4), soc=MINI), describe_output("y", (1, 4), soc=MINI)
    data = bundle_from_arrays([source], [target], [Record([np.ones((1, 4), np.int8)])], soc=MINI)
    for strict in (False, True):
        control.set_caches(strict=strict)
        with Model(data, library="sim") as model:
            memory = model.input_memory(0)
            memory.array()[:] = 1
            lib.rkr_run(model.library.handle, model._context.opened(), ffi.NULL)
        assert control.violations == int(strict)


#: A program that knows nothing of this package and never syncs, as the vendor's own demos.
FOREIGN = """
import ctypes, sys
path, model = sys.argv[1:]
lib = ctypes.CDLL(path)
data = open(model, "rb").read()
class Mem(ctypes.Structure):
    _fields_ = [("virt_addr", ctypes.c_void_p), ("phys_addr", ctypes.c_uint64),
                ("fd", ctypes.c_int32), ("offset", ctypes.c_int32), ("size", ctypes.c_uint32)]
word = ctypes.c_size_t
context = word()
assert lib.rknn_init(ctypes.byref(context), data, len(data), 0, None) == 0
create = lib.rknn_create_mem
create.restype, create.argtypes = ctypes.POINTER(Mem), [word, ctypes.c_uint32]
mems = []
for command in (8, 9):
    attr = ctypes.create_string_buffer(376)
    assert lib.rknn_query(context, command, attr, 376) == 0
    mems.append(create(context, 64))
    assert lib.rknn_set_io_mem(context, mems[-1], attr) == 0
ctypes.memmove(mems[0].contents.virt_addr, bytes([1, 2, 3, 4]), 4)
status = lib.rknn_run(context, None)
seen = list(ctypes.string_at(mems[1].contents.virt_addr, 4))
text = ctypes.create_string_buffer(512)
lib.rknn_sim_violations.restype = ctypes.c_uint64
print(status, seen, lib.rknn_sim_violations(text, 512), text.value.decode())
"""


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        (None, "0 [5, 6, 7, 8] 0 "),
        ("coherent", "0 [5, 6, 7, 8] 0 "),
        ("strict", "-1 [0, 0, 0, 0] 1 rknn_run: the CPU wrote to the memory of input x"),
    ],
)
def test_a_foreign_program_syncs_only_when_it_asks_to(
    tmp_path: Path, caches: str | None, expected: str
) -> None:
    """No public demo for RV1106 calls rknn_mem_sync, and they work on boards."""
    source = describe_input("x", (1, 4), soc=MINI, zero_point=0, scale=1.0)
    target = describe_output("y", (1, 4), soc=MINI, zero_point=0, scale=1.0)
    given = np.array([[1, 2, 3, 4]], np.float32)
    answer = Record([np.array([[5, 6, 7, 8]], np.int8)], [given])
    model = tmp_path / "m.bundle"
    model.write_bytes(bundle_from_arrays([source], [target], [answer], soc=MINI))
    variables = {} if caches is None else {"RKNN_SIM_CACHES": caches}
    done = python(FOREIGN, SIMULATED, model, env={**os.environ, **variables})
    assert done.stdout.startswith(expected), done.stdout + done.stderr


#: After strict caches made the library watch for faults.
WATCHING = """
import ctypes, sys
sys.path[:0] = {folders!r}
from test_caches import Bound
with Bound() as api:
    assert api.run() == 0
    {statement}
    print(api.read(), api.control.violations)
"""


@pytest.mark.parametrize("handler", ["", "-Xfaulthandler"])
def test_another_fault_ends_the_process_as_ever(handler: str) -> None:
    """It ends by SIGSEGV, with the traceback of the earlier handler."""
    code = WATCHING.format(
        folders=[str(TESTS), str(TESTS / "sim")], statement="ctypes.string_at(8)"
    )
    command = [sys.executable, *([handler] if handler else []), "-c", code]
    # A sanitizer, where one runs, would make a report of it.
    options = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
    environment = {**os.environ, "ASAN_OPTIONS": options}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert ("Segmentation fault" in done.stderr) == bool(handler)


def test_a_later_handler_of_faults_is_left_alone() -> None:
    """Reads are not watched from then on: it would not know what to do with our faults."""
    statement = "import faulthandler; api.read(); faulthandler.enable(); api.run()"
    code = WATCHING.format(folders=[str(TESTS), str(TESTS / "sim")], statement=statement)
    done = python(code)
    assert done.stdout == "[0, 0, 0, 0] 1\n", done.stderr
