"""Use every flow of the API for so long that a leak shows.

    python tools/soak.py [--runs 200000] [--loads 5000] [--flow NAME ...]

A row of `tests/flows.py` after the other, each in a process of its own: it is loaded, run and
closed so many times, and then one of it runs so many frames. What memory, descriptors and threads
there are is compared with what there was after a fifth of each. Prints a table; exits with 1 where
something grew.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests"))

from flows import FLOWS, opened  # noqa: E402

from rknn_runtime.sim import Control, Live  # noqa: E402

#: An allocator's slack, not a leak of a byte a frame.
MOST_KILOBYTES = 64


class Usage(NamedTuple):
    """What a process has."""

    kilobytes: int
    descriptors: int
    threads: int


def usage() -> Usage:
    """Ask the kernel, after everything was collected that can be."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    anonymous = sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    return Usage(anonymous, descriptors, threading.active_count())


def repeat(work: Callable[[], object], count: int) -> tuple[Usage, Usage, float]:
    """Do something so often; return the usage after a fifth and at the end, and the seconds."""
    start = time.perf_counter()
    for _ in range(count // 5):
        work()
    before = usage()
    for _ in range(count - count // 5):
        work()
    return before, usage(), time.perf_counter() - start


def load(name: str) -> None:
    """Open a flow, run a frame, close it."""
    made = opened(name)
    made.run()
    made.close()


def soak(name: str, runs: int, loads: int) -> bool:
    """Do both for a flow and print its row; return whether nothing grew."""
    control = Control()
    control.reset()
    parts = []
    fine = True
    for count, work in ((loads, lambda: load(name)), (runs, None)):
        made = None
        if work is None:
            made = opened(name)
            work = made.run
        before, after, seconds = repeat(work, count)
        if made is not None:
            made.close()
        grown = after.kilobytes - before.kilobytes
        others = after.descriptors - before.descriptors, after.threads - before.threads
        fine = fine and grown <= MOST_KILOBYTES and others == (0, 0)
        parts.append(f"{count:7d} {seconds:6.0f} s {grown:+5d} kB {others[0]:+3d} {others[1]:+3d}")
    gc.collect()
    fine = fine and control.live == Live(0, 0, 0) and control.violations == 0
    print(f"{name:34} | {' | '.join(parts)} | {'fine' if fine else 'GROWN'}", flush=True)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200_000, help="frames (default 200000)")
    parser.add_argument("--loads", type=int, default=5_000, help="loads (default 5000)")
    parser.add_argument("--flow", action="append", choices=list(FLOWS), help="one of them only")
    options = parser.parse_args()
    if options.flow is not None and len(options.flow) == 1:
        return 0 if soak(options.flow[0], options.runs, options.loads) else 1
    part = "count, time, memory, descriptors, threads"
    print(f"{'flow':34} | loads: {part} | frames: the same |", flush=True)
    failed = 0
    for name in options.flow or FLOWS:
        command = [sys.executable, __file__, "--flow", name]
        command += ["--runs", str(options.runs), "--loads", str(options.loads)]
        failed += subprocess.run(command).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
