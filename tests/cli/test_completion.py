"""Completion in shells: ``rknn-runtime completion``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rknn_runtime.cli import main

#: Asks bash what it would complete, by its own machinery: the function that `complete` names.
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
        (["info", "--la"], ["--layers"]),
        (["info", "model.rknn", "--he"], ["--help", "--health"]),
        (["info", "--runtime-version", ""], ["2.3.2", "1.5.2"]),
        (["detect", "--format", "co"], ["coco"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        # An empty answer: the shell completes names of files.
        (["info", ""], []),
        (["bench", "--output", ""], []),
        (["nonsense", "--"], []),
    ],
    ids=" ".join,
)
def test_bash_completes_commands_options_and_values(
    words: list[str], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user gets by the tab key."""
    bash = shutil.which("bash")
    assert bash, "bash is missing"
    path = tmp_path / "completion"
    path.write_text(script("bash", capsys))
    done = subprocess.run(
        [bash, "--norc", "-c", ASK, "bash", str(path), "rknn-runtime", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == expected
    assert done.stderr == ""


def test_zsh_and_fish_get_every_command_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Quoted for the shell, with the values that an option takes."""
    zsh = script("zsh", capsys)
    assert zsh.startswith("#compdef rknn-runtime\n")
    assert "'info:show what a model wants and gives'" in zsh
    assert "'--runtime-version[" in zsh and ":value:(2.3.2 1.5.2)'" in zsh
    fish = script("fish", capsys)
    line = next(line for line in fish.splitlines() if "-l runtime-version" in line)
    assert "-n '__fish_seen_subcommand_from info'" in line and "-x -a '2.3.2 1.5.2'" in line
    assert "-f -n __fish_use_subcommand -a serve -d '" in fish


def test_an_unknown_shell_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, with those that are known."""
    with pytest.raises(SystemExit) as caught:
        main(["completion", "tcsh"])
    assert caught.value.code == 2
    assert "bash" in capsys.readouterr().err
