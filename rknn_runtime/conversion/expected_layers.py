"""Guess the layers that the toolkit makes of an ONNX graph, to predict their time."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.plan import plan_of
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.layers import Layer, LayerTensor

#: The toolkit fuses these activations with the layer before.
_ACTIVATIONS = {
    "Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Relu", "Sigmoid",
    "Softplus", "Tanh",
}  # fmt: skip
#: Operators that it fuses if the other operand is a constant and no activation came before.
_SCALES = {"Add", "BatchNormalization", "Div", "Mul", "Sub"}
#: It fuses the sum with a computed tensor after these activations.
_BEFORE_SUMS = {"", "Clip", "LeakyRelu", "PRelu", "Relu"}
_NOTHING = {"Cast", "Dropout", "Identity"}
#: Operators that only change the shape: they run on the CPU, and cost a copy at most.
_ON_CPU = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}
_MULTIPLYING = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
#: int8 channels are stored in groups of 16, except in images and in reshaped matrices.
_GROUP, _MOST_OF_AN_IMAGE = 16, 4
#: Parts of the gate of a swish, and the parts that one of them must be.
_GATES = {"Add", "Clip", "Div", "HardSigmoid", "Mul", "Sigmoid"}
_GATE_ENDS = {"Clip", "HardSigmoid", "Sigmoid"}
#: Operators between the two products of an attention; all become one layer.
_IN_ATTENTION = {"Div", "Mul", "Softmax", "Transpose"}


def expected_layers(
    model: str | os.PathLike[str],
    *,
    keep_graph: bool = False,
    load: Mapping[str, Any] | None = None,
) -> tuple[Layer, ...]:
    """Read an ONNX file and guess the layers of its int8 model.

    The graph is cut as by `convert`. Activations, normalisations and constants count as parts of
    the convolutions before them, as in the toolkit.

    Args:
        model: The file.
        keep_graph: Do not cut the graph.
        load: As for `convert`: the shapes of open inputs.
    """
    path = Path(model)
    onnx = plan_of(path, load or {}, keep_graph, "auto", None, "RGB").onnx
    if onnx is None:
        raise ValueError(f"model: expected an .onnx file, got {path.name}")
    return tuple(_Layers(OnnxGraph(onnx, str(path))).made)


class _Layers:
    """One walk over the nodes of a graph."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._uses = Counter(name for node in graph.nodes for name in node.input)
        self._uses.update(graph.outputs)
        #: Tensors that share the memory of others.
        self._same: dict[str, str] = {}
        self._constants: set[str] = {""}
        #: Tensors at the end of a layer that can take more operators: its place, its activation.
        self._open: dict[str, tuple[int, str]] = {}
        self._reshaped: set[str] = set()
        #: The place of the layer that cuts a tensor into parts.
        self._splits: dict[str, int] = {}
        self.made: list[Layer] = []
        gated, inner = self._gates()
        moved = self._moves(inner)
        for node in graph.nodes:
            if node.output[0] in moved:
                self.made.append(moved[node.output[0]])
            elif node.output[0] in gated:
                self._take("Swish", node, [gated[node.output[0]]], node.output[0])
            elif node.output[0] not in inner:
                variable = [name for name in node.input if not self._is_constant(name)]
                if not variable or node.op_type == "Shape":
                    self._constants.update(node.output)
                else:
                    self._take(node.op_type, node, variable, node.output[0])
        self.made = self._with_attentions()

    def _take(self, kind: str, node: Any, variable: list[str], out: str) -> None:
        first = variable[0]
        if kind in _ON_CPU or (kind != "Conv" and first in self._reshaped):
            self._reshaped.update(node.output)
        if kind in _NOTHING:
            self._same[out] = self._source(first)
            return
        place = self._place_to_join(kind, variable)
        if place is not None:
            layer = self.made[place]
            after = kind if kind in _ACTIVATIONS or kind == "Swish" else "Add" * (len(variable) > 1)
            others = [name for name in variable if self._source(name) != layer.outputs[0].name]
            joined = layer._replace(
                operator=layer.operator + kind,
                inputs=layer.inputs + tuple(self._tensor(name) for name in others),
                outputs=(self._tensor(out),),
            )
            self.made[place] = joined
            self._open[out] = (place, after)
            return
        if kind in ("Slice", "Split"):
            if self._splits.get(first) is not None:
                layer = self.made[self._splits[first]]
                outputs = (*layer.outputs, self._tensor(out))
                self.made[self._splits[first]] = layer._replace(outputs=outputs)
                return
            self._splits[first] = len(self.made)
            kind = "Split"
        layer = self._layer(kind, node, variable)
        if len(variable) == 1 and (layer.kernel or kind == "BatchNormalization"):
            if kind != "ConvTranspose":
                self._open[out] = (len(self.made), "")
        elif kind == "Add":
            self._open[out] = (len(self.made), "Add")
        self.made.append(layer)

    def _place_to_join(self, kind: str, variable: list[str]) -> int | None:
        """Return the place of the layer that takes this operator, if one does."""
        ends = []
        for name in variable:
            source = self._source(name)
            uses = self._uses[source] if kind != "Swish" else 1
            if source in self._open and uses == 1:
                ends.append(self._open[source])
        if len(variable) == 2 and kind == "Add" and variable[0] != variable[1]:
            shapes = [self._graph.shape(name) for name in variable]
            places = [
                place
                for place, after in ends
                if after in _BEFORE_SUMS and self.made[place].operator.startswith("Conv")
            ]
            return max(places, default=None) if shapes[0] == shapes[1] else None
        if len(variable) > 1 or not ends:
            return None
        place, after = ends[0]
        is_scale = kind in _SCALES and not after
        is_end = (kind in _ACTIVATIONS or kind == "Swish") and after in ("", "Add")
        # A separate sum takes only a Relu.
        if self.made[place].operator == "Add" and kind not in ("Relu", "Clip"):
            return None
        return place if is_scale or is_end else None

    def _is_constant(self, name: str) -> bool:
        return name in self._constants or self._graph.constant(name) is not None

    def _source(self, name: str) -> str:
        return self._same.get(name, name)

    def _gates(self) -> tuple[dict[str, str], set[str]]:
        """Find ``x * sigmoid(x)`` and ``x * clip(x + 3) / 6``: their inputs and their parts."""
        gated: dict[str, str] = {}
        inner: set[str] = set()
        for node in self._graph.nodes:
            if node.op_type != "Mul" or len(node.input) != 2:
                continue
            for gate, value in (tuple(node.input), tuple(node.input)[::-1]):
                parts = self._gate(gate, value)
                if not parts:
                    continue
                inner.update(part.output[0] for part in parts)
                end = node.output[0]
                if parts[0].op_type == "Clip" and (last := self._division_by_six(end)) is not None:
                    inner.add(end)
                    end = last.output[0]
                gated[end] = value
                break
        return gated, inner

    def _gate(self, end: str, begin: str) -> list[Any]:
        """Return the operators from `begin` to `end` if they are the gate of a swish."""
        parts: list[Any] = []
        while end != begin:
            part = self._graph.producer(end)
            if part is None or part.op_type not in _GATES or self._uses[end] > 1:
                return []
            parts.append(part)
            variable = [name for name in part.input if not self._is_constant(name)]
            if len(variable) != 1:
                return []
            end = variable[0]
        return parts if any(part.op_type in _GATE_ENDS for part in parts) else []

    def _division_by_six(self, name: str) -> Any:
        readers = [node for node in self._graph.nodes if name in node.input]
        if len(readers) != 1 or readers[0].op_type not in ("Div", "Mul"):
            return None
        factor = 6 if readers[0].op_type == "Div" else 1 / 6
        for value in map(self._graph.constant, readers[0].input):
            if value is not None and value.size == 1 and abs(value.item() / factor - 1) < 0.01:
                return readers[0]
        return None

    def _moves(self, inner: set[str]) -> dict[str, Layer]:
        """Return the Conv that the toolkit makes of shuffled channels and of an image's Focus.

        They are found by their outputs; `inner` gets the tensors between.
        """
        found: dict[str, Layer] = {}
        for node in self._graph.nodes:
            if node.op_type == "Concat" and len(node.input) == 4:
                ways, side = [self._way(name, ["Slice", "Slice"]) for name in node.input], 2
            elif node.op_type == "Reshape":
                ways, side = [self._way(node.input[0], ["Transpose", "Reshape"])], 1
            else:
                continue
            begin = ways[0][-1]
            shape, out = self._graph.shape(begin), self._graph.shape(node.output[0])
            if any(way[-1] != begin for way in ways) or shape is None or len(shape) != 4:
                continue
            n, channels, height, width = shape
            if out != (n, channels * side**2, height // side, width // side):
                continue
            if not (begin in self._graph.inputs if side == 2 else self._is_shuffle(ways[0])):
                continue
            inner.update(name for way in ways for name in way[:-1])
            taken, made = self._tensor(begin), self._tensor(node.output[0])
            terms = channels * side**2
            found[node.output[0]] = Layer(
                operator="Conv", name=node.name or node.output[0], device="NPU", tasks=None,
                inputs=(taken,), outputs=(made,), weight_bytes=out[1] * terms,
                macs=math.prod(out) * terms, kernel=(side, side),
            )  # fmt: skip
        return found

    def _way(self, name: str, kinds: list[str]) -> list[str]:
        """Return a tensor and those before it, as far as operators of these kinds make them."""
        way = [name]
        for kind in kinds:
            part = self._graph.producer(way[-1])
            if part is None or part.op_type != kind:
                break
            way.append(part.input[0])
        return way

    def _is_shuffle(self, way: list[str]) -> bool:
        turn = self._graph.producer(way[0])
        orders = [] if turn is None else [list(each.ints) for each in turn.attribute]
        return len(way) == 3 and orders == [[0, 2, 1, 3, 4]]

    def _with_attentions(self) -> list[Layer]:
        """Join two products of computed matrices and the softmax between them to one layer."""
        by_output = {layer.outputs[0].name: layer for layer in self.made}
        gone: set[str] = set()
        joined: dict[str, Layer] = {}
        for last in self.made:
            parts, inputs = [last], list(last.inputs)
            for tensor in last.inputs if _multiplies_computed(last) else ():
                chain, layer = [], by_output.get(tensor.name)
                while layer is not None and layer.operator in _IN_ATTENTION:
                    chain.append(layer)
                    layer = by_output.get(layer.inputs[0].name)
                if layer is not None and _multiplies_computed(layer) and chain:
                    parts += [*chain, layer]
                    inputs.remove(tensor)
                    inputs += layer.inputs
            if len(parts) > 1 and any(part.operator == "Softmax" for part in parts):
                gone.update(part.outputs[0].name for part in parts[1:])
                joined[last.outputs[0].name] = last._replace(
                    operator="Attention", inputs=tuple(inputs), macs=sum(p.macs for p in parts)
                )
        return [
            joined.get(layer.outputs[0].name, layer)
            for layer in self.made
            if layer.outputs[0].name not in gone
        ]

    def _layer(self, kind: str, node: Any, variable: list[str]) -> Layer:
        inputs = tuple(self._tensor(name) for name in variable)
        outputs = tuple(self._tensor(name) for name in node.output if name)
        constants = [self._graph.constant(name) for name in node.input if name not in variable]
        weights = [values for values in constants if values is not None]
        kernel: tuple[int, ...] = ()
        macs = 0
        if kind == "GlobalAveragePool":
            kind, kernel, macs = "Conv", inputs[0].shape[2:], math.prod(inputs[0].shape)
        elif kind == "ReduceSum" and outputs[0].shape[1:2] == (1,):
            kind, kernel, macs = "Conv", (1, 1), math.prod(inputs[0].shape)
        elif kind in _MULTIPLYING:
            macs = _macs(kind, inputs, outputs, weights)
            if kind == "Gemm":
                kind = "Conv"
            if kind.startswith("Conv"):
                kernel = weights[0].shape[2:] if weights and weights[0].ndim > 2 else (1, 1)
        weight_bytes = sum(values.size for values in weights)
        parts = [
            tensor.shape[1] for tensor in inputs if kind == "Concat" and len(tensor.shape) == 4
        ]
        if any(n % _GROUP for n in parts) and sum(parts) == outputs[0].shape[1]:
            # Channels that are no whole groups are put side by side by a product.
            weight_bytes = sum(parts) * sum(-(-n // _GROUP) * _GROUP for n in parts)
        return Layer(
            operator=kind,
            name=node.name or node.output[0],
            device="CPU" if kind in _ON_CPU else "NPU",
            tasks=None,
            inputs=inputs,
            outputs=outputs,
            weight_bytes=weight_bytes,
            macs=macs,
            kernel=kernel,
        )

    def _tensor(self, name: str) -> LayerTensor:
        shape = self._graph.shape(name)
        if shape is None:
            raise ValueError(f"model: expected fixed shapes, got an open one of tensor {name!r}")
        stored = math.prod(shape)
        is_image = name in self._graph.inputs and shape[1:2] <= (_MOST_OF_AN_IMAGE,)
        if len(shape) == 4 and not is_image and name not in self._reshaped:
            stored = stored // max(shape[1], 1) * (-(-shape[1] // _GROUP) * _GROUP)
        return LayerTensor(name, shape, TensorType.INT8, stored)


def _multiplies_computed(layer: Layer) -> bool:
    return layer.operator == "MatMul" and len(layer.inputs) == 2


def _macs(
    kind: str,
    inputs: tuple[LayerTensor, ...],
    outputs: tuple[LayerTensor, ...],
    weights: list[Array],
) -> int:
    """Return the multiplications: elements of the output times the terms of one sum."""
    if kind == "Conv" and weights:
        return math.prod((*outputs[0].shape, *weights[0].shape[1:]))
    if kind == "ConvTranspose" and weights:
        return math.prod((*inputs[0].shape, *weights[0].shape[1:]))
    return math.prod((*outputs[0].shape, *inputs[0].shape[-1:]))
