"""A block of memory that a runtime made: who sees it, who uses it, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from rknn_runtime._arrays import Span
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import ClosedError
from rknn_runtime.npu.closing import Closing
from rknn_runtime.npu.context import Context, NewMemory

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Block"]


class Block(Closing):
    """What every `TensorMemory` can do, however it was made. Not for direct use."""

    size_bytes: int
    fd: int
    offset: int
    physical_address: int

    def _of(self, context: Context, size_bytes: int) -> None:
        self._context = context
        self.size_bytes = size_bytes
        self._bound_to: str | None = None
        self._kept: Any = None

    def _make(self, call: str, create: Any, *, is_seen: bool = True) -> None:
        """Have the runtime make the memory; see `Context.create_memory`."""
        made: NewMemory = self._context.create_memory(
            self, self.size_bytes, call, create, is_seen=is_seen
        )
        self._number, self._span, self._finalizer = made.number, made.span, made.finalizer
        self.fd = int(made.pointer.fd)
        self.offset = int(made.pointer.offset)
        self.physical_address = int(made.pointer.phys_addr)

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
        return self._span is not None and self._span.is_exported

    @property
    def is_held(self) -> bool:
        """Whether a private array of the package is alive, perhaps in a traceback."""
        return self._span is not None and self._span.is_private

    @property
    def is_mapped(self) -> bool:
        """Whether the CPU sees it."""
        return self._span is not None

    @property
    def span(self) -> Span:
        """Who views it, for the package alone.

        Raises:
            BufferError: The CPU does not see it.
        """
        if self._span is None:
            raise BufferError(f"{self!r}: the CPU does not see it, as it was made unmapped")
        return self._span

    def usable(self, context: Context, name: str, least_bytes: int) -> Any:
        """Check that a model can use the memory; return its `pointer`.

        The caller is inside ``with context.lock``.

        Args:
            context: Of the model.
            name: What for, such as ``input 0 'images'``.
            least_bytes: Of it.

        Raises:
            ClosedError: The memory was released.
            ValueError: It is too small, of another model, or bound to something else.
        """
        if self._context is not context:
            raise ValueError(
                f"memory: expected one of this model for {name}, got one of another: see "
                "TensorMemory.shared_with"
            )
        pointer = self.pointer
        if self.size_bytes < least_bytes:
            raise ValueError(
                f"memory: expected at least {least_bytes} bytes for {name}, got {self.size_bytes}"
            )
        if self._bound_to not in (None, name):
            raise ValueError(
                f"memory: expected one that nothing uses for {name}, got that of {self._bound_to}"
            )
        return pointer

    @property
    def pointer(self) -> Any:
        """The ``rknn_tensor_mem *``, for calls to the C shim inside ``with context.lock``.

        Raises:
            ClosedError: The memory was released.
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
            BufferError: The CPU does not see it: ``mapped=False``, or no ``array`` was given.
        """
        with self._context.lock:
            self._context.opened()
            return self.locked_array()

    def locked_array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Do as `array`, inside ``with context.lock``."""
        self.pointer  # noqa: B018 - raises when closed
        return self.span.export(self)

    def sync_to_device(self) -> None:
        """Make what the CPU wrote visible to the NPU; nothing to do where caches are coherent.

        Raises:
            RknnStatusError: The runtime refused.
        """
        self._sync(lib.RKNN_MEMORY_SYNC_TO_DEVICE)

    def sync_from_device(self) -> None:
        """Make what the NPU wrote visible to the CPU; nothing to do where caches are coherent.

        Raises:
            RknnStatusError: The runtime refused.
        """
        self._sync(lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def _sync(self, mode: int) -> None:
        with self._context.lock:
            context, mem = self._context.opened(), self.pointer
            # Without this function the runtime keeps caches coherent by itself.
            if self._context.library.has("rknn_mem_sync"):
                status = lib.rkr_mem_sync(self._context.handle, context, mem, mode)
                self._context.check_status(status, f"rknn_mem_sync(mode={mode})")

    def bind(self, name: str | None) -> str | None:
        """Note what a model uses the memory for: then it cannot be closed alone. None: nothing.

        Returns:
            What was noted before.
        """
        before, self._bound_to = self._bound_to, name
        return before

    def close(self) -> None:
        """Release the memory; a closed one is left alone, and one of a parent process, too.

        Raises:
            BufferError: An array that views it is alive, or a model uses it.
            RknnStatusError: The runtime refused.
        """
        if self.is_closed:
            return
        if self._context.is_foreign:
            self._finalizer.detach()
            return
        with self._context.lock:
            if self._bound_to is not None:
                raise BufferError(
                    f"the memory is {self._bound_to} of a model: close the model, or bind another"
                )
            if self.has_views or self.is_held:
                raise BufferError("an array that views the memory is alive: drop or copy it first")
            # In this order: an interrupt between them leaves it to the model to release.
            if self._finalizer.detach() is not None:
                self._context.destroy_memory(self._number)
