"""A pool's throughput, latency and memory, against hand-written loops.

On the simulated NPU, whose cores take one run at a time, each as long as planted: scheduling and
Python's share are measured. One run takes the same model and frames through:

* `Pool`, one, two and three cores, run times of 5, 12 and 30 ms, as a share of the cores' capacity;
* a ``ThreadPoolExecutor`` over models that were each loaded, as people write it;
* a queue of futures over models in turn, whose oldest future is waited for before the next frame;
* frames that arrive in bursts, from a camera and at 50, 80 and 95 % of the cores' capacity, and
  `Pool.map`, against ez-rknn-async if it is installed, two threads a core: milliseconds from
  arrival to result, CPU time and voluntary context switches;
* a second model on the crops of the first (``map(then=)``), as a share of the cores' capacity,
  against frames one after another whose crops are submitted together;
* where the time of a pool's frame goes, phase by phase;
* how late an event loop wakes while it awaits frames, against one that sleeps instead, in all and
  without the time for which the loop's thread was ready and Linux gave it no CPU;
* the latency of a frame at low load, against the bare `Detector`;
* many frames: in order, every one once, and how much memory grows.

Below its capacity an ideal pool's p50 and p99 equal the run time, for evenly spaced frames and for
these bursts; the excess is the time to wake threads and to get the CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import json
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
#: Milliseconds of a run, cores, milliseconds between arrivals; "map": as fast as results come.
BURSTS = [(20, 2, "3,77"), (20, 3, "3,3,77"), (40, 3, "33.33")]
LOADS = [
    (run_ms, cores, f"{run_ms / cores / load:.3f}")
    for run_ms in (2, 5, 20, 40)
    for cores in (1, 2, 3)
    for load in (0.5, 0.8, 0.95)
]
MAPS = [(run_ms, cores, "map") for run_ms in (2, 8, 20) for cores in (1, 2, 3)]


def arrivals(data: bytes, rounds: int, seconds: float) -> None:
    """Frames that arrive at set times, and `Pool.map`, against ez-rknn-async, in turns."""
    who = ["pool", "ez"]
    if importlib.util.find_spec(EZ) is None:
        print(f"({EZ} is not installed: pip install {EZ.replace('_', '-')})")
        who = ["pool"]
    print("\nmilliseconds from arrival to result; late: by more than a tenth of a run + 2 ms")
    print(f"  {'':22}{'p50':>10}{'p99':>8}{'late':>8}{'CPU us':>8}{'switches':>10}{'rate':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.rknn").write_bytes(data)
        subprocess.run([sys.executable, "-m", "rknn_runtime", "sim-library", name], check=True)
        for run_ms, cores, pattern in BURSTS + LOADS + MAPS:
            cells: dict[str, list[dict[str, Any]]] = {each: [] for each in who}
            for _ in range(rounds):
                for each in who:
                    cells[each].append(cell(folder, each, run_ms, cores, pattern, seconds))
            for each, found in cells.items():
                took = np.concatenate([one["took_ms"] for one in found])
                title = f"{run_ms} ms, {cores} cores, {pattern}"
                shown = f"{'':26}"
                if len(took):
                    p50, p99 = np.percentile(took, (50, 99))
                    shown = f"{p50:10.2f}{p99:8.2f}{np.mean(took > 1.1 * run_ms + 2):8.1%}"
                cpu, switches, rate = (
                    float(np.median([one[key] for one in found]))
                    for key in ("cpu_us", "switches", "rate")
                )
                print(f"  {each:5}{title:22}{shown}{cpu:8.0f}{switches:10.2f}{rate:9.1f}")


def cell(
    folder: Path, who: str, run_ms: int, cores: int, pattern: str, seconds: float
) -> dict[str, Any]:
    """Measure one in a separate process: ez finds the vendor's library as the loader does."""
    program = Path(__file__).with_name("_arrivals.py")
    arguments = [folder / "model.rknn", run_ms, cores, pattern, seconds]
    done = subprocess.run(
        [sys.executable, program, who, *map(str, arguments)],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(folder),
            "RKNN_SIM_LATENCY_US": str(1000 * run_ms),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


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


def cascade(data: bytes, control: Control) -> None:
    """Two pools on the same cores."""
    print(f"\na second model on crops, run time 5 ms\n  {'':21}{'map(then=)':>12}{'by hand':>10}")
    part = frames(1)[0]
    for cores, crops in ((3, 1), (3, 4), (2, 4), (1, 4)):
        images = frames(round(SECONDS * 200 * cores / (1 + crops)))
        ideal_s = len(images) * (1 + crops) * 0.005 / cores
        masks = CORES[:cores] * 2
        with (
            Pool(data, library="sim", core_masks=masks) as first,
            Pool(data, library="sim", core_masks=masks) as second,
        ):
            control.set_latency(5000)
            begin = time.perf_counter()
            cut = [part] * crops
            results = first.map(images, then=second, crop=lambda *_, cut=cut: cut)
            for image, (given, (_, parts)) in zip(images, results):
                assert given is image and len(parts) == crops
            joined_s = time.perf_counter() - begin
            begin = time.perf_counter()
            for image in images:
                first.submit(image).result()
                for job in [second.submit(part) for part in cut]:
                    job.result()
            by_hand_s = time.perf_counter() - begin
        shares = f"{ideal_s / joined_s:12.1%}{ideal_s / by_hand_s:10.1%}"
        print(f"  {cores} cores, {crops} crops each{shares}")


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
    print("\nlatency at low load, run time 5 ms")
    for name, seconds in times.items():
        p50, p99 = 1000 * np.percentile(seconds, (50, 99))
        print(f"  {name:10} p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    extra = 1000 * (np.median(times["Pool"]) - np.median(times["Detector"]))
    print(f"  a pool adds {extra:.3f} ms")


async def lateness(pool: Pool | None) -> np.ndarray:
    """Milliseconds that a task wakes late while six others await: in all, and without queueing."""
    image, late, is_over = frames(1)[0], [], False

    async def tick() -> None:
        path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        with path.open("rb") as file:

            def queued_ms() -> float:
                file.seek(0)
                return int(file.read().split()[1]) / 1e6

            while not is_over:
                queued, begin = queued_ms(), time.perf_counter()
                await asyncio.sleep(0.001)
                more = 1000 * (time.perf_counter() - begin) - 1
                late.append((more, more - queued_ms() + queued))

    async def ask() -> None:
        for _ in range(200):
            await (asyncio.sleep(0.005) if pool is None else pool.detect(image))

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(ask() for _ in range(6)))
    is_over = True
    await ticking
    return np.array(late)


def event_loop(data: bytes, control: Control) -> None:
    control.set_latency(5000)
    print("\nmilliseconds that an event loop wakes late, run time 5 ms on 3 cores, 6 tasks")
    print(f"  {'':16}{'p50':>8}{'p99':>8}{'most':>8}{'without queueing p99':>24}{'most':>8}")
    with Pool(data, library="sim", core_masks=CORES * 2) as pool:
        for name, given in (("asyncio.sleep", None), ("pool.detect", pool)):
            total, own = asyncio.run(lateness(given)).T
            p50, p99 = np.percentile(total, (50, 99))
            print(f"  {name:16}{p50:8.2f}{p99:8.2f}{total.max():8.2f}", end="")
            print(f"{np.percentile(own, 99):24.2f}{own.max():8.2f}")


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
    parser.add_argument("--rounds", type=int, default=3, help="of each arrival cell (default 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round (default 2)")
    options = parser.parse_args()
    data, control = one_object(), Control()
    throughput(data, control)
    arrivals(data, options.rounds, options.seconds)
    cascade(data, control)
    phases(data, control)
    latency(data, control)
    event_loop(data, control)
    control.set_latency(0)
    soak(data, options.frames)


if __name__ == "__main__":
    main()
