"""Why a shared library does not load here: read from its ELF header.

The dynamic linker's own message names neither the machine that a library was built for
nor the C library that it wants, and these are the two usual reasons on boards.
"""

from __future__ import annotations

import mmap
import struct
import sys
from dataclasses import dataclass

__all__ = ["mismatch"]

_MACHINES = {3: "x86", 40: "32-bit ARM", 62: "x86-64", 183: "64-bit ARM (aarch64)", 243: "RISC-V"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB = 1, 5


@dataclass(frozen=True)
class Elf:
    """What decides whether a library can be loaded into a process."""

    bits: int
    machine: int
    #: Names of the libraries it needs, and its program interpreter if it has one.
    needed: tuple[str, ...]

    @property
    def target(self) -> str:
        """The machine in words, such as ``32-bit ARM``."""
        name = _MACHINES.get(self.machine, f"ELF machine {self.machine}")
        return name if "bit" in name or self.machine == 62 else f"{self.bits}-bit {name}"


def read(path: str) -> Elf | None:
    """Read an ELF file's header.

    Args:
        path: a file.

    Returns:
        None when the file is no ELF file, or is damaged.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        if len(file.read(20)) < 20:
            return None
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        return _parse(data)


def _parse(data: mmap.mmap) -> Elf | None:
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2):
        return None
    wide = data[4] == 2
    order = ">" if data[5] == 2 else "<"
    machine = struct.unpack_from(order + "H", data, 18)[0]
    try:
        needed = _needed(data, wide, order)
    except (struct.error, ValueError, OverflowError):
        needed = ()
    return Elf(64 if wide else 32, machine, needed)


def _needed(data: mmap.mmap, wide: bool, order: str) -> tuple[str, ...]:
    """Names in DT_NEEDED and PT_INTERP (System V ABI, chapters 4 and 5)."""
    if wide:
        header, start, count = "Q", 32, 56
        program, dynamic = "IIQQQQQQ", "qQ"
    else:
        header, start, count = "I", 28, 44
        program, dynamic = "IIIIIIII", "iI"
    table = struct.unpack_from(order + header, data, start)[0]
    number = struct.unpack_from(order + "H", data, count)[0]
    loads: list[tuple[int, int, int]] = []
    entries: list[tuple[int, int]] = []
    names: list[str] = []
    for index in range(number):
        fields = struct.unpack_from(
            order + program, data, table + index * struct.calcsize(order + program)
        )
        offset, address, size = (
            (fields[2], fields[3], fields[5]) if wide else (fields[1], fields[2], fields[4])
        )
        if fields[0] == _PT_LOAD:
            loads.append((address, offset, size))
        elif fields[0] == _PT_INTERP:
            names.append(_string(data, offset))
        elif fields[0] == _PT_DYNAMIC:
            body = data[offset : offset + size - size % struct.calcsize(order + dynamic)]
            entries.extend(struct.iter_unpack(order + dynamic, body))
    strings = [value for tag, value in entries if tag == _DT_STRTAB]
    for address, offset, size in loads:
        if strings and address <= strings[0] < address + size:
            base = strings[0] - address + offset
            names += [_string(data, base + value) for tag, value in entries if tag == _DT_NEEDED]
    return tuple(names)


def _string(data: mmap.mmap, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise ValueError("no end of string")
    return data[offset:end].decode("utf-8", "backslashreplace")


def mismatch(path: str) -> str | None:
    """Say why this process cannot load a library file.

    Args:
        path: a file.

    Returns:
        The reason in words, or None when its header shows none.

    Raises:
        OSError: the file cannot be read.
    """
    elf = read(path)
    if elf is None:
        return "not an ELF shared library"
    mine = read(sys.executable) if sys.executable else None
    if mine is not None and (elf.bits, elf.machine) != (mine.bits, mine.machine):
        return f"built for {elf.target}, this Python is {mine.target}"
    if _wants_uclibc(elf) and not (mine is not None and _wants_uclibc(mine)):
        return (
            "built for uClibc, which this Python does not use; take a glibc build of the "
            "runtime, or a Python of the board's own uClibc system"
        )
    return None


def _wants_uclibc(elf: Elf) -> bool:
    return any(name == "libc.so.0" or "ld-uClibc" in name for name in elf.needed)
