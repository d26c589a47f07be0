"""Measure a model on this board, phase by phase.

    python benchmark.py MODEL [--library sim] [--runs 200] [--warm-up 20] [--json result.json]

Input copy: a frame into NPU memory. Run: rknn_run with the cache syncs around it. Sync: those
syncs alone, measured in addition. Decode: all outputs to float32 in logical layout. A frame is
copy, run and decode. On the simulated NPU every line says so: its times tell nothing of a board.
Ctrl-C ends it early, with the figures of the runs that were made.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from rknn_runtime import Model
from rknn_runtime.examples._program import run

PHASES = ("input copy", "sync", "run", "decode")


def measure(model: Model, warm_up: int, runs: int, prefix: str) -> tuple[np.ndarray, int]:
    """Return the milliseconds of each phase, shape (runs made, 4), and kB of memory they took."""
    views = [model.input_view(i) for i in range(len(model.inputs))]
    frames = [np.ones_like(view) for view in views]  # the values make no difference
    outputs = [np.empty(attr.shape, np.float32) for attr in model.outputs]
    inputs = [model.input_memory(i) for i in range(len(views))]
    results = [model.output_memory(i) for i in range(len(outputs))]
    seconds = np.empty((runs, len(PHASES) + 1))
    print(f"{prefix}warming up, {warm_up} runs", file=sys.stderr, flush=True)
    done = before = 0
    try:
        for number in range(-warm_up, runs):
            if number == 0:
                before = resident_kb()
            clock = [time.perf_counter()]
            for view, frame in zip(views, frames):
                np.copyto(view, frame)
            clock.append(time.perf_counter())
            for memory in inputs:
                memory.sync_to_device()
            for memory in results:
                memory.sync_from_device()
            clock.append(time.perf_counter())
            model.run()
            clock.append(time.perf_counter())
            for i, out in enumerate(outputs):
                model.output_f32(i, out)
            clock.append(time.perf_counter())
            seconds[max(number, 0)] = clock
            done = max(number + 1, 0)
            if done and (done % 20 == 0 or done == runs):
                print(f"{prefix}run {done} of {runs}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        if not done:
            raise
        print(f"{prefix}stopped after {done} runs", file=sys.stderr)
    return np.diff(seconds[:done]) * 1e3, resident_kb() - before


def resident_kb() -> int:
    """Return the memory that this process holds."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the numbers here, too")
    args = parser.parse_args()
    if args.runs < 1 or args.warm_up < 0:
        parser.error(f"expected --runs > 0 and --warm-up >= 0, got {args.runs} and {args.warm_up}")

    with Model(args.model, library=args.library) as model:
        prefix = "simulated NPU | " if model.library.is_simulated else ""
        ms, growth = measure(model, args.warm_up, args.runs, prefix)
        about = {"simulated": model.library.is_simulated, "model": args.model, "runs": len(ms)}
        about.update(library=model.library.path, runtime=model.sdk_version.api)
    columns = dict(zip(PHASES, ms.T))
    columns["frame"] = ms[:, 0] + ms[:, 2] + ms[:, 3]
    table = {
        name: dict(zip(("p50", "p90", "p99", "max"), np.percentile(column, (50, 90, 99, 100))))
        for name, column in columns.items()
    }
    fps = 1e3 / table["frame"]["p50"]
    print(f"{prefix}{args.model}, runtime {about['runtime']}, {len(ms)} runs, milliseconds")
    print(f"{prefix}{'phase':<12}" + "".join(f"{name:>10}" for name in table["frame"]))
    for name, row in table.items():
        print(f"{prefix}{name:<12}" + "".join(f"{value:10.3f}" for value in row.values()))
    print(f"{prefix}{fps:.1f} frames a second; {resident_kb()} kB resident, {growth} since warm")
    if args.json:
        about.update(ms=table, fps=fps, resident_kb=resident_kb(), growth_kb=growth)
        args.json.write_text(json.dumps(about) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
