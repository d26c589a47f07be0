"""The wheel of the whole package in two, on a small one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from paths import PROJECT

pytest.importorskip("wheel")

WHEELS = PROJECT / "tools" / "wheels"
INFO = "rknn_runtime-1.0.dist-info"


@pytest.fixture
def splitting(monkeypatch):
    """Import ``tools/wheels/split.py``."""
    monkeypatch.syspath_prepend(str(WHEELS))
    spec = importlib.util.spec_from_file_location("wheels_split", WHEELS / "split.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_whole(splitting, folder, machine):
    """Return a wheel with one module in every room."""
    rooms = [*splitting.TOOLS, "npu", "vision/heads"]
    files = {f"rknn_runtime/{room}/__init__.py": f"name = {room!r}\n" for room in rooms}
    extras = "".join(f"Provides-Extra: {extra}\n" for extra in ("sim", *splitting.EXTRAS))
    files["rknn_runtime/__init__.py"] = ""
    files[f"{INFO}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: rknn-runtime\nVersion: 1.0\n{extras}\nText\n"
    )
    files[f"{INFO}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\n"
        f"Tag: cp39-abi3-manylinux_2_17_{machine}\n"
    )
    files[f"{INFO}/licenses/LICENSE"] = "MIT\n"
    for name, text in files.items():
        path = folder / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    splitting.run_wheel("pack", "--dest-dir", folder, folder / "content")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture
def whole(tmp_path, splitting):
    return make_whole(splitting, tmp_path, "aarch64")


def split(splitting, whole):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1000000000"}
    return [zipfile.ZipFile(path) for path in splitting.split(whole, environment)]


def modules(archive):
    return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def test_every_file_is_in_one_of_the_two(whole, splitting):
    """The tools' rooms in the second, all else in the first, which keeps its name."""
    with zipfile.ZipFile(whole) as archive:
        before = modules(archive)
    board, tools = split(splitting, whole)
    assert board.filename == str(whole)
    assert modules(board) == {f"rknn_runtime/{n}__init__.py" for n in ("", "npu/", "vision/heads/")}
    assert modules(tools) == before - modules(board)
    assert all(splitting.is_tool(name) for name in modules(tools))
    assert not any(splitting.is_tool(name) for name in modules(board))
    assert {name.partition("/")[2] for name in tools.namelist() if "dist-info" in name} == {
        *("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")
    }


def test_both_belong_together(whole, splitting):
    """The tools require the very version, and the extras that need tools require them."""
    board, tools = split(splitting, whole)
    text = tools.read("rknn_runtime_tools-1.0.dist-info/METADATA").decode()
    assert "Name: rknn-runtime-tools\nVersion: 1.0\n" in text
    assert "Requires-Dist: rknn-runtime==1.0\n" in text
    lines = board.read(f"{INFO}/METADATA").decode().splitlines()
    needing = [line for line in lines if "rknn-runtime-tools==1.0" in line]
    assert needing == [
        f'Requires-Dist: rknn-runtime-tools==1.0; extra == "{extra}"' for extra in splitting.EXTRAS
    ]


def test_the_tools_are_the_same_bytes_for_every_platform(whole, splitting, tmp_path):
    """What the platform's wheel is called leaves no trace in them."""
    other = make_whole(splitting, tmp_path / "other", "armv7l")
    tools, same = (split(splitting, wheel)[1].filename for wheel in (whole, other))
    assert Path(tools).read_bytes() == Path(same).read_bytes()


def test_they_are_one_package_again(whole, splitting, tmp_path):
    """In one folder each room of both can be imported."""
    paths = [archive.filename for archive in split(splitting, whole)]
    site = tmp_path / "site"
    for path in paths:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    rooms = [*splitting.TOOLS, "npu"]
    code = "".join(f"import rknn_runtime.{room}\n" for room in rooms)
    subprocess.run([sys.executable, "-S", "-c", code], cwd=site, check=True)


def test_an_extra_that_is_gone_is_noticed(whole, splitting, tmp_path):
    """Else it would quietly stop to bring the tools."""
    metadata = tmp_path / "METADATA"
    metadata.write_text("Name: rknn-runtime\n\n", "utf-8")
    with pytest.raises(SystemExit, match="no extra 'tools'"):
        splitting.require_tools(metadata, "1.0")


def test_the_project_has_the_extras_and_rooms(splitting):
    """A room that is renamed would be left where it is."""
    text = (PROJECT / "pyproject.toml").read_text("utf-8")
    for extra in splitting.EXTRAS:
        assert f"\n{extra} = [" in text
    for room in splitting.TOOLS:
        assert f'"rknn_runtime.{room}"' in text
