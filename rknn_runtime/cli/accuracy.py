"""Compare two runs of a model: their outputs, and their detections.

Both sides run on the same images. A side is an .onnx file (onnxruntime, float),
a .rknn file or a bundle (simulated NPU), or an .npz file of recorded outputs.
A single .onnx file is judged layer by layer by the vendor's toolkit; the
error_analysis.txt of the toolkit is shown as a table.

Examples:
  rknn-runtime accuracy yolov8n.onnx yolov8n.rknn --images photos/ --std 255,255,255
  rknn-runtime accuracy yolov8n.onnx yolov8n.rknn --images photos/ --labels labels/ --json
  rknn-runtime accuracy yolov8n.onnx --for rk3588 --calibrate photos/ --plot layers.svg
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rknn_runtime.cli.files import (
    check_folder,
    check_readable,
    check_writable,
    labels_file,
    write_text,
)
from rknn_runtime.cli.options import (
    add_switch,
    add_toolkit,
    numbers,
    progress_line,
    refusals,
    refuse_given,
)

if TYPE_CHECKING:
    from rknn_runtime.conversion.accuracy import AccuracyReport, Analysis
    from rknn_runtime.vision.detections import Detections

#: Options that not all forms of the command have.
_OF_TOOLKIT = (
    "for", "calibrate", "judge", "keep-graph", "quantized-algorithm", "device", "toolkit",
    "environment",
)  # fmt: skip
_OF_BOTH = ("limit", "mean", "std", "color")
_OF_DETECTIONS = ("names", "head")
_OF_SIDES = ("images", "detect", "task", "labels", "html", *_OF_DETECTIONS)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("reference", metavar="REFERENCE", help="the reference")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="the side to judge")
    parser.add_argument("--images", metavar="FOLDER", help="a folder of images, or of .npy inputs")
    layers = parser.add_argument_group("layer by layer, for one .onnx file")
    layers.add_argument("--for", dest="target", metavar="SOC", help="such as rk3588")
    layers.add_argument("--calibrate", metavar="IMAGES", help="a folder of images to quantize with")
    layers.add_argument(
        "--judge", metavar="FILE", help="the image to judge with; default: the first of IMAGES"
    )
    add_switch(layers, "--keep-graph", "do not cut off the head")
    layers.add_argument(
        "--color",
        choices=("RGB", "BGR"),
        help="channel order of the input; default: the file's, or RGB",
    )
    layers.add_argument(
        "--quantized-algorithm", metavar="NAME", help="as in the toolkit's config; default: normal"
    )
    layers.add_argument(
        "--device", nargs="?", const=True, default=False, metavar="NAME",
        help="also run each layer on a board connected over USB",
    )  # fmt: skip
    add_toolkit(layers)
    layers.add_argument("--plot", metavar="FILE", help="also write a plot, as .svg")
    parser.add_argument("--limit", type=int, metavar="N", help="take N images, evenly spread")
    add_switch(parser, "--detect", "also decode both and compare the detections")
    parser.add_argument(
        "--task",
        help="also compare text, scenes or keypoints, as for detect; default: the file's task",
    )
    parser.add_argument(
        "--labels",
        metavar="FOLDER",
        help="YOLO label files (.txt) with the names of the images, for mAP; implies --detect",
    )
    parser.add_argument(
        "--names", metavar="FILE", help='class names: a file, or "coco"; helps to find the head'
    )
    parser.add_argument("--head", help="the head, as for Detector; default: auto")
    parser.add_argument(
        "--mean", type=numbers, metavar="A,B,C", help="mean of the channels, for .onnx files"
    )
    parser.add_argument(
        "--std", type=numbers, metavar="A,B,C", help="divisor of the channels, for .onnx files"
    )
    parser.add_argument("--html", metavar="FILE", help="for two sides: also write an HTML page")
    add_switch(parser, "--json", "print JSON")
    add_switch(parser, "--quiet", "show no progress")


def run(arguments: Namespace) -> None:
    from rknn_runtime.conversion.accuracy import AccuracyReport

    report: AccuracyReport | Analysis
    check_readable(
        arguments.reference, arguments.other, arguments.judge, labels_file(arguments.names)
    )
    for folder in (arguments.images, arguments.labels, arguments.calibrate):
        check_folder(folder)
    check_writable(arguments.plot, arguments.html)
    with refusals():
        report = _analysed(arguments) if arguments.other is None else _compared(arguments)
    print(report.to_json(indent=2) if arguments.json else report)
    if arguments.html and isinstance(report, AccuracyReport):
        write_text(arguments.html, report.to_html())


def _analysed(arguments: Namespace) -> Analysis:
    from rknn_runtime.conversion.analysis import (
        read_analysis,  # here, as `info` does without
    )

    ending = Path(arguments.reference).suffix
    if ending not in (".txt", ".onnx"):
        raise ValueError(f"OTHER: expected a second side beside {arguments.reference}, got none")
    refuse_given(arguments, _OF_SIDES, "two sides", f"{arguments.reference} alone")
    if ending == ".txt":
        refuse_given(arguments, (*_OF_TOOLKIT, *_OF_BOTH), "an .onnx file", arguments.reference)
        analysis = read_analysis(arguments.reference)
    else:
        analysis = _judged(arguments)
    if arguments.plot:
        write_text(arguments.plot, analysis.to_svg())
    return analysis


def _judged(arguments: Namespace) -> Analysis:
    from rknn_runtime.conversion.analysis import analyse
    from rknn_runtime.conversion.environment import DEFAULT_VERSION

    for name, value in (("--for", arguments.target), ("--calibrate", arguments.calibrate)):
        if value is None:
            raise ValueError(f"{name}: expected one, as there is no second side, got none")
    options = {"mean": arguments.mean, "std": arguments.std}
    return analyse(
        arguments.reference,
        arguments.target,
        arguments.calibrate,
        image=arguments.judge,
        keep_graph=arguments.keep_graph,
        color=arguments.color or "RGB",
        algorithm=arguments.quantized_algorithm or "normal",
        limit=100 if arguments.limit is None else arguments.limit,
        device=arguments.device,
        toolkit=arguments.toolkit or DEFAULT_VERSION,
        environment=arguments.environment,
        progress=None if arguments.quiet else partial(print, file=sys.stderr, flush=True),
        **{name: value for name, value in options.items() if value is not None},
    )


def _compared(arguments: Namespace) -> AccuracyReport:
    from rknn_runtime._arrays import load_arrays  # here: `--help` does without NumPy
    from rknn_runtime.conversion.accuracy import compare
    from rknn_runtime.conversion.calibration import images_in

    refuse_given(arguments, (*_OF_TOOLKIT, "plot"), "one file, to judge its layers", "two sides")
    if arguments.images is None:
        raise ValueError("--images: expected a folder of images or .npy files, got none")
    if ".onnx" not in (Path(arguments.reference).suffix, Path(arguments.other).suffix):
        refuse_given(arguments, ("mean", "std"), "an .onnx file among the sides", "none")
    detects = arguments.detect or arguments.labels is not None
    if not detects:
        refuse_given(arguments, _OF_DETECTIONS, "--detect or --labels", "neither")
    paths = images_in(arguments.images, "--images", arguments.limit, recursive=False)
    with refusals():
        arrays = {path: load_arrays(path) for path in paths if path.suffix.lower() == ".npy"}
    frames = [next(iter(arrays[path].values())) if path in arrays else path for path in paths]
    truth = list(_truth(paths, Path(arguments.labels))) if arguments.labels else None
    if truth is not None and not any(map(len, truth)):
        wanted = f"{paths[0].stem}.txt"
        raise ValueError(
            f"--labels: expected labels such as {wanted} in {arguments.labels}, got none"
        )
    options: dict[str, Any] = {}
    if detects:
        options = {"head": arguments.head or "auto"}
        if arguments.names:
            options["labels"] = arguments.names
    with progress_line(arguments) as show:
        return compare(
            arguments.reference,
            arguments.other,
            frames,
            detect=arguments.detect,
            task=arguments.task,
            truth=truth,
            mean_values=arguments.mean and [arguments.mean],
            std_values=arguments.std and [arguments.std],
            color=arguments.color,
            progress=lambda done, total: show(f"{done} of {total} images"),
            **options,
        )


def _truth(paths: Sequence[Path], labels: Path) -> Iterator[Detections]:
    """Yield the labels of each image; an image without a file has none, as for YOLO's tools."""
    from rknn_runtime.vision.images import size_of_file
    from rknn_runtime.vision.readers import from_yolo

    for path in paths:
        if path.suffix == ".npy":
            raise ValueError(f"{path}: expected images with --labels, got an .npy file")
        size = size_of_file(path)
        file = labels / f"{path.stem}.txt"
        try:
            yield from_yolo(file.read_text("utf-8") if file.exists() else "", size)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
