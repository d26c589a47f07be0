"""Run tests on an AddressSanitizer and UndefinedBehaviorSanitizer build of the C code.

    python tools/sanitize.py [PYTEST ARGUMENT ...]

Builds the extension and the simulated runtime with gcc (or $CC) in a temporary folder and
runs the tests of everything that C computes on them; the arguments replace that choice.
Python itself is not instrumented: the sanitizer's library is loaded before it, and Python's
own leaks are not reported. Exits with pytest's status.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = PROJECT / "csrc"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = [*SANITIZE, "-fno-omit-frame-pointer", "-g1", "-O1", "-std=c11", "-fPIC", "-shared"]
#: Tests of C code. Not those that measure memory or fork, which a sanitizer disturbs.
TESTS = (
    "test_ffi.py",
    "test_hostile_calls.py",
    "kernels/test_*.py",
    "npu/test_[!l]*.py",
    "npu/test_library.py",
    "sim/test_*.py",
    "vision/test_drawing.py",
    "vision/test_letterbox.py",
    "vision/test_nms.py",
    "vision/heads/test_*.py",
)


def build(folder: Path) -> None:
    """Build the package in place in a copy, by the compiler alone: no setuptools needed."""
    package = folder / "rknn_runtime"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PROJECT / "rknn_runtime", package, ignore=ignored)
    sys.path.insert(0, str(PROJECT))
    builder = importlib.import_module("rknn_cffi_build")
    builder.ffibuilder.emit_c_code(str(folder / "_rkr.c"))
    includes = ["-I", sysconfig.get_path("include"), "-I", str(PROJECT / "csrc")]
    extension = [folder / "_rkr.c", *(PROJECT / source for source in builder.SOURCES)]
    for target, sources, libraries in (
        (package / "_rkr.abi3.so", extension, ["-ldl", "-lm"]),
        (package / "sim/librknn_sim.so", (SOURCES / "sim").glob("*.c"), ["-lm", "-lpthread"]),
    ):
        # The name by which setup.py links it too: the dynamic linker finds an open library by it.
        named = [f"-Wl,-soname,{target.name}", "-o", str(target)]
        command = [*compiler(), *FLAGS, *includes, *map(str, sources), *named]
        subprocess.run([*command, *libraries], check=True)


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC", "gcc"))


def library(name: str) -> str:
    """Return the path of one of the compiler's own libraries."""
    command = [*compiler(), f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"{' '.join(compiler())} has no {name}; install it or set CC to gcc")
    return path


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sanitize-") as name:
        folder = Path(name)
        build(folder)
        environment = {
            **os.environ,
            # The sanitizer looks for C++'s throw when it starts, before any module needs it.
            "LD_PRELOAD": f"{library('libasan.so')}:{library('libstdc++.so.6')}",
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1:"
            "allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        chosen = sys.argv[1:] or sorted(
            str(path) for pattern in TESTS for path in (PROJECT / "tests").glob(pattern)
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
        # Not in the checkout: Python would find the uninstrumented package there.
        arguments = [f"--rootdir={PROJECT}", f"--config-file={PROJECT / 'pyproject.toml'}"]
        # A sanitizer writes its report to the descriptor and ends the process.
        arguments.append("--capture=sys")
        return subprocess.run([*command, *arguments], cwd=folder, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
