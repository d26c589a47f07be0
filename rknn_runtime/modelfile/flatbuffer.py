"""A reader of flatbuffers that trusts nothing: every access is checked against the bounds.

A table is a position; its first i32 leads back to a *vtable*, whose n-th u16 says where
in the table slot n lies (0: absent, the field has its default). Strings, vectors and
child tables are u32 offsets forward from where they stand. All integers little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Union

from rknn_runtime._files import FileView

__all__ = ["Buffer", "FlatbufferError", "Table", "root"]

#: What is sliced, never held: each slice is a copy or is used up at once.
Buffer = Union[FileView, memoryview]


class FlatbufferError(ValueError):
    """The bytes are not a flatbuffer of the expected shape."""


class Region(NamedTuple):
    """Bytes ``start <= position < end`` of a buffer."""

    buffer: Buffer
    start: int
    end: int

    def check_inside(self, position: int, length: int) -> None:
        """Refuse what does not lie inside."""
        if position < self.start or position + length > self.end:
            raise FlatbufferError(
                f"{length} bytes at {position} lie outside of {self.start}..{self.end}"
            )

    def number(self, position: int, code: str) -> int:
        """Read one little-endian integer of a `struct` format character."""
        size = struct.calcsize("<" + code)
        self.check_inside(position, size)
        value: int = struct.unpack("<" + code, self.buffer[position : position + size])[0]
        return value

    def vector(self, position: int, item_size: int, limit: int) -> tuple[int, int]:
        """Follow the offset at ``position`` to a vector: position of item 0, length."""
        position += self.number(position, "I")
        length = self.number(position, "I")
        if length > limit:
            raise FlatbufferError(f"a vector of {length} items, at most {limit} make sense")
        self.check_inside(position + 4, length * item_size)
        return position + 4, length


class Table:
    """One table of a flatbuffer; fields are read by slot number."""

    __slots__ = ("position", "region", "vtable", "vtable_size")

    def __init__(self, region: Region, position: int) -> None:
        self.region = region
        self.position = position
        self.vtable = position - region.number(position, "i")
        self.vtable_size = region.number(self.vtable, "H")
        if self.vtable_size < 4 or self.vtable_size % 2:
            raise FlatbufferError(f"a vtable of {self.vtable_size} bytes")
        region.check_inside(self.vtable, self.vtable_size)

    def find(self, slot: int) -> int:
        """Position of a field, 0 when the table does not have it."""
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_size:
            return 0
        offset = self.region.number(self.vtable + entry, "H")
        return self.position + offset if offset else 0

    def scalar(self, slot: int, code: str) -> int:
        """Read an integer; 0 when absent, as flatbuffers omit the default."""
        position = self.find(slot)
        return self.region.number(position, code) if position else 0

    def raw(self, slot: int, limit: int) -> bytes:
        """Copy the bytes of a string; empty when absent."""
        position = self.find(slot)
        if not position:
            return b""
        position, length = self.region.vector(position, 1, limit)
        return bytes(self.region.buffer[position : position + length])

    def text(self, slot: int, limit: int) -> str:
        """Read a UTF-8 string; empty when absent."""
        try:
            return self.raw(slot, limit).decode()
        except UnicodeDecodeError as error:
            raise FlatbufferError(f"a string that is not UTF-8: {error}") from error

    def numbers(self, slot: int, code: str, limit: int) -> tuple[float, ...]:
        """Read a vector of 4-byte numbers (``i`` or ``f``); empty when absent."""
        position = self.find(slot)
        if not position:
            return ()
        position, length = self.region.vector(position, 4, limit)
        data = self.region.buffer[position : position + 4 * length]
        return struct.unpack(f"<{length}{code}", data)

    def integers(self, slot: int, limit: int) -> tuple[int, ...]:
        """Read a vector of i32; empty when absent."""
        return tuple(int(value) for value in self.numbers(slot, "i", limit))

    def child(self, slot: int) -> Table:
        """Follow the offset to a table that must be there."""
        position = self.find(slot)
        if not position:
            raise FlatbufferError(f"the table in slot {slot} is missing")
        return Table(self.region, position + self.region.number(position, "I"))

    def children(self, slot: int, limit: int) -> Children:
        """Read a vector of tables; empty when absent."""
        position = self.find(slot)
        start, length = self.region.vector(position, 4, limit) if position else (0, 0)
        return Children(self.region, start, length)


class Children:
    """A vector of tables, each read when it is asked for."""

    __slots__ = ("length", "region", "start")

    def __init__(self, region: Region, start: int, length: int) -> None:
        self.region = region
        self.start = start
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Table:
        if not 0 <= index < self.length:
            raise FlatbufferError(f"index {index} into a vector of {self.length} tables")
        position = self.start + 4 * index
        return Table(self.region, position + self.region.number(position, "I"))

    def __iter__(self) -> Iterator[Table]:
        return (self[index] for index in range(self.length))


def root(buffer: Buffer, start: int, end: int) -> Table:
    """Open the flatbuffer whose root offset stands at ``start``; nothing lies behind ``end``.

    Raises:
        FlatbufferError: No table is there. The methods of the table raise it as well.
    """
    region = Region(buffer, start, end)
    return Table(region, start + region.number(start, "I"))
