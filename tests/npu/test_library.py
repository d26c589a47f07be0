"""Finding and opening the vendor's library, and saying precisely why that fails."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
import stub
from processes import python

from rknn_runtime._ffi import ffi
from rknn_runtime.errors import LibraryLoadError, UnavailableError
from rknn_runtime.modelfile import soc
from rknn_runtime.npu import _elf, library
from rknn_runtime.npu.library import SIMULATED, open_library


@pytest.fixture
def nowhere(monkeypatch):
    """Neither variable nor names that this machine may have."""
    monkeypatch.delenv(library.VARIABLE, raising=False)
    monkeypatch.setattr(library, "NAMES", ("libno-such-runtime.so",))
    monkeypatch.setattr(library, "LINKED", "/nowhere/librknn_linked.so")


def reasons(error: LibraryLoadError) -> dict[str, str]:
    return dict(error.attempts)


def refused(path: Path) -> str:
    with pytest.raises(LibraryLoadError) as caught:
        open_library(path)
    assert list(reasons(caught.value)) in ([str(path)], [os.path.realpath(path)])
    return caught.value.attempts[0][1]


def test_sim_is_the_library_of_the_package():
    """``"sim"`` opens the simulated NPU of this package and says that it is simulated."""
    simulated = open_library("sim")
    assert simulated.path == os.path.realpath(SIMULATED)
    assert simulated.is_simulated
    assert "simulated" in repr(simulated)


def test_a_library_is_opened_once(tmp_path):
    """Path, path object, link, relative path and name of one file are one `Library`."""
    simulated = open_library("sim")
    link = tmp_path / "link.so"
    link.symlink_to(SIMULATED)
    for way in (SIMULATED, Path(SIMULATED), link, os.path.relpath(SIMULATED), "librknn_sim.so"):
        assert open_library(way) is simulated


def test_functions_and_symbols_are_found():
    """`has` tells functions of the API, `symbol` any exported name."""
    simulated = open_library("sim")
    assert simulated.has("rknn_mem_sync")
    assert not simulated.has("rknn_sim_version")
    assert simulated.symbol("rknn_sim_version") != ffi.NULL
    assert simulated.symbol("no_such_symbol") == ffi.NULL


def test_a_required_function_that_is_missing_is_named(tmp_path):
    """`require` raises with the function's name and the library's path."""
    real = open_library(stub.build(tmp_path))
    real.require("rknn_run")
    with pytest.raises(UnavailableError, match=r"rknn_mem_sync does not exist in .*libstub\.so"):
        real.require("rknn_mem_sync")


def test_the_variable_names_the_library(nowhere, monkeypatch, tmp_path):
    """Without an argument RKNN_RUNTIME_LIBRARY decides; an argument overrides it."""
    path = stub.build(tmp_path)
    monkeypatch.setenv(library.VARIABLE, str(path))
    assert open_library().path == str(path)
    assert open_library("sim").is_simulated
    monkeypatch.setenv(library.VARIABLE, "sim")
    assert open_library().is_simulated


def test_a_wrong_variable_is_an_error_that_names_it(nowhere, monkeypatch):
    """A wrong variable is not replaced by a search."""
    monkeypatch.setenv(library.VARIABLE, "/no/such/lib.so")
    with pytest.raises(LibraryLoadError, match=r"RKNN_RUNTIME_LIBRARY=/no/such/lib\.so") as caught:
        open_library()
    assert caught.value.attempts == (("/no/such/lib.so", "not there"),)


@pytest.mark.parametrize("value", [None, ""])
def test_the_simulated_npu_is_never_a_fallback(nowhere, monkeypatch, value):
    """Without a real library the default raises, lists every place, and says what to do."""
    if value is not None:
        monkeypatch.setenv(library.VARIABLE, value)
    with pytest.raises(LibraryLoadError, match=library.VARIABLE) as caught:
        open_library()
    tried = reasons(caught.value)
    assert "libno-such-runtime.so" in tried
    for folder in ("/usr/lib", "/oem/usr/lib"):
        assert tried[f"{folder}/libno-such-runtime.so"] == "not there"
    vendor = "lib64" if sys.maxsize > 2**32 else "lib"
    assert f"/vendor/{vendor}/libno-such-runtime.so" in tried
    assert not any("sim" in path for path in tried)
    assert all(path in str(caught.value) for path in tried)


def test_on_a_pc_the_first_words_lead_to_the_simulated_npu(nowhere, monkeypatch):
    """They name ``library="sim"``; the places that were tried stand below, in a few lines."""
    monkeypatch.setattr(soc, "soc_of_this_machine", lambda: None)
    with pytest.raises(LibraryLoadError) as caught:
        open_library()
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("this machine does not look like a Rockchip board: ")
    assert 'pass library="sim" (or set RKNN_RUNTIME_LIBRARY=sim)' in first
    assert rest[-1].endswith(": not there")
    assert len(rest) == 2 < len(caught.value.attempts)


def test_on_a_board_nobody_is_sent_to_the_simulated_npu(nowhere, monkeypatch):
    """There the message names the SoC and the library that it needs."""
    monkeypatch.setattr(soc, "soc_of_this_machine", lambda: soc.SOCS["rv1106"])
    with pytest.raises(LibraryLoadError) as caught:
        open_library()
    first = str(caught.value).splitlines()[0]
    assert "on this rv1106" in first
    assert "librknnmrt.so" in first
    assert "sim" not in first


def test_the_search_takes_the_first_that_loads(nowhere, monkeypatch, tmp_path):
    """A broken candidate is passed over for one in a later place."""
    path = stub.build(tmp_path)
    monkeypatch.setattr(library, "NAMES", (path.name,))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / path.name).write_bytes(b"no library")
    monkeypatch.setattr(library, "_folders", lambda: [str(broken), str(tmp_path)])
    assert open_library().path == str(path)


def test_a_file_is_tried_once(monkeypatch, tmp_path):
    """Folders that are links to each other, as /lib and /usr/lib, give one attempt."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lib")
    (tmp_path / "lib" / "libbroken.so").write_bytes(b"no library")
    folders = [str(tmp_path / "lib"), str(tmp_path / "link")]
    monkeypatch.setattr(library, "_folders", lambda: folders)
    with pytest.raises(LibraryLoadError) as caught:
        open_library("libbroken.so")
    tried = [path for path, _ in caught.value.attempts]
    assert tried == ["libbroken.so", os.path.realpath(tmp_path / "lib" / "libbroken.so")]


