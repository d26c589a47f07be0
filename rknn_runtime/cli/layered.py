"""What ``rknn-runtime info --layers`` adds: the operators, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknn_runtime.modelfile.layers import Layer, LayerTensor

__all__ = ["as_json", "count", "lines", "shape", "short_name", "summary"]

_TITLES = (
    "#", "operator", "name", "runs on", "tasks", "input", "output", "MACs", "weight bytes",
    "input bytes", "output bytes",
)  # fmt: skip


def summary(layers: Sequence[Layer]) -> str:
    """A few words for a table."""
    cpu = sum(layer.device == "CPU" for layer in layers)
    inner = sum(bool(layer.device) for layer in layers)
    macs = count(sum(layer.macs for layer in layers))
    return f"{inner}, {cpu} on the CPU, {macs}MACs" if cpu else f"{inner}, {macs}MACs"


def lines(layers: Sequence[Layer]) -> list[Sequence[str]]:
    """The rows for one model: a title, a row for each operator, the sums."""
    rows: list[Sequence[str]] = [_TITLES]
    rows += [
        (
            str(number),
            layer.operator,
            short_name(layer.name),
            layer.device or "-",
            "?" if layer.tasks is None else str(layer.tasks),
            " ".join(map(shape, layer.inputs)),
            " ".join(map(shape, layer.outputs)),
            str(layer.macs or "-"),
            *(str(size or "-") for size in _sizes(layer)),
        )
        for number, layer in enumerate(layers)
    ]
    sums = map(sum, zip(*((layer.tasks or 0, layer.macs, *_sizes(layer)) for layer in layers)))
    tasks, *others = (str(number) for number in sums)
    return [*rows, ("", "sum", "", "", tasks, "", "", *others)]


def as_json(layers: Sequence[Layer]) -> list[dict[str, Any]]:
    """The same with stable keys, and the names of the tensors."""
    return [
        {
            "operator": layer.operator,
            "name": layer.name,
            "device": layer.device or None,
            "tasks": layer.tasks,
            "inputs": [_tensor_as_json(tensor) for tensor in layer.inputs],
            "outputs": [_tensor_as_json(tensor) for tensor in layer.outputs],
            "macs": layer.macs,
            "weight_bytes": layer.weight_bytes,
            "input_bytes": layer.input_bytes,
            "output_bytes": layer.output_bytes,
        }
        for layer in layers
    ]


def _tensor_as_json(tensor: LayerTensor) -> dict[str, Any]:
    return {**tensor._asdict(), "dtype": tensor.dtype and tensor.dtype.name}


def _sizes(layer: Layer) -> tuple[int, int, int]:
    return layer.weight_bytes, layer.input_bytes, layer.output_bytes


def shape(tensor: LayerTensor) -> str:
    """The sizes of a tensor, ``1x3x320x320``."""
    return "x".join(map(str, tensor.shape)) or "scalar"


def short_name(name: str, most: int = 40) -> str:
    """The end of a name, where those of one network differ."""
    return name if len(name) <= most else "..." + name[3 - most :]


def count(number: float) -> str:
    """A number for people: ``"1.2 G"``, with the space that a unit needs before it."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number:g} "
