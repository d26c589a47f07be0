"""Print a script that completes commands, options and their values in a shell.

Examples:
  eval "$(rknn-runtime completion bash)"          # in ~/.bashrc
  source <(rknn-runtime completion zsh)           # in ~/.zshrc, behind compinit
  rknn-runtime completion fish | source           # in ~/.config/fish/config.fish
  rknn-runtime completion --json                  # the same as a table, for other shells
"""

from __future__ import annotations

import json
import re
import shlex
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any, NamedTuple

from rknn_runtime.cli.commands import COMMANDS, declare

__all__ = ["add_arguments", "run"]


class _Option(NamedTuple):
    names: tuple[str, ...]
    help: str
    takes_value: bool
    #: What the value can be; none: a file's name, or anything.
    choices: tuple[str, ...]


class _Command(NamedTuple):
    name: str
    help: str
    options: tuple[_Option, ...]
    #: Of the words that are no options.
    choices: tuple[str, ...]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("shell", nargs="?", choices=sorted(_SCRIPTS), help="which one")
    which.add_argument("--json", action="store_true", help="print a JSON object per command")


def run(arguments: Namespace) -> None:
    """Print the script, or what it is made of."""
    commands = [_command(name, text) for name, text in COMMANDS.items()]
    if arguments.json:
        for command in commands:
            options = [option._asdict() for option in command.options]
            print(json.dumps({**command._asdict(), "options": options}))
    else:
        print("\n".join(_SCRIPTS[arguments.shell](commands)))


def _command(name: str, text: str) -> _Command:
    parser = ArgumentParser()
    declare(name, parser)
    options: list[_Option] = []
    choices: list[str] = []
    for action in parser._actions:
        allowed = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            choices += allowed
        elif action.help != SUPPRESS:
            names = tuple(action.option_strings)
            takes = action.nargs != 0
            options.append(_Option(names, (action.help or "").replace("%%", "%"), takes, allowed))
    return _Command(name, text, tuple(options), tuple(choices))


def _bash(commands: list[_Command]) -> Iterator[str]:
    yield "_rknn_runtime() {"
    yield '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words='
    yield '    case "$COMP_CWORD:${COMP_WORDS[1]}:$before" in'
    yield f"        1:*) words={_words(['--help', '--version', *(c.name for c in commands)])} ;;"
    for command in commands:
        values: dict[tuple[str, ...], list[str]] = {}
        for option in command.options:
            if option.takes_value:
                names = (f"*:{command.name}:{name}" for name in option.names)
                values.setdefault(option.choices, []).extend(names)
        for choices, patterns in values.items():
            # Without choices the shell completes the name of a file.
            yield f"        {'|'.join(patterns)}) words={_words(choices)} ;;"
        yield f"        *:{command.name}:*)"
        yield f"            words={_words(command.choices)}"
        flags = _words(name for option in command.options for name in option.names)
        yield f'            [[ "$word" == -* ]] && words={flags} ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o bashdefault -o default -F _rknn_runtime rknn-runtime"


def _zsh(commands: list[_Command]) -> Iterator[str]:
    yield "#compdef rknn-runtime"
    yield "_rknn_runtime() {"
    yield "    if (( CURRENT == 2 )); then"
    listed = " ".join(_quoted(f"{c.name}:{c.help}") for c in commands)
    yield f"        local -a commands=({listed})"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words"
    yield "    (( CURRENT-- ))"
    yield "    case $command in"
    for command in commands:
        yield f"        {command.name}) _arguments \\"
        for option in command.options:
            text = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
            value = f":value:{_zsh_values(option.choices)}" if option.takes_value else ""
            for name in option.names:
                yield f"            {_quoted(f'{name}[{text}]{value}')} \\"
        yield f"            {_quoted(f'*:argument:{_zsh_values(command.choices)}')} ;;"
    yield "    esac"
    yield "}"
    yield "compdef _rknn_runtime rknn-runtime"


def _zsh_values(choices: tuple[str, ...]) -> str:
    return f"({' '.join(choices)})" if choices else "_files"


def _fish(commands: list[_Command]) -> Iterator[str]:
    start = "complete -c rknn-runtime"
    for command in commands:
        inside = f"{start} -n {_quoted(f'__fish_seen_subcommand_from {command.name}')}"
        yield (f"{start} -f -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}")
        if command.choices:
            yield f"{inside} -f -a {_words(command.choices)}"
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            value = f" -x -a {_words(option.choices)}" if option.choices else ""
            value = value or (" -r" if option.takes_value else "")
            yield f"{inside} {names}{value} -d {_quoted(option.help)}"


def _words(words: Any) -> str:
    return _quoted(" ".join(words))


def _quoted(text: str) -> str:
    """One word for any of the shells; of a help text the line breaks go."""
    return shlex.quote(" ".join(text.split()) if "\n" in text else text)


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
