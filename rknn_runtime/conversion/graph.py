"""An ONNX graph: the parts needed to find and cut a head."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import read_file
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.sim.graph import MAX_ONNX_BYTES, Graph, import_onnx, take_in_weights

#: Tensors up to this size may hold sizes, which shape inference needs; larger ones are weights.
_MOST_SIZES_BYTES = 4096
#: Anchors and grids take fewer nodes than this.
_MOST_CONSTANT_NODES = 64


class OnnxGraph:
    """The nodes, shapes, constants and metadata of an ONNX file.

    Weights may lie in other files of `folder`; `sizes` are shapes for open inputs.

    Attributes:
        inputs: Names and shapes of the inputs that are not constants; open sizes are None.
        has_open_batch: Whether an input of any number of images became one of one image.
    """

    def __init__(
        self,
        data: bytes,
        name: str,
        sizes: Mapping[str, Sequence[int]] | None = None,
        folder: Path | None = None,
    ) -> None:
        onnx = import_onnx()
        try:
            model = onnx.load_model_from_string(data)
            take_in_weights(onnx, model, folder)
            _fill_in_defaults(onnx, model)
            _write_clips_out(onnx, model)
            _write_shuffles_out(onnx, model)
            self.has_open_batch = False
            weights = {each.name for each in model.graph.initializer}
            for each in model.graph.input:
                first, *others = _shape(each) or (0,)
                if sizes and each.name in sizes:
                    _fix(each, sizes[each.name])
                elif first is None and all(others) and others and each.name not in weights:
                    _fix(each, [1, *(size or 0 for size in others)])
                    self.has_open_batch = True
            _infer_shapes(onnx, model)
        except OSError:
            raise
        except Exception as error:  # protobuf's and onnx's own have no common name
            raise InvalidModelError(f"{name}: expected an ONNX file, got {error}") from error
        if not model.graph.node:
            raise InvalidModelError(f"{name}: expected an ONNX file, got one without operators")
        self._onnx, self._model = onnx, model
        graph = model.graph
        self.name = name
        self.nodes: list[Any] = list(graph.node)
        self.outputs = [each.name for each in graph.output]
        self.metadata = {each.key: each.value for each in model.metadata_props}

        self._tensors = {each.name: each for each in graph.initializer}
        self._shapes = {
            each.name: _shape(each) for each in (*graph.value_info, *graph.output, *graph.input)
        }
        self._producers = {name: node for node in graph.node for name in node.output if name}
        self._seen: dict[str, tuple[int | None, ...]] | None = None
        self.inputs = {
            each.name: self._shapes[each.name]
            for each in graph.input
            if each.name not in self._tensors
        }

    @classmethod
    def read(cls, path: Path, inputs: Any = None, sizes: Any = None) -> OnnxGraph:
        data = bytes(read_file(path, MAX_ONNX_BYTES))
        return cls(data, str(path), dict(zip(inputs or (), sizes or ())), path.parent)

    def producer(self, tensor: str) -> Any:
        """Return the node that computes a tensor, or None for an input or a constant."""
        return self._producers.get(tensor)

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor, or None if it is open.

        If the graph computes sizes itself, it is run once to see them.
        """
        if tensor in self._tensors:
            return tuple(self._tensors[tensor].dims)
        shape = self._shapes.get(tensor)
        if shape is None or None in shape:
            shape = self._seen_shapes().get(tensor)
        return None if shape is None else tuple(size for size in shape if size is not None)

    def value(self, tensor: str) -> Array | None:
        """Return the values of a tensor that few nodes compute from constants, else None."""
        values = self.constant(tensor)
        if values is not None or self.producer(tensor) is None:
            return values
        seen: set[str] = set()
        todo = [tensor]
        while todo:
            name = todo.pop()
            node = self.producer(name)
            if name in self.inputs or len(seen) > _MOST_CONSTANT_NODES:
                return None
            if node is not None and name not in seen:
                seen.add(name)
                todo += [each for each in node.input if each]
        (found,) = self._run([tensor])
        return found

    def _seen_shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Return shapes that only a run of the graph shows; none if an input is open."""
        if self._seen is None:
            self._seen = {}
            if all(shape is not None and None not in shape for shape in self.inputs.values()):
                tensors = [name for node in self.nodes for name in node.output if name]
                names = [name for name in tensors if None in (self._shapes.get(name) or (None,))]
                found = self._run(names)
                self._seen = {name: np.shape(array) for name, array in zip(names, found)}
        return self._seen

    def _run(self, names: list[str]) -> list[Array]:
        graph = Graph(self.cut(names))
        zeros = {
            tensor.name: np.zeros([size or 1 for size in tensor.shape], tensor.dtype)
            for tensor in graph.inputs
        }
        return graph.run(zeros, names)

    def constant(self, tensor: str) -> Array | None:
        """Return the values of a constant, or None for any other tensor."""
        to_array = self._onnx.numpy_helper.to_array
        if tensor in self._tensors:
            return np.asarray(to_array(self._tensors[tensor]))
        node = self.producer(tensor)
        if node is None:
            return None
        if node.op_type == "Identity":
            return self.constant(node.input[0])
        if node.op_type != "Constant":
            return None
        for attribute in node.attribute:
            if attribute.name == "value":
                return np.asarray(to_array(attribute.t))
        return None

    def operators(self, outputs: Iterable[str]) -> dict[str, int]:
        return dict(Counter(node.op_type for node in self._nodes_for(self._needed(outputs))))

    def inputs_of(self, outputs: Iterable[str]) -> dict[str, tuple[int | None, ...] | None]:
        """Return the inputs that tensors are computed from, in the form of `inputs`."""
        needed = self._needed(outputs)
        return {name: shape for name, shape in self.inputs.items() if name in needed}

    def cut(self, outputs: Iterable[str]) -> bytes:
        """Return an ONNX file that ends in other tensors of the graph.

        Nodes and inputs that are no longer needed are dropped. Types and metadata are kept.
        """
        graph = self._model.graph
        kinds = {each.name: each for each in (*graph.value_info, *graph.output)}
        ends = list(outputs)
        needed = self._needed(ends)
        model = _copy(self._model, "graph")
        model.graph.CopyFrom(_copy(graph, "node", "input", "output", "initializer", "value_info"))
        model.graph.node.extend(self._nodes_for(needed))
        # Old exporters list weights as inputs, which may be given; from version 4 on they need not.
        model.ir_version = max(model.ir_version, 4)
        model.graph.input.extend(
            each for each in graph.input if each.name in needed and each.name not in self._tensors
        )
        model.graph.output.extend(self._described(name, kinds) for name in ends)
        model.graph.initializer.extend(each for each in graph.initializer if each.name in needed)
        data: bytes = model.SerializeToString()
        return data

    def split_convolution(self, tensor: str, parts: Sequence[Sequence[int]]) -> list[str]:
        """Split a convolution, each part for a group of its channels; return the parts' outputs."""
        node, to_tensor = self.producer(tensor), self._onnx.numpy_helper.from_array
        constants = [self.constant(name) for name in node.input[1:]]
        shape = self.shape(tensor)
        names = []
        for i, part in enumerate(parts):
            new = type(node).FromString(node.SerializeToString())
            new.name = new.output[0] = f"{tensor}_part{i}"
            for k, values in enumerate(constants, 1):
                if values is None:
                    raise ValueError(f"{tensor!r}: expected constant weights, got computed ones")
                name = f"{node.input[k]}_part{i}"
                rows = to_tensor(np.ascontiguousarray(values[list(part)]), name)
                self._model.graph.initializer.append(rows)
                self._tensors[name] = rows
                new.input[k] = name
            # Before the readers of the whole, since nodes are in the order of computation.
            self._model.graph.node.insert(list(self._model.graph.node).index(node), new)
            name = new.output[0]
            self._producers[name] = new
            if shape is not None:
                self._shapes[name] = (shape[0], len(part), *shape[2:])
            names.append(name)
        self.nodes = list(self._model.graph.node)
        return names

    def _needed(self, outputs: Iterable[str]) -> set[str]:
        """Return the names of some tensors and of all that they are computed from."""
        needed: set[str] = set()
        todo = list(outputs)
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                node = self.producer(name)
                todo += [] if node is None else [each for each in node.input if each]
        return needed

    def _nodes_for(self, needed: set[str]) -> list[Any]:
        return [node for node in self._model.graph.node if needed.intersection(node.output)]

    def _described(self, name: str, kinds: dict[str, Any]) -> Any:
        if name in kinds:
            return kinds[name]
        helper, floats = self._onnx.helper, self._onnx.TensorProto.FLOAT
        return helper.make_tensor_value_info(name, floats, self._shapes.get(name))


