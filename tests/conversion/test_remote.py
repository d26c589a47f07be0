"""`rknn.api.RKNN` in a process of another Python: a stand-in for the toolkit answers its calls."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime import Model
from rknn_runtime.conversion import remote
from rknn_runtime.conversion.environment import clean_environment
from rknn_runtime.errors import RknnError

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "models" / "shapes_rk3588.rknn")

TOOLKIT = """
import os, shutil, sys
print("imported, with torch" if os.environ.get("TORCH") else "imported")  # not an answer
class RKNN:
    def __init__(self, verbose=False, verbose_file=None):
        self.seen = []
    def config(self, **options):
        self.seen.append(options)
    def load_onnx(self, model):
        if model == "missing":
            raise ValueError("no such file")
        return 0 if model == "net.onnx" else -1
    def load_pytorch(self, model, input_size_list):
        return [os.environ.get("TORCH"), self.seen]
    def inference(self, inputs, data_format=None):
        return [inputs[0] * np.float32(2), self.seen]
    def build(self, do_quantization=True):
        sys.exit(3)
    def own(self):
        return sys.stdout
    def export_rknn(self, path):
        shutil.copy("EXAMPLE", path)
        return 0
    def init_runtime(self, target=None):
        os._exit(7)
import numpy as np
""".replace("EXAMPLE", EXAMPLE)


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """A Python whose ``rknn.api`` is the stand-in."""
    folder = tmp_path / "site" / "rknn"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "api.py").write_text(TOOLKIT)

    def python(*, with_torch=False):
        path = tmp_path / f"python{with_torch}"
        path.write_text(
            f"#!/bin/sh\nTORCH={'1' if with_torch else ''} PYTHONPATH={folder.parent} "
            f'exec {sys.executable} "$@"\n'
        )
        path.chmod(0o755)
        return str(path)

    monkeypatch.setattr(remote, "toolkit_python", python)
    return remote.RKNN(verbose=True)


def test_calls_and_arrays_go_to_the_toolkit_and_back(toolkit):
    """Answers come in the order of the calls, whatever the toolkit prints."""
    assert toolkit.config(mean_values=[[0, 0, 0]], target_platform="rk3588") is None
    assert (toolkit.load_onnx(model="net.onnx"), toolkit.load_onnx("other")) == (0, -1)
    array = np.arange(12, dtype=np.float32).reshape(1, 3, 4)[:, ::2]
    result, seen = toolkit.inference([array], data_format=["nhwc"])
    assert (result == array * 2).all() and result.dtype == np.float32
    assert seen == [{"mean_values": [[0, 0, 0]], "target_platform": "rk3588"}]
    assert toolkit.own() is None  # of the toolkit's process
    toolkit.release()
    toolkit.release()
    with pytest.raises(RknnError, match="load_onnx: the object was released"):
        toolkit.load_onnx("net.onnx")


def test_exceptions_come_back(toolkit):
    """They keep Python's type and the toolkit's words; the program survives the toolkit's exit."""
    with pytest.raises(ValueError, match="no such file"):
        toolkit.load_onnx("missing")
    with pytest.raises(AttributeError, match="nonsense"):
        toolkit.nonsense()
    with pytest.raises(RknnError, match="build: SystemExit: 3"):
        toolkit.build()
    with pytest.raises(RknnError, match="config: expected numbers, texts, lists and arrays"):
        toolkit.config(custom=lambda: 1)
    assert toolkit.load_onnx("net.onnx") == 0
    with pytest.raises(RknnError, match="init_runtime: the toolkit's process ended with status 7"):
        toolkit.init_runtime()


def outputs_of(rknn):
    (found,) = rknn.inference(inputs=[np.full((1, 320, 320, 3), 90, np.uint8)])
    rknn.release()
    return found


def test_a_file_runs_on_this_machine_without_the_toolkit(monkeypatch):
    """As programs on boards use the class: `load_rknn`, then a target."""
    monkeypatch.setenv("RKNN_RUNTIME_LIBRARY", "sim")
    monkeypatch.setattr(remote, "toolkit_python", lambda **_: pytest.fail("it was started"))
    rknn = remote.RKNN()
    assert rknn.load_rknn(EXAMPLE) == 0
    assert rknn.init_runtime(target="rk3588", core_mask=remote.RKNN.NPU_CORE_0_1_2) == 0
    with Model(EXAMPLE, library="sim") as model:
        (expected,) = model(np.full((1, 320, 320, 3), 90, np.uint8))
    assert np.array_equal(outputs_of(rknn), expected)


def test_what_was_built_runs_on_the_target_that_is_here(toolkit, monkeypatch):
    """It is exported, loaded and run by this package; without a target the toolkit runs it."""
    monkeypatch.setenv("RKNN_RUNTIME_LIBRARY", "sim")
    assert toolkit.load_onnx("net.onnx") == 0
    assert toolkit.init_runtime(target="rk3588") == 0
    assert outputs_of(toolkit).shape == (1, 10, 1, 2100)
    other = remote.RKNN()
    other.load_onnx("net.onnx")
    monkeypatch.delenv("RKNN_RUNTIME_LIBRARY")
    with pytest.raises(RknnError, match="init_runtime: the toolkit's process ended with status 7"):
        other.init_runtime(target="rk3588")


def test_a_disguise_as_a_board_is_not_passed_on(monkeypatch):
    """Under ``as-board`` the toolkit runs as the PC that it is."""
    monkeypatch.setenv("LD_PRELOAD", "/other.so")
    assert clean_environment()["LD_PRELOAD"] == "/other.so"
    monkeypatch.setenv("RKNN_BOARD_ROOT", "/somewhere")
    assert not {"LD_PRELOAD", "RKNN_BOARD_ROOT"} & set(clean_environment())


def test_pytorch_models_are_loaded_where_pytorch_is(toolkit):
    """The steps before are repeated there."""
    toolkit.config(target_platform="rk3566")
    found = toolkit.load_pytorch("net.pt", input_size_list=[[1, 3, 8, 8]])
    assert found == ["1", [{"target_platform": "rk3566"}]]
    toolkit.release()
