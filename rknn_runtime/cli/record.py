"""Record the outputs of a model for samples, as a bundle of the simulated NPU.

Runs the model on the simulated NPU. The bundle then gives the same outputs for
these samples, also where the model itself cannot run.

Examples:
  rknn-runtime record yolov8n.rknn photo.jpg -o yolov8n.bundle
  rknn-runtime record yolov8n.rknn samples/*.npz -o yolov8n.bundle --json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rknn_runtime._arrays import load_arrays
from rknn_runtime._files import printable, replace_file
from rknn_runtime.cli.files import check_readable, check_writable, counted, naming, told
from rknn_runtime.cli.options import add_switch, progress_line, refusals
from rknn_runtime.errors import RknnError
from rknn_runtime.vision.images import IMAGE_SUFFIXES


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .rknn file or a bundle")
    parser.add_argument(
        "samples",
        nargs="+",
        metavar="SAMPLE",
        help="a photo, which is letterboxed as by Detector; or an .npy file with the input, or an "
        ".npz file with all inputs in their order",
    )
    parser.add_argument("-o", "--output", required=True, metavar="BUNDLE", help="the file to write")
    add_switch(parser, "--any-input", "answer every input with the first sample's outputs")
    add_switch(parser, "--json", "print one JSON object")
    add_switch(parser, "--quiet", "show no progress")


def run(arguments: Namespace) -> None:
    from rknn_runtime.sim import record  # here: other commands do not need it

    check_readable(arguments.model, *arguments.samples)
    check_writable(arguments.output)
    output = Path(arguments.output)
    for name in (arguments.model, *arguments.samples):
        if output.exists() and Path(name).exists() and output.samefile(name):
            raise RknnError(f"--output: expected another file than {name}, which is read")
    samples = _samples(arguments.model, arguments.samples)
    with progress_line(arguments) as show:
        try:
            bundle = record(
                arguments.model, samples, any_input=arguments.any_input,
                progress=lambda done, total: show(f"{done} of {total} samples"),
            )  # fmt: skip
        except (TypeError, ValueError) as error:
            raise RknnError(told(arguments.model, error)) from None
    replace_file(arguments.output, bytes(bundle))
    if arguments.json:
        made = {"bundle": arguments.output, "samples": len(samples), "bytes": len(bundle)}
        print(json.dumps(made))
    else:
        words = counted(len(samples), "sample")
        print(printable(f"{arguments.output}: {words}, {len(bundle)} bytes"))


def _samples(model: str, paths: Sequence[str]) -> list[list[Any]]:
    with refusals():
        photos = [path for path in paths if Path(path).suffix.lower() in IMAGE_SUFFIXES]
        arrays = {path: list(load_arrays(path).values()) for path in paths if path not in photos}
        if photos:
            from rknn_runtime.conversion.calibration import framed
            from rknn_runtime.npu.model import Model
            from rknn_runtime.vision.image_model import ImageModel

            with naming(model), Model(model, library="sim") as loaded:
                size, color = (own := ImageModel(loaded, None, None)).input_size, own.input_color
            if color == "NV12":
                raise ValueError(
                    f"{model}: expected .npz files for a model that takes NV12, got a photo"
                )
            arrays.update({path: [framed(Path(path), size, color)] for path in photos})
    return [arrays[path] for path in paths]