#: The version of ONNX since which Max and Min take operands of unlike shapes.
_BROADCASTS = 8
_MOST_FLOAT16 = 65504.0

#: Attributes that the toolkit wants to read, and that may be left out for their default.
_DEFAULTS = {"LayerNormalization": {"axis": -1, "epsilon": 1e-5}}


def _fill_in_defaults(onnx: Any, model: Any) -> None:
    """Write attributes out, and leave no output without a name, which the toolkit cannot build."""
    for number, node in enumerate(model.graph.node):
        while node.output and not node.output[-1]:
            del node.output[-1]
        for i, name in enumerate(node.output):
            node.output[i] = name or f"unused_{number}_{i}"
        given = {each.name for each in node.attribute}
        for name, value in _DEFAULTS.get(node.op_type, {}).items():
            if name not in given:
                node.attribute.append(onnx.helper.make_attribute(name, value))


def _write_clips_out(onnx: Any, model: Any) -> None:
    """Replace each Clip that lacks a bound, or has a lower bound other than 0.

    rknn-toolkit2 2.3.2 compiles a missing bound as 0, and a lower one for RV1106 as a whole number.
    Max, Min and Relu are right on every SoC.
    """
    graph, make = model.graph, onnx.helper.make_node
    opset = max((each.version for each in model.opset_import if not each.domain), default=1)
    constants, nodes = _constants(graph), list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type != "Clip" or opset < _BROADCASTS:
            graph.node.append(node)
            continue
        names = dict(zip(("min", "max"), node.input[1:]))
        for each in node.attribute:  # before version 11
            names[each.name] = f"{node.output[0]}_{each.name}"
            bound = onnx.numpy_helper.from_array(np.float32(each.f), names[each.name])
            graph.initializer.append(bound)
            constants[bound.name] = bound
        bounds = {
            side: float(onnx.numpy_helper.to_array(constants[name]).reshape(-1)[0])
            for side, name in names.items()
            if name in constants
        }
        is_known = len(bounds) == sum(map(bool, names.values()))
        bounds = {side: bound for side, bound in bounds.items() if abs(bound) <= _MOST_FLOAT16}
        low, high = bounds.get("min"), bounds.get("max")
        if not is_known or (low == 0 and high is not None):
            graph.node.append(node)
            continue
        steps = [("Relu",) if low == 0 else ("Max", names["min"])] if low is not None else []
        steps += [("Min", names["max"])] if high is not None else []
        value, result = node.input[0], node.output[0]
        for i, (operator, *others) in enumerate(steps or [("Identity",)], 1):
            made = result if i >= len(steps) else f"{result}_{operator}"
            name = f"{node.name or result}_{operator}"
            graph.node.append(make(operator, [value, *others], [made], name=name))
            value = made


