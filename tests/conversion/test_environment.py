"""The toolkit's environment: made once, made again when broken, never half."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading

import pytest

from rknn_runtime.conversion import environment, torch_standin
from rknn_runtime.conversion.environment import (
    ToolkitEnvironmentError,
    find_python,
    toolkit_python,
)


def test_it_is_made_once(toolkit_process, monkeypatch):
    """The second time nothing is run but its Python."""
    python = toolkit_python(folder=toolkit_process.folder)
    found = subprocess.run([python, "-c", "import rknn.api"], check=False)
    assert found.returncode == 0
    monkeypatch.setattr(environment, "_make", None)
    said = []
    assert toolkit_python(folder=toolkit_process.folder, progress=said.append) == python
    assert said == []


@pytest.mark.parametrize("damage", ["ready.json", "bin/python", "half"])
def test_a_broken_one_is_made_anew(data, tmp_path, monkeypatch, damage):
    """An interrupted installation has no mark, and may lack its Python."""
    place = tmp_path / "rknn-toolkit2-2.3.2"
    made = []

    def make(folder, *arguments):
        made.append(folder)

    monkeypatch.setattr(environment, "_make", make)
    place.mkdir()
    if damage != "half":
        (place / "ready.json").write_text("{" if damage == "ready.json" else '{"files": "x"}')
    toolkit_python(folder=tmp_path)
    assert made == [place]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"requirements-2.3.2.txt": None}, "another file than the tested one"),
        ({"requirements.txt": "numpy==1.26.4 --hash=sha256:"}, "PIP_FIND_LINKS"),
    ],
    ids=["another file", "no network"],
)
def test_a_failed_installation_leaves_nothing(
    toolkit_process, tmp_path, monkeypatch, lines, message
):
    """And says pip's reason: another file than was tried; wheels can be brought in a folder."""
    tested = (environment._DATA / "requirements-2.3.2.txt").read_text()
    data, run = tmp_path / "data", environment._run
    data.mkdir()
    for name in ("requirements.txt", "requirements-2.3.2.txt"):
        line = lines.get(name, "")
        line = tested.rpartition(":")[0] + ":" if line is None else line
        (data / name).write_text(line and f"{line}{'0' * 64}\n")

    def copied(words, say):  # an environment is slow to make
        if "venv" in words:
            (made,) = toolkit_process.folder.glob("rknn-*/")
            shutil.copytree(made, words[-1], symlinks=True)
        else:
            run(words, say)

    monkeypatch.setattr(environment, "_run", copied)
    monkeypatch.setattr(environment, "_DATA", data)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ToolkitEnvironmentError, match=message):
        toolkit_python(folder=tmp_path / "made", python=sys.executable)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["rknn-toolkit2-2.3.2.lock"]


def test_a_full_disk_is_told_before(data, tmp_path, monkeypatch):
    """With the room that is wanted."""
    monkeypatch.setattr(environment, "_ROOM_BYTES", {False: 10**18, True: 10**18})
    with pytest.raises(ToolkitEnvironmentError, match=r"expected 1000000000\.0 GB of room"):
        toolkit_python(folder=tmp_path, python=sys.executable)


def test_two_do_not_install_at_once(data, tmp_path, monkeypatch):
    """The second waits for the first, and then finds it made."""
    inside, waits, done = threading.Event(), threading.Event(), []

    def make(place, made_of, *arguments):
        inside.set()
        assert waits.wait(60)
        place.mkdir()
        done.append(place)

    monkeypatch.setattr(environment, "_make", make)
    monkeypatch.setattr(environment, "_is_ready", lambda place, made_of: place in done)
    first = threading.Thread(target=toolkit_python, kwargs={"folder": tmp_path})
    first.start()
    assert inside.wait(60)
    said = []

    def say(line):
        said.append(line)
        waits.set()

    toolkit_python(folder=tmp_path, progress=say)
    first.join(60)
    assert len(done) == 1
    assert said == ["waiting for another process that installs rknn-toolkit2"]


def test_the_cache_is_the_users(data, tmp_path, monkeypatch):
    """XDG_CACHE_HOME where it is absolute, else ~/.cache."""
    made = []
    monkeypatch.setattr(environment, "_make", lambda place, *arguments: made.append(place))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for cache, expected in ((str(tmp_path / "x"), "x"), ("", "home/.cache"), ("y", "home/.cache")):
        monkeypatch.setenv("XDG_CACHE_HOME", cache)
        toolkit_python()
        assert made.pop() == tmp_path / expected / "rknn-runtime/toolkit/rknn-toolkit2-2.3.2"


def test_no_python_that_fits_is_explained(monkeypatch):
    """Which versions, and how to get one."""
    monkeypatch.setattr(environment, "_fits", lambda python: False)
    with pytest.raises(ToolkitEnvironmentError, match=r"Python 3\.9 to 3\.12.*apt install"):
        find_python()


@pytest.mark.parametrize(("system", "machine"), [("linux", "armv7l")])
def test_other_machines_are_refused(monkeypatch, system, machine):
    """The toolkit has no wheels there."""
    monkeypatch.setattr(environment.sys, "platform", system)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    with pytest.raises(ToolkitEnvironmentError, match=f"this is {system} on {machine}"):
        find_python()


def test_what_is_no_python_does_not_fit(tmp_path):
    """Nor what prints something else."""
    for path in (str(tmp_path / "none"), "/bin/false", "/bin/echo"):
        assert not environment._fits(path)


def test_an_unknown_version_is_refused(tmp_path):
    """With the known ones."""
    with pytest.raises(ValueError, match=r"toolkit: expected 2\.3\.2 or 2\.5\.0, got '1\.0'"):
        toolkit_python("1.0", folder=tmp_path)


def test_every_requirement_is_pinned_and_hashed():
    """Each package has one line; the file's name has the toolkit's version."""
    files = sorted(environment._DATA.iterdir())
    of_versions = [environment._DATA / f"requirements-{v}.txt" for v in environment.VERSIONS]
    assert {*of_versions, *environment._files("2.3.2", True)} == set(files)
    for path in files:
        packages = path.read_text().replace("\\\n", "").splitlines()
        assert packages
        for line in packages:
            assert re.match(r"[\w.-]+==[\w.]+ ", line)
            assert "--hash=sha256:" in line
    for version, path in zip(environment.VERSIONS, of_versions):
        assert path.read_text().startswith(f"rknn-toolkit2=={version} ")


def test_the_stand_in_for_torch_splits_and_joins():
    """As the toolkit asks it to, and refuses the rest by name."""
    rows = torch_standin.arange(6).reshape(2, 3)
    first, rest = torch_standin.split(rows, [1, 2], dim=1)
    assert torch_standin.cat([rest, first], dim=1).tolist() == [[1, 2, 0], [4, 5, 3]]
    assert [part.tolist() for part in torch_standin.split(torch_standin.arange(5), 2)] == [
        [0, 1], [2, 3], [4],
    ]  # fmt: skip
    with pytest.raises(NotImplementedError, match=r"torch\.jit.*--with-torch"):
        _ = torch_standin.jit
    with pytest.raises(NotImplementedError, match=r"torch\.Tensor\.cuda"):
        rows.cuda()
