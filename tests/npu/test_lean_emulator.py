"""What an emulated model costs in memory: its constants and its tensors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from paths import PROJECT

MODELS = PROJECT / "examples" / "models"
COUNT = 8

MEASURE = """
import sys
from pathlib import Path
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.sim.emulator import Emulator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

file, count = Path(sys.argv[1]).read_bytes(), int(sys.argv[2])
first = Emulator(file)
inputs = [tensor.native_bytes for tensor in first.inputs]
functions = sum("Sigmoid" in node.op for node in first.nodes)
values = [bytes(size) for size in inputs]
handle, text = ffi.new("rkr_emu **"), ffi.new("char[]", 100)

def run():
    # Without the Python objects that describe a model.
    assert first._function("open")(file, len(file), 0, handle, text, 100) == lib.RKR_OK
    for index, value in enumerate(values):
        set_input = first._function("set_input")
        assert set_input(handle[0], index, lib.RKR_EMU_AS_NATIVE, value, len(value)) == lib.RKR_OK
    assert first._function("run")(handle[0], 2**32 - 1) == lib.RKR_OK

run()
before = resident()
for _ in range(count):
    run()
print(resident() - before, count * (first.model_bytes + first.internal_bytes), count * functions)
"""


@pytest.mark.parametrize("name", ["shapes_rk3588", "shapes_rv1106"])
def test_a_model_takes_what_it_says(name: str) -> None:
    """Constants and internal memory once, a tenth for what commands are decoded to, and tables.

    A function's table has 64 kB in separate pages, one of them for the allocator.
    """
    command = [sys.executable, "-c", MEASURE, str(MODELS / f"{name}.rknn"), str(COUNT)]
    # glibc returns freed memory at once: the temporary memory of opening is left out.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "32768", "MALLOC_TRIM_THRESHOLD_": "0"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    pages, bytes_of_all, tables = (int(number) for number in run.stdout.split())
    page = os.sysconf("SC_PAGESIZE")
    assert pages * page < 1.1 * bytes_of_all + (65536 + page) * tables
