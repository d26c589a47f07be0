"""Detect objects in a video: a frame is decoded while the NPU works on the next one.

    python camera.py MODEL SOURCE [--library sim] [--frames N] [--show] [--save last.png]

SOURCE: a camera's number, a video file or URL (these need OpenCV), or a picture to pan over.
"""

from __future__ import annotations

import argparse
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image

from rknn_runtime import Detector, Model
from rknn_runtime.vision import letterbox


def open_frames(source):
    """Yield ``(height, width, 3) uint8`` frames, BGR."""
    if source.lower().endswith((".png", ".jpg", ".jpeg")):
        picture = np.asarray(Image.open(source).convert("RGB"))[..., ::-1]
        for i in itertools.count():
            yield np.roll(picture, 4 * i, axis=1)
    try:
        import cv2
    except ImportError:
        raise SystemExit("videos need OpenCV: pip install 'rknn-runtime[opencv]'") from None
    capture = cv2.VideoCapture(int(source) if source.isdigit() else source)
    if not capture.isOpened():
        raise SystemExit(f"OpenCV cannot open {source}: no such camera or file, or no permission")
    while (answer := capture.read())[0]:
        yield answer[1]


def detect(detector, frames):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("source", help="camera number, video, or picture (.png, .jpg)")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--head", default="auto", help="as yolov10, where outputs cannot tell it")
    parser.add_argument("--frames", type=int, help="stop after this many")
    parser.add_argument("--show", action="store_true", help="show a window (needs OpenCV's GUI)")
    parser.add_argument("--save", help="write the last frame, annotated, here")
    args = parser.parse_args()

    with Model(args.model, library=args.library) as model:
        detector = Detector(model, conf_threshold=args.conf, head=args.head)
        labels = detector.labels
        frames = itertools.islice(open_frames(args.source), args.frames)
        start, n = time.perf_counter(), 0
        for n, (frame, detections) in enumerate(detect(detector, frames), 1):
            names = [labels[i] if labels else f"class {i}" for i in detections.class_id]
            print(f"frame {n}: {', '.join(names) or 'nothing'}")
            if args.show:
                import cv2

                cv2.imshow("detections", detections.draw(frame, labels, color="BGR"))
                if cv2.waitKey(1) == 27:  # escape
                    break
    print(f"{n} frames, {n / (time.perf_counter() - start):.1f} FPS")
    if args.save and n:
        drawn = detections.draw(frame, labels, color="BGR")
        Image.fromarray(np.ascontiguousarray(drawn[..., ::-1])).save(args.save)


if __name__ == "__main__":
    main()
