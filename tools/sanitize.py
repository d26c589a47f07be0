"""Run tests on builds of the C code in which mistakes show.

    python tools/sanitize.py [--threads | --allocations] [PYTEST ARGUMENT ...]

Builds the extension and the simulated runtime with gcc (or $CC) in a temporary folder and
runs tests on them; the arguments replace the choice of tests. Exits with pytest's status.

By default with AddressSanitizer and UndefinedBehaviorSanitizer, all tests of computations in C.
With --threads with ThreadSanitizer, the tests that use several threads; with --allocations the
tests that let every single allocation of memory fail once.

Python itself is not instrumented: the sanitizer's library is loaded before it, and Python's
own leaks are not reported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = PROJECT / "csrc"
FAILING = PROJECT / "tools" / "failing_malloc.c"
FLAGS = ["-fno-omit-frame-pointer", "-g1", "-O1", "-std=c11", "-fPIC", "-shared"]


@dataclass(frozen=True)
class Build:
    """A way to build and to run the tests."""

    flags: list[str]
    #: Of the compiler, loaded before Python.
    libraries: list[str]
    tests: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()


ADDRESSES = Build(
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    # The sanitizer looks for C++'s throw when it starts, before any module needs it.
    ["libasan.so", "libstdc++.so.6"],
    # Not those that measure memory or fork (lifetime, lying), which a sanitizer disturbs.
    (
        "test_ffi.py",
        "test_hostile_calls.py",
        "kernels/test_*.py",
        "matmul/test_*.py",
        "npu/test_[!l]*.py",
        "npu/test_library.py",
        "open/test_*.py",
        "sim/test_*.py",
        "vision/test_drawing.py",
        "vision/test_letterbox.py",
        "vision/test_nms.py",
        "vision/heads/test_*.py",
    ),
    {
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:detect_stack_use_after_return=1:"
        "allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    },
)
THREADS = Build(
    ["-fsanitize=thread"],
    ["libtsan.so"],
    (
        "npu/test_threads.py",
        "sim/test_crew.py",
        "npu/test_thread_machine.py",
        "matmul/test_matmul.py",
        "npu/test_misuse_matrix.py",
        "npu/test_operators.py",
        "npu/test_flight.py",
        "open/test_duplicates.py",
        "streams/test_pool.py",
        "sim/test_cores.py",
    ),
    {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=0:"
        f"suppressions={PROJECT / 'tools' / 'tsan.supp'}"
    },
)
ALLOCATIONS = Build(
    ["-include", str(FAILING.with_suffix(".h"))],
    [],
    ("test_allocations.py",),
    sources=(FAILING,),
)


def build(folder: Path, how: Build) -> None:
    """Build the package in place in a copy, by the compiler alone: no setuptools needed."""
    package = folder / "rknn_runtime"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PROJECT / "rknn_runtime", package, ignore=ignored)
    sys.path.insert(0, str(PROJECT))
    builder = importlib.import_module("rknn_cffi_build")
    builder.ffibuilder.emit_c_code(str(folder / "_rkr.c"))
    includes = ["-I", sysconfig.get_path("include"), "-I", str(PROJECT / "csrc")]
    rooms = ("runtime", "modelfile", "kernels", "decode")
    extension = [
        folder / "_rkr.c", *(path for room in rooms for path in (SOURCES / room).glob("*.c")),
    ]  # fmt: skip
    for target, sources, libraries in (
        (package / "_rkr.abi3.so", extension, ["-ldl", "-lm"]),
        (
            package / "sim/librknn_sim.so",
            [
                path
                for room in ("sim", "api", "emulator", "modelfile")
                for path in (SOURCES / room).glob("*.c")
            ],
            ["-lm", "-lpthread", "-Wl,-Bsymbolic"],
        ),
        (
            package / "sim/librknn_open.so",
            [path for room in ("open", "api") for path in (SOURCES / room).glob("*.c")],
            [f"-L{package}/sim", "-l:librknn_sim.so", "-Wl,-Bsymbolic,-rpath,$ORIGIN", "-lm"],
        ),
        (
            package / "sim/librknn_board.so",
            list((SOURCES / "sim" / "board").glob("*.c")),
            ["-ldl", "-lpthread"],
        ),
    ):
        # The name by which setup.py links it too: the dynamic linker finds an open library by it.
        named = [f"-Wl,-soname,{target.name}", "-o", str(target)]
        all_sources = map(str, (*sources, *how.sources))
        command = [*compiler(), *FLAGS, *how.flags, *includes, *all_sources, *named]
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


def environment(folder: Path, how: Build) -> dict[str, str]:
    """Return the environment of a Python that finds the build in a folder."""
    found = {
        **os.environ,
        **how.environment,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if how.libraries:
        found["LD_PRELOAD"] = ":".join(map(library, how.libraries))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--threads", action="store_const", const=THREADS, dest="how")
    kind.add_argument("--allocations", action="store_const", const=ALLOCATIONS, dest="how")
    parser.set_defaults(how=ADDRESSES)
    arguments, chosen = parser.parse_known_args()
    how: Build = arguments.how
    with tempfile.TemporaryDirectory(prefix="sanitize-") as name:
        folder = Path(name)
        build(folder, how)
        chosen = chosen or sorted(
            str(path) for pattern in how.tests for path in (PROJECT / "tests").glob(pattern)
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
        # Not in the checkout: Python would find the uninstrumented package there.
        arguments = [f"--rootdir={PROJECT}", f"--config-file={PROJECT / 'pyproject.toml'}"]
        # A sanitizer writes its report to the descriptor and ends the process.
        arguments.append("--capture=sys")
        return subprocess.run(
            [*command, *arguments], cwd=folder, env=environment(folder, how)
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
