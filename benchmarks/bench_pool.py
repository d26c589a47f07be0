"""A pool's throughput, latency and memory, beside what people write by hand.

On the simulated NPU, whose cores take one run at a time, each as long as planted: what is measured
is scheduling and Python's share. In one run, on the same model and frames:

* `Pool`, one, two and three cores, run times of 5, 12 and 30 ms, as a share of what the cores can;
* a ``ThreadPoolExecutor`` over models that were each loaded anew, as people write it;
* a queue of futures over models in turn, whose oldest future is waited for before the next frame;
* the pipeline of ez-rknn-async where that is installed, two threads a core; it decodes nothing;
* where the time of a pool's frame goes, phase by phase;
* the latency of a frame at low load, beside the bare `Detector`;
* many frames: in order, every one once, and how much memory grows.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _models import one_object

from rknn_runtime import CoreMask, Detector, Model
from rknn_runtime.sim.control import Control
from rknn_runtime.streams import Pool

CORES = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
RUN_MS = (5, 12, 30)
#: Seconds of each measurement of throughput, for which models are loaded before.
SECONDS = 2.0
Scheme = Callable[[list[np.ndarray]], Any]


def frames(count: int) -> list[np.ndarray]:
    return [np.zeros((64, 64, 3), np.uint8) for _ in range(count)]


@contextmanager
def with_pool(data: bytes, cores: int) -> Iterator[Scheme]:
    def run(images: list[np.ndarray]) -> None:
        for _, found in pool.map(images):
            assert len(found) == 1

    with Pool(data, library="sim", core_masks=CORES[:cores] * 2) as pool:
        yield run


@contextmanager
def each_loaded(data: bytes, cores: int) -> Iterator[list[Detector]]:
    with ExitStack() as stack:
        yield [
            Detector(stack.enter_context(Model(data, library="sim", core_mask=mask)))
            for mask in CORES[:cores]
        ]


@contextmanager
def with_executor(data: bytes, cores: int) -> Iterator[Scheme]:
    def work(image: np.ndarray) -> None:
        detector = free.popleft()
        assert len(detector(image)) == 1
        free.append(detector)

    with each_loaded(data, cores) as detectors, ThreadPoolExecutor(cores) as executor:
        free = deque(detectors)
        yield lambda images: list(executor.map(work, images))


@contextmanager
def with_futures_in_turn(data: bytes, cores: int) -> Iterator[Scheme]:
    def run(images: list[np.ndarray]) -> None:
        waiting = deque()
        for i, image in enumerate(images):
            if len(waiting) == cores:
                assert len(waiting.popleft().result()) == 1
            waiting.append(executor.submit(detectors[i % cores], image))
        for future in waiting:
            future.result()

    with each_loaded(data, cores) as detectors, ThreadPoolExecutor(cores) as executor:
        yield run


EZ = "ztu_somemodelruntime_ez_rknn_async"
#: It finds the vendor's library as the loader does, so it has a process of its own.
EZ_PROGRAM = f"""
import sys, time
import numpy as np
import {EZ} as ez

model, cores, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = {{"layout": "nhwc", "threads_per_core": 2, "schedule": list(range(cores))}}
session = ez.InferenceSession(model, provider_options=[options])
(given,), image = session.get_inputs(), np.zeros((1, 64, 64, 3), np.uint8)
depth, done = 4 * cores, 0
for _ in range(depth):
    session.run_pipeline({{given.name: image}}, depth=depth)
begin = time.perf_counter()
for _ in range(count):
    done += session.run_pipeline({{given.name: image}}, depth=depth) is not None
