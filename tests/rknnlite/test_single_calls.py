"""The inner object of RKNNLite: calls one by one, the C library, contexts, as programs use them."""

from __future__ import annotations

import ctypes
import importlib.metadata
import subprocess
import threading
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from paths import PROJECT
from processes import python
from threads import in_threads

from rknn_runtime import open_library
from rknn_runtime.errors import ClosedError, UnavailableError
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.rknnlite import RKNNLite, install
from rknn_runtime.rknnlite.runtime import RKNNRuntime
from rknn_runtime.rknnlite.structures import RKNNOutput, RKNNPerfRun, RKNNTensorAttr

MODELS = PROJECT / "tests" / "data" / "models"
RK3588 = MODELS / "ic3_w37_rk3588.rknn"
RV1106 = MODELS / "ic3_w37_rv1106.rknn"
LITE = "rknn-toolkit-lite2"


def frames(count):
    numbers = np.random.default_rng(5)
    return [numbers.integers(0, 256, (1, 21, 37, 3), np.uint8) for _ in range(count)]


def expected(frame):
    with GeneralModel(RK3588, library="sim") as model:
        return model.run(frame)[0]


@pytest.fixture
def lite(control):
    model = RKNNLite(library="sim", strict=True)
    model.load_rknn(RK3588)
    model.init_runtime()
    yield model
    model.release()


def raw_outputs(lite):
    """The outputs in the model's own type, by the C API: no call of `get_outputs`."""
    inner = lite.rknn_runtime
    count = inner.get_in_out_num()[1]
    outputs = (RKNNOutput * count)()
    for index, output in enumerate(outputs):
        output.index = index
    assert inner.lib.rknn_outputs_get(inner.context, count, outputs, None) == 0
    found = []
    for output in outputs:
        attr = RKNNTensorAttr(index=output.index)
        assert inner.lib.rknn_query(inner.context, 2, ctypes.byref(attr), ctypes.sizeof(attr)) == 0
        assert attr.type == 2
        text = ctypes.string_at(output.buf, output.size)
        numbers = np.frombuffer(text, np.int8).reshape(attr.dims[: attr.n_dims])
        found.append((numbers.astype(np.float32) - attr.zp) * np.float32(attr.scale))
    assert inner.lib.rknn_outputs_release(inner.context, count, outputs) == 0
    return found


def test_calls_one_by_one_equal_an_inference(lite):
    """set_inputs, run and get_outputs, with the arguments that programs give."""
    inner = lite.rknn_runtime
    (frame,) = frames(1)
    inner.set_inputs([frame], None, ["nhwc"], inputs_pass_through=None)
    assert inner.run(False)[0] == 0
    (single,) = inner.get_outputs(False)
    assert (single == expected(frame)).all() and (lite.inference([frame])[0] == single).all()
    turned = np.ascontiguousarray(frame.transpose(0, 3, 1, 2))
    inner.set_inputs([turned], None, "nchw")
    assert inner.run(True)[1] == 3
    assert (inner.get_outputs(True)[0] == single).all()
    assert inner.get_output_shape(0) == list(single.shape)
    assert isinstance(inner.get_run_perf(), RKNNPerfRun) and inner.set_core_mask(2) == 0
    assert inner.get_sdk_version()[0] == lite.get_sdk_version()


def test_calls_in_a_wrong_order_are_refused(lite):
    inner = lite.rknn_runtime
    with pytest.raises(ValueError, match="call set_inputs first"):
        inner.run()
    inner.set_inputs(frames(1))
    with pytest.raises(ValueError, match="call run first"):
        inner.get_outputs()
    lite.release()
    with pytest.raises(ClosedError, match="call init_runtime first"):
        inner.set_inputs(frames(1))


def test_a_thread_may_run_again_on_its_inputs(lite):
    """Before and after its outputs were read, but not once it made another inference."""
    frame, other = frames(2)
    inner = lite.rknn_runtime
    inner.set_inputs([frame])
    for fetches in (False, True, True):
        inner.run()
        if fetches:
            np.testing.assert_array_equal(inner.get_outputs()[0], expected(frame))
    lite.inference(inputs=[other])
    with pytest.raises(ValueError, match="call set_inputs first"):
        inner.run()


def test_threads_get_the_outputs_of_their_own_frames(lite):
    """Four threads share an object and read by the C API, while an inference goes on."""
    given = frames(12)
    wanted = [expected(frame) for frame in given]

    def work(start):
        for i in range(start, start + 9):
            lite.rknn_runtime.set_inputs([given[i % 12]])
            lite.rknn_runtime.run(False)
            (found,) = raw_outputs(lite) if start % 2 else lite.rknn_runtime.get_outputs()
            assert (found == wanted[i % 12]).all()
            assert (lite.inference([given[start]])[0] == wanted[start]).all()

    in_threads(work, [(0,), (3,), (5,), (8,)])
    assert len(lite.rknn_runtime.contexts()) <= 5


def test_contexts_of_ended_threads_are_used_again(lite):
    """A thread that never fetches its outputs keeps its context only as long as it lives."""

    def work():
        lite.rknn_runtime.set_inputs(frames(1))
        lite.rknn_runtime.run()

    for _ in range(5):
        in_threads(work, [()])
    assert len(lite.rknn_runtime.contexts()) == 1


