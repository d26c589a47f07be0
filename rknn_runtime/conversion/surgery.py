"""Changes of a network that keep its function in float and suit int8."""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.simulation import Moments, tensors
from rknn_runtime.sim.graph import Graph, import_onnx, import_onnxruntime

Seen = Mapping[str, Moments]
#: Operators that compute each value from one value alone.
_ELEMENTWISE = (
    "Sigmoid", "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Clip", "Tanh", "Mul", "Add", "Div",
    "Sub", "Softplus", "Elu", "Mish", "Min", "Max",
)  # fmt: skip
#: Activations by their operators: nothing if a positive factor passes through, else the gate `g` of
#: ``x * g(x)``.
_GATES = {
    "": "", "Relu": "", "LeakyRelu": "", "Mul Sigmoid": "Sigmoid", "HardSwish": "HardSigmoid",
    "HardSigmoid Mul": "HardSigmoid", "Add Clip Div Mul": "HardSigmoid",
    "Add Clip Mul Mul": "HardSigmoid",
}  # fmt: skip
#: Operators that positive factors of channels pass through.
_LINEAR = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "Resize")
#: How much of the difference between channels may be taken, and the part of the cost that has to be
#: left at most.
_POWERS, _GAIN = (0.0, 0.25, 0.5, 0.75, 1.0), 0.7
#: The largest factor, and below which value a gate is closed.
_FACTOR, _CLOSED = 64.0, 6.0
#: Places of an image that weights are rounded for, and what keeps their covariance regular.
_PATCHES, _DAMPING = 1000, 0.01
#: Of more weights for an output, errors cancel out, and the covariance takes too long.
_MOST_WEIGHTS = 2400


