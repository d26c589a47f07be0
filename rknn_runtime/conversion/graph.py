"""An ONNX graph, as far as finding and cutting a head needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import read_file
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.sim.executor import Graph

__all__ = ["OnnxGraph", "import_onnx"]

#: No protocol buffer can be larger.
_MAX_BYTES = 2**31 - 1
#: Of a tensor that may hold sizes, by which shapes are found; what is larger are weights.
_MOST_SIZES_BYTES = 4096
#: Anchors and grids are computed by fewer.
_MOST_CONSTANT_NODES = 64


def import_onnx() -> Any:
    """Import the package onnx.

    Raises:
        ImportError: It is not installed; says what to install.
    """
    try:
        import onnx
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError as error:
        raise ImportError(
            "converting reads ONNX files with the package onnx, which is not installed: "
            "pip install onnx onnxruntime Pillow"
        ) from error
    return onnx


class OnnxGraph:
    """The nodes, shapes, constants and metadata of an ONNX file.

    Args:
        data: The bytes of the file.
        name: Of the file, for messages.
        sizes: Shapes for inputs that are open.

    Attributes:
        inputs: Names and shapes of the inputs that are no constants; None for open dimensions.
        outputs: Names of the outputs.
        metadata: What the exporter wrote beside the graph.
        opset: Version of the standard operators.

    Raises:
        InvalidModelError: It is no ONNX file, or contradicts itself.
        ImportError: The package onnx is not installed.
    """

    def __init__(
        self, data: bytes, name: str, sizes: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        onnx = import_onnx()
        try:
            model = onnx.load_model_from_string(data)
            for each in model.graph.input:
                if sizes and each.name in sizes:
                    _fix(each, sizes[each.name])
            _infer_shapes(onnx, model)
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
        self.opset = max(
            (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")),
            default=0,
        )
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
        """Read a file.

        Args:
            path: Of the file.
            inputs: Names of inputs whose shapes are given.
            sizes: The shapes.

        Raises:
            InvalidModelError: It is no ONNX file.
            OSError: It cannot be read.
            ImportError: The package onnx is not installed.
        """
        data = bytes(read_file(path, _MAX_BYTES))
        return cls(data, str(path), dict(zip(inputs or (), sizes or ())))

    def producer(self, tensor: str) -> Any:
        """The node that computes a tensor, or None: an input or a constant."""
        return self._producers.get(tensor)

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """The shape of a tensor, or None where it is open.

        Where exporters compute sizes in the graph, the graph is run once to see them.
        """
        if tensor in self._tensors:
            return tuple(self._tensors[tensor].dims)
        shape = self._shapes.get(tensor)
        if shape is None or None in shape:
            shape = self._seen_shapes().get(tensor)
        return None if shape is None else tuple(size for size in shape if size is not None)

    def value(self, tensor: str) -> Array | None:
        """The values of what is computed from constants alone, None: from an input, or much."""
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
        """Shapes in a run of the graph that are open without one; none if an input is open."""
        if self._seen is None:
            self._seen = {}
            if all(shape is not None and None not in shape for shape in self.inputs.values()):
                tensors = [name for node in self.nodes for name in node.output if name]
                names = [name for name in tensors if None in (self._shapes.get(name) or (None,))]
                found = self._run(names)
                self._seen = {name: np.shape(array) for name, array in zip(names, found)}
        return self._seen

    def _run(self, names: list[str]) -> list[Array]:
        """Compute tensors of the graph for inputs of zeros."""
        graph = Graph(self.cut(names))
        zeros = {
            tensor.name: np.zeros([size or 1 for size in tensor.shape], tensor.dtype)
            for tensor in graph.inputs
        }
        return graph.run(zeros, names)

    def constant(self, tensor: str) -> Array | None:
        """The values of a constant, or None: it is none."""
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
        """How often each operator occurs in what computes some tensors."""
        return dict(Counter(node.op_type for node in self._nodes_for(self._needed(outputs))))

    def inputs_of(self, outputs: Iterable[str]) -> dict[str, tuple[int | None, ...] | None]:
        """The inputs that tensors are computed from, as `inputs` has them."""
        needed = self._needed(outputs)
        return {name: shape for name, shape in self.inputs.items() if name in needed}

    def cut(self, outputs: Iterable[str]) -> bytes:
        """Return an ONNX file that ends in other tensors of the graph.

        What only computed the former outputs is left out, inputs as well. Types and metadata
        are kept.
        """
        graph = self._model.graph
        kinds = {each.name: each for each in (*graph.value_info, *graph.output)}
        ends = list(outputs)
        needed = self._needed(ends)
        model = _copy(self._model, "graph")
        model.graph.CopyFrom(_copy(graph, "node", "input", "output", "initializer", "value_info"))
        model.graph.node.extend(self._nodes_for(needed))
        model.graph.input.extend(each for each in graph.input if each.name in needed)
        model.graph.output.extend(self._described(name, kinds) for name in ends)
        model.graph.initializer.extend(each for each in graph.initializer if each.name in needed)
        data: bytes = model.SerializeToString()
        return data

    def split_convolution(self, tensor: str, parts: Sequence[Sequence[int]]) -> list[str]:
        """Compute groups of a convolution's channels by convolutions of their own.

        Args:
            tensor: The output of the convolution.
            parts: Numbers of the channels of each group.

        Returns:
            Names of the new outputs.

        Raises:
            ValueError: Its weights are no constants.
        """
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
            # Before what takes the whole: nodes stand in the order of their computation.
            self._model.graph.node.insert(list(self._model.graph.node).index(node), new)
            name = new.output[0]
            self._producers[name] = new
            if shape is not None:
                self._shapes[name] = (shape[0], len(part), *shape[2:])
            names.append(name)
        self.nodes = list(self._model.graph.node)
        return names

    def _needed(self, outputs: Iterable[str]) -> set[str]:
        """Names of all tensors that some are computed from, with them."""
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


def _infer_shapes(onnx: Any, model: Any) -> None:
    """Note the shape of every tensor of a model, without onnx's three copies of its weights."""
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
    """Copy a message but for some of its fields."""
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
    """Give an input a fixed shape."""
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
