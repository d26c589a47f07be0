"""What was measured, as numbers, tables and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import as_float, as_int
from rknn_runtime._files import printable_lines

__all__ = ["Result", "Timing", "load", "markdown"]

#: Version of the JSON; increases when its form changes.
FORM = 1
COLUMNS = ("min", "mean", "p50", "p90", "p99", "max")


class Timing(NamedTuple):
    """One choice of cores and contexts.

    Attributes:
        cores: Name of the core mask; ``"AUTO"``: the runtime chooses.
        contexts: How many ran at the same time.
        fps: Frames a second: of one context, of a frame's phases one after the other; of several,
            what came out of all of them.
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
        """For people."""
        contexts = "1 context" if self.contexts == 1 else f"{self.contexts} contexts"
        return f"{self.cores}, {contexts}"

    def summary(self, phase: str) -> dict[str, float]:
        """Minimum, mean, percentiles and maximum of a phase, milliseconds."""
        values = np.asarray(self.phases_ms[phase])
        numbers = (values.min(), values.mean(), *np.percentile(values, (50, 90, 99)), values.max())
        return dict(zip(COLUMNS, map(float, numbers)))


class Result(NamedTuple):
    """All that was measured of a model.

    Attributes:
        about: File, runtime, SoC, whether the NPU is simulated, memory, what the file predicts of
            a run, what the board said before and after.
        timings: Of each choice.
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
        """Return what begins every line of a simulated NPU, so that none is quoted as a board's."""
        return "simulated NPU | " if self.about.get("simulated") else ""

    def __str__(self) -> str:
        return printable_lines(self.mark + line for line in self._lines())

    def _lines(self) -> Iterable[str]:
        about = self.about
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
        """What belongs to the numbers: the prediction, memory, clocks; for people, a line each."""
        about = self.about
        if about.get("interrupted"):
            yield "interrupted: what was measured until then"
        predicted = about.get("predicted")
        if predicted and not about.get("simulated"):  # of a board, which this was none
            yield (
                f"predicted from the file: a run takes {predicted['ms']:.3g} ms "
                f"({predicted['fastest_ms']:.3g} to {predicted['slowest_ms']:.3g}); measured: "
                f"{self.timings[0].summary('run')['p50']:.3g} ms"
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
        lines = [self.mark + title, "", *markdown(rows, self.mark), "", *notes]
        return printable_lines(lines) + "\n"


def markdown(rows: Sequence[Sequence[str]], mark: str) -> list[str]:
    """Return the lines of a table, the head in its first row.

    Args:
        rows: Of cells.
        mark: As of `Result`, a column of its own; so that no row is quoted without.
    """
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [f"| {mark}{' | '.join(row)} |" for row in cells]
    return [lines[0], "| " + " | ".join(["---"] * (len(rows[0]) + bool(mark))) + " |", *lines[1:]]


def load(text: str) -> Result:
    """Read what `Result.to_json` wrote.

    Raises:
        ValueError: It is something else.
    """
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


#: What reading JSON of another form ends in; of one that is nested without end, too.
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
