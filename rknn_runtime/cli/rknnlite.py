"""Install the package name rknnlite, so that programs for RKNNLite run unchanged.

The distribution is called rknn-toolkit-lite2, like the vendor's, and satisfies
what programs require of it. It never replaces the vendor's own package.
--toolkit does the same for rknn-toolkit2: `from rknn.api import RKNN` works
on every Python, and runs the vendor's toolkit in a separate environment.

Examples:
  rknn-runtime rknnlite                  # install it for this Python
  rknn-runtime rknnlite --toolkit        # rknn.api, too
  rknn-runtime rknnlite --wheel .        # only write the wheel, for uv or another machine
  pip uninstall rknn-toolkit-lite2       # remove it
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rknn_runtime.cli.files import made_folder
from rknn_runtime.cli.options import add_switch


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--wheel", metavar="FOLDER", help="write the wheel there, install nothing")
    add_switch(parser, "--toolkit", "also rknn-toolkit2, for programs that convert")
    add_switch(parser, "--json", "print one JSON object")


def run(arguments: Namespace) -> None:
    from rknn_runtime.rknnlite import install  # here, as other commands do without

    names = list(install.DISTRIBUTIONS)[: 2 if arguments.toolkit else 1]
    if arguments.wheel is not None:
        made_folder(arguments.wheel)
        paths = [str(install.make_wheel(name, arguments.wheel)) for name in names]
        print(json.dumps({"wheels": paths}) if arguments.json else "\n".join(paths))
        return
    for name in names:
        install.refuse_vendor(name)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            install.install_wheel(install.make_wheel(name, Path(folder)))
    made = [f"{name} {install.VERSION}" for name in names]
    print(json.dumps({"installed": made}) if arguments.json else f"installed {', '.join(made)}")