def _constants(graph: Any) -> dict[str, Any]:
    """Return the tensors of initializers and Constant nodes by name."""
    found = {each.name: each for each in graph.initializer}
    found.update(
        (node.output[0], node.attribute[0].t)
        for node in graph.node
        if node.op_type == "Constant" and node.attribute[0].name == "value"
    )
    return found


def _write_shuffles_out(onnx: Any, model: Any) -> None:
    """Replace channel shuffles directly behind a Conv of several groups by a 1x1 Conv.

    rknn-toolkit2 2.3.2 leaves them out on every SoC: it takes them into the weights, which works
    for a Conv of one group alone. Behind anything else it makes such a Conv itself.
    """
    graph, constants = model.graph, _constants(model.graph)
    users: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    kept = {each.name for each in graph.output}

    def values(name: str) -> list[int]:
        tensor = constants.get(name)
        found = [] if tensor is None else onnx.numpy_helper.to_array(tensor).reshape(-1).tolist()
        return [int(each) for each in found]

    def only_user(name: str, operator: str) -> Any:
        (first, *more) = users.get(name, [None])
        if name in kept or more or first is None or first.op_type != operator:
            return None
        return first

    def order_behind(name: str, channels: int) -> tuple[list[Any], list[int]]:
        gather, apart = only_user(name, "Gather"), only_user(name, "Reshape")
        if gather is not None:
            axis = [each.i for each in gather.attribute if each.name == "axis"]
            order = [each % channels for each in values(gather.input[1])] if axis == [1] else []
            return [gather], order
        turn = None if apart is None else only_user(apart.output[0], "Transpose")
        whole = None if turn is None else only_user(turn.output[0], "Reshape")
        if turn is None or whole is None or list(turn.attribute[0].ints) != [0, 2, 1, 3, 4]:
            return [], []
        sizes, last = values(apart.input[1]), values(whole.input[1])
        if len(sizes) != 5 or len(last) != 4:
            return [], []
        groups = sizes[1] if sizes[1] > 0 else channels // max(sizes[2], 1)
        if groups < 1 or channels % groups:
            return [], []
        return [apart, turn, whole], np.arange(channels).reshape(groups, -1).T.ravel().tolist()

    for conv in list(graph.node):
        weights = constants.get(conv.input[1]) if conv.op_type == "Conv" else None
        groups = [each.i for each in conv.attribute if each.name == "group"]
        if weights is None or len(weights.dims) != 4 or not groups or groups[0] < 2:
            continue
        channels, source = weights.dims[0], conv.output[0]
        norm = only_user(source, "BatchNormalization")
        if norm is not None:  # the toolkit takes it into the Conv
            source = norm.output[0]
        gone, order = order_behind(source, channels)
        if not gone or sorted(order) != list(range(channels)):
            continue
        result = gone[-1].output[0]
        ones = np.zeros((channels, channels, 1, 1), np.float32)
        ones[np.arange(channels), order] = 1
        name = f"{result}_order"
        graph.initializer.append(onnx.numpy_helper.from_array(ones, name))
        place = list(graph.node).index(gone[-1]) - len(gone) + 1
        for node in gone:
            graph.node.remove(node)
        made = onnx.helper.make_node("Conv", [source, name], [result], name=f"{result}_Conv")
        graph.node.insert(place, made)


