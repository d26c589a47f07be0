"""Mainline's driver, and kernels that patch it, as the stand-in shows them to the open runtime."""

from __future__ import annotations

import json

import pytest
from paths import DATA, PROJECT

SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
SMALL = DATA / "models" / "ic3_w37_rk3588.rknn"

PLACES = """\
with Model(sys.argv[1], library="open") as model:
    print(json.dumps([p.op for p in model.placement if not p.on_npu]))
"""


def test_a_kernel_that_hears_pooling_runs_it(run):
    """The longer struct of a task names the interrupt that ends it."""
    assert set(run("rocket", "rk3588", PLACES, SHAPES, RKNN_BOARD_PATCHED="1")) == {"Reshape"}


FILES = """\
import os
def count():
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum("memfd:npu" in os.readlink(link) for link in links if os.path.islink(link))
found = []
with Model(sys.argv[1], library="open"):
    found.append(count())
    with Model(sys.argv[1], library="open"):
        found.append(count())
found.append(count())
print(json.dumps(found))
"""


def test_each_model_opens_the_device(run):
    """Jobs of one file stay on one core. The first one finds the NPU; dma-bufs count here, too."""
    first, both, last = run("rocket", "rk3588", FILES, SMALL)
    assert both - first == first - last > 0


FOREIGN = """\
import fcntl, json, os, struct
def call(device, number, data):
    buffer = bytearray(data)
    fcntl.ioctl(device, 0xC0000000 | len(buffer) << 16 | ord("d") << 8 | 0x40 + number, buffer)
    return struct.unpack_from("<II", buffer)[1]
one, other = (os.open("/dev/accel/accel0", os.O_RDWR) for _ in range(2))
handle = call(one, 0, struct.pack("<2I2Q", 4096, 0, 0, 0))
call(one, 3, struct.pack("<2I", handle, 0))
try:
    call(other, 3, struct.pack("<2I", handle, 0))
except OSError as error:
    print(json.dumps(error.errno))
"""


def test_a_file_does_not_know_the_memory_of_another_one(run):
    """Each open file has its address space."""
    assert run("rocket", "rk3588", FOREIGN) == 2


BUSY = """\
import struct, time
from rknn_runtime.errors import RknnTimeoutError
with Model(sys.argv[1], library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)
with Model(sys.argv[1], library="open") as model:
    with open(sys.argv[2], "wb") as file:
        file.write(struct.pack("=q", time.monotonic_ns() + 700_000_000))
    try:
        print(json.dumps(same(answers(model, *given), expected)))
    except RknnTimeoutError:
        print(json.dumps("late"))
"""


@pytest.mark.parametrize(("fences", "answer"), [("1", True), ("0", "late")])
def test_a_fence_tells_a_job_that_waited_from_one_that_hung(run, tmp_path, fences, answer):
    """Another process keeps the NPU busy for longer than the kernel lets a job run."""
    busy = tmp_path / "busy"
    variables = {"RKNN_BOARD_BUSY": str(busy), "RKNN_BOARD_FENCES": fences}
    said = run("rocket", "rk3588", BUSY, SMALL, busy, RKNN_OPEN_ASK="never", **variables)
    assert said == answer


TOGETHER = """\
with Model(sys.argv[1], library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)
with Model(sys.argv[1], library="open") as model:
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([same(answers(model, *given), expected) for _ in range(20)]), flush=True)
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_two_processes_run_two_models_at_once(start, driver):
    """Each has its own memory; both begin when both are loaded."""
    both = [start(driver, "rk3588", TOGETHER, path) for path in (SMALL, SHAPES)]
    assert [each.stdout.readline() for each in both] == ["ready\n"] * 2
    for each in both:
        each.stdin.write("\n")
        each.stdin.flush()
    assert [json.loads(each.stdout.readline()) for each in both] == [[True] * 20] * 2
