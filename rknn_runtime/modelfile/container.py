"""Opens a model file, tells what it is, and finds the flatbuffer in it."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Union

from rknn_runtime._files import FileView, opened_file
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile.flatbuffer import Buffer

__all__ = [
    "ENCRYPTED",
    "Container",
    "MemoryNeeds",
    "ModelSource",
    "check_trailer",
    "loaded",
    "opened",
    "parse_container",
]

ModelSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]

#: What rknn_init takes, and what fits into an address space.
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

AGAIN = "export, copy or download it again"
RKNN1 = (
    "an RKNN1 model, for RK1808, RK3399Pro, RV1109 or RV1126",
    EXPORT + " (the toolkit of those SoCs was rknn-toolkit, without the 2)",
)
#: Their names in the trailer of such a file.
RKNN1_SOCS = frozenset({"rk1806", "rk1808", "rk3399pro", "rv1109", "rv1126"})

#: No honest file spends a higher part on its trailer; the biggest of 857 was 12 %.
MAX_TRAILER_PART = 1 / 4
#: The description in an RKNN1 model may be most of it: few weights are before it.
MAX_RKNN1_JSON_BYTES = 1 << 20

#: Formats known by how a file begins: (offset, bytes, what it is, what to do).
SIGNATURES = (
    (0, ENCRYPTED, "an encrypted RKNN model",
     "the vendor's runtime can load it, but nothing can look into it; "
     "use the model as it was before encryption"),
    (0, b"RKNNSIM2", "a bundle of the simulated NPU",
     'only the simulated NPU loads it (library="sim"); look into the model that it was made of'),
    (0, b"RKCE", "an encrypted RKNN model, of the second kind",
     "it needs a key, which only RKNNLite 2.5.0 and newer takes; use the model as it was before "
     "encryption"),
    (0, b"RKNX", "an RKNN3 model, for RK1820, RK1828 or RK3572",
     "it needs the vendor's RKNN3 runtime; " + EXPORT + " for a SoC of this family"),
    (24, b"VPMN", *RKNN1),
    (64, b"VPMN", *RKNN1),
    (32, b'{"network_platform"', *RKNN1),
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


class MemoryNeeds(NamedTuple):
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
    memory: MemoryNeeds | None


@contextmanager
def opened(model: ModelSource) -> Iterator[Buffer]:
    """Open a file, or view bytes, for the time of a ``with`` block.

    Of a file only the parts are read that are asked for.

    Args:
        model: A path (``str`` or path-like), or the bytes of a model.

    Yields:
        The content. Nothing may hold on to it.

    Raises:
        InvalidModelError: It is a directory, another thing that is no file, empty, larger than
            any model can be, or it changed while it was read.
        OSError: The file cannot be read.
        TypeError: ``model`` is neither path nor bytes.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        with _bytes_view(model) as flat:
            yield flat
        return
    with _opened_model(model) as view:
        yield view


@contextmanager
def loaded(model: ModelSource, *, check: bool = True) -> Iterator[memoryview]:
    """Read a model into memory for the time of a ``with`` block: what ``rknn_init`` takes.

    What is checked there is then what the runtime gets, whatever becomes of the file. The
    memory is given back to the system at the end.

    Args:
        model: A path, or the bytes of a model.
        check: Refuse what does not begin as an RKNN model, before it is all read.

    Yields:
        The content, writable where it comes from a file: rknn_init takes memory that is not
        const. Nothing may hold on to it.

    Raises:
        InvalidModelError: It is not a model, or the file changed while it was read.
        MemoryError: There is not so much of it.
        OSError: The file cannot be read.
        TypeError: ``model`` is neither path nor contiguous bytes.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        with _bytes_view(model) as flat:
            yield flat
        return
    with _opened_model(model) as view:
        if check and view[: len(ENCRYPTED)] != ENCRYPTED:
            try:
                refuse_other_formats(view)
            except InvalidModelError as error:
                raise InvalidModelError(f"{view.path}: {error}") from None
        memory = _memory(len(view))
        with memoryview(memory) as content:
            view.read_into(content)
    with memory, memoryview(memory) as content:
        yield content


@contextmanager
def _bytes_view(model: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    with memoryview(model) as view:
        if not view.contiguous:
            raise TypeError("model: expected contiguous bytes, got others")
        with view.cast("B") as flat:
            if not flat:
                raise InvalidModelError("model: expected content, got 0 bytes")
            if len(flat) > MAX_MODEL_BYTES:
                raise InvalidModelError(
                    f"the model has {len(flat)} bytes, expected at most {MAX_MODEL_BYTES}"
                )
            yield flat


@contextmanager
def _opened_model(path: str | os.PathLike[str]) -> Iterator[FileView]:
    """Open a model file; what was read of one that changed meanwhile is not to be trusted."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"model: expected a path or bytes, got {type(path).__name__}")
    with ExitStack() as stack:
        with _as_invalid_model():
            view = stack.enter_context(opened_file(path, MAX_MODEL_BYTES))
        try:
            yield view
        except ValueError:  # perhaps because it changed
            with _as_invalid_model():
                view.check_unchanged()
            raise
        with _as_invalid_model():
            view.check_unchanged()


