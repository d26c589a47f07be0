"""Detect objects with a YOLOv8 model of one output, and print them as the Rust crate does.

    python coco_test.py MODEL IMAGE [CONF_THRESHOLD] [--library sim]

The counterpart of the example with this name in the Rust crate rknn-runtime: boxes are centre and
size in pixels of the image. Unlike the crate, it keeps the image's proportions and reads outputs of
any layout. For other models use detect.py.
"""

from __future__ import annotations

import argparse
import time

from _program import run

from rknn_runtime import Detector, Model
from rknn_runtime.vision import letterbox
from rknn_runtime.vision.heads import SingleOutputDecoder
from rknn_runtime.vision.labels import COCO_NAMES

RUNS = 10


def read(model: Model) -> Detector:
    """Return a detector for labels and input size, or stop if this cannot decode the model."""
    try:
        return Detector(model, head="yolov8-single")
    except ValueError as error:
        raise SystemExit(
            "coco_test.py wants a YOLOv8 of one output, [1, 4 + classes, predictions]; detect.py "
            f"takes other detectors.\n{error}"
        ) from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file; its custom string may name the classes")
    parser.add_argument("image")
    # A score of 0.5, the sigmoid of 0, means nothing; rounded to int8 it is 0.502.
    parser.add_argument("conf_threshold", type=float, nargs="?", default=0.51)
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    args = parser.parse_args()

    with Model(args.model, library=args.library) as model:
        about = read(model)
        height, width = about.input_size
        output = model.outputs[0].native or model.outputs[0]
        print(f"Model: {args.model}")
        print(f"Input: {height}x{width} {model.inputs[0].layout.name}")
        print(f"Output: {list(output.shape)} {output.layout.name}")

        transform = letterbox(args.image, (height, width), out=model.input_view())[1]
        for _ in range(3):
            model.run()
        start = time.perf_counter()
        for _ in range(RUNS):
            model.run()
        ms = (time.perf_counter() - start) * 1e3 / RUNS
        print(f"{ms:.1f} ms/inference ({1e3 / ms:.1f} FPS)")

        decode = SingleOutputDecoder(
            model.outputs[0], (height, width), conf_threshold=args.conf_threshold
        )
        predictions = model.outputs[0].n_elems // (4 + decode.num_classes)
        print(f"{predictions} predictions, {decode.num_classes} classes")

        # No overlap is above 1, so nothing is suppressed here.
        decode_all = SingleOutputDecoder(
            model.outputs[0],
            (height, width),
            conf_threshold=args.conf_threshold,
            iou_threshold=1.0,
            max_detections=predictions,
        )
        before = len(decode_all(model.output_raw(0)))
        detections = transform.detections_to_image(decode(model.output_raw(0)), clip=False)

    print(f"{before} -> {len(detections)} detections (after NMS)\n")
    names = about.labels or (COCO_NAMES if decode.num_classes == len(COCO_NAMES) else ())
    names = names if isinstance(names, dict) else dict(enumerate(names))
    for i, found in enumerate(detections, 1):
        left, top, right, bottom = found.xyxy.tolist()
        print(
            f"  {i:2}. {names.get(found.class_id, '?')} ({found.confidence * 100:.1f}%) "
            f"at ({(left + right) / 2:.0f}, {(top + bottom) / 2:.0f}) "
            f"{right - left:.0f}x{bottom - top:.0f}"
        )


if __name__ == "__main__":
    run(main)
