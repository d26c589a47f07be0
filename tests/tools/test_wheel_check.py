"""The check of built wheels finds the faults of wheels made to be wrong."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from paths import PROJECT

pytestmark = pytest.mark.slow  # compiles
pytest.importorskip("elftools")
if shutil.which("cc") is None:
    pytest.skip("needs a C compiler", allow_module_level=True)

CHECK = PROJECT / "tools" / "wheels" / "check.py"
INFO = "rknn_runtime-1.0.dist-info"
EXTENSION = "rknn_runtime/_rkr.abi3.so"
SIMULATED = "rknn_runtime/sim/librknn_sim.so"
OPEN = "rknn_runtime/sim/librknn_open.so"
BOARD = "rknn_runtime/sim/librknn_board.so"
GOOD = {
    BOARD: "void *malloc(unsigned long); void *fopen(void) { return malloc(1); }",
    OPEN: "void *rkr_emu_open(void); void *rknn_init(void) { return rkr_emu_open(); }",
    EXTENSION: "void PyErr_Clear(void); void PyInit__rkr(void) { PyErr_Clear(); }",
    SIMULATED: "void *malloc(unsigned long); void *rknn_init(void) { return malloc(1); }",
}


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("wheel_check", CHECK)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(CHECK.parent))
        spec.loader.exec_module(module)
    return module


class Wheel:
    """A project of two modules, and the files of its wheel."""

    def __init__(self, folder: Path) -> None:
        self.source, self.folder = folder / "source", folder
        self.name = "rknn_runtime-1.0-cp39-abi3-manylinux_2_17_x86_64.whl"
        package = self.source / "rknn_runtime"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        texts = ["METADATA", "RECORD", "WHEEL", "top_level.txt", "entry_points.txt"]
        names = [f"{INFO}/{name}" for name in (*texts, "licenses/LICENSE")]
        self.files = dict.fromkeys(
            [*names, "rknn_runtime/__init__.py", "rknn_runtime/py.typed"], b""
        )
        for name, code in GOOD.items():
            self.compile(name, code)

    def compile(self, name: str, code: str, *options: str) -> None:
        source, target = self.folder / "code.c", self.folder / Path(name).name
        source.write_text(code + "\n", encoding="utf-8")
        command = ["cc", "-w", "-shared", "-fPIC", "-o", str(target), str(source), *options]
        subprocess.run(command, check=True)
        self.files[name] = target.read_bytes()

    def faults(self, check, name: str | None = None) -> list[str]:
        path = self.folder / (name or self.name)
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in self.files.items():
                archive.writestr(name, data)
        try:
            check.check_wheel(path, self.source)
        except SystemExit as stop:
            return str(stop.code).splitlines()[1:]
        return []


@pytest.fixture
def wheel(tmp_path):
    return Wheel(tmp_path)


def test_a_good_wheel_passes(wheel, check):
    """Extension, simulated runtime, Python files, py.typed, licence and metadata."""
    assert wheel.faults(check) == []


def test_the_list_of_files_is_exact(wheel, check):
    """A stray file and a missing one are both found."""
    del wheel.files["rknn_runtime/py.typed"]
    wheel.files["rknn_runtime/notes.txt"] = b""
    assert wheel.faults(check) == [
        "missing: rknn_runtime/py.typed",
        "does not belong here: rknn_runtime/notes.txt",
    ]


def test_python_is_that_of_the_sources(wheel, check):
    """Comments and what private names and files say may be left out, and not even a line else."""
    source = wheel.source / "rknn_runtime" / "__init__.py"
    source.write_text('# A comment.\ndef _x():\n    """X."""\n    return 1\n', "utf-8")
    wheel.files["rknn_runtime/__init__.py"] = b"\ndef _x():\n\n    return 1\n"
    assert wheel.faults(check) == []
    for other in (
        b"def _x():\n\n    return 1\n",
        b"\ndef _x():\n    return 1\n",
        b"\ndef _x():\n\n    return 2\n",
    ):
        wheel.files["rknn_runtime/__init__.py"] = other
        assert wheel.faults(check) == ["rknn_runtime/__init__.py: another program than its source"]
    source.write_text('def x():\n    """X."""\n    return 1\n', "utf-8")
    wheel.files["rknn_runtime/__init__.py"] = b"def x():\n\n    return 1\n"
    assert wheel.faults(check) == ["rknn_runtime/__init__.py: another program than its source"]
    for name in ("rknn_runtime/_private.py", "rknn_runtime/cli/x.py"):
        (wheel.source / name).parent.mkdir(exist_ok=True)
        (wheel.source / name).write_bytes(source.read_bytes())
        wheel.files[name] = wheel.files["rknn_runtime/__init__.py"]
    wheel.files["rknn_runtime/__init__.py"] = source.read_bytes()
    assert wheel.faults(check) == []


def test_a_linked_runtime_does_not_get_in(wheel, check):
    """A vendor's library is in a wheel only where that was asked for."""
    wheel.files["rknn_runtime/librknn_linked.so"] = wheel.files[SIMULATED]
    assert wheel.faults(check) == ["does not belong here: rknn_runtime/librknn_linked.so"]


def test_the_size_is_limited(wheel, check):
    """The wheel of a PC, which has each kernel for AVX2, too, may be larger than a board's."""
    wheel.files["rknn_runtime/py.typed"] = bytes(1_000_000)
    (fault,) = wheel.faults(check, wheel.name.replace("x86_64", "aarch64"))
    assert fault.endswith("bytes, at most 1000000 are wanted")
    wheel.files["rknn_runtime/py.typed"] = bytes(970_000)
    assert wheel.faults(check) == []
    wheel.files["rknn_runtime/py.typed"] = bytes(1 << 20)
    (fault,) = wheel.faults(check)
    assert fault.endswith("bytes, at most 1048576 are wanted")


@pytest.mark.parametrize(
    ("name", "code", "options", "fault"),
    [
        (EXTENSION, "void helper(void) {}", (), "exports helper"),
        (SIMULATED, "void PyInit__rkr(void) {}", (), "exports PyInit__rkr"),
        (
            EXTENSION,
            "void __aeabi_uldivmod(void); void PyInit__rkr(void) { __aeabi_uldivmod(); }",
            (),
            "needs __aeabi_uldivmod, which no library is named for",
        ),
        (
            SIMULATED,
            "double exp(double); double rknn_exp(double x) { return exp(x); }",
            ("-fno-builtin", "-lm"),
            "needs exp@GLIBC_2.29",
        ),
        (
            SIMULATED,
            GOOD[SIMULATED],
            ("-Wl,-rpath,/tmp", "-Wl,--disable-new-dtags"),
            "has DT_RPATH",
        ),
        (
            SIMULATED,
            GOOD[SIMULATED],
            ("-Wl,-rpath,/tmp", "-Wl,--enable-new-dtags"),
            "has DT_RUNPATH",
        ),
    ],
)
def test_faults_of_a_library_are_found(wheel, check, name, code, options, fault):
    """Names that leak or have no owner, a C library too new, a search path of this machine."""
    wheel.compile(name, code, *options)
    assert wheel.faults(check) == [f"{name}: {fault}"]


def test_another_library_is_found(wheel, check):
    """Nothing is needed but the C library."""
    wheel.compile("libother.so", "void other(void) {}")
    del wheel.files["libother.so"]
    code = "void other(void); void rknn_init(void) { other(); }"
    wheel.compile(SIMULATED, code, f"-L{wheel.folder}", "-lother")
    faults = wheel.faults(check)
    assert f"{SIMULATED}: needs the library libother.so" in faults
