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
from rknn_runtime.sim.values import real_input
from rknn_runtime.tensor import TensorAttr

__all__ = ["compare", "real_inputs", "tensors"]

WORST_CHANNELS = 3
#: Of ONNX's protocol buffers: the graph of a model, nodes and outputs of a graph, outputs and
#: name of those.
MODEL_GRAPH, GRAPH_NODE, GRAPH_OUTPUT, NODE_OUTPUT, VALUE_NAME = 7, 1, 12, 2, 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


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
        RknnError: onnxruntime is not installed.
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
        for model_field, graph in _fields(memoryview(onnx)):
            if model_field != MODEL_GRAPH:
                continue
            for graph_field, node in _fields(graph):
                if graph_field != GRAPH_NODE:
                    continue
                for node_field, name in _fields(node):
                    if node_field == NODE_OUTPUT:
                        yield bytes(name).decode()
    except (IndexError, ValueError) as error:
        raise InvalidModelError(
            f"onnx: expected an ONNX file, got one that ends: {error}"
        ) from None


def _more_outputs(names: Sequence[str]) -> bytes:
    """Return what, behind an ONNX file, makes these tensors outputs: buffers are merged."""
    outputs = b""
    for name in names:
        value = _field(VALUE_NAME, name.encode())
        outputs += _field(GRAPH_OUTPUT, value)
    return _field(MODEL_GRAPH, outputs)


def _field(number: int, content: bytes) -> bytes:
    return _written(number << 3 | BYTES) + _written(len(content)) + content


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that are bytes, texts or buffers; others are skipped."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == VARINT:
            _, at = _number(data, at)
        elif kind == BYTES:
            length, at = _number(data, at)
            if length > len(data) - at:
                raise ValueError("in the middle of a field")
            yield key >> 3, data[at : at + length]
            at += length
        elif kind in (FIXED64, FIXED32):
            at += 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"with a field of type {kind}")


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, and where it ends."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("with a number of more than 64 bits")
