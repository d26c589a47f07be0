"""What several commands share: options, and how a refused argument ends the program."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO, TypeVar

from rknn_runtime.errors import RknnError

__all__ = [
    "add_library", "add_switch", "add_toolkit", "counted", "end_progress", "file_ending_in",
    "is_terminal", "logs_shown", "numbers", "refusals", "show_progress", "shows_progress",
]  # fmt: skip


_Item = TypeVar("_Item")


def add_library(parser: argparse.ArgumentParser, sim: str = "run on the simulated NPU") -> None:
    """Declare ``--library`` and ``--sim``, which exclude each other.

    Args:
        parser: Of a command that runs models.
        sim: What ``--help`` says of ``--sim``.
    """
    library = parser.add_mutually_exclusive_group()
    library.add_argument("--library", metavar="PATH", help="the runtime library")
    library.add_argument("--sim", action="store_const", const="sim", dest="library", help=sim)


def add_switch(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, name: str, text: str
) -> None:
    """Declare an option that takes no value: its argument is whether it was given."""
    parser.add_argument(name, action="store_true", help=text)


def refuse_given(
    arguments: argparse.Namespace, options: Iterable[str], wanted: str, got: str
) -> None:
    """Refuse options that one form of a command does not have.

    Raises:
        ValueError: One was given.
    """
    for option in options:
        # What no variable can be called is kept under another name.
        name = {"for": "target"}.get(option, option.replace("-", "_"))
        if getattr(arguments, name) not in (None, False):
            raise ValueError(f"--{option}: expected {wanted}, got {got}")


def add_toolkit(group: argparse._ArgumentGroup) -> None:
    """Declare which of the vendor's toolkits is used, and where it is.

    Args:
        group: Of the options of a command that runs it.
    """
    group.add_argument("--toolkit", metavar="VERSION", help="2.3.2 (default) or 2.5.0")
    group.add_argument("--environment", metavar="FOLDER", help="where it is installed")


def file_ending_in(*endings: str) -> Callable[[str], str]:
    """Return what argparse checks the name of a file to draw into with."""

    def check(name: str) -> str:
        if not name.lower().endswith(endings):
            wanted = " or ".join(endings)
            raise argparse.ArgumentTypeError(f"expected a name that ends in {wanted}, got {name!r}")
        return name

    return check


def numbers(text: str) -> list[float]:
    """Read the value of an option: numbers with commas between them."""
    return [float(word) for word in text.split(",")]


def shows_progress(arguments: argparse.Namespace) -> bool:
    """Whether a command shows progress: on a terminal, without ``--quiet``."""
    return not arguments.quiet and is_terminal(sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that knows escape sequences, which a dumb one only shows."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def show_progress(text: str) -> None:
    """Write how far a command is in place of what stood on the line, as much as fits on it."""
    text = text[: get_terminal_size().columns - 1]
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def counted(items: Sequence[_Item], shows: bool) -> Iterator[_Item]:
    """Go through files, and show of how many this is the last."""
    try:
        for number, item in enumerate(items, 1):
            if shows:
                show_progress(f"{number} of {len(items)} files")
            yield item
    finally:
        end_progress(shows)


def end_progress(was_shown: bool) -> None:
    """Take the line away again."""
    if was_shown:
        show_progress("")


@contextmanager
def logs_shown() -> Iterator[None]:
    """Write what the package logs to standard error, in place of a progress line."""
    import logging

    clean = "\r\x1b[K" if is_terminal(sys.stderr) else ""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter(f"{clean}rknn-runtime: %(message)s"))
    logger = logging.getLogger("rknn_runtime")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the package raises for a wrong argument into an error of the command.

    Raises:
        RknnError: With the text of what was raised.
    """
    try:
        yield
    except RknnError:  # some are a ValueError, too
        raise
    except (TypeError, ValueError, ImportError) as error:
        raise RknnError(str(error)) from None