class Net:
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
        return [name for node in self.model.graph.node for name in node.output if name]

    def operator(self, tensor: str) -> str:
        """Return what computes a tensor; empty if nothing does."""
        for node in self.model.graph.node:
            if tensor in node.output:
                return str(node.op_type)
        return ""

    def convolutions(self) -> Iterator[Any]:
        for node in list(self.model.graph.node):
            given = [name for name in node.input[1:] if name]
            if node.op_type in ("Conv", "ConvTranspose") and self.constants.keys() >= set(given):
                yield node

    def weights(self, node: Any) -> tuple[Array, Array]:
        weights = self.constants[node.input[1]]
        count = weights.shape[0]
        if node.op_type == "ConvTranspose":
            count = weights.shape[1] * attribute(node, "group", 1)
        has_bias = len(node.input) > 2 and node.input[2]
        bias = self.constants[node.input[2]] if has_bias else np.zeros(count, np.float32)
        return weights, bias

    def give(self, node: Any, place: int, values: Array) -> None:
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

    def activated(self, node: Any) -> tuple[str, str]:
        """Return the tensor behind a convolution's activation, and the operator of its gate.

        The tensor is empty if the function is not known, the gate if factors pass through.
        """
        nodes, ends = self.region(node.output[0])
        kind = " ".join(sorted(each.op_type for each in nodes))
        if len(ends) != 1 or kind not in _GATES:
            return "", ""
        return ends[0], _GATES[kind]

    def absorbing(self, tensor: str, seen: Seen, start: int = 0) -> list[tuple[Any, int]]:
        """Return the convolutions that can take factors of a tensor's channels back.

        Each comes with the place of the channels in its input. Empty if something else reads them.
        """
        found: list[tuple[Any, int]] = []
        for each in self.readers.get(tensor, ()):
            before, out = start, each.output[0]
            given = self.constants.get(each.input[1]) if each.op_type == "Conv" else None
            if given is not None and given.ndim == 4 and each.input[0] == tensor:
                if attribute(each, "group", 1) != 1 and not self.is_depthwise(each):
                    return []
                found.append((each, before))
                continue
            if each.op_type == "Concat" and attribute(each, "axis", 0) == 1:
                others = list(each.input[: list(each.input).index(tensor)])
                if list(each.input).count(tensor) > 1 or not seen.keys() >= set(others):
                    return []
                before += sum(len(seen[name].mean) for name in others)
            elif each.op_type not in _LINEAR or each.input[0] != tensor:
                return []
            more = [] if out in self.outputs else self.absorbing(out, seen, before)
            if not more:
                return []
            found += more
        return found

    def give_gates(self, gated: Mapping[str, tuple[Any, str, str]]) -> None:
        """Compute activations ``x * g(x)`` from two convolutions.

        Args:
            gated: By the output of the first convolution: the second, the tensor behind the
                activation, and the operator of the gate.
        """
        make = self.package.helper.make_node
        removed = {each.output[0] for name in gated for each in self.region(name)[0]}
        kept = []
        for each in self.model.graph.node:
            if each.output[0] in removed:
                continue
            kept.append(each)
            if each.output[0] in gated:
                copy, tensor, gate = gated[each.output[0]]
                x, opened = f"{tensor}_gate", f"{tensor}_open"
                copy.name = copy.output[0] = x
                slope = {"alpha": 1 / 6, "beta": 0.5} if gate == "HardSigmoid" else {}
                kept += [
                    copy, make(gate, [x], [opened], opened, **slope),
                    make("Mul", [each.output[0], opened], [tensor], f"{tensor}_gated"),
                ]  # fmt: skip
        graph = self.model.graph
        del graph.node[:]
        graph.node.extend(kept)

    def values(self) -> dict[str, str]:
        """Return the activations that `give_gates` made, by what goes through the gate."""
        return {
            node.input[0]: node.output[0]
            for node in self.model.graph.node
            if node.op_type == "Mul" and node.name.endswith("_gated")
        }

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

    def scalar(self, node: Any) -> tuple[str, float] | None:
        """Return the tensor that a node takes together with one number, and the number."""
        given = [name for name in node.input if name not in self.constants]
        numbers = [self.constants[name] for name in node.input if name in self.constants]
        if len(given) != 1 or len(numbers) != 1 or numbers[0].size != 1:
            return None
        if node.op_type == "Div":
            return (given[0], 1 / numbers[0].item()) if node.input[0] == given[0] else None
        return (given[0], numbers[0].item()) if node.op_type in ("Mul", "Add") else None

    def are_convolutions(self, tensor: str, unpadded: bool = False) -> bool:
        """Whether only convolutions with constant weights read a tensor."""
        return tensor not in self.outputs and all(
            each.op_type == "Conv"
            and each.input[0] == tensor
            and {*each.input[1:]} <= self.constants.keys()
            and not (unpadded and any(attribute(each, "pads", [0])))
            for each in self.readers.get(tensor, ())
        )

    def fold_numbers(self) -> None:
        """Fold factors and addends of whole tensors into the convolutions that read them."""
        for node in reversed(self.model.graph.node):
            known, out = self.scalar(node), node.output[0]
            is_sum = node.op_type == "Add"
            if known is None or not known[1] or not self.are_convolutions(out, unpadded=is_sum):
                continue
            tensor, number = known
            if abs(6 * number - 1) < 1e-4 and not is_sum:
                continue  # the end of a HardSwish in parts, which the toolkit knows
            behind = self.readers.get(out, [])
            for each in behind:
                weights, bias = self.weights(each)
                if is_sum:
                    sums = weights.reshape(len(weights), -1).sum(axis=1)
                    self.give(each, 2, bias + number * sums)
                else:
                    self.give(each, 1, weights * number)
                each.input[0] = tensor
            others = [each for each in self.readers[tensor] if each.output[0] != out]
            self.readers[tensor] = others + behind

    def data(self) -> bytes:
        """Return the network without nodes and constants that nobody reads."""
        graph = self.model.graph
        read = set(self.outputs)
        for node in reversed(graph.node):
            if read.intersection(node.output):
                read.update(node.input)
            else:
                graph.node.remove(node)
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
    """Fold constants, norms and numbers into convolutions, unless that changes the network."""
    package, onnxruntime = import_onnx(), import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "network.onnx")
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(
            onnx, options, providers=["CPUExecutionProvider"],
            disabled_optimizers=[
                "CommonSubexpressionElimination", "ConstantSharing", "MatMulAddFusion",
                "SliceConcatToSpaceToDepthFusion", "TransposeOptimizer",
            ],
        )  # fmt: skip
        model = package.load_model(str(path))
    if any(node.domain for node in model.graph.node):
        return onnx
    own = [each for each in model.opset_import if not each.domain]
    del model.opset_import[:]
    model.opset_import.extend(own)
    net = Net(model.SerializeToString())
    net.fold_numbers()
    data = net.data()
    return data if is_equal(onnx, data, feed) else onnx


def is_equal(onnx: bytes, other: bytes, feed: Mapping[str, Array]) -> bool:
    before, after = Graph(onnx), Graph(other)
    names = [each.name for each in before.outputs]
    if names != [each.name for each in after.outputs]:
        return False
    pairs = zip(before.run(feed, names), after.run(feed, names))
    return all(_equal(a, b) for a, b in pairs)


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-3 * max(1.0, np.abs(a).max()))


