"""Computes an ONNX file that has custom operators: in parts, between them.

onnxruntime takes custom operators from shared libraries of C++ only. So it computes what each
custom operator needs, as a file of its own, and what follows from all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.errors import InvalidModelError, RknnError
from rknn_runtime.sim.onnx_file import Attribute, GraphTensor, OnnxFile

__all__ = ["CustomNode", "CustomTensor", "SplitSession"]


class CustomTensor(NamedTuple):
    """A tensor of a custom operator, whose memory has one size."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class CustomNode(NamedTuple):
    """A node that somebody else computes; its tensors are float32 for whoever does."""

    op_type: str
    name: str
    attributes: Mapping[str, Attribute]
    inputs: tuple[CustomTensor, ...]
    outputs: tuple[CustomTensor, ...]


#: Computes a node by its number: inputs, and outputs to be filled.
Compute = Callable[[int, Sequence[Array], Sequence[Array]], None]


class SplitSession:
    """What stands in for a session of onnxruntime.

    Args:
        file: The ONNX file; some of its nodes are for custom operators.
        open_session: Makes a session of a file.

    Attributes:
        inputs: Of the file.
        outputs: Of the file.
        nodes: Its custom operators, in the order in which they are computed.
        compute: What computes them; None: nobody.

    Raises:
        InvalidModelError: A part cannot be loaded, or the file does not say the shape of a tensor
            of a custom operator.
    """

    def __init__(self, file: OnnxFile, open_session: Callable[[bytes], Any]) -> None:
        self.compute: Compute | None = None
        self._open = open_session
        self._known: dict[str, GraphTensor] = {}
        #: Before each custom operator, and at the end: a session and what it computes.
        self._parts: list[tuple[Any, list[str]]] = []
        for name in file.inputs:
            self._learn(file, name)
        given = list(file.inputs)
        nodes = []
        for node in filter(file.is_custom, file.nodes):
            inputs, outputs = (tuple(filter(None, names)) for names in (node.inputs, node.outputs))
            self._add_part(file, inputs, given)
            for name in outputs:
                self._learn(file, name)
            given += outputs
            tensors = (tuple(map(self.fixed, names)) for names in (inputs, outputs))
            nodes.append(CustomNode(node.op_type, node.name, node.attributes, *tensors))
        self._add_part(file, file.outputs, given)
        self.nodes = tuple(nodes)
        self.inputs = tuple(self._known[name] for name in file.inputs)
        self.outputs = tuple(self._known[name] for name in file.outputs)

    def _learn(self, file: OnnxFile, name: str) -> None:
        tensor = file.tensor(name)
        if tensor is None:
            raise InvalidModelError(
                f"{name!r}, which a custom operator computes: expected its type and shape in the "
                "ONNX file (value_info), which has none: add it, as with onnx.helper"
            )
        self._known[name] = tensor

    def fixed(self, name: str) -> CustomTensor:
        """A tensor that a custom operator has, or an output of such a file.

        Raises:
            InvalidModelError: Its shape is open.
        """
        tensor = self._known[name]
        shape = tuple(size for size in tensor.shape if size)
        if len(shape) != len(tensor.shape):
            raise InvalidModelError(
                f"{name!r} beside custom operators: expected a fixed shape, got {tensor.shape}"
            )
        return CustomTensor(name, shape, tensor.dtype)

    def _add_part(self, file: OnnxFile, wanted: Sequence[str], given: Sequence[str]) -> None:
        names = [name for name in dict.fromkeys(wanted) if name not in self._known]
        session = None
        if names:
            session = self._open(file.part(names, given))
            found = map(GraphTensor.of_onnxruntime, session.get_outputs())
            self._known.update({tensor.name: tensor for tensor in found})
        self._parts.append((session, names))

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """Compute outputs, as a session of onnxruntime does.

        Raises:
            RknnError: Nobody computes custom operators here.
        """
        values = dict(feeds)
        for number, (session, names) in enumerate(self._parts):
            if session is not None:
                taken = {each.name: values[each.name] for each in session.get_inputs()}
                values.update(zip(names, session.run(names, taken)))
            if number < len(self.nodes):
                self._compute(number, values)
        return [values[name] for name in outputs]

    def _compute(self, number: int, values: dict[str, Array]) -> None:
        node = self.nodes[number]
        if self.compute is None:
            raise RknnError(
                f"{node.op_type} is a custom operator, and nobody computes it here: a model does, "
                "by a function of yours (register_custom_op); a bundle of one is made without "
                "samples, or of the .rknn file (bundle_from_rknn)"
            )
        inputs = [
            np.ascontiguousarray(values[tensor.name], np.float32).reshape(tensor.shape)
            for tensor in node.inputs
        ]
        outputs = [np.zeros(tensor.shape, np.float32) for tensor in node.outputs]
        self.compute(number, inputs, outputs)
        for tensor, output in zip(node.outputs, outputs):
            values[tensor.name] = output.astype(tensor.dtype)