def test_a_path_that_is_no_file_is_named_for_what_it_is(tmp_path):
    """Not there, or a directory."""
    assert refused(tmp_path / "none.so") == "not there"
    assert refused(tmp_path) == "not a file"


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(10)])
def test_other_files_are_no_elf_libraries(tmp_path, content):
    """An empty, foreign or cut file."""
    path = tmp_path / "x.so"
    path.write_bytes(content)
    assert refused(path).startswith("not an ELF shared library (")


def test_a_library_that_was_cut_short_is_told(tmp_path):
    """The dynamic linker would map missing bytes and end the process by SIGBUS."""
    code = """
import sys
from rknn_runtime import open_library
from rknn_runtime.errors import LibraryLoadError
whole = open(sys.argv[1], "rb").read()
said = set()
for number, length in enumerate([*range(0, len(whole), len(whole) // 60), len(whole) - 1]):
    path = f"{sys.argv[2]}/{number}.so"
    with open(path, "wb") as file:
        file.write(whole[:length])
    try:
        open_library(path)
    except LibraryLoadError as error:
        said.add(error.attempts[0][1].split(" ")[0])
print(sorted(said))
"""
    done = python(code, SIMULATED, tmp_path)
    assert (done.returncode, done.stdout) == (0, "['cut', 'not']\n"), done.stderr


@pytest.mark.parametrize("wide", [False, True])
def test_what_a_library_must_have_is_what_gets_mapped(tmp_path, wide):
    """The file must hold its PT_LOAD segments, in both word sizes, but no debug sections."""
    whole = elf(*this_machine()) if wide == this_machine()[1] else elf(40, wide)
    path = tmp_path / "x.so"
    path.write_bytes(whole + b"sections")
    assert _elf.cut_short(str(path)) is None
    path.write_bytes(whole)
    assert _elf.cut_short(str(path)) is None
    path.write_bytes(whole[:-1])
    assert _elf.cut_short(str(path)) == (
        f"cut short: {len(whole) - 1} of at least {len(whole)} bytes are there; copy it again"
    )


