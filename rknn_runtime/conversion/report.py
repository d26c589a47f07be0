"""The result of a conversion: the file, and a comparison with the float network."""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import printable_lines
from rknn_runtime.conversion.accuracy import AccuracyReport, compare
from rknn_runtime.conversion.calibration import framed
from rknn_runtime.conversion.html import page, table
from rknn_runtime.conversion.plan import Plan, custom_string
from rknn_runtime.conversion.sides import OnnxSide
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.model import Model
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.sim.emulator import Verdict
from rknn_runtime.sim.inspection import TensorComparison
from rknn_runtime.vision.detector import Detector
from rknn_runtime.vision.images import import_pillow

_STYLE = "figure{display:inline-block;margin:.5em;width:46%}img{width:100%}"

#: Images on the page.
_EXAMPLES = 4
_NORMALIZATION = ("mean_values", "std_values")
#: Layers in the report.
_WORST = 5


@dataclass(frozen=True)
class Example:
    """An image with the detections of both drawn in."""

    name: str
    #: ``(H, W, 3) uint8``, RGB.
    in_float: Array
    converted: Array


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
    examples: tuple[Example, ...] = field(repr=False, default=())

    def to_dict(self) -> dict[str, Any]:
        """Return all but the images as plain Python values, ready for JSON."""
        return {
            "by": self.by,
            "accuracy": self.accuracy.to_dict(),
            "layers": [
                {
                    "name": layer.name,
                    "op": layer.op,
                    "shape": list(layer.shape),
                    "cosine": _finite(layer.cosine),
                    "error": _finite(layer.error),
                    "step": layer.step,
                    "saturated": layer.saturated,
                }
                for layer in self.layers
            ],
            "on_cpu": self.on_cpu,
            "file_bytes": self.file_bytes,
            "weight_bytes": self.weight_bytes,
            "internal_bytes": self.internal_bytes,
        }

    def __str__(self) -> str:
        lines = [f"judged by {self.by}", *str(self.accuracy).split("\n")]
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

    def to_dict(self) -> dict[str, Any]:
        """Return all but the log as plain Python values, ready for JSON."""
        return {
            "file": str(self.path),
            "target": self.target,
            "cut": list(self.cut),
            "head": self.head,
            "notes": list(self.notes),
            "report": self.report and self.report.to_dict(),
        }

    def to_html(self) -> str:
        """Return the report as a page with plots and images, which loads nothing from elsewhere."""
        ends = f"cut at {len(self.cut)} tensors" if self.cut else "ends as it did"
        head = html.escape(self.head or "not known")
        parts = [f"<p>For {self.target}; {ends}; head {head}.</p>"]
        parts += [f'<p class="note">{html.escape(note)}</p>' for note in self.notes]
        if self.report is not None:
            parts += _of_report(self.report)
        return page(self.path.name, parts, _STYLE)

    def __str__(self) -> str:
        ends = f"cut at {len(self.cut)} tensors" if self.cut else "ends as it did"
        lines = [f"{self.path}: for {self.target}, {ends}, head {self.head or 'not known'}"]
        lines += [f"note: {note}" for note in self.notes]
        if self.report is not None:
            lines += str(self.report).split("\n")
        return printable_lines(lines)


def _cpu_words(on_cpu: Mapping[str, int] | None) -> str:
    """List the operators of the CPU for people."""
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
    """Compare a file with the float network.

    Args:
        path: The file.
        plan: The plan of the conversion, for an ONNX file of one image.
        images: The images to compare with.
        folder: A folder for temporary files.
        config: The parameters of the toolkit's ``config``.
        simulate: Returns the outputs of the toolkit's simulator, for files that the simulated NPU
            does not run.
        notes: Receives a note if so.
    """
    assert plan.onnx is not None
    network = folder / "float.onnx"
    network.write_bytes(plan.onnx)
    means, stds = ([row[: plan.channels] for row in config[name]] for name in _NORMALIZATION)

    def compared(other: Path | list[list[Array]]) -> AccuracyReport:
        frames, options = _Frames(plan, images), _options(plan)
        detect = plan.head is not None
        return compare(
            network, other, frames, detect=detect, mean_values=means, std_values=stds, **options
        )

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
        assert plan.size is not None
        first = framed(images[0], plan.size, plan.color)
        layers = model.compare(plan.onnx, first).worst(_WORST)
        examples = _examples(model, plan, images[:_EXAMPLES], means, stds)
    return ConversionReport(
        f"{by} ({emulation})", accuracy, layers, on_cpu, *_sizes(path), examples
    )


