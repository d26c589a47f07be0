"""The loads of one process for bench_run.py: ``python _loads.py c|ours|ez MODEL LIBRARY [LOOP]``.

Prints a line of JSON: milliseconds of CPU time of each load. All of them stay loaded. LOOP is
run_baseline.c, compiled.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np  # noqa: F401  (in all three: it is no part of a load)

LOADS = 6


def in_c(model: str, library: str, loop: str) -> Callable[[], Any]:
    native = ctypes.CDLL(loop)

    def load() -> None:  # the file's bytes are not kept
        data = Path(model).read_bytes()
        assert native.bench_open(library.encode(), data, len(data)) == 0

    return load


def ours(model: str, library: str) -> Callable[[], Any]:
    from rknn_runtime import Model

    return lambda: Model(model, library=library)


def ez(model: str, _library: str) -> Callable[[], Any]:
    import ztu_somemodelruntime_ez_rknn_async as ez

    options = {"layout": "nhwc", "threads_per_core": 1, "schedule": [0]}
    return lambda: ez.InferenceSession(model, provider_options=[options])


def main() -> None:
    who, *arguments = sys.argv[1:]
    load = {"c": in_c, "ours": ours, "ez": ez}[who](*arguments)
    times_ms, kept = [], []
    for _ in range(LOADS):
        begin = time.process_time()
        kept.append(load())
        times_ms.append(1000 * (time.process_time() - begin))
    print(json.dumps(times_ms), flush=True)
    os._exit(0)  # what it takes to close them is no part either


if __name__ == "__main__":
    main()
