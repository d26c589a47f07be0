"""Describes the custom operators of a graph to the simulated runtime, and has it compute them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError, RknnError
from rknn_runtime.npu.library import Library
from rknn_runtime.sim.onnx_file import Attribute
from rknn_runtime.sim.split import CustomNode, CustomTensor

__all__ = ["CustomNodes", "NodeError"]

_NAME_BYTES = 255
_MOST_DIMS = 16


class NodeError(Exception):
    """The runtime returned a status; who registered the function is told by the run."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class CustomNodes:
    """The custom operators of a graph, as the C side knows them; must outlive the context.

    Args:
        nodes: The custom operators.
        library: The simulated runtime.

    Raises:
        InvalidModelError: A name or a shape that no runtime has room for.
    """

    def __init__(self, nodes: Sequence[CustomNode], library: Library) -> None:
        self._library = library
        self._kept: list[Any] = []
        self._count = len(nodes)
        self._nodes = self._new("rknn_sim_node[]", [self._node(node) for node in nodes])
        address = library.symbol("rknn_sim_compute_node")
        self._compute = ffi.cast("rknn_sim_compute_node_fn *", address)

    def attach(self, context: int) -> None:
        """Describe them to a context.

        Raises:
            RknnError: The context is not one of this library.
        """
        address = self._library.symbol("rknn_sim_set_nodes")
        status = ffi.cast("rknn_sim_set_nodes_fn *", address)(context, self._count, self._nodes)
        if status != lib.RKNN_SUCC:
            raise RknnError(f"rknn_sim_set_nodes returned {status}")

    def compute(self, number: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Have a node computed, within a run; see `rknn_runtime.sim.split.Compute`.

        Raises:
            NodeError: It failed.
        """
        taken, given = (
            ffi.new("float *[]", [ffi.from_buffer("float[]", array) for array in arrays])
            for arrays in (inputs, outputs)
        )
        status = self._compute(number, taken, given)
        if status != lib.RKNN_SUCC:
            raise NodeError(status)

    def _new(self, kind: str, content: Any) -> Any:
        self._kept.append(ffi.new(kind, content))
        return self._kept[-1]

    def _text(self, text: str) -> Any:
        content = text.encode()
        if len(content) > _NAME_BYTES or b"\0" in content:
            raise InvalidModelError(
                f"a custom operator of the ONNX file: expected names of at most {_NAME_BYTES} "
                f"bytes, got {text!r}"
            )
        return self._new("char[]", content)

    def _node(self, node: CustomNode) -> dict[str, Any]:
        tensors = (*node.inputs, *node.outputs)
        attributes = [self._attribute(name, value) for name, value in node.attributes.items()]
        return {
            "op_type": self._text(node.op_type),
            "name": self._text(node.name),
            "n_inputs": len(node.inputs),
            "n_outputs": len(node.outputs),
            "tensors": self._new("rknn_sim_buffer[]", list(map(_buffer, tensors))),
            "tensor_names": self._new("char *[]", [self._text(each.name) for each in tensors]),
            "n_attributes": len(attributes),
            "attributes": self._new("rknn_custom_op_attr[]", attributes),
        }

    def _attribute(self, name: str, value: Attribute) -> dict[str, Any]:
        if isinstance(value, str):  # in quotes, as in a .rknn file
            content, dtype = f'"{value}"'.encode(), TensorType.UINT8
            count = len(content)
        else:
            content, count = value.tobytes(), len(value)
            dtype = TensorType.INT64 if value.dtype == np.int64 else TensorType.FLOAT32
        self._text(name)
        data = self._new("char[]", content)
        return {"name": name.encode(), "dtype": dtype, "n_elems": count, "data": data}


def _buffer(tensor: CustomTensor) -> dict[str, Any]:
    count = int(np.prod(tensor.shape, dtype=np.float64))
    if len(tensor.shape) > _MOST_DIMS or count >= 2**30:
        raise InvalidModelError(f"{tensor.name!r} of a custom operator has shape {tensor.shape}")
    return {
        "n_elems": count,
        "type": TensorType.FLOAT32,
        "n_dims": len(tensor.shape),
        "dims": tensor.shape,
    }
