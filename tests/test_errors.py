"""Exceptions say which call failed with what, and are the built-ins that a caller expects."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from pathlib import Path

import pytest
from paths import PROJECT

from rknn_runtime import errors
from rknn_runtime._ffi import lib
from rknn_runtime.conversion.environment import ToolkitEnvironmentError
from rknn_runtime.conversion.toolkit import ToolkitError
from rknn_runtime.errors import RknnError, RknnStatusError, status_error
from rknn_runtime.sim.emulator import EmulatorError

#: Classes outside of `rknn_runtime.errors`.
ELSEWHERE = (EmulatorError, ToolkitEnvironmentError, ToolkitError)
#: The vendor's statuses: code, name, built-in class. From the API reference.
STATUSES = [
    (-1, "RKNN_ERR_FAIL", RuntimeError),
    (-2, "RKNN_ERR_TIMEOUT", TimeoutError),
    (-3, "RKNN_ERR_DEVICE_UNAVAILABLE", OSError),
    (-4, "RKNN_ERR_MALLOC_FAIL", MemoryError),
    (-5, "RKNN_ERR_PARAM_INVALID", ValueError),
    (-6, "RKNN_ERR_MODEL_INVALID", errors.InvalidModelError),
    (-7, "RKNN_ERR_CTX_INVALID", ValueError),
    (-8, "RKNN_ERR_INPUT_INVALID", ValueError),
    (-9, "RKNN_ERR_OUTPUT_INVALID", ValueError),
    (-10, "RKNN_ERR_DEVICE_UNMATCH", OSError),
    (-11, "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL", errors.InvalidModelError),
    (-12, "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION", errors.InvalidModelError),
    (-13, "RKNN_ERR_TARGET_PLATFORM_UNMATCH", errors.InvalidModelError),
    (-14, "RKNN_ERR_KEY_INVALID", errors.InvalidModelError),
    (-15, "RKNN_ERR_DECRYPT_FAILED", errors.InvalidModelError),
    (-16, "RKNN_ERR_SOC_BIND_FAILED", errors.InvalidModelError),
]


@pytest.mark.parametrize(("code", "name", "builtin"), STATUSES)
def test_every_vendor_status_has_its_name_builtin_and_advice(code, name, builtin):
    """A fitting built-in, too; the text alone has the call, the status, and the next step."""
    error = status_error(code, "rknn_init(12 bytes)")
    assert (error.code, error.name, error.call) == (code, name, "rknn_init(12 bytes)")
    assert isinstance(error, RknnStatusError)
    assert isinstance(error, builtin)
    assert str(error) == f"rknn_init(12 bytes) failed with {code} ({name}): {error.advice}"
    assert len(error.advice) > 20


@pytest.mark.parametrize("code", [-17, -42, 7])
def test_an_unknown_status_is_reported_with_its_number(code):
    """What newer runtimes return is no KeyError but an exception with the number."""
    error = status_error(code, "rknn_run")
    assert type(error) is RknnStatusError
    assert error.code == code
    assert f"rknn_run failed with {code} (unknown status)" in str(error)


@pytest.mark.parametrize(
    ("status", "cls"),
    [
        (lib.RKR_ERR_UNAVAILABLE, errors.UnavailableError),
        (lib.RKR_ERR_UNAVAILABLE, NotImplementedError),
        (lib.RKR_ERR_ARGUMENT, ValueError),
        (lib.RKR_ERR_SHAPE, ValueError),
        (lib.RKR_ERR_OVERFLOW, OverflowError),
        (lib.RKR_ERR_NULL, errors.AllocationError),
        (lib.RKR_ERR_NULL, MemoryError),
        (lib.RKR_ERR_LOAD, errors.LibraryLoadError),
        (lib.RKR_ERR_MEMORY, MemoryError),
    ],
)
def test_our_own_statuses_have_their_classes(status, cls):
    """Statuses of the shim and the kernels become fitting classes that name the call."""
    error = status_error(status, "rknn_mem_sync")
    assert isinstance(error, cls)
    assert "rknn_mem_sync" in str(error)


def every_error():
    yield from (status_error(code, "rknn_run", "why") for code, _, _ in STATUSES)
    yield status_error(-99, "rknn_run")
    yield errors.LibraryLoadError("none", [("/a.so", "not there")])
    yield errors.ClosedError("closed")
    yield errors.UnavailableError("gone")


@pytest.mark.parametrize("error", list(every_error()), ids=lambda error: type(error).__name__)
def test_errors_survive_pickle_and_copy(error):
    """An exception crosses a process pool with class, message and attributes."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_load_error_lists_every_attempt():
    """A line for each reason, with the paths that it is true of, in the order they were tried."""
    attempts = (("/a.so", "not there"), ("b.so", "too old"), ("/c.so", "not there"))
    error = errors.LibraryLoadError("none found", attempts)
    lines = ["none found", "  /a.so, /c.so: not there", "  b.so: too old"]
    assert str(error).splitlines() == lines
    assert error.attempts == attempts
    assert isinstance(error, OSError)


