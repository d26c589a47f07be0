"""The command and the call: output, result and refusals."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from paths import PROJECT
from processes import python

from doctor.machine import CONTENTS, MACHINES, THREADS, build, library
from doctor.test_cases import HEALTHY
from rknn_runtime.cli import main
from rknn_runtime.modelfile.soc import DEVICE_TREE
from rknn_runtime.tools import doctor as module
from rknn_runtime.tools.doctor import Diagnosis, Surroundings, doctor
from rknn_runtime.tools.doctor.facts import Facts, ModelFacts, TrialFacts
from rknn_runtime.tools.doctor.look import Tree, gather
from rknn_runtime.tools.doctor.rules import RULES, Observation, judge
from rknn_runtime.tools.doctor.signs import SIGNS

CLOCKS = {
    name: text for name, text in HEALTHY["RK3588, DRM driver"]["files"].items() if "sys" in name
}
SLOW = {**CLOCKS, "/sys/class/devfreq/fdab0000.npu/governor": "powersave"}
MODEL = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"


def diagnosed(folder: Path, **given: Any) -> Diagnosis:
    built = build(folder, **given)
    return doctor(root=built["root"], surroundings=built["surroundings"], log=built["log"])


def test_the_line_of_the_log_is_shown(tmp_path: Path) -> None:
    """The text quotes the line, a long one by its beginning, and braces stay braces."""
    line = "E RKNN: Unsupport CPU op: {Grid}Sample in this librknnrt.so, " + "please " * 100
    first = diagnosed(tmp_path, log=line).first
    assert first is not None and first.rule == "operator-unknown"
    assert line[:200] in first.text and len(first.text) < 500


def test_every_rule_has_a_case_and_those_of_the_page_exist() -> None:
    """Two rules need a run or old packages; the page has the common ones."""
    page = (PROJECT / "docs" / "troubleshooting.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall("`([a-z0-9-]+)`", row)]
    rules = {rule.name for rule in RULES}
    assert len(named) == len(set(named)) >= 15 and set(named) <= rules
    tried = {case.rule for case in (*THREADS, *MACHINES)}
    assert rules - tried == {"trial-failed", "old-packages"}


def test_the_page_has_the_commands_that_are_printed(judged: list[list[Observation]]) -> None:
    """Each word of code in the column "what repairs it" is printed for one of the machines."""
    printed: dict[str, str] = {}
    for each in (each for found in judged for each in found):
        printed[each.rule] = printed.get(each.rule, "") + f"{each.cure}\n{each.text}\n"
    page = (PROJECT / "docs" / "troubleshooting.md").read_text("utf-8")
    for row in (line.split("|") for line in page.splitlines() if line.startswith("| `")):
        rules = set(re.findall("`([a-z0-9-]+)`", row[1])) & set(printed)
        for word in re.findall("`([^`]+)`", row[3]):
            assert all(word in printed[rule] for rule in rules), (rules, word)


def test_a_library_is_installed_only_if_it_is_the_vendors(tmp_path: Path) -> None:
    """The command of the cure, with programs that note their call: one byte more is refused."""
    (case,) = [each for each in MACHINES if each.rule == "no-library"][:1]
    (cure,) = {each.cure for each in judge(gather(**build(tmp_path / "machine", **case.machine)))
               if each.rule == "no-library"}  # fmt: skip
    assert "/raw/v2.3.2/" in cure
    programs = tmp_path / "bin"
    programs.mkdir()
    calls = {
        "wget": 'test "$1" = -P && printf wrong > "$2/${3##*/}"',
        "sudo": '"$@"',
        "install": f"echo installed > {tmp_path}/installed",
        "ldconfig": "true",
    }
    for name, call in calls.items():
        (programs / name).write_text(f"#!/bin/sh\n{call}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def status(command: str) -> int:
        return subprocess.run(
            ["sh", "-c", command], env=environment, cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert status(cure) != 0
    assert not (tmp_path / "installed").exists()
    right = hashlib.sha256(b"wrong").hexdigest()
    assert status(re.sub("[0-9a-f]{64}", right, cure)) == 0
    assert (tmp_path / "installed").exists()


def test_problems_come_before_warnings_and_what_is_well(tmp_path: Path) -> None:
    """The first cause first."""
    found = diagnosed(tmp_path, files=SLOW, groups=(), log="E RKNN: failed to submit")
    severities = [each.severity for each in found.observations]
    assert severities == sorted(severities, key=["problem", "warning", "ok"].index)
    assert found.first is not None
    assert found.first.rule == "forbidden-node"
    assert not found.healthy
    assert {"ok", "warning", "problem"} == set(severities)


def test_what_is_well_is_described(tmp_path: Path) -> None:
    """A healthy board has a line for each topic that is known."""
    found = diagnosed(tmp_path, files={"/proc/device-tree/model": "Maker Board"})
    assert found.healthy
    assert found.first is None
    texts = {each.topic: each.text for each in found.observations}
    assert texts["board"] == "Maker Board, rk3588 (RKNPU v2), Linux 6.1.75-rockchip"
    assert texts["driver"] == "rknpu 0.9.8, as a DRM device"
    assert "/dev/dri/renderD129 (render, 0660)" in texts["device"]
    library = "/usr/lib/librknnrt.so: librknnrt 2.3.2, 64-bit ARM (aarch64), glibc"
    assert texts["library"] == library
    assert texts["python"] == "Python 3.11.2, numpy 1.26.4, cffi 1.16.0"


def test_the_command_tries_a_model_on_the_simulated_npu(capsys: pytest.CaptureFixture[str]) -> None:
    """On a PC it ends with 0, and nothing of the board is said."""
    assert main(["doctor", str(MODEL), "--sim"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["ok", "model"], ["ok", "python"], ["ok", "test"],
    ]  # fmt: skip
    assert "ran in" in lines[-1]


def test_the_command_ends_with_1_on_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the text stands the command; nothing is coloured in a pipe."""
    root = build(tmp_path, soc="rk3399", driver=None, lib=None)["root"]
    assert main(["doctor", "--root", str(root), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["healthy"] is False
    assert main(["doctor", "--root", str(root)]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].startswith("problem  board")
    assert "$ rknn-runtime doctor --sim" in printed.splitlines()[1]
    assert "\033" not in printed


def test_a_model_that_cannot_be_read_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no matter of the machine."""
    assert main(["doctor", "nowhere.rknn"]) == 1
    assert "nowhere.rknn" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError):
        doctor(log="nowhere.txt", surroundings=Surroundings())


@pytest.mark.parametrize("name", ["library", "surroundings"])
def test_arguments_of_another_type_are_refused(name: str) -> None:
    """The error names the expected type."""
    with pytest.raises(TypeError, match=f"{name}: expected"):
        doctor(**{name: 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", CONTENTS)
def test_no_content_of_a_model_ends_in_an_exception(kind: str, tmp_path: Path) -> None:
    """Whatever the file is, there is a line about it."""
    path = tmp_path / "model.rknn"
    path.write_bytes(CONTENTS[kind])
    found = doctor(path, library="sim", root=tmp_path, surroundings=Surroundings())
    assert any(each.topic == "model" and each.rule for each in found.observations)


def test_a_library_without_functions_and_one_that_nobody_may_read(tmp_path: Path) -> None:
    """Both are reported, as is a package that is too old."""
    built = build(tmp_path, lib=None, libs={"/usr/lib/librknnrt.so": "2.3.2"})
    file = built["root"] / "usr/lib/librknnrt.so"
    file.write_bytes(file.read_bytes().replace(b"rknn_run\0", b"rknn_jog\0"))
    facts = gather(**built)
    assert judge(facts)[0].rule == "library-damaged"
    assert "rknn_run" in judge(facts)[0].text
    unreadable = replace(facts.libraries[0], fault="unreadable")
    assert judge(replace(facts, libraries=(unreadable,)))[0].rule == "library-unreadable"
    old = replace(built["surroundings"], versions={"numpy": "1.18.5"})
    well = replace(facts, libraries=(), surroundings=old, nodes=(), simulated=True)
    assert judge(well)[0].rule == "old-packages"


def test_what_ends_the_process_in_the_test_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal has its name, an exception its message, and nobody waits for ever."""
    monkeypatch.setattr(module, "_TRIAL", "import os; print('last words'); os.abort()")
    assert "SIGABRT" in module._trial("x", None).text
    monkeypatch.setattr(module, "_TRIAL", "raise ValueError('what it says')")
    assert module._trial("x", None).text == "ValueError: what it says"

    def late(*arguments: object, **named: object) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(module.subprocess, "run", late)
    assert "no answer" in module._trial("x", None).text


def test_a_failed_test_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with the runtime's own log."""
    monkeypatch.setattr(module, "_TRIAL", "raise SystemExit(3)")
    found = doctor(MODEL, library="sim")
    assert found.first is not None
    assert found.first.rule == "trial-failed"
    assert "exit status 3" in found.first.text
    assert "RKNN_LOG_LEVEL=4" in found.first.cure


def test_what_only_the_emulated_npu_does_not_know_is_told_so() -> None:
    """It says nothing of a board, and `info --emulate` has all of it."""
    model = PROJECT / "tests" / "data" / "models" / "i16_ic1_w37_rv1106.rknn"
    first = doctor(model, library="sim").first
    assert first is not None and first.rule == "trial-failed"
    assert first.text.startswith("the emulated NPU does not know everything that this model does")
    assert first.text.endswith("are not understood")
    assert first.cure == f"rknn-runtime info --emulate {model}"


def test_nothing_outside_the_root_is_read(tmp_path: Path) -> None:
    """Nor where links and the Python of the tree would lead; the interpreter itself says so."""
    root = build(tmp_path, files=CLOCKS, links={
        "/usr/lib64": "/usr/lib", "/usr/local": "../../../../../../../usr/local",
        "/lib": "usr/lib", "/proc/1": "/proc/1",
    })["root"]  # fmt: skip
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").symlink_to("/usr/bin/env")
    program = """
import os, sys
from rknn_runtime.tools.doctor import doctor
root, watched, seen = sys.argv[1], [False], []
def note(path):
    if watched[0] and isinstance(path, (str, bytes, os.PathLike)):
        seen.append(os.path.abspath(os.fsdecode(path)))
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "glob.glob") and arguments:
        note(arguments[0])
def noting(call):
    def wrapped(path, *rest, **named):
        note(path)
        return call(path, *rest, **named)
    return wrapped
for name in ("stat", "lstat", "access", "readlink"):
    setattr(os, name, noting(getattr(os, name)))
sys.addaudithook(hook)
for watched[0] in (False, True):  # imports read files, too
    found = doctor(root=root)
inside = [path for path in seen if path.startswith(root)]
print(len(inside) > 50, sorted(
    {path for path in seen if not path.startswith(root) and not root.startswith(path)}))
"""
    done = python(program, root)
    assert done.stdout == "True []\n", done.stderr


def test_links_lead_nowhere_outside_the_root(tmp_path: Path) -> None:
    """An absolute link starts at the root, ".." ends there, and a link to itself is nothing."""
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "root/a/file").write_text("inside", "utf-8")
    (tmp_path / "file").write_text("outside", "utf-8")
    for name, goal in (("b", "/a"), ("c", "../../file"), ("d", "/d"), ("e", "../../a/file")):
        (tmp_path / "root" / name).symlink_to(goal)
    tree = Tree(tmp_path / "root")
    assert [tree.text(f"/{name}") for name in ("b/file", "b/../b/./file", "e")] == ["inside"] * 3
    assert [tree.text(f"/{name}") for name in ("c", "d", "../file", "d/file")] == [""] * 4
    assert tree.exists("/d")


def test_another_root_is_judged_by_its_own_python(tmp_path: Path) -> None:
    """And nothing is loaded and run for it, as this machine is another."""
    built = build(tmp_path)
    (built["root"] / "usr/bin").mkdir(parents=True)
    (built["root"] / "usr/bin/python3").write_bytes(library("2.3.2"))
    found = doctor(MODEL, root=built["root"])
    assert found.healthy
    assert found.facts.surroundings.machine == "aarch64"
    assert found.facts.trial is None


def test_every_word_of_a_rule_is_known_and_every_sign_used() -> None:
    """A misspelt word would never apply; every sign is used by a rule."""
    words = [word.lstrip("!") for rule in RULES for word in rule.when.split()]
    named = {word[4:] for word in words if word.startswith("log:")}
    assert named <= set(SIGNS)
    facts = Facts(model=ModelFacts("", "rknn"), trial=TrialFacts(True, ""))
    for word in words:
        if not word.startswith("log:"):
            attrgetter(word.partition("=")[0])(facts)
    text = (PROJECT / "rknn_runtime/tools/doctor/facts.py").read_text("utf-8")
    assert [name for name in SIGNS if name not in named and f'"{name}"' not in text] == []


@pytest.mark.parametrize("kind", ["fifo", "socket", "endless", "folder", "loop"])
def test_what_is_no_file_of_a_kernel_is_not_waited_for(kind: str, tmp_path: Path) -> None:
    """A FIFO, socket, folder or endless file in place of any file of a tree stops nothing."""
    root = build(tmp_path, files=CLOCKS)["root"]
    asked = [path for path in root.rglob("*") if path.is_file()]
    asked += [root / path for path in ("proc/1/cgroup", "proc/meminfo", "var/log/kern.log",
              "usr/bin/python3", "dev/kmsg", "sys/kernel/debug/rknpu/load")]  # fmt: skip
    assert len(asked) > 20
    for path in asked:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        put(kind, path)
    program = """
import resource, signal, sys
from rknn_runtime.tools import board
from rknn_runtime.tools.doctor import Surroundings, doctor
from rknn_runtime.modelfile.compatibility import driver_version
from rknn_runtime.modelfile.soc import soc_of_this_machine
signal.alarm(60)
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
root = sys.argv[1]
assert doctor(root=root).first is not None
assert doctor(root=root, surroundings=Surroundings(live=True)).first is not None
print(board.state(root), driver_version(root), soc_of_this_machine(root + sys.argv[2]))
"""
    done = python(program, root, DEVICE_TREE)
    assert (done.stdout, done.stderr, done.returncode) == ("{} None None\n", "", 0)


def put(kind: str, path: Path) -> None:
    """Make something that is no file to read, or one that is too large for any memory."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        os.mknod(path, stat.S_IFSOCK | 0o600)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)


def test_a_library_that_was_named_is_the_only_one(tmp_path: Path) -> None:
    """As when a model is loaded: another one is no way out, and "sim" needs no board."""
    built = build(tmp_path)
    for name, rule in (("/opt/librknnrt.so", "no-library"), ("/usr/lib/librknnrt.so", None)):
        found = doctor(root=built["root"], surroundings=built["surroundings"], library=name)
        assert (found.first and found.first.rule) == rule
    process = build(tmp_path / "pc", soc=None, variables={"RKNN_RUNTIME_LIBRARY": "sim"})
    assert doctor(root=process["root"], surroundings=process["surroundings"]).healthy
