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
#: Operators that do nothing if they keep the shape.
_FULL = {"Expand", "GlobalAveragePool", "Slice"}
#: Operators that only change the shape: they run on the CPU, and cost a copy at most.
_ON_CPU = {"Flatten", "Reshape", "Squeeze", "Unsqueeze"}
_MULTIPLYING = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
#: int8 channels are stored in groups of 16, except in images and in reshaped matrices.
_GROUP, _MOST_OF_AN_IMAGE = 16, 4
#: Parts of the gate of a swish or of GELU, and the parts that one of them must be.
_GATES = {"Add", "Clip", "Div", "Erf", "HardSigmoid", "Mul", "Sigmoid"}
_GATE_ENDS = {"Clip", "Erf", "HardSigmoid", "Sigmoid"}
#: Operators that work in either order of the axes.
_IN_ANY_ORDER = _ACTIVATIONS | _SCALES | {"LayerNorm", "LayerNormalization", "Softmax", "Swish"}
#: Orders that put channels last, and back.
_LAST, _FIRST = ([0, 2, 3, 1], [0, 2, 1]), ([0, 3, 1, 2], [0, 2, 1])
#: The toolkit pools averages by convolutions of at most this side.
_MOST_OF_A_POOL = 7
#: Operators between the two products of an attention; all become one layer.
_IN_ATTENTION = {"Div", "Mul", "Softmax", "Transpose"}
#: Operators before them that it takes, too.
_BEFORE_ATTENTION = {"Mul", "Transpose"}


def expected_layers(
    model: str | os.PathLike[str],
    *,
    keep_graph: bool = False,
    load: Mapping[str, Any] | None = None,
) -> tuple[Layer, ...]:
    """Read an ONNX file and guess the layers of its int8 model.

    The graph is cut as by `convert`. Activations, normalisations and constants count as parts of
    the convolutions before them, as in the toolkit.
    """
    path = Path(model)
    onnx = plan_of(path, load or {}, keep_graph, "auto", None, "RGB").onnx
    if onnx is None:
        raise ValueError(f"model: expected an .onnx file, got {path.name}")
    return tuple(_Layers(OnnxGraph(onnx, str(path))).made)


