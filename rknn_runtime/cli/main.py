"""The program ``rknn-runtime``: read the command line, run the command, report what went wrong."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

import rknn_runtime
from rknn_runtime._files import printable_lines
from rknn_runtime.cli.files import check_readable, line_of
from rknn_runtime.cli.options import logs_shown, tell
from rknn_runtime.errors import LibraryLoadError, RknnError

#: Commands and their line in the program's ``--help``. Each is a module of this name: its
#: docstring is the help of the command, ``add_arguments(parser)`` declares its arguments, and
#: ``run(arguments)`` runs it and returns the exit status, or None for 0.
COMMANDS = {
    "demo": "detect objects in a picture of the package, on any machine",
    "info": "show the inputs, outputs and memory of a model",
    "convert": "make a .rknn file from a trained network, on a PC",
    "detect": "find objects in images, videos, cameras and streams",
    "serve": "show a live image and its detections in a browser",
    "bench": "measure how fast a model runs here",
    "doctor": "find out why models do not run here, and how to fix it",
    "predict": "predict from the file how fast a model will run on a board",
    "accuracy": "compare two runs of a model: float, simulated, recorded",
    "record": "record a model's outputs for samples, as a bundle for the simulated NPU",
    "sim-library": "write the simulated runtime as librknnrt.so, for programs in other languages",
    "as-board": "run a program on a PC as if it were on a board with the simulated NPU",
    "rknnlite": "install the package name rknnlite, so that programs for RKNNLite run unchanged",
    "verify": "check on a board how its NPU computes what the emulator assumes",
    "completion": "print a script that completes commands and options in a shell",
}

#: Exit status of a command that was stopped by Ctrl-C or another signal.
_STOPPED = 130
#: Signals of a supervisor and of a closed terminal; the exit status is 128 plus the number.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
#: A closed terminal sends several signals; within this many seconds they count as one.
_SAME_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: The words after the program's name; None: those of this process.

    Returns:
        Exit status: 0, 1 when something could not be done, 130 after Ctrl-C, 143 after
        SIGTERM, or 129 after SIGHUP. A wrong command line exits with 2.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    words = sys.argv[1:] if arguments is None else arguments
    parser = make_parser(words)
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    parsed, rest = parser.parse_known_args(words)
    if rest:
        _refuse(parsed.parser, rest, parsed.options)
    for value in vars(parsed).values():
        if value == "" or (isinstance(value, list) and "" in value):
            parser.error("expected no empty word, got one; is a shell variable unset?")
    for stream in (sys.stdout, sys.stderr):  # names in files need not fit the locale
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with ended_by_signals() as ending:
        status = _run(parsed)
    return 128 + ending.number if status == _STOPPED else status


def _refuse(parser: ArgumentParser, words: Sequence[str], options: Iterable[str]) -> NoReturn:
    """Exit with status 2, and name the option of the command that may be meant."""
    from difflib import get_close_matches

    text = f"unrecognized arguments: {' '.join(words)}"
    for word in words:
        if word == "--sim":
            text += "; this command does without it"
        elif word.startswith("--"):
            near = get_close_matches(word.partition("=")[0], options, 1)
            text += f"; did you mean {near[0]}?" if near else ""
    parser.error(text)


def _run(parsed: Namespace) -> int:
    """Run a parsed command and report errors in one line, with ``--json`` as an object."""
    as_json = getattr(parsed, "json", False) or getattr(parsed, "format", None) == "jsonl"
    try:
        with logs_shown(as_json=as_json):
            library = getattr(parsed, "library", None)
            if library is not None and os.sep in library:  # a bare name is searched for
                check_readable(library)
            status: int = parsed.run(parsed) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has enough; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        tell("stopped", "info")
        return _STOPPED
    except (RknnError, ImportError, OSError, MemoryError) as error:
        told = printable_lines((line_of(error) or "out of memory").splitlines())
        if isinstance(error, LibraryLoadError):
            told += "\nCommands take --library PATH, or --sim for the simulated NPU."
        tell(told)
        return 1
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        import resource

        room, _ = resource.getrlimit(resource.RLIMIT_AS)  # for stacks
        limits = "`ulimit -u`" if room == resource.RLIM_INFINITY else "`ulimit -v` or `ulimit -u`"
        tell(f"{error}: raise the limit of {limits}")
        return 1
    return status


def make_parser(words: Iterable[str]) -> ArgumentParser:
    """Return the program's parser; only commands among the words have their arguments."""
    parser = ArgumentParser(
        prog="rknn-runtime",
        description="Run and inspect .rknn models for Rockchip NPUs.",
        epilog="exit status: 0 for success; 1 for a failure, or a problem of a model or machine; "
        "2 for a wrong command line; 130 after Ctrl-C, 143 after SIGTERM, 129 after "
        "SIGHUP (serve ends with 0 after these signals)",
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


def declare(name: str, parser: ArgumentParser) -> None:
    """Import a command and give a parser its arguments; parsed arguments then have ``run``."""
    command = import_module(f"rknn_runtime.cli.{name.replace('-', '_')}")
    parser.description = command.__doc__
    command.add_arguments(parser)
    options = {name: action for action in parser._actions for name in action.option_strings}
    parser.set_defaults(run=command.run, options=options, parser=parser)


class _Ending:
    """The handler of signals that end a command.

    Attributes:
        number: The signal that came; that of Ctrl-C before any other.
    """

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        self._came = -_SAME_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - self._came < _SAME_S:
            return
        self._came, self.number = now, number
        if number == signal.SIGHUP:
            _leave_terminal()
        raise KeyboardInterrupt


def _leave_terminal() -> None:
    """Discard further output to a terminal that is gone, where printing would be an error."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)


@contextmanager
def ended_by_signals() -> Iterator[_Ending]:
    """Turn SIGTERM and SIGHUP into Ctrl-C within a ``with`` block, so that files are closed.

    Signals that ``nohup`` or a surrounding program handles stay as they are. Only the main thread
    can handle signals.
    """
    ending = _Ending()
    taken = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    taken.append(number)
                    signal.signal(number, ending)
        yield ending
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
