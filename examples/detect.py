"""Detect objects in one image: load, letterbox, run, decode, draw.

    python detect.py MODEL IMAGE [--library sim] [--labels names.txt] [--save out.png]

`Detector` does all of this in one call; here each phase is timed. Without --labels, the model's
custom string may name the classes: {"labels": [...]}. On a board, omit --library.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

from _program import image_file, run

from rknn_runtime import Detector, Model
from rknn_runtime.vision import letterbox

times_ms: dict[str, float] = {}


@contextmanager
def timed(phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times_ms[phase] = (time.perf_counter() - start) * 1e3


def main() -> None:
    from PIL import Image

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("image")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--labels", help="names of the classes: a .txt, .json or .yaml file")
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--save", type=image_file, help="write the annotated image here")
    args = parser.parse_args()

    with timed("load the model"):
        model = Model(args.model, library=args.library)
    with model:
        detector = Detector(model, args.labels, conf_threshold=args.conf)
        with timed("open the image"):
            image = Image.open(args.image).convert("RGB")
        with timed("letterbox into NPU memory"):
            transform = letterbox(
                image,
                detector.input_size,
                out=model.input_view(),
                out_color=detector.input_color,
            )[1]
        with timed("run"):
            model.run()
        with timed("decode"):
            outputs = [model.output_raw(i) for i in range(len(model.outputs))]
            detections = detector.decoder(outputs, transform)
            del outputs  # a model with views of its memory cannot be closed
        simulated = model.library.is_simulated

    labels = detector.labels
    for detection in detections:
        label = labels[detection.class_id] if labels else f"class {detection.class_id}"
        left, top, right, bottom = detection.xyxy
        print(
            f"{label:12s} {detection.confidence:5.2f}   "
            f"({left:6.1f}, {top:6.1f}) - ({right:6.1f}, {bottom:6.1f})"
        )
    print(f"\n{len(detections)} objects in {args.image}, head {detector.head}")
    for phase, duration in times_ms.items():
        print(f"{phase:28s} {duration:8.2f} ms")
    if simulated:
        print("simulated NPU: times are not those of a board, nor were results compared with one")

    if args.save:
        detections.draw(image, labels=labels).save(args.save)
        print(f"annotated image: {args.save}")


if __name__ == "__main__":
    run(main)
