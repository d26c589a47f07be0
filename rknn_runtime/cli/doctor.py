"""``rknn-runtime doctor``: why models do not run here, and what repairs it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rknn_runtime.cli.info import table
from rknn_runtime.errors import RknnError

if TYPE_CHECKING:
    from rknn_runtime.doctor import Diagnosis

__all__ = ["add_parser", "run"]

_EXAMPLES = """examples:
  rknn-runtime doctor                           # this machine
  rknn-runtime doctor yolov8n.rknn              # ... and whether this model runs on it
  rknn-runtime doctor yolov8n.rknn --sim        # on the simulated NPU
  rknn-runtime doctor --log output.txt          # with what a program or dmesg printed
"""
_COLOURS = {"problem": "\033[31m", "warning": "\033[33m", "ok": "\033[32m"}


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "doctor",
        help="say why models do not run here, and what repairs it",
        description="Look at board, driver, device nodes, libraries, model, memory, clocks and "
        "logs, and name the first cause first, with the command that repairs it. With a model it "
        "is also loaded and run once.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a .rknn file that is to run")
    library = parser.add_mutually_exclusive_group()
    library.add_argument("--library", metavar="PATH", help="the runtime library")
    library.add_argument(
        "--sim", action="store_const", const="sim", dest="library", help="on the simulated NPU"
    )
    parser.add_argument("--log", metavar="FILE", help="what a program, or dmesg, printed")
    parser.add_argument(
        "--root", default="/", metavar="FOLDER", help="where /proc, /sys, /dev and /usr are (/)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what was found.

    Returns:
        0, or 1 when there is a problem.

    Raises:
        OSError: The model or the log cannot be read.
        RknnError: An argument makes no sense.
    """
    from rknn_runtime.doctor import doctor

    try:
        found = doctor(
            arguments.model, library=arguments.library, root=arguments.root, log=arguments.log
        )
    except RknnError:
        raise
    except (TypeError, ValueError) as error:
        raise RknnError(str(error)) from None
    if arguments.json:
        print(json.dumps(found.to_dict()))
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print("\n".join(lines(found, coloured)))
    return int(not found.healthy)


def lines(found: Diagnosis, coloured: bool) -> Iterator[str]:
    """Write the report: a line each, and below it what repairs it."""
    width = max((len(each.topic) for each in found.observations), default=0)
    for each in found.observations:
        word = f"{each.severity:<7}"
        if coloured:
            word = f"{_COLOURS[each.severity]}{word}\033[0m"
        (text,) = table([[each.text]])
        yield f"{word}  {each.topic:<{width}}  {text}"
        for command in each.cure.splitlines():
            yield f"{'':9}{'':<{width}}  $ {command}"
