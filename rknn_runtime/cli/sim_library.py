"""Write the simulated or the open runtime as librknnrt.so, for other languages.

The copy has the vendor's file name and SONAME, so programs link with it and
find it through LD_LIBRARY_PATH.

Examples:
  rknn-runtime sim-library /tmp/sim && LD_LIBRARY_PATH=/tmp/sim ./rknn_yolov8_demo ...
  rknn-runtime sim-library . --name librknnmrt.so
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from rknn_runtime.cli.files import made_folder
from rknn_runtime.cli.options import add_switch


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="folder to write to; made if missing")
    parser.add_argument(
        "--name",
        default="librknnrt.so",
        choices=("librknnrt.so", "librknnmrt.so"),
        help="file name (%(default)s)",
    )
    add_switch(parser, "--open", "write the open runtime, which drives the NPU, and its emulator")
    add_switch(parser, "--json", "print one JSON object")


def run(arguments: Namespace) -> None:
    from rknn_runtime.sim.install import install_library  # here, as `info` does without

    made_folder(arguments.folder)
    path = str(install_library(arguments.folder, arguments.name, open_runtime=arguments.open))
    print(json.dumps({"library": path}) if arguments.json else path)
