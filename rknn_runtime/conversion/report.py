"""The result of a conversion: the file, and a comparison with the float network."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rknn_runtime._arrays import Array
from rknn_runtime._files import html_table, printable_lines
from rknn_runtime.conversion.accuracy import AccuracyReport, compare, plain
from rknn_runtime.conversion.calibration import framed
from rknn_runtime.conversion.health import check
from rknn_runtime.conversion.html import page
from rknn_runtime.conversion.ladder import Climb
from rknn_runtime.conversion.measures import MEASURES
from rknn_runtime.conversion.plan import Plan
from rknn_runtime.conversion.verdict import accuracy_parts, verdict_part
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.emulator import Verdict
from rknn_runtime.sim.inspection import TensorComparison
from rknn_runtime.vision.tasks import TASKS

_NORMALIZATION = ("mean_values", "std_values")
#: Layers in the report.
_WORST = 5


@dataclass(frozen=True)
class ConversionReport:
    """A comparison of a file with its network; ``str()`` is a text."""

    #: The program that computed the outputs of the file.
    by: str
    accuracy: AccuracyReport
    #: The worst layers of one image, worst first.
    layers: tuple[TensorComparison, ...]
    #: Operators that the board's CPU runs, and how many of each; None if not known.
    on_cpu: dict[str, int] | None
    file_bytes: int
    weight_bytes: int
    internal_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return all but the images as plain Python values, ready for JSON."""
        names = ("name", "op", "shape", "cosine", "error", "step", "saturated")
        layers = [{name: getattr(layer, name) for name in names} for layer in self.layers]
        said = {**vars(self), "accuracy": self.accuracy.to_dict(), "layers": layers}
        found: dict[str, Any] = plain(said)
        return found

    def __str__(self) -> str:
        verdict, *rest = str(self.accuracy).split("\n")
        lines = [verdict, f"judged by {self.by}", *rest]
        if self.layers:
            lines.append("worst layers:")
            lines += [
                f"  {layer.cosine:8.5f}  {layer.name} ({layer.op}), {layer.saturated:.1%} clipped"
                for layer in self.layers
            ]
        lines.append(f"on the CPU: {_cpu_words(self.on_cpu)}")
        lines.append(
            f"{_mib(self.file_bytes)} file, {_mib(self.weight_bytes)} weights, "
            f"{_mib(self.internal_bytes)} memory while it runs"
        )
        return printable_lines(lines)


@dataclass(frozen=True)
class Conversion:
    """A converted file; ``str()`` is the report."""

    #: The ``.rknn`` file.
    path: Path
    #: The SoC.
    target: str
    #: The tensors at the cut; empty if nothing was cut.
    cut: tuple[str, ...]
    #: The head, as in `Detector.head`; None if it is not known.
    head: str | None
    #: Warnings, and the reason if nothing was cut.
    notes: tuple[str, ...]
    #: None if it was not wanted, or cannot be made.
    report: ConversionReport | None
    #: All that the toolkit printed.
    log: str = field(repr=False)
    #: The steps that led to the file; None without a target.
    climb: Climb | None = None
    #: The file's task, as for ``rknn-runtime detect --task``; None if it is unknown.
    task: str | None = None

    def _reader(self) -> str:
        """Say what reads the file."""
        if self.head is None and self.task in TASKS:
            return f"read by {TASKS[self.task].name}"
        return f"head {self.head or 'not known'}"

    def to_dict(self) -> dict[str, Any]:
        """Return all but the log as plain Python values, ready for JSON."""
        return {
            "file": str(self.path),
            "target": self.target,
            "cut": list(self.cut),
            "head": self.head,
            "task": self.task,
            "notes": list(self.notes),
            "report": self.report and self.report.to_dict(),
            "climb": self.climb and self.climb.to_dict(),
        }

    def to_html(self) -> str:
        """Return the report as a page with plots and images, which loads nothing from elsewhere."""
        ends = f"cut at {len(self.cut)} tensors" if self.cut else "ends as it did"
        reader = html.escape(self._reader())
        parts = [] if self.report is None else [verdict_part(self.report.accuracy.verdict)]
        parts.append(f"<p>For {self.target}; {ends}; {reader}.</p>")
        parts += [f'<p class="note">{html.escape(note)}</p>' for note in self.notes]
        if self.climb is not None:
            parts += self.climb.to_html()
        if self.report is not None:
            parts += _of_report(self.report)
        return page(self.path.name, parts)

    def __str__(self) -> str:
        ends = f"cut at {len(self.cut)} tensors" if self.cut else "ends as it did"
        lines = [f"{self.path}: for {self.target}, {ends}, {self._reader()}"]
        lines += [f"note: {note}" for note in self.notes]
        if self.climb is not None:
            lines += str(self.climb).split("\n")
        if self.report is not None:
            verdict, *rest = str(self.report).split("\n")
            lines = [verdict, *lines, *rest]
        return printable_lines(lines)


