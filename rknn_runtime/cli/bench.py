"""Measure how fast a model runs here.

Measures each phase of a frame; with --sweep with every core mask and number of
contexts, too. `bench compare A B` sets two measurements beside each other,
`bench suite` measures many models.

Examples:
  rknn-runtime bench yolov8n.rknn
  rknn-runtime bench yolov8n.rknn --seconds 60 --sweep --html report.html
  rknn-runtime bench yolov8n.rknn --layers
  rknn-runtime bench compare before.json after.json
  rknn-runtime bench suite models/ --output board.json --markdown
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rknn_runtime._files import read_file
from rknn_runtime.cli.options import (
    add_library,
    add_switch,
    end_progress,
    refusals,
    show_progress,
    shows_progress,
)
from rknn_runtime.errors import RknnError

if TYPE_CHECKING:
    from rknn_runtime.bench import Result

__all__ = ["add_arguments", "run"]

#: Of a measurement in a file.
_MOST_JSON_BYTES = 1 << 24


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="MODEL",
        help="a .rknn file; or `compare A.json B.json`; or `suite` and models, or folders of them",
    )
    add_library(parser)
    parser.add_argument("--frames", type=int, metavar="N", help="that count (200)")
    parser.add_argument("--seconds", type=float, metavar="T", help="of each choice, instead")
    parser.add_argument("--warm-up", type=int, default=20, metavar="N", help="frames before (20)")
    add_switch(parser, "--sweep", "also several cores and contexts")
    add_switch(parser, "--layers", "the time of each layer (librknnrt)")
    forms = parser.add_mutually_exclusive_group()
    add_switch(forms, "--json", "print JSON, as `compare` reads it")
    add_switch(forms, "--markdown", "print tables to paste")
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the JSON there")
    parser.add_argument("--html", metavar="FILE", help="also write a page with drawings")
    parser.add_argument("--plot", metavar="FILE", help="also draw it, as .png or .svg (matplotlib)")
    add_switch(parser, "--quiet", "show no progress")


def run(arguments: Namespace) -> int:
    """Measure one model or several, or compare two measurements.

    Returns:
        0; 1 when a model of a suite failed.

    Raises:
        OSError: A file cannot be read or written.
        RknnError: A model cannot be loaded or run, or an argument makes no sense.
    """
    with refusals():
        first, *rest = arguments.words
        if first == "compare" and not Path(first).exists():
            return _compare(rest, arguments.json)
        if first == "suite" and not Path(first).exists():
            return _suite(arguments, rest)
        if rest:
            raise ValueError(f"expected one model, or `suite`, got {len(arguments.words)} words")
        if arguments.layers:
            return _layers(arguments, first)
        _show(arguments, _measured(arguments, first))
    return 0


def _measured(arguments: Namespace, model: str) -> Result:
    from rknn_runtime.bench import Settings, measure

    frames = arguments.frames
    if frames is None and arguments.seconds is None:
        frames = 200
    settings = Settings(arguments.warm_up, frames, arguments.seconds, arguments.sweep)
    shows = shows_progress(arguments)
    result = measure(
        model, settings, library=arguments.library, progress=_progress if shows else None
    )
    end_progress(shows)
    return result


def _progress(name: str, done: int) -> None:
    if done % 20 == 0:
        show_progress(f"{name}: {done} frames")


def _show(arguments: Namespace, result: Result) -> None:
    if arguments.output:
        Path(arguments.output).write_text(result.to_json() + "\n", encoding="utf-8")
    if arguments.html:
        from rknn_runtime.bench.page import to_html

        Path(arguments.html).write_text(to_html(result), encoding="utf-8")
    if arguments.plot:
        from rknn_runtime.bench.page import plot

        plot(result, arguments.plot)
    if arguments.json:
        print(result.to_json())
    elif arguments.markdown:
        print(result.to_markdown(), end="")
    else:
        print(result)


def _compare(paths: list[str], as_json: bool) -> int:
    from rknn_runtime.bench import compare
    from rknn_runtime.bench.result import load

    if len(paths) != 2:
        raise ValueError(f"compare: expected two files of JSON, got {len(paths)}")
    results = []
    for path in paths:
        try:
            results.append(load(read_file(path, _MOST_JSON_BYTES).decode("utf-8")))
        except (UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None
    ratios = compare(*results)
    if as_json:
        print(json.dumps([{**ratio._asdict(), "verdict": ratio.verdict} for ratio in ratios]))
        return 0
    print(f"{paths[1]} takes so much of {paths[0]}'s time (medians, and 95 % of what they may be)")
    for ratio in ratios:
        print(
            f"{results[0].mark}{ratio.name:<22} {ratio.phase:<12} {ratio.ratio:6.3f}  "
            f"{ratio.low:.3f} to {ratio.high:.3f}  {ratio.verdict}"
        )
    return 0


def _layers(arguments: Namespace, path: str) -> int:
    import numpy as np

    from rknn_runtime.enums import InitFlag
    from rknn_runtime.npu.model import Model

    flags = InitFlag.PRIOR_HIGH | InitFlag.COLLECT_PERF
    with Model(path, library=arguments.library, flags=flags) as model:
        for i in range(len(model.inputs)):
            np.copyto(model.input_view(i), 1)
        model.run()
        performance = model.perf_detail()
        mark = "simulated NPU | " if model.library.is_simulated else ""
    if arguments.json:
        print(json.dumps([layer._asdict() for layer in performance.layers]))
        return 0
    print(f"{mark}{'#':>4} {'operator':<24} {'runs on':<8} {'us':>10} {'kB':>10}  name")
    for layer in performance.layers:
        moved = "" if layer.read_write_kb is None else f"{layer.read_write_kb:.1f}"
        print(
            f"{mark}{layer.number:>4} {layer.op_type:<24} {layer.target:<8} {layer.time_us:10.0f} "
            f"{moved:>10}  {layer.name}"
        )
    if performance.on_cpu:
        names = ", ".join(layer.op_type for layer in performance.on_cpu)
        print(f"{mark}{len(performance.on_cpu)} on the CPU: {names}")
    return 0


def _suite(arguments: Namespace, paths: list[str]) -> int:
    models = [
        path
        for name in paths
        for path in (sorted(Path(name).glob("*.rknn")) if Path(name).is_dir() else [Path(name)])
    ]
    if not models:
        raise ValueError("suite: expected models, or folders with .rknn files, got none")
    for name in ("html", "plot", "layers"):
        if getattr(arguments, name):
            raise ValueError(
                f"suite: expected tables of many models, got --{name}, which is of one"
            )
    results, failed = [], False
    for path in models:
        try:
            results.append(_measured(arguments, str(path)))
        except (RknnError, OSError) as error:
            failed = True
            print(f"rknn-runtime: {path}: {error}", file=sys.stderr)
            continue
        if not arguments.json and not arguments.markdown:
            print(results[-1], end="\n\n", flush=True)
    text = json.dumps([json.loads(result.to_json()) for result in results])
    if arguments.output:
        Path(arguments.output).write_text(text + "\n", encoding="utf-8")
    if arguments.json:
        print(text)
    elif arguments.markdown:
        print(_table(results))
    return int(failed)


def _table(results: list[Result]) -> str:
    """One row per model: its fastest choice, and the latency of one context."""
    lines = ["| model | SoC | runtime | FPS | cores, contexts | ms a frame, p50 | weights |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        about = result.about
        best = max(result.timings, key=lambda timing: timing.fps)
        latency = result.timings[0].summary("frame")["p50"]
        soc = (about["soc"] or "unknown") + (", simulated" if about["simulated"] else "")
        lines.append(
            f"| {about['model']} | {soc} | {about['runtime']} | {best.fps:.1f} | {best.name} | "
            f"{latency:.3f} | {about['memory']['weight_bytes'] / 1e6:.1f} MB |"
        )
    return "\n".join(lines)
