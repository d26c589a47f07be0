"""A model for every operator that the emulator computes from tensors: `ic5` with more nodes.

Few toolkits leave such nodes in a small network, so they are appended by hand to one that is
rewritten as an old container.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from handmade import Vector, u8, u32
from paths import DATA
from rewritten import Old

BASE = DATA / "models" / "ic5_rk3588.rknn"
#: Of the result of `BASE`.
SHAPE = [1, 24, 32, 32]
ROW = [1, 24, 1, 1024]


class Node(NamedTuple):
    """An operator, the shape of its result, what else it reads, and its attributes."""

    op: str
    shape: list[int] = SHAPE
    constants: tuple[Any, ...] = ()
    #: Type of the attributes' table, and its slots.
    type: int = 0
    slots: dict[int, Any] | None = None


def floats(*shape: int) -> Any:
    return np.random.default_rng(1).normal(0, 0.3, shape).astype(np.float32)


UNARY = ("Exp", "Log", "Sqrt", "Sin", "Cos", "Erf", "Sigmoid", "Tanh", "exSwish", "Relu", "Abs",
         "Neg", "Floor", "Ceil", "Cast")  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
TO_ROW = Node("Reshape", ROW)
CHAINS: dict[str, tuple[Node, ...]] = {
    "unary": tuple(Node(op) for op in UNARY),
    "binary": tuple(Node(op, SHAPE, (floats(1, 24, 1, 32),)) for op in BINARY),
    "reshape": (TO_ROW, Node("Flatten", [1, 96, 16, 16])),
    "transpose": (Node("Transpose", [1, 32, 24, 32], (), 25, {0: Vector("i", 0, 2, 1, 3)}),),
    "slice": (Node("Slice", [1, 24, 10, 32], ((-1,), (0,), (2,), (-3,))),),
    "split": (Node("Split", SHAPE, (), 20, {0: u32(1)}),),
    "pad": (Node("Pad", [1, 24, 35, 33], ((0, 0, 1, 0, 0, 0, 2, 1),)),),
    "concat": (Node("Concat", [1, 30, 32, 32], (floats(1, 6, 32, 32),), 19, {0: u32(1)}),),
    "softmax": (Node("Softmax", SHAPE, (), 18, {0: u32(1)}),),
    "softmax13": (Node("exSoftmax13", SHAPE, (), 61, {0: u32(2**32 - 1)}),),
    "norm": (Node("exNorm", SHAPE, (), 87, {0: "l2", 2: Vector("i", 1)}),),
    "argmax": (Node("ArgMax", [1, 1, 32, 32], (), 51, {0: u32(1), 1: u8(1)}),),
    "mean": (Node("ReduceMean", [1, 24, 1, 1], (), 34, {0: Vector("i", 2, 3), 1: u8(1)}),),
    "most": (Node("ReduceMax", [1, 1, 32, 1], (), 53, {0: Vector("i", 1, -1), 1: u8(1)}),),
    "gather": (Node("Gather", [1, 24, 3, 32], ((5, -1, 0),), 50, {0: u32(2)}),),
    "matmul": (Node("MatMul", [1, 24, 32, 8], (floats(1, 24, 32, 8),)),),
    "exmatmul": (TO_ROW, Node("exMatMul", [1, 24, 1, 8], (floats(1, 1024, 1, 8),))),
    "attention": (
        TO_ROW,
        Node("exSDPAttention", [1, 8, 1, 1024], (floats(1, 24, 1, 6), floats(1, 8, 1, 6))),
    ),
    "tile": (Node("Tile", [1, 24, 64, 32]),),
    "resize": (Node("Resize", [1, 24, 48, 40], (), 26, {0: "half_pixel", 4: "linear"}),),
    "nearest": (Node("Resize", [1, 24, 64, 64], (), 26, {0: "asymmetric", 4: "nearest"}),),
}


def constant(old: Old, values: Any) -> int:
    if isinstance(values, tuple):
        return old.numbers(*values)
    shape = Vector("i", *values.shape)
    return old.constant(values.tobytes(), 5, s0=u8(1), s3=shape, s4=shape)


def operator_models() -> Iterator[tuple[str, Old]]:
    """Yield a name and a model, to be written, for every chain of nodes."""
    for name, nodes in CHAINS.items():
        old = Old(BASE.read_bytes())
        for node in nodes:
            constants = [constant(old, values) for values in node.constants]
            attributes = {7: u8(node.type), 8: node.slots} if node.type else {}
            old.append(node.op, node.shape, constants, attributes)
        yield name, old
