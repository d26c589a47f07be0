"""Building with a vendor's runtime linked in, tried with the simulated one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from paths import PROJECT

LINKED = "librknn_linked.so"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("cc") is None or shutil.which("ar") is None, reason="needs a C compiler"
    ),
]

#: What an object compiled for uClibc does: reads the tables behind <ctype.h> itself.
PROBE = """
#include <stdint.h>
extern const uint16_t *__ctype_b;
extern const int16_t *__ctype_tolower;
int rknn_init(void);
int helper_of_the_archive(void);
int helper_of_the_archive(void) { return 1; }
int rknn_probe_class(int c) { return __ctype_b[c]; }
int rknn_probe_lower(int c) { return __ctype_tolower[c]; }
void *rknn_probe_init(void) { return (void *)rknn_init; }
"""

#: A compiler that optimizes nothing (the last -O counts) and compiles nothing twice.
QUICK_CC = """#!/bin/sh
case "$*" in
*" -c "*)
    object=$(echo "$*" | sed "s/.* -o \\([^ ]*\\).*/\\1/")
    [ ! -e "$object" ] || exit 0
esac
exec cc "$@" -O0
"""

#: uClibc's numbers of the classes, as functions of ASCII.
CLASSES = [
    str.isupper,
    str.islower,
    str.isalpha,
    str.isdigit,
    lambda c: c in "0123456789abcdefABCDEF",
    lambda c: c in " \t\n\v\f\r",
    lambda c: " " <= c <= "~",
    lambda c: "!" <= c <= "~",
    lambda c: c in " \t",
    lambda c: c < " " or c == "\x7f",
    lambda c: "!" <= c <= "~" and not c.isalnum(),
    str.isalnum,
]


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RKNN_")}
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def build(
    source: Path, output: str, *, after: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Build into a folder; `after` an earlier build the extension need not be compiled again."""
    if after is not None:
        shutil.copytree(after, source / output, dirs_exist_ok=True)
    command = (sys.executable, "setup.py", "build", "--build-lib", output)
    return run(*command, cwd=source, **{"CC": str(source / "quick-cc"), **variables})


def python(package: Path, code: str, **variables: str) -> str:
    """Run code with the package that was built in a folder; return its output."""
    done = run(sys.executable, "-c", code, cwd=package, PYTHONPATH=str(package), **variables)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources of a build, with the simulated runtime as vendor's libraries."""
    pytest.importorskip("setuptools", minversion="77")  # older ones misread pyproject.toml
    root = tmp_path_factory.mktemp("linking") / "source"
    for name in ("csrc", "rknn_runtime", "examples"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("*.so"))
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"):
        shutil.copy(PROJECT / name, root)
    for name in ("rknn_cffi_build.py", "setup.py"):
        shutil.copy(PROJECT / name, root)
    compiler = root / "quick-cc"
    compiler.write_text(QUICK_CC, encoding="utf-8")
    compiler.chmod(0o755)
    vendor = root / "vendor"
    vendor.mkdir()
    (vendor / "probe.c").write_text(PROBE, encoding="utf-8")
    for room in (
        "sim",
        "api",
        "emulator",
        "modelfile",
    ):  # files of two rooms may have the same name
        folder = vendor / room
        folder.mkdir()
        sources = sorted((root / "csrc" / room).glob("*.c"))
        done = run("cc", "-fPIC", f"-I{root / 'csrc'}", "-c", *sources, cwd=folder)
        assert done.returncode == 0, done.stdout
        for built in folder.glob("*.o"):
            built.rename(vendor / f"{room}_{built.name}")
    assert run("cc", "-fPIC", "-c", "probe.c", cwd=vendor).returncode == 0
    objects = sorted(vendor.glob("*.o"))
    assert run("ar", "rc", "librknnmrt.a", *objects, cwd=vendor).returncode == 0
    without_probe = [path for path in objects if path.name != "probe.o"]
    shared = ("cc", "-shared", "-Wl,-soname,librknnrt.so", "-o", "librknnrt.so", *without_probe)
    assert run(*shared, "-lm", "-lpthread", cwd=vendor).returncode == 0
    return root


@pytest.fixture(scope="module")
def static(source: Path) -> Iterator[Path]:
    """The folder of a package with the archive in it."""
    archive = str(source / "vendor/librknnmrt.a")
    done = build(source, "static", RKNN_STATIC_LIBRARY=archive)
    assert done.returncode == 0, done.stdout
    assert (source / "static/rknn_runtime" / LINKED).exists()
    yield source / "static"


def test_the_linked_runtime_comes_before_any_other(static: Path) -> None:
    """Without a word from the user the archive's runtime is opened."""
    code = "from rknn_runtime.npu.library import open_library; print(open_library().path)"
    assert python(static, code).strip() == str(static / "rknn_runtime" / LINKED)


def test_only_the_api_is_exported(static: Path) -> None:
    """Only the API's names of the archive are visible to other libraries."""
    done = run("nm", "-D", "--defined-only", static / "rknn_runtime" / LINKED, cwd=static)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert "rknn_init" in names
    assert [name for name in names if not name.startswith("rknn_")] == []


