"""Detect objects in a video: a frame is decoded while the NPU works on the next one.

    python camera.py MODEL SOURCE [--library sim] [--labels names.txt] [--frames N]
                     [--show] [--save last.png]

SOURCE: a camera's number, a video file or URL (these need OpenCV), or an image to pan over.
Ctrl-C ends it as the end of a video does.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime import Detections, Detector, Model
from rknn_runtime.examples._program import image_file, read_labels, run
from rknn_runtime.vision import letterbox


def open_frames(source: str) -> Iterator[Any]:
    """Yield ``(height, width, 3) uint8`` frames, BGR."""
    if source.lower().endswith((".png", ".jpg", ".jpeg")):
        from PIL import Image

        image = np.asarray(Image.open(source).convert("RGB"))[..., ::-1]
        for i in itertools.count():
            yield np.roll(image, 4 * i, axis=1)
    try:
        import cv2
    except ImportError:
        raise SystemExit("videos need OpenCV: pip install opencv-python-headless") from None
    capture = cv2.VideoCapture(int(source) if source.isdigit() else source)
    if not capture.isOpened():
        raise SystemExit(f"OpenCV cannot open {source}: no such camera or file, or no permission")
    while (answer := capture.read())[0]:
        yield answer[1]


def window() -> Any:
    """Return a function that shows a BGR image and tells whether the user pressed escape."""
    try:
        import cv2
    except ImportError:
        raise SystemExit("--show needs OpenCV with windows: pip install opencv-python") from None
    if re.search(r"GUI:\s+NONE", cv2.getBuildInformation()):
        raise SystemExit(
            "--show needs an OpenCV with windows, and this is the one without: "
            "pip uninstall opencv-python-headless, then pip install opencv-python"
        )
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise SystemExit("--show needs a screen, and neither DISPLAY nor WAYLAND_DISPLAY is set")

    def show(image: Any) -> bool:
        cv2.imshow("detections", image)
        return bool(cv2.waitKey(1) == 27)

    return show


def detect(detector: Any, frames: Iterable[Any]) -> Iterator[tuple[Any, Detections]]:
    """Yield each frame with its detections, one frame late: the NPU is never left to wait.

    `detector(frame)` does the same steps one after the other.
    """
    model, size, colors = detector.model, detector.input_size, detector.input_color
    with ThreadPoolExecutor(max_workers=1) as npu:
        running = None
        for frame in itertools.chain(frames, [None]):
            if frame is not None:
                pixels, transform = letterbox(frame, size, color="BGR", out_color=colors)
            done = running
            if done is not None:
                done[0].result()
                # The next run overwrites the outputs: int8, so this copy is small.
                raw = [model.output_raw(i).copy() for i in range(len(model.outputs))]
            if frame is not None:
                running = npu.submit(model.run, pixels), frame, transform
            if done is not None:
                yield done[1], detector.decoder(raw, done[2])


def save(path: Path, frame: Any, detections: Detections, labels: Any) -> None:
    """Write a frame, annotated."""
    from PIL import Image

    drawn = detections.draw(frame, labels, color="BGR")
    Image.fromarray(np.ascontiguousarray(drawn[..., ::-1])).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("source", help="camera number, video, or image (.png, .jpg)")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--labels", type=read_labels, help="one name per line, or JSON")
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--head", default="auto", help="as yolov10, where outputs cannot tell it")
    parser.add_argument("--frames", type=int, help="stop after this many")
    parser.add_argument("--show", action="store_true", help="show a window (needs OpenCV's GUI)")
    parser.add_argument("--save", type=image_file, help="write the last frame, annotated, here")
    args = parser.parse_args()

    show = window() if args.show else None
    n, last = 0, None
    with Model(args.model, library=args.library) as model:
        detector = Detector(model, args.labels, conf_threshold=args.conf, head=args.head)
        labels = detector.labels
        frames = itertools.islice(open_frames(args.source), args.frames)
        start = time.perf_counter()
        with closing(detect(detector, frames)) as results:
            try:
                for last in results:
                    n += 1
                    frame, detections = last
                    names = [labels[i] if labels else f"class {i}" for i in detections.class_id]
                    print(f"frame {n}: {', '.join(names) or 'nothing'}", flush=True)
                    if show and show(detections.draw(frame, labels, color="BGR")):
                        break
            except KeyboardInterrupt:
                print("stopped", file=sys.stderr)
    print(f"{n} frames, {n / (time.perf_counter() - start):.1f} FPS")
    if args.save and last:
        save(args.save, last[0], last[1], labels)


if __name__ == "__main__":
    run(main)
