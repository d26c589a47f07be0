"""Builds model files by hand that no toolkit would write."""

from __future__ import annotations

import json
import struct
from typing import Any, Union

#: A field of a table: a number as packed bytes, a string, a table, or a list of tables.
Field = Union[bytes, str, "Vector", dict[int, Any], list[dict[int, Any]]]


class Vector:
    """A vector of 4-byte numbers."""

    def __init__(self, code: str, *values: float) -> None:
        self.data = struct.pack(f"<I{len(values)}{code}", len(values), *values)


class _Builder:
    def __init__(self) -> None:
        self.data = bytearray()
        #: Tables by identity: the same dict twice becomes two offsets to one table.
        self.tables: dict[int, int] = {}

    def align(self) -> None:
        self.data += b"\0" * (-len(self.data) % 4)

    def patch(self, position: int, target: int) -> None:
        struct.pack_into("<I", self.data, position, target - position)

    def table(self, fields: dict[int, Any]) -> int:
        """Append a table and its contents; return its position."""
        if id(fields) in self.tables:
            return self.tables[id(fields)]
        slots = max(fields, default=-1) + 1
        self.align()
        vtable = len(self.data)
        self.data += b"\0" * (4 + 2 * slots)
        self.align()
        table = self.tables[id(fields)] = len(self.data)
        self.data += struct.pack("<i", table - vtable)
        references = {}
        for slot, value in fields.items():
            self.align()
            struct.pack_into("<H", self.data, vtable + 4 + 2 * slot, len(self.data) - table)
            if isinstance(value, bytes):
                self.data += value
            else:
                references[len(self.data)] = value
                self.data += b"\0\0\0\0"
        struct.pack_into("<HH", self.data, vtable, 4 + 2 * slots, len(self.data) - table)
        for position, value in references.items():
            self.patch(position, self.referred(value))
        return table

    def referred(self, value: Field) -> int:
        if isinstance(value, dict):
            return self.table(value)
        self.align()
        start = len(self.data)
        if isinstance(value, list):
            self.data += struct.pack("<I", len(value)) + b"\0" * 4 * len(value)
            for index, item in enumerate(value):
                self.patch(start + 4 + 4 * index, self.table(item))
        elif isinstance(value, Vector):
            self.data += value.data
        else:
            text = value.encode() if isinstance(value, str) else value
            self.data += struct.pack("<I", len(text)) + text + b"\0"
        return start


def flatbuffer(model: dict[int, Any]) -> bytes:
    """Serialize a table as the root of a flatbuffer with the identifier ``RKNN``."""
    builder = _Builder()
    builder.data += b"\0\0\0\0RKNN"
    builder.patch(0, builder.table(model))
    return bytes(builder.data)


def u8(value: int) -> bytes:
    return struct.pack("<B", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def tensor(
    name: str,
    shape: tuple[int, ...],
    native: tuple[int, ...],
    *,
    element: int = 3,
    layout: int = 0x40,
    reserved: int = 0,
    pixel: bool = False,
    scale: float | None = 0.5,
    zero_point: int = 3,
) -> dict[int, Any]:
    """A tensor table of a standard container."""
    fields: dict[int, Any] = {
        0: u8(element),
        1: u8(layout),
        3: Vector("i", *native),
        4: Vector("i", *shape),
        5: name,
        12: u32(reserved),
    }
    if scale is not None:
        fields[10], fields[11] = Vector("f", scale), Vector("i", zero_point)
    if pixel:
        fields[20] = u32(1)
    return fields


def types_of(tensors: list[dict[int, Any]], layout: str) -> str:
    """The JSON of the types of inputs or outputs."""
    names = {1: "float32", 3: "int8", 5: "int16", 7: "int64", 10: "float16"}
    return json.dumps(
        {
            tensor.get(5, ""): {"dtype": names.get(tensor.get(0, 0), "other"), "layout": layout}
            for tensor in tensors
        }
    )


def standard_model(
    inputs: list[dict[int, Any]],
    outputs: list[dict[int, Any]],
    *,
    target: str = "rk3588",
    version: int = 6,
    padding: int = 8192,
    trailer: bytes = b"{}",
    nodes: list[dict[int, Any]] | None = None,
    **changes: Any,
) -> bytes:
    """A standard container; ``slot_N=value`` in ``changes`` sets a slot of the model table."""
    graph = {
        0: [*inputs, *outputs],
        1: nodes or [{1: "Conv"}, {1: "Conv"}, {1: "Relu"}],
        2: Vector("i", *range(len(inputs))),
        3: Vector("i", *range(len(inputs), len(inputs) + len(outputs))),
    }
    model: dict[int, Any] = {
        1: "RKNPU v2",
        2: [graph],
        3: "{'attrs': {}}",
        7: "2.3.2(compiler version: 2.3.2 (abc@2025))",
        8: target,
        9: "ONNX",
        12: types_of(inputs, "NHWC"),
        13: types_of(outputs, "NCHW"),
    }
    model.update({int(key[len("slot_") :]): value for key, value in changes.items()})
    data = flatbuffer(model) + b"\0" * padding
    header = struct.pack("<8sQQ", b"RKNN", version, len(data))
    header = header.ljust(64 if version > 1 else 24, b"\0")
    return header + data + struct.pack("<Q", len(trailer)) + trailer
