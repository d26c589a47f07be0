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

#: Operators that the toolkit fuses with the convolution before them.
_FUSED = {
    "BatchNormalization", "Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu",
    "Relu", "Sigmoid", "Softplus", "Tanh",
}  # fmt: skip
#: Operators that it fuses if the other operand is a constant.
_FUSED_WITH_CONSTANTS = {"Add", "Div", "Mul", "Sub"}
_NOTHING = {"Cast", "Dropout", "Identity"}
#: Operators that only change the shape: they run on the CPU, and cost a copy at most.
_ON_CPU = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}
_MULTIPLYING = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
#: int8 channels are stored in groups of 16, except in images and in reshaped matrices.
_GROUP, _MOST_OF_AN_IMAGE = 16, 4
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
        #: Tensors at the end of a multiplying layer, and the place of the layer.
        self._open: dict[str, int] = {}
        self._reshaped: set[str] = set()
        self.made: list[Layer] = []
        gates = self._gates()
        for node in graph.nodes:
            if id(node) not in gates:
                self._take(node)
        self.made = self._with_attentions()

    def _take(self, node: Any) -> None:
        variable = [name for name in node.input if not self._is_constant(name)]
        if not variable or node.op_type == "Shape":
            self._constants.update(node.output)
            return
        kind, first, out = node.op_type, variable[0], node.output[0]
        if kind in _ON_CPU or (kind != "Conv" and first in self._reshaped):
            self._reshaped.update(node.output)
        is_swish = kind == "Mul" and len(variable) == 2 and self._is_gate(*variable)
        joins = kind in _FUSED or is_swish
        joins = joins or (kind in _FUSED_WITH_CONSTANTS and len(variable) == 1)
        source = self._source(first)
        if kind in _NOTHING:
            self._same[out] = source
            if source in self._open:
                self._open[out] = self._open[source]
        elif joins and source in self._open and self._uses[source] == 1 + is_swish:
            place = self._open[out] = self._open.pop(source)
            layer = self.made[place]
            self.made[place] = layer._replace(
                operator=layer.operator + kind, outputs=(self._tensor(out),)
            )
        else:
            if kind in _MULTIPLYING and len(variable) == 1:
                self._open[out] = len(self.made)
            self.made.append(self._layer(node, [first] if is_swish else variable))

    def _is_constant(self, name: str) -> bool:
        return name in self._constants or self._graph.constant(name) is not None

    def _source(self, name: str) -> str:
        return self._same.get(name, name)

    def _is_gate(self, one: str, other: str) -> bool:
        """Tell whether a product is a swish: one factor is the sigmoid of the other."""
        for gate, value in ((one, other), (other, one)):
            node = self._graph.producer(gate)
            if node is not None and node.op_type in ("Sigmoid", "HardSigmoid"):
                return bool(node.input[0] == value)
        return False

    def _gates(self) -> set[int]:
        """Return the sigmoids that are parts of swishes."""
        found: set[int] = set()
        for node in self._graph.nodes:
            if node.op_type == "Mul" and len(node.input) == 2 and self._is_gate(*node.input):
                gates = [self._graph.producer(name) for name in node.input]
                found.update(
                    id(gate)
                    for gate in gates
                    if gate is not None and gate.op_type.endswith("igmoid")
                    and self._uses[gate.output[0]] == 1
                )  # fmt: skip
        return found

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
            if any(part.operator == "Softmax" for part in parts):
                gone.update(part.outputs[0].name for part in parts[1:])
                joined[last.outputs[0].name] = last._replace(
                    operator="Attention", inputs=tuple(inputs), macs=sum(p.macs for p in parts)
                )
        return [
            joined.get(layer.outputs[0].name, layer)
            for layer in self.made
            if layer.outputs[0].name not in gone
        ]

    def _layer(self, node: Any, variable: list[str]) -> Layer:
        inputs = tuple(self._tensor(name) for name in variable)
        outputs = tuple(self._tensor(name) for name in node.output if name)
        constants = [self._graph.constant(name) for name in node.input if name not in variable]
        weights = [values for values in constants if values is not None]
        macs = _macs(node.op_type, inputs, outputs, weights) if node.op_type in _MULTIPLYING else 0
        return Layer(
            operator=node.op_type,
            name=node.name or node.output[0],
            device="CPU" if node.op_type in _ON_CPU else "NPU",
            tasks=None,
            inputs=inputs,
            outputs=outputs,
            weight_bytes=sum(values.size for values in weights),
            macs=macs,
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
