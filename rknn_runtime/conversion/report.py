"""How good a converted file is: what it detects beside the network in float."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rknn_runtime._arrays import Array
from rknn_runtime._files import printable_lines
from rknn_runtime.conversion.accuracy import AccuracyReport, compare
from rknn_runtime.conversion.calibration import framed
from rknn_runtime.conversion.facts import custom_string
from rknn_runtime.conversion.plan import Plan
from rknn_runtime.emulation import TensorComparison, Verdict
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.model import Model
from rknn_runtime.sim.make import bundle_from_onnx
from rknn_runtime.vision.detector import Detector

__all__ = ["ConversionReport", "Example", "judged"]

#: Images that are kept for the page.
_EXAMPLES = 4
_NORMALIZATION = ("mean_values", "std_values")
#: Layers that are named.
_WORST = 5


@dataclass(frozen=True)
class Example:
    """An image with what was found drawn in."""

    name: str
    #: ``(H, W, 3) uint8``, RGB.
    in_float: Array
    converted: Array


@dataclass(frozen=True)
class ConversionReport:
    """A file beside its network; ``str()`` is a text."""

    #: Who computed the file's outputs.
    by: str
    accuracy: AccuracyReport
    #: The worst layers of one image, worst first.
    layers: tuple[TensorComparison, ...]
    #: Operators without commands of the NPU, and how many there are: the board's CPU runs them.
    #: None: not known.
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
        lines.append(f"on the CPU: {cpu_words(self.on_cpu)}")
        lines.append(
            f"{_mib(self.file_bytes)} file, {_mib(self.weight_bytes)} weights, "
            f"{_mib(self.internal_bytes)} memory while it runs"
        )
        return printable_lines(lines)


def cpu_words(on_cpu: Mapping[str, int] | None) -> str:
    """Operators of the CPU for people."""
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
    """Compare a file with the network in float.

    Args:
        path: The file.
        plan: What was made of the network; an ONNX file of one image.
        images: To compare with.
        folder: An empty place.
        config: The parameters that it was built with.
        simulate: Gives the outputs of the toolkit's own simulator, which is asked where the
            simulated NPU does not run the file.
        notes: Where that is noted.
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
    """Bytes of the file, of its weights, and of what it takes while it runs."""
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
    """The images as the network gets them, read one by one."""

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
    """Draw what both find."""
    if plan.head is None or plan.color == "GRAY" or plan.onnx is None or plan.size is None:
        return ()
    said, _ = custom_string(plan.head, plan.labels, None, None, plan.color, quantized=False)
    bundle = bundle_from_onnx(plan.onnx, custom_string=said, mean_values=means, std_values=stds)
    examples = []
    with Model(bundle, library="sim") as reference:
        detectors = [
            Detector(each, plan.labels, input_color=plan.color) for each in (reference, model)
        ]
        for image in images:
            frame = framed(image, plan.size, plan.color)[0]
            drawn = [
                detector(frame, color=plan.color).draw(frame, plan.labels, color=plan.color)
                for detector in detectors
            ]
            if plan.color == "BGR":
                drawn = [each[..., ::-1] for each in drawn]
            examples.append(Example(image.name, *drawn))
    return tuple(examples)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mib(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"
