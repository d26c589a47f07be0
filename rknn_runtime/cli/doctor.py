"""Find out why models do not run here, and how to repair it.

Looks at board, driver, device nodes, libraries, model, memory, clocks and logs,
and prints the first cause first, with the command that repairs it. A model is
also loaded and run once.

Examples:
  rknn-runtime doctor                           # this machine
  rknn-runtime doctor yolov8n.rknn              # ... and whether this model runs on it
  rknn-runtime doctor yolov8n.rknn --sim        # on the simulated NPU
  rknn-runtime doctor --log output.txt          # with what a program or dmesg printed
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rknn_runtime.cli.files import check_folder, check_readable
from rknn_runtime.cli.options import (
    add_library,
    add_switch,
    end_progress,
    is_terminal,
    refusals,
    show_progress,
)
from rknn_runtime.cli.tables import table

if TYPE_CHECKING:
    from rknn_runtime.tools.doctor import Diagnosis

__all__ = ["add_arguments", "run"]

_COLOURS = {"problem": "\033[31m", "warning": "\033[33m", "ok": "\033[32m"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a .rknn file to check")
    add_library(parser, "on the simulated NPU")
    parser.add_argument("--log", metavar="FILE", help="output of a program, or of dmesg")
    parser.add_argument(
        "--root", default="/", metavar="FOLDER", help="folder with /proc, /sys, /dev, /usr (/)"
    )
    add_switch(parser, "--json", "print one JSON object")


def run(arguments: Namespace) -> int:
    """Print the report.

    Returns:
        0, or 1 if there is a problem.

    Raises:
        OSError: The model or the log cannot be read.
        RknnError: An argument makes no sense.
    """
    from rknn_runtime.tools.doctor import doctor

    check_readable(arguments.model, arguments.log)
    check_folder(arguments.root)
    shows = is_terminal(sys.stderr)
    with refusals():
        found = doctor(
            arguments.model, library=arguments.library, root=arguments.root, log=arguments.log,
            progress=_progress if shows else None,
        )  # fmt: skip
    end_progress(shows)
    if arguments.json:
        print(json.dumps(found.to_dict()))
    else:
        coloured = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
        print("\n".join(lines(found, coloured)))
    return int(not found.healthy)


def _progress(text: str) -> None:
    show_progress(f"{text} ...")


def lines(found: Diagnosis, coloured: bool) -> Iterator[str]:
    """Yield the lines of the report, each followed by its commands."""
    width = max((len(each.topic) for each in found.observations), default=0)
    for each in found.observations:
        word = f"{each.severity:<7}"
        if coloured:
            word = f"{_COLOURS[each.severity]}{word}\033[0m"
        (text,) = table([[each.text]])
        yield f"{word}  {each.topic:<{width}}  {text}"
        for command in each.cure.splitlines():
            yield f"{'':9}{'':<{width}}  $ {command}"
