"""What must be released with a context, in which order, and by whom when nobody closed it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from rknn_runtime._ffi import ffi, lib
from rknn_runtime._locks import ExclusiveLock, fork_generation

if TYPE_CHECKING:
    from rknn_runtime._arrays import Span
    from rknn_runtime.npu.library import Library

__all__ = ["Owned", "warn"]


def warn(message: str) -> None:
    """Log a failure in a finalizer, which has no caller to raise it to."""
    import logging  # not before it is needed, as it costs more than all of this package

    logging.getLogger("rknn_runtime").warning(message)


class Owned:
    """What must be released, apart from every object that could be part of a cycle."""

    __slots__ = (
        "generation", "kept", "library", "lock", "orphans", "parent", "session", "simulation",
        "spans", "things",
    )  # fmt: skip

    def __init__(
        self, library: Library, simulation: Any, parent: Owned | None, kept: object
    ) -> None:
        self.library = library
        self.kept = kept
        #: Whose weights the context uses: its session must outlive this one.
        self.parent = parent
        #: What computes for a simulated context; must outlive it. None on an NPU.
        self.simulation = simulation
        session = lib.rkr_session_new(library.handle)
        if session == ffi.NULL:
            raise MemoryError("no memory for the session of a context")
        self.session = ffi.gc(session, lib.rkr_session_free)
        #: Who views a memory, by the memory's number.
        self.spans: dict[int, Span] = {}
        #: Memories that were collected while somebody used the context.
        self.orphans: deque[int] = deque()
        #: What the runtime may point to.
        self.things: list[object] = []
        self.generation = fork_generation()
        self.lock = ExclusiveLock()

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked after it was made."""
        return self.generation != fork_generation()

    @property
    def has_views(self) -> bool:
        """Whether somebody has an array of a memory."""
        return any(span.is_exported for span in list(self.spans.values()))

    def destroy_memory(self, number: int) -> int:
        """Release a memory, unless that was done; return the status."""
        self.spans.pop(number, None)
        status: int = lib.rkr_session_destroy_mem(self.session, number)
        return status

    def destroy_orphans(self) -> None:
        """Release what was collected meanwhile; the caller holds the lock."""
        while self.orphans:
            number = self.orphans[0]
            status = self.destroy_memory(number)
            self.orphans.popleft()  # after it: an interrupt between leaves nothing behind
            if status != lib.RKNN_SUCC:
                warn(f"rknn_destroy_mem(...) failed with {status}")

    def destroy(self) -> list[tuple[int, str]]:
        """Release all, memories first; return the calls that failed."""
        if self.is_foreign:
            lib.rkr_session_forget(self.session)
            return []
        memory_status = ffi.new("int *")
        status = lib.rkr_session_close(self.session, memory_status)
        self.spans.clear()
        self.simulation = self.kept = None
        destroy = "rknn_matmul_destroy" if self.session.is_matmul else "rknn_destroy"
        calls = [(memory_status[0], "rknn_destroy_mem(...)"), (status, f"{destroy}(...)")]
        return [call for call in calls if call[0] != lib.RKNN_SUCC]

    def finalize(self) -> None:
        """Release all when nobody is left, or at exit as far as nobody can be hurt."""
        # At exit arrays may be alive, and a daemon thread inside the runtime: then the
        # kernel cleans up behind the process.
        if self.is_foreign or self.has_views:
            return
        if self.lock.try_acquire():
            try:
                failed = self.destroy()
            finally:
                self.lock.release()
            for status, call in failed:
                warn(f"{call} failed with {status}")

    def finalize_memory(self, number: Any) -> None:
        """Release a memory that was collected, or leave that to the next who has the lock.

        A collector runs anywhere: in another thread's run, or in the middle of this thread's.

        Args:
            number: ``uint64_t *``; 0 where there was no memory yet.
        """
        if self.is_foreign or not number[0]:
            return
        self.orphans.append(number[0])
        if self.lock.try_acquire():
            try:
                self.destroy_orphans()
            finally:
                self.lock.release()
