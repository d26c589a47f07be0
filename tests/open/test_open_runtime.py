"""The open runtime on the stand-in for the NPU's device, against the simulated runtime."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from paths import PROJECT, TESTS
from processes import python

from rknn_runtime.npu.library import OPEN, SIMULATED
from rknn_runtime.sim.emulator import Emulator, Verdict

DRIVERS = ("rknpu", "rocket")
EXAMPLES = PROJECT / "examples"
SHAPES = EXAMPLES / "models" / "shapes_rk3588.rknn"

EQUAL = """\
found = {}
for path in sys.argv[1:]:
    try:
        with Model(path, library="sim") as model:
            given = inputs(model)
            expected = answers(model, *given)
    except Exception:
        continue  # not simulated either
    with Model(path, library="open") as model:
        found[path] = same(answers(model, *given), expected) and same(
            answers(model, *given), expected
        )
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("driver", "soc"), [("rknpu", "rk3588"), ("rocket", "rk3588"), ("rknpu-heap", "rv1106")]
)
def test_every_bit_is_that_of_the_simulated_runtime(run, driver, soc):
    """All models of the tests, twice in a row, whatever other programs leave in the NPU."""
    paths = [
        *sorted((TESTS / "data" / "models").glob(f"*_{soc}.rknn")),
        EXAMPLES / "models" / f"shapes_{soc}.rknn",
    ]
    found = run(driver, soc, EQUAL, *paths)
    assert [path for path, is_same in found.items() if not is_same] == []
    assert len(found) > 5


PLACES = """\
with Model(sys.argv[1], library="open") as model:
    places = model.placement
    print(json.dumps([[p.op, p.on_npu, p.tasks, p.reason] for p in places]))
"""


def test_a_kind_of_task_that_hangs_is_asked_once_and_left_to_the_cpu(run, tmp_path):
    """Mainline's driver ignores the interrupt of pooling: half a second, once for all."""
    places = run("rocket", "rk3588", PLACES, SHAPES)
    assert {op for op, on_npu, *_ in places if not on_npu} == {"MaxPool", "Reshape"}
    assert all(tasks > 0 or reason for _, _, tasks, reason in places)
    (kept,) = (tmp_path / "rknn-runtime").glob("npu-rocket-rk3588-*.txt")
    assert [line for line in kept.read_text().splitlines() if line.startswith("bad")] == [
        line for line in kept.read_text().splitlines() if line.endswith("MaxPool: it does not end")
    ]
    lines = len(kept.read_text().splitlines())
    assert run("rocket", "rk3588", PLACES, SHAPES) == places
    assert len(kept.read_text().splitlines()) == lines


def test_the_vendors_driver_runs_every_node(run):
    """Each operator of the network that has commands; a Reshape has none."""
    places = run("rknpu", "rk3588", PLACES, SHAPES)
    assert {op for op, on_npu, *_ in places if not on_npu} == {"Reshape"}
    tasks = [node.tasks for node in Emulator(SHAPES).nodes if node.verdict != Verdict.NOTHING]
    assert [tasks for *_, tasks, _ in places] == tasks


def test_a_reshape_that_moves_no_byte_ends_no_job(run):
    """As on librknnmrt, whose network is one job, too; outputs as ever."""
    path = TESTS / "data" / "models" / "cat1x2100_c33_rv1106.rknn"
    assert all(on_npu for _, on_npu, *_ in run("rknpu-heap", "rv1106", PLACES, path))
    assert run("rknpu-heap", "rv1106", EQUAL, path) == {str(path): True}


