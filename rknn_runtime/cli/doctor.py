"""Find out why models do not run here, and how to repair it.

Checks the board, driver, device nodes, libraries, model, memory, clocks and
logs, and prints the first cause first, each with the command that repairs it.
A model is also loaded and run once. If you pass photos, the doctor tries the
usual mistakes on the simulated NPU and names the most plausible one; see
"Wrong or no detections" in the documentation.

Examples:
  rknn-runtime doctor                           # this machine
  rknn-runtime doctor yolov8n.rknn              # ... and whether this model runs on it
  rknn-runtime doctor yolov8n.rknn --sim        # on the simulated NPU
  rknn-runtime doctor yolov8n.rknn bus.jpg      # why it finds nothing in a photo
  rknn-runtime doctor yolov8n.onnx photos/*.jpg --html readings.html
  rknn-runtime doctor --log output.txt          # with what a program or dmesg printed
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rknn_runtime.cli.files import (
    check_folder,
    check_readable,
    check_writable,
    labels_file,
    write_text,
)
from rknn_runtime.cli.options import (
    add_library,
    add_switch,
    is_terminal,
    numbers,
    progress_line,
    refusals,
)
from rknn_runtime.cli.tables import table
from rknn_runtime.errors import RknnError

if TYPE_CHECKING:
    from rknn_runtime.tools.doctor import Diagnosis

#: Options that only photos need.
_OF_PHOTOS = ("head", "labels", "color", "mean", "std", "keep-graph", "html")
_COLOURS = {"problem": "\033[31m", "warning": "\033[33m", "ok": "\033[32m"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="a .rknn file; with photos, also an .onnx file"
    )
    parser.add_argument("photos", nargs="*", metavar="PHOTO", help="photos with known objects")
    add_library(parser, "check the simulated NPU")
    parser.add_argument(
        "--log", metavar="FILE", help="explain this output of a program or of dmesg"
    )
    parser.add_argument(
        "--root", default="/", metavar="FOLDER", help="check the system in this folder (/)"
    )
    reading = parser.add_argument_group("with photos: how you use the model now")
    reading.add_argument("--head", default="auto", help="the head, as for Detector")
    reading.add_argument("--labels", metavar="FILE", help='class names: a file, or "coco"')
    reading.add_argument(
        "--color", choices=("RGB", "BGR"), help="channel order that the model expects"
    )
    reading.add_argument("--mean", type=numbers, metavar="A,B,C", help="of an .onnx file (0)")
    reading.add_argument("--std", type=numbers, metavar="A,B,C", help="of an .onnx file (255)")
    add_switch(reading, "--keep-graph", "do not cut an .onnx file as convert does")
    reading.add_argument("--html", metavar="FILE", help="write an HTML page with all readings")
    add_switch(parser, "--json", "print one JSON object")


def run(arguments: Namespace) -> int:
    """Return 0, or 1 if there is a problem."""
    from rknn_runtime.tools.doctor import doctor

    if arguments.photos:
        return _read(arguments)
    for name in _OF_PHOTOS:
        if getattr(arguments, name.replace("-", "_")) not in (None, False, "auto"):
            raise RknnError(f"--{name}: expected photos, got none")
    check_readable(arguments.model, arguments.log)
    check_folder(arguments.root)
    with progress_line(arguments) as show, refusals():
        found = doctor(
            arguments.model, library=arguments.library, root=arguments.root, log=arguments.log,
            progress=lambda text: show(f"{text} ..."),
        )  # fmt: skip
    if arguments.json:
        print(json.dumps(found.to_dict()))
    else:
        coloured = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
        print("\n".join(lines(found, coloured)))
    return int(not found.healthy)


def _read(arguments: Namespace) -> int:
    """Return 0 if the model is used rightly, 1 if not, or if that is not known."""
    from rknn_runtime.cli.sources import expanded
    from rknn_runtime.conversion.readings import try_readings

    check_readable(arguments.model, labels_file(arguments.labels))
    check_writable(arguments.html)
    names = ("head", "labels", "color", "mean", "std", "keep_graph")
    options = {name: getattr(arguments, name) for name in names}
    with progress_line(arguments) as show, refusals():
        found = try_readings(
            arguments.model, expanded(arguments.photos),
            progress=lambda text: show(f"{text} ..."),
            **{name: value for name, value in options.items() if value is not None},
        )  # fmt: skip
    print(json.dumps(found.to_dict()) if arguments.json else found)
    if arguments.html:
        write_text(arguments.html, found.to_html())
    return int(bool(found.causes) or not found.is_sure)


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
