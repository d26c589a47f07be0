"""Measure a detector's mAP on held-out synthetic scenes.

::

    python tools/shapes/evaluate.py examples/models/shapes.onnx
    python tools/shapes/evaluate.py examples/models/shapes_rk3588.rknn      # simulated NPU
    python tools/shapes/evaluate.py examples/models/shapes.onnx --toolkit rk3588

The first runs onnxruntime and decode.py, in float.
The second runs the product's own API on its simulated NPU, which executes the file's commands;
``--decoder numpy`` decodes the dequantized outputs with decode.py instead of the product's native
decoder.
The third builds the model with the vendor's toolkit (in convert.py's environment) and runs the
toolkit's simulator, which computes the graph in int8 too; decode.py decodes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import decode
import metrics
import numpy as np
from scenes import CLASSES, HELD_OUT_SEEDS, SIZE, draw_input

Detect = Callable[[np.ndarray], decode.Found]

# What mAP is measured with: nearly everything counts, little is suppressed.
LIMITS = {"conf_threshold": 0.01, "iou_threshold": 0.6, "max_detections": 100}


@contextmanager
def onnx_detector(path: Path) -> Iterator[Detect]:
    """Yield a function from an image to detections: onnxruntime and decode.py, in float."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def detect(image: np.ndarray) -> decode.Found:
        tensor = image.transpose(2, 0, 1)[None].astype(np.float32) / 255
        return decode.decode(session.run(None, {"images": tensor}), SIZE, **LIMITS)

    yield detect


@contextmanager
def toolkit_detector(path: Path, platform: str) -> Iterator[Detect]:
    """Yield a function from an image to detections: the vendor's simulator and decode.py."""
    import convert

    with convert.built(path, platform) as toolkit:
        if toolkit.init_runtime():
            raise RuntimeError("rknn-toolkit2: init_runtime of the simulator failed")

        def detect(image: np.ndarray) -> decode.Found:
            outputs = toolkit.inference(inputs=[image[None]], data_format=["nhwc"])
            return decode.decode(outputs, SIZE, **LIMITS)

        yield detect


@contextmanager
def product_detector(path: Path, decoder: str, head: str = "auto") -> Iterator[Detect]:
    """Yield a function from an image to detections: the simulated NPU, decoded as asked."""
    from rknn_runtime import Detector, Model

    with Model(path, library="sim") as model:
        if decoder == "numpy":
            yield lambda image: decode.decode(model(image), SIZE, **LIMITS)
            return
        # the decoder alone: the scenes have the input's size, and decode.py never clips either
        native = Detector(model, head=head, **LIMITS).decoder

        def detect(image: np.ndarray) -> decode.Found:
            model.run(image)
            found = native([model.output_raw(i) for i in range(len(model.outputs))])
            return found.xyxy, found.confidence, found.class_id

        yield detect


def evaluate(detect: Detect, count: int) -> tuple[np.ndarray, float]:
    """Return the AP per class and IoU threshold over ``count`` scenes, and the time in s."""
    found, truth, begin = [], [], time.perf_counter()
    for seed in HELD_OUT_SEEDS[:count]:
        image, boxes, class_ids = draw_input(seed)
        found.append(detect(image))
        truth.append((boxes, class_ids))
    return metrics.average_precision(found, truth, len(CLASSES)), time.perf_counter() - begin


def report(ap: np.ndarray, count: int, seconds: float) -> str:
    """Return the result as a table."""
    lines = [f"{'class':<10} {'AP@0.5':>8} {'AP@0.5:0.95':>12}"]
    for name, row in zip(CLASSES, ap):
        lines.append(f"{name:<10} {row[0]:8.4f} {row.mean():12.4f}")
    lines.append(f"{'mean':<10} {np.nanmean(ap[:, 0]):8.4f} {np.nanmean(ap):12.4f}")
    lines.append(f"{count} scenes, {seconds:.0f} s")
    return "\n".join(lines)


def main() -> None:
    """Print AP per class and mAP."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("model", type=Path, help=".onnx or .rknn")
    parser.add_argument("--count", type=int, default=500, help="held-out scenes")
    parser.add_argument("--toolkit", metavar="PLATFORM", help="run the toolkit's simulator")
    parser.add_argument(
        "--decoder", choices=("product", "numpy"), default="product", help="of a .rknn's outputs"
    )
    parser.add_argument("--head", default="auto", help="for the product's decoder, e.g. yolov10")
    args = parser.parse_args()
    if args.toolkit:
        detector = toolkit_detector(args.model, args.toolkit)
    elif args.model.suffix == ".rknn":
        detector = product_detector(args.model, args.decoder, args.head)
    else:
        detector = onnx_detector(args.model)
    with detector as detect:
        ap, seconds = evaluate(detect, args.count)
    print(report(ap, args.count, seconds))


if __name__ == "__main__":
    main()
