"""Camera frames into a letterbox of 640x640 RGB, against OpenCV's cvtColor and resize, on one core.

OpenCV converts the whole frame, repeating U and V, and then resizes it into the letterbox; the
package resamples Y, U and V and converts the result.
"""

from __future__ import annotations

import os

import numpy as np
from _timing import LEVELS, cv2
from bench_resize import percentiles
from reference.yuv import to_gray, to_rgb

from rknn_runtime._ffi import lib
from rknn_runtime.vision.letterbox import letterbox

SIDE = 640
#: Width, height and format of the frame, colours of the letterbox.
CASES = [
    (1280, 720, "NV12", "RGB"),
    (1920, 1080, "NV12", "RGB"),
    (2560, 1440, "NV12", "RGB"),
    (1280, 720, "I420", "RGB"),
    (1280, 720, "YUYV", "RGB"),
    (640, 480, "YUYV", "RGB"),
    (640, 480, "NV12", "RGB"),
    (800, 600, "YUYV", "RGB"),
    (1280, 720, "NV12", "GRAY"),
    (640, 480, "YUYV", "GRAY"),
]


def planes_of(frame, color):
    """Split a frame into Y, U and V."""
    if color == "YUYV":
        return frame[..., 0], frame[:, 0::2, 1], frame[:, 1::2, 1]
    height = frame.shape[0] // 3 * 2
    if color == "NV12":
        return frame[:height], frame[height:, 0::2], frame[height:, 1::2]
    return (frame[:height], *frame[height:].reshape(2, height // 2, -1))


def opencv_letterbox(frame, color, height, target):
    """Return a function that does the same with OpenCV's own calls."""
    gray = target.shape[2] == 1
    code = getattr(cv2, f"COLOR_YUV2{'GRAY' if gray else 'RGB'}_{color}")
    top = (SIDE - height) // 2
    region = target[top : top + height, :, 0] if gray else target[top : top + height]

    def run():
        pixels = cv2.cvtColor(frame, code)
        cv2.resize(pixels, (SIDE, height), region, interpolation=cv2.INTER_LINEAR)
        target[:top] = 114
        target[top + height :] = 114

    return run


def check(frame, color, out_color, height, target):
    """Stop unless the results are right."""
    top = (SIDE - height) // 2
    y, *uv = planes_of(frame, color)
    exact = to_gray(y, height, SIDE) if out_color == "GRAY" else to_rgb(y, *uv, height, SIDE)
    assert np.abs(target[top : top + height] - exact).max() < 0.63, "not the formula rounded"


def main():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    best = lib.rkr_cpu_level()
    print(f"letterbox to {SIDE}x{SIDE}, one core; p50 (p90) in microseconds")
    for width, height, color, out_color in CASES:
        shape = (height, width, 2) if color == "YUYV" else (height * 3 // 2, width)
        frame = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        target = np.empty((SIDE, SIDE, 1 if out_color == "GRAY" else 3), np.uint8)
        inside = height * SIDE // width

        def native(frame=frame, color=color, out_color=out_color, target=target):
            letterbox(frame, (SIDE, SIDE), color=color, out_color=out_color, out=target)

        native()
        check(frame, color, out_color, inside, target)
        times = {}
        for level in range(best, -1, -1):
            lib.rkr_cpu_select(level)
            times[LEVELS[level]] = percentiles(native)
        lib.rkr_cpu_select(best)
        if cv2 is not None:
            times["opencv"] = percentiles(opencv_letterbox(frame, color, inside, target))
        first = times[LEVELS[best]][0]
        for name, (p50, p90) in times.items():
            case = f"{width}x{height} {color} -> {out_color}"
            print(f"{case:24} {name:8}{p50:10.0f} ({p90:6.0f}) {p50 / first:9.2f}")


if __name__ == "__main__":
    main()
