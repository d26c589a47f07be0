"""The SoCs with an RKNN NPU, and which one this machine is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import read_kernel_file

#: Where Linux says which board it runs on: NUL-separated ``vendor,name`` strings.
DEVICE_TREE = "/proc/device-tree/compatible"

FULL_RUNTIME = "librknnrt"
MINI_RUNTIME = "librknnmrt"
#: Versions of each library whose answers were recorded, newest first.
RUNTIME_VERSIONS = {FULL_RUNTIME: ("2.3.2", "1.5.2"), MINI_RUNTIME: ("2.3.2",)}


def runtime_of(mini: bool) -> str:
    """Return the vendor's library that reads mini containers, or all others."""
    return MINI_RUNTIME if mini else FULL_RUNTIME


class Soc(NamedTuple):
    """Facts of one SoC that decide how its tensors lie in memory and which models run."""

    name: str
    #: The NPU generation as a model file spells it; SoCs with the same one share models.
    npu: str
    #: The toolkit writes mini containers for it, and its runtime reads nothing else.
    mini: bool
    #: NPU cores.
    cores: int
    #: Bytes of one channel group: ``C2`` is this divided by the bytes of an element.
    c2_bytes: int
    #: The rows of an image input begin at multiples of this many bytes (per channel).
    row_bytes: int

    @property
    def runtime(self) -> str:
        """The vendor's library for this SoC: ``librknnrt`` or ``librknnmrt``."""
        return runtime_of(self.mini)

    @property
    def foreign_container_option(self) -> str:
        """The toolkit's option that makes a container for the other runtime."""
        return "dynamic_input" if self.mini else "mini_rknn"


def _socs() -> Iterator[Soc]:
    """Read the table of ``csrc/modelfile/soc.c``."""
    index = 0
    while (row := lib.rkr_get_soc(index)) != ffi.NULL:
        name, npu = (ffi.string(text).decode() for text in (row.name, row.npu))
        yield Soc(name, npu, bool(row.is_mini), row.cores, row.c2_bytes, row.row_bytes)
        index += 1


#: Every SoC that rknn-toolkit2 2.3.2 and 2.5.0 make models for, by name.
SOCS = {soc.name: soc for soc in _socs()}


def known_version(runtime: str, version: str | None) -> str:
    """Return the version of a vendor's library that a caller wants described; None: the newest."""
    known = RUNTIME_VERSIONS[runtime]
    if version is None:
        return known[0]
    if not isinstance(version, str):
        raise TypeError(f"runtime_version: expected a str or None, got {type(version).__name__}")
    if version not in known:
        raise ValueError(
            f"runtime_version: expected {' or '.join(known)} for {runtime}, got {version!r}"
        )
    return version


def soc_named(name: object, argument: str) -> Soc:
    """Return the SoC of a name, in upper or lower case."""
    if not isinstance(name, str):
        raise TypeError(f"{argument}: expected the name of a SoC, got {type(name).__name__}")
    if name.lower() not in SOCS:
        raise ValueError(f"{argument}: expected one of {', '.join(SOCS)}, got {name!r}")
    return SOCS[name.lower()]


def find_soc(name: str) -> Soc | None:
    """Find a SoC by its name or the name of a variant of it.

    Args:
        name: For example ``"rk3588"``, ``"RK3588S"`` or ``"rv1106g3"``.

    Returns:
        The SoC, or None when no SoC here has a name that ``name`` begins with.
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a str, got {type(name).__name__}")
    name = name.lower()
    matches = [soc for soc in SOCS.values() if name.startswith(soc.name)]
    return max(matches, key=lambda soc: len(soc.name), default=None)


def soc_of_this_machine(device_tree: str | os.PathLike[str] = DEVICE_TREE) -> Soc | None:
    """Read from the device tree which SoC this machine is.

    Args:
        device_tree: The file with the ``compatible`` strings.

    Returns:
        The SoC, or None when there is no such file (any PC) or none of its strings
        names a SoC with an RKNN NPU.
    """
    for text in read_kernel_file(device_tree).split(b"\0"):
        vendor, _, name = text.decode("ascii", "replace").partition(",")
        soc = find_soc(name) if vendor == "rockchip" else None
        if soc is not None:
            return soc
    return None
