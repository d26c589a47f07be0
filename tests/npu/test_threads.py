"""Many threads at once, on one object and on several: for ThreadSanitizer, and for results.

`tools/sanitize.py --threads` runs these on code that reports every access of two threads to one
place that no lock orders.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest
from bundles import one_object
from threads import in_threads

from rknn_runtime import (
    Detector,
    Model,
    letterbox,
)
from rknn_runtime.kernels import dequantize_nc1hwc2, nc1hwc2_to_nchw, quantize_affine
from rknn_runtime.vision import nms

THREADS = 8
#: How often each thread does its work.
ROUNDS = int(os.environ.get("RKNN_TEST_ROUNDS", "40"))


def together(work: Callable[[int], None]) -> None:
    """Start the same work in all threads at once; raise the first exception."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait()
        for _ in range(ROUNDS):
            work(number)

    in_threads(run, ((number,) for number in range(THREADS)))


def test_frames_through_every_door(control) -> None:
    """Detectors, a plain run and questions about its times share a model: they take turns."""
    frame = np.random.default_rng(0).integers(0, 256, (48, 80, 3)).astype(np.uint8)
    nv12 = np.full((96, 80), 128, np.uint8)
    with Model(one_object(), library="sim") as model:
        detectors = [Detector(model), Detector(model, conf_threshold=0.95)]
        expected = [detectors[0](frame), detectors[1](frame)]
        assert [len(found) for found in expected] == [1, 0]
        model.is_timed = True

        def work(number: int) -> None:
            if number < 4:
                assert detectors[number % 2](frame) == expected[number % 2]
            elif number == 4:
                assert len(detectors[0](nv12, color="NV12")) == 1
            elif number == 5:
                model(np.zeros((64, 64, 3), np.uint8))
            else:
                times = model.step_times
                assert times is None or times.begin_s <= times.end_s

        together(work)


def test_kernels() -> None:
    """Kernels share nothing: the same source, a result for each."""
    packed = np.random.default_rng(0).integers(-128, 128, (1, 3, 20, 30, 16)).astype(np.int8)
    floats = np.random.default_rng(1).standard_normal((3, 40, 50)).astype(np.float32)
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [50, 50, 60, 60]], np.float32)
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    scene = np.random.default_rng(2).integers(0, 256, (60, 90, 3)).astype(np.uint8)

    def results() -> tuple[np.ndarray, ...]:
        return (
            nc1hwc2_to_nchw(packed, 40),
            dequantize_nc1hwc2(packed, 40, 3, 0.5),
            quantize_affine(floats, 3, 0.05, np.dtype(np.int8)),
            letterbox(scene, (64, 64))[0],
        )

    expected = results()

    def work(_: int) -> None:
        for one, other in zip(results(), expected):
            np.testing.assert_array_equal(one, other)
        assert nms(boxes, scores, iou_threshold=0.5).tolist() == [0, 2]

    together(work)


def test_a_signal_handler_in_a_decoder_meets_no_waiting_thread():
    """One lock for a detector and its decoder: who waits for it holds nothing else.

    A handler that comes while this thread decodes is refused, also when another thread wants the
    detector: with two locks that one held the first, and each waited for the other.
    """
    with Model(one_object(), library="sim") as model:
        detector = Detector(model)
        decoder, lock = detector.decoder, model._context.exclusive
        assert decoder._lock is lock
        frame = np.zeros((64, 64, 3), np.uint8)
        expected = detector(frame)
        found = []
        other = threading.Thread(target=lambda: found.append(detector(frame)))
        results, refused = decoder.results, []

        def interrupted(transform: object) -> object:
            decoder.results = results
            other.start()
            while lock.try_acquire():  # until somebody has it: this thread, or the other one
                lock.release()
            for handler in (lambda: detector(frame), lambda: decoder(raw), model.close):
                with pytest.raises(RuntimeError, match="reentrant call"):
                    handler()
                refused.append(handler)
            return results(transform)

        raw = model.output_raw(0).copy()
        decoder.results = interrupted
        assert len(decoder(raw)) == len(expected) and len(refused) == 3
        other.join()
        assert found == [expected]