@contextmanager
def _as_invalid_model() -> Iterator[None]:
    """Turn the ValueError of what is no usable file into `InvalidModelError`."""
    try:
        yield
    except ValueError as error:
        raise InvalidModelError(str(error)) from None


def _memory(size: int) -> mmap.mmap:
    """Allocate memory that goes back to the system as a whole, as no part of a heap does."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for a model of {size} bytes") from error


def parse_container(data: Buffer) -> Container:
    """Check the header and find the flatbuffer.

    Raises:
        InvalidModelError: It is something else, of which the message says what, or its
            sections do not lie inside the file.
    """
    refuse_other_formats(data)
    if len(data) < OLD_HEADER_BYTES:
        raise InvalidModelError(f"truncated: {len(data)} bytes are less than the header")
    word, data_bytes = struct.unpack("<QQ", data[8:24])
    version, kind = word & 0xFF, word >> 8 & 0xFF
    if word > 0xFFFF or kind not in (STANDARD, MINI) or not version:
        raise InvalidModelError(f"unknown container version {word:#x}; {EXPORT}")
    header_bytes = HEADER_BYTES if version > 1 else OLD_HEADER_BYTES
    end = header_bytes + data_bytes
    if end > len(data):
        raise InvalidModelError(
            f"truncated: the header says {end} bytes or more, the file has {len(data)}; {AGAIN}"
        )
    if kind == MINI:
        return parse_mini(data, version, header_bytes, end)
    if bytes(data[header_bytes + 4 : header_bytes + 8]) != b"RKNN":
        raise InvalidModelError("damaged: no RKNN flatbuffer behind the header")
    return Container(False, version, header_bytes, end, None)


def check_trailer(data: Buffer, start: int) -> None:
    """Check the JSON that ends a file, the part that an interrupted copy lacks first.

    librknnrt 1.5.2, 1.6.0 and 2.3.2 parse it without a look at the bytes they were given:
    where it is missing, cut or no JSON they end the process, whatever it says they load the
    model. librknnmrt does not read it.

    Args:
        data: The file.
        start: Where the trailer begins: its length, a u64, then the JSON.

    Raises:
        InvalidModelError: It is cut or damaged.
    """
    length = int.from_bytes(data[start : start + 8], "little")
    missing = start + 8 + length - len(data)
    if missing > 0:
        raise InvalidModelError(f"truncated: at least {missing} bytes are missing; {AGAIN}")
    if length > len(data) * MAX_TRAILER_PART:
        raise InvalidModelError(f"damaged: a trailer of {length} bytes; {AGAIN}")
    try:
        text = bytes(data[start + 8 : start + 8 + length]).decode()
        json.loads(text, parse_constant=int)  # which refuses NaN and Infinity, as librknnrt does
    except (ValueError, RecursionError) as error:
        raise InvalidModelError(f"damaged: the JSON at its end is none: {error}; {AGAIN}") from None


def _is_rknn1(data: Buffer) -> bool:
    """Tell a file of the form: magic, the size of raw weights at 16, weights, JSON at the end."""
    start = OLD_HEADER_BYTES + int.from_bytes(data[16:24], "little") + 8
    if start >= len(data) or bytes(data[start : start + 1]) != b"{":
        return False
    try:
        most = max(int(len(data) * MAX_TRAILER_PART), MAX_RKNN1_JSON_BYTES)
        text = bytes(data[start : start + most]).decode("utf-8", "replace")
        said, _ = json.JSONDecoder().raw_decode(text)  # which asks nothing of what follows
        return bool(RKNN1_SOCS.intersection(map(str.lower, said["target_platform"])))
    except (KeyError, TypeError, ValueError, RecursionError):
        return False


def parse_mini(data: Buffer, version: int, start: int, end: int) -> Container:
    """Read the table of sections with which the data of a mini container begin."""
    if end - start < 64:
        raise InvalidModelError("truncated: no section table")
    flatbuffer, tasks, _, commands, internal, weights, extra = struct.unpack(
        "<7I", data[start : start + 28]
    )
    if 64 + tasks + commands + weights + extra + flatbuffer != end - start:
        raise InvalidModelError("damaged: the sections do not add up to the data")
    memory = MemoryNeeds(weights, internal, commands + extra)
    return Container(True, version, end - flatbuffer, end, memory)


def refuse_signatures(data: Buffer) -> None:
    """Refuse data that have one of the `SIGNATURES`."""
    for offset, signature, what, advice in SIGNATURES:
        if bytes(data[offset : offset + len(signature)]) == signature:
            raise InvalidModelError(f"this is {what}; {advice}")


def refuse_other_formats(data: Buffer) -> None:
    """Name what the data are unless they begin as an RKNN container does."""
    refuse_signatures(data)
    head = bytes(data[:8])
    if head == MAGIC:
        if _is_rknn1(data):
            raise InvalidModelError(f"this is {RKNN1[0]}; {RKNN1[1]}")
        return
    if MAGIC.startswith(head):
        raise InvalidModelError(f"truncated: {len(data)} bytes are less than the header")
    if head[:1] == b"\x08" and head[1:2] < b"\x20" and head[2:3] and head[2] in ONNX_TAGS:
        raise InvalidModelError(f"this is an ONNX model; {CONVERT}")
    raise InvalidModelError(f"not an RKNN model: it begins with {head!r}")
