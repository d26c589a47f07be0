"""What a runtime is given to load: a model file's bytes, or what the simulation makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rknn_runtime.errors import InvalidModelError, RknnStatusError, status_error
from rknn_runtime.npu.library import Library

if TYPE_CHECKING:
    from rknn_runtime.modelfile.reader import ModelFile, Needs
    from rknn_runtime.sim import PreparedModel

__all__ = ["Source", "opened_source"]


class Source(NamedTuple):
    """The bytes for ``rknn_init``, and what their file says that no runtime does."""

    data: Any
    #: None where no file says it: it is encrypted, or the model is simulated.
    needs: Needs | None
    #: What computes a simulated model; None on an NPU.
    simulation: PreparedModel | None


@contextmanager
def opened_source(model: Any, library: Library, check: bool) -> Iterator[Source]:
    """Open a model for the time of a ``with`` block, reading and parsing its file once.

    Args:
        model: path or bytes.
        library: the runtime that is to load it.
        check: refuse what this runtime would refuse, with the reason.

    Yields:
        What ``rknn_init`` takes. A `RknnStatusError` that leaves the block says in addition
        which versions met.

    Raises:
        InvalidModelError: no model, or one that does not fit.
        OSError: the file cannot be read.
        TypeError: ``model`` is neither path nor bytes.
    """
    if library.is_simulated:
        # The only thread by which the simulation hangs: imported when it was asked for.
        from rknn_runtime import sim

        simulation = sim.prepare(model, library)
        yield Source(simulation.data, None, simulation)
        return
    # Here, as the simulated NPU does without and reading files is half of the import.
    from rknn_runtime.modelfile import compatibility
    from rknn_runtime.modelfile.container import ENCRYPTED, loaded

    with loaded(model, check=check) as data:
        name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
        is_encrypted = bytes(data[: len(ENCRYPTED)]) == ENCRYPTED
        file = None if is_encrypted else _parsed(data, name, check)
        if check and file is not None:
            compatibility.check(file, name, library.path)
        needs = None
        if file is not None:
            with suppress(InvalidModelError):
                needs = file.needs()
        try:
            yield Source(data, needs, None)
        except RknnStatusError as error:
            if not check:
                raise
            met = compatibility.versions(None if file is None else file.header, library.path)
            detail = f"{error.detail or error.advice} ({met})"
            raise status_error(error.code, error.call, detail) from None


def _parsed(data: Any, name: str, check: bool) -> ModelFile | None:
    """Parse a file; None when it cannot be read and nobody wants to know why."""
    from rknn_runtime.modelfile.reader import ModelFile

    try:
        file = ModelFile(data)
        if check:
            file.check_whole()
        return file
    except InvalidModelError as error:
        if check:
            raise InvalidModelError(f"{name}: {error}" if name else str(error)) from None
        return None
