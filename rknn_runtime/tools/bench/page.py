"""A measurement as one self-contained page, drawn as SVG; or as an image, by matplotlib."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.html import page, table
from rknn_runtime.tools.bench.result import COLUMNS, Result, Timing

__all__ = ["import_figure", "plot", "to_html"]

_WIDTH, _HEIGHT, _BINS, _MOST_POINTS = 560, 160, 60, 1000


def to_html(result: Result) -> str:
    """Return one HTML file with tables, histograms and timelines, which loads nothing else."""
    about = result.about
    parts = []
    if about.get("simulated"):
        parts.append(
            '<p class="note">On the simulated NPU: these times say nothing about a board.</p>'
        )
    facts = {
        "runtime": about["runtime"],
        "driver": about.get("driver"),
        "SoC": about.get("soc"),
    }
    parts.append(table((), [(name, str(value)) for name, value in facts.items() if value]))
    parts += [f"<p>{html.escape(note)}</p>" for note in result.notes()]
    for timing in result.timings:
        parts += _section(timing, result.mark)
    return page(str(about["model"]), parts, "text{font-size:11px;fill:currentColor}")


def _section(timing: Timing, mark: str) -> list[str]:
    rows = [
        (phase, *(f"{value:.3f}" for value in timing.summary(phase).values()))
        for phase in timing.phases_ms
    ]
    values = np.asarray(timing.phases_ms[_shown(timing)], float)
    return [
        f"<h2>{mark}{html.escape(timing.name)}: {timing.fps:.1f} frames a second</h2>",
        table(("milliseconds", *COLUMNS), rows),
        _histogram(values),
        _timeline(values),
    ]


def _shown(timing: Timing) -> str:
    """The phase to draw: the whole frame."""
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
    ends = (
        f"<text x=2 y={_HEIGHT - 5}>{edges[0]:.3f} ms</text>"
        f"<text x={_WIDTH - 2} y={_HEIGHT - 5} text-anchor=end>{edges[-1]:.3f} ms</text>"
    )
    return _svg("how often a frame took so long", bars + ends)


def _timeline(values: Array) -> str:
    """Draw the frames; where they are too many, the slowest of each group, so that peaks show."""
    stretches = np.array_split(values, min(len(values), _MOST_POINTS))
    heights = np.array([stretch.max() for stretch in stretches])
    x = np.linspace(0, _WIDTH, len(heights)) if len(heights) > 1 else np.array([0.0])
    y = _HEIGHT - 20 - heights / heights.max() * (_HEIGHT - 35)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist()))
    line = f"<polyline points='{points}' fill=none stroke=#27c />"
    words = (
        f"<text x=2 y=12>{heights.max():.3f} ms</text>"
        f"<text x={_WIDTH - 2} y={_HEIGHT - 5} text-anchor=end>{len(values)} frames</text>"
    )
    return _svg("frames one after the other", line + words)


def _svg(title: str, content: str) -> str:
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' width={_WIDTH} height={_HEIGHT}>"
        f"<title>{title}</title>{content}</svg>"
    )


def import_figure() -> Any:
    """Import what `plot` draws with.

    Raises:
        ImportError: matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("a plot needs matplotlib: pip install matplotlib") from None
    return Figure


def plot(result: Result, path: str | os.PathLike[str]) -> None:
    """Draw a histogram and a timeline of each choice into an image.

    Raises:
        ImportError: matplotlib is missing.
        OSError: The file cannot be written.
        ValueError: matplotlib knows no such kind of file.
    """
    rows: Sequence[Timing] = result.timings
    figure = import_figure()(figsize=(12, 3 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2, squeeze=False)
    for (left, right), timing in zip(axes, rows):
        values = timing.phases_ms[_shown(timing)]
        left.hist(values, bins=_BINS)
        left.set(title=f"{result.mark}{timing.name}, {timing.fps:.1f} FPS", xlabel="ms a frame")
        right.plot(values, linewidth=0.7)
        right.set(xlabel="frame", ylabel="ms")
    figure.savefig(os.fspath(path))
