"""Open model files: as bytes, as memory for a runtime, and in the C reader."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Union

from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import FileView, opened_file
from rknn_runtime.errors import InvalidModelError

if TYPE_CHECKING:
    import mmap

ModelSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
#: What `opened` and `loaded` yield.
Buffer = Union[FileView, memoryview]

#: What rknn_init takes, and what fits into an address space.
MAX_MODEL_BYTES = min(2**32 - 1, sys.maxsize)
ENCRYPTED = b"CYPTRKNN"
_ERROR_BYTES = 320


def opened(model: ModelSource) -> AbstractContextManager[Buffer]:
    """Open a file, or view bytes, for the time of a ``with`` block. Nothing may hold on to them.

    Of a file only the parts are read that are asked for.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _bytes_view(model)
    return _opened_model(model)


@contextmanager
def loaded(model: ModelSource, *, check: bool = True) -> Iterator[memoryview]:
    """Read a model into memory for the time of a ``with`` block: what ``rknn_init`` takes.

    The runtime gets the bytes that were checked, even if the file changes. Bytes from a file
    are writable, because rknn_init takes a pointer without const. The memory goes back to the
    system at the end, so that nothing may hold on to it. With `check`, files are refused that do
    not begin like an RKNN model, before they are read whole.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        with _bytes_view(model) as flat:
            yield flat
        return
    with _opened_model(model) as view:
        if check and view[: len(ENCRYPTED)] != ENCRYPTED:
            try:
                check_format(view)
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
    """Open a model file, and refuse one that changed while it was open."""
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
    """Turn the ValueError about an unusable file into `InvalidModelError`."""
    try:
        yield
    except ValueError as error:
        raise InvalidModelError(str(error)) from None


def _memory(size: int) -> mmap.mmap:
    """Allocate memory outside of the heap, so that all of it goes back to the system."""
    import mmap  # here, as only a path on a board needs it

    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for a model of {size} bytes") from error


@contextmanager
def _located(data: Buffer | bytes) -> Iterator[tuple[Any, int, int]]:
    """Yield what C takes: address, size and open file."""
    if isinstance(data, FileView):
        yield ffi.NULL, len(data), data.descriptor
        return
    with ffi.from_buffer("uint8_t[]", data) as address:
        yield address, len(data), -1


def _check(status: int, text: Any) -> None:
    if status == lib.RKR_OK:
        return
    if status == lib.RKR_MODEL_ERR_READ:
        raise OSError(ffi.errno, os.strerror(ffi.errno))
    if status == lib.RKR_ERR_MEMORY:
        raise MemoryError("no memory for the model")
    raise InvalidModelError(ffi.string(text).decode("utf-8", "replace"))


def check_format(data: Buffer, *, signatures_only: bool = False) -> None:
    """Refuse files that do not begin like an RKNN container."""
    error = ffi.new("char[]", _ERROR_BYTES)
    with _located(data) as where:
        _check(lib.rkr_check_format(*where, signatures_only, error, _ERROR_BYTES), error)


@contextmanager
def open_model(data: Buffer | bytes) -> Iterator[Any]:
    """Open a model in C for the time of a ``with`` block, and yield the ``rkr_model *``."""
    error, out = ffi.new("char[]", _ERROR_BYTES), ffi.new("rkr_model **")
    with _located(data) as where:
        _check(lib.rkr_open_model(*where, out, error, _ERROR_BYTES), error)
        try:
            yield out[0]
        finally:
            lib.rkr_close_model(out[0])


def check_status(status: int, model: Any) -> None:
    """Raise the error that a C function reports about a model."""
    if status != lib.RKR_OK:
        _check(status, status == lib.RKR_MODEL_ERR_FILE and lib.rkr_model_error(model))


def text_of(text: Any) -> str:
    """Copy an ``rkr_text``."""
    try:
        return ffi.buffer(text.at, text.length)[:].decode() if text.length else ""
    except UnicodeDecodeError as error:
        raise InvalidModelError(f"damaged: a string that is not UTF-8: {error}") from None
