"""Looks into a model on the emulated NPU: every tensor, and where int8 leaves float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from rknn_runtime._arrays import Array, plain
from rknn_runtime.emulation import Comparison, NodeInfo, TensorComparison, TensorInfo, Verdict
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim.emulator import EmulatorError, Machine
from rknn_runtime.sim.executor import Graph
from rknn_runtime.sim.protobuf import field, parts
from rknn_runtime.sim.values import real_input
from rknn_runtime.tensor import TensorAttr

__all__ = ["compare", "real_inputs", "tensors"]

WORST_CHANNELS = 3
#: Of ONNX's protocol buffers: the graph of a model, nodes and outputs of a graph, outputs and
#: name of those.
MODEL_GRAPH, GRAPH_NODE, GRAPH_OUTPUT, NODE_OUTPUT, VALUE_NAME = 7, 1, 12, 2, 1


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
    """Turn what a model was given into what its graph sees in float, by name.

    Raises:
        ValueError: An array that is neither pixels nor float32.
    """
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
        ImportError: onnxruntime is not installed.
    """
    wanted = {tensor.name for tensor in machine.tensors}
    names = [name for name in dict.fromkeys(_node_outputs(onnx)) if name in wanted]
    graph = Graph(onnx + _more_outputs(names))
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
    """1.0 for two vectors without a length, 0.0 for one beside one with a length."""
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    lengths = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if 0.0 in lengths:
        return float(lengths[0] == lengths[1])
    return float(a @ b / (lengths[0] * lengths[1]))


def _node_outputs(onnx: bytes) -> Iterator[str]:
    """Names of all tensors that the nodes of the graph compute.

    Raises:
        InvalidModelError: This is no protocol buffer.
    """
    try:
        for graph in parts(memoryview(onnx), MODEL_GRAPH):
            for node in parts(graph, GRAPH_NODE):
                for name in parts(node, NODE_OUTPUT):
                    yield bytes(name).decode()
    except (IndexError, ValueError) as error:
        raise InvalidModelError(
            f"onnx: expected an ONNX file, got one that ends: {error}"
        ) from None


def _more_outputs(names: Sequence[str]) -> bytes:
    """Return what, behind an ONNX file, makes these tensors outputs: buffers are merged."""
    outputs = b""
    for name in names:
        value = field(VALUE_NAME, name.encode())
        outputs += field(GRAPH_OUTPUT, value)
    return field(MODEL_GRAPH, outputs)
