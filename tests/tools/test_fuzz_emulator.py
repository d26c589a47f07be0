"""The command that runs damaged models: its counts and its findings."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest
from hostile_models import seeds
from paths import DATA, PROJECT

WORKER = """
import os, signal, sys, time
first, end, *folders = sys.argv[1:]
print(3, flush=True)
for number in range(int(first), int(end)):
    print(number, "model", end=" ", flush=True)
    if number in (12, 15):
        print("==1==ERROR: AddressSanitizer: made up", file=sys.stderr)
        os.abort()
    if number == 17:
        signal.setitimer(signal.ITIMER_PROF, 0.01)
        while True:
            pass
    print(number % 2, number / 1000, flush=True)
print(folders, file=sys.stderr)
if int(end) > 30:
    leak = "Direct leak of 9 byte(s) in 1 object(s) allocated from:\\n    #0 in {} {}:1\\n"
    print(leak.format("python", "Objects/x.c"), leak.format("lost", "/p/csrc/sim/x.c"),
          sep="\\n", file=sys.stderr)
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch):
    """``tools/fuzz_emulator.py`` as a module."""
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    monkeypatch.setattr(sys, "argv", ["tools/fuzz_emulator.py"])
    return importlib.import_module("fuzz_emulator")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A worker that dies at two numbers, hangs at one, and leaks at the end."""
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    return [sys.executable, str(script), "a folder"]


def test_each_end_of_a_process_is_one_finding(tool, command, capsys) -> None:
    """The sanitizer's words, the number, how to repeat it; all other numbers run."""
    tally = tool.hunt(range(10, 20), command)
    crash, again, hang = tally.findings
    assert (tally.done, tally.ran, tally.seeds) == (10, 3, 3)
    assert tally.longest == (0.019, 19, "model")
    assert "AddressSanitizer: made up" in crash and "AddressSanitizer: made up" in again
    assert "python tools/fuzz_emulator.py 'a folder' --first 12 --count 1" in crash
    assert "more than a second of CPU" in hang and "--first 17 --count 1" in hang
    assert hang in capsys.readouterr().err
    assert "3 ran, 7 were refused, 3 findings; the longest 0.019 s" in str(tally)


def test_a_short_run_finds_nothing(tool, tmp_path: Path) -> None:
    """200 damaged models on this very installation, most of which run; a folder's among them."""
    shutil.copy(DATA / "models" / "ic5_rv1106.rknn", tmp_path / "mine.rknn")
    tally = tool.hunt(range(200), [*tool.WORKER, str(tmp_path)])
    assert not tally.findings
    assert tally.done == 200 > tally.ran > 100
    assert tally.seeds == len(seeds([tmp_path])) == len(seeds()) + 1
