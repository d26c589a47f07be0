"""Every command reports unreadable and unwritable paths in one wording, before its work."""

from __future__ import annotations

import os
import shlex
import shutil
from argparse import ArgumentParser

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.cli import main
from rknn_runtime.cli.files import line_of
from rknn_runtime.cli.main import COMMANDS, declare

MODEL = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
SCENE = PROJECT / "examples" / "scenes" / "scene.png"
LISTEN = "--sim --listen 127.0.0.1:0"

#: Files that are read; the folder of a row may be one, too, where it ends in "/".
READ = """
info {x}
convert {x}.onnx --for rk3588
convert net.onnx --for rk3588 --labels {x}.txt
detect {x}/ photos --sim
detect model.rknn {x}/ --sim
detect model.rknn photos --sim --labels {x}.txt
serve {x}/ photos LISTEN
serve model.rknn {x}/ LISTEN
serve model.rknn photos LISTEN --labels {x}.txt
bench {x} --sim
bench {x} --sim --layers
bench suite {x}/ --sim
bench compare {x} net.onnx
bench compare net.onnx {x}
doctor {x} --sim
doctor --log {x}
doctor model.rknn photos --labels {x}.txt
predict {x}
predict {x}.onnx
accuracy {x}.rknn model.rknn --images photos
accuracy model.rknn {x}.onnx --images photos
accuracy {x}.txt
accuracy model.rknn model.rknn --images photos --names {x}.txt
accuracy net.onnx --for rk3588 --calibrate photos --judge {x}.png
record {x} sample.npy -o made
record model.rknn {x} -o made
"""
READ_FOLDERS = """
convert net.onnx --for rk3588 --calibrate {x}
convert net.onnx --for rk3588 --evaluate {x}
doctor --root {x}
info model.rknn --health --photos {x}
accuracy model.rknn model.rknn --images {x}
accuracy model.rknn model.rknn --images photos --labels {x}
accuracy net.onnx --for rk3588 --calibrate {x}
"""
WRITTEN = """
info model.rknn --graph {x}.svg
convert net.onnx --for rk3588 -o {x}
convert net.onnx --for rk3588 --report {x}
convert net.onnx --for rk3588 --html {x}
convert net.onnx --for rk3588 --log {x}
detect model.rknn photos --sim -o {x}
doctor model.rknn photos --html {x}
accuracy model.rknn model.rknn --images photos --html {x}
bench model.rknn --sim -o {x}
bench model.rknn --sim --html {x}
bench model.rknn --sim --plot {x}.png
bench suite model.rknn --sim -o {x}
bench --layers model.rknn --sim -o {x}
accuracy model.rknn model.rknn --images photos --plot {x}.svg
record model.rknn sample.npy -o {x}
demo -o {x}
"""
WRITTEN_FOLDERS = """
detect model.rknn photos --sim --save {x}
detect model.rknn photos --sim --format yolo -o {x}
sim-library {x}
rknnlite --wheel {x}
"""
#: Names that no command opens itself: searched unless they have a slash (`test_a_library`),
#: or made with all in it; a program.
OTHER = {"--library", "--environment", "--python"}


def rows(table: str) -> list[str]:
    return table.replace("LISTEN", LISTEN).strip().splitlines()