def _sizes(path: Path) -> tuple[int, int, int]:
    """Return the bytes of the file, of its weights, and of its memory while it runs."""
    info = read(path)
    return info.file_bytes, info.weight_bytes, info.internal_bytes


def _options(plan: Plan) -> dict[str, Any]:
    if plan.head is None:
        return {}
    options: dict[str, Any] = {"head": plan.head.name, **plan.head.options}
    if plan.head.logits:
        options["logits"] = True
    if plan.labels is not None:
        options["labels"] = plan.labels
    return options


class _Frames:
    """The images as the network gets them, read one at a time."""

    def __init__(self, plan: Plan, images: Sequence[Path]) -> None:
        self._plan, self._images = plan, images

    def __iter__(self) -> Iterator[Array]:
        assert self._plan.size is not None
        for image in self._images:
            yield framed(image, self._plan.size, self._plan.color)


def _examples(
    model: Model,
    plan: Plan,
    images: Sequence[Path],
    means: Sequence[Sequence[float]],
    stds: Sequence[Sequence[float]],
) -> tuple[Example, ...]:
    """Draw the detections of both."""
    if plan.head is None or plan.color == "GRAY" or plan.onnx is None or plan.size is None:
        return ()
    said, _ = custom_string(plan.head, plan.labels, None, None, plan.color, quantized=False)
    frames = [framed(image, plan.size, plan.color) for image in images]
    examples = []
    with Model(in_float(plan.onnx, frames, means, stds, said), library="sim") as reference:
        detectors = [
            Detector(each, plan.labels, input_color=plan.color) for each in (reference, model)
        ]
        for image, (frame,) in zip(images, frames):
            drawn = [
                detector(frame, color=plan.color).draw(frame, plan.labels, color=plan.color)
                for detector in detectors
            ]
            if plan.color == "BGR":
                drawn = [each[..., ::-1] for each in drawn]
            examples.append(Example(image.name, *drawn))
    return tuple(examples)