def _infer_shapes(onnx: Any, model: Any) -> None:
    """Infer the shape of every tensor, without the three copies of weights that onnx makes."""
    graph = model.graph
    bare = _copy(model, "graph")
    bare.graph.CopyFrom(_copy(graph, "initializer"))
    inputs = {each.name for each in graph.input}
    for each in graph.initializer:
        if each.ByteSize() <= _MOST_SIZES_BYTES:
            bare.graph.initializer.append(each)
        elif each.name not in inputs:
            info = onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims)
            bare.graph.input.append(info)
    inferred = onnx.shape_inference.infer_shapes(bare, data_prop=True).graph
    for ours, found in ((graph.value_info, inferred.value_info), (graph.output, inferred.output)):
        del ours[:]
        ours.extend(found)


def _copy(message: Any, *left_out: str) -> Any:
    """Copy a message without some of its fields."""
    copy = type(message)()
    for field, value in message.ListFields():
        if field.name in left_out:
            continue
        if hasattr(value, "extend"):
            getattr(copy, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(copy, field.name).CopyFrom(value)
        else:
            setattr(copy, field.name, value)
    return copy


def _fix(value: Any, sizes: Sequence[int]) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in sizes:
        shape.dim.add().dim_value = size


def _shape(value: Any) -> tuple[int | None, ...] | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(
        size.dim_value if size.HasField("dim_value") and size.dim_value > 0 else None
        for size in kind.shape.dim
    )
