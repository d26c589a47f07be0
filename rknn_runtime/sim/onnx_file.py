"""An ONNX file, as far as cutting it around custom operators needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.sim.protobuf import Field, field, fields, numbers, parts

__all__ = ["Attribute", "GraphTensor", "OnnxFile", "OnnxNode"]

#: Fields of ONNX's protocol buffers, by what has them.
_MODEL_GRAPH, _MODEL_FUNCTION = 7, 25
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_TENSOR, _GRAPH_INPUT, _GRAPH_OUTPUT, _GRAPH_VALUE = (
    1,
    2,
    5,
    11,
    12,
    13,
)
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_TYPE, _NODE_ATTRIBUTE, _NODE_DOMAIN = 1, 2, 3, 4, 5, 7
_ATTRIBUTE_NAME, _F, _I, _S, _G, _FLOATS, _INTS, _GRAPHS = 1, 2, 3, 4, 6, 7, 8, 11
_VALUE_NAME, _VALUE_TYPE, _TYPE_TENSOR, _TENSOR_TYPE, _TENSOR_SHAPE, _SHAPE_DIM, _DIM = (
    1,
    2,
    1,
    1,
    2,
    1,
    1,
)
_TENSOR_NAME, _FUNCTION_DOMAIN = 8, 10
#: Types that inputs and outputs may have: ONNX's number, onnxruntime's name, NumPy's.
_DTYPES = (
    (1, "tensor(float)", np.float32),
    (10, "tensor(float16)", np.float16),
    (11, "tensor(double)", np.float64),
    (2, "tensor(uint8)", np.uint8),
    (3, "tensor(int8)", np.int8),
    (4, "tensor(uint16)", np.uint16),
    (5, "tensor(int16)", np.int16),
    (12, "tensor(uint32)", np.uint32),
    (6, "tensor(int32)", np.int32),
    (7, "tensor(int64)", np.int64),
    (9, "tensor(bool)", np.bool_),
)
_FILE_DTYPES = {number: np.dtype(dtype) for number, _, dtype in _DTYPES}
_SESSION_DTYPES = {name: np.dtype(dtype) for _, name, dtype in _DTYPES}
#: Whose operators onnxruntime may have.
_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms.", "org.pytorch.")

#: Text, or numbers as 1-D int64 or float32.
Attribute = Union[str, Array]


class GraphTensor(NamedTuple):
    """An input or output of an ONNX file."""

    name: str
    #: None where the file leaves a dimension open.
    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of_onnxruntime(cls, arg: Any) -> GraphTensor:
        """Read what a session of onnxruntime says of an input or output.

        Raises:
            InvalidModelError: Its type is none that a model's input or output has.
        """
        if arg.type not in _SESSION_DTYPES:
            raise InvalidModelError(f"{arg.name!r} of the ONNX file is a {arg.type}")
        shape = tuple(size if isinstance(size, int) else None for size in arg.shape)
        return cls(arg.name, shape, _SESSION_DTYPES[arg.type])

    def takes(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape is this one."""
        return len(shape) == len(self.shape) and all(
            mine is None or mine == other for mine, other in zip(self.shape, shape)
        )


