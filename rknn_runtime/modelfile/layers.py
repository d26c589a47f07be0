"""The operators of a model, one by one: shapes, multiplications, bytes, and who computes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.attributes import ELEMENT_TYPES
from rknn_runtime.modelfile.container import ModelSource, check_status, open_model, opened, text_of
from rknn_runtime.modelfile.reader import indices_of, read_graph, read_tensor

ON_NPU = 2
#: Kinds of constants: weights, shapes, tables of the compiler.
CONSTANTS = {4, 5, 8}
ENDS = ("InputOperator", "OutputOperator")
#: An honest file has so many bytes for each tensor that a node names.
MIN_EDGE_BYTES = 16


class LayerTensor(NamedTuple):
    """A tensor that an operator reads or writes."""

    name: str
    #: Logical, in the exporting framework's order.
    shape: tuple[int, ...]
    #: None for an unknown type.
    dtype: TensorType | None
    #: Bytes in NPU memory, with padded channels.
    stored_bytes: int


class Layer(NamedTuple):
    """One operator."""

    #: As the compiler names it: ``"ConvRelu"`` is a convolution with what follows it.
    operator: str
    name: str
    #: ``"NPU"``; ``"CPU"``: the runtime's own code, or nothing where only the shape changes;
    #: empty for an end of the graph.
    device: str
    #: Tasks of the NPU on one core; None for containers of old toolkits.
    tasks: int | None
    inputs: tuple[LayerTensor, ...]
    outputs: tuple[LayerTensor, ...]
    #: Weights, biases and other constants, packed for the NPU.
    weight_bytes: int
    #: Multiplications of a convolution, matrix product or attention; 0 for all others.
    macs: int
    #: Height and width of the kernel of a convolution; empty for all others.
    kernel: tuple[int, ...] = ()

    @property
    def input_bytes(self) -> int:
        """Bytes that it reads, without constants."""
        return sum(tensor.stored_bytes for tensor in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes that it writes."""
        return sum(tensor.stored_bytes for tensor in self.outputs)


def read_layers(model: ModelSource) -> tuple[Layer, ...]:
    """Read the operators of a model in running order, also for unknown SoCs.

    Args:
        model: A path, of which only the parts are read that are needed, or the bytes of a model.

    Returns:
        Those of the biggest shape of a dynamic model; one that is built for a batch by
        ``rknn_batch_size`` runs them once per image.

    Raises:
        InvalidModelError: It is not a readable RKNN model; the message says what it is.
        OSError: The file cannot be opened.
    """
    with opened(model) as data, open_model(data) as parsed:
        return tuple(_Graph(parsed, len(data)).layers())


class _Tensor(NamedTuple):
    number: int
    constant: bool
    reserved: int
    seen: LayerTensor


class _Graph:
    """The first graph of a file."""

    def __init__(self, model: Any, file_bytes: int) -> None:
        self._model = model
        self._graph = read_graph(model)
        #: Remaining budget of tensors that nodes may name.
        self._room = file_bytes // MIN_EDGE_BYTES
        self._known: dict[int, _Tensor] = {}
        #: Tensors with a value so far; a node uses the others as scratch memory.
        self._filled = set(indices_of(self._graph.inputs, self._graph.n_inputs))

    def layers(self) -> Iterator[Layer]:
        node = ffi.new("rkr_model_node *")
        for index in range(self._graph.n_nodes):
            check_status(lib.rkr_read_node(self._model, self._graph, index, node), self._model)
            read = self._named(node.inputs, node.n_inputs)
            written = self._named(node.outputs, node.n_outputs)
            constants = [tensor for tensor in read if tensor.constant]
            shapes = [tensor.seen.shape for tensor in constants]
            read = [tensor for tensor in read if tensor.number in self._filled]
            self._filled.update(tensor.number for tensor in written)
            operator = text_of(node.op)
            inputs = tuple(tensor.seen for tensor in read if not tensor.constant)
            outputs = tuple(tensor.seen for tensor in written)
            yield Layer(
                operator=operator,
                name=text_of(node.name).partition(":")[2],
                device="NPU" if node.device == ON_NPU else "" if operator in ENDS else "CPU",
                tasks=node.tasks if node.has_tasks else None,
                inputs=inputs,
                outputs=outputs,
                weight_bytes=sum(tensor.reserved for tensor in constants),
                macs=_macs(operator, inputs, shapes, outputs),
                kernel=_kernel(shapes)[2:] if operator.startswith("Conv") else (),
            )

    def _named(self, vector: Any, count: int) -> list[_Tensor]:
        self._room -= count
        if self._room < 0:
            raise InvalidModelError("damaged: its nodes name more tensors than it has room for")
        # An absent tensor has the index -1, for example in TopK and in some old containers.
        indices = indices_of(vector, count)
        return [self._tensor(index) for index in indices if index < self._graph.n_tensors]

    def _tensor(self, index: int) -> _Tensor:
        if index not in self._known:
            tensor = read_tensor(self._model, self._graph, index)
            dtype = ELEMENT_TYPES.get(tensor.type)
            constant = tensor.kind in CONSTANTS
            stored = tensor.reserved_bytes
            if not constant and dtype is not None and tensor.native_elems < 2**64 - 1:
                stored = tensor.native_elems * dtype.numpy.itemsize
            if tensor.n_dims > lib.RKR_MODEL_MAX_DIMS:
                raise InvalidModelError(f"damaged: a tensor of {tensor.n_dims} dimensions")
            seen = LayerTensor(
                name=text_of(tensor.name),
                shape=tuple(ffi.unpack(tensor.dims, tensor.n_dims)),
                dtype=dtype,
                stored_bytes=stored,
            )
            self._known[index] = _Tensor(index, constant, tensor.reserved_bytes, seen)
        return self._known[index]


def _macs(
    operator: str,
    inputs: Sequence[LayerTensor],
    constants: Sequence[tuple[int, ...]],
    outputs: Sequence[LayerTensor],
) -> int:
    """Count the multiplications by the shapes; 0 for unexpected shapes."""
    if not inputs or not outputs:
        return 0
    first, last = inputs[0].shape, outputs[0].shape
    if operator.startswith("Conv"):
        # Each weight is used once per pixel: of the input where pixels are spread, else of the
        # output. A depthwise kernel has the shape (1, channels, height, width).
        pixels = first if operator.startswith("ConvTranspose") else last
        kernel = _kernel(constants)
        return _product(pixels[:1] + pixels[2:]) * _product(kernel) if kernel else 0
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


def _kernel(constants: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return next((shape for shape in constants if len(shape) > 2), ())


def _product(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
