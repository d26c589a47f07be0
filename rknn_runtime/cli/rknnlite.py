"""Install the package name rknnlite, so that programs for RKNNLite run unchanged.

The distribution is called rknn-toolkit-lite2, like the vendor's, and satisfies what programs
require of it. It never replaces the vendor's own package.

Examples:
  rknn-runtime rknnlite                  # install it for this Python
  rknn-runtime rknnlite --wheel .        # only write the wheel, for uv or another machine
  pip uninstall rknn-toolkit-lite2       # remove it
"""

from __future__ import annotations

import json
import os
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rknn_runtime.cli.files import check_folder
from rknn_runtime.cli.options import add_switch


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--wheel", metavar="FOLDER", help="write the wheel there, install nothing")
    add_switch(parser, "--json", "print one JSON object")


def run(arguments: Namespace) -> None:
    """Write or install it, and say what."""
    from rknn_runtime.rknnlite import install  # here, as other commands do without

    if arguments.wheel is not None:
        check_folder(arguments.wheel, os.W_OK | os.X_OK)
        path = str(install.make_wheel(arguments.wheel))
        print(json.dumps({"wheel": path}) if arguments.json else path)
        return
    install.refuse_vendor()
    with tempfile.TemporaryDirectory() as folder:
        install.install_wheel(install.make_wheel(Path(folder)))
    name = f"{install.NAME} {install.VERSION}"
    print(json.dumps({"installed": name}) if arguments.json else f"installed {name}")
