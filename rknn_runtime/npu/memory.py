"""Memory that both the CPU and the NPU see."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from rknn_runtime._arrays import as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import ClosedError
from rknn_runtime.npu.context import Context

if TYPE_CHECKING:
    import numpy as np

__all__ = ["TensorMemory"]


class TensorMemory:
    """A block of NPU memory, released on `close`, on leaving a ``with`` block, or when collected.

    A model makes one per input and output (``model.input_memory(i)``,
    ``model.output_memory(i)``); those are released with the model and cannot be closed alone.

    Attributes:
        size_bytes: its size.
        fd: the DMA-BUF file descriptor, for other hardware such as the RGA or a camera; owned
            by the memory. -1 where the runtime gives none.
        offset: where the memory begins in the DMA-BUF, bytes.
        physical_address: its bus address, 0 where the runtime gives none.
    """

    def __init__(self, context: Context, size_bytes: int) -> None:
        """Allocate.

        Args:
            context: the context that the memory belongs to.
            size_bytes: at least 1.

        Raises:
            AllocationError: the runtime has no memory left.
            ClosedError: the context is closed.
            ForkError: this process was forked after the context was made.
            RknnError: the runtime gave a memory that cannot be used.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: no context, or no integer.
            ValueError: the size is not from 1 to 2**32 - 1.
        """
        if not isinstance(context, Context):
            raise TypeError(f"context: expected a Context, got {type(context).__name__}")
        size_bytes = as_int(size_bytes, "size_bytes", 1, 2**32 - 1)
        self._context = context
        self._number, mem, self._span, self._finalizer = context.create_memory(self, size_bytes)
        self._bound_to: str | None = None
        self.size_bytes = size_bytes
        self.fd = int(mem.fd)
        self.offset = int(mem.offset)
        self.physical_address = int(mem.phys_addr)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.size_bytes} bytes"
        return f"<TensorMemory {state}>"

    def __reduce__(self) -> NoReturn:
        # A copy would not keep the memory, yet its arrays would seem to.
        raise TypeError("a TensorMemory owns NPU memory: it can be neither copied nor pickled")

    @property
    def is_closed(self) -> bool:
        """Whether it was released, by itself or with its context."""
        return not self._finalizer.alive or self._context.is_closed

    @property
    def has_views(self) -> bool:
        """Whether an array that views the memory is alive."""
        return self._span.is_exported

    @property
    def pointer(self) -> Any:
        """The ``rknn_tensor_mem *``, for calls to the C shim inside ``with context.lock``.

        Raises:
            ClosedError: the memory was released.
        """
        mem = self._context.memory(self._number)
        if mem == ffi.NULL:
            raise ClosedError("the memory is closed")
        return mem

    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the memory as bytes.

        Returns:
            ``(size_bytes,) uint8``, a writable view of NPU memory. While it or anything
            made from it without a copy is alive, the memory cannot be closed.

        Raises:
            ClosedError: the memory was released.
            ForkError: this process was forked after the memory was made.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        with self._context.lock:
            self._context.opened()
            self.pointer  # noqa: B018 - raises when closed
            return self._span.export(self)

    def sync_to_device(self) -> None:
        """Make what the CPU wrote visible to the NPU; nothing to do where caches are coherent.

        Raises:
            ClosedError: the memory was released.
            ForkError: this process was forked after the memory was made.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        self._sync(lib.RKNN_MEMORY_SYNC_TO_DEVICE)

    def sync_from_device(self) -> None:
        """Make what the NPU wrote visible to the CPU; nothing to do where caches are coherent.

        Raises:
            ClosedError: the memory was released.
            ForkError: this process was forked after the memory was made.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        self._sync(lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def _sync(self, mode: int) -> None:
        with self._context.lock:
            context, mem = self._context.opened(), self.pointer
            # Without this function the runtime keeps caches coherent by itself.
            if self._context.library.has("rknn_mem_sync"):
                status = lib.rkr_mem_sync(self._context.handle, context, mem, mode)
                self._context.check_status(status, f"rknn_mem_sync(mode={mode})")

    def bind(self, name: str) -> None:
        """Note that a model uses the memory, so that it cannot be closed alone."""
        self._bound_to = name

    def close(self) -> None:
        """Release the memory; a closed one is left alone.

        Raises:
            BufferError: an array that views it is alive, or a model uses it.
            RknnStatusError: the runtime refused.
            RuntimeError: called in the middle of another call, as by a signal handler.
        """
        if self.is_closed:
            return
        if self._bound_to is not None:
            raise BufferError(f"the memory is {self._bound_to} of a model: close the model")
        if self._context.is_foreign:
            self._finalizer.detach()
            return
        with self._context.lock:
            if self.has_views:
                raise BufferError("an array that views the memory is alive: drop or copy it first")
            # In this order: an interrupt between them leaves it to the model to release.
            if self._finalizer.detach() is not None:
                self._context.destroy_memory(self._number)

    def __enter__(self) -> TensorMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close_in_exit(self.close, error)


def close_in_exit(close: Any, error: BaseException | None) -> None:
    """Close at the end of a ``with`` block.

    When an exception is on its way, its traceback may hold the very view that forbids
    closing: then the exception matters, and the collector releases the rest.
    """
    try:
        close()
    except BufferError:
        if error is None:
            raise
