"""Measure how fast a model runs: each phase of a frame, each choice of cores, the board's state."""

from __future__ import annotations

import html
import io
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array, as_float, as_int
from rknn_runtime._files import html_table, printable_lines, replace_file
from rknn_runtime.conversion.html import page
from rknn_runtime.conversion.verdict import KEEP, LOOK, Advice, verdict_part
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import RknnError, UnavailableError
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.prediction import DRIVERS, predict
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.model import Model
from rknn_runtime.streams.placement import npu_cores
from rknn_runtime.streams.pool import Pool
from rknn_runtime.tools.board import resident_kb, state
from rknn_runtime.vision.detector import Detector
from rknn_runtime.vision.letterbox import LetterboxTransform

#: Version of the JSON; increases when its form changes.
FORM = 1
COLUMNS = ("min", "mean", "p50", "p90", "p99", "max")
#: Times are unsteady if one in ten takes so many times as long as the median.
_UNSTEADY = 1.5


class Timing(NamedTuple):
    """One choice of cores and contexts.

    Attributes:
        cores: Name of the core mask; ``"AUTO"`` if the runtime chooses.
        contexts: How many ran at the same time.
        fps: Frames per second. With one context the phases follow each other; with several it is
            their common throughput.
        phases_ms: Milliseconds of each phase, one number per frame; in the order of a frame.
        growth_kb: Growth of the process's memory since the warm-up.
    """

    cores: str
    contexts: int
    fps: float
    phases_ms: Mapping[str, Sequence[float]]
    growth_kb: int

    @property
    def name(self) -> str:
        """Cores and contexts, for people."""
        contexts = "1 context" if self.contexts == 1 else f"{self.contexts} contexts"
        return f"{self.cores}, {contexts}"

    def summary(self, phase: str) -> dict[str, float]:
        """Return minimum, mean, percentiles and maximum of a phase, milliseconds."""
        values = np.asarray(self.phases_ms[phase])
        numbers = (values.min(), values.mean(), *np.percentile(values, (50, 90, 99)), values.max())
        return dict(zip(COLUMNS, map(float, numbers)))


