"""The cost of Python per image: ``detector(image)`` against a C loop of the same kernels and calls.

A split head of nine outputs on the simulated NPU, which answers with recorded outputs. Both
columns write the image, run and decode with the same native call on the same memory, in turns;
the difference is all that Python does.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import tempfile
from functools import partial

import numpy as np
from _timing import compiled, in_turns

from rknn_runtime import Detector, Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

ROUNDS, CALLS = 40, 100
#: Side of the input, sides of the image, objects in it.
CASES = [(64, (72, 128), 0), (64, (72, 128), 8), (320, (360, 640), 0), (320, (360, 640), 30)]
CLASSES, BINS = 80, 16

Address = ctypes.c_void_p


class Calls(ctypes.Structure):
    """``bench_calls`` of detector_baseline.c."""

    _fields_ = [
        (name, Address) for name in ("run", "model", "letterbox", "image", "decoder", "placement")
    ]


def bundle(side, objects):
    """Make a model that answers any image with the same objects."""
    tensors, random = [], np.random.default_rng(0)
    for cells in (side // 8, side // 16, side // 32):
        box = random.uniform(0, 1, (1, 4 * BINS, cells, cells))
        score = random.uniform(0, 0.1, (1, CLASSES, cells, cells))
        if cells == side // 8:
            places = np.linspace(0, cells * cells - 1, objects).astype(int)
            for number, place in enumerate(places):
                score[0, number, place // cells, place % cells] = 0.9
        total = np.minimum(score.sum(axis=1, keepdims=True), 1)
        tensors += [x.astype(np.float32) for x in (box, score, total)]
    scale = {"zero_point": -128, "scale": 1 / 255}
    return bundle_from_arrays(
        [describe_input("image", (1, 3, side, side), **scale)],
        [describe_output(f"y{i}", x.shape, index=i, **scale) for i, x in enumerate(tensors)],
        [Record(tensors)],
    )


def address(pointer):
    return int(ffi.cast("uintptr_t", pointer))


def calls_of(detector, image):
    """Collect the arguments of the C loop: the function, and the memory of the detector."""
    letterbox, _, placement = detector._writer.prepare(image, "RGB")
    arguments = (
        ffi.addressof(lib, "rkr_run_frame"),
        detector.model._frame._native,
        letterbox,
        ffi.from_buffer(image),
        detector.decoder._native,
        placement,
    )
    return Calls(*map(address, arguments))


def main():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"detector(image), 9 outputs, Python {sys.version.split()[0]}, simulated NPU; us")
    print(f"{'':40}{'C p50':>9}{'p90':>9}{'here p50':>10}{'p90':>9}{'more p50':>10}{'p90':>7}")
    with tempfile.TemporaryDirectory() as folder:
        loop = ctypes.CDLL(compiled("detector_baseline.c", folder))
        loop.bench_images.argtypes = ctypes.POINTER(Calls), ctypes.c_size_t, Address
        # Planted objects are implausible, which would be told.
        logging.getLogger("rknn_runtime").setLevel(logging.ERROR)
        for side, size, objects in CASES:
            image = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
            with Model(bundle(side, objects), library="sim") as model:
                detector = Detector(model, iou_threshold=1.0)
                assert len(detector(image)) == objects
                frame = model.input_view(0)
                filled = frame.copy()
                calls = calls_of(detector, image)
                frame[...] = 0
                assert loop.bench_images(ctypes.byref(calls), 1, (ctypes.c_int64 * 1)()) == 0
                assert np.array_equal(frame, filled)
                del frame
                in_c, in_python = in_turns(
                    partial(loop.bench_images, calls), detector, image, ROUNDS, CALLS
                )
            name = f"{size[1]}x{size[0]} to {side}x{side}, {objects} objects"
            (c50, c90), (p50, p90) = (
                np.percentile(times, [50, 90]) / 1000 for times in (in_c, in_python)
            )
            print(f"{name:40}{c50:9.2f}{c90:9.2f}{p50:10.2f}{p90:9.2f}"
                  f"{p50 - c50:10.2f}{p90 - c90:7.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
