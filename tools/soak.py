"""Use every flow of the API for so long that a leak shows.

    python tools/soak.py [--runs 200000] [--loads 5000] [--flow NAME ...]

Each row of `tests/flows.py` has its own process: it is loaded, run and closed so many times, and
then one of it runs so many frames. The first half of each warms up Python's caches and the
allocator; then memory, descriptors and threads are counted at the end of each fifth of the second
half.

Memory is counted three times: the pages that the kernel counts, the bytes that `malloc` has given
and not got back, and the blocks that Python's own allocator has. A leak shows in one of the last
two; pages alone are the allocator's, as holes between blocks. Prints a table; exits with 1 where
something grew.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "tests"))

from flows import FLOWS, opened  # noqa: E402

from rknn_runtime.sim import Control, Live  # noqa: E402


class Usage(NamedTuple):
    """The resources of a process."""

    page_kilobytes: int
    malloc_bytes: int
    python_blocks: int
    descriptors: int
    threads: int


#: The second half is looked at in so many parts: a leak grows in all of them, what is done once,
#: however late, in one.
PARTS = 5
#: What a part may grow by, as the median of them: 16 kB of holes between blocks; of what is in use
#: less than the smallest block in every tenth of 500 loads.
MOST = Usage(16, 800, 50, 0, 0)
#: Whose loads make sessions of onnxruntime 1.31.1, which by itself keeps some 75 bytes of each, and
#: 400 kB more or less at any time: of these only what is Python's and the system's counts.
SESSIONS = ("custom operators of an ONNX file",)


class _Mallinfo2(ctypes.Structure):
    """What glibc's `mallinfo2` returns, of all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")
    ] + [(name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")]


_libc = ctypes.CDLL(None)
_libc.mallinfo2.restype = _Mallinfo2


def usage() -> Usage:
    """Ask kernel and allocators, after everything was collected that can be."""
    gc.collect()
    _libc.malloc_trim(0)  # pages that malloc keeps for later are nobody's
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    anonymous = sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    heap = _libc.mallinfo2()
    given = heap.uordblks + heap.hblkhd
    blocks = sys.getallocatedblocks()
    return Usage(anonymous, given, blocks, descriptors, int(fields["Threads"]))


def repeat(work: Callable[[], object], count: int) -> tuple[list[Usage], float]:
    """Do something so often; return the usage around the parts of the second half, and seconds."""
    start = time.perf_counter()
    for _ in range(count // 2):
        work()
    found = [usage()]
    for _ in range(PARTS):
        for _ in range(count // 2 // PARTS):
            work()
        found.append(usage())
    return found, time.perf_counter() - start


def growth(found: list[Usage], limits: Usage) -> tuple[Usage, bool]:
    """By how much it grew from first to last, and whether it did so in most of the parts."""
    total = Usage(*(last - first for first, last in zip(found[0], found[-1])))
    parts = [[b - a for a, b in zip(one, other)] for one, other in zip(found, found[1:])]
    is_fine = all(median(part) <= most for part, most in zip(zip(*parts), limits))
    return total, is_fine and (total.descriptors, total.threads) == (0, 0)


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
        found, seconds = repeat(work, count)
        if made is not None:
            made.close()
        limits = MOST
        if made is None and name in SESSIONS:
            limits = MOST._replace(page_kilobytes=sys.maxsize, malloc_bytes=sys.maxsize)
        grown, is_fine = growth(found, limits)
        fine = fine and is_fine
        parts.append(
            f"{count:6d} {seconds:5.0f} s {grown.page_kilobytes:+5d} kB "
            f"{grown.malloc_bytes:+6d} {grown.python_blocks:+5d} "
            f"{grown.descriptors:+d} {grown.threads:+d}"
        )
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
    part = "count, time; growth of pages, malloc's bytes, Python's blocks, descriptors, threads"
    print(f"{'flow':34} | loads: {part} | frames: the same |", flush=True)
    failed = 0
    for name in options.flow or FLOWS:
        command = [sys.executable, __file__, "--flow", name]
        command += ["--runs", str(options.runs), "--loads", str(options.loads)]
        failed += subprocess.run(command).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
