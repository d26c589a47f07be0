"""Build an ONNX network step by step, with shapes known at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8


class Value(NamedTuple):
    """A tensor of a network."""

    name: str
    shape: tuple[int, ...]
    type: int = TensorProto.FLOAT


@dataclass(frozen=True)
class Case:
    """One generated network: the file, and how its inputs are drawn."""

    family: str
    index: int
    onnx: bytes
    #: For each input: name, shape, lowest and highest value.
    inputs: tuple[tuple[str, tuple[int, ...], float, float], ...]
    random: int

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"{self.family}:{self.index}"


class Network:
    """A network under construction. `random` decides all that a family leaves open."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.inputs: list[tuple[str, tuple[int, ...], float, float]] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._count = 0

    def _name(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def input(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Value:
        """Add an input whose values lie in a range."""
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, shape, low, high))
        return Value(name, shape)

    def constant(self, array: Any, dtype: Any = np.float32) -> Value:
        """Add a constant."""
        array = np.asarray(array, dtype)
        name = self._name("c")
        self._constants.append(numpy_helper.from_array(array, name))
        return Value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))

    def weights(self, *shape: int, spread: float | None = None) -> Value:
        """Add normal numbers whose sums over all but the first dimension keep the range."""
        fan = float(np.prod(shape[1:])) if len(shape) > 1 else 1.0
        spread = fan**-0.5 if spread is None else spread
        return self.constant(self.random.normal(size=shape) * spread)

    def ints(self, *values: int) -> Value:
        """Add a list of int64, such as axes."""
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: Value | None, **attributes: Any) -> Value:
        """Add a node with one output."""
        return self.ops(kind, 1, *inputs, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: Value | None, **attributes: Any) -> list[Value]:
        """Add a node with several outputs."""
        names = [self._name("t") for _ in range(outputs)]
        given = ["" if value is None else value.name for value in inputs]
        node = helper.make_node(kind, given, names, name=names[0], **attributes)
        self._nodes.append(node)
        known = {value.name: value for value in inputs if value is not None}
        constants = [each for each in self._constants if each.name in known]
        fixed = {each.name for each in constants}
        whole = helper.make_model(
            helper.make_graph(
                [node],
                "one",
                [
                    helper.make_tensor_value_info(each.name, each.type, each.shape)
                    for each in known.values()
                    if each.name not in fixed
                ],
                [helper.make_empty_tensor_value_info(name) for name in names],
                constants,
            ),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        found = onnx.shape_inference.infer_shapes(whole, True, True, True).graph.output
        return [
            Value(
                each.name,
                tuple(d.dim_value for d in each.type.tensor_type.shape.dim),
                each.type.tensor_type.elem_type,
            )
            for each in found
        ]

    def finish(self, *outputs: Value) -> bytes:
        """Return the file."""
        graph = helper.make_graph(
            self._nodes,
            "g",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape, *_ in self.inputs
            ],
            [helper.make_tensor_value_info(each.name, each.type, each.shape) for each in outputs],
            self._constants,
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
