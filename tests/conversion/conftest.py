"""An environment with a stand-in for the vendor's toolkit, installed like the true one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
import types
import zipfile
from pathlib import Path

import pytest
from paths import PROJECT

from rknn_runtime.conversion import environment

MODEL = PROJECT / "examples/models/shapes_rk3588.rknn"
#: The stand-in for the toolkit: it notes its calls, and "builds" the file that it is told to.
STAND_IN = """
import json, os, shutil
from pathlib import Path
NOTES = os.environ.get("STAND_IN_NOTES")
RANGES, SHAPES = {}, []  # of the tensors that it knows, and of the outputs of its simulator
class RKNN:
    def __init__(self, **options):
        self.calls = []
        print("I rknn-toolkit2 version: 0")
    def _do(self, name, given):
        self.calls.append([name, given])
        failing = os.environ.get("STAND_IN_FAILS", "")
        if name == failing:
            print("\\x1b[1;31mE\\x1b[0m \\x1b[1;31m" + name + ": the reason\\x1b[0m")
            print("E rknn-toolkit2 version: 0")
            return -1
        if name + " raises" == failing:
            raise ValueError("raised")
        if name + " exits" == failing:
            os._exit(3)
        if name + " dies" == failing:
            os.kill(os.getpid(), 9)
        return 0
    def config(self, **given):
        return self._do("config", given)
    def load_onnx(self, model, **given):
        if NOTES:
            shutil.copy(model, NOTES + ".onnx")
        return self._do("load_onnx", given)
    def load_tflite(self, model, **given):
        return self._do("load_tflite", {"model": model, **given})
    def build(self, do_quantization, dataset=None):
        files = []
        if dataset:
            files = Path(dataset).read_text().split()
            shutil.copy(files[0], NOTES + ".npy")
        return self._do("build", {"do_quantization": do_quantization, "files": len(files)})
    def hybrid_quantization_step1(self, dataset):
        table = {"quantize_parameters": RANGES}
        Path("network.quantization.cfg").write_text(json.dumps(table))
        return self._do("hybrid_quantization_step1", {"dataset": Path(dataset).read_text()})
    def hybrid_quantization_step2(self, model, data, table):
        return self._do("hybrid_quantization_step2", json.loads(Path(table).read_text()))
    def init_runtime(self):
        return self._do("init_runtime", {})
    def inference(self, inputs, data_format):
        import numpy as np  # which the Python of the stand-in does not have
        failed = self._do("inference", {"data_format": data_format})
        return None if failed else [np.full(shape, inputs[0].mean()) for shape in SHAPES]
    def export_rknn(self, path):
        shutil.copy(os.environ["STAND_IN_MODEL"], path)
        return self._do("export_rknn", {})
    def release(self):
        if NOTES:
            Path(NOTES).write_text(json.dumps(self.calls))
"""


def write_wheel(folder: Path) -> str:
    """Write the stand-in as a wheel; return its line in a requirements file."""
    files = {
        "rknn/__init__.py": "",
        "rknn/api/__init__.py": STAND_IN,
        "rknn_toolkit2-0.dist-info/METADATA": (
            "Metadata-Version: 2.1\nName: rknn-toolkit2\nVersion: 0\n"
        ),
        "rknn_toolkit2-0.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    rows = []
    path = folder / "rknn_toolkit2-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(text.encode())}\n")
        wheel.writestr("rknn_toolkit2-0.dist-info/RECORD", "".join(rows))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"rknn-toolkit2 @ {path.as_uri()} --hash=sha256:{digest}\n"


@pytest.fixture(scope="session")
def requirements(tmp_path_factory):
    """A folder of requirements whose toolkit is the stand-in."""
    folder = tmp_path_factory.mktemp("data")
    line = write_wheel(folder)
    (folder / "requirements.txt").write_text("")
    for version in environment.VERSIONS:
        (folder / f"requirements-{version}.txt").write_text(line)
    return folder


@pytest.fixture
def data(requirements, monkeypatch):
    """The same, in the place of the package's own."""
    monkeypatch.setattr(environment, "_DATA", requirements)


@pytest.fixture(scope="session")
def installed(tmp_path_factory, requirements):
    """Where the stand-in is installed, once for all tests."""
    pytest.importorskip("ensurepip")  # Debian keeps it apart
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "_DATA", requirements)
        environment.toolkit_python(folder=folder, python=sys.executable)
    return folder


class Toolkit:
    """The stand-in, as a test sees it."""

    def __init__(self, folder, notes):
        self.folder, self._notes = folder, notes

    @property
    def calls(self):
        """``{call: arguments}`` of the last job."""
        return dict(json.loads(self._notes.read_text()))

    @property
    def onnx(self):
        """The file that it loaded."""
        return Path(f"{self._notes}.onnx").read_bytes()

    @property
    def first_image(self):
        """The path of the first array that it calibrated with."""
        return Path(f"{self._notes}.npy")


@pytest.fixture
def toolkit_process(installed, data, tmp_path, monkeypatch):
    """The stand-in in a separate Python, with the calls that it got and the step that fails."""
    notes = tmp_path / "notes.json"
    monkeypatch.setenv("STAND_IN_NOTES", os.fspath(notes))
    monkeypatch.setenv("STAND_IN_MODEL", os.fspath(MODEL))
    return Toolkit(installed, notes)


class Yaml:
    """The parser that the toolkit brings, for files that are JSON, too."""

    def __init__(self, typ):
        assert typ == "safe"

    def load(self, path):
        return json.loads(path.read_text())

    def dump(self, table, path):
        path.write_text(json.dumps(table))


@pytest.fixture
def toolkit(tmp_path, monkeypatch):
    """The stand-in in this process, which starts no other."""
    notes = tmp_path / "notes.json"
    monkeypatch.setenv("STAND_IN_NOTES", os.fspath(notes))
    monkeypatch.setenv("STAND_IN_MODEL", os.fspath(MODEL))
    api, yaml = types.ModuleType("rknn.api"), types.ModuleType("ruamel.yaml")
    exec(STAND_IN, vars(api))
    yaml.YAML = Yaml
    modules = {"rknn": types.ModuleType("rknn"), "ruamel": types.ModuleType("ruamel")}
    for name, module in {**modules, "rknn.api": api, "ruamel.yaml": yaml}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)  # the toolkit leaves files where it runs
    monkeypatch.setattr(
        "rknn_runtime.conversion.convert.toolkit_python", lambda version, **options: None
    )
    return Toolkit(None, notes)
