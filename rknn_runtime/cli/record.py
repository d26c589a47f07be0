"""Record what a model gives for samples, as a bundle of the simulated NPU.

The model runs on the simulated NPU; the bundle answers these samples as it did,
and runs where the model itself cannot.

Examples:
  rknn-runtime record yolov8n.rknn photo.npy -o yolov8n.bundle
  rknn-runtime record yolov8n.onnx samples/*.npz -o yolov8n.bundle --json
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime.cli.options import (
    add_switch,
    end_progress,
    show_progress,
    shows_progress,
)
from rknn_runtime.errors import RknnError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("model", metavar="MODEL", help="a .rknn file, an .onnx file or a bundle")
    parser.add_argument(
        "samples",
        nargs="+",
        metavar="SAMPLE",
        help="an .npy file with the input, or an .npz file with all inputs in their order",
    )
    parser.add_argument("-o", "--output", required=True, metavar="BUNDLE", help="the file to write")
    add_switch(parser, "--any-input", "let the first sample's outputs answer whatever comes")
    add_switch(parser, "--json", "print one JSON object")
    add_switch(parser, "--quiet", "show no progress")


def run(arguments: Namespace) -> None:
    """Run, and write the bundle.

    Raises:
        OSError: A file cannot be read or written.
        RknnError: The model does not run, or a sample does not fit it.
    """
    from rknn_runtime.sim.replay import replayed  # here, as `info` does without

    samples = [_arrays(Path(name)) for name in arguments.samples]
    shows = shows_progress(arguments)
    try:
        bundle = replayed(
            arguments.model, samples, any_input=arguments.any_input,
            progress=_progress if shows else None,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise RknnError(f"{arguments.model}: {error}") from None
    finally:
        end_progress(shows)
    Path(arguments.output).write_bytes(bundle)
    if arguments.json:
        made = {"bundle": arguments.output, "samples": len(samples), "bytes": len(bundle)}
        print(json.dumps(made))
    else:
        print(f"{arguments.output}: {len(samples)} samples, {len(bundle)} bytes")


def _progress(done: int, total: int) -> None:
    show_progress(f"{done} of {total} samples")


def _arrays(path: Path) -> list[Any]:
    """Read one sample."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise RknnError(f"{path}: expected an .npy or .npz file: {error}") from None
    if isinstance(loaded, np.ndarray):
        return [loaded]
    with loaded:
        return [loaded[name] for name in loaded.files]
