"""What several commands share: options, progress on the terminal, refused arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import TextIO

from rknn_runtime.errors import RknnError


def add_library(parser: argparse.ArgumentParser, sim: str = "run on the simulated NPU") -> None:
    library = parser.add_mutually_exclusive_group()
    library.add_argument("--library", metavar="PATH", help="the runtime library to use")
    library.add_argument("--sim", action="store_const", const="sim", dest="library", help=sim)


def add_switch(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, name: str, text: str
) -> None:
    parser.add_argument(name, action="store_true", help=text)


def add_shapes(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--imgsz", type=_image_size, metavar="N",
        help="height and width of the images of an .onnx file with open shapes, or HEIGHT,WIDTH",
    )  # fmt: skip
    parser.add_argument(
        "--shape", type=_shape, action="append", default=[], metavar="NAME:1,3,320,320",
        help="shape of an open input of an .onnx file",
    )  # fmt: skip


def _image_size(text: str) -> list[int]:
    sizes = [int(word) for word in text.split(",")]
    if len(sizes) not in (1, 2) or min(sizes) < 1:
        raise ValueError
    return sizes * (2 // len(sizes))


_image_size.__name__ = "size"


def _shape(text: str) -> tuple[str, list[int]]:
    name, _, sizes = text.rpartition(":")
    shape = [int(word) for word in sizes.split(",")]
    if not name or min(shape) < 1:
        raise ValueError
    return name, shape


_shape.__name__ = "shape"


def refuse_given(
    arguments: argparse.Namespace, names: Iterable[str], wanted: str, got: str
) -> None:
    """Refuse options that one form of a command does not have."""
    for name in names:
        option: argparse.Action = arguments.options[f"--{name}"]
        if getattr(arguments, option.dest) != option.default:
            raise ValueError(f"--{name}: expected {wanted}, got {got}")


def add_toolkit(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--toolkit", metavar="VERSION", help="2.3.2 (default) or 2.5.0")
    group.add_argument("--environment", metavar="FOLDER", help="where the toolkit is installed")


def file_ending_in(*endings: str) -> Callable[[str], str]:
    """Return a type for argparse: a file name with one of these endings."""

    def check(name: str) -> str:
        if not name.lower().endswith(endings):
            wanted = " or ".join(endings)
            raise argparse.ArgumentTypeError(f"expected a name that ends in {wanted}, got {name!r}")
        return name

    return check


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


def shows_progress(arguments: argparse.Namespace) -> bool:
    """Tell whether to show progress: only on a terminal, and not with ``--quiet``."""
    return not getattr(arguments, "quiet", False) and is_terminal(sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress_line(arguments: argparse.Namespace) -> Iterator[Callable[[str], None]]:
    """Lend what replaces the line of progress, if one is to be shown; it is removed at the end."""
    shows = shows_progress(arguments)

    def show(text: str) -> None:
        if shows:
            text = text[: get_terminal_size().columns - 1]
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        show("")


#: Whether the command that runs was given ``--json``.
_tells_json = False


def tell(text: str, level: str = "error") -> None:
    """Write a message to standard error: a line, or with ``--json`` an object."""
    print(_message(text, level), file=sys.stderr, flush=True)


def _message(text: str, level: str) -> str:
    if not _tells_json:
        return f"rknn-runtime: {text}"
    import json

    return json.dumps({"level": level, "message": text}, ensure_ascii=False)


@contextmanager
def logs_shown(*, as_json: bool) -> Iterator[None]:
    """Write the package's log to standard error, over a line of progress, or as JSON."""
    import logging

    global _tells_json
    _tells_json = as_json
    clean = "" if as_json or not is_terminal(sys.stderr) else "\r\x1b[K"
    formatter = logging.Formatter()
    formatter.format = (  # type: ignore[method-assign]
        lambda record: clean + _message(record.getMessage(), record.levelname.lower())
    )
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(formatter)
    logger = logging.getLogger("rknn_runtime")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn exceptions for wrong arguments into errors of the command."""
    try:
        yield
    except RknnError:  # some are also a ValueError
        raise
    except (TypeError, ValueError, ImportError) as error:
        raise RknnError(str(error)) from None