def equalized(
    onnx: bytes, seen: Seen, ranges: Mapping[str, tuple[float, float]], chosen: Container[str]
) -> bytes:
    """Give the channels of tensors like ranges, by factors that the convolutions behind take back.

    Relu, LeakyRelu and nothing let factors of the convolution in front through. SiLU and HardSwish
    do not, but ``f * x * g(x)`` is ``(f * x) * g(x)``: a tensor of `chosen` gets a convolution for
    each side of the product.

    Args:
        onnx: The network in float.
        seen: Its tensors.
        ranges: Of inner tensors, which those of one Concat share.
        chosen: Tensors that are worth a second convolution.
    """
    net, is_changed = Net(onnx), False
    gated = {}
    for node in net.convolutions():
        if node.op_type != "Conv":
            continue
        tensor, gate = net.activated(node)
        if tensor in net.outputs or tensor not in seen or (gate and tensor not in chosen):
            continue
        readers = net.absorbing(tensor, seen)
        if not readers:
            continue
        low, high = ranges.get(tensor, (0.0, 0.0))
        sizes = np.maximum(np.abs(seen[tensor].least), np.abs(seen[tensor].most))
        if gate:  # `x` has to fit, too, down to where the gate is closed
            inner = seen.get(node.output[0])
            if inner is None:
                continue
            sizes = np.maximum(sizes, np.minimum(-inner.least, _CLOSED))
        factors = _factors(net, seen[tensor], sizes, readers, max(-low, high))
        if factors is None:
            continue
        weights, bias = net.weights(node)
        if gate:
            copy = type(node).FromString(node.SerializeToString())
            gated[node.output[0]] = copy, tensor, gate
        net.give(node, 1, weights * factors[:, None, None, None])
        net.give(node, 2, bias * factors)
        for reader, start in readers:
            given = net.constants[reader.input[1]].copy()
            if net.is_depthwise(reader):
                given[start : start + len(factors)] /= factors[:, None, None, None]
            else:
                given[:, start : start + len(factors)] /= factors[:, None, None]
            net.give(reader, 1, given)
        is_changed = True
    net.give_gates(gated)
    return net.data() if is_changed else onnx


def _factors(
    net: Net, seen: Moments, sizes: Array, readers: Sequence[tuple[Any, int]], top: float
) -> Array | None:
    """Return what to multiply channels with, so that the convolutions behind err least.

    Larger channels have more steps, but leave fewer to the weights that take the factors back.
    None if little is gained.
    """
    top = max(top, float(sizes.max()))
    if top <= 0:
        return None
    full = np.clip(top / np.maximum(sizes, 1e-12), 1, _FACTOR)
    costs = [_noise(net, seen, readers, top, full**power) for power in _POWERS]
    best = int(np.argmin(costs))
    if costs[best] > _GAIN * costs[0]:
        return None
    return np.asarray(full ** _POWERS[best], np.float32)


def _noise(
    net: Net, seen: Moments, readers: Sequence[tuple[Any, int]], top: float, factors: Array
) -> float:
    """Estimate what convolutions lose by the rounding of a tensor with factors, and of weights."""
    cost, step = 0.0, top / 255
    for reader, start in readers:
        weights = net.constants[reader.input[1]].astype(np.float64)
        energy, by = seen.square, factors
        if net.is_depthwise(reader):
            rows = weights[start : start + len(by)].reshape(len(by), 1, -1) / by[:, None, None]
            energy, by = energy[:, None], by[:, None]
        else:
            rows = weights.reshape(*weights.shape[:2], -1)
            rows[:, start : start + len(by)] /= by[:, None]
        least, most = np.minimum(rows.min(axis=(1, 2)), 0), np.maximum(rows.max(axis=(1, 2)), 0)
        if not net.is_depthwise(reader):
            rows = rows[:, start : start + len(by)]
        square = np.square(rows).sum(axis=2)
        lost = step**2 * square.sum(axis=1)
        taps = ((most - least) / 255) ** 2 * rows.shape[2]
        lost += taps * (energy * by**2).sum(axis=-1)
        signal = (square * energy * by**2).sum(axis=1)
        cost += float(np.mean(lost / (signal + 1e-3 * signal.mean() + 1e-12)))
    return cost