PAGE = PROJECT / "docs" / "errors.md"
REFUSALS = tuple(f"raise {name}Error(" for name in ("Type", "Value", "Index"))
SOURCES = sorted(Path(errors.__file__).parent.rglob("*.py"))


def tree(cls=RknnError, indent=""):
    """Lines of the tree: the class, the built-in that it also is, its status."""
    ours = [child for child in cls.__subclasses__() if child.__module__.startswith("rknn_runtime.")]
    children = sorted(ours, key=lambda child: child.__name__)
    for child in children:
        if child.__bases__[0] is cls:  # a second base is named beside it
            is_last = child is children[-1]
            also = child.__bases__[1].__name__ if len(child.__bases__) > 1 else ""
            codes = [str(code) for code, name, _ in STATUSES if name == getattr(child, "name", "")]
            name = f"{indent}{'└' if is_last else '├'}── {child.__name__}"
            yield f"{name:35}{also:21}{''.join(codes)}".rstrip()
            yield from tree(child, indent + ("    " if is_last else "│   "))


def test_the_documented_tree_is_the_one_of_the_code():
    """Every class stands on the page, with its parent, built-in and status."""
    (shown,) = re.findall(r"^```text\n(RknnError\n.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    assert shown.splitlines() == ["RknnError", *tree()]


def test_refused_arguments_are_worded_in_one_way():
    """The wording is "x: expected ..., got ...", never "must be", and the given value is named."""
    odd = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and ast.unparse(node).startswith(REFUSALS):
                words = " ".join(part.value for part in ast.walk(node.exc.args[0]) if is_text(part))
                is_half = re.search(r"\bexpected\b", words) and not re.search(r"\bgot\b", words)
                if is_half or " must " in words:
                    odd.append(f"{path.name}:{node.lineno}: {words}")
    assert odd == []


#: Words that keep their small letter, apart from those with a digit or an underscore.
SMALL = {"bool", "float", "k", "librknnmrt", "librknnrt", "matplotlib", "onnxruntime",
         "scikit-learn", "shtab", "supervision"}  # fmt: skip
SECTION = re.compile(r"^(?:Args|Attributes|Raises):\n((?: .*\n?|\n)+)", re.M)


def test_what_is_documented_of_a_name_begins_alike():
    """After ``name: `` in a docstring's Args, Attributes and Raises stands a capital letter."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    odd = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = (ast.get_docstring(node) or "") if isinstance(node, kinds) else ""
            for section in SECTION.findall(text):
                for word in re.findall(r"^    [*\w`][*\w`, ]*: ([a-z][\w-]*)", section, re.M):
                    if word not in SMALL and not re.search(r"[\d_]", word):
                        odd.append(f"{path.name}:{node.lineno}: {word}")
    assert odd == []


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
