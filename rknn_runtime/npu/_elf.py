"""Explain from its ELF header why a shared library cannot be loaded.

The dynamic linker's message names neither the machine of a library nor its C library, and these
are the two usual reasons on boards.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from rknn_runtime._files import FileView, opened_file

#: A larger file is no library.
_MAX_BYTES = 1 << 32

_MACHINES = {3: "x86", 40: "32-bit ARM", 62: "x86-64", 183: "64-bit ARM (aarch64)", 243: "RISC-V"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB = 1, 5
_MAX_NAME_BYTES = 4096


class Elf(NamedTuple):
    """Properties that decide whether a process can load a library."""

    bits: int
    machine: int
    #: Names of the libraries it needs, and its program interpreter if it has one.
    needed: tuple[str, ...]
    #: Bytes of the file that the dynamic linker maps.
    mapped_bytes: int

    @property
    def target(self) -> str:
        """The machine in words, such as ``32-bit ARM``."""
        name = _MACHINES.get(self.machine, f"ELF machine {self.machine}")
        return name if "bit" in name or self.machine == 62 else f"{self.bits}-bit {name}"

    @property
    def libc(self) -> str:
        """Its C library: ``glibc``, ``musl`` or ``uClibc``; empty if unknown."""
        for mark, name in (("libc.so.0", "uClibc"), ("uClibc", "uClibc"), ("musl", "musl"),
                           ("libc.so.6", "glibc"), ("ld-linux", "glibc")):  # fmt: skip
            if any(mark in needed for needed in self.needed):
                return name
        return ""


def read(path: str) -> Elf | None:
    """Read an ELF file's header; None if it is no ELF file, or damaged."""
    try:
        with opened_file(path, _MAX_BYTES) as data:
            return _parse(data)
    except ValueError:  # no regular file, empty, or cut meanwhile
        return None


def _parse(data: FileView) -> Elf | None:
    start = data[:20]
    if len(start) < 20 or start[:4] != b"\x7fELF" or start[4] not in (1, 2):
        return None
    wide = start[4] == 2
    order = ">" if start[5] == 2 else "<"
    machine = struct.unpack(order + "H", start[18:20])[0]
    needed: tuple[str, ...] = ()
    mapped_bytes = 0
    try:
        segments = _segments(data, wide, order)
        mapped_bytes = max((s.offset + s.size for s in segments if s.kind == _PT_LOAD), default=0)
        needed = _needed(data, segments, order + ("qQ" if wide else "iI"))
    except (struct.error, ValueError, OverflowError):
        pass
    return Elf(64 if wide else 32, machine, needed, mapped_bytes)


class _Segment(NamedTuple):
    """An entry of the program header table: a part of the file and where it goes."""

    kind: int
    offset: int
    address: int
    #: Bytes in the file.
    size: int


def _segments(data: FileView, wide: bool, order: str) -> list[_Segment]:
    """Read the program header table (System V ABI, chapter 5)."""
    header, start, count = ("Q", 32, 56) if wide else ("I", 28, 44)
    entry = struct.Struct(order + ("IIQQQQQQ" if wide else "IIIIIIII"))
    place = struct.calcsize(order + header)
    table = struct.unpack(order + header, data[start : start + place])[0]
    number = struct.unpack(order + "H", data[count : count + 2])[0]
    found = []
    for fields in entry.iter_unpack(data[table : table + number * entry.size]):
        offset, address, size = (
            (fields[2], fields[3], fields[5]) if wide else (fields[1], fields[2], fields[4])
        )
        found.append(_Segment(fields[0], offset, address, size))
    return found


def _needed(data: FileView, segments: Sequence[_Segment], dynamic: str) -> tuple[str, ...]:
    """Names in DT_NEEDED and PT_INTERP (System V ABI, chapters 4 and 5)."""
    entry = struct.Struct(dynamic)
    entries: list[tuple[int, int]] = []
    names: list[str] = []
    for kind, offset, _, size in segments:
        if kind == _PT_INTERP:
            names.append(_string(data, offset))
        elif kind == _PT_DYNAMIC:
            entries.extend(entry.iter_unpack(data[offset : offset + size - size % entry.size]))
    strings = [value for tag, value in entries if tag == _DT_STRTAB]
    for kind, offset, address, size in segments:
        if kind == _PT_LOAD and strings and address <= strings[0] < address + size:
            base = strings[0] - address + offset
            names += [_string(data, base + value) for tag, value in entries if tag == _DT_NEEDED]
    return tuple(names)


def _string(data: FileView, offset: int) -> str:
    text, end, _ = data[offset : offset + _MAX_NAME_BYTES].partition(b"\0")
    if not end:
        raise ValueError("no end of string")
    return text.decode("utf-8", "backslashreplace")


def cut_short(path: str) -> str | None:
    """Say if a library file lacks its end, as after an interrupted copy; None if it is whole.

    The dynamic linker would map the missing part, too, and the process would end by SIGBUS, often
    inside dlopen.
    """
    elf = read(path)
    size = os.stat(path).st_size
    if elf is None or elf.mapped_bytes <= size:
        return None
    return f"cut short: {size} of at least {elf.mapped_bytes} bytes are there; copy it again"


def mismatch(path: str) -> str | None:
    """Say why this process cannot load a library file; None: its header shows no reason."""
    elf = read(path)
    if elf is None:
        return "not an ELF shared library"
    mine = read(sys.executable) if sys.executable else None
    if mine is not None and (elf.bits, elf.machine) != (mine.bits, mine.machine):
        return f"built for {elf.target}, this Python is {mine.target}"
    if elf.libc == "uClibc" and not (mine is not None and mine.libc == "uClibc"):
        return (
            "built for uClibc, which this Python does not use; link the vendor's archive into "
            "this package instead (make wheel-static RKNN_STATIC_LIBRARY=librknnmrt.a, see "
            "docs/boards-rv1106.md), or take a glibc build of the runtime, or a Python of the "
            "board's own uClibc system"
        )
    return None