def in_float(
    onnx: bytes,
    frames: Sequence[Array],
    means: Sequence[Sequence[float]],
    stds: Sequence[Sequence[float]],
    said: str,
) -> bytes:
    """Make a bundle that answers frames as a network of one image does in float.

    Args:
        onnx: The network.
        frames: Pixels, ``(1, H, W, C) uint8``.
        means: Mean of each channel, of the one input.
        stds: What to divide by, likewise.
        said: The custom string.
    """
    (mean,), (std,) = means, stds
    given = Preprocessing(tuple(mean), tuple(std), rgb2bgr=False)
    source = OnnxSide(onnx, "the network", (given,))
    answers = [source.run(index, (frame,)) for index, frame in enumerate(frames)]
    floats: dict[str, Any] = {"dtype": TensorType.FLOAT16, "zero_point": None, "scale": None}
    n, height, width, channels = frames[0].shape
    (image,) = source.graph.inputs
    outputs = zip(source.graph.outputs, answers[0])
    return bundle_from_arrays(
        [describe_input(image.name, (n, channels, height, width), **floats)],
        [describe_output(each.name, array.shape, **floats) for each, array in outputs],
        [Record(answer, [frame]) for frame, answer in zip(frames, answers)],
        custom_string=said,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mib(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def _of_report(report: ConversionReport) -> Iterable[str]:
    yield f"<p>Judged by {html.escape(report.by)}.</p>"
    yield from _of_accuracy(report.accuracy)
    if report.layers:
        yield "<h2>Worst layers</h2>"
        rows = [
            (layer.name, layer.op, f"{layer.cosine:.5f}", f"{layer.saturated:.1%}")
            for layer in report.layers
        ]
        yield table(("layer", "operator", "cosine", "clipped"), rows)
    yield "<h2>Sizes</h2>"
    yield f"<p>On the board's CPU: {html.escape(_cpu_words(report.on_cpu))}.</p>"
    sizes = (report.file_bytes, report.weight_bytes, report.internal_bytes)
    shown = [f"{size / 2**20:.2f} MiB" for size in sizes]
    yield table(("file", "weights", "memory while it runs"), [shown])
    if report.examples:
        yield "<h2>Images</h2><p>Left: in float. Right: the file.</p>"
    for example in report.examples:
        for pixels in (example.in_float, example.converted):
            yield f"<figure>{_image(pixels, example.name)}</figure>"


def _of_accuracy(accuracy: AccuracyReport) -> Iterable[str]:
    found = accuracy.detections
    if found is not None:
        yield f"<h2>Detections in {accuracy.frames} images</h2>"
        rows = [
            ("in float", str(found.count)),
            ("in the file", str(found.other_count)),
            ("in both", str(len(found.matches))),
            ("only in float", str(len(found.missed))),
            ("only in the file", str(len(found.extra))),
        ]
        if found.matches:
            rows += [
                ("mean IoU", f"{found.mean_iou:.4f}"),
                ("mean difference of confidence", f"{found.mean_confidence_difference:.4f}"),
            ]
        yield table((), rows)
        pairs = [(match.confidence, match.other_confidence) for match in found.matches]
        yield _scatter(pairs, "confidence in float", "confidence in the file")
        yield _histogram([match.iou for match in found.matches], "IoU of what both find")
    yield "<h2>Outputs</h2>"
    outputs = [
        (row.name, f"{row.cosine:.6f}", f"{row.worst_cosine:.6f}", f"{row.max_error:.4g}")
        for row in accuracy.worst(len(accuracy.outputs))
    ]
    yield table(("output", "cosine", "of the worst image", "largest error"), outputs)


def _scatter(points: Sequence[tuple[float, float]], across: str, up: str) -> str:
    """Plot pairs of 0..1."""
    dots = "".join(
        f'<circle cx="{40 + 200 * x:.1f}" cy="{220 - 200 * y:.1f}" r="2.5" fill="#06c8"/>'
        for x, y in points
    )
    line = '<line x1="40" y1="220" x2="240" y2="20" stroke="#bbb"/>'
    return _svg(line + dots, across, up)


def _histogram(values: Sequence[float], across: str) -> str:
    """Plot a histogram of values of 0..1 in 20 columns."""
    counts, _ = np.histogram(values, 20, (0, 1))
    top = max(int(counts.max()), 1)
    bars = "".join(
        f'<rect x="{40 + 10 * i}" y="{220 - 200 * int(n) / top:.1f}" width="9" '
        f'height="{200 * int(n) / top:.1f}" fill="#06c"/>'
        for i, n in enumerate(counts)
    )
    return _svg(bars, across, f"up to {top}")


def _svg(marks: str, across: str, up: str) -> str:
    return (
        '<svg width="260" height="250" font-size="11">'
        '<rect x="40" y="20" width="200" height="200" fill="#fff" stroke="#ccc"/>'
        f'{marks}<text x="40" y="238">0</text><text x="232" y="238">1</text>'
        f'<text x="140" y="245" text-anchor="middle">{html.escape(across)}</text>'
        f'<text x="14" y="120" transform="rotate(-90 14 120)" text-anchor="middle">'
        f"{html.escape(up)}</text></svg>"
    )


def _image(pixels: Array, name: str) -> str:
    file = io.BytesIO()
    import_pillow().Image.fromarray(pixels).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/png;base64,{data}">'
