"""Rewrites a model as toolkits until 1.5.0 wrote it: versions 1, 2, 4 of the container.

Nobody can make such files any more with a toolkit that installs. Commands, weights and tensors
are kept; their places in the file and the spelling of commands are the old ones.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from handmade import Vector, flatbuffer, u8, u32
from reference.npu import BLOCK_OF_TARGET, Flat

COMMANDS, TASKS, OLD_COMMANDS = 9, 10, 7


class Bytes(Vector):
    """A vector of bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = struct.pack("<I", len(data)) + data


class Numbers(Vector):
    """A vector of items of some bytes each."""

    def __init__(self, items: list[bytes]) -> None:
        self.data = struct.pack("<I", len(items)) + b"".join(items)


class Old:
    """A standard container of version 6, to be changed and written as an older one."""

    def __init__(self, data: bytes) -> None:
        (length,) = struct.unpack_from("<Q", data, 16)
        self.flat = flat = Flat(data[64 : 64 + length])
        root = flat.follow(0)
        (graph,) = flat.tables(root, 2)
        self.soc, self.toolkit = flat.text(root, 8), flat.text(root, 7)
        self.blobs = [flat.vector(t, 0, "u1").tobytes() for t in flat.tables(root, 20)]
        tables = flat.tables(graph, 0)
        self.kinds = [flat.scalar(t, 2, "B") for t in tables]
        self.tensors = [self.tensor(t) for t in tables]
        self.nodes = [self.node(t) for t in flat.tables(graph, 1)]
        self.inputs, self.outputs = (flat.vector(graph, k).tolist() for k in (2, 3))
        self.old_tasks(graph)

    def tensor(self, table: int) -> dict[int, Any]:
        flat = self.flat
        fields: dict[int, Any] = {k: u8(flat.scalar(table, k, "B")) for k in range(3)}
        for slot, code in ((3, "i"), (4, "i"), (10, "f"), (11, "i")):
            if flat.slot(table, slot):
                fields[slot] = Vector(code, *flat.vector(table, slot, f"<{code}4").tolist())
        fields[5] = flat.text(table, 5)
        for slot in (12, 13, 18, 20):
            if flat.slot(table, slot):
                fields[slot] = u32(flat.scalar(table, slot, "B" if slot == 20 else "I"))
        return fields

    def node(self, table: int) -> dict[int, Any]:
        flat = self.flat
        return {
            1: flat.text(table, 1),
            2: flat.text(table, 2),
            3: u8(flat.scalar(table, 3, "B")),
            4: Vector("I", *flat.vector(table, 4).tolist()),
            5: Vector("I", *flat.vector(table, 5).tolist()),
        }

    def old_tasks(self, graph: int) -> None:
        """Each task of the list for one core gets separate commands."""
        blobs = {kind: self.blobs[self.blob_of(kind)] for kind in (COMMANDS, TASKS)}
        words = np.frombuffer(blobs[COMMANDS], "<u8")
        names = {fields[5]: index for index, fields in enumerate(self.tensors)}
        relocations = {}
        for entry in self.flat.tables(graph, 7):
            for place in self.flat.vector(entry, 1, "<u8").tolist():
                owner = names[self.flat.text(entry, 0)]
                relocations[place >> 32] = owner, place & 0xFFFFFFFF
        table = np.frombuffer(blobs[TASKS], "<u4").reshape(-1, 10)
        lists = self.flat.vector(graph, 10).tolist()
        if len(lists) > 2:
            table = table[lists[2] : lists[3] if len(lists) > 3 else len(table)]
        tasks: dict[int, list[dict[int, Any]]] = {}
        for entry in table.tolist():
            first = entry[8] // 8
            task = self.old_task(words, first, entry[6], relocations)
            other = {**task, 7: u32(2)}  # of another core: not for one that runs alone
            tasks.setdefault(entry[1], []).extend(({**task, 3: u32(entry[2])}, other))
        for node, found in tasks.items():
            self.nodes[node][6] = found

    def old_task(self, words: Any, first: int, count: int, relocations: Any) -> dict[int, Any]:
        commands, moved = b"", []
        for at in range(first, first + count):
            word = int(words[at])
            number, value = word & 0xFFFF, word >> 16 & 0xFFFFFFFF
            if word >> 48 not in BLOCK_OF_TARGET:
                continue
            if at in relocations:
                owner, addend = relocations[at]
                moved.append(struct.pack("<6I", number, owner, addend, 0, 0, 0))
            commands += struct.pack("<HHI", 0, number, value)
        return {0: u32(self.constant(commands, OLD_COMMANDS)), 5: Numbers(moved), 7: u32(1)}

    def blob_of(self, kind: int) -> int:
        fields = self.tensors[self.kinds.index(kind)]
        return int(struct.unpack("<I", fields[18])[0])

    def constant(self, data: bytes, kind: int, name: str = "", **fields: Any) -> int:
        """Add a tensor with a blob; return its index."""
        self.blobs.append(data)
        slots = {int(key[1:]): value for key, value in fields.items()}
        name = name or f"constant_{len(self.tensors)}"
        blob = {2: u8(kind), 5: name, 18: u32(len(self.blobs) - 1), 12: u32(len(data))}
        self.tensors.append({0: u8(3), 1: u8(0), **blob, **slots})
        return len(self.tensors) - 1

    def numbers(self, *values: int) -> int:
        """Add a constant of int64."""
        data = struct.pack(f"<{len(values)}q", *values)
        return self.constant(
            data, 5, s0=u8(7), s3=Vector("i", len(values)), s4=Vector("i", len(values))
        )

    def append(
        self,
        op: str,
        shape: list[int],
        constants: list[int],
        attributes: dict[int, Any],
        scale: float | None = None,
    ) -> None:
        """Add a node behind the only output, of rank 4; its result, of `shape`, is the new one.

        Args:
            op: Of the node.
            shape: Of its result.
            constants: Further inputs.
            attributes: Slots of the node: a type and its table.
            scale: Of the result; None: that of the output until now.
        """
        (last,) = self.outputs
        source = self.tensors[last]
        ends = [
            sum(int.from_bytes(t.get(slot, b""), "little") for slot in (12, 13))
            for t in self.tensors
        ]
        groups, plane = (shape[1] + 15) // 16, (shape[2] * shape[3] + 3) // 4 * 4
        result = {
            **source,
            3: Vector("i", 1, groups, shape[2], shape[3], 16),
            4: Vector("i", *shape),
            5: "result",
            12: u32(groups * plane * 16),
            13: u32((max(ends) + 63) // 64 * 64),
        }
        if scale is not None:
            result[10] = Vector("f", scale)
        source[2] = u8(3)
        self.tensors.append(result)
        self.outputs = [len(self.tensors) - 1]
        node = {1: op, 2: f"{op}:{op}_0", 4: Vector("I", last, *constants)}
        node[5] = Vector("I", *self.outputs)
        kept = [other for other in self.nodes if other[1] != "OutputOperator"]
        self.nodes = [*kept, {**node, **attributes}]

    def write(self, version: int = 2) -> bytes:
        graph = {
            0: self.tensors,
            1: self.nodes,
            2: Vector("I", *self.inputs),
            3: Vector("I", *self.outputs),
        }
        model = {
            1: "RKNPU v2",
            2: [graph],
            3: "{'attrs': {}}",
            4: [{0: Bytes(blob)} for blob in self.blobs],
            7: self.toolkit,
            8: self.soc,
        }
        data = flatbuffer(model)
        header = struct.pack("<8sQQ", b"RKNN", version, len(data))
        return header.ljust(24 if version == 1 else 64, b"\0") + data
