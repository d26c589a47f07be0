"""Run a program on a PC as if it were on a board.

The program sees the board's device tree and machine name, the simulated runtime
as librknnrt.so, and in Python, which needs numpy and cffi, the vendor's package
names. Go programs see the PC's device tree, because they open files without the
C library. Nothing is installed, and the program's output is unchanged.

Examples:
  rknn-runtime as-board rk3588 -- python their_program.py model.rknn
  rknn-runtime as-board rk3566 -- ./rknn_yolov8_demo model.rknn bus.jpg
  rknn-runtime as-board --driver rocket rk3588 -- rknn-runtime detect model.rknn bus.jpg
"""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("soc", metavar="SOC", help="the board's SoC, such as rk3588")
    parser.add_argument(
        "--driver",
        metavar="NAME",
        help="also stand in for the device of this kernel driver, rknpu or rocket, and use the "
        "open runtime",
    )
    parser.add_argument("program", nargs=REMAINDER, help="the program and its arguments")


def run(arguments: Namespace) -> int:
    """Run it; its exit status is the command's, 128 plus the number of a signal that ended it."""
    from rknn_runtime.cli.options import refusals
    from rknn_runtime.tools.as_board import run_as_board

    words = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    with refusals():
        if not words:
            raise ValueError("program: expected a program behind --, got none")
        status = run_as_board(arguments.soc, words, arguments.driver)
    return 128 - status if status < 0 else status
