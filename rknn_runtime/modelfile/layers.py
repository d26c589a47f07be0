"""The operators of a model, one by one: shapes, multiplications, bytes, and who computes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.container import ModelSource, opened
from rknn_runtime.modelfile.flatbuffer import Table
from rknn_runtime.modelfile.reader import named_as_damage
from rknn_runtime.modelfile.tables import (
    ELEMENT_TYPES,
    GRAPH_INPUTS,
    GRAPH_NODES,
    GRAPH_TENSORS,
    MAX_DIMS,
    MAX_NAME_BYTES,
    MAX_NODES,
    MAX_TENSORS,
    MIN_NODE_BYTES,
    NODE_OPERATOR,
    TENSOR_NAME,
    TENSOR_NATIVE_SHAPE,
    TENSOR_SHAPE,
    TENSOR_TYPE,
    ModelTables,
)

__all__ = ["Layer", "LayerTensor", "read_layers"]

NODE_NAME, NODE_DEVICE, NODE_INPUTS, NODE_OUTPUTS = 2, 3, 4, 5
#: Tasks per number of cores, in containers of today; those before keep them otherwise.
NODE_TASKS, MINI_NODE_TASKS, FIRST_WITH_TASKS = 10, 9, 5
ON_NPU = 2
TENSOR_KIND = 2
#: Weights, shapes and the like, and what the compiler made.
CONSTANTS = {4, 5, 8}
ENDS = ("InputOperator", "OutputOperator")
#: An honest file has so many bytes for each tensor that a node names.
MIN_EDGE_BYTES = 16


class LayerTensor(NamedTuple):
    """A tensor that an operator reads or writes."""

    name: str
    #: Logical, in the exporting framework's order.
    shape: tuple[int, ...]
    #: None: a type that is not read.
    dtype: TensorType | None
    #: As it lies in the memory of the NPU, channels padded.
    stored_bytes: int


class Layer(NamedTuple):
    """One operator."""

    #: As the compiler names it: ``"ConvRelu"`` is a convolution with what follows it.
    operator: str
    name: str
    #: ``"NPU"``; ``"CPU"``: the runtime's own code, or nothing where only the shape changes;
    #: empty for an end of the graph.
    device: str
    #: Tasks of the NPU on one core; None: containers of old toolkits do not say in this place.
    tasks: int | None
    inputs: tuple[LayerTensor, ...]
    outputs: tuple[LayerTensor, ...]
    #: Weights, biases and other constants, packed for the NPU.
    weight_bytes: int
    #: Multiplications of a convolution, matrix product or attention; 0 for all others.
    macs: int

    @property
    def input_bytes(self) -> int:
        """What it reads besides constants."""
        return sum(tensor.stored_bytes for tensor in self.inputs)

    @property
    def output_bytes(self) -> int:
        """What it writes."""
        return sum(tensor.stored_bytes for tensor in self.outputs)


def read_layers(model: ModelSource) -> tuple[Layer, ...]:
    """Read the operators of a model in the order in which they run, also for unknown SoCs.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.

    Returns:
        Those of the biggest shape of a dynamic model; one that is built for a batch by
        ``rknn_batch_size`` runs them once per image.

    Raises:
        InvalidModelError: It is not a readable RKNN model; the message says what it is.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes.
    """
    with opened(model) as data, named_as_damage():
        return tuple(_Graph(ModelTables(data)).layers())


class _Tensor(NamedTuple):
    number: int
    constant: bool
    reserved: int
    seen: LayerTensor


class _Graph:
    """The first graph of a file."""

    def __init__(self, tables: ModelTables) -> None:
        container, room = tables.container, len(tables.data)
        graphs = tables.graphs
        if not len(graphs):
            raise ValueError("the model has no graph")
        self._tensors = graphs[0].children(GRAPH_TENSORS, MAX_TENSORS)
        self._nodes = graphs[0].children(GRAPH_NODES, min(MAX_NODES, room // MIN_NODE_BYTES))
        self._reserved = tables.slots.tensor_reserved
        self._tasks = MINI_NODE_TASKS if container.mini else NODE_TASKS
        self._has_tasks = container.mini or container.version >= FIRST_WITH_TASKS
        #: Tensors that nodes may still name.
        self._room = room // MIN_EDGE_BYTES
        self._known: dict[int, _Tensor] = {}
        #: What has a value so far; what has none is scratch memory of the node.
        self._filled = set(graphs[0].integers(GRAPH_INPUTS, self._room))

    def layers(self) -> Iterator[Layer]:
        for node in self._nodes:
            read, written = self._named(node, NODE_INPUTS), self._named(node, NODE_OUTPUTS)
            constants = [tensor for tensor in read if tensor.constant]
            read = [tensor for tensor in read if tensor.number in self._filled]
            self._filled.update(tensor.number for tensor in written)
            operator = node.text(NODE_OPERATOR, 64)
            inputs = tuple(tensor.seen for tensor in read if not tensor.constant)
            outputs = tuple(tensor.seen for tensor in written)
            tasks = node.integers(self._tasks, MAX_DIMS)[:1] if self._has_tasks else ()
            on_npu = node.scalar(NODE_DEVICE, "B") == ON_NPU
            yield Layer(
                operator=operator,
                name=node.text(NODE_NAME, 4 * MAX_NAME_BYTES).partition(":")[2],
                device="NPU" if on_npu else "" if operator in ENDS else "CPU",
                tasks=sum(tasks) if self._has_tasks else None,
                inputs=inputs,
                outputs=outputs,
                weight_bytes=sum(tensor.reserved for tensor in constants),
                macs=_macs(operator, inputs, [t.seen.shape for t in constants], outputs),
            )

    def _named(self, node: Table, slot: int) -> list[_Tensor]:
        indices = node.integers(slot, self._room)
        self._room -= len(indices)
        # Nodes of some old containers name absent tensors by -1.
        return [self._tensor(index) for index in indices if 0 <= index < len(self._tensors)]

    def _tensor(self, index: int) -> _Tensor:
        if index not in self._known:
            table = self._tensors[index]
            dtype = ELEMENT_TYPES.get(table.scalar(TENSOR_TYPE, "B"))
            constant = table.scalar(TENSOR_KIND, "B") in CONSTANTS
            reserved = table.scalar(self._reserved, "I")
            stored = reserved
            if not constant and dtype is not None:
                native = table.integers(TENSOR_NATIVE_SHAPE, 4 * MAX_DIMS)
                stored = _product(native) * dtype.numpy.itemsize
            seen = LayerTensor(
                name=table.text(TENSOR_NAME, 4 * MAX_NAME_BYTES),
                shape=table.integers(TENSOR_SHAPE, MAX_DIMS),
                dtype=dtype,
                stored_bytes=stored,
            )
            self._known[index] = _Tensor(index, constant, reserved, seen)
        return self._known[index]


def _macs(
    operator: str,
    inputs: Sequence[LayerTensor],
    constants: Sequence[tuple[int, ...]],
    outputs: Sequence[LayerTensor],
) -> int:
    """Count the multiplications, from shapes alone; 0 where they are not as expected."""
    if not inputs or not outputs:
        return 0
    first, last = inputs[0].shape, outputs[0].shape
    if operator.startswith("Conv"):
        # Each weight is used once per pixel: of the input where pixels are spread, else of the
        # output. A depthwise kernel has the shape (1, channels, height, width).
        pixels = first if operator.startswith("ConvTranspose") else last
        kernels = [shape for shape in constants if len(shape) > 2]
        return _product(pixels[:1] + pixels[2:]) * _product(kernels[0]) if kernels else 0
    if len(inputs) < 2:
        return 0
    second = inputs[1].shape
    if operator == "exSDPAttention":  # query and key, then the weights and the values
        return (_product(first) + _product(last)) * second[-1] if second else 0
    if operator in ("MatMul", "exMatMul"):
        # (b, m, k), (b, k, n) and (b, m, n) in any order of their axes: the product of the three
        # sizes is (bmkn) ** 2 * b. The compiler's rank 4 has b first, and 1 as the height.
        batch = last[:1] if len(last) == 4 and last[2] == 1 else last[:-2]
        sizes = _product(first) * _product(second) * _product(last)
        return math.isqrt(max(0, sizes // max(1, _product(batch))))
    return 0


def _product(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