def test_a_frame_may_pass_from_thread_to_thread(lite):
    """Inputs are set in one thread, run in another, and fetched in a third."""
    given = frames(6)
    inner = lite.rknn_runtime
    with ThreadPoolExecutor(1) as setting, ThreadPoolExecutor(1) as fetching:
        setting.submit(inner.set_inputs, [given[0]]).result()
        for i in range(6):
            inner.run(False)
            fetched = fetching.submit(inner.get_outputs, False)
            if i < 5:
                setting.submit(inner.set_inputs, [given[i + 1]]).result()
            assert (fetched.result()[0] == expected(given[i])).all()


def test_a_context_of_other_code_is_taken_over(lite):
    """By rknn_dup_context through another handle: a second object with the same weights."""
    base = lite.rknn_runtime
    library = ctypes.CDLL(base._get_rknn_api_lib_path())
    made = ctypes.c_uint64()
    given = ctypes.c_uint64(base.context)
    assert library.rknn_dup_context(ctypes.byref(given), ctypes.byref(made)) == 0
    clone = RKNNLite(library="sim", strict=True)
    clone.rknn_data = None
    clone.rknn_runtime = RKNNRuntime(
        root_dir=lite.root_dir, target=None, device_id=None, async_mode=False, core_mask=2,
        library="sim",
    )  # fmt: skip
    clone.rknn_runtime.context = int(made.value)
    (frame,) = frames(1)
    assert (clone.inference([frame])[0] == expected(frame)).all()
    with pytest.raises(ValueError, match="no other object has"):
        RKNNRuntime(library="sim").context = made.value
    clone.release()
    assert (lite.inference([frame])[0] == expected(frame)).all()


def test_our_contexts_are_not_destroyed_by_others(lite):
    inner = lite.rknn_runtime
    with pytest.raises(RuntimeError, match="belongs to an RKNNLite"):
        inner.lib.rknn_destroy(inner.context)
    made, given = ctypes.c_uint64(), ctypes.c_uint64(inner.context)
    assert inner.lib.rknn_dup_context(ctypes.byref(given), ctypes.byref(made)) == 0
    assert inner.lib.rknn_destroy(made) == 0  # the program's own
    assert lite.inference(frames(1)) is not None


def test_a_program_may_choose_the_library_by_replacing_the_method(monkeypatch, control):
    path = open_library("sim").path
    monkeypatch.setattr(RKNNRuntime, "_get_rknn_api_lib_path", lambda self: path)
    model = RKNNLite(strict=True)
    model.load_rknn(RK3588)
    assert model.init_runtime() == 0
    assert model.rknn_runtime.model.library.is_simulated
    model.release()


def test_a_model_without_the_general_api_has_the_calls_too(control):
    """RV1106: the calls are there; the vendor has no such package for it."""
    model = RKNNLite(library="sim", strict=True)
    model.load_rknn(RV1106)
    model.init_runtime()
    (frame,) = frames(1)
    model.rknn_runtime.set_inputs([frame])
    model.rknn_runtime.run()
    assert (model.rknn_runtime.get_outputs()[0] == model.inference([frame])[0]).all()
    model.release()


def test_the_wheel_has_the_vendors_names(tmp_path):
    """It has the modules that programs import, and a version that satisfies their requirements."""
    path = install.make_wheel(LITE, tmp_path)
    data = path.read_bytes()
    assert install.make_wheel(LITE, tmp_path).read_bytes() == data
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "from rknnlite.api import RKNNLite, rknn_runtime\n"
        "from rknnlite.api.rknn_lite import RKNNLite as Lite\n"
        "from rknnlite.api.rknn_runtime import RKNNRuntime, RKNNOutput, RKNNTensorAttr\n"
        "from importlib.metadata import version, distribution\n"
        "assert Lite is RKNNLite and rknn_runtime.RKNNRuntime is RKNNRuntime\n"
        "assert version('rknn-toolkit-lite2').startswith('2.3.2')\n"
        "assert all(file.locate().exists() for file in distribution('rknn-toolkit-lite2').files)\n"
    )
    begin = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
    done = python(begin + code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_pip_installs_and_removes_the_wheel(tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    own = tmp_path / "env" / "bin" / "python"
    path = install.make_wheel(LITE, tmp_path)
    for words in (
        ["install", "--no-deps", "--no-index", str(path)],
        ["uninstall", "-y", LITE],
    ):
        subprocess.run([own, "-m", "pip", *words], check=True, capture_output=True)
    assert not list((tmp_path / "env").rglob("rknnlite/api"))


def test_the_vendors_package_is_not_replaced(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.3.2")
    with pytest.raises(UnavailableError, match="is installed and would be replaced"):
        install.refuse_vendor(LITE)


def test_two_threads_never_wait_for_outputs_that_nobody_fetches(lite):
    """A thread between its calls holds no lock."""
    lite.rknn_runtime.set_inputs(frames(1))
    lite.rknn_runtime.run()
    done = threading.Event()

    def work():
        lite.rknn_runtime.set_inputs(frames(1))
        lite.rknn_runtime.run()
        lite.rknn_runtime.get_outputs()
        done.set()

    in_threads(work, [()])
    assert done.is_set()
