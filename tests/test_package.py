"""The package's front door: names, version, and what an import costs in modules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import rknn_runtime

ROOT = Path(__file__).resolve().parent.parent


def test_every_public_name_is_there():
    """``__all__`` is sorted, without repeats, and every name in it exists."""
    assert rknn_runtime.__all__ == sorted(set(rknn_runtime.__all__))
    for name in rknn_runtime.__all__:
        assert getattr(rknn_runtime, name) is not None


@pytest.mark.parametrize("module", ["enums", "errors", "layout", "quantization", "tensor"])
def test_the_package_exports_what_its_modules_do(module):
    """Nothing public of the basic modules is missing at the front."""
    names = __import__(f"rknn_runtime.{module}", fromlist=["__all__"]).__all__
    missing = set(names) - set(rknn_runtime.__all__)
    assert missing <= {"status_error"}


def test_the_version_is_that_of_the_project():
    """``__version__`` and pyproject.toml say the same."""
    project = ROOT / "pyproject.toml"
    if not project.exists():
        pytest.skip("needs the checkout")
    text = project.read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.*)"$', text, re.MULTILINE)
    assert rknn_runtime.__version__ == version


def test_the_import_is_lean():
    """What is not needed before the first model is not imported: a board's CPU is slow."""
    heavy = "logging PIL cv2 onnxruntime rknn_runtime.sim rknn_runtime.inspect importlib.metadata"
    code = (
        "import numpy, sys; before = set(sys.modules); import rknn_runtime.model;"
        f"print(sorted(set({heavy.split()!r}) & (set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
