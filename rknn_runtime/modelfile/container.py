"""Opens a model file, tells what it is, and finds the flatbuffer in it."""

from __future__ import annotations

import mmap
import os
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Union

from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.flatbuffer import Buffer

__all__ = ["ENCRYPTED", "Container", "Memory", "ModelSource", "opened", "parse_container"]

ModelSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, mmap.mmap]

#: What rknn_init takes, and what can be mapped.
MAX_MODEL_BYTES = min(2**32 - 1, sys.maxsize)

MAGIC = b"RKNN\0\0\0\0"
ENCRYPTED = b"CYPTRKNN"
#: The header of container versions above 1; older ones have 24 bytes.
HEADER_BYTES = 64
OLD_HEADER_BYTES = 24
#: Second byte of the version word: the container's kind.
STANDARD, MINI = 0x00, 0x10

CONVERT = "convert the network to .rknn with rknn-toolkit2 first"
EXPORT = "export the network again with rknn-toolkit2"

#: Formats known by how a file begins: (offset, bytes, what it is, what to do).
SIGNATURES = (
    (0, ENCRYPTED, "an encrypted RKNN model",
     "the vendor's runtime can load it, but nothing can look into it; "
     "use the model as it was before encryption"),
    (0, b"RKNNSIM2", "a bundle of the simulated NPU",
     'only the simulated NPU loads it (library="sim"); look into the model that it was made of'),
    (0, b"RKNX", "an RKNN3 model, for RK182x coprocessors",
     "it needs the vendor's RKNN3 runtime; " + EXPORT + " for a SoC of this family"),
    (24, b"VPMN", "an RKNN1 model, for RK1808, RK3399Pro, RV1109 or RV1126",
     EXPORT + " (the toolkit of those SoCs was rknn-toolkit, without the 2)"),
    (64, b"VPMN", "an RKNN1 model, for RK1808, RK3399Pro, RV1109 or RV1126",
     EXPORT + " (the toolkit of those SoCs was rknn-toolkit, without the 2)"),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file itself",
     "run `git lfs pull` in its repository"),
    (4, b"TFL3", "a TensorFlow Lite model", CONVERT),
    (0, b"PK\x03\x04", "a ZIP archive (PyTorch saves models as such)",
     "unpack the archive, or export the PyTorch model to ONNX and " + CONVERT),
    (0, b"\x1f\x8b", "a gzip archive", "unpack it"),
    (0, b"\x7fELF", "a shared library or a program", "pass the path of the .rknn file"),
    (0, b"<!DOCTYPE", "a web page, perhaps of a download that failed", "download it again"),
    (0, b"<html", "a web page, perhaps of a download that failed", "download it again"),
)  # fmt: skip

#: Tags that follow the version of the format in an ONNX file: producer, domain, graph, opset.
ONNX_TAGS = b"\x12\x1a\x22\x28\x32\x3a\x42"


class Memory(NamedTuple):
    """Bytes of NPU memory that a model takes besides its inputs and outputs."""

    weights: int
    #: Scratch memory between the layers.
    internal: int
    #: Register commands, and constants of operators on the CPU.
    commands: int


@dataclass(frozen=True)
class Container:
    """The outer layer of a model file."""

    mini: bool
    #: Container version: the low byte of the version word.
    version: int
    #: Where the flatbuffer begins, and where nothing of it can lie any more.
    flatbuffer_start: int
    flatbuffer_end: int
    #: From the section table of a mini container; None in a standard one.
    memory: Memory | None


@contextmanager
def opened(model: ModelSource) -> Iterator[Buffer]:
    """Map a file into memory, or view bytes, for the time of a ``with`` block.

    Args:
        model: A path (``str`` or path-like), or the bytes of a model.

    Yields:
        The content. Nothing may hold on to it.

    Raises:
        InvalidModelError: It is a directory, another thing that is no file, empty, or
            larger than any model can be.
        OSError: The file cannot be opened.
        TypeError: ``model`` is neither path nor bytes.
    """
    if isinstance(model, (bytes, bytearray, memoryview, mmap.mmap)):
        with memoryview(model) as view:
            if not view.contiguous:
                raise TypeError("the bytes of a model must be contiguous")
            with view.cast("B") as flat:
                if not flat:
                    raise InvalidModelError("the model is empty: 0 bytes were given")
                _check_size(len(flat), "the model")
                yield flat
        return
    try:
        path = Path(model)
    except TypeError:
        raise TypeError(f"a model is a path or its bytes, not {type(model).__name__}") from None
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InvalidModelError(f"{path} is a directory; pass the path of a .rknn file in it")
    if not stat.S_ISREG(mode):
        raise InvalidModelError(f"{path} is not a regular file; pass the path of a .rknn file")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise InvalidModelError(f"{path} is empty; export or download it again")
        _check_size(size, str(path))
        # A private copy where it is written to: rknn_init takes memory that is not const.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
            yield mapped


def _check_size(size: int, name: str) -> None:
    if size > MAX_MODEL_BYTES:
        raise InvalidModelError(f"{name} has {size} bytes, and models at most {MAX_MODEL_BYTES}")


def parse_container(data: Buffer) -> Container:
    """Check the header and find the flatbuffer.

    Raises:
        InvalidModelError: It is something else, of which the message says what, or its
            sections do not lie inside the file.
    """
    refuse_other_formats(data)
    if len(data) < OLD_HEADER_BYTES:
        raise InvalidModelError(f"truncated: {len(data)} bytes are less than the header")
    word, data_bytes = struct.unpack_from("<QQ", data, 8)
    version, kind = word & 0xFF, word >> 8 & 0xFF
    if word > 0xFFFF or kind not in (STANDARD, MINI) or not version:
        raise InvalidModelError(f"unknown container version {word:#x}; {EXPORT}")
    header_bytes = HEADER_BYTES if version > 1 else OLD_HEADER_BYTES
    end = header_bytes + data_bytes
    if end > len(data):
        raise InvalidModelError(
            f"truncated: the header says {end} bytes or more, the file has {len(data)}; "
            "export, copy or download it again"
        )
    if kind == MINI:
        return parse_mini(data, version, header_bytes, end)
    if bytes(data[header_bytes + 4 : header_bytes + 8]) != b"RKNN":
        raise InvalidModelError("damaged: no RKNN flatbuffer behind the header")
    return Container(False, version, header_bytes, end, None)


def parse_mini(data: Buffer, version: int, start: int, end: int) -> Container:
    """Read the table of sections with which the data of a mini container begin."""
    if end - start < 64:
        raise InvalidModelError("truncated: no section table")
    flatbuffer, tasks, _, commands, internal, weights, extra = struct.unpack_from(
        "<7I", data, start
    )
    if 64 + tasks + commands + weights + extra + flatbuffer != end - start:
        raise InvalidModelError("damaged: the sections do not add up to the data")
    memory = Memory(weights, internal, commands + extra)
    return Container(True, version, end - flatbuffer, end, memory)


def refuse_other_formats(data: Buffer) -> None:
    """Name what the data are unless they begin as an RKNN container does."""
    for offset, signature, what, advice in SIGNATURES:
        if bytes(data[offset : offset + len(signature)]) == signature:
            raise InvalidModelError(f"this is {what}; {advice}")
    head = bytes(data[:8])
    if head == MAGIC:
        return
    if MAGIC.startswith(head):
        raise InvalidModelError(f"truncated: {len(data)} bytes are less than the header")
    if head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] and head[2] in ONNX_TAGS:
        raise InvalidModelError(f"this is an ONNX model; {CONVERT}")
    raise InvalidModelError(f"not an RKNN model: it begins with {head!r}")
