"""One cell of bench_pool.py in a separate process: frames that arrive at set times.

``python _arrivals.py pool|ez model.rknn RUN_MS CORES PATTERN SECONDS`` prints a line of JSON: the
milliseconds from the arrival of each frame to its result, the CPU seconds of the process and its
voluntary context switches. PATTERN is the milliseconds between arrivals, separated by commas and
repeated, or ``map``: as fast as results come, through `Pool.map` or ez-rknn-async's pipeline.
"""

from __future__ import annotations

import itertools
import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np

from rknn_runtime import CoreMask, Model
from rknn_runtime.sim.control import Control

CORES = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
WARM_UP = 20


def opened_pool(path: str, cores: int, run_ms: float) -> tuple[Callable[..., None], Callable]:
    from rknn_runtime import Pool

    pool = Pool(Path(path).read_bytes(), Model, library="sim", core_masks=CORES[:cores] * 2)
    Control().set_latency(round(1000 * run_ms))

    def submit(image: np.ndarray, done: Callable[[Any], None]) -> None:
        pool.submit(image).add_done_callback(done)

    def each(images: Any) -> Any:
        for _ in pool.map(images):
            yield

    return submit, each


def opened_ez(path: str, cores: int, run_ms: float) -> tuple[Callable[..., None], Callable]:
    import ztu_somemodelruntime_ez_rknn_async as ez

    options = {"layout": "nhwc", "threads_per_core": 2, "schedule": list(range(cores))}
    session = ez.InferenceSession(path, provider_options=[options])
    (given,) = session.get_inputs()

    def submit(image: np.ndarray, done: Callable[[Any], None]) -> None:
        session.run_async(None, {given.name: image[None]}, lambda *_: done(None))

    def each(images: Any) -> Any:
        depth = 2 * cores
        for n, image in enumerate(itertools.chain(images, images[:depth])):
            result = session.run_pipeline({given.name: image[None]}, depth=depth)
            if n >= depth:
                assert result is not None
                yield

    return submit, each


def main() -> None:
    _, who, path, run_ms, cores, pattern, seconds = sys.argv
    opened = opened_pool if who == "pool" else opened_ez
    submit, each = opened(path, int(cores), float(run_ms))
    images = [np.zeros((64, 64, 3), np.uint8) for _ in range(64)]
    took_ms: list[float] = []
    count = WARM_UP

    def arrive(at: float, n: int) -> None:
        time.sleep(max(0.0, at - time.perf_counter()))
        begin, changed = time.perf_counter(), all_done

        def done(_: Any) -> None:
            took_ms.append(1000 * (time.perf_counter() - begin))
            if len(took_ms) == count:
                changed.set()

        submit(images[n % len(images)], done)

    def cycle(gaps_ms: list[float]) -> None:
        at = time.perf_counter()
        for n, gap_ms in zip(range(count), itertools.cycle(gaps_ms)):
            arrive(at, n)
            at += gap_ms / 1000
        assert all_done.wait(60)

    all_done = threading.Event()
    cycle([2 * float(run_ms)])
    took_ms.clear()
    all_done.clear()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    if pattern == "map":
        count = round(1000 * float(seconds) / float(run_ms) * int(cores))
        images = [np.zeros((64, 64, 3), np.uint8) for _ in range(count)]
        assert sum(1 for _ in each(images)) == count
    else:
        gaps_ms = [float(gap) for gap in pattern.split(",")]
        count = round(1000 * float(seconds) / sum(gaps_ms) * len(gaps_ms))
        cycle(gaps_ms)
    after, elapsed = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        json.dumps(
            {
                "took_ms": took_ms,
                "rate": count / elapsed,
                "cpu_us": 1e6 * spent / count,
                "switches": (after.ru_nvcsw - before.ru_nvcsw) / count,
            }
        )
    )


if __name__ == "__main__":
    main()
