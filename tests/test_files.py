"""Files are read so that nobody else's write, cut or pipe ends or stops the process."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import numpy as np
import pytest
from processes import python

from rknn_runtime import _files
from rknn_runtime._arrays import load_arrays
from rknn_runtime._files import opened_file, read_file, replace_file, replaced_file

CONTENT = bytes(range(256)) * 300


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of several blocks."""
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    return file


def test_only_what_is_asked_for_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each block once."""
    asked = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        asked.append((offset, size))
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    with opened_file(path, len(CONTENT)) as view:
        for offset in (40_000, 40_010, 5, 40_020):
            assert view[offset : offset + 4] == CONTENT[offset : offset + 4]
    assert asked == [(32_768, 16_384), (0, 16_384)]


@pytest.mark.parametrize("change", ["shorter", "longer", "other bytes"])
def test_a_file_that_changes_is_told(path: Path, change: str) -> None:
    """Missing bytes show it, or at the end the size and the time."""
    with opened_file(path, 10 * len(CONTENT)) as view:
        assert view[:4] == CONTENT[:4]
        if change == "shorter":
            os.truncate(path, 100)
            with pytest.raises(ValueError, match=f"{path} changed while it was read"):
                view[50_000:50_001]
            with pytest.raises(ValueError, match="changed while it was read"):
                view.read_into(memoryview(bytearray(len(view))))
        elif change == "longer":
            with path.open("ab") as file:
                file.write(b"x")
        else:
            path.write_bytes(CONTENT[::-1])
            os.utime(path, (1, 1))
        with pytest.raises(ValueError, match=f"{path} changed while it was read"):
            view.check_unchanged()


def test_a_file_that_is_replaced_stays_what_it_was(path: Path) -> None:
    """Under the same name stands another one; the open one is whole."""
    with opened_file(path, len(CONTENT)) as view:
        other = path.with_name("other")
        other.write_bytes(b"other")
        other.replace(path)
        assert view[:] == CONTENT
        view.check_unchanged()


@pytest.mark.parametrize("kind", ["FIFO", "directory", "socket", "device", "empty", "large"])
def test_what_is_no_file_to_read_is_named(tmp_path: Path, kind: str) -> None:
    """None of these hangs, or is read without an end."""
    import socket

    path = tmp_path / "thing"
    words = f"expected a regular file, got a {kind}"
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "FIFO":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        elif kind == "socket":
            server.bind(str(path))
        elif kind == "device":
            path = Path("/dev/zero")
        else:
            path.touch()
            words = "expected content, got 0 bytes"
        if kind == "large":
            os.truncate(path, 10 << 30)
            words = "expected at most 1000 bytes, got 10737418240"
        with pytest.raises(ValueError, match=f"{path}: {words}"):
            read_file(path, 1000)


def test_a_name_that_becomes_a_fifo_does_not_hang(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and the opening."""
    signal.alarm(60)  # ends the process where it hangs
    try:
        look = os.stat

        def swapped(name: str) -> os.stat_result:
            status = look(name)
            assert name == str(path)
            path.unlink()
            os.mkfifo(path)
            return status

        with monkeypatch.context() as patch, pytest.raises(ValueError, match="got a FIFO"):
            patch.setattr(os, "stat", swapped)
            read_file(path, 1 << 20)
    finally:
        signal.alarm(0)


def test_other_types_are_no_paths() -> None:
    """And a missing file is what `open` says of it."""
    with pytest.raises(TypeError):
        read_file(5, 1000)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        read_file("/nowhere/at/all", 1000)


def test_nothing_in_the_package_maps_a_file() -> None:
    """A mapping of a file that somebody cuts short ends the process.

    Anonymous memory is harmless, as is a DMA-BUF, whose size is fixed.
    """
    package = Path(_files.__file__).parent
    maps = [
        line.strip()
        for module in package.rglob("*.py")
        for line in module.read_text("utf-8").splitlines()
        if "mmap.mmap(" in line or "np.memmap" in line
    ]
    assert sorted(maps) == [
        "return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)",
        "self._map = mmap.mmap(self.fd, self.size_bytes)",
    ]