print(done / (time.perf_counter() - begin))
"""


def rate_of_ez(folder: Path, run_ms: int, cores: int) -> float:
    """Frames per second of ez-rknn-async, on the same library and model."""
    count = round(SECONDS * 1000 / run_ms * cores)
    done = subprocess.run(
        [sys.executable, "-c", EZ_PROGRAM, str(folder / "model.rknn"), str(cores), str(count)],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "RKNN_SIM_LATENCY_US": str(1000 * run_ms),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.splitlines()[-1])


def with_ez(data: bytes) -> None:
    """The same table for ez-rknn-async."""
    if importlib.util.find_spec(EZ) is None:
        print(f"  ({EZ} is not installed: pip install {EZ.replace('_', '-')})")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.rknn").write_bytes(data)
        subprocess.run([sys.executable, "-m", "rknn_runtime", "sim-library", name], check=True)
        print("  ez-rknn-async's pipeline")
        for run_ms in RUN_MS:
            for cores in (1, 2, 3):
                rate = rate_of_ez(folder, run_ms, cores)
                print(f"  {run_ms:3} ms {cores:5}{rate:16.1f} {rate * run_ms / 1000 / cores:7.1%}")


def throughput(data: bytes, control: Control) -> None:
    schemes = {
        "Pool": with_pool,
        "executor": with_executor,
        "futures in turn": with_futures_in_turn,
    }
    print(f"frames per second, and the share of what the cores can ({os.cpu_count()} CPUs)")
    print(f"  {'run':>6} {'cores':>5}" + "".join(f"{name:>24}" for name in schemes))
    for run_ms in RUN_MS:
        for cores in (1, 2, 3):
            cells = []
            for scheme in schemes.values():
                images = frames(round(SECONDS * 1000 / run_ms * cores))
                control.set_latency(run_ms * 1000)
                with scheme(data, cores) as run:
                    begin = time.perf_counter()
                    run(images)
                    rate = len(images) / (time.perf_counter() - begin)
                cells.append(f"{rate:15.1f} {rate * run_ms / 1000 / cores:7.1%}")
            print(f"  {run_ms:3} ms {cores:5}" + "".join(f"{cell:>24}" for cell in cells))
    control.set_latency(0)


def phases(data: bytes, control: Control) -> None:
    """Where the time of a frame goes, as the pool itself says."""
    control.set_latency(5000)
    with Pool(data, library="sim", core_masks=CORES * 2) as pool:
        used = time.process_time()
        images = frames(1200)
        for _ in pool.map(images):
            pass
        used = time.process_time() - used
        each_us = 1e6 * used / len(images)
        print(f"\n5 ms on 3 cores, {each_us:.0f} us of CPU time a frame\n{pool.stats()}")
    control.set_latency(0)


def latency(data: bytes, control: Control) -> None:
    """One frame at a time, with pauses."""
    control.set_latency(5000)
    image = frames(1)[0]
    times: dict[str, list[float]] = {"Detector": [], "Pool": []}
    with Model(data, library="sim") as model, Pool(data, library="sim") as pool:
        detector = Detector(model)

        def source():
            for _ in range(300):
                time.sleep(0.002)
                begin = time.perf_counter()
                detector(image)
                times["Detector"].append(time.perf_counter() - begin)
                time.sleep(0.002)
                sent.append(time.perf_counter())
                taken.clear()
                yield image.copy()
                taken.wait()

        sent: list[float] = []
        taken = threading.Event()
        for _ in pool.map(source()):
            times["Pool"].append(time.perf_counter() - sent[-1])
            taken.set()
    control.set_latency(0)
    print("\nlatency at low load, run time 5 ms")
    for name, seconds in times.items():
        p50, p99 = 1000 * np.percentile(seconds, (50, 99))
        print(f"  {name:10} p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    extra = 1000 * (np.median(times["Pool"]) - np.median(times["Detector"]))
    print(f"  a pool adds {extra:.3f} ms")


def resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGESIZE") // 1024


def soak(data: bytes, count: int) -> None:
    threads = threading.active_count()
    numbers = (np.full((8, 8, 3), n % 251, np.uint8) for n in range(count))
    with Pool(data, library="sim") as pool:
        begin = time.perf_counter()
        n, grown = 0, 0
        for image, found in pool.map(numbers):
            if image[0, 0, 0] != n % 251 or len(found) != 1:
                sys.exit(f"frame {n} is out of order")
            n += 1
            if n == count // 10:
                gc.collect()
                grown = -resident_kb()
        took = time.perf_counter() - begin
    gc.collect()
    grown += resident_kb()
    print(f"\n{n} frames in order in {took:.0f} s ({1e6 * took / n:.0f} us a frame), ", end="")
    print(f"{grown} kB more than after a tenth of them, ", end="")
    print(f"{threading.active_count() - threads} threads left")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20_000, help="of the soak (default 20000)")
    options = parser.parse_args()
    data, control = one_object(), Control()
    throughput(data, control)
    with_ez(data)
    phases(data, control)
    latency(data, control)
    soak(data, options.frames)


if __name__ == "__main__":
    main()
