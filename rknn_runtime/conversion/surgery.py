"""Changes of a network that keep its function in float and suit int8."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.simulation import Moments, rounded_weights
from rknn_runtime.sim.graph import Graph, import_onnx, import_onnxruntime

Seen = Mapping[str, Moments]
#: Operators that compute each value from one value alone.
_ELEMENTWISE = (
    "Sigmoid", "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Clip", "Tanh", "Mul", "Add", "Div",
    "Sub", "Softplus", "Elu", "Mish", "Min", "Max",
)  # fmt: skip
#: Activations that a positive factor passes through.
_HOMOGENEOUS = ("Relu", "LeakyRelu")
#: At most so many groups of channels, and so much more range for a channel.
_GROUPS, _FACTOR = 3, 32.0
#: A tensor is even if its channels use so much of its range on average (as powers of 2).
_EVEN = 2.0


class Net:
    """A network to change."""

    def __init__(self, onnx: bytes) -> None:
        self.package = import_onnx()
        self.model = self.package.load_model_from_string(onnx)
        graph = self.model.graph
        self.outputs = {each.name for each in graph.output}
        self.constants = {
            each.name: np.asarray(self.package.numpy_helper.to_array(each))
            for each in graph.initializer
        }
        self.readers: dict[str, list[Any]] = {}
        for node in graph.node:
            for name in dict.fromkeys(node.input):
                self.readers.setdefault(name, []).append(node)

    def tensors(self) -> list[str]:
        """Return the names of all inner tensors and outputs."""
        return [name for node in self.model.graph.node for name in node.output if name]

    def operator(self, tensor: str) -> str:
        """Return what computes a tensor; empty if nothing does."""
        for node in self.model.graph.node:
            if tensor in node.output:
                return str(node.op_type)
        return ""

    def convolutions(self) -> Iterator[Any]:
        """Yield the convolutions with constant weights."""
        for node in list(self.model.graph.node):
            given = [name for name in node.input[1:] if name]
            if node.op_type in ("Conv", "ConvTranspose") and self.constants.keys() >= set(given):
                yield node

    def weights(self, node: Any) -> tuple[Array, Array]:
        """Return weights and bias of a convolution."""
        weights = self.constants[node.input[1]]
        count = weights.shape[0]
        if node.op_type == "ConvTranspose":
            count = weights.shape[1] * attribute(node, "group", 1)
        has_bias = len(node.input) > 2 and node.input[2]
        bias = self.constants[node.input[2]] if has_bias else np.zeros(count, np.float32)
        return weights, bias

    def give(self, node: Any, place: int, values: Array) -> None:
        """Give a node its own constant."""
        name = f"{node.output[0]}_{place}"
        while name in self.constants:
            name += "_"
        self.constants[name] = values
        tensor = self.package.numpy_helper.from_array(
            np.ascontiguousarray(values.astype(np.float32)), name
        )
        self.model.graph.initializer.append(tensor)
        while len(node.input) <= place:
            node.input.append("")
        node.input[place] = name

    def is_depthwise(self, node: Any) -> bool:
        """Whether each output channel is made of one input channel."""
        weights = self.constants.get(node.input[1]) if node.op_type == "Conv" else None
        return weights is not None and attribute(node, "group", 1) == len(weights) > 1

    def region(self, start: str) -> tuple[list[Any], list[str]]:
        """Return the elementwise nodes that a tensor runs through, and the tensors others read."""
        inside, nodes = {start}, []
        for node in self.model.graph.node:
            given = [name for name in node.input if name and name not in self.constants]
            small = all(self.constants[n].size == 1 for n in node.input if n in self.constants)
            if node.op_type in _ELEMENTWISE and given and inside.issuperset(given) and small:
                nodes.append(node)
                inside.update(node.output)
        own = {node.output[0] for node in nodes}
        ends = [
            name
            for name in inside
            if name in self.outputs
            or any(each.output[0] not in own for each in self.readers.get(name, ()))
        ]
        return nodes, ends

    def data(self) -> bytes:
        """Return the network without constants that nobody reads."""
        graph = self.model.graph
        read = {name for node in graph.node for name in node.input} | self.outputs
        kept = [each for each in graph.initializer if each.name in read]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        del graph.value_info[:]
        data: bytes = self.model.SerializeToString()
        return data


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return a number or a list of an operator."""
    for each in node.attribute:
        if each.name == name:
            return list(each.ints) or each.i
    return default


