"""Explain why a runtime would refuse a model: the runtimes themselves only give a status."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rknn_runtime._files import is_escaped, opened_file, read_kernel_file
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.soc import FULL_RUNTIME, MINI_RUNTIME, SOCS, Soc, soc_of_this_machine

if TYPE_CHECKING:
    from typing import Union

    from rknn_runtime.modelfile.info import ModelHeader, ModelInfo
    from rknn_runtime.modelfile.reader import ModelFile

    #: Sources of the first facts.
    Facts = Union[ModelHeader, ModelFile]

VERSION = rb"lib(rknnm?rt) version: ([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})"
#: A part of it; to find it takes a tenth of a search for the whole, which begins this much earlier.
PART, BEFORE = b"rt version: ", len("librknnm")

#: Longest text that `VERSION` matches, and bytes of a library to search at once.
VERSION_BYTES = 64
CHUNK_BYTES = 1 << 20
MAX_LIBRARY_BYTES = 1 << 31

#: Where the driver tells its version; which one depends on how the kernel was built.
DRIVER_FILES = ("/proc/rknpu/version", "/sys/kernel/debug/rknpu/version")

#: Runtimes up to a version refuse containers from a version on. librknnrt says "Invalid RKNN
#: model version 6": asked were 1.3.4, 1.4.0, 1.5.0, and 1.5.2, which reads it. librknnmrt ends
#: the process after "failed to decode config data!": 1.4.0, 1.5.0, 1.5.2; 1.6.0 reads it.
REFUSALS = {FULL_RUNTIME: ((1, 5, 0), 6), MINI_RUNTIME: ((1, 5, 2), 4)}


#: Operators that librknnmrt 2.3.2 was seen to refuse, and when.
REFUSED_BY_MINI = {
    "ArgMax": "refuses it in rknn_init",
    "ArgMin": "refuses it in rknn_init",
    "TopK": "refuses it in rknn_init",
    "Pad": "refuses it in rknn_init where the NPU cannot do it",
    "Slice": "refuses it in rknn_init where the NPU cannot do it",
    "Transpose": "refuses large ones in rknn_init",
    "Gather": "fails in rknn_run where the indices are int64",
}


class Runtime(NamedTuple):
    """Which runtime a library is."""

    #: ``"librknnrt"`` or ``"librknnmrt"``.
    name: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.name} {'.'.join(map(str, self.version))}"


def runtime_in(library: str | os.PathLike[str]) -> Runtime | None:
    """Find which runtime a library file is, from the version text in it; None: there is none."""
    try:
        with opened_file(library, MAX_LIBRARY_BYTES) as data:
            for start in range(0, len(data), CHUNK_BYTES):
                chunk = data[start : start + CHUNK_BYTES + VERSION_BYTES]
                part = chunk.find(PART)
                match = re.search(VERSION, chunk[max(part - BEFORE, 0) :]) if part >= 0 else None
                if match is not None:
                    major, minor, patch = (int(match[group]) for group in (2, 3, 4))
                    return Runtime(f"lib{match[1].decode()}", (major, minor, patch))
    except (OSError, ValueError):
        pass
    return None


def problems(header: Facts, *, soc: Soc | None = None, runtime: Runtime | None = None) -> list[str]:
    """List why a model cannot run, and what to do; nothing about an unknown SoC or runtime."""
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


class Failure(NamedTuple):
    """A property of a model on which librknnrt fails after loading it, or ends the process."""

    #: The last version that failed; newer ones are not checked.
    last: tuple[int, int, int]
    #: The failure and its cure, to follow the name of the runtime in a sentence.
    words: str
    #: `GeneralModel` works.
    zero_copy_only: bool = False


def failures(info: ModelInfo) -> list[Failure]:
    r"""List the properties of a model on which some version of librknnrt fails.

    ====================================  ================  ================  ======
    asked, emulated, without an NPU       1.5.2             1.6.0             2.3.2
    ====================================  ================  ================  ======
    name that the toolkit writes as \u     abort in the query of its attribute
    operator TopK, int8 and float16       abort in init     abort in init     runs
    int16 output, bound                   never written     rknn_run: -1      works
    int16 output, rknn_outputs_get        works             works             works
    types that are no sound JSON          abort in a query: the reader refuses these
    batch of images, as uint8             works             works             works
    the same as floats, copied            segfault          segfault          mixed up
    the same, duplicated                  not asked         not asked         segfault
    image of int8, copied after uint8     read as uint8     read as uint8     the same
    outputs of dynamic shapes, NC1HWC2    works             rknn_run: -1      floats
    ====================================  ================  ================  ======

    A batch of 2 was bound and set in 724 ways, by type, layout, strides and sizes, passed through
    or not; only floats in NHWC by rknn_inputs_set, 24 of them, ended 1.5.2 and 1.6.0.
    `GeneralModel` refuses copied batches; `duplicate` refuses batches of images on every version;
    `Model` has the outputs of dynamic shapes in NCHW.
    """
    if info.runtime != FULL_RUNTIME:
        return []
    found = []
    attrs = (*info.inputs, *info.outputs)
    name = next((attr.name for attr in attrs if is_escaped(attr.name)), None)
    if name is not None:
        words = f"ends the process on the name {name!r}: export the network with names of ASCII"
        found.append(Failure((2, 3, 2), words + " characters"))
    if "TopK" in info.operators:
        words = "ends the process on the operator TopK: take it out of the network, or install "
        found.append(Failure((1, 6, 0), words + "librknnrt 2.3.2"))
    if any(attr.stored.dtype is TensorType.INT16 for attr in info.outputs):
        words = "does not write int16 outputs where Model has them: take GeneralModel, or install "
        found.append(Failure((1, 6, 0), words + "librknnrt 2.3.2", zero_copy_only=True))
    return found


#: The last version with one of `failures`, apart from those that come from a name.
_LAST_UNLESS_NAMED = (1, 6, 0)


def check_loadable(
    file: ModelFile, name: str, runtime: Runtime | None, *, zero_copy: bool = True
) -> None:
    """Refuse a model that the runtime would refuse, with the reason.

    `zero_copy`: it is to run as `Model` runs it, not as `GeneralModel` does.
    """
    found = problems(file, soc=soc_of_this_machine(), runtime=runtime)
    if not found and runtime is not None and runtime.name == FULL_RUNTIME:
        with suppress(InvalidModelError):  # what only the runtime can judge
            needs = file.needs()
            names = (*needs.input_names, *needs.output_names)
            if runtime.version > _LAST_UNLESS_NAMED and not any(map(is_escaped, names)):
                return  # the whole description takes longer than the rest of a load
            found = [
                f"{runtime} {failure.words}"
                for failure in failures(file.info())
                if runtime.version <= failure.last and (zero_copy or not failure.zero_copy_only)
            ]
    if found:
        reasons = "; ".join(found)
        raise InvalidModelError(
            f"{name or 'the model'} cannot run here: {reasons} (check=False skips this check)"
        )


def suspects(file: ModelFile, call: str) -> str:
    """Name the operators of a model on which librknnmrt fails, for the error message, if any."""
    if file.runtime != MINI_RUNTIME:
        return ""
    try:
        operators = file.operators()
    except InvalidModelError:
        return ""
    found = [
        f"{name} ({MINI_RUNTIME} 2.3.2 {what})"
        for name, what in REFUSED_BY_MINI.items()
        if name in operators and call in what
    ]
    return f"the model has {' and '.join(found)}" if found else ""


def newer_toolkit(header: Facts, runtime: Runtime | None) -> str:
    """Say that a model comes from a toolkit that is newer than the runtime; empty: not known.

    Most such models run all the same; some fail or end the process, as YOLO26 by toolkit 2.3.2 does
    in librknnrt 2.3.0.
    """
    if runtime is None or header.toolkit_version == ".".join(map(str, runtime.version)):
        return ""  # before a pattern is compiled
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", header.toolkit_version)
    if match is None:
        return ""
    made = tuple(int(part) for part in match.groups())
    if made <= runtime.version:
        return ""
    return (
        f"it was made by toolkit {match[0]}, and {runtime} is older: most such models run, some "
        f"fail or end the process; install {runtime.name} {match[0]} or newer"
    )


def versions(header: Facts | None, runtime: Runtime | None) -> str:
    """Say which versions meet, of an encrypted model (None) and an unknown runtime (None), too."""
    made = (
        "encrypted" if header is None else f"for {header.soc}, by toolkit {header.toolkit_version}"
    )
    soc = soc_of_this_machine()
    return (
        f"the model is {made}; runtime {runtime or 'unknown'}, driver "
        f"{driver_version() or 'unknown'}, machine {soc.name if soc else 'unknown'}"
    )


def driver_version(root: str = "/") -> str | None:
    """Version of the NPU driver in the running kernel, such as ``"0.9.8"``; None: unknown."""
    for path in DRIVER_FILES:
        text = read_kernel_file(f"{root.rstrip('/')}{path}").decode("ascii", "replace")
        match = re.search(r"[0-9]+(\.[0-9]+)+", text)
        if match:
            return match[0]
    return None


def _way_out(header: Facts, wanted: str, found: list[str]) -> str:
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