class OnnxNode:
    """A node.

    Args:
        content: Of its protocol buffer.

    Attributes:
        content: The same.
        op_type: Its type.
        domain: Of the type.
        name: Its name, or "".
        inputs: Names of its inputs; "" for one that is left out.
        outputs: Names of its outputs, likewise.
    """

    def __init__(self, content: memoryview) -> None:
        self.content = content
        self.inputs = tuple(map(_text, parts(content, _NODE_INPUT)))
        self.outputs = tuple(map(_text, parts(content, _NODE_OUTPUT)))
        self.name = _name(content, _NODE_NAME)
        self.op_type = _name(content, _NODE_TYPE)
        self.domain = _name(content, _NODE_DOMAIN)

    @property
    def reads(self) -> set[str]:
        """Names of all that it reads, also in the graphs of a loop or a branch."""
        found = set(self.inputs)
        for attribute in parts(self.content, _NODE_ATTRIBUTE):
            for number in (_G, _GRAPHS):
                for graph in parts(attribute, number):
                    for node in parts(graph, _GRAPH_NODE):
                        found |= OnnxNode(node).reads
        return found - {""}

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Its attributes that are text or numbers."""
        found = {}
        for content in parts(self.content, _NODE_ATTRIBUTE):
            value = _value(content)
            if value is not None:
                found[_name(content, _ATTRIBUTE_NAME)] = value
        return found


class OnnxFile:
    """The nodes of an ONNX file, and what it says of their tensors.

    Args:
        onnx: The bytes of the file.

    Attributes:
        nodes: In the order in which they are computed.
        inputs: Names of the inputs that are no constants.
        outputs: Names of the outputs.

    Raises:
        InvalidModelError: This is no ONNX file.
    """

    def __init__(self, onnx: bytes) -> None:
        self.nodes: list[OnnxNode] = []
        self.outputs: list[str] = []
        self._around: list[Field] = []
        self._tensors: dict[str, memoryview] = {}
        self._values: dict[str, memoryview] = {}
        inputs: list[str] = []
        try:
            for number, content in fields(memoryview(onnx)):
                if number == _MODEL_GRAPH and isinstance(content, memoryview):
                    self._read(content, inputs)
                else:
                    self._around.append((number, content))
        except (IndexError, ValueError) as error:
            raise InvalidModelError(f"expected an ONNX file, got one that ends: {error}") from None
        self.inputs = [name for name in inputs if name not in self._tensors]
        self._functions = {
            _name(content, _FUNCTION_DOMAIN)
            for number, content in self._around
            if number == _MODEL_FUNCTION and isinstance(content, memoryview)
        }

    def _read(self, graph: memoryview, inputs: list[str]) -> None:
        self.nodes += map(OnnxNode, parts(graph, _GRAPH_NODE))
        for content in parts(graph, _GRAPH_TENSOR):
            self._tensors[_name(content, _TENSOR_NAME)] = content
        for number, names in (
            (_GRAPH_VALUE, []),
            (_GRAPH_OUTPUT, self.outputs),
            (_GRAPH_INPUT, inputs),
        ):
            for content in parts(graph, number):
                names.append(_name(content, _VALUE_NAME))
                self._values[names[-1]] = content

    def is_custom(self, node: OnnxNode) -> bool:
        """Whether a node is for a custom operator: ``cst...``, or of a domain of somebody else."""
        is_known = node.domain in ("", *self._functions) or node.domain.startswith(_DOMAINS)
        return node.op_type.startswith("cst") or not is_known

    def tensor(self, name: str) -> GraphTensor | None:
        """What the file says of an input, an output, or one between; None: nothing."""
        for kind in parts(self._values.get(name, memoryview(b"")), _VALUE_TYPE):
            for tensor in parts(kind, _TYPE_TENSOR):
                found = dict(fields(tensor))
                shape, number = found.get(_TENSOR_SHAPE), found.get(_TENSOR_TYPE)
                if isinstance(shape, memoryview) and number in _FILE_DTYPES:
                    dims = (dict(fields(dim)).get(_DIM) for dim in parts(shape, _SHAPE_DIM))
                    known = tuple(dim if isinstance(dim, int) else None for dim in dims)
                    return GraphTensor(name, known, _FILE_DTYPES[number])
        return None

    def part(self, wanted: Sequence[str], given: Iterable[str]) -> bytes:
        """Return an ONNX file that computes some tensors from others.

        Args:
            wanted: Names of what it computes, its outputs.
            given: Names of what it may take as inputs.
        """
        needed, nodes = set(wanted), []
        given = set(given)
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs) - given:
                nodes.append(node)
                needed |= node.reads
        graph = [field(_GRAPH_NODE, node.content) for node in reversed(nodes)]
        graph += [field(_GRAPH_NAME, b"part")]
        graph += [
            field(_GRAPH_TENSOR, content)
            for name, content in self._tensors.items()
            if name in needed
        ]
        graph += [field(_GRAPH_INPUT, self._values[name]) for name in sorted(given & needed)]
        graph += [field(_GRAPH_OUTPUT, field(_VALUE_NAME, name.encode())) for name in wanted]
        around = [field(number, content) for number, content in self._around]
        return b"".join((*around, field(_MODEL_GRAPH, b"".join(graph))))


def _text(content: memoryview) -> str:
    return bytes(content).decode()


def _name(content: memoryview, number: int) -> str:
    return "".join(map(_text, parts(content, number)))


def _value(content: memoryview) -> Attribute | None:
    """The value of an attribute; None: of another type."""
    found: dict[int, list[int | memoryview]] = {}
    for number, value in fields(content):
        found.setdefault(number, []).append(value)
    if _S in found and isinstance(found[_S][-1], memoryview):
        return bytes(found[_S][-1]).decode("utf-8", "backslashreplace")
    for kind in (_F, _FLOATS):  # four bytes each, or packed
        if kind in found:
            data = b"".join(bytes(each) for each in found[kind] if not isinstance(each, int))
            return np.frombuffer(data, "<f4").astype(np.float32)
    for kind in (_I, _INTS):
        if kind in found:
            values: list[int] = []
            for each in found[kind]:
                values += [each] if isinstance(each, int) else numbers(each)
            return np.array(values, np.uint64).view(np.int64)
    return None
