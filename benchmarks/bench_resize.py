"""Native bilinear resizing against Pillow and OpenCV, on one core.

Pillow's BILINEAR averages over all source pixels when it shrinks, which is more work and
another image; when it enlarges it computes the same. OpenCV's INTER_LINEAR computes the
same always.
"""

from __future__ import annotations

import os
import time

import numpy as np
from _timing import LEVELS, cv2
from reference.resize import bilinear

from rknn_runtime._ffi import lib
from rknn_runtime.kernels.resize import resize_bilinear
from rknn_runtime.vision.letterbox import letterbox

try:
    from PIL import Image
except ImportError:
    Image = None

#: Width and height, before and after.
SIZES = [
    ((1920, 1080), (640, 360)),
    ((1280, 720), (640, 360)),
    ((810, 1080), (480, 640)),
    ((320, 240), (640, 480)),
    ((2560, 1440), (640, 360)),
    ((1280, 720), (640, 640)),
    ((2592, 1944), (640, 480)),
    ((64, 64), (64, 64)),
    ((16, 16), (8, 8)),
]
REPEAT = 101


def contenders(image, size):
    """Return name -> function that resizes `image` to (width, height)."""
    width, height = size
    out = np.empty((height, width, image.shape[2]), np.uint8)
    found = {"native": lambda: resize_bilinear(image, (height, width), out=out)}
    if cv2 is not None:
        target = np.empty_like(out)
        found["opencv"] = lambda: cv2.resize(image, size, target, interpolation=cv2.INTER_LINEAR)
    if Image is not None:
        # CMYK: four channels that Pillow treats alike; RGBA it would weight by alpha.
        mode = {1: "L", 3: "RGB", 4: "CMYK"}[image.shape[2]]
        pillow = Image.frombytes(mode, image.shape[1::-1], image.tobytes())
        found["pillow"] = lambda: pillow.resize(size, Image.BILINEAR)
    found["fill"] = lambda: out.fill(114)
    return found


def check(image, size, functions):
    """Stop unless the results are right."""
    result = np.array(functions["native"]())
    exact = bilinear(image, size[1], size[0])
    assert np.abs(result - exact).max() < 0.54, "not the exact value rounded"
    for name in ("opencv", "pillow"):
        enlarges = size[0] >= image.shape[1] and size[1] >= image.shape[0]
        if name in functions and (name == "opencv" or enlarges):
            other = np.asarray(functions[name]()).reshape(result.shape)
            assert np.abs(result.astype(int) - other).max() <= 1, f"differs from {name}"


def percentiles(function):
    """Return p50 and p90 in microseconds."""
    times = []
    for _ in range(REPEAT + REPEAT // 10):
        begin = time.perf_counter_ns()
        function()
        times.append(time.perf_counter_ns() - begin)
    return np.percentile(times[REPEAT // 10 :], [50, 90]) / 1000


def show(case, functions, n_bytes=0):
    """Print p50 and p90 of each function in microseconds, MB/s, and the ratio to the first."""
    native = None
    for name, function in functions.items():
        p50, p90 = percentiles(function)
        native = native or p50
        rate = f"{n_bytes / p50:9.0f}" if n_bytes else ""
        print(f"{case:26} {name:12}{p50:10.0f} ({p90:6.0f}) {rate} {p50 / native:9.2f}")


def main():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"resize, one core, {LEVELS[lib.rkr_cpu_level()]}; p50 (p90) in microseconds")
    print(f"{'':39} {'':>18} {'MB/s out':>9} {'x native':>9}")
    for channels in (3, 4, 1):
        for before, after in SIZES:
            image = np.random.default_rng(0).integers(
                0, 256, (before[1], before[0], channels), np.uint8
            )
            functions = contenders(image, after)
            check(image, after, functions)
            case = f"{before[0]}x{before[1]}x{channels} -> {after[0]}x{after[1]}"
            show(case, functions, after[0] * after[1] * channels)
    report_letterbox()


def report_letterbox():
    """Time whole letterboxes of a BGR or gray image, against letterboxes with OpenCV's resize."""
    print("\nletterbox to 640x640")
    for width, height, color, out_color in (
        (1920, 1080, "BGR", "RGB"),
        (1280, 720, "BGR", "RGB"),
        (1280, 720, "BGR", "GRAY"),
        (1280, 720, "GRAY", "RGB"),
        (1280, 800, "GRAY", "RGB"),
        (640, 480, "BGR", "RGB"),
        (640, 640, "BGR", "RGB"),
        (640, 480, "BGR", "GRAY"),
    ):
        shape = (height, width) if color == "GRAY" else (height, width, 3)
        image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        frame = np.empty((640, 640, 1 if out_color == "GRAY" else 3), np.uint8)
        functions = {}
        for resize in ("native", *(["opencv"] if cv2 is not None else [])):
            functions[resize] = lambda resize=resize, image=image, frame=frame, to=out_color: (
                letterbox(image, (640, 640), color="BGR", out_color=to, out=frame, resize=resize)
            )
        if cv2 is not None:
            functions["opencv alone"] = opencv_letterbox(image, np.empty_like(frame))
        show(f"{width}x{height} {color} -> {out_color}", functions)


def opencv_letterbox(image, frame):
    """Return a function that does the same with OpenCV's own calls."""
    height, width = image.shape[0] * 640 // image.shape[1], 640
    top, gray = (640 - height) // 2, frame.shape[2] == 1
    code = cv2.COLOR_BGR2GRAY if gray else cv2.COLOR_BGR2RGB
    code = cv2.COLOR_GRAY2RGB if image.ndim == 2 else code
    region = frame[top : top + height, :, 0] if gray else frame[top : top + height]

    def run():
        resized = cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
        cv2.cvtColor(resized, code, region)
        frame[:top] = 114
        frame[top + height :] = 114

    return run


if __name__ == "__main__":
    main()