def _cpu_words(on_cpu: Mapping[str, int] | None) -> str:
    if on_cpu is None:
        return "not known"
    return ", ".join(f"{count} {name}" for name, count in on_cpu.items()) or "nothing"


def judged(
    path: Path,
    plan: Plan,
    images: Sequence[Path],
    folder: Path,
    config: Mapping[str, Any],
    simulate: Callable[[Sequence[Path]], list[list[Array]]],
    notes: list[str],
) -> ConversionReport:
    """Compare a file with the float network, an ONNX file of one image.

    If the simulated NPU refuses a file, the report has a note and the toolkit's simulator runs it.
    """
    assert plan.onnx is not None and plan.size is not None
    framed_for = partial(framed, size=plan.size, color=plan.color, fit=plan.fit)
    network = folder / "float.onnx"
    network.write_bytes(plan.onnx)
    means, stds = ([row[: plan.channels] for row in config[name]] for name in _NORMALIZATION)

    def compared(other: Path | list[list[Array]]) -> AccuracyReport:
        frames, options = (framed_for(image) for image in images), decoder_options(plan)
        detect = plan.head is not None or plan.read_as is not None
        return compare(
            network, other, frames, detect=detect, mean_values=means, std_values=stds,
            color="BGR" if plan.color == "BGR" else "RGB",
            task=plan.task if plan.task in MEASURES else None, **options,
        )  # fmt: skip

    notes += map(str, check(path))
    try:
        accuracy = compared(path)
        by = "the simulated NPU of this package, which executes the file's commands"
    except RknnError as error:
        notes.append(f"not run on the simulated NPU: {error}")
        accuracy = compared(simulate(images))
        by = "the toolkit's simulator"
        return ConversionReport(by, accuracy, (), None, *_sizes(path))
    with Model(path, library="sim") as model:
        emulation = model.emulation
        assert emulation is not None  # it is a .rknn file
        on_cpu: dict[str, int] = {}
        for node in emulation.nodes:
            if not node.tasks and node.verdict is not Verdict.NOTHING:
                on_cpu[node.op] = on_cpu.get(node.op, 0) + 1
        layers = model.compare(plan.onnx, framed_for(images[0])).worst(_WORST)
    return ConversionReport(f"{by} ({emulation})", accuracy, layers, on_cpu, *_sizes(path))


def _sizes(path: Path) -> tuple[int, int, int]:
    """Return the bytes of the file, of its weights, and of its memory while it runs."""
    info = read(path)
    return info.file_bytes, info.weight_bytes, info.internal_bytes


def decoder_options(plan: Plan) -> dict[str, Any]:
    """Return the options for `Detector` that a plan tells."""
    if plan.head is None:
        return {} if plan.read_as is None or plan.labels is None else {"labels": plan.labels}
    options: dict[str, Any] = {"head": plan.head.name, **plan.head.options}
    if plan.head.logits:
        options["logits"] = True
    if plan.labels is not None:
        options["labels"] = plan.labels
    return options


def _mib(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def _of_report(report: ConversionReport) -> Iterable[str]:
    yield from accuracy_parts(report.accuracy)
    yield f"<p>Judged by {html.escape(report.by)}.</p>"
    if report.layers:
        yield "<h2>Worst layers</h2>"
        rows = [
            (layer.name, layer.op, f"{layer.cosine:.5f}", f"{layer.saturated:.1%}")
            for layer in report.layers
        ]
        yield html_table(("layer", "operator", "cosine", "clipped"), rows)
    yield "<h2>Sizes</h2>"
    yield f"<p>On the board's CPU: {html.escape(_cpu_words(report.on_cpu))}.</p>"
    sizes = map(_mib, (report.file_bytes, report.weight_bytes, report.internal_bytes))
    yield html_table(("file", "weights", "memory while it runs"), [list(sizes)])
