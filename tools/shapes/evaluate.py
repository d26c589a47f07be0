"""Measure a detector's mAP on held-out synthetic scenes.

::

    python tools/shapes/evaluate.py examples/models/shapes.onnx
    python tools/shapes/evaluate.py examples/models/shapes_rk3588.rknn      # simulated NPU
    python tools/shapes/evaluate.py examples/models/shapes.onnx --toolkit rk3588

The first runs onnxruntime, in float.
The second runs the product's own API on its simulated NPU: float inside the graph, outputs as the
NPU delivers them, in int8.
The third builds the model with the vendor's toolkit (in convert.py's environment) and runs the
toolkit's simulator: int8 arithmetic inside the graph too, as on the chip.
Raw outputs are decoded by decode.py in all three; ``--decoder product`` takes the product's.
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

Runner = Callable[[np.ndarray], list[np.ndarray]]


@contextmanager
def onnx_runner(path: Path) -> Iterator[Runner]:
    """Yield a function from an image to the ONNX graph's float outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(image: np.ndarray) -> list[np.ndarray]:
        tensor = image.transpose(2, 0, 1)[None].astype(np.float32) / 255
        return session.run(None, {session.get_inputs()[0].name: tensor})

    yield run


@contextmanager
def toolkit_runner(path: Path, platform: str) -> Iterator[Runner]:
    """Yield a function from an image to the outputs of the vendor's int8 simulator."""
    import convert

    with convert.built(path, platform) as toolkit:
        if toolkit.init_runtime():
            raise RuntimeError("rknn-toolkit2: init_runtime of the simulator failed")
        yield lambda image: toolkit.inference(inputs=[image[None]], data_format=["nhwc"])


def evaluate(run: Runner, count: int) -> tuple[np.ndarray, float]:
    """Return the AP per class and IoU threshold over ``count`` scenes, and the time in s."""
    found, truth, begin = [], [], time.perf_counter()
    for seed in HELD_OUT_SEEDS[:count]:
        image, boxes, class_ids = draw_input(seed)
        found.append(decode.decode(run(image), SIZE))
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
    args = parser.parse_args()
    runner = toolkit_runner(args.model, args.toolkit) if args.toolkit else onnx_runner(args.model)
    with runner as run:
        ap, seconds = evaluate(run, args.count)
    print(report(ap, args.count, seconds))


if __name__ == "__main__":
    main()
