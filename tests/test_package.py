"""The package's front door: names, version, and what an import costs in modules."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from paths import DATA, PROJECT
from processes import python

import rknn_runtime


def test_every_public_name_is_there():
    """``__all__`` is sorted, without repeats, and every name in it exists."""
    assert rknn_runtime.__all__ == sorted(set(rknn_runtime.__all__))
    for name in rknn_runtime.__all__:
        assert getattr(rknn_runtime, name) is not None


@pytest.mark.parametrize("module", ["enums", "tensor"])
def test_the_package_exports_what_its_modules_do(module):
    """Nothing public of the basic modules is missing at the front."""
    home = importlib.import_module(f"rknn_runtime.{module}")
    kinds = [each for each in vars(home).values() if isinstance(each, type)]
    names = {kind.__name__ for kind in kinds if kind.__module__ == home.__name__}
    assert names and names <= set(rknn_runtime.__all__)


def test_the_version_is_that_of_the_project():
    """``__version__`` is the version under which the package is installed."""
    assert rknn_runtime.__version__ == metadata.version("rknn-runtime")


@pytest.mark.parametrize("url", ["", "https://example.org/rknn"])
def test_links_of_the_readme_lead_to_where_it_is_published(tmp_path, url):
    """A package index has none of the linked files; pictures come unchanged."""
    pytest.importorskip("pycparser")  # cffi builds with it; boards have none
    code = "from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('out')"
    (tmp_path / "out").mkdir()
    for name in ("rknn_runtime", "csrc", "examples"):
        (tmp_path / name).symlink_to(PROJECT / name)
    for name in ("pyproject.toml", "setup.py", "rknn_cffi_build.py", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tmp_path)
    done = python(code, cwd=tmp_path, env={**os.environ, "RKNN_PROJECT_URL": url})
    assert done.returncode == 0, done.stderr
    (found,) = tmp_path.glob("out/*.dist-info/METADATA")
    text = found.read_text("utf-8")
    start = f"{url}/blob/HEAD/" if url else ""
    assert f"]({start}docs/heads.md)" in text
    assert (f'src="{url}/raw/HEAD/docs/' if url else 'src="docs/') in text
    assert (f"\nProject-URL: Issues, {url}/issues\n" in text) == bool(url)


def test_a_checkout_that_is_not_compiled_says_what_to_do(tmp_path):
    """Also where the package is installed: a Python in the checkout finds the sources first."""
    sources = shutil.ignore_patterns("*.so", "__pycache__")
    package = Path(rknn_runtime.__file__).parent
    shutil.copytree(package, tmp_path / "rknn_runtime", ignore=sources)

    def complaint() -> str:
        # -S: what an editable installation puts on the path would lend its extension.
        command = [sys.executable, "-S", "-c", "import rknn_runtime"]
        done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]

    assert complaint() == "ModuleNotFoundError: No module named 'rknn_runtime._rkr'"
    (tmp_path / "rknn_cffi_build.py").touch()
    said = complaint()
    assert said.startswith(f"ImportError: Python found rknn_runtime in {tmp_path}, ")
    for way in ("`make demo`", "`pip install -e .`", "start Python in another folder"):
        assert way in said


def test_the_import_is_lean():
    """Modules that are needed later are not imported: a board's CPU is slow."""
    heavy = "logging PIL cv2 onnxruntime importlib.metadata"
    code = (
        "import numpy, sys; before = set(sys.modules); import rknn_runtime.npu.model;"
        f"print(set({heavy.split()!r}) & (set(sys.modules) - before));"
        "from rknn_runtime import Detector, GeneralModel, Model;"
        "print([x for x in sys.modules if x.startswith(('rknn_runtime.sim', 'rknn_runtime.conv'))])"
    )
    assert printed_by(code) == "set()\n[]\n"


def test_a_first_load_is_lean():
    """A model loads without modules that are as slow to import as the whole package."""
    path = DATA / "models" / "ic3_w37_rk3588.rknn"
    heavy = (
        "logging json asyncio ssl urllib.request onnxruntime PIL cv2 rknn_runtime.modelfile.info "
        "rknn_runtime.modelfile.literal rknn_runtime.sim.bundle rknn_runtime.sim.inspection"
    )
    code = (
        "import numpy, sys; before = set(sys.modules); from rknn_runtime import Model;"
        f"Model({str(path)!r}, library='sim');"
        f"print(sorted(set({heavy.split()!r}) & (set(sys.modules) - before)))"
    )
    assert printed_by(code) == "[]\n"


def printed_by(code: str) -> str:
    done = python(code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_is_small() -> None:
    """The package alone brings the extension, and a name the modules that it needs."""
    printed = printed_by(
        """
import sys
import rknn_runtime
from rknn_runtime.__main__ import main
parts = ("_ffi", "enums", "npu.model", "vision.heads")
def loaded():
    return [part for part in parts if "rknn_runtime." + part in sys.modules]
print(*loaded())
rknn_runtime.Layout
print(*loaded())
rknn_runtime.Model
print(*loaded())
rknn_runtime.Detector
print(*loaded())
"""
    )
    stages = ["_ffi", "_ffi enums", "_ffi enums npu.model", "_ffi enums npu.model vision.heads"]
    assert printed.splitlines() == stages


def test_the_check_for_faulty_commands_is_cheap() -> None:
    """``info`` asks each file for faults of the toolkit, and needs no loader of models for it."""
    code = "import sys, rknn_runtime.sim.faults; print('rknn_runtime.npu.model' in sys.modules)"
    assert printed_by(code) == "False\n"


@pytest.mark.parametrize("name", ["kernels", "modelfile", "sim", "vision", "vision.heads"])
def test_rooms_import_their_names_when_used(name: str) -> None:
    """Every public name is found, also by a star, and every module that one comes from."""
    code = f"""
import rknn_runtime.{name} as room
assert set(room.__all__) <= set(dir(room))
from rknn_runtime.{name} import *
print(*(key for key in room.__all__ if globals()[key] is not getattr(room, key)))
assert not hasattr(room, "misspelt")
"""
    assert printed_by(code) == "\n"


def test_other_names_are_refused() -> None:
    """As by any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Modle'"):
        rknn_runtime.Modle  # noqa: B018
    with pytest.raises(ImportError, match="Modle"):
        from rknn_runtime import Modle  # noqa: F401


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        ("KeyboardInterrupt", 130, "rknn-runtime: stopped"),
        ("MemoryError", 1, "rknn-runtime: out of memory"),
        ("ImportError('failed to map segment')", 1, "rknn-runtime: failed to map segment"),
    ],
)
def test_what_ends_the_imports_is_one_line(error, status, line):
    """Ctrl-C and a limit of memory meet the program there as well."""
    code = f"""
import builtins, runpy, sys
real = builtins.__import__
def importing(name, *rest, **options):
    if name.startswith("rknn_runtime.cli"):
        raise {error}
    return real(name, *rest, **options)
builtins.__import__ = importing
sys.argv = ["rknn-runtime", "info", "x"]
runpy.run_module("rknn_runtime", run_name="__main__")
"""
    ran = python(code)
    assert (ran.returncode, ran.stderr) == (status, line + "\n")
