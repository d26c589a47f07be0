"""The commands by their names; the module of one is imported when it is given."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module

__all__ = ["COMMANDS", "declare"]

#: Name -> what the program's ``--help`` says of it. The module of that name says the rest: its
#: docstring is the command's own help, ``add_arguments(parser)`` declares what it takes, and
#: ``run(arguments)`` does it, and returns the exit status where it may be another than 0.
COMMANDS = {
    "info": "show what a model wants and gives",
    "convert": "make a .rknn file of a trained network, on a PC",
    "detect": "find objects in images, videos, cameras and streams",
    "serve": "show a live image with what is seen in a browser",
    "bench": "measure how fast a model runs here",
    "doctor": "say why models do not run here, and what repairs it",
    "predict": "predict from the file how fast a model will run on a board",
    "accuracy": "compare two runs of a model: float, simulated, recorded",
    "record": "record what a model gives for samples, as a bundle of the simulated NPU",
    "sim-library": "write the simulated runtime as librknnrt.so, for programs in other languages",
    "verify": "ask this board's NPU how it computes, where the emulator only assumes it",
    "completion": "print a script that completes commands and options in a shell",
}


def declare(name: str, parser: ArgumentParser) -> None:
    """Give a parser what a command takes; what it parses then has ``run``."""
    command = import_module(f"rknn_runtime.cli.{name.replace('-', '_')}")
    parser.description = command.__doc__
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)
