"""Make a .rknn file from a trained network, on a PC.

The vendor's rknn-toolkit2 converts it; it is installed into the user's cache on
first use. The graph of a detector is cut so that int8 works, and the file holds
all that Detector needs.

Examples:
  rknn-runtime convert yolov8n.onnx --for rk3588
  rknn-runtime convert yolov8n.onnx --for rk3566 --calibrate photos/ --html report.html
  rknn-runtime convert net.onnx --for rv1106 --calibrate photos/ --json
"""

from __future__ import annotations

import ast
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from rknn_runtime.cli.files import (
    check_folder,
    check_readable,
    check_writable,
    labels_file,
    write_text,
)
from rknn_runtime.cli.options import add_shapes, add_switch, add_toolkit, numbers, refusals

#: Parameters of the toolkit with a separate option: the call that takes them, and the help.
_TOOLKIT_FLAGS = {
    "quantized_algorithm": ("config", "normal, kl_divergence or mmse"),
    "quantized_method": ("config", "layer or channel"),
    "quantized_dtype": ("config", "w8a8, w16a16i_dfp ..."),
    "optimization_level": ("config", "0 to 3"),
    "dynamic_input": ("config", "[[[1,3,640,640]],[[1,3,320,320]]]"),
    "rknn_batch_size": ("build", "images per run"),
}
_TOOLKIT_SWITCHES = {
    "single_core_mode": ("config", "for one core: smaller (RK3588, RK3576)"),
}
#: Options that are parameters of `convert` under the same name.
_PARAMETERS = (
    "calibrate", "color", "effort", "environment", "evaluate", "head", "keep_graph", "labels",
    "limit", "mean", "python", "std", "target", "task", "with_torch", "without",
)  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", help="an .onnx file (or .tflite, .pt, .prototxt, .cfg, .pb)")
    parser.add_argument("--for", dest="soc", required=True, metavar="SOC", help="such as rk3588")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="default: NAME_SOC.rknn in the network's folder"
    )
    parser.add_argument(
        "--calibrate",
        metavar="IMAGES",
        help="a folder of images to quantize with, or a .txt file in the toolkit's form",
    )
    climb = parser.add_argument_group("int8 as good as float")
    climb.add_argument(
        "--target", type=float, metavar="PART",
        help="part of the float results to keep, such as 0.99: tries better and better files",
    )  # fmt: skip
    climb.add_argument(
        "--effort", type=float, default=15, metavar="MINUTES", help="time for these tries (15)"
    )
    climb.add_argument(
        "--without", action="append", default=[], metavar="STEP", help="leave out this step"
    )
    network = parser.add_argument_group("the network")
    add_switch(network, "--keep-graph", "do not cut the graph")
    network.add_argument("--head", default="auto", help="the head, as for Detector")
    network.add_argument(
        "--task", help="its task, as for detect, if neither file nor family shows it"
    )
    add_shapes(network)
    network.add_argument("--labels", metavar="FILE", help='class names: a file, or "coco"')
    network.add_argument("--color", choices=("RGB", "BGR"), help="channel order of the input")
    network.add_argument(
        "--mean", type=numbers, metavar="A,B,C", help="default: those of its family, or 0,0,0"
    )
    network.add_argument(
        "--std", type=numbers, metavar="A,B,C", help="default: those of its family, or 255,255,255"
    )
    toolkit = parser.add_argument_group("the toolkit")
    for name, (_, words) in _TOOLKIT_FLAGS.items():
        toolkit.add_argument(_flag(name), type=_value, metavar="VALUE", help=words)
    for name, (_, words) in _TOOLKIT_SWITCHES.items():
        toolkit.add_argument(_flag(name), action="store_true", default=None, help=words)
    for name in ("config", "load", "build"):
        toolkit.add_argument(
            f"--{name}", type=_pair, action="append", default=[], metavar="KEY=VALUE",
            help=f"any parameter of the toolkit's {name}",
        )  # fmt: skip
    add_toolkit(toolkit)
    toolkit.add_argument("--python", metavar="PROGRAM", help="Python 3.9 to 3.12 for the toolkit")
    add_switch(toolkit, "--with-torch", "also install PyTorch, for TorchScript")
    toolkit.add_argument("--log", metavar="FILE", help="write the toolkit's whole output")
    report = parser.add_argument_group("the report")
    report.add_argument("--evaluate", metavar="FOLDER", help="images to judge on; default: IMAGES")
    report.add_argument(
        "--limit", type=int, default=100, metavar="N", help="use at most N images of a folder (100)"
    )
    add_switch(report, "--no-report", "convert without a report")
    add_switch(report, "--json", "print the report as one JSON object")
    report.add_argument("--report", metavar="FILE", help="write the report as JSON")
    report.add_argument("--html", metavar="FILE", help="write the report as a page with images")
    add_switch(report, "--quiet", "show no progress")


def run(arguments: Namespace) -> None:
    from rknn_runtime.conversion.convert import convert
    from rknn_runtime.conversion.environment import DEFAULT_VERSION
    from rknn_runtime.conversion.plan import load_of_shapes
    from rknn_runtime.conversion.toolkit import ToolkitError

    check_readable(arguments.model, labels_file(arguments.labels))
    if arguments.calibrate is not None and arguments.calibrate.endswith(".txt"):
        check_readable(arguments.calibrate)
    else:
        check_folder(arguments.calibrate)
    check_folder(arguments.evaluate)
    check_writable(arguments.output, arguments.report, arguments.html, arguments.log)
    groups: dict[str, Any] = {
        name: dict(getattr(arguments, name)) for name in ("config", "load", "build")
    }
    for name, (group, _) in {**_TOOLKIT_FLAGS, **_TOOLKIT_SWITCHES}.items():
        value = getattr(arguments, name)
        if value is not None:
            groups[group][name] = value
    try:
        with refusals():
            shapes = load_of_shapes(Path(arguments.model), arguments.imgsz, dict(arguments.shape))
            groups["load"] = {**shapes, **groups["load"]}
            made = convert(
                arguments.model,
                arguments.soc,
                arguments.output,
                report=not arguments.no_report,
                toolkit=arguments.toolkit or DEFAULT_VERSION,
                progress=None if arguments.quiet else _say,
                **groups,
                **{name: getattr(arguments, name) for name in _PARAMETERS},
            )
    except ToolkitError as error:
        if arguments.log:
            write_text(arguments.log, error.log)
        raise
    print(json.dumps(made.to_dict()) if arguments.json else made)
    if arguments.log:
        write_text(arguments.log, made.log)
    if arguments.report:
        write_text(arguments.report, json.dumps(made.to_dict(), indent=2))
    if arguments.html:
        write_text(arguments.html, made.to_html())


def _say(line: str) -> None:
    print(f"... {line}", file=sys.stderr, flush=True)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _value(text: str) -> Any:
    """Read a Python literal; anything else is a text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _pair(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return name, value if name == "custom_string" else _value(value)
