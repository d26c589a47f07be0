"""Reads the command line and calls the command."""

from __future__ import annotations

import io
import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

import rknn_runtime
from rknn_runtime._printable import printable_lines
from rknn_runtime.cli.commands import COMMANDS, declare
from rknn_runtime.cli.files import check_readable, line_of
from rknn_runtime.cli.options import logs_shown
from rknn_runtime.cli.signals import ended_by_signals
from rknn_runtime.errors import LibraryLoadError, RknnError

__all__ = ["main"]

#: Status of a command that was told to end, by Ctrl-C or another signal.
_STOPPED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Words of the command line behind the program; None: of this process.

    Returns:
        Exit status: 0, 1 when something could not be done, 130 after Ctrl-C, 143 after
        SIGTERM, or 129 after SIGHUP. A wrong command line exits with 2.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser(words)
    if not words:  # a newcomer's first line
        parser.print_help(sys.stderr)
        parser.exit(2)
    parsed = parser.parse_args(words)
    for value in vars(parsed).values():
        if value == "" or (isinstance(value, list) and "" in value):
            parser.error("expected no empty word, got one, as of a variable that is not set")
    for stream in (sys.stdout, sys.stderr):  # names in files need not fit the locale
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with ended_by_signals() as ending:
        status = _run(parsed)
    return 128 + ending.number if status == _STOPPED else status


def _run(parsed: Namespace) -> int:
    """Run a command that was parsed, and tell in one line what went wrong."""
    try:
        with logs_shown():
            library = getattr(parsed, "library", None)
            if library is not None and os.sep in library:  # else it is looked for in many places
                check_readable(library)
            status: int = parsed.run(parsed) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has enough; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("rknn-runtime: stopped", file=sys.stderr)
        return _STOPPED
    except (RknnError, ImportError, OSError, MemoryError) as error:
        told = line_of(error) or "out of memory"
        print(f"rknn-runtime: {printable_lines(told.splitlines())}", file=sys.stderr)
        if isinstance(error, LibraryLoadError):
            print("Commands take --library PATH, or --sim for the simulated NPU.", file=sys.stderr)
        return 1
    return status


def _parser(words: Sequence[str]) -> ArgumentParser:
    """Return the program's parser; of the commands, only those among the words are whole."""
    parser = ArgumentParser(
        prog="rknn-runtime",
        description="Run and look into .rknn models for Rockchip NPUs.",
        epilog="exit status: 0; 1 when something could not be done, or is wrong with a model or "
        "machine; 2 after a wrong command line; 130 after Ctrl-C, 143 after SIGTERM, 129 after "
        "SIGHUP, with which serve ends well: 0",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {rknn_runtime.__version__}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, formatter_class=RawDescriptionHelpFormatter)
        if name in words:
            declare(name, command)
    return parser
