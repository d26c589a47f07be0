"""Ways to reach the NPU that a program lacks."""

from __future__ import annotations

import pytest
from paths import DATA

from rknn_runtime.npu.library import OPEN

DRIVERS = ("rknpu", "rocket")
SMALL = DATA / "models" / "ic3_w37_rk3588.rknn"

#: The C API itself, without the package's own checks.
API = f"""\
import ctypes, os
from rknn_runtime.modelfile.reader import read
api = ctypes.CDLL({OPEN!r})

class Input(ctypes.Structure):
    _fields_ = [
        ("index", ctypes.c_uint32), ("buf", ctypes.c_void_p), ("size", ctypes.c_uint32),
        ("pass_through", ctypes.c_uint8), ("type", ctypes.c_int), ("fmt", ctypes.c_int),
    ]

class Output(ctypes.Structure):
    _fields_ = [
        ("want_float", ctypes.c_uint8), ("is_prealloc", ctypes.c_uint8),
        ("index", ctypes.c_uint32), ("buf", ctypes.c_void_p), ("size", ctypes.c_uint32),
    ]

data = open(sys.argv[1], "rb").read()
pixels = np.random.default_rng(1).integers(0, 256, read(data).inputs[0].shape, np.uint8)
context = ctypes.c_uint64()
assert api.rknn_init(ctypes.byref(context), data, len(data), 0, None) == 0
given = Input(0, pixels.ctypes.data, pixels.size, 0, 3, 1)

def run():
    status = api.rknn_inputs_set(context, 1, ctypes.byref(given))
    status = status or api.rknn_run(context, None)
    output = Output(0, 0, 0, None, 0)
    status = status or api.rknn_outputs_get(context, 1, ctypes.byref(output), None)
    if status != 0:
        return status
    found = ctypes.string_at(output.buf, output.size).hex()
    api.rknn_outputs_release(context, 1, ctypes.byref(output))
    return found

first = run()
"""

FORKED = """\
child = os.fork()
if child == 0:
    status = run()
    api.rknn_destroy(context)
    os._exit(0 if status == -1 else 1)
status = os.waitpid(child, 0)[1]
print(json.dumps([status, run() == first, len(first)]))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_forked_child_neither_runs_nor_frees_what_its_parent_has(run, driver):
    """They share the device's file: the child's last call would take the parent's memory."""
    status, is_same, size = run(driver, "rk3588", API + FORKED, SMALL)
    assert (status, is_same) == (0, True)
    assert size > 0


ANEW = """\
child = os.fork()
if child == 0:
    assert api.rknn_init(ctypes.byref(context), data, len(data), 0, None) == 0
    os._exit(0 if run() == first else 1)
print(json.dumps([os.waitpid(child, 0)[1], run() == first]))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_forked_child_loads_its_own_model(run, driver):
    """It opens the device again."""
    assert run(driver, "rk3588", API + ANEW, SMALL) == [0, True]


CLOSED = """\
assert api.rknn_destroy(context) == 0
print(json.dumps([api.rknn_run(context, None), run(), api.rknn_run(ctypes.c_uint64(77), None)]))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_is_submitted_after_the_end(run, driver):
    """A context that was destroyed, and one that never was."""
    assert all(status < 0 for status in run(driver, "rk3588", API + CLOSED, SMALL))


SIGNALS = """\
import signal
with Model(sys.argv[1], library="sim") as model:
    given = inputs(model)
    expected = answers(model, *given)
caught, has_ended = [], False
with Model(sys.argv[1], library="open") as model:
    def handler(*_):
        if has_ended:  # a signal that came just before the timer stopped
            return
        try:
            caught.append(same(answers(model, *given), expected))
        except RuntimeError:
            caught.append("refused")
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # the next one, however slow this was
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    found = [same(answers(model, *given), expected) for _ in range(100)]
    has_ended = True
    signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps([all(found), sorted(set(map(str, caught)) - {"True", "refused"}), len(caught)]))
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_signal_handler_runs_the_model_or_is_refused(run, driver):
    """In the middle of a run, whose job is not lost."""
    is_right, others, count = run(driver, "rk3588", SIGNALS, SMALL)
    assert (is_right, others) == (True, [])
    assert count > 0


FOREIGN = """\
import os, socket
from rknn_runtime import TensorMemory
from rknn_runtime.errors import RknnError
device = os.open(sys.argv[2], os.O_RDWR)
with Model(sys.argv[1], library="open") as model:
    given = inputs(model)
    expected = answers(model, *given)
    refused = []
    kept = socket.socket()
    for fd in (os.open("/dev/null", os.O_RDWR), os.pipe()[0], kept.fileno(), 999):
        try:
            TensorMemory.from_fd(model, fd, 4096).close()
        except (RknnError, OSError, ValueError) as error:
            refused.append(type(error).__name__)
    try:
        TensorMemory.from_fd(model, device, 4096).close()
    except (RknnError, OSError, ValueError):
        pass
    print(json.dumps([len(refused), same(answers(model, *given), expected)]))
"""


@pytest.mark.parametrize(
    ("driver", "path"), [("rknpu", "/dev/dri/renderD128"), ("rocket", "/dev/accel/accel0")]
)
def test_descriptors_of_something_else_are_no_memory(run, driver, path):
    """Nor does the device's own file, mapped as memory, disturb the model."""
    assert run(driver, "rk3588", FOREIGN, SMALL, path) == [4, True]
