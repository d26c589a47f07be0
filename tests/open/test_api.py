"""Features of a runtime beyond running: cores, runs in the background, outside memory."""

from __future__ import annotations

import pytest
from paths import DATA, PROJECT

DRIVERS = ("rknpu", "rocket")
SMALL = DATA / "models" / "ic3_w37_rk3588.rknn"

BEGIN = """\
import mmap, os
from rknn_runtime import CoreMask, InitFlag, TensorMemory
from rknn_runtime.npu import raw
with Model(sys.argv[1], library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)

def outputs(model):
    for i in range(len(model.outputs)):
        model.output_memory(i).sync_from_device()
    return [model.output_f32(i).copy() for i in range(len(model.outputs))]
"""

FLIGHT = """\
with Model(sys.argv[1], library="open", flags=InitFlag.FENCE_OUT_OUTSIDE) as model:
    found = []
    for _ in range(3):
        model.input_view()[...] = given[0]
        model.input_memory().sync_to_device()
        raw.start(model).wait()
        found.append(same(outputs(model), expected))
print(json.dumps(found))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_run_goes_on_after_the_call(run, driver):
    """On a thread of the runtime, as nodes on the CPU follow the NPU's last job."""
    assert run(driver, "rk3588", BEGIN + FLIGHT, SMALL) == [True] * 3


FOREIGN = """\
with Model(sys.argv[1], library="open") as model:
    size = model.input_memory().size_bytes
    fd = os.memfd_create("camera")
    os.ftruncate(fd, size + mmap.PAGESIZE)
    memory = TensorMemory.from_fd(model, fd, size)
    model.bind_input(0, memory)
    model.input_view()[...] = given[0]
    memory.sync_to_device()
    model.run()
    print(json.dumps(same(outputs(model), expected)))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_input_in_memory_of_another_device_is_read(run, driver):
    """It is copied to the NPU's."""
    assert run(driver, "rk3588", BEGIN + FOREIGN, SMALL) is True


REFUSED = """\
from vendor_bindings import Client
from rknn_runtime import Matmul, MatmulType
from rknn_runtime._ffi import lib
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.library import open_library

def words(call):
    try:
        call()
    except RknnError as error:
        return str(error)
    return ""

load = lambda flags: Model(sys.argv[1], library="open", flags=flags).close()
said = [words(lambda: load(InitFlag.MEM_ALLOC_OUTSIDE))]
said.append(words(lambda: load(InitFlag.INTERNAL_ALLOC_OUTSIDE)))
with Client(open_library("open"), open(sys.argv[1], "rb").read(), True) as client:
    client.memory(1 << 20)
    for call in (lib.rkr_set_weight_mem, lib.rkr_set_internal_mem):
        said.append("itself" * (call(client.handle, client.context, client.memories[0]) < 0))
said.append(words(lambda: Matmul(4, 64, 64, MatmulType.INT8_MM_INT8_TO_INT32, library="open")))
print(json.dumps(said))
"""


def test_what_the_open_runtime_has_not_is_refused(run):
    """Nothing is taken and left unused: memory of the client's, matrices."""
    tools = str(PROJECT / "tools" / "wheels")
    said = run("rknpu", "rk3588", BEGIN + REFUSED, SMALL, PYTHONPATH=f"{PROJECT}:{tools}")
    wanted = ["itself", "itself", "itself", "itself", "matri"]
    assert [word in text for word, text in zip(wanted, said)] == [True] * 5, said


MINI = """\
data = open(sys.argv[1], "rb").read().replace(b"rv1106", b"rk3588")
Model(data, library="sim").close()
try:
    Model(data, library="open").close()
    print(json.dumps("loaded"))
except Exception as error:
    print(json.dumps(str(error)))
"""


def test_a_container_for_librknnmrt_on_another_soc_is_refused(run):
    """Nobody knows whether the addresses in its commands are final there."""
    said = run("rknpu", "rk3588", MINI, DATA / "models" / "ic5_rv1106.rknn")
    assert "convert without mini_rknn" in said