@pytest.mark.parametrize("found_by", ["folder", "LD_LIBRARY_PATH", "cache"])
def test_a_name_is_not_given_to_the_linker_where_a_file_is_cut(
    nowhere, monkeypatch, tmp_path, found_by
):
    """Nobody knows which of the files it takes; all that it may take are looked at."""
    whole = elf(*this_machine())
    path = tmp_path / "libcut.so"
    path.write_bytes(whole[:-1])
    cache = tmp_path / "cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0libcut.so\0" + os.fsencode(path) + b"\0/lib/x.so\0")
    monkeypatch.setattr(
        library, "_folders", lambda: [str(tmp_path)] if found_by == "folder" else []
    )
    monkeypatch.setattr(
        library, "_LINKER_CACHE", str(cache) if found_by == "cache" else "/nowhere/ld.so.cache"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/x:{tmp_path}" if found_by[0] == "L" else "")
    with pytest.raises(LibraryLoadError) as caught:
        open_library("libcut.so")
    (attempt,) = caught.value.attempts
    assert attempt[0] == str(path)
    assert attempt[1].startswith("cut short: ")


def test_a_library_without_the_api_is_no_runtime(tmp_path):
    """The missing function is named."""
    path = stub.build(tmp_path, "OMIT_query")
    assert refused(path) == "no function rknn_query: not an RKNN runtime"


def test_an_undefined_symbol_is_reported(tmp_path):
    """A library that needs a symbol nobody has gives the linker's words."""
    source = "int needed_by_nobody(void); int f(void) { return needed_by_nobody(); }"
    path = stub.build(tmp_path, source=source, flags=("-Wl,-z,now",))
    assert "undefined symbol: needed_by_nobody" in refused(path)


def elf(machine: int, wide: bool, needed: bytes = b"libc.so.6", interpreter: bytes = b"") -> bytes:
    """A file with just the headers that a loader looks at."""
    names = b"\0" + needed + b"\0" + interpreter + b"\0"
    header_bytes, program_bytes = (64, 56) if wide else (52, 32)
    count = 3 if interpreter else 2
    base = header_bytes + count * program_bytes
    dynamic = base + len(names)
    entries = b"".join(
        struct.pack("<qQ" if wide else "<iI", tag, value)
        for tag, value in ((1, 1), (5, 0x1000 + base), (0, 0))
    )

    def segment(kind: int, offset: int, size: int) -> bytes:
        address = 0x1000 + offset
        if wide:
            return struct.pack("<IIQQQQQQ", kind, 4, offset, address, address, size, size, 8)
        return struct.pack("<IIIIIIII", kind, offset, address, address, size, size, 4, 8)

    segments = segment(1, 0, dynamic + len(entries)) + segment(2, dynamic, len(entries))
    if interpreter:
        segments += segment(3, base + 2 + len(needed), len(interpreter) + 1)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    layout = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    rest = (0, header_bytes, 0, 0, header_bytes, program_bytes, count, 0, 0, 0)
    return ident + struct.pack(layout, 3, machine, 1, *rest) + segments + names + entries


def this_machine() -> tuple[int, bool]:
    mine = _elf.read(sys.executable)
    assert mine is not None
    return mine.machine, mine.bits == 64


MACHINES = [
    (3, False, "32-bit x86"),
    (40, False, "32-bit ARM"),
    (62, True, "x86-64"),
    (183, True, "64-bit ARM (aarch64)"),
    (243, True, "64-bit RISC-V"),
    (9999, True, "9999"),
]


@pytest.mark.parametrize(
    ("machine", "wide", "name"), [each for each in MACHINES if each[:2] != this_machine()]
)
def test_a_library_for_another_machine_is_named_so(tmp_path, machine, wide, name):
    """The reason says for which machine it was built and what this one is."""
    path = tmp_path / "x.so"
    path.write_bytes(elf(machine, wide))
    reason = refused(path)
    assert reason.startswith("built for ")
    assert name in reason
    assert "this Python is " in reason


def test_a_uclibc_build_is_named_so(tmp_path):
    """The vendor's mini runtime under a glibc Python: the reason says uClibc."""
    libc = tmp_path / "libc"
    libc.mkdir()
    needed = stub.build(libc, source="int f;", flags=("-Wl,-soname,libc.so.0",))
    path = stub.build(tmp_path, flags=("-Wl,--no-as-needed", str(needed)))
    needed.unlink()
    reason = refused(path)
    assert reason.startswith("built for uClibc, which this Python does not use")
    assert "make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a" in reason


@pytest.mark.parametrize(
    "words",
    [{"needed": b"libc.so.0"}, {"interpreter": b"/lib/ld-uClibc.so.0"}],
    ids=["needed", "interpreter"],
)
def test_uclibc_shows_in_either_place(tmp_path, words):
    """The C library's name and the program interpreter both give a uClibc build away."""
    path = tmp_path / "librknnmrt.so"
    path.write_bytes(elf(*this_machine(), **words))
    verdict = _elf.mismatch(str(path))
    assert verdict is not None
    assert "uClibc" in verdict


@pytest.mark.parametrize("wide", [False, True])
def test_a_damaged_elf_file_is_no_crash(tmp_path, wide):
    """Cut at every byte and with every byte changed, the reader answers or says None."""
    path = tmp_path / "x.so"
    whole = elf(40, wide, interpreter=b"/lib/ld.so")
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [
        whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
        for at in range(len(whole))
        for flip in (0x01, 0xFF)
    ]
    for content in damaged:
        path.write_bytes(content)
        answer = _elf.read(str(path))
        assert answer is None or isinstance(answer, _elf.Elf)


def test_a_child_opens_libraries_while_a_thread_of_the_parent_does():
    """A lock that another thread held at the fork never blocks the child."""
    code = """
import os, signal, threading
from rknn_runtime.npu import library
thread = threading.Thread(target=library._lock._lock.acquire)
thread.start()
thread.join()
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    os._exit(not library.open_library("sim").is_simulated)
raise SystemExit(os.waitpid(pid, 0)[1] != 0)
"""
    assert python(code).returncode == 0
