"""Detect objects in one picture: load, letterbox, run, decode, draw.

    python detect.py MODEL PICTURE [--library sim] [--save out.png]

The model is a YOLO model with the single output of YOLOv8, [1, 4 + classes, N]. Its custom
string may name the classes: {"labels": [...]}. On a board, leave --library away.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from rknn_runtime import Model
from rknn_runtime.yolo import SingleOutputDecoder, letterbox

times_ms: dict[str, float] = {}


@contextmanager
def timed(phase: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times_ms[phase] = (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("picture")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--save", type=Path, help="write the annotated picture here")
    args = parser.parse_args()

    with timed("load the model"):
        model = Model(args.model, library=args.library)
    with model:
        _, height, width, _ = model.inputs[0].shape
        labels = json.loads(model.custom_string or "{}").get("labels")
        decode = SingleOutputDecoder(model.outputs[0], (height, width), conf_threshold=args.conf)
        with timed("open the picture"):
            picture = Image.open(args.picture).convert("RGB")
        with timed("letterbox into NPU memory"):
            transform = letterbox(picture, (height, width), out=model.input_view())[1]
        with timed("run"):
            model.run()
        with timed("decode"):
            detections = transform.detections_to_image(decode(model.output_raw(0)))
        simulated = model.library.is_simulated

    for detection in detections:
        label = labels[detection.class_id] if labels else f"class {detection.class_id}"
        left, top, right, bottom = detection.xyxy
        print(
            f"{label:12s} {detection.confidence:5.2f}   "
            f"({left:6.1f}, {top:6.1f}) - ({right:6.1f}, {bottom:6.1f})"
        )
    print(f"\n{len(detections)} objects in {args.picture}")
    for phase, duration in times_ms.items():
        print(f"{phase:28s} {duration:8.2f} ms")
    if simulated:
        print("simulated NPU: results are those of the model, times are not those of a board")

    if args.save:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        detections.draw(picture, labels=labels).save(args.save)
        print(f"annotated picture: {args.save}")


if __name__ == "__main__":
    main()
