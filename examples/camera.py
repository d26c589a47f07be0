"""Detect objects in a video, on all cores of the NPU.

    python camera.py MODEL SOURCE [--library sim] [--labels names.txt] [--frames N]
                     [--show] [--save last.png] [--stats]

SOURCE: a camera's number, a video file or URL (these need OpenCV), an image or a folder of images.
For a camera or stream, the newest frame is taken and older ones are dropped. Ctrl-C ends it like
the end of a video.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from _program import image_file, run

from rknn_runtime import Detections, Pool


def window() -> Any:
    """Return a function that shows a BGR image and returns whether the user pressed escape."""
    try:
        import cv2
    except ImportError:
        raise SystemExit("--show needs OpenCV with windows: pip install opencv-python") from None
    if re.search(r"GUI:\s+NONE", cv2.getBuildInformation()):
        raise SystemExit(
            "--show needs an OpenCV with windows, and this one has none: "
            "pip uninstall opencv-python-headless, then pip install opencv-python"
        )
    if not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        raise SystemExit("--show needs a screen, and neither DISPLAY nor WAYLAND_DISPLAY is set")

    def show(image: Any) -> bool:
        cv2.imshow("detections", image)
        return bool(cv2.waitKey(1) == 27)

    return show


def save(path: Path, frame: Any, detections: Detections, labels: Any) -> None:
    """Write a frame, annotated."""
    from PIL import Image

    drawn = detections.draw(frame, labels, color="BGR")
    Image.fromarray(np.ascontiguousarray(drawn[..., ::-1])).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("source", help="camera number, video, URL, image, or folder of images")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--labels", help="names of the classes: a .txt, .json or .yaml file")
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--head", default="auto", help="head, if outputs do not show it")
    parser.add_argument("--frames", type=int, help="stop after this many")
    parser.add_argument("--show", action="store_true", help="show a window (needs OpenCV's GUI)")
    parser.add_argument("--save", type=image_file, help="write the last frame, annotated, here")
    parser.add_argument("--stats", action="store_true", help="print the times of each phase")
    args = parser.parse_args()

    show = window() if args.show else None
    n, last = 0, None
    options = {"labels": args.labels, "conf_threshold": args.conf, "head": args.head}
    with Pool(args.model, library=args.library, **options) as pool:
        labels = pool.tasks[0].labels
        start = time.perf_counter()
        with pool.stream(args.source) as results:
            try:
                for last in itertools.islice(results, args.frames):
                    n += 1
                    frame, detections = last
                    names = [labels[i] if labels else f"class {i}" for i in detections.class_id]
                    print(f"frame {frame.index + 1}: {', '.join(names) or 'nothing'}", flush=True)
                    if show and show(detections.draw(frame.image, labels, color="BGR")):
                        break
            except KeyboardInterrupt:
                print("stopped", file=sys.stderr)
            dropped = results.dropped
        took = time.perf_counter() - start
        if args.stats:
            print(pool.stats())
    print(f"{n} frames, {n / took:.1f} FPS, {dropped} dropped")
    if args.save and last:
        save(args.save, last[0].image, last[1], labels)


if __name__ == "__main__":
    run(main)
