"""``rknn-runtime sim-library``: the simulated NPU for programs in C, C++, Go and Rust."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "sim-library",
        help="write the simulated runtime as librknnrt.so, for programs in other languages",
        description="Write a copy of the simulated runtime under the name, and with the SONAME, "
        "of a vendor's: programs find it with LD_LIBRARY_PATH, and link with it.",
    )
    parser.add_argument("folder", metavar="FOLDER", help="where to")
    parser.add_argument(
        "--name",
        default="librknnrt.so",
        choices=("librknnrt.so", "librknnmrt.so"),
        help="the name; %(default)s if not given",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write it, and say where.

    Returns:
        0.

    Raises:
        OSError: It cannot be written.
    """
    from rknn_runtime.sim.install import install_library  # here, as `info` does without

    print(install_library(arguments.folder, arguments.name))
    return 0
