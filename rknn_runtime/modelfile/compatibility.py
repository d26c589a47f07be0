"""Why a runtime would refuse a model, told before it does: the runtimes give one status."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rknn_runtime._files import opened_file
from rknn_runtime._frozen import Frozen
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.reader import ModelFile, ModelHeader, ModelInfo
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS, Soc, soc_of_this_machine

__all__ = [
    "Runtime",
    "check",
    "driver_version",
    "fatal",
    "problems",
    "runtime_in",
    "versions",
]

VERSION = re.compile(rb"lib(rknnm?rt) version: ([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})")

#: Longest text that it matches, and what of a library is searched at once.
VERSION_BYTES = 64
CHUNK_BYTES = 1 << 20
MAX_LIBRARY_BYTES = 1 << 31

#: Where the driver tells its version; which one depends on how the kernel was built.
DRIVER_FILES = ("/proc/rknpu/version", "/sys/kernel/debug/rknpu/version")

#: Runtimes up to a version refuse containers from a version on. librknnrt says "Invalid RKNN
#: model version 6": asked were 1.3.4, 1.4.0, 1.5.0, and 1.5.2, which reads it. librknnmrt ends
#: the process after "failed to decode config data!": 1.4.0, 1.5.0, 1.5.2; 1.6.0 reads it.
REFUSALS = {FULL_RUNTIME: ((1, 5, 0), 6), MINI_RUNTIME: ((1, 5, 2), 4)}


#: The last librknnrt that was seen to end the process on names of tensors beyond ASCII (which
#: the toolkit escapes), and on an operator; by asking 1.5.2 and, about names, 1.6.0.
NAMES_FATAL_UP_TO = (1, 6, 0)
OPERATORS_FATAL_UP_TO = {"TopK": (1, 5, 2)}
#: No newer one is held to any of these.
FATAL_UP_TO = max(NAMES_FATAL_UP_TO, *OPERATORS_FATAL_UP_TO.values())


@dataclass(frozen=True)
class Runtime(Frozen):
    """Which runtime a library is."""

    __slots__ = ("name", "version")

    #: ``"librknnrt"`` or ``"librknnmrt"``.
    name: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def runtime_in(library: str | os.PathLike[str]) -> Runtime | None:
    """Find which runtime a library file is, from the version text in it.

    Args:
        library: The file; one that has a runtime linked in will do.

    Returns:
        The runtime, or None when the file cannot be read or has no such text.
    """
    try:
        with opened_file(library, MAX_LIBRARY_BYTES) as data:
            for start in range(0, len(data), CHUNK_BYTES):
                match = VERSION.search(data[start : start + CHUNK_BYTES + VERSION_BYTES])
                if match is not None:
                    major, minor, patch = (int(match[group]) for group in (2, 3, 4))
                    return Runtime(f"lib{match[1].decode()}", (major, minor, patch))
    except (OSError, ValueError):
        pass
    return None


def problems(
    header: ModelHeader, *, soc: Soc | None = None, runtime: Runtime | None = None
) -> list[str]:
    """List what makes a model impossible to run.

    Args:
        header: Of the model.
        soc: Of the machine; None: unknown, nothing is said about it.
        runtime: Of the process; None: unknown, nothing is said about it.

    Returns:
        Sentences that say what does not fit and what to do; none when nothing is known
        to be wrong.
    """
    found = []
    if soc is not None and header.npu != soc.npu:
        found.append(
            f"it was made for {header.soc} ({header.npu}) and this machine is a {soc.name} "
            f"({soc.npu}): convert it with target_platform={soc.name!r}"
        )
    if runtime is None:
        return found
    wanted = header.runtime
    if runtime.name != wanted:
        found.append(
            f"its container is a {header.container} one, for {wanted}, and the loaded runtime "
            f"is {runtime}: " + _way_out(header, wanted, found)
        )
        return found
    last, version = REFUSALS[wanted]
    if runtime.version <= last and header.container_version >= version:
        found.append(
            f"its container version is {header.container_version}, from toolkit "
            f"{header.toolkit_version}, and {runtime} cannot read it: install {wanted} "
            f"{header.toolkit_version} or newer, or convert the model with the toolkit "
            "of that runtime"
        )
    return found


def fatal(info: ModelInfo, runtime: Runtime) -> list[str]:
    """List what of a model ends the process of an old librknnrt.

    Args:
        info: Of a model that the runtime can read.
        runtime: Of the process.

    Returns:
        Sentences as those of `problems`.
    """
    if runtime.name != FULL_RUNTIME:
        return []
    names = [attr.name for attr in (*info.inputs, *info.outputs) if not attr.name.isascii()]
    found = []
    if names and runtime.version <= NAMES_FATAL_UP_TO:
        found.append(
            f"{runtime} ends the process on the name {names[0]!r}: export the network with "
            "names of ASCII characters, or install a newer runtime"
        )
    for operator, last in OPERATORS_FATAL_UP_TO.items():
        if operator in info.operators and runtime.version <= last:
            found.append(
                f"{runtime} ends the process on the operator {operator}: take it out of the "
                "network, or install a newer runtime"
            )
    return found


def check(file: ModelFile, name: str, library: str | os.PathLike[str]) -> None:
    """Refuse a model that the runtime would refuse, with the reason.

    Args:
        file: The model.
        name: What the message calls it; may be empty.
        library: File of the loaded runtime.

    Raises:
        InvalidModelError: The model does not fit the machine or the runtime.
    """
    runtime = runtime_in(library)
    found = problems(file.header, soc=soc_of_this_machine(), runtime=runtime)
    if not found and runtime is not None and runtime.version <= FATAL_UP_TO:
        with suppress(InvalidModelError):  # what only the runtime can judge
            found = fatal(file.info(), runtime)
    if found:
        reasons = "; ".join(found)
        raise InvalidModelError(
            f"{name or 'the model'} cannot run here: {reasons} (check=False skips this check)"
        )


def versions(header: ModelHeader | None, library: str | os.PathLike[str]) -> str:
    """Say which versions meet: for the message about a refusal that could not be foreseen.

    Args:
        header: Of the model; None: it is encrypted.
        library: File of the loaded runtime.

    Returns:
        A sentence about model, runtime, driver and machine.
    """
    made = (
        "encrypted" if header is None else f"for {header.soc}, by toolkit {header.toolkit_version}"
    )
    soc = soc_of_this_machine()
    return (
        f"the model is {made}; runtime {runtime_in(library) or 'unknown'}, driver "
        f"{driver_version() or 'unknown'}, machine {soc.name if soc else 'unknown'}"
    )


def driver_version() -> str | None:
    """Version of the NPU driver in the running kernel, such as ``"0.9.8"``; None: unknown."""
    for path in DRIVER_FILES:
        try:
            match = re.search(r"[0-9]+(\.[0-9]+)+", Path(path).read_text("ascii", "replace"))
        except OSError:  # not there, or for root only
            continue
        if match:
            return match[0]
    return None


def _way_out(header: ModelHeader, wanted: str, found: list[str]) -> str:
    """What to do about a container of the other kind."""
    if found:
        return "the conversion for this machine takes care of that"
    soc = SOCS.get(header.soc)
    if soc is not None and soc.runtime != wanted:
        return (
            f"the toolkit writes a {header.container} container for {soc.name} when "
            f"{soc.foreign_container_option} is given; convert it without"
        )
    return f"load {wanted}.so with library=, or convert the model for the SoC of this machine"