class Result(NamedTuple):
    """All measurements of a model.

    Attributes:
        about: File, runtime, SoC, whether the NPU is simulated, memory, the predicted time of a
            run, and the board's state before and after.
        timings: One for each choice of cores and contexts.
    """

    about: Mapping[str, Any]
    timings: tuple[Timing, ...]

    def to_json(self) -> str:
        """Return all of it as text; `load` reads it."""
        timings = [
            {
                **timing._asdict(),
                "summary_ms": {name: timing.summary(name) for name in timing.phases_ms},
            }
            for timing in self.timings
        ]
        return json.dumps({"form": FORM, "about": self.about, "timings": timings})

    @property
    def mark(self) -> str:
        """Return the mark before every line of a simulated NPU; no line must pass for a board's."""
        return "simulated NPU | " if self.about.get("simulated") else ""

    @property
    def verdict(self) -> Advice:
        """Explain the numbers, and name the next command."""
        about, first = self.about, self.timings[0]
        best = max(self.timings, key=lambda timing: timing.fps)
        took = first.summary(_shown(first))
        reason = (
            f"{best.fps:.1f} frames a second ({best.name}); one frame takes {took['p50']:.3g} ms"
            f"{'' if first is best else f' ({first.name})'}, 9 of 10 at most {took['p90']:.3g} ms"
        )
        command, model = "rknn-runtime", about["model"]
        if about.get("simulated"):
            text = f"{reason}; these times say nothing about a board"
            return Advice(LOOK, text, f"{command} predict {model}")
        if about.get("after", {}).get("throttled"):
            return Advice(LOOK, f"{reason}, with a clock held down", f"{command} doctor")
        phases = {name: first.summary(name)["p50"] for name in PHASES if name in first.phases_ms}
        run, predicted = phases.pop("run", 0.0), about.get("predicted")
        if predicted and run > predicted["slowest_ms"]:
            most = predicted["slowest_ms"]
            text = f"{reason}; the NPU takes {run:.3g} ms, the file predicts {most:.3g} at most"
            return Advice(LOOK, text, f"{command} bench --layers {model}")
        slowest = max(phases, key=phases.__getitem__, default="")
        if slowest and phases[slowest] > run:
            text = f"{reason}; {slowest!r} takes longer than the NPU"
            return Advice(LOOK, text, "several contexts, which a Pool runs side by side")
        if took["p90"] > _UNSTEADY * took["p50"]:
            return Advice(LOOK, f"{reason}: unsteady", f"{command} doctor")
        sweep = "" if len(self.timings) > 1 else f"{command} bench {model} --sweep"
        return Advice(KEEP, reason, sweep)

    def __str__(self) -> str:
        return printable_lines(self.mark + line for line in self._lines())

    def _lines(self) -> Iterable[str]:
        about = self.about
        yield str(self.verdict)
        yield f"{about['model']}, runtime {about['runtime']}"
        for timing in self.timings:
            frames = len(next(iter(timing.phases_ms.values())))
            yield f"{timing.name}: {timing.fps:.1f} frames a second, {frames} frames, milliseconds"
            yield f"  {'phase':<12}" + "".join(f"{name:>10}" for name in COLUMNS)
            for phase in timing.phases_ms:
                numbers = timing.summary(phase).values()
                yield f"  {phase:<12}" + "".join(f"{number:10.3f}" for number in numbers)
        yield from self.notes()

    def notes(self) -> Iterable[str]:
        """Yield lines for people on the prediction, memory and clocks."""
        about = self.about
        if about.get("interrupted"):
            yield "interrupted: the frames until then"
        predicted = about.get("predicted")
        if predicted and not about.get("simulated"):  # of a board, which this was none
            yield (
                f"predicted from the file: a run takes {predicted['ms']:.3g} ms "
                f"({predicted['fastest_ms']:.3g} to {predicted['slowest_ms']:.3g}); measured: "
                f"{self.timings[0].summary('run')['p50']:.3g} ms"
            )
            if _driver(about) == "rocket":
                yield (
                    f"predicted at {DRIVERS['rocket'][1]} MHz, at which a kernel with rocket "
                    "starts the NPU: a fifth of the vendor's clock"
                )
        memory = about["memory"]
        yield (
            f"weights {memory['weight_bytes']} bytes, internal {memory['internal_bytes']}, "
            f"{memory['resident_kb']} kB resident, "
            f"{max(timing.growth_kb for timing in self.timings):+d} kB since warm"
        )
        yield from _board_lines(about.get("before", {}), about.get("after", {}))

    def to_markdown(self) -> str:
        """Return tables to paste into a page or an issue."""
        about = self.about
        title = f"**{about['model']}**, {about.get('soc') or 'unknown SoC'}, {about['runtime']}"
        rows: list[Sequence[str]] = [("cores", "contexts", "FPS", "phase", *COLUMNS)]
        for timing in self.timings:
            for phase in timing.phases_ms:
                numbers = [f"{value:.3f}" for value in timing.summary(phase).values()]
                first = timing.cores, str(timing.contexts), f"{timing.fps:.1f}"
                rows.append((*first, phase, *numbers))
        notes = [f"- {self.mark}{note}" for note in self.notes()]
        lines = [
            self.mark + title,
            "",
            self.mark + str(self.verdict),
            "",
            *markdown(rows, self.mark),
            "",
            *notes,
        ]
        return printable_lines(lines) + "\n"


