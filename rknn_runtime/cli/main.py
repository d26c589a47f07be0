"""Reads the command line and calls the command."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import rknn_runtime
from rknn_runtime.cli import (
    accuracy,
    bench,
    completion,
    convert,
    detect,
    doctor,
    info,
    predict,
    record,
    serve,
    sim_library,
    verify,
)
from rknn_runtime.errors import RknnError

__all__ = ["main"]

#: Each has ``add_parser(subparsers)``, which sets ``run(arguments) -> exit status``.
COMMANDS = (
    info,
    convert,
    detect,
    serve,
    bench,
    doctor,
    predict,
    accuracy,
    record,
    sim_library,
    verify,
    completion,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Words of the command line behind the program; None: of this process.

    Returns:
        Exit status: 0, or 1 when something could not be done. A wrong command line
        exits with 2.
    """
    parser = argparse.ArgumentParser(
        prog="rknn-runtime", description="Run and look into .rknn models for Rockchip NPUs."
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {rknn_runtime.__version__}"
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    parsed = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # names in files need not fit the locale
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has enough; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RknnError, OSError) as error:
        print(f"rknn-runtime: {error}", file=sys.stderr)
        return 1
    return status
