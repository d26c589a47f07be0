"""Completion in shells: ``rknn-runtime completion``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rknn_runtime.cli import main

pytest.importorskip("shtab")

#: Asks bash for completions by its own machinery: the function that `complete` names.
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
handler=$(complete -p rknn-runtime) && handler=${handler##*-F } && ${handler%% *}
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ser"], ["serve"]),
        (["--v"], ["--version"]),
        (["info", "model.rknn", "--he"], ["--help", "--health"]),
        (["info", "--runtime-version", ""], ["2.3.2", "1.5.2"]),
        (["detect", "--format", "co"], ["coco"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["info", "mod"], ["model.rknn"]),
        (["bench", "--output", "mod"], ["model.rknn"]),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_options_and_values(
    words: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tab key offers commands, options, their choices, and files elsewhere."""
    bash = shutil.which("bash")
    assert bash, "bash is missing"
    (tmp_path / "model.rknn").touch()
    (tmp_path / "completion").write_text(script("bash", capsys))
    done = subprocess.run(
        [bash, "--norc", "-c", ASK, "bash", "completion", "rknn-runtime", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected


def test_without_shtab_the_pip_command_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, with status 1."""
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(": pip install shtab")