def markdown(rows: Sequence[Sequence[str]], mark: str) -> list[str]:
    """Return the lines of a table, the head in its first row."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {mark}{' | '.join(row)} |" for row in cells]
    return [lines[0], "| " + " | ".join(["---"] * (len(rows[0]) + bool(mark))) + " |", *lines[1:]]


def load(text: str) -> Result:
    """Read what `Result.to_json` wrote."""
    try:
        data = json.loads(text)
        if isinstance(data, list):
            raise ValueError("a list, as a suite writes it")
        if data["form"] != FORM:
            raise ValueError(f"form {data['form']}")
        result = Result(data["about"], tuple(map(_timing, data["timings"])))
        str(result)  # everything that is shown is there
    except _SOMETHING_ELSE as error:
        raise ValueError(
            f"expected JSON of `rknn-runtime bench` of form {FORM}, got something else: {error}"
        ) from None
    return result


#: Exceptions of reading JSON of another form.
_SOMETHING_ELSE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError,
    StopIteration,
)  # fmt: skip


def _timing(data: Mapping[str, Any]) -> Timing:
    phases = {
        name: [_finite(value, name) for value in values]
        for name, values in data["phases_ms"].items()
    }
    contexts = as_int(data["contexts"], "contexts", 1, 10**6)
    growth_kb = as_int(data["growth_kb"], "growth_kb", -(10**15), 10**15)
    return Timing(str(data["cores"]), contexts, _finite(data["fps"], "fps"), phases, growth_kb)


def _finite(value: Any, name: str) -> float:
    number = as_float(value, name)
    if not math.isfinite(number):
        raise ValueError(f"{name}: expected a finite number, got {number}")
    return number


def _board_lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    for name, unit in (("frequency_mhz", "MHz"), ("temperature_c", "°C")):
        pairs = [
            f"{key} {value:.0f} -> {after.get(name, {}).get(key, value):.0f}"
            for key, value in before.get(name, {}).items()
        ]
        if pairs:
            yield f"{unit} before and after: {', '.join(pairs)}"
    governors = {k: v for k, v in after.get("governor", {}).items() if v != "performance"}
    if governors:
        listed = ", ".join(f"{name} {value}" for name, value in governors.items())
        yield f"governors that save power: {listed}"
    if after.get("throttled"):
        yield f"held below their full clock: {', '.join(after['throttled'])}"


#: The phases of a frame with one context. ``npu`` is the runtime's own time of the run.
PHASES = ("input copy", "sync in", "run", "sync out", "decode")


_SINGLES = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
_TOGETHER = (CoreMask.CORE_0_1, CoreMask.CORE_0_1_2)


class Settings(NamedTuple):
    """What to measure.

    Attributes:
        warm_up: Frames that do not count.
        frames: Frames that count; None for as many as `seconds` allow.
        seconds: Limit for each choice of cores; None for none.
        sweep: Also measure every core mask, and one to three contexts per core.
    """

    warm_up: int = 20
    frames: int | None = 200
    seconds: float | None = None
    sweep: bool = False


def measure(
    model: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    library: str | os.PathLike[str] | Library | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Result:
    """Measure a model.

    With one context each phase is timed. The inputs are ones, as values do not matter to the NPU.
    ``decode`` is the decoder of a `Detector` if it knows the model's head, else all outputs as
    float32. Several contexts are a `Pool`, of which the throughput is measured. After Ctrl-C the
    frames until then are returned, with ``about["interrupted"]``.

    Args:
        model: A ``.rknn`` file.
        settings: None for 200 frames of one context.
        library: See `Model`.
        progress: Called with the name of a choice, or of its warm-up, and the frames done.
    """
    wanted = _checked(Settings() if settings is None else settings)
    report = (lambda name, done: None) if progress is None else progress
    before = state()
    timings: list[Timing] = []
    interrupted = False
    try:
        with Model(model, library=library) as loaded:
            about = _about(model, loaded)
            _one_context(loaded, wanted, report, timings)
            cores = npu_cores(loaded) if wanted.sweep else 1
            for mask in (*_SINGLES[:cores], *_TOGETHER[: cores - 1]) if cores > 1 else ():
                loaded.set_core_mask(mask)
                _one_context(loaded, wanted, report, timings, str(mask.name))
        if wanted.sweep:
            _pools(model, library, cores, wanted, report, timings)
    except KeyboardInterrupt:
        if not timings:
            raise
        interrupted = True
    about["interrupted"] = interrupted
    # Next to the time of an emulator, a predicted time of a board is misleading.
    predicted = None if about["simulated"] else _predicted(model, about["soc"], _driver(about))
    about.update(predicted=predicted, before=before, after=state())
    about["memory"]["resident_kb"] = resident_kb()
    return Result(about, tuple(timings))


def _checked(settings: Settings) -> Settings:
    frames, seconds, sweep = settings.frames, settings.seconds, settings.sweep
    if frames is None and seconds is None:
        raise ValueError("frames, seconds: expected one of them, got neither")
    if seconds is not None:
        seconds = as_float(seconds, "seconds")
        if not 0 < seconds <= 86400:
            raise ValueError(f"seconds: expected more than 0 and up to a day, got {seconds}")
    return Settings(
        as_int(settings.warm_up, "warm_up", 0, 10**6),
        None if frames is None else as_int(frames, "frames", 1, 10**7),
        seconds,
        sweep,
    )


def _about(model: str | os.PathLike[str], loaded: Model) -> dict[str, Any]:
    memory = loaded.memory_size
    version = loaded.sdk_version
    return {
        "model": Path(model).name,
        "library": loaded.library.path,
        "runtime": version.api,
        "driver": version.driver,
        "simulated": not loaded.library.has_npu,
        "soc": loaded._soc,
        "inputs": [list(attr.shape) for attr in loaded.inputs],
        "outputs": [list(attr.shape) for attr in loaded.outputs],
        "memory": {"weight_bytes": memory.weight_bytes, "internal_bytes": memory.internal_bytes},
    }


def _predicted(
    model: str | os.PathLike[str], soc: str | None, driver: str | None = None
) -> dict[str, float] | None:
    """Return the predicted time of a run; None if it is unknown, as for float16."""
    try:
        layers, batch = read_layers(model), read(model).batch
        found = predict(layers, soc or "", batch=batch, driver=driver)
    except RknnError:
        return None
    return {name: getattr(found, name) for name in ("ms", "fastest_ms", "slowest_ms")}


def _driver(about: Mapping[str, Any]) -> str | None:
    """Return the kernel's driver under the open runtime, None under another one."""
    return about["driver"].split(" ")[0] if "rknn_open" in about["runtime"] else None


