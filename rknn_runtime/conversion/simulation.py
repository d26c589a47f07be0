"""int8 simulated in the ONNX file: tensors rounded as the ``.rknn`` file stores them.

It is many times faster than a conversion, so ranges are searched in it. The emulator judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.sim.emulator import Emulator
from rknn_runtime.sim.graph import Graph, import_onnx

#: The smallest and the largest value of tensors.
Ranges = Mapping[str, tuple[float, float]]
#: Operators of a file that pass values on with the same scale.
_PASSING = (
    "Concat", "Reshape", "Transpose", "MaxPool", "Slice", "Split", "Flatten", "Squeeze",
    "Unsqueeze", "Resize", "Expand", "DepthToSpace", "SpaceToDepth", "Pad",
)  # fmt: skip
#: Parts of a range to try.
_PARTS = (0.8, 0.6, 0.4, 0.25, 0.15)
#: The gain that a choice needs, and the loss that ends the search in a tensor.
_BETTER, _WORSE = 0.97, 1.05
#: So many inner tensors are computed at once.
_AT_ONCE = 12


@dataclass(frozen=True)
class Int8Layout:
    """The inner tensors of a ``.rknn`` file that are int8."""

    #: The range of each.
    ranges: dict[str, tuple[float, float]]
    #: Tensors that share a range.
    groups: tuple[tuple[str, ...], ...]
    #: Inputs and outputs of each node.
    nodes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @classmethod
    def read(cls, path: Path) -> Int8Layout:
        emulator = Emulator(path)
        tensors, nodes = emulator.tensors, emulator.nodes
        made = {i for node in nodes for i in node.outputs}
        stored = {i for i in made if tensors[i].dtype == np.int8 and tensors[i].scale > 0}
        leader = {i: i for i in stored}
        scales = {i: (tensors[i].scale, tensors[i].zero_point) for i in stored}

        def first(index: int) -> int:
            while leader[index] != index:
                index = leader[index]
            return index

        for node in nodes:
            if node.op.endswith(_PASSING):
                members = [i for i in (*node.inputs, *node.outputs) if i in stored]
                for other in members[1:]:
                    if scales[other] == scales[members[0]]:
                        leader[first(other)] = first(members[0])
        groups: dict[int, list[str]] = {}
        for index in sorted(stored):
            groups.setdefault(first(index), []).append(tensors[index].name)
        ranges = {
            tensors[i].name: (
                (-128 - tensors[i].zero_point) * tensors[i].scale,
                (127 - tensors[i].zero_point) * tensors[i].scale,
            )
            for i in stored
        }
        names = tuple(
            (
                tuple(tensors[i].name for i in node.inputs if i in made),
                tuple(tensors[i].name for i in node.outputs),
            )
            for node in nodes
        )
        return cls(ranges, tuple(map(tuple, groups.values())), names)


@dataclass(frozen=True)
class Moments:
    """A tensor of the network in float, over images, channel by channel."""

    mean: Array
    square: Array
    least: Array
    most: Array


def tensors(
    onnx: bytes, names: Iterable[str], feeds: Sequence[Mapping[str, Array]]
) -> Iterator[tuple[str, list[Array]]]:
    """Yield tensors of a network in float, for each image, and its inputs last."""
    package = import_onnx()
    model = package.load_model_from_string(onnx)
    made = {name for node in model.graph.node for name in node.output}
    wanted = [name for name in dict.fromkeys(names) if name in made]
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        del model.graph.output[:]
        model.graph.output.extend(
            package.helper.make_empty_tensor_value_info(name) for name in part
        )
        graph = Graph(model.SerializeToString())
        rows = [graph.run(feed, part) for feed in feeds]
        yield from ((name, [row[i] for row in rows]) for i, name in enumerate(part))
    yield from ((name, [feed[name] for feed in feeds]) for name in feeds[0])


def moments(
    onnx: bytes, names: Iterable[str], feeds: Sequence[Mapping[str, Array]]
) -> dict[str, Moments]:
    return {
        name: _joined([_moments(each) for each in arrays])
        for name, arrays in tensors(onnx, names, feeds)
    }


def _moments(values: Array) -> Moments:
    array = np.asarray(values, np.float32)
    if array.ndim < 2:
        array = array.reshape(1, -1)
    rows = np.moveaxis(array, 1, 0).reshape(array.shape[1], -1)
    square = np.square(rows, dtype=np.float32).mean(axis=1)
    return Moments(rows.mean(axis=1), square, rows.min(axis=1), rows.max(axis=1))


def _joined(each: Sequence[Moments]) -> Moments:
    return Moments(
        np.mean([m.mean for m in each], axis=0),
        np.mean([m.square for m in each], axis=0),
        np.min([m.least for m in each], axis=0),
        np.max([m.most for m in each], axis=0),
    )


def rounded_weights(values: Array, axis: int = 0) -> Array:
    """Round weights to int8 as the toolkit does: asymmetric, one scale for each channel."""
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).astype(np.float64)
    least, most = np.minimum(rows.min(axis=1), 0), np.maximum(rows.max(axis=1), 0)
    scale = np.where(most > least, (most - least) / 255, 1.0)[:, None]
    zero = np.round(-128 - least[:, None] / scale)
    back = (np.clip(np.round(rows / scale) + zero, -128, 127) - zero) * scale
    shape = np.moveaxis(values, axis, 0).shape
    rounded: Array = np.moveaxis(back.reshape(shape), 0, axis).astype(np.float32)
    return rounded


class Simulation:
    """A network whose tensors are rounded to int8, with ranges that each run may change.

    `loss` is called with the number of an image and the outputs.
    """

    def __init__(
        self,
        onnx: bytes,
        layout: Int8Layout,
        feeds: Sequence[Mapping[str, Array]],
        loss: Callable[[int, Sequence[Array]], float],
        has_weights: bool = True,
    ) -> None:
        package = import_onnx()
        model = package.load_model_from_string(onnx)
        made = {name for node in model.graph.node for name in node.output}
        self.names = [name for name in layout.ranges if name in made]
        self._outputs = [each.name for each in model.graph.output]
        self._feeds, self._loss = feeds, loss
        rounded = set(self.names)
        nodes = []
        for node in model.graph.node:
            nodes.append(node)
            for i, name in enumerate(node.output):
                if name in rounded:
                    node.output[i] = f"{name}@"
                    nodes += _rounding(package.helper, name)
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        kinds = package.TensorProto
        for name in self.names:
            for end, kind in (("scale", kinds.FLOAT), ("zero", kinds.INT8), ("on", kinds.BOOL)):
                info = package.helper.make_tensor_value_info(f"{name}@{end}", kind, [])
                model.graph.input.append(info)
        model.opset_import.append(package.helper.make_opsetid("com.microsoft", 1))
        if has_weights:
            _round_weights(package, model)
        del model.graph.value_info[:]
        self._graph = Graph(model.SerializeToString())

    def run(self, ranges: Ranges, off: Iterable[str] = ()) -> float:
        """Return the mean loss with some ranges; tensors of `off` are not rounded."""
        spared = set(off)
        given: dict[str, Array] = {}
        for name in self.names:
            least, most = min(ranges[name][0], 0.0), max(ranges[name][1], 0.0)
            scale = max((most - least) / 255, 1e-9)
            given[f"{name}@scale"] = np.array(scale, np.float32)
            given[f"{name}@zero"] = np.array(round(-128 - least / scale), np.int8)
            given[f"{name}@on"] = np.array(name not in spared)
        losses = [
            self._loss(i, self._graph.run({**feed, **given}, self._outputs))
            for i, feed in enumerate(self._feeds)
        ]
        return float(np.mean(losses))


def _rounding(helper: Any, name: str) -> list[Any]:
    """Return the nodes that round a tensor, or pass it on."""
    scale, zero, real = f"{name}@scale", f"{name}@zero", f"{name}@"
    own = {"domain": "com.microsoft"}  # for any opset
    return [
        helper.make_node("QuantizeLinear", [real, scale, zero], [f"{name}@q"], **own),
        helper.make_node("DequantizeLinear", [f"{name}@q", scale, zero], [f"{name}@r"], **own),
        helper.make_node("Where", [f"{name}@on", f"{name}@r", real], [name]),
    ]


def _round_weights(package: Any, model: Any) -> None:
    """Round the weights of convolutions, whose output channels lie along one of the axes."""
    constants, tensors = {each.name: each for each in model.graph.initializer}, package.numpy_helper
    for node in model.graph.node:
        if node.op_type in ("Conv", "ConvTranspose", "Gemm") and node.input[1] in constants:
            is_turned = any(each.name == "transB" and each.i for each in node.attribute)
            axis = int(node.op_type != "Conv" and not is_turned)
            weights = constants.pop(node.input[1])  # once, if several nodes have them
            values = rounded_weights(tensors.to_array(weights), axis)
            weights.CopyFrom(tensors.from_array(np.ascontiguousarray(values), weights.name))


def noise(ranges: Ranges, seen: Mapping[str, Moments], name: str) -> float:
    """Estimate the cost of rounding a tensor: noise by signal, the mean of its channels."""
    step = (ranges[name][1] - ranges[name][0]) / 255
    energy = seen[name].square
    return float(np.mean(step * step / 12 / (energy + 1e-3 * energy.mean() + 1e-12)))


def by_noise(layout: Int8Layout, seen: Mapping[str, Moments]) -> list[tuple[str, ...]]:
    """Return the groups of tensors, those that rounding probably costs most first."""
    costs = {
        group: max((noise(layout.ranges, seen, n) for n in group if n in seen), default=0.0)
        for group in layout.groups
    }
    return sorted((group for group in costs if costs[group]), key=lambda group: -costs[group])


def choose_ranges(
    simulation: Simulation,
    groups: Sequence[tuple[str, ...]],
    ranges: Ranges,
    deadline: float,
) -> dict[str, tuple[float, float]]:
    """Narrow the ranges of tensors, one group after the other, while the outputs improve."""
    best = dict(ranges)
    least_loss = simulation.run(best)
    for group in groups:
        if monotonic() > deadline:
            break
        low, high = best[group[0]]
        for part in _PARTS:
            limit = part * max(-low, high)
            tried = {**best, **dict.fromkeys(group, (max(low, -limit), min(high, limit)))}
            loss = simulation.run(tried)
            if loss < _BETTER * least_loss:
                least_loss, best = loss, tried
            elif loss > _WORSE * least_loss:
                break
    return best


def costs(
    simulation: Simulation,
    groups: Sequence[tuple[str, ...]],
    ranges: Ranges,
    deadline: float,
) -> list[tuple[float, tuple[str, ...]]]:
    """Return what rounding each group alone adds to the loss, as a part of all, largest first.

    Of two tensors that lose everything, neither shows while the other is rounded, too.
    """
    inner = set(simulation.names)
    least = simulation.run(ranges, inner)
    found = []
    for group in groups:
        if monotonic() > deadline:
            break
        found.append((simulation.run(ranges, inner.difference(group)) - least, group))
    whole = sum(max(cost, 0.0) for cost, _ in found)
    return sorted(((cost / whole if whole else 0.0, group) for cost, group in found), reverse=True)


def machine_noise(
    onnx: bytes, layout: Int8Layout, feed: Mapping[str, Array], tensors: Mapping[str, Array]
) -> dict[str, float]:
    """Return by how much each layer of a file errs more than by the rounding of its result.

    The simulation misses the rounding inside of some layers, such as averages of large maps.
    `tensors` are the emulator's values for the inputs.
    """
    package = import_onnx()
    model = package.load_model_from_string(onnx)
    made = {name for node in model.graph.node for name in node.output}
    names = [name for name in layout.ranges if name in made and name in tensors]
    known = set(names)
    for node in model.graph.node:
        for i, name in enumerate(node.output):
            if name in known:
                node.output[i] = f"{name}@"
    del model.graph.output[:], model.graph.value_info[:]
    ends = [f"{name}@" for name in names]
    model.graph.output.extend(package.helper.make_empty_tensor_value_info(end) for end in ends)
    floats = package.TensorProto.FLOAT
    model.graph.input.extend(
        package.helper.make_tensor_value_info(name, floats, tensors[name].shape) for name in names
    )
    given = {name: tensors[name] for name in names}
    found = Graph(model.SerializeToString()).run({**feed, **given}, ends)
    noise = {}
    for name, values in zip(names, found):
        if values.shape == tensors[name].shape:
            low, high = layout.ranges[name]
            rounding = ((high - low) / 255) ** 2 / 12
            values = np.clip(values, low, high)  # what is clipped, the simulation shows
            error = float(np.mean(np.square(values - tensors[name], dtype=np.float64)))
            noise[name] = max(1.0, error / rounding)
    return noise
