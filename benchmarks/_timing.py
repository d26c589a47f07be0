"""Interleaved timing of functions that do the same work, and the table of the result."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from rknn_runtime._ffi import lib

HERE = Path(__file__).resolve().parent
# The tests' references and models, for benchmarks that import this first.
sys.path.append(str(HERE.parent / "tests"))
try:
    import cv2

    cv2.setNumThreads(1)
except ImportError:
    cv2 = None

LEVELS = {
    lib.RKR_CPU_PLAIN: "plain C",
    lib.RKR_CPU_VECTOR: "AVX2" if platform.machine() == "x86_64" else "NEON",
}
#: Timed calls in a row, after calls that bring the case's data back into the caches.
BURST = 25
WARM_UP = 5


class Case(NamedTuple):
    """One function of a comparison."""

    name: str
    function: Callable[[], object]
    #: Variant of the kernels to run with.
    level: int = lib.rkr_cpu_best()


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of calls (default 20)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def measure(cases: list[Case], rounds: int) -> list[tuple[float, float]]:
    """Return p50 and p90 in microseconds of each case.

    Every round runs all cases one after another, so that a disturbance from outside strikes all of
    them.
    """
    times: list[list[int]] = [[] for _ in cases]
    for _ in range(rounds):
        for case, taken in zip(cases, times):
            lib.rkr_cpu_select(case.level)
            for _ in range(WARM_UP):
                case.function()
            for _ in range(BURST):
                begin = time.perf_counter_ns()
                case.function()
                taken.append(time.perf_counter_ns() - begin)
    lib.rkr_cpu_select(lib.rkr_cpu_best())
    return [tuple(np.percentile(taken, [50, 90]) / 1000) for taken in times]


def in_turns(
    loop: Callable[[int, int], int], function: Callable[[Any], object], argument: object,
    rounds: int, calls: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return nanoseconds of each call of a C loop and of a function, after a round to warm up.

    `loop` takes the number of calls and the address of an array to write their times to.
    """
    in_c, in_python = (np.empty((rounds, calls), np.int64) for _ in range(2))
    clock = time.perf_counter_ns
    for row_c, row in zip(in_c, in_python):
        for call in range(calls):
            begin = clock()
            function(argument)
            row[call] = clock() - begin
        status = loop(calls, row_c.ctypes.data)
        assert status == 0, status
    return in_c[1:].ravel(), in_python[1:].ravel()


class Report:
    """Collect comparisons; print each as a table, or all as JSON."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.records: list[dict[str, object]] = []
        if not options.json:
            print(f"Python {platform.python_version()}, NumPy {np.__version__}, ", end="")
            print(f"{platform.machine()}, best variant: {LEVELS[lib.rkr_cpu_best()]}")

    def compare(
        self,
        title: str,
        n_bytes: int,
        cases: list[Case],
        baselines: list[str],
        direction: str = "out",
    ) -> None:
        """Time the cases; each writes (or reads) `n_bytes`, ratios are to each baseline."""
        results = measure(cases, self.options.rounds)
        medians = {case.name: p50 for case, (p50, _) in zip(cases, results)}
        if not self.options.json:
            print(f"\n{title}, {n_bytes / 1e6:.2f} MB {direction}")
            ratios = "".join(f"{'x ' + name:>12}" for name in baselines)
            print(f"  {'':28}{'p50 us':>10}{'p90 us':>10}{'GB/s':>8}{ratios}")
        for case, (p50, p90) in zip(cases, results):
            ratio = {name: p50 / medians[name] for name in baselines}
            self.records.append(
                {
                    "case": title,
                    "function": case.name,
                    "p50_us": p50,
                    "p90_us": p90,
                    "bytes_per_s": n_bytes / p50 * 1e6,
                    "ratio_to": ratio,
                }
            )
            if not self.options.json:
                columns = "".join(f"{value:12.2f}" for value in ratio.values())
                rate = n_bytes / p50 / 1000
                print(f"  {case.name:28}{p50:10.1f}{p90:10.1f}{rate:8.1f}{columns}")

    def finish(self) -> None:
        if self.options.json:
            print(json.dumps(self.records, indent=1))


def compiled(source: str, folder: str | Path, number: int = 0) -> str:
    """Compile a baseline in C, and return its library."""
    target = str(Path(folder, f"{source}{number}.so"))
    flags = ["-std=gnu11", "-O3", "-ffp-contract=off", "-shared", "-fPIC", f"-I{HERE.parent}/csrc"]
    command = [os.environ.get("CC", "cc"), *flags, HERE / source, "-o", target, "-lm", "-ldl"]
    subprocess.run(command, check=True)
    return target


def levels() -> list[int]:
    """Return the variants that this CPU has, the best one first."""
    return list(range(lib.rkr_cpu_best(), lib.RKR_CPU_PLAIN - 1, -1))


def check(actual: np.ndarray, expected: np.ndarray) -> None:
    """Stop unless the results are equal, bit by bit."""
    if actual.dtype != expected.dtype or actual.tobytes() != expected.tobytes():
        raise SystemExit("the results differ: not timed")