def _one_context(
    model: Model,
    settings: Settings,
    progress: Callable[[str, int], None],
    timings: list[Timing],
    cores: str = "AUTO",
) -> None:
    """Add a timing; after Ctrl-C that of the frames until then."""
    views = [model.input_view(i) for i in range(len(model.inputs))]
    frames = [np.ones_like(view) for view in views]
    decode = _decoder(model)
    was_timed, model.is_timed = model.is_timed, True
    rows: list[tuple[float, ...]] = []
    npu: list[float] = []
    warm_kb, begin, clock, stopped = 0, 0.0, time.perf_counter, False
    name = f"{cores}, 1 context"
    try:
        for number in range(-settings.warm_up, settings.frames or 2**62):
            if number == 0:
                warm_kb, begin = resident_kb(), clock()
            start = clock()
            for view, frame in zip(views, frames):
                np.copyto(view, frame)
            copied = clock()
            model.run()
            ran = clock()
            decode()
            decoded = clock()
            if number < 0:
                progress(f"{name}, warm-up", number + settings.warm_up + 1)
                continue
            steps = model.step_times
            assert steps is not None
            sync_in, run, sync_out = steps.sync_to_device_s, steps.run_s, steps.sync_from_device_s
            rows.append((copied - start, sync_in, run, sync_out, decoded - ran))
            if len(npu) == len(rows) - 1:
                with suppress(RknnError):  # not every runtime tells its own time
                    npu.append(1e-6 * model.last_run_us)
            progress(name, number + 1)
            if settings.seconds is not None and decoded - begin >= settings.seconds:
                break
    except KeyboardInterrupt:
        if not rows:
            raise
        stopped = True
    finally:
        del views
        model.is_timed = was_timed
    columns = np.array(rows).T
    phases = {name: _ms(column) for name, column in zip(PHASES, columns)}
    phases["frame"] = _ms(columns.sum(axis=0))
    if len(npu) == len(rows):
        phases["npu"] = _ms(np.array(npu))
    fps = 1e3 / float(np.median(phases["frame"]))
    timings.append(Timing(cores, 1, fps, phases, resident_kb() - warm_kb))
    if stopped:
        raise KeyboardInterrupt


def _ms(seconds: Any) -> list[float]:
    """Return milliseconds, rounded to the clock's 0.1 microseconds."""
    milliseconds: list[float] = np.round(1e3 * seconds, 4).tolist()
    return milliseconds


def _decoder(model: Model) -> Callable[[], object]:
    """Return a function that decodes: a detector's, or every output as float32."""
    try:
        detector = Detector(model)
    except ValueError:
        outputs = [np.empty(attr.shape, np.float32) for attr in model.outputs]
        return lambda: [model.output_f32(i, out) for i, out in enumerate(outputs)]
    size = detector.input_size
    transform = LetterboxTransform(size, size, size, (0, 0))
    count = len(model.outputs)
    return lambda: detector.decoder([model.output_raw(i) for i in range(count)], transform)


def _whole_frame(model: Model) -> Callable[[object], None]:
    """Return the work of a pool's context: the phases of `_one_context`."""
    frames = [np.ones_like(model.input_view(i)) for i in range(len(model.inputs))]
    decode = _decoder(model)

    def call(_: object) -> None:
        for i, frame in enumerate(frames):
            np.copyto(model.input_view(i), frame)
        model.run()
        decode()

    return call


