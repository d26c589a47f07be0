"""The command that runs damaged models: its counts and its findings."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

import pytest
from hostile_models import seeds
from paths import DATA, PROJECT


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch):
    """``tools/fuzz_emulator.py`` as a module."""
    monkeypatch.syspath_prepend(str(PROJECT / "tools"))
    monkeypatch.setattr(sys, "argv", ["tools/fuzz_emulator.py"])
    return importlib.import_module("fuzz_emulator")


def test_a_short_run_finds_nothing(tool, tmp_path: Path) -> None:
    """200 damaged models on this very installation, most of which run; a folder's among them."""
    shutil.copy(DATA / "models" / "ic5_rv1106.rknn", tmp_path / "mine.rknn")
    tally = tool.hunt(range(200), [*tool.WORKER, str(tmp_path)])
    assert not tally.findings
    assert tally.done == 200 > tally.ran > 100
    assert tally.seeds == len(seeds([tmp_path])) == len(seeds()) + 1
