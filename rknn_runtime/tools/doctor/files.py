"""Looks at files: the vendor's libraries, and the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rknn_runtime._files import read_file
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.modelfile import container
from rknn_runtime.modelfile.compatibility import Failure, failures, runtime_in
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.npu import _elf
from rknn_runtime.npu.library import LINKED, NAMES, VARIABLE, folders
from rknn_runtime.tools.doctor.facts import LibraryFacts, ModelFacts, Surroundings
from rknn_runtime.tools.doctor.tree import Tree

__all__ = ["libraries", "model_facts"]

#: Without these no library is a runtime (`csrc/runtime/shim.c`).
_REQUIRED = (
    "init", "destroy", "query", "run", "create_mem", "destroy_mem", "set_io_mem",
)  # fmt: skip
_MOST_BYTES = 1 << 28
_HEAD_BYTES = 64
#: How a file of Git LFS begins that stands for another, and a web page.
_POINTERS = (b"version https://git-lfs", b"<!DOCTYPE", b"<!doctype", b"<html")


def libraries(tree: Tree, process: Surroundings) -> tuple[LibraryFacts, ...]:
    """Describe every file with the name of a runtime, in the order of the search."""
    seen = set()
    found = []
    for name in _names(tree, process):
        path = tree.path(name)
        try:
            real = path.resolve()
            if real in seen or not (path.is_file() or path.is_dir()):
                continue
        except (OSError, RuntimeError):  # before Python 3.13 the latter, for links to themselves
            continue
        seen.add(real)
        if name in process.owners and not process.may(process.owners[name], 0o4):
            found.append(LibraryFacts(name, None, None, "unreadable"))
        else:
            found.append(_library(name, path))
    return tuple(found)


def _names(tree: Tree, process: Surroundings) -> Iterator[str]:
    wanted = process.variables.get(VARIABLE, "")
    if os.sep in wanted:  # nothing else is tried then
        yield wanted
        return
    if process.live and Path(LINKED).exists():
        yield LINKED
    paths = [each for each in process.variables.get("LD_LIBRARY_PATH", "").split(":") if each]
    wide = process.interpreter is None or process.interpreter.bits == 64
    paths += folders(process.multiarch or None, wide)
    # Those that a Python of the other word size would take: one of them may be all there is.
    paths += [each for each in folders(None, not wide) if each not in paths]
    paths += ["/usr/lib/aarch64-linux-gnu", "/usr/lib/arm-linux-gnueabihf"]
    for folder in dict.fromkeys(paths):
        yield from (f"{folder}/{name}" for name in NAMES)


def _library(name: str, path: Path) -> LibraryFacts:
    if path.is_dir():
        return LibraryFacts(name, None, None, "folder")
    try:
        elf = _elf.read(str(path))
        if elf is None:
            return LibraryFacts(name, None, None, "foreign")
        if _elf.cut_short(str(path)):
            return LibraryFacts(name, runtime_in(path), elf, "cut")
        content = read_file(path, _MOST_BYTES)
    except (OSError, ValueError):
        return LibraryFacts(name, None, None, "unreadable")
    missing = ", ".join(
        f"rknn_{each}" for each in _REQUIRED if b"\0rknn_%s\0" % each.encode() not in content
    )
    has_core_mask = b"\0rknn_set_core_mask\0" in content
    return LibraryFacts(name, runtime_in(path), elf, "", missing, has_core_mask)


def model_facts(model: str | os.PathLike[str]) -> ModelFacts:
    """Describe a model file.

    Raises:
        OSError: It cannot be read.
        TypeError: It is no path.
    """
    name = os.fspath(model)
    size = Path(model).stat().st_size
    try:
        with container.opened(model) as data:
            head = bytes(data[:_HEAD_BYTES])
            if head.startswith((container.ENCRYPTED, b"RKCE")):
                return ModelFacts(name, "encrypted", file_bytes=size)
            if head.startswith(_POINTERS):
                return ModelFacts(name, "pointer", file_bytes=size)
            if head and not any(head):
                return ModelFacts(name, "damaged", message="it begins with zeros", file_bytes=size)
            file = ModelFile(data)
            file.check_whole()
            found: tuple[Failure, ...] = ()
            with suppress(InvalidModelError, ValueError):  # of a SoC that nobody here knows
                found = tuple(failures(file.info()))
            return ModelFacts(name, "rknn", file.header, "", found, size)
    except InvalidModelError as error:
        text = str(error)
        kinds = {"RKNN1": "rknn1", "RKNN3": "rknn3", "truncated": "damaged", "damaged": "damaged",
                 "0 bytes": "damaged"}  # fmt: skip
        kind = next((kind for mark, kind in kinds.items() if mark in text), "other")
        return ModelFacts(name, kind, message=text, file_bytes=size)