def _pools(
    model: str | os.PathLike[str],
    library: str | os.PathLike[str] | Library | None,
    cores: int,
    settings: Settings,
    progress: Callable[[str, int], None],
    timings: list[Timing],
) -> None:
    """Add timings of one to three contexts on each of the cores."""
    singles = _SINGLES[:cores]
    for per_core in (1, 2, 3):
        masks = list(singles) * per_core if cores > 1 else [None] * per_core
        if len(masks) == 1:
            continue  # measured already
        try:
            pool = Pool(model, _whole_frame, library=library, core_masks=masks)
        except UnavailableError:  # a runtime without duplicates
            break
        with pool:
            _pool(pool, cores, settings, progress, timings)


def _pool(
    pool: Pool,
    cores: int,
    settings: Settings,
    progress: Callable[[str, int], None],
    timings: list[Timing],
) -> None:
    contexts = len(pool.core_masks)
    chosen = f"{cores} {'core' if cores == 1 else 'cores'}"
    name = f"{chosen}, {contexts} contexts"
    stopped = False
    waiting: deque[tuple[float, Any]] = deque()
    latencies: list[float] = []
    warm_kb = resident_kb()
    begin = time.perf_counter()
    warm = max(settings.warm_up, contexts)
    try:
        for number in range(-warm, settings.frames or 2**62):
            while len(waiting) < 2 * contexts:
                waiting.append((time.perf_counter(), pool.submit(None)))
            since, future = waiting.popleft()
            future.result()
            now = time.perf_counter()
            if number == -1:
                begin = now
            if number < 0:
                progress(f"{name}, warm-up", number + warm + 1)
                continue
            latencies.append(now - since)
            progress(name, number + 1)
            if settings.seconds is not None and now - begin >= settings.seconds:
                break
    except KeyboardInterrupt:
        if not latencies:
            raise
        stopped = True
    took = time.perf_counter() - begin
    for _, future in waiting:
        future.result()
    phases = {"in the pool": _ms(np.array(latencies))}
    fps = len(latencies) / took
    timings.append(Timing(chosen, contexts, fps, phases, resident_kb() - warm_kb))
    if stopped:
        raise KeyboardInterrupt


#: Samples of the bootstrap.
_DRAWS = 400


class Ratio(NamedTuple):
    """The time of a phase in the second measurement, divided by that in the first.

    Attributes:
        name: Name of the choice of cores and contexts.
        phase: Name of the phase.
        ratio: Ratio of the medians; below 1 the second is faster.
        low: Lower end of the 95 % interval of the ratio, by the bootstrap: frames are drawn at
            random, with replacement, from both measurements.
        high: Its upper end.
    """

    name: str
    phase: str
    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """In one word: ``"faster"``, ``"slower"`` or ``"same"``."""
        if self.low <= 1 <= self.high:
            return "same"
        return "faster" if self.high < 1 else "slower"


def compare(first: Result, second: Result) -> list[Ratio]:
    """Compare each phase of each choice that both have."""
    if bool(first.about.get("simulated")) != bool(second.about.get("simulated")):
        raise ValueError("expected two boards or two simulations, got one of each")
    others = {timing.name: timing for timing in second.timings}
    ratios = [
        _ratio(timing, others[timing.name], phase)
        for timing in first.timings
        if timing.name in others
        for phase in timing.phases_ms
        if phase in others[timing.name].phases_ms
    ]
    if not ratios:
        raise ValueError("expected measurements of the same cores and contexts, got none in common")
    return ratios


def _ratio(first: Timing, second: Timing, phase: str) -> Ratio:
    a, b = np.asarray(first.phases_ms[phase]), np.asarray(second.phases_ms[phase])
    draw = np.random.default_rng(0)  # the same files give the same answer
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.median(b) / np.median(a)
        drawn = [
            np.median(draw.choice(b, len(b))) / np.median(draw.choice(a, len(a)))
            for _ in range(_DRAWS)
        ]
        low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return Ratio(first.name, phase, float(ratio), float(low), float(high))


_WIDTH, _HEIGHT, _BINS, _MOST_POINTS = 560, 160, 60, 1000