class _Layers:
    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._uses = Counter(name for node in graph.nodes for name in node.input)
        self._uses.update(graph.outputs)
        self._ends = {each for name in graph.outputs for each in self._way(name, ["Identity"])}
        #: Tensors that share the memory of others.
        self._same: dict[str, str] = {}
        self._constants: set[str] = {""}
        #: Tensors at the end of a layer that can take more operators: its place, its activation.
        self._open: dict[str, tuple[int, str]] = {}
        self._reshaped: set[str] = set()
        #: Tensors that the toolkit keeps with channels first, where the graph has them last.
        self._last: set[str] = set()
        #: The place of the layer that cuts a tensor into parts.
        self._splits: dict[str, int] = {}
        self.made: list[Layer] = []
        gated, inner = self._gates()
        self._find_norms(gated, inner)
        moved = self._moves(inner)
        for node in graph.nodes:
            if node.output[0] in moved:
                self.made.append(moved[node.output[0]])
            elif node.output[0] in gated:
                kind, value = gated[node.output[0]]
                self._take(kind, node, [value], node.output[0])
            elif node.output[0] not in inner:
                variable = [name for name in node.input if not self._is_constant(name)]
                if not variable or node.op_type == "Shape":
                    self._constants.update(node.output)
                else:
                    self._take(node.op_type, node, variable, node.output[0])
        for name in graph.outputs:
            self._turn(name, is_end=True)
            shape = graph.shape(name)
            if shape is not None and len(shape) != 4 and name not in self._reshaped:
                taken = self._tensor(name)
                self.made.append(self._move("Reshape", taken, taken._replace(name=f"{name}#")))
        self.made = self._with_attentions()

    def _take(self, kind: str, node: Any, variable: list[str], out: str) -> None:
        first = variable[0]
        if self._is_nothing(kind, node, first):
            self._uses[self._source(first)] += self._uses[out] - 1
            self._same[out] = self._source(first)
            if first in self._reshaped:
                self._reshaped.add(out)
            return
        is_product = kind == "MatMul" and variable == [node.input[0]]
        weights = self._graph.constant(node.input[1]) if is_product else None
        is_product = weights is not None and weights.ndim == 2
        are_last = kind in _IN_ANY_ORDER and all(name in self._last for name in variable)
        if are_last or (is_product and len(self._graph.shape(out) or ()) > 2):
            self._last.add(out)
        for name in variable if not (are_last or is_product) else ():
            self._turn(name)
        if kind in _ON_CPU or (kind not in ("Conv", "MatMul") and first in self._reshaped):
            self._reshaped.update(node.output)
        if kind in ("GlobalAveragePool", "ReduceMean") and self._pool(first, out):
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
        if kind in ("Slice", "Split") or (kind == "Gather" and self._is_one(node.input[1])):
            if self._splits.get(first) is not None:
                layer = self.made[self._splits[first]]
                outputs = (*layer.outputs, self._tensor(out))
                self.made[self._splits[first]] = layer._replace(outputs=outputs)
                return
            self._splits[first] = len(self.made)
            kind = "Split"
        layer = self._layer("Conv" if is_product else kind, node, variable)
        if kind == "Softmax" and out in self._ends:  # computed in float16
            (taken,) = layer.inputs
            wide = taken._replace(name=f"{out}#", stored_bytes=2 * taken.stored_bytes)
            self.made.append(self._move("DataConvert", taken, wide))
            layer = layer._replace(inputs=(wide,), outputs=(wide._replace(name=out),))
        if len(variable) == 1 and (layer.kernel or kind == "BatchNormalization"):
            if kind != "ConvTranspose":
                self._open[out] = (len(self.made), "")
        elif kind == "Add":
            self._open[out] = (len(self.made), "Add")
        self.made.append(layer)

    def _is_nothing(self, kind: str, node: Any, first: str) -> bool:
        """Tell whether the toolkit needs no layer, or only a turn that it may put off."""
        out = node.output[0]
        before, after = self._graph.shape(first), self._graph.shape(out)
        is_last = first in self._last
        if kind == "Transpose":
            orders = [list(each.ints) for each in node.attribute]
            is_nothing = bool(orders) and orders[0] in (_FIRST if is_last else _LAST)
            is_last = not is_last
        elif kind in _ON_CPU and before and after:
            sides, others = ([side for side in each if side != 1] for each in (before, after))
            way = self._way(first, ["Transpose", "Reshape"])
            is_nothing = sides == others or (len(way) == 3 and sides[:2] == others[:2])
        else:
            is_nothing = kind in _NOTHING or (kind in _FULL and before == after)
        if is_nothing and is_last and len(after or ()) > 2:
            self._last.add(out)
        return is_nothing

    def _turn(self, name: str, is_end: bool = False) -> None:
        """Add a Transpose that was put off, where the order of the graph is needed.

        The result of a matrix product in its own order is cut into heads without one.
        """
        if name in self._last:
            taken = self._tensor(name)
            self._last.remove(name)
            if name in self._same or is_end:
                taken = taken._replace(name=self._same.pop(name, f"{name}#"))
                self._open.pop(name, None)
                self.made.append(self._move("Transpose", taken, self._tensor(name)))

    def _move(self, kind: str, taken: LayerTensor, made: LayerTensor) -> Layer:
        return Layer(kind, made.name, "NPU", None, (taken,), (made,), 0, 0)

    def _pool(self, name: str, out: str) -> bool:
        """Add the convolutions that average all places of an image, some places after others."""
        tensor, shape = self._tensor(name), self._graph.shape(out)
        if shape is None or len(tensor.shape) != 4 or shape[:2] != tensor.shape[:2]:
            return False
        n, channels, *places = tensor.shape
        if math.prod(shape) != n * channels:
            return False
        while places != [1, 1]:
            kernel = tuple(min(side, _MOST_OF_A_POOL) for side in places)
            places = [-(-side // most) for side, most in zip(places, kernel)]
            made = _tensor(out, (n, channels, *places))
            layer = self._move("Conv", tensor, made)
            macs = math.prod(kernel) * math.prod(made.shape)
            self.made.append(layer._replace(macs=macs, kernel=kernel))
            tensor = made
        return True

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

    def _is_one(self, name: str) -> bool:
        value = self._graph.constant(name)
        return value is not None and value.size == 1

    def _source(self, name: str) -> str:
        return self._same.get(name, name)

    def _gates(self) -> tuple[dict[str, tuple[str, str]], set[str]]:
        """Find ``x * sigmoid(x)``, ``x * clip(x + 3) / 6`` and ``x * (1 + erf(x / 1.41)) / 2``.

        Returns:
            For each end the operator and its input, and the outputs of the parts.
        """
        gated: dict[str, tuple[str, str]] = {}
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
                divisor = 6 if parts[0].op_type == "Clip" else 2
                if parts[0].op_type in ("Add", "Clip"):
                    last = self._division(end, divisor)
                    if last is not None:
                        inner.add(end)
                        end = last.output[0]
                gated[end] = "Swish", value
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

    def _division(self, name: str, divisor: int) -> Any:
        reader = self._reader(name, ("Div", "Mul"))
        factor = divisor if reader is None or reader.op_type == "Div" else 1 / divisor
        for value in map(self._graph.constant, reader.input if reader else ()):
            if value is not None and value.size == 1 and abs(value.item() / factor - 1) < 0.01:
                return reader
        return None

    def _reader(self, name: str, kinds: tuple[str, ...]) -> Any:
        """Return the only operator that reads a tensor, if it is one of these."""
        readers = [node for node in self._graph.nodes if name in node.input]
        return readers[0] if len(readers) == 1 and readers[0].op_type in kinds else None

    def _find_norms(self, found: dict[str, tuple[str, str]], inner: set[str]) -> None:
        """Add norms that are written out: ``(x - mean) / sqrt(variance + e)``, and of groups."""
        for node in self._graph.nodes:
            begin, parts = "", []
            if node.op_type == "Div":
                parts = self._way(node.input[1], ["Sqrt", "Add", "ReduceMean", "Pow", "Sub"])
                if len(parts) == 6 and parts[4] == node.input[0]:
                    begin = parts.pop()
                    parts.append(self._graph.producer(parts[4]).input[1])
            elif node.op_type == "Reshape":
                parts = self._way(node.input[0], ["InstanceNormalization", "Reshape"])
                if len(parts) == 3:
                    begin = parts.pop()
            if not begin or self._graph.shape(begin) != self._graph.shape(node.output[0]):
                continue
            inner.update(parts)
            end = node.output[0]
            for kind in ("Mul", "Add"):
                reader = self._reader(end, (kind,))
                if reader is not None and any(map(self._is_constant, reader.input)):
                    inner.add(end)
                    end = reader.output[0]
            found[end] = "LayerNorm", begin

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
        """Join two products of computed matrices and the softmax between them to one layer.

        It takes scales and turns of its inputs and of its result, too.
        """
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
            for i, tensor in enumerate(inputs if len(parts) > 1 else ()):
                layer = by_output.get(tensor.name)
                while layer and layer.operator in _BEFORE_ATTENTION and len(layer.inputs) == 1:
                    parts.append(layer)
                    inputs[i] = layer.inputs[0]
                    layer = by_output.get(inputs[i].name)
            if len(parts) > 1 and any(part.operator == "Softmax" for part in parts):
                gone.update(part.outputs[0].name for part in parts[1:])
                joined[last.outputs[0].name] = last._replace(
                    operator="Attention", inputs=tuple(inputs), macs=sum(p.macs for p in parts)
                )
        return [
            joined.get(layer.outputs[0].name, layer)
            for layer in self.made
            if layer.outputs[0].name not in gone
            and not (layer.operator == "Transpose" and layer.inputs[0].name in joined)
        ]

    def _layer(self, kind: str, node: Any, variable: list[str]) -> Layer:
        inputs = tuple(self._tensor(name) for name in variable)
        outputs = tuple(self._tensor(name) for name in node.output if name)
        constants = [self._graph.constant(name) for name in node.input if name not in variable]
        weights = [values for values in constants if values is not None]
        kernel: tuple[int, ...] = ()
        macs = 0
        if kind == "ReduceSum" and outputs[0].shape[1:2] == (1,):
            kind, kernel, macs = "Conv", (1, 1), math.prod(inputs[0].shape)
        elif kind in _MULTIPLYING:
            macs = _macs(kind, inputs, outputs, weights)
            kind = "Conv" if kind == "Gemm" else kind
            if kind.startswith("Conv"):
                kernel = weights[0].shape[2:] if weights and weights[0].ndim > 2 else (1, 1)
        weight_bytes = sum(values.size for values in weights)
        parts = [each.shape[1] for each in inputs if kind == "Concat" and len(each.shape) in (3, 4)]
        if parts and sum(parts) == outputs[0].shape[1]:
            if outputs[0].name in self._ends and len(outputs[0].shape) == 3:
                parts = [n // math.gcd(*parts) for n in parts]
            if any(n % _GROUP for n in parts):
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
        if name in self._last:
            shape = (shape[0], shape[-1], *shape[1:-1])
        is_image = name in self._graph.inputs and shape[1:2] <= (_MOST_OF_AN_IMAGE,)
        is_dense = is_image or (name in self._reshaped and len(shape) == 4)
        return _tensor(name, shape, is_dense)


def _tensor(name: str, shape: tuple[int, ...], is_dense: bool = False) -> LayerTensor:
    """Describe a tensor as the NPU stores it: an image or a matrix of an attention is dense."""
    stored = math.prod(shape)
    if len(shape) in (3, 4) and not is_dense:
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
        terms = weights[0].shape[1:] if weights[0].ndim > 2 else weights[0].shape[:1]
        return math.prod((*outputs[0].shape, *terms))
    if kind == "ConvTranspose" and weights:
        return math.prod((*inputs[0].shape, *weights[0].shape[1:]))
    return math.prod((*outputs[0].shape, *inputs[0].shape[-1:]))