def simplified(onnx: bytes, feed: Mapping[str, Array]) -> bytes:
    """Fold constants and batch normalizations; the network as it is if that changes it."""
    package, onnxruntime = import_onnx(), import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            onnx, options, providers=["CPUExecutionProvider"],
            disabled_optimizers=["ConstantSharing", "MatMulAddFusion"],
        )  # fmt: skip
        model = package.load_model(str(path))
    if any(node.domain for node in model.graph.node):
        return onnx
    own = [each for each in model.opset_import if not each.domain]
    del model.opset_import[:]
    model.opset_import.extend(own)
    data: bytes = model.SerializeToString()
    before, after = Graph(onnx), Graph(data)
    names = [each.name for each in before.outputs]
    if names != [each.name for each in after.outputs]:
        return onnx
    pairs = zip(before.run(feed, names), after.run(feed, names))
    return data if all(_equal(a, b) for a, b in pairs) else onnx


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-3 * max(1.0, np.abs(a).max()))


def equalized(onnx: bytes, seen: Seen) -> bytes:
    """Give the channels of a tensor between convolutions like ranges, by factors in both.

    Exact only through Relu, LeakyRelu or nothing. All the difference is taken where only depthwise
    convolutions read the tensor, else its root, since weights get unlike.
    """
    net, is_changed = Net(onnx), False
    for node in net.convolutions():
        if node.op_type != "Conv":
            continue
        tensor, readers = node.output[0], net.readers.get(node.output[0], [])
        if len(readers) == 1 and readers[0].op_type in _HOMOGENEOUS and tensor not in net.outputs:
            tensor = readers[0].output[0]
            readers = net.readers.get(tensor, [])
        weights, bias = net.weights(node)
        fits = readers and tensor in seen and tensor not in net.outputs
        if not fits or not all(_reads(net, each, tensor, len(weights)) for each in readers):
            continue
        factors = _factors(seen[tensor], all(map(net.is_depthwise, readers)))
        if factors is None:
            continue
        net.give(node, 1, weights * factors[:, None, None, None])
        net.give(node, 2, bias * factors)
        for each in readers:
            along = (-1, 1, 1, 1) if net.is_depthwise(each) else (1, -1, 1, 1)
            net.give(each, 1, net.constants[each.input[1]] / factors.reshape(along))
        is_changed = True
    return net.data() if is_changed else onnx


def _reads(net: Net, node: Any, tensor: str, channels: int) -> bool:
    """Whether a node is a convolution of a tensor that can take factors of its channels."""
    if node.op_type != "Conv" or node.input[0] != tensor or node.input[1] not in net.constants:
        return False
    weights = net.constants[node.input[1]]
    if weights.ndim != 4:
        return False
    return net.is_depthwise(node) or (
        attribute(node, "group", 1) == 1 and weights.shape[1] == channels
    )


def _factors(seen: Moments, depthwise: bool) -> Array | None:
    """Return what to multiply channels with; None if they are even."""
    sizes = np.maximum(np.abs(seen.least), np.abs(seen.most))
    whole = float(sizes.max())
    if whole <= 0:
        return None
    factors = np.clip(whole / np.maximum(sizes, 1e-12), 1, _FACTOR)
    if np.log2(factors).mean() < _EVEN:
        return None
    return np.asarray(factors if depthwise else np.sqrt(factors), np.float32)


def split(onnx: bytes, seen: Seen, chosen: Callable[[str], bool]) -> bytes:
    """Split tensors with unlike channels into groups of like range, up to depthwise convolutions.

    Exact for any activation. `chosen` says which tensors are worth it.
    """
    net = Net(onnx)
    done: set[str] = set()
    while (found := _next_split(net, seen, chosen, done)) is not None:
        _split(net, *found)
        onnx = net.data()
        net = Net(onnx)
    return onnx


def _next_split(net: Net, seen: Seen, chosen: Callable[[str], bool], done: set[str]) -> Any:
    """Find what `_split` can split next; None if there is nothing left."""
    for node in net.convolutions():
        if node.output[0] in done or node.op_type != "Conv" or attribute(node, "group", 1) != 1:
            continue
        done.add(node.output[0])
        nodes, ends = net.region(node.output[0])
        if len(ends) != 1 or ends[0] in net.outputs or ends[0] not in seen or not chosen(ends[0]):
            continue
        own, size = {each.output[0] for each in nodes}, len(net.weights(node)[0])
        readers = [each for each in net.readers[ends[0]] if each.output[0] not in own]
        if not all(net.is_depthwise(each) and _reads(net, each, ends[0], size) for each in readers):
            continue
        parts = _parts(seen[ends[0]])
        tails = [(each, *net.region(each.output[0])) for each in readers]
        if len(parts) > 1 and all(_takes_any_order(net, after, ends) for _, after, ends in tails):
            return node, nodes, [(each, after, ends[0]) for each, after, ends in tails], parts
    return None