def to_html(result: Result) -> str:
    """Return one HTML file with tables, histograms and timelines, which loads nothing else."""
    about = result.about
    parts = [verdict_part(result.verdict)]
    facts = {
        "runtime": about["runtime"],
        "driver": about.get("driver"),
        "SoC": about.get("soc"),
    }
    parts.append(html_table((), [(name, str(value)) for name, value in facts.items() if value]))
    parts += [f"<p>{html.escape(note)}</p>" for note in result.notes()]
    if len(result.timings) > 1:
        titles = "cores and contexts", "frames a second", "p50, ms", "p90, ms"
        rows = [
            (timing.name, f"{timing.fps:.1f}", f"{took['p50']:.3f}", f"{took['p90']:.3f}")
            for timing in result.timings
            for took in [timing.summary(_shown(timing))]
        ]
        parts.append(html_table(titles, rows))
    for timing in result.timings:
        parts += _section(timing, result.mark)
    return page(str(about["model"]), parts, "text{font-size:13px;fill:currentColor}")


def _section(timing: Timing, mark: str) -> list[str]:
    rows = [
        (phase, *(f"{value:.3f}" for value in timing.summary(phase).values()))
        for phase in timing.phases_ms
    ]
    values = np.asarray(timing.phases_ms[_shown(timing)], float)
    return [
        f"<h2>{mark}{html.escape(timing.name)}: {timing.fps:.1f} frames a second</h2>",
        html_table(("milliseconds", *COLUMNS), rows),
        _histogram(values),
        _timeline(values),
    ]


def _shown(timing: Timing) -> str:
    return "frame" if "frame" in timing.phases_ms else next(iter(timing.phases_ms))


def _histogram(values: Array) -> str:
    counts, edges = np.histogram(values, _BINS)
    scale = (_HEIGHT - 30) / counts.max()
    bars = "".join(
        f"<rect x={i * _WIDTH / _BINS:.1f} y={_HEIGHT - 20 - count * scale:.1f} "
        f"width={_WIDTH / _BINS - 1:.1f} height={count * scale:.1f} fill=#27c />"
        for i, count in enumerate(counts.tolist())
        if count
    )
    most = int(counts.max())
    ends = (
        f"<text x={_WIDTH - 2} y=12 text-anchor=end>highest bar: {most} "
        f"frame{'s' * (most > 1)}</text>"
        f"<text x=2 y={_HEIGHT - 5}>{edges[0]:.3f} ms</text>"
        f"<text x={_WIDTH - 2} y={_HEIGHT - 5} text-anchor=end>{edges[-1]:.3f} ms</text>"
    )
    return _svg("Frames by the time that they took", bars + ends)


def _timeline(values: Array) -> str:
    """Draw the frames; of many, the slowest of each group, so that peaks show."""
    stretches = np.array_split(values, min(len(values), _MOST_POINTS))
    heights = np.array([stretch.max() for stretch in stretches])
    x = np.linspace(0, _WIDTH, len(heights)) if len(heights) > 1 else np.array([0.0])
    y = _HEIGHT - 20 - heights / heights.max() * (_HEIGHT - 35)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist()))
    line = f"<polyline points='{points}' fill=none stroke=#27c />"
    words = (
        f"<line x1=0 y1={_HEIGHT - 20} x2={_WIDTH} y2={_HEIGHT - 20} stroke=#8888 />"
        f"<text x=2 y=12>{heights.max():.3f} ms</text><text x=2 y={_HEIGHT - 5}>0 ms</text>"
        f"<text x={_WIDTH - 2} y={_HEIGHT - 5} text-anchor=end>{len(values)} frames</text>"
    )
    return _svg("Time of each frame, in their order", line + words)


def _svg(title: str, content: str) -> str:
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width={_WIDTH} role=img>{content}</svg>"
        f"<figcaption>{title}</figcaption></figure>"
    )


def import_figure() -> Any:
    """Import what `plot` draws with."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("a plot needs matplotlib: pip install matplotlib") from None
    return Figure


def plot(result: Result, path: str | os.PathLike[str]) -> None:
    """Draw a histogram and a timeline of each choice into an image."""
    rows: Sequence[Timing] = result.timings
    figure = import_figure()(figsize=(12, 3 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2, squeeze=False)
    for (left, right), timing in zip(axes, rows):
        values = timing.phases_ms[_shown(timing)]
        left.hist(values, bins=_BINS)
        left.set(
            title=f"{result.mark}{timing.name}, {timing.fps:.1f} FPS",
            xlabel="ms a frame",
            ylabel="frames",
        )
        right.plot(values, linewidth=0.7)
        right.set(xlabel="frame", ylabel="ms", ylim=(0, None))
    file = io.BytesIO()
    figure.savefig(file, format=Path(path).suffix[1:].lower())
    replace_file(path, file.getvalue())
