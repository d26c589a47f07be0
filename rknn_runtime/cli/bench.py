"""Measure how fast a model runs here.

Measures each phase of a frame, with --sweep for every core mask and number of
contexts. `bench compare A B` compares two measurements, `bench suite` measures
many models.

Examples:
  rknn-runtime bench yolov8n.rknn
  rknn-runtime bench yolov8n.rknn --seconds 60 --sweep --html report.html
  rknn-runtime bench yolov8n.rknn --layers
  rknn-runtime bench compare before.json after.json
  rknn-runtime bench suite models/ --output board.json --markdown
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rknn_runtime._files import printable, printable_lines, read_file
from rknn_runtime.cli.files import (
    check_folder,
    check_readable,
    check_writable,
    counted,
    naming,
    told,
    write_text,
)
from rknn_runtime.cli.options import (
    add_library,
    add_switch,
    file_ending_in,
    progress_line,
    refusals,
    refuse_given,
    tell,
)
from rknn_runtime.cli.tables import table
from rknn_runtime.errors import RknnError

if TYPE_CHECKING:
    from rknn_runtime.tools.bench import Result

#: Limit for a file with a measurement.
_MOST_JSON_BYTES = 1 << 24
_WARM_UP = 20
#: Seconds between two lines of progress.
_STEP_S = 0.2
#: Options that only `bench MODEL` has.
_OF_PHASES = ("html", "plot", "sweep", "frames", "seconds", "warm-up")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="MODEL",
        help="a .rknn file; or `compare A.json B.json`; or `suite` and models, or folders of them",
    )
    add_library(parser)
    parser.add_argument("--frames", type=int, metavar="N", help="frames to measure (200)")
    parser.add_argument(
        "--seconds", type=float, metavar="T", help="measure each choice for T seconds instead"
    )
    parser.add_argument(
        "--warm-up", type=int, metavar="N", help=f"frames to run first ({_WARM_UP})"
    )
    add_switch(parser, "--sweep", "also measure every core mask and number of contexts")
    add_switch(parser, "--layers", "measure each layer (librknnrt only)")
    forms = parser.add_mutually_exclusive_group()
    add_switch(forms, "--json", "print JSON, as `compare` reads it")
    add_switch(forms, "--markdown", "print tables to paste")
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the JSON to a file")
    parser.add_argument("--html", metavar="FILE", help="also write an HTML page with plots")
    parser.add_argument(
        "--plot", type=file_ending_in(".png", ".svg"), metavar="FILE",
        help="also write a plot, .png or .svg (needs matplotlib)",
    )  # fmt: skip
    add_switch(parser, "--quiet", "show no progress")


def run(arguments: Namespace) -> int:
    """Return 0; 1 if a model of a suite failed; 130 after Ctrl-C, with the frames until then."""
    with refusals():
        first, *rest = arguments.words
        if first == "compare" and not Path(first).exists():
            _refuse(arguments, "bench compare", "library", "layers", "output", *_OF_PHASES)
            return _compare(rest, arguments)
        if first == "suite" and not Path(first).exists():
            _refuse(arguments, "bench suite", "layers", "html", "plot")
            return _suite(arguments, rest)
        if rest:
            raise ValueError(f"expected one model, or `suite`, got {len(arguments.words)} words")
        if arguments.layers:
            _refuse(arguments, "bench --layers", *_OF_PHASES)
            return _layers(arguments, first)
        check_writable(arguments.output, arguments.html, arguments.plot)
        if arguments.plot:  # before minutes of measuring
            from rknn_runtime.tools.bench import import_figure

            import_figure()
        result = _measured(arguments, first)
        _show(arguments, result)
        return _status(result)


def _refuse(arguments: Namespace, form: str, *options: str) -> None:
    refuse_given(arguments, options, "`bench MODEL`", f"`{form}`, which has no such")


def _measured(arguments: Namespace, model: str) -> Result:
    from rknn_runtime.tools.bench import Settings, measure

    check_readable(model)
    frames, warm_up = arguments.frames, arguments.warm_up
    if frames is None and arguments.seconds is None:
        frames = 200
    warm_up = _WARM_UP if warm_up is None else warm_up
    settings = Settings(warm_up, frames, arguments.seconds, arguments.sweep)
    with progress_line(arguments) as show, naming(model):
        show(f"loading {model}")
        return measure(model, settings, library=arguments.library, progress=_Progress(show))


class _Progress:
    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._shown = show, 0.0

    def __call__(self, name: str, done: int) -> None:
        now = time.monotonic()
        if now - self._shown >= _STEP_S:
            self._shown = now
            self._show(f"{name}: {counted(done, 'frame')}")


def _status(result: Result) -> int:
    if not result.about.get("interrupted"):
        return 0
    tell("stopped", "info")
    return 130


def _show(arguments: Namespace, result: Result) -> None:
    """Print first, to keep the measurement if a file cannot be written."""
    if arguments.json:
        print(result.to_json())
    elif arguments.markdown:
        print(result.to_markdown(), end="")
    else:
        print(result)
    if arguments.output:
        write_text(arguments.output, result.to_json() + "\n")
    if arguments.html:
        from rknn_runtime.tools.bench import to_html

        write_text(arguments.html, to_html(result))
    if arguments.plot:
        from rknn_runtime.tools.bench import plot

        with naming(arguments.plot):
            plot(result, arguments.plot)


def _compare(paths: list[str], arguments: Namespace) -> int:
    from rknn_runtime.tools.bench import compare, load

    if len(paths) != 2:
        raise ValueError(f"compare: expected two files of JSON, got {len(paths)}")
    check_readable(*paths)
    results = []
    for path in paths:
        try:
            results.append(load(read_file(path, _MOST_JSON_BYTES).decode("utf-8", "replace")))
        except ValueError as error:
            raise ValueError(told(path, error)) from None
    ratios = compare(*results)
    if arguments.json:
        simulated = bool(results[0].about.get("simulated"))
        rest = [{"verdict": ratio.verdict, "simulated": simulated} for ratio in ratios]
        print(json.dumps([{**ratio._asdict(), **more} for ratio, more in zip(ratios, rest)]))
        return 0
    rows = [("cores, contexts", "phase", "ratio of medians", "95 % interval", "verdict")]
    for ratio in ratios:
        spread = f"{ratio.low:.3f} to {ratio.high:.3f}"
        rows.append((ratio.name, ratio.phase, f"{ratio.ratio:.3f}", spread, ratio.verdict))
    mark = results[0].mark
    print(printable(f"{mark}time of {paths[1]} divided by the time of {paths[0]}"))
    _print_rows(rows, mark, arguments.markdown)
    return 0


def _layers(arguments: Namespace, path: str) -> int:
    import numpy as np

    from rknn_runtime.enums import InitFlag
    from rknn_runtime.npu.model import Model

    check_readable(path)
    check_writable(arguments.output)
    flags = InitFlag.PRIOR_HIGH | InitFlag.COLLECT_PERF
    with naming(path), Model(path, library=arguments.library, flags=flags) as model:
        for i in range(len(model.inputs)):
            np.copyto(model.input_view(i), 1)
        model.run()
        performance = model.perf_detail()
        simulated = not model.library.has_npu
    mark = "simulated NPU | " if simulated else ""
    layers = [{**layer._asdict(), "simulated": simulated} for layer in performance.layers]
    text = json.dumps(layers)
    if arguments.output:
        write_text(arguments.output, text + "\n")
    if arguments.json:
        print(text)
        return 0
    rows = [("#", "operator", "runs on", "us", "kB", "name")]
    for layer in performance.layers:
        moved = "" if layer.read_write_kb is None else f"{layer.read_write_kb:.1f}"
        took = f"{layer.time_us:.0f}"
        rows.append((str(layer.number), layer.op_type, layer.target, took, moved, layer.name))
    _print_rows(rows, mark, arguments.markdown)
    names = ", ".join(layer.op_type for layer in performance.on_cpu)
    print(printable(f"{mark}{len(performance.on_cpu)} on the CPU{': ' if names else ''}{names}"))
    return 0


def _print_rows(rows: Sequence[tuple[str, ...]], mark: str, is_markdown: bool) -> None:
    """Print a table whose first row is the head."""
    if is_markdown:
        from rknn_runtime.tools.bench import markdown

        print(printable_lines(["", *markdown(rows, mark), ""]))
    else:
        print("\n".join(mark + line for line in table(rows)))


def _suite(arguments: Namespace, paths: list[str]) -> int:
    for name in paths:
        if Path(name).is_dir():
            check_folder(name)
    models = [
        path
        for name in paths
        for path in (sorted(Path(name).glob("*.rknn")) if Path(name).is_dir() else [Path(name)])
    ]
    if not models:
        raise ValueError("suite: expected models, or folders with .rknn files, got none")
    check_writable(arguments.output)
    results: list[Result] = []
    status = 0
    for path in models:
        try:
            results.append(_measured(arguments, str(path)))
        except KeyboardInterrupt:  # before the first frame of this one
            if not results:
                raise
            tell("stopped", "info")
            status = 130
            break
        except (RknnError, OSError) as error:
            status = 1
            tell(told(str(path), error))
            continue
        if not arguments.json and not arguments.markdown:
            print(results[-1], end="\n\n", flush=True)
        if _status(results[-1]):
            status = 130
            break
    text = json.dumps([json.loads(result.to_json()) for result in results])
    if arguments.json:
        print(text)
    elif arguments.markdown:
        print(_table(results))
    if arguments.output:
        write_text(arguments.output, text + "\n")
    return status


def _table(results: list[Result]) -> str:
    """Return a row per model: its fastest choice, and the latency of one context."""
    from rknn_runtime.tools.bench import markdown

    rows = [("model", "SoC", "runtime", "FPS", "cores, contexts", "ms a frame, p50", "weights")]
    mark = ""
    for result in results:
        about = result.about
        best = max(result.timings, key=lambda timing: timing.fps)
        latency = result.timings[0].summary("frame")["p50"]
        weights = f"{about['memory']['weight_bytes'] / 1e6:.1f} MB"
        mark = result.mark  # the same for all
        rows.append(
            (about["model"], about["soc"] or "unknown", about["runtime"], f"{best.fps:.1f}",
             best.name, f"{latency:.3f}", weights)
        )  # fmt: skip
    notes = [f"- {mark}{r.about['model']}: {note}" for r in results for note in r.notes()]
    return printable_lines([*markdown(rows, mark), "", *notes])
