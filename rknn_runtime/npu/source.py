"""Open a model for a runtime: check its file, or prepare it for the simulated NPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import InitFlag
from rknn_runtime.errors import InvalidModelError, RknnStatusError, status_error
from rknn_runtime.modelfile.container import ENCRYPTED, loaded
from rknn_runtime.modelfile.reader import ModelFile, Needs
from rknn_runtime.npu.library import Library

if TYPE_CHECKING:
    from rknn_runtime.npu.dma_heap import DmaBuffer
    from rknn_runtime.sim.prepared import PreparedModel

#: Answers of runtimes without a device, among other reasons.
_NO_DEVICE = (lib.RKNN_ERR_FAIL, lib.RKNN_ERR_DEVICE_UNAVAILABLE)


class Loadable(NamedTuple):
    """The bytes for ``rknn_init``, and facts that only their file tells."""

    data: Any
    #: None if the file is encrypted, or the model is simulated.
    needs: Needs | None
    #: Computes a simulated model; None on an NPU.
    simulation: PreparedModel | None
    #: Possible causes if a run fails; empty if none is known.
    suspects: str = ""
    #: The SoC of the file, or the simulated one; empty if unknown.
    soc: str = ""


@contextmanager
def opened_source(
    model: Any, library: Library, check: bool, *, zero_copy: bool = True
) -> Iterator[Loadable]:
    """Open a model for the time of a ``with`` block, reading and parsing its file once.

    With `check`, a file is refused that this runtime would refuse for a `Model` (`zero_copy`) or a
    `GeneralModel`, and an `RknnStatusError` that leaves the block also names the known causes and
    the versions.
    """
    if library.is_simulated:
        # Imported only here, when the caller asked for it.
        from rknn_runtime.sim.prepared import prepare

        simulation = prepare(model, library)
        yield Loadable(simulation.data, None, simulation, soc=simulation.soc)
        return
    # Here, because the simulated NPU needs none of it and it is half of the import.
    from rknn_runtime.modelfile import compatibility
    from rknn_runtime.npu import device

    with loaded(model, check=check) as data:
        name = os.fspath(model) if isinstance(model, (str, os.PathLike)) else ""
        is_encrypted = bytes(data[: len(ENCRYPTED)]) == ENCRYPTED
        file = None if is_encrypted else _parsed(data, name, check)
        runtime = library.runtime if check else None
        if check:
            if file is not None:
                compatibility.check_loadable(file, name, runtime, zero_copy=zero_copy)
            device.check_heap(runtime)
        newer = ""
        if check and file is not None:
            newer = compatibility.newer_toolkit(file, runtime)
        if newer:
            import logging  # here, as it costs more than all of this package

            logging.getLogger("rknn_runtime").warning("%s: %s", name or "the model", newer)
        needs, suspects = None, ""
        if file is not None:
            suspects = compatibility.suspects(file, "rknn_run") if check else ""
            with suppress(InvalidModelError):
                needs = file.needs()
        try:
            soc = "" if file is None or not check else file.soc
            yield Loadable(data, needs, None, suspects, soc)
        except RknnStatusError as error:
            if not check:
                raise
            known = [
                "" if file is None else compatibility.suspects(file, "rknn_init"),
                newer,
                device.trouble() if error.code in _NO_DEVICE else "",
                error.detail or error.advice,
            ]
            met = compatibility.versions(file, runtime)
            detail = f"{'; '.join(filter(None, known))} ({met})"
            raise status_error(error.code, error.call, detail) from None


def opened_buffer(model: Any, flags: InitFlag) -> tuple[DmaBuffer | None, Any]:
    """Return the model's DMA-BUF, or None, and the source to load."""
    if not flags & InitFlag.MODEL_BUFFER_ZERO_COPY:
        return None, model
    from rknn_runtime.npu.dma_heap import DmaBuffer

    if not isinstance(model, DmaBuffer):
        raise TypeError(
            f"model: expected a DmaBuffer with MODEL_BUFFER_ZERO_COPY, got {type(model).__name__}"
        )
    return model, model.data()


def init_extend(buffer: DmaBuffer | None, data: Any, has_parent: bool) -> Any:
    """Return the ``rknn_init_extend *`` of a model, or NULL where none is needed."""
    if buffer is None:
        return ffi.new("rknn_init_extend *") if has_parent else ffi.NULL
    return ffi.new(
        "rknn_init_extend *",
        {
            "real_model_size": len(data),
            "model_buffer_fd": buffer.fd,
            "model_buffer_flags": lib.RKNN_TENSOR_MEMORY_FLAGS_FROM_FD,
        },
    )


def _parsed(data: Any, name: str, check: bool) -> ModelFile | None:
    """Parse a file; None when it cannot be read and nobody wants to know why."""
    try:
        return ModelFile(data, whole=check)
    except InvalidModelError as error:
        if check:
            raise InvalidModelError(f"{name}: {error}" if name else str(error)) from None
        return None