def test_a_model_that_is_cut_while_it_is_read_is_an_error() -> None:
    """Every reader raises it, in a separate process, which a SIGBUS would end."""
    code = """
import os, sys, tempfile
sys.path.insert(0, sys.argv[1])
from handmade import standard_model, tensor
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import compatibility, container, reader

model = standard_model([tensor("x", (1, 8), (1, 8), layout=0)],
                       [tensor("y", (1,), (1,), layout=0)], padding=1 << 20)
path = os.path.join(sys.argv[2], "m.rknn")

def fresh():
    with open(path, "wb") as file:
        file.write(model)

def refused(call):
    try:
        call()
    except InvalidModelError as error:
        assert f"{path} changed while it was read" in str(error), error
        return
    raise SystemExit("accepted")

open_model = reader.open_model

def open_model_of_a_cut_file(data):
    os.truncate(path, cut)
    return open_model(data)

reader.open_model = open_model_of_a_cut_file
for cut in (0, 10, 64, 5000, len(model) - 1):
    for read in (reader.read, reader.read_header):
        fresh()
        refused(lambda: read(path))
reader.open_model = open_model

fresh()
with container.loaded(path) as content:
    os.truncate(path, 0)
    assert bytes(content) == model
    content[:4] = b"Rknn"  # as a runtime may

check_format = container.check_format

def check_format_of_a_cut_file(data):
    os.truncate(path, 5000)
    check_format(data)

container.check_format = check_format_of_a_cut_file
fresh()
refused(lambda: container.loaded(path).__enter__())

def search_of_a_cut_file(*_):
    os.truncate(path, 0)
    return None

class Patterns:
    search = staticmethod(search_of_a_cut_file)

compatibility.re = Patterns
with open(path, "wb") as file:
    file.write(compatibility.PART.ljust(5 << 20))
assert compatibility.runtime_in(path) is None
"""
    folder = Path(__file__).parent
    import tempfile

    with tempfile.TemporaryDirectory() as target:
        done = python(code, folder, target)
    assert done.returncode == 0, done.stderr


def test_a_new_file_takes_the_place_of_the_old_at_the_end(tmp_path: Path) -> None:
    """It has the old one's ending, by which programs choose a format; one that fails is gone."""
    path = tmp_path / "video.mp4"
    path.write_bytes(b"old")
    with replaced_file(path) as name:
        Path(name).write_bytes(b"new")
        assert Path(name).suffix == ".mp4" and path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with pytest.raises(RuntimeError), replaced_file(path) as name:
        Path(name).unlink()  # as a program may do that fails
        raise RuntimeError
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]


@pytest.mark.parametrize("step", ["replace", "fsync", "open"])
def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """When a step fails, the old content stays, and the error has its name."""
    path = tmp_path / "model.rknn"
    replace_file(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "no space", "another")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(OSError, match="no space") as caught:
            replace_file(path, b"new")
    assert caught.value.filename == str(path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [
        ("model.rknn", b"old")
    ]
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_written_file_has_the_permissions_of_others(tmp_path: Path) -> None:
    """A new file has the umask's, an old one keeps its own; a link stays, with a new target."""
    new, old, link = tmp_path / "new", tmp_path / "old", tmp_path / "link"
    old.write_bytes(b"old")
    old.chmod(0o640)
    link.symlink_to(old)
    before = os.umask(0o027)
    try:
        replace_file(new, b"x")
    finally:
        os.umask(before)
    replace_file(link, b"x")
    assert stat.S_IMODE(new.stat().st_mode) == 0o640
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert old.read_bytes() == b"x"
    replace_file("/dev/null", b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def bomb(path: Path) -> None:
    """An archive of a few kilobytes that says that it unpacks to 4 GB."""
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1000))
        archive.filelist[0].file_size = 2**32 - 2


@pytest.mark.parametrize("name", ["bomb", "cut", "empty", "none", "text", "huge", "pickle"])
def test_damaged_files_of_arrays_are_named(tmp_path: Path, name: str) -> None:
    """Nothing is unpacked beyond a limit, unpickled, or left to the names of NumPy's exceptions."""
    path = tmp_path / "x.npy"
    if name == "bomb":
        bomb(path)
    elif name == "cut":
        np.save(path, np.zeros(1000))
        path.write_bytes(path.read_bytes()[:100])
    elif name == "none":
        with path.open("wb") as file:
            np.savez(file)
    elif name == "pickle":
        np.save(path, np.array([{}], object), allow_pickle=True)
    elif name == "huge":
        said = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said + bytes(64))
    else:
        path.write_bytes(b"" if name == "empty" else b"1 2 3")
    with pytest.raises(ValueError, match=r"x\.npy: expected"):
        load_arrays(path)


def test_files_of_arrays(tmp_path: Path) -> None:
    """One array, or several with names, whatever the name of the file."""
    one, several = tmp_path / "one.npz", tmp_path / "several.npy"
    with one.open("wb") as file:
        np.save(file, np.arange(3))
    with several.open("wb") as file:
        np.savez(file, a=np.arange(2), b=np.arange(4))
    assert {name: array.tolist() for name, array in load_arrays(one).items()} == {"": [0, 1, 2]}
    assert {name: len(array) for name, array in load_arrays(several).items()} == {"a": 2, "b": 4}