def test_the_linked_runtime_calls_itself(static: Path) -> None:
    """A runtime that the process has loaded globally never takes over its calls."""
    code = """
import ctypes
from rknn_runtime._ffi import ffi
from rknn_runtime.npu.library import SIMULATED, open_library
other = ctypes.CDLL(str(SIMULATED), mode=ctypes.RTLD_GLOBAL)
linked = open_library()
inside = ffi.cast("void *(*)(void)", linked.symbol("rknn_probe_init"))()
assert inside == linked.symbol("rknn_init")
assert int(ffi.cast("uintptr_t", inside)) != ctypes.cast(other.rknn_init, ctypes.c_void_p).value
"""
    python(static, code)


def test_the_tables_of_uclibc_answer_as_in_the_c_locale(static: Path) -> None:
    """Every character has uClibc's bits and its lower case; beyond ASCII there are none."""
    code = """
from rknn_runtime._ffi import ffi
from rknn_runtime.npu.library import open_library
for name in "class", "lower":
    probe = ffi.cast("int (*)(int)", open_library().symbol("rknn_probe_" + name))
    print(*(probe(c) for c in range(-128, 256)))
"""
    classes, lower = (
        [int(word) for word in line.split()] for line in python(static, code).splitlines()
    )
    for code_point in range(-128, 256):
        ascii_character = chr(code_point) if 0 <= code_point < 128 else ""
        bits = sum(
            1 << n for n, is_ in enumerate(CLASSES) if ascii_character and is_(chr(code_point))
        )
        assert classes[code_point + 128] == bits, code_point
        expected = ord(ascii_character.lower()) if ascii_character else code_point
        assert lower[code_point + 128] == expected, code_point


def test_a_later_build_without_the_archive_drops_it(source: Path, static: Path) -> None:
    """A linked runtime left behind by an earlier build would be loaded unasked."""
    done = build(source, "plain", after=static)
    assert done.returncode == 0, done.stdout
    assert not (source / "plain/rknn_runtime" / LINKED).exists()


def test_a_missing_compiler_is_named(source: Path) -> None:
    """With what installs it; setuptools alone says `No such file or directory`."""
    done = build(source, "none", CC="/nowhere/cc")
    assert done.returncode == 1
    assert "'/nowhere/cc' is not installed: install it (apt install gcc" in done.stdout
    assert "Traceback" not in done.stdout


def test_what_lies_in_the_checkout_does_not_get_into_a_build(source: Path, static: Path) -> None:
    """Libraries compiled in place, models and scenes: a build holds the programs and its own."""
    left_over = [LINKED, "_rkr.abi3.so", "_rkr.cpython-39.so"]
    left_over += [f"sim/librknn_{name}.so" for name in ("sim", "open", "board")]
    for name in left_over:
        (source / "rknn_runtime" / name).write_bytes(b"stale")
    try:
        done = build(source, "clean")
        assert done.returncode == 0, done.stdout
    finally:
        for name in left_over:
            (source / "rknn_runtime" / name).unlink()
    built = {
        str(path.relative_to(source / "clean"))
        for path in source.glob("clean/**/*")
        if path.is_file()
    }
    modules = {str(path.relative_to(source)) for path in source.glob("rknn_runtime/**/*.py")}
    libraries = {"rknn_runtime/_rkr.abi3.so"} | {
        f"rknn_runtime/sim/librknn_{name}.so" for name in ("sim", "open", "board")
    }
    data = {
        "rknn_runtime/py.typed",
        "rknn_runtime/tools/questions.tar.xz",
        "rknn_runtime/tools/serve.html",
    }
    data |= {str(path.relative_to(source)) for path in source.glob("rknn_runtime/*/data/*")}
    assert built == modules | libraries | data
    assert all((source / "clean" / name).read_bytes() != b"stale" for name in libraries)


def test_dynamic_linking_needs_librknnrt(source: Path, static: Path) -> None:
    """RKNN_LINK=dynamic has the dynamic linker load librknnrt.so."""
    vendor = source / "vendor"
    done = build(source, "dynamic", after=static, RKNN_LINK="dynamic", LDFLAGS=f"-L{vendor}")
    assert done.returncode == 0, done.stdout
    code = """
from rknn_runtime.npu.library import open_library
library = open_library()
assert library.has("rknn_init") and library.is_simulated
print(open("/proc/self/maps").read())
"""
    maps = python(source / "dynamic", code, LD_LIBRARY_PATH=str(vendor))
    assert str(vendor / "librknnrt.so") in maps


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RKNN_STATIC_LIBRARY": "missing.a"}, "missing.a: no such file"),
        ({"RKNN_LINK": "static"}, "RKNN_LINK must be 'dynamic'"),
        ({"RKNN_LINK": "dynamic", "RKNN_STATIC_LIBRARY": "any.a"}, "not both"),
        ({"RKNN_LINK": "dynamic"}, "rknnrt"),
        ({"RKNN_STATIC_LIBRARY": "vendor/broken.a"}, "function_nobody_has"),
    ],
)
def test_a_build_that_cannot_be_fails(
    source: Path, static: Path, variables: dict[str, str], message: str
) -> None:
    """A wrong switch, a missing library and an incomplete archive end the build."""
    vendor = source / "vendor"
    (vendor / "broken.c").write_text(
        "int function_nobody_has(void); int rknn_init(void) { return function_nobody_has(); }\n",
        encoding="utf-8",
    )
    assert run("cc", "-fPIC", "-c", "broken.c", cwd=vendor).returncode == 0
    assert run("ar", "rc", "broken.a", "broken.o", cwd=vendor).returncode == 0
    done = build(source, "broken", after=static, **variables)
    assert done.returncode != 0
    assert message in done.stdout