OLD = """\
from rewritten import Old
data = Old(open(sys.argv[1], "rb").read()).write(int(sys.argv[2]))
data += (2).to_bytes(8, "little") + b"{}"  # a description
with Model(data, library="sim") as model:
    given = np.random.default_rng(1).integers(-128, 128, model.inputs[0].shape, np.int8)
    expected = answers(model, given)
with Model(data, library="open") as model:
    found = {p.reason for p in model.placement if p.op.startswith("Conv")}
    print(json.dumps([same(answers(model, given), expected), *found]))
"""


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("version", [1, 2, 4])
def test_the_commands_of_old_containers_stay_on_the_cpu(run, driver, version):
    """Nobody relocates them: the NPU would read and write at the begin of its memory."""
    path = TESTS / "data" / "models" / "ic5_rk3588.rknn"
    found = run(driver, "rk3588", OLD, path, version, PYTHONPATH=f"{PROJECT}:{TESTS}")
    assert found[0] is True and "toolkit 1.5.0" in found[1] and len(found) == 2


HANGS = """\
from rknn_runtime.errors import RknnTimeoutError
with Model(sys.argv[1], library="open") as model:
    try:
        model(*inputs(model))
    except RknnTimeoutError as error:
        print(json.dumps(str(error)))
"""


def test_a_job_that_hangs_is_a_timeout(run):
    """With every kind of task taken for good, pooling hangs in the run."""
    message = run("rocket", "rk3588", HANGS, SHAPES, RKNN_OPEN_ASK="never")
    assert "did not finish the nodes" in message


FORMS = """\
from rknn_runtime import GeneralModel
from rknn_runtime import InputSpec, TensorType
found = []
for kind in (np.uint8, np.float32, np.int8):
    results = []
    for library in ("sim", "open"):
        with GeneralModel(sys.argv[1], library=library) as model:
            given = np.random.default_rng(1).integers(0, 128, model.inputs[0].shape)
            try:
                results.append(model.run(given.astype(kind)))
            except TypeError:  # a model in float16 has no int8
                results.append([])
    found.append(same(*results))
print(json.dumps(found))
"""


WAYS = """\
import vendor_bindings
data = open(sys.argv[1], "rb").read()
both = [vendor_bindings.results(name, data, json.loads(sys.argv[2])) for name in ("sim", "open")]
found = {
    way.name: one == other if isinstance(one, str) or isinstance(other, str) else same(one, other)
    for (way, one), (_, other) in zip(*both)
}
print(json.dumps([len(found), [name for name, is_same in found.items() if not is_same]]))
"""


@pytest.mark.parametrize(
    ("driver", "soc", "is_full", "count"),
    [
        ("rknpu", "rk3588", True, 14),
        ("rocket", "rk3588", True, 14),
        ("rknpu-heap", "rv1106", False, 9),
    ],
)
def test_each_way_of_binding_is_that_of_the_simulated_runtime(run, driver, soc, is_full, count):
    """All types of an image, converted, passed through, and copied."""
    path = TESTS / "data" / "models" / f"ic3_w37_{soc}.rknn"
    tools = str(PROJECT / "tools" / "wheels")
    words = path, str(is_full).lower()
    assert run(driver, soc, WAYS, *words, PYTHONPATH=tools) == [count, []]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("model", ["ic3_w37", "fp16_ic1_w37"])
def test_each_binding_of_an_image_has_its_own_commands(run, driver, model):
    """Pixels, floats and the model's own values, of rows that are filled up."""
    path = TESTS / "data" / "models" / f"{model}_rk3588.rknn"
    assert all(run(driver, "rk3588", FORMS, path))


BOTH = """\
from vendor_bindings import Client, OUTPUT_QUERIES, ZERO_COPY, in_child, run_bound
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.npu.library import open_library
data = open(sys.argv[1], "rb").read()

def values(name, is_bound_anew):
    with Client(open_library(name), data, True) as client:
        run_bound(client, ZERO_COPY[0], 5)
        if is_bound_anew:
            client.bind(client.attr(OUTPUT_QUERIES["native"], 0))
        output = ffi.new("rknn_output[1]", [{"want_float": 1}])
        assert lib.rkr_outputs_get(client.handle, client.context, 1, output, ffi.NULL) == 0
        return np.frombuffer(ffi.buffer(output[0].buf, output[0].size), np.float32).copy()

expected = in_child(lambda: values("sim", False))
print(json.dumps([same([in_child(lambda: values("open", a))], [expected]) for a in (False, True)]))
"""


