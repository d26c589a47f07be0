"""Measure how long each phase of a frame takes on this board.

    python benchmark.py MODEL [--library sim] [--runs 200] [--warm-up 20] [--json report.json]

`rknn-runtime bench` does the same and more: several cores and contexts, pages, comparisons.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rknn_runtime.examples._program import run
from rknn_runtime.tools.bench import Settings, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help=".rknn file")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    result = measure(args.model, Settings(args.warm_up, args.runs), library=args.library)
    print(result)
    if args.json:
        args.json.write_text(result.to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
