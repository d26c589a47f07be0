"""Print a script that completes commands, options and their values in a shell.

The package shtab writes it: pip install shtab

Examples:
  eval "$(rknn-runtime completion bash)"          # in ~/.bashrc
  source <(rknn-runtime completion zsh)           # in ~/.zshrc, after compinit
  rknn-runtime completion fish | source           # in ~/.config/fish/config.fish
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from rknn_runtime.cli.main import COMMANDS, make_parser


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "fish", "zsh"), help="the shell")


def run(arguments: Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise ImportError(
            "scripts for shells are written by the package shtab, which is not installed: "
            "pip install shtab"
        ) from error
    parser = make_parser(COMMANDS)
    (commands,) = (action.choices for action in parser._actions if isinstance(action.choices, dict))
    for command in commands.values():
        for action in command._actions:
            if action.choices is None and action.nargs != 0:
                action.complete = shtab.FILE
    print(shtab.complete(parser, arguments.shell))