@pytest.fixture
def tell(tmp_path, monkeypatch, capsys):
    """Run a row in a folder with the files that it names; return its one line of output."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, "model.rknn")
    (tmp_path / "photos").mkdir()
    shutil.copy(SCENE, "photos")
    (tmp_path / "net.onnx").write_bytes(b"no network")
    np.save("sample.npy", np.zeros((1, 320, 320, 3), np.uint8))

    def told(row: str, path: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert main(shlex.split(row.replace("{x}", path))) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("rknn-runtime: ")
        assert captured.err.endswith("\n") and captured.err.count("\n") == 1
        assert sorted(tmp_path.rglob("*")) == before
        return captured.err[len("rknn-runtime: ") : -1]

    return told


@pytest.fixture
def seal(monkeypatch):
    """Take the permission for a path, also from root."""
    may = os.access

    def sealed(path: str) -> None:
        monkeypatch.setattr(
            "os.access", lambda name, mode: os.fspath(name) != path and may(name, mode)
        )

    return sealed


def named(row: str, path: str) -> str:
    """The whole name that a row makes of a path."""
    (word,) = [word for word in row.split() if word.startswith("{x}")]
    return word.replace("{x}", path).rstrip("/")


@pytest.mark.parametrize("command", ["bench model.rknn", "doctor", "verify"])
def test_a_library(command, tell, seal, tmp_path):
    """Not there, a folder, and no permission; a name without a slash is looked for."""
    row, path = f"{command} --library {{x}}", tmp_path / "x"
    assert tell(row, str(path)) == f"{path}: no such file"
    path.mkdir()
    assert tell(row, str(path)) == f"{path}: is a directory"
    path.rmdir()
    path.touch()
    seal(str(path))
    assert tell(row, str(path)) == f"{path}: permission denied"


@pytest.mark.parametrize("row", rows(READ))
def test_files_that_are_read(row, tell, seal, tmp_path):
    """Not there, a folder, and no permission."""
    name = named(row, "x")
    is_source = "model.rknn {x}/" in row
    row = row.replace("{x}/", "{x}")
    missing = tell(row, "x")
    assert missing == f"{name}: no such file" + (
        ", folder, camera or stream" if is_source and row.startswith("detect") else ""
    )
    if (row.split()[0] not in ("detect", "serve") and "suite" not in row) or "--labels" in row:
        (tmp_path / name).mkdir()
        assert tell(row, "x") == f"{name}: is a directory"
        (tmp_path / name).rmdir()
    if is_source and row.startswith("detect"):
        return  # an image that cannot be read is told among the others
    (tmp_path / name).write_bytes(b"x")
    seal(name)
    assert tell(row, "x") == f"{name}: permission denied"


@pytest.mark.parametrize("row", [*rows(READ_FOLDERS), *rows(WRITTEN_FOLDERS)])
def test_folders(row, tell, seal, tmp_path):
    """Not there, a file, and no permission."""
    if row in rows(READ_FOLDERS):
        assert tell(row, "x") == "x: no such folder"
    (tmp_path / "x").write_bytes(b"x")
    assert tell(row, "x") == "x: not a directory"
    (tmp_path / "x").unlink()
    (tmp_path / "x").mkdir()
    seal("x")
    assert tell(row, "x") == "x: permission denied"


@pytest.mark.parametrize("row", rows(WRITTEN))
def test_files_that_are_written(row, tell, seal, tmp_path):
    """In no folder, over a folder, over a file that is sealed, and in a folder that is."""
    name = named(row, "x")
    assert tell(row, "no/x") == "no: no such folder"
    assert tell(row, "net.onnx/x") == "net.onnx: not a directory"
    (tmp_path / name).mkdir()
    assert tell(row, "x") == f"{name}: is a directory"
    (tmp_path / name).rmdir()
    (tmp_path / name).write_bytes(b"x")
    seal(name)
    assert tell(row, "x") == f"{name}: permission denied"
    (tmp_path / name).unlink()
    seal("photos")
    assert tell(row, "photos/x") == "photos: permission denied"


def test_every_option_with_a_path_has_a_row():
    """A new one is held to this, too."""
    table = " ".join((READ, READ_FOLDERS, WRITTEN, WRITTEN_FOLDERS))
    for command in COMMANDS:
        parser = ArgumentParser()
        declare(command, parser)
        for action in parser._actions:
            if action.metavar in ("FILE", "PATH", "FOLDER", "IMAGES", "BUNDLE", "PROGRAM"):
                names = set(action.option_strings)
                lines = [line.split() for line in table.splitlines() if line.startswith(command)]
                assert names & OTHER or not names or any(names & set(line) for line in lines), names


def test_what_the_system_says_is_worded_likewise():
    """Without a number, and with the name in front where there is one."""
    assert line_of(OSError(28, "No space left on device")) == "no space left on device"
    assert line_of(OSError(36, "File name too long", b"x")) == "x: file name too long"
    assert line_of(OSError("our own Words")) == "our own Words"
    assert line_of(FileNotFoundError(2, os.strerror(2), "x")) == "x: no such file"
    assert line_of(MemoryError()) == ""