def _takes_any_order(net: Net, after: Sequence[Any], ends: Sequence[str]) -> bool:
    """Whether only common convolutions read a tensor: they can take its channels in any order."""
    own = {each.output[0] for each in after}
    if len(ends) != 1 or ends[0] in net.outputs:
        return False
    readers = [each for each in net.readers.get(ends[0], ()) if each.output[0] not in own]
    return all(
        each.op_type == "Conv"
        and each.input[0] == ends[0]
        and each.input[1] in net.constants
        and attribute(each, "group", 1) == 1
        for each in readers
    )


def _parts(seen: Moments) -> list[Array]:
    """Group channels by their ranges so that each uses much of its group's."""
    sizes = np.log2(np.maximum(np.abs(seen.least), np.abs(seen.most)) + 1e-6)
    order = np.argsort(-sizes)
    top = sizes[order]
    top = np.maximum(top, top[0] - 10)
    if (top[0] - top).mean() < _EVEN:
        return [np.arange(len(top))]
    cuts = [
        cut
        for count in range(1, _GROUPS)
        for cut in combinations(range(1, len(top)), count)
        if len(top) <= 64 or all(each % 4 == 0 for each in cut)
    ]

    def cost(cut: tuple[int, ...]) -> float:
        edges = (0, *cut, len(top))
        # Each group costs a launch; squared, since a channel with few steps is lost altogether.
        return len(edges) + sum(
            float(np.square(top[a] - top[a:b]).sum()) / len(top) for a, b in zip(edges, edges[1:])
        )

    edges = (0, *min(cuts, key=cost), len(top))
    return [np.sort(order[a:b]) for a, b in zip(edges, edges[1:])]


def _split(net: Net, node: Any, nodes: Sequence[Any], tails: Sequence[Any], parts: Any) -> None:
    """Clone a convolution, its activation and the depthwise convolutions for each part.

    The convolutions that read the joined tensors take their channels in the order of the parts.
    """
    graph = net.model.graph
    gone = [node, *nodes, *(each for reader, after, _ in tails for each in (reader, *after))]
    inside = {name for each in gone for name in each.output}
    added: list[Any] = []

    def clone(each: Any, part: int) -> Any:
        copy = type(each).FromString(each.SerializeToString())
        copy.name = f"{each.name or each.output[0]}_part{part}"
        for names in (copy.input, copy.output):
            for i, name in enumerate(names):
                if name in inside:
                    names[i] = f"{name}_part{part}"
        added.append(copy)
        return copy

    for part, channels in enumerate(parts):
        for each in gone:
            copy = clone(each, part)
            if each.op_type == "Conv":
                weights, bias = net.weights(each)
                net.give(copy, 1, weights[channels])
                net.give(copy, 2, bias[channels])
            for given in copy.attribute:
                if given.name == "group" and given.i > 1:
                    given.i = len(channels)
    order = np.concatenate(parts)
    removed = {each.output[0] for each in gone}
    for _, _, end in tails:
        names = [f"{end}_part{part}" for part in range(len(parts))]
        joined = f"{end}_joined"  # in another order than in the network
        added.append(net.package.helper.make_node("Concat", names, [joined], joined, axis=1))
        for each in net.readers.get(end, ()):
            if each.output[0] not in removed:
                each.input[0] = joined
                net.give(each, 1, net.constants[each.input[1]][:, order])
    nodes = []
    for each in graph.node:
        if each.output[0] == node.output[0]:
            nodes += added
        elif each.output[0] not in removed:
            nodes.append(each)
    del graph.node[:]
    graph.node.extend(nodes)


def corrected(onnx: bytes, seen: Seen) -> bytes:
    """Subtract from each bias the average error of the rounded weights."""
    net = Net(onnx)
    for node in net.convolutions():
        given = seen.get(node.input[0])
        if given is None:
            continue
        weights, bias = net.weights(node)
        groups = attribute(node, "group", 1)
        if node.op_type == "ConvTranspose":
            lost = rounded_weights(weights, 1) - weights
            taps = math.prod(attribute(node, "strides", [1, 1]))
            rows = lost.reshape(len(weights), weights.shape[1], -1).sum(axis=2) / taps
            if groups != 1:
                continue
            shift = given.mean @ rows
        else:
            lost = rounded_weights(weights) - weights
            rows = lost.reshape(*weights.shape[:2], -1).sum(axis=2)
            means = given.mean.reshape(groups, 1, -1)
            shift = (rows.reshape(groups, -1, rows.shape[1]) * means).sum(axis=2).ravel()
        net.give(node, 2, bias - shift)
    return net.data()
