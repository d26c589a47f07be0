"""The handle that a model and its memories share: an rknn_context and all it owns.

Whoever dies first, memories are released before the context: the vendor's runtimes crash
otherwise. Python collects a cycle's members in any order, so neither the model nor a memory
releases anything by itself; both go through the one `_Owned` record of their context.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from rknn_runtime._arrays import Span
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._locks import exclusive, new_lock
from rknn_runtime.errors import ClosedError, ForkError, RknnError, status_error
from rknn_runtime.npu.library import Library

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["Context", "Memory", "warn"]

#: How often this process came out of a fork: a context works in the generation that made it.
_generation = 0


def _after_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_after_fork)


def warn(message: str) -> None:
    """Log what there is nobody to raise to."""
    import logging  # not before it is needed, as it costs more than all of this package

    logging.getLogger("rknn_runtime").warning(message)


class Memory(NamedTuple):
    """A memory of the runtime, and who views it."""

    #: The ``rknn_tensor_mem *``.
    pointer: Any
    span: Span


class _Owned:
    """What must be released, apart from every object that could be part of a cycle."""

    __slots__ = ("context", "generation", "library", "lock", "memories", "simulation")

    def __init__(self, library: Library, simulation: Any) -> None:
        self.library = library
        #: What computes for a simulated context; must outlive it. None on an NPU.
        self.simulation = simulation
        self.context: int | None = None
        #: By the address of the ``rknn_tensor_mem``.
        self.memories: dict[int, Memory] = {}
        self.generation = _generation
        self.lock = new_lock()

    @property
    def has_views(self) -> bool:
        return any(memory.span.is_exported for memory in self.memories.values())

    def destroy_memory(self, key: int) -> int:
        memory = self.memories.pop(key, None)
        if memory is None or self.generation != _generation:
            return 0
        status: int = lib.rkr_destroy_mem(self.library.handle, self.context, memory.pointer)
        return status

    def destroy(self) -> list[tuple[int, str]]:
        """Release all, memories first; return the calls that failed."""
        calls = [(self.destroy_memory(key), "rknn_destroy_mem(...)") for key in list(self.memories)]
        context, self.context = self.context, None
        if context is not None and self.generation == _generation:
            calls.append((lib.rkr_destroy(self.library.handle, context), "rknn_destroy(...)"))
        self.simulation = None
        return [call for call in calls if call[0] != lib.RKNN_SUCC]

    def finalize(self) -> None:
        """Release all when nobody is left, or at exit as far as nobody can be hurt."""
        # At exit arrays may be alive, and a daemon thread inside the runtime: then the
        # kernel cleans up behind the process.
        if self.has_views:
            return
        if self.generation == _generation and self.lock.acquire(blocking=False):
            failed = self.destroy()
            self.lock.release()
            for status, call in failed:
                warn(f"{call} failed with {status}")

    def finalize_memory(self, key: int) -> None:
        status = self.destroy_memory(key)
        if status != lib.RKNN_SUCC:
            warn(f"rknn_destroy_mem(...) failed with {status}")


class Context:
    """An initialised ``rknn_context``, used by one thread at a time.

    Every use is ``with context.lock: handle = context.opened()``.

    Attributes:
        library: the library it lives in.
        handle: the ``rkr_library *``, for calls to the C shim.
    """

    def __init__(self, library: Library, model: Any, flags: int, simulation: Any = None) -> None:
        """Initialise a context.

        Args:
            library: the runtime.
            model: the model's bytes, any contiguous buffer.
            flags: of ``rknn_init``.
            simulation: a ``rknn_runtime.sim.PreparedModel``, which computes the runs of a
                simulated context; None on an NPU.
        """
        self.library = library
        self.handle = library.handle
        owned = self._owned = _Owned(library, simulation)
        self._generation = owned.generation
        out = ffi.new("rknn_context *")
        with ffi.from_buffer(model) as data:
            status = lib.rkr_init(self.handle, out, data, len(data), flags, ffi.NULL)
            call = f"rknn_init({len(data)} bytes, flags={flags:#x})"
        self.check(status, call)
        owned.context = int(out[0])
        self._finalizer = weakref.finalize(self, owned.finalize)
        if simulation is not None:
            simulation.attach(owned.context)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._owned.context is None

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that made the context."""
        return self._generation != _generation

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that every use holds.

        Raises:
            ForkError: the context belongs to the parent process.
            RuntimeError: this thread holds it already; see `exclusive`.
        """
        # Before the lock, which a thread of the parent may have held for ever.
        if self._generation != _generation:
            raise ForkError(
                "this process was forked after the model was loaded, and an NPU context does not "
                "survive that: load the model in the child, or start processes with 'spawn'"
            )
        return exclusive(self._owned.lock)

    def opened(self) -> int:
        """Return the ``rknn_context``, inside ``with context.lock``.

        Raises:
            ClosedError: it was released.
        """
        context = self._owned.context
        if context is None:
            raise ClosedError("the model is closed")
        return context

    def check(self, status: int, call: str, detail: str = "") -> None:
        """Raise the exception for a status that is not success; see `status_error`."""
        if status != lib.RKNN_SUCC:
            if status == lib.RKR_ERR_UNAVAILABLE:
                detail = f"this function does not exist in {self.library.path}"
            raise status_error(status, call, detail or self.library.last_message())

    def check_run(self, status: int, call: str) -> None:
        """Raise the exception for a run that failed, with what the simulated NPU raised in it."""
        if status == lib.RKNN_SUCC:
            return
        simulation = self._owned.simulation
        cause: BaseException | None = None if simulation is None else simulation.take_exception()
        if cause is None:
            self.check(status, call)
        elif not isinstance(cause, Exception):
            raise cause  # a KeyboardInterrupt is no failure of the model
        else:
            detail = f"the simulated NPU's executor raised {cause!r}"
            raise status_error(status, call, detail) from cause

    def query(self, command: int, info: Any, size: int) -> int:
        """Call ``rknn_query`` and return its status."""
        with self.lock:
            status: int = lib.rkr_query(self.handle, self.opened(), command, info, size)
        return status

    def create_memory(self, size_bytes: int) -> Memory:
        """Allocate memory that the NPU sees, released with the context or by `destroy_memory`.

        Raises:
            AllocationError: the runtime has none.
            RknnError: the runtime returned a memory that cannot be used.
        """
        out = ffi.new("rknn_tensor_mem **")
        call = f"rknn_create_mem({size_bytes} bytes)"
        with self.lock:
            self.check(lib.rkr_create_mem(self.handle, self.opened(), size_bytes, out), call)
            mem = out[0]
            memory = Memory(mem, Span(_address(mem.virt_addr), size_bytes))
            self._owned.memories[_address(mem)] = memory
        if mem.virt_addr == ffi.NULL or mem.size < size_bytes:
            got = "no address" if mem.virt_addr == ffi.NULL else f"{mem.size} bytes"
            self.destroy_memory(memory)
            raise RknnError(f"{call} gave {got}")
        return memory

    def destroy_memory(self, memory: Memory) -> None:
        """Release a memory of `create_memory`; a released one is left alone."""
        status = self._owned.destroy_memory(_address(memory.pointer))
        self.check(status, "rknn_destroy_mem(...)")

    def finalizer(self, owner: object, memory: Memory) -> weakref.finalize[[int], object]:
        """Release ``memory`` when ``owner`` is collected, unless the caller detaches this."""
        key = _address(memory.pointer)
        finalizer = weakref.finalize(owner, self._owned.finalize_memory, key)
        finalizer.atexit = False  # the context's own finalizer runs at exit
        return finalizer

    def refuse_views(self) -> None:
        """Raise `BufferError` while an array that views a memory is alive."""
        if self._owned.has_views:
            raise BufferError(
                "arrays that view NPU memory are alive: drop them, or copy them first"
            )

    def close(self) -> None:
        """Release the memories, then the context; in a forked child, only forget them.

        The caller is inside ``with context.lock``, or alone with it.

        Raises:
            BufferError: an array that views a memory is alive; nothing was released.
            RknnStatusError: the runtime refused; everything was tried all the same.
        """
        if not self.is_foreign:
            self.refuse_views()
        self._finalizer.detach()
        for status, call in self._owned.destroy():
            self.check(status, call)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
