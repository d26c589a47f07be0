"""Looks into a model on the emulated NPU: every tensor, and where int8 leaves float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from rknn_runtime._arrays import Array, plain
from rknn_runtime._files import printable_lines
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim.emulator import EmulatorError, Machine, NodeInfo, TensorInfo, Verdict
from rknn_runtime.sim.graph import Graph, import_onnx
from rknn_runtime.sim.recorded import real_input
from rknn_runtime.tensor import TensorAttr

__all__ = ["Comparison", "TensorComparison", "compare", "real_inputs", "tensors"]

WORST_CHANNELS = 3


@dataclass(frozen=True)
class TensorComparison:
    """A tensor on the emulated NPU, compared with the ONNX file in float."""

    name: str
    #: The node that computes it: ``"ConvRelu"``.
    op: str
    #: Logical, in the exporting framework's order.
    shape: tuple[int, ...]
    #: Of the two as vectors: 1.0 is the same direction.
    cosine: float
    #: Largest difference, in the tensor's own unit.
    error: float
    #: One quantization step; 0.0 where the tensor is not quantized.
    step: float
    #: Part of the values, 0 to 1, that lie outside of the range of the type.
    saturated: float
    #: ``(channel, cosine)`` of the worst three of a tensor of rank 4.
    worst_channels: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Comparison:
    """A walk along the graph; ``str()`` is a table."""

    #: In the order of their computation.
    tensors: tuple[TensorComparison, ...]
    #: Names of tensors that the ONNX file does not have, or not in this size.
    missing: tuple[str, ...]

    def worst(self, count: int = 5) -> tuple[TensorComparison, ...]:
        """Return the tensors with the smallest cosines, smallest first."""
        return tuple(sorted(self.tensors, key=lambda tensor: tensor.cosine)[:count])

    def __str__(self) -> str:
        rows = [f"{'cosine':>8} {'error':>10} {'step':>10} {'clipped':>8}  tensor"]
        rows += [
            f"{t.cosine:8.5f} {t.error:10.4g} {t.step:10.4g} {t.saturated:8.2%}  {t.name} ({t.op})"
            for t in self.tensors
        ]
        if self.missing:
            rows.append(f"not in the ONNX file: {', '.join(self.missing)}")
        return printable_lines(rows)


def _computed(machine: Machine) -> Iterator[tuple[NodeInfo, TensorInfo, Array]]:
    """Run the graph again; yield the values of every tensor when they are computed."""
    for node in machine.walk():
        if node.verdict is Verdict.NOTHING:
            continue
        for index in node.outputs:
            tensor = machine.tensors[index]
            if tensor.dtype is None or not tensor.name:
                continue
            with suppress(EmulatorError):  # one without values of its own
                yield node, tensor, machine.read(index)


def tensors(machine: Machine, *, dequantize: bool) -> dict[str, Array]:
    """Return all tensors that nodes compute, by name; see `LoadedModel.tensors`."""
    return {
        tensor.name: machine.read_float(tensor) if dequantize else values
        for _, tensor, values in _computed(machine)
    }


def real_inputs(
    machine: Machine, attrs: Sequence[TensorAttr], inputs: Sequence[Array]
) -> dict[str, Array]:
    """Convert the inputs of a model to the float inputs of its graph, by name."""
    found = {}
    for index, (attr, array) in enumerate(zip(attrs, inputs)):
        mean, std = machine.normalisation(index)
        given = Preprocessing(tuple(mean), tuple(std), rgb2bgr=False) if mean else None
        array = plain(array, "inputs")
        whole = array[None] if array.ndim == len(attr.shape) - 1 else array
        found[attr.name] = real_input(attr, given, np.ascontiguousarray(whole))[-1:]
    return found


def compare(machine: Machine, onnx: bytes, inputs: Mapping[str, Array]) -> Comparison:
    """Compare the tensors of the last run with those that the ONNX file has for these inputs.

    Raises:
        InvalidModelError: The file cannot be read, or is not the same model.
        ImportError: The package onnx or onnxruntime is not installed.
    """
    names, whole = _with_outputs(onnx, {tensor.name for tensor in machine.tensors})
    graph = Graph(whole)
    if {tensor.name for tensor in graph.inputs} != set(inputs):
        raise InvalidModelError(
            f"onnx: expected the inputs {', '.join(inputs)}, got "
            f"{', '.join(tensor.name for tensor in graph.inputs)}"
        )
    expected = dict(zip(names, graph.run(inputs, names)))
    compared, missing = [], []
    for node, tensor, values in _computed(machine):
        theirs = expected.get(tensor.name)
        if theirs is None or theirs.size != values.size or theirs.dtype.kind != "f":
            missing.append(tensor.name)
            continue
        ours = machine.read_float(tensor)
        compared.append(_compared(node, tensor, ours, theirs.reshape(tensor.shape)))
    return Comparison(tuple(compared), tuple(missing))


def _with_outputs(data: bytes, wanted: set[str]) -> tuple[list[str], bytes]:
    """Make the tensors of these names outputs of an ONNX file; return those that it has, too."""
    onnx = import_onnx()
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own classes have no common name
        raise InvalidModelError(f"onnx: expected an ONNX file, got {error}") from None
    computed = dict.fromkeys(name for node in model.graph.node for name in node.output)
    names = [name for name in computed if name in wanted]
    for name in names:
        model.graph.output.add().name = name
    return names, model.SerializeToString()


def _compared(node: NodeInfo, tensor: TensorInfo, ours: Array, theirs: Array) -> TensorComparison:
    theirs = theirs.astype(np.float64)
    saturated = 0.0
    if tensor.scale and tensor.dtype is not None and tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.dtype)
        low, high = (
            (limit - tensor.zero_point) * tensor.scale for limit in (limits.min, limits.max)
        )
        half = tensor.scale / 2
        saturated = float(((theirs < low - half) | (theirs > high + half)).mean())
    channels: tuple[tuple[int, float], ...] = ()
    if len(tensor.shape) == 4:
        cosines = [(c, _cosine(ours[:, c], theirs[:, c])) for c in range(tensor.shape[1])]
        channels = tuple(sorted(cosines, key=lambda pair: pair[1])[:WORST_CHANNELS])
    return TensorComparison(
        name=tensor.name,
        op=node.op,
        shape=tensor.shape,
        cosine=_cosine(ours, theirs),
        error=float(np.abs(ours - theirs).max(initial=0.0)),
        step=tensor.scale,
        saturated=saturated,
        worst_channels=channels,
    )


def _cosine(a: Array, b: Array) -> float:
    """1.0 for two vectors without a length, 0.0 if only one has a length."""
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if 0.0 in lengths:
        return float(lengths[0] == lengths[1])
    return float(a @ b / (lengths[0] * lengths[1]))