def test_outputs_in_native_memories_can_be_read_in_both_flows(run):
    """Their bytes go there alone, and to the other flow when it asks or they are bound anew."""
    path = TESTS / "data" / "models" / "ic3_w37_rk3588.rknn"
    tools = str(PROJECT / "tools" / "wheels")
    assert run("rknpu", "rk3588", BOTH, path, PYTHONPATH=tools) == [True, True]


DAMAGED = """\
from pathlib import Path
from rknn_runtime.errors import RknnError
good = Path(sys.argv[1]).read_bytes()
rng = np.random.default_rng(int(sys.argv[2]))
runs = 0
for _ in range(int(sys.argv[3])):
    data = bytearray(good)
    for at in rng.integers(0, len(data), 20):
        data[at] = rng.integers(0, 256)
    try:
        with Model(bytes(data), library="open", check=False) as model:
            model(*inputs(model))
            runs += 1
    except (RknnError, ValueError, RuntimeError, OSError, MemoryError, TypeError):
        pass
print(json.dumps(runs))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_damaged_file_submits_no_address_outside_of_its_memory(run, driver):
    """The stand-in ends the process if a task reads or writes outside of the model."""
    rounds = int(os.environ.get("RKNN_TEST_MUTATIONS", "60"))
    path = TESTS / "data" / "models" / "ic3_w37_rk3588.rknn"
    assert run(driver, "rk3588", DAMAGED, path, 3, rounds) > 0


def test_without_a_device_the_error_names_those_that_were_looked_for():
    """Nobody falls back to another library."""
    code = "import sys, rknn_runtime as r; r.Model(sys.argv[1], library='open')"
    done = python(code, SHAPES, env={**os.environ, "RKNN_OPEN_DEVICE": "/dev/null"})
    assert "DeviceUnavailableError" in done.stderr
    assert "/dev/null: not an NPU that is known" in done.stderr


STRICT = """\
import fcntl, json, os, struct, sys
device = os.open("/dev/dri/renderD128", os.O_RDWR)
def call(number, data):
    buffer = bytearray(data)
    fcntl.ioctl(device, 0xC0000000 | len(buffer) << 16 | ord("d") << 8 | 0x40 + number, buffer)
    return buffer
memory = call(2, struct.pack("<2I4Q2i", 0, 2 | int(sys.argv[1]), 4096, 0, 0, 0, 0, 0))
handle, _, _, pointer, address = struct.unpack_from("<2I3Q", memory)
count, wrong = map(int, sys.argv[2:])
submit = struct.pack(
    "<5Ii2Q Qq Ii 10I", 5, 100, 0, count, 0, 0, pointer + wrong, 0, 0, 0, 0, -1,
    *[0, count] * 3, *[0] * 4,
)
try:
    call(1, submit)
except OSError as error:
    print(json.dumps(error.errno))
"""


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ((8, 0, 0), "22"),  # a job without tasks: EINVAL
        ((8, 1, 0), "110"),  # commands that are none: ETIMEDOUT
        ((0, 1, 0), "a list of tasks that it does not see"),
        ((8, 200, 0), "tasks behind the list's end"),
        ((8, 1, 64), "a pointer that it never gave"),
    ],
)
def test_the_stand_in_refuses_what_the_kernel_refuses(words, meaning, beside_device):
    """And ends the process where the kernel would crash."""
    done = python(STRICT, *words, env=beside_device("rknpu", "rk3588"))
    assert meaning in done.stdout + done.stderr, done.stderr


def test_the_library_lies_beside_the_simulated_one():
    """Whose emulator it uses."""
    assert Path(OPEN).parent == Path(SIMULATED).parent