def rounded(onnx: bytes, feeds: Sequence[Mapping[str, Array]]) -> bytes:
    """Round weights so that the layers' outputs err least, and take the mean error out of biases.

    Weights are rounded one by one, and the remaining weights of the same output compensate for the
    error on the inputs that the layer sees (GPTQ, arXiv:2210.17323). The smallest and
    the largest stay where they are, so that the toolkit finds the same steps.
    """
    net = Net(onnx)
    layers = [node for node in net.convolutions() if _has_patches(net, node)]
    for name, arrays in tensors(onnx, [node.input[0] for node in layers], feeds):
        for node in layers:
            if node.input[0] == name:
                weights, bias = net.weights(node)
                groups = attribute(node, "group", 1)
                mean, spread = _spread(arrays, node, weights.shape[2:], groups)
                rows = weights.reshape(groups, len(weights) // groups, -1)
                found = _rounded_rows(rows, spread)
                shift = np.einsum("gok,gk->go", found - rows, mean).ravel()
                net.give(node, 1, found.reshape(weights.shape))
                net.give(node, 2, bias - shift)
    return net.data()


def _has_patches(net: Net, node: Any) -> bool:
    return (
        node.op_type == "Conv"
        and net.constants[node.input[1]].ndim == 4
        and net.constants[node.input[1]][0].size <= _MOST_WEIGHTS
        and not any(each.name == "auto_pad" and each.s != b"NOTSET" for each in node.attribute)
    )


def _spread(
    arrays: Sequence[Array], node: Any, kernel: tuple[int, ...], groups: int
) -> tuple[Array, Array]:
    """Return the mean and the covariance of the inputs that each group of weights multiplies."""
    strides, steps = attribute(node, "strides", [1, 1]), attribute(node, "dilations", [1, 1])
    top, left, bottom, right = attribute(node, "pads", [0, 0, 0, 0])
    rng, parts = np.random.default_rng(0), []
    for values in arrays:
        padded = np.pad(values[0], ((0, 0), (top, bottom), (left, right)))
        ends = [
            (size - step * (taps - 1) - 1) // stride + 1
            for size, taps, stride, step in zip(padded.shape[1:], kernel, strides, steps)
        ]
        count = min(_PATCHES, ends[0] * ends[1])
        places = np.unravel_index(rng.permutation(ends[0] * ends[1])[:count], ends)
        ys, xs = (
            place[:, None] * stride + np.arange(taps) * step
            for place, taps, stride, step in zip(places, kernel, strides, steps)
        )
        patches = padded[:, ys[:, :, None], xs[:, None, :]]
        parts.append(np.moveaxis(patches, 1, 0).reshape(count, groups, -1).transpose(1, 0, 2))
    rows = np.ascontiguousarray(np.concatenate(parts, axis=1))  # else `@` is slow
    mean = rows.mean(axis=1)
    apart = rows - mean[:, None]
    return mean, apart.transpose(0, 2, 1) @ apart / rows.shape[1]


def _rounded_rows(rows: Array, spread: Array) -> Array:
    """Round ``(groups, outputs, weights)``, each output on the steps of the toolkit."""
    left = rows.astype(np.float64)
    least, most = left.min(axis=2, keepdims=True), left.max(axis=2, keepdims=True)
    scale = (np.maximum(most, 0) - np.minimum(least, 0)) / 255
    scale[scale == 0] = 1
    zero = np.round(-128 - np.minimum(least, 0) / scale)
    ends = np.where(left == least, -128.0, np.where(left == most, 127.0, np.nan))
    ends[(left > 0) & (left == least) | (left < 0) & (left == most)] = np.nan
    size = rows.shape[2]
    loss = spread.astype(np.float64)
    diagonal = np.einsum("gkk->gk", loss)
    loss += np.eye(size) * (_DAMPING * diagonal.mean(axis=1) + 1e-12)[:, None, None]
    order = np.argsort(-diagonal, axis=1)
    place = order[:, None]
    loss = np.take_along_axis(np.take_along_axis(loss, order[:, :, None], 1), place, 2)
    left, ends = (np.take_along_axis(each, place, 2) for each in (left, ends))
    upper = np.linalg.cholesky(np.linalg.inv(loss)).transpose(0, 2, 1)
    for i in range(size):
        value = left[:, :, i]
        steps = np.clip(np.round(value / scale[:, :, 0]) + zero[:, :, 0], -128, 127)
        steps = np.where(np.isnan(ends[:, :, i]), steps, ends[:, :, i])
        back = (steps - zero[:, :, 0]) * scale[:, :, 0]
        error = (value - back) / upper[:, None, i, i]
        left[:, :, i:] -= error[:, :, None] * upper[:, None, i, i:]
        left[:, :, i] = back
    return np.take_along_axis(left, np.argsort(order, axis=1)[:, None], 2).astype(np.float32)
