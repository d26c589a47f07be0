"""Detect objects in a picture of the package, on the simulated NPU.

It needs no board, file or other package, and leaves the picture and the
network, rknn-demo.rknn, for your next commands. Both were made for this demo:
the network finds most of the drawn shapes, and says nothing about other ones.

Examples:
  rknn-runtime demo
  rknn-runtime demo --output found.png --json
"""

from __future__ import annotations

import json
import lzma
import shlex
import struct
import zlib
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rknn_runtime._files import printable_lines, replace_file
from rknn_runtime.cli.files import check_writable
from rknn_runtime.cli.options import add_switch

if TYPE_CHECKING:
    from rknn_runtime._arrays import Array

#: `tools/shapes` made both.
_DATA = Path(__file__).parents[1] / "tools" / "data"
MODEL, PICTURE = _DATA / "demo.rknn.xz", _DATA / "demo.npz"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default="rknn-demo.png", metavar="FILE",
        help="the picture to write (rknn-demo.png)",
    )  # fmt: skip
    add_switch(parser, "--json", "print the objects as one JSON object")


def run(arguments: Namespace) -> None:
    from rknn_runtime.vision.detector import Detector

    check_writable(arguments.output)
    with np.load(PICTURE) as stored:
        image = stored["palette"][stored["pixels"]]
    model = Path(arguments.output).with_name("rknn-demo.rknn")
    replace_file(model, lzma.decompress(MODEL.read_bytes()))
    with Detector.open(model, library="sim") as detector:
        found = detector(image)
    has_pillow = find_spec("PIL") is not None
    replace_file(arguments.output, png_of(found.draw(image, captions=has_pillow)))
    if arguments.json:
        print(json.dumps({"output": arguments.output, **found.to_dict()}))
        return
    lines = [
        f"The simulated NPU ran {model.name}, an int8 network for RK3588 that finds drawn shapes:",
        *(f"  {line}" for line in str(found).splitlines()),
        f"Wrote {arguments.output} and {model}"
        + ("." if has_pillow else "; with Pillow the picture has captions."),
        "",
        "Next:",
        f"  rknn-runtime info {shlex.quote(str(model))}",
        "  rknn-runtime convert best.onnx --for rk3588 --calibrate photos/",
        "  rknn-runtime detect best_rk3588.rknn photos/ --sim --save found/",
    ]
    print(printable_lines(lines))


def png_of(pixels: Array) -> bytes:
    """Return ``(H, W, 3) uint8``, RGB, as a PNG file, without Pillow."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with 0: not filtered
    rows[:, 1:] = pixels.reshape(height, -1)
    size = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", size), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
