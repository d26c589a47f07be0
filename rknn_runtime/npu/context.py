"""An ``rknn_context`` and everything it owns, shared by a model and its memories.

The vendor's runtimes crash unless memories are released before their context. Python collects
the members of a cycle in any order, so neither a model nor a memory releases anything itself:
both go through the `Owned` of their context.

C (``csrc/runtime/session.c``) records open handles, because Python can raise a signal between the
return of a call and the store of its result.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from rknn_runtime._arrays import Span, check_status
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import ClosedError, ForkError, RknnError, RknnStatusError, status_error
from rknn_runtime.npu.library import Library, printed
from rknn_runtime.npu.locks import ExclusiveLock, fork_generation

_C = TypeVar("_C", bound="Closing")


class Closing:
    """Closes at the end of a ``with`` block. Not for direct use."""

    def close(self) -> None:
        """Release everything."""
        raise NotImplementedError

    def __enter__(self: _C) -> _C:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The traceback of an exception may hold the view that forbids closing. Then the exception
        # is raised, and the garbage collector releases the rest.
        try:
            self.close()
        except BufferError:
            if error is None:
                raise


def warn(message: str) -> None:
    """Log a failure in a finalizer, which has no caller to raise it to."""
    import logging  # here, because it costs more than the rest of this package

    logging.getLogger("rknn_runtime").warning(message)


class Owned:
    """Everything to release, kept apart from objects that could be part of a cycle."""

    __slots__ = (
        "generation", "kept", "library", "lock", "orphans", "parent", "session", "simulation",
        "spans", "things",
    )  # fmt: skip

    def __init__(
        self, library: Library, simulation: Any, parent: Owned | None, kept: object
    ) -> None:
        self.library = library
        self.kept = kept
        #: Owner of the weights that the context uses: its session must outlive this one.
        self.parent = parent
        #: What computes for a simulated context; must outlive it. None on an NPU.
        self.simulation = simulation
        session = lib.rkr_session_new(library.handle)
        if session == ffi.NULL:
            raise MemoryError("no memory for the session of a context")
        self.session = ffi.gc(session, lib.rkr_session_free)
        #: Who views a memory, by the memory's number.
        self.spans: dict[int, Span] = {}
        #: Memories that were collected while another call used the context.
        self.orphans: deque[int] = deque()
        #: Objects that the runtime may point to.
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
        """Release the orphans; the caller holds the lock."""
        while self.orphans:
            number = self.orphans[0]
            status = self.destroy_memory(number)
            self.orphans.popleft()  # afterwards, so that an interrupt loses nothing
            if status != lib.RKNN_SUCC:
                warn(f"rknn_destroy_mem(...) failed with {status}")

    def destroy(self) -> list[tuple[int, str]]:
        """Release everything, memories first; return the calls that failed."""
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
        """Release everything when the context is collected, or at exit if that is safe."""
        # At exit arrays may be alive, and a daemon thread may be inside the runtime. Then the
        # kernel cleans up after the process.
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
        """Release a memory that was collected, or leave that to the next holder of the lock.

        A collector runs anywhere: in another thread's run, or in the middle of this thread's.
        """
        if self.is_foreign or not number[0]:
            return
        self.orphans.append(number[0])
        if self.lock.try_acquire():
            try:
                self.destroy_orphans()
            finally:
                self.lock.release()


def _lets_go(let_go: Callable[[], None]) -> bool:
    try:
        let_go()
    except BufferError:
        return False
    return True


class Context:
    """An ``rknn_context``, used by one thread at a time.

    Every use is ``with context.lock: handle = context.opened()``.

    Attributes:
        library: The library it lives in.
        handle: The ``rkr_library *``, for calls to the C shim.
        exclusive: What `lock` hands out, for code that works under the lock without the context.
        what: What is closed, for messages.
        suspects: What may be the cause when a run fails; empty if nothing is known.
        paused: Why nothing may run now, for example while shapes are chosen; empty: it may.
    """

    suspects = ""
    paused = ""
    #: Operators in Python, `rknn_runtime.npu.operators.Operators`, or None. They are not in
    #: `Owned`, because a finalizer holds that and such functions often hold their model.
    custom: Any = None
    #: Weak reference to the object that waits for a run in flight, or None.
    flight: weakref.ref[Any] | None = None
    _owned: Owned

    def __init__(
        self,
        library: Library,
        simulation: Any = None,
        *,
        parent: Context | None = None,
        kept: object = None,
        what: str = "model",
    ) -> None:
        """Make the session of a context; `initialise` or `initialise_matmul` opens it.

        A parent, whose weights this context uses, is destroyed after it, whichever is closed first.
        `simulation` is a ``rknn_runtime.sim.prepared.PreparedModel``, None on an NPU; `kept` must
        live as long as the context.
        """
        self.library = library
        self.handle = library.handle
        self.what = what
        self._parent = parent
        owned = Owned(library, simulation, None if parent is None else parent._owned, kept)
        self._owned = owned
        self._session, self._orphans = owned.session, owned.orphans
        self.exclusive = owned.lock
        # Before there is anything to release, so that nothing is lost in between.
        self._finalizer = weakref.finalize(self, owned.finalize)

    def initialise(self, model: Any, flags: int, extend: Any = ffi.NULL) -> None:
        """Load a model's bytes, from any contiguous buffer; None duplicates the parent.

        `extend` is an ``rknn_init_extend *``, which a parent needs, or NULL.
        """
        parent, self._parent = self._parent, None
        if parent is None:
            self._initialise(model, flags, ffi.NULL, extend)
        else:
            with parent.lock:
                parent.check_open()
                self._initialise(model, flags, parent._session, extend)
        if self._owned.simulation is not None:
            self._owned.simulation.data = b""  # the library has what it needs of it

    def _initialise(self, model: Any, flags: int, parent: Any, extend: Any) -> None:
        if model is None:
            status = lib.rkr_session_dup(self._session, parent)
            call = "rknn_dup_context(...)"
        else:
            with ffi.from_buffer(model) as data:
                status = lib.rkr_session_init(self._session, parent, data, len(data), flags, extend)
                call = f"rknn_init({len(data)} bytes, flags={flags:#x})"
        self.check_status(status, call)

    def adopt(self, context: int) -> None:
        """Take over an ``rknn_context`` that foreign code made, to destroy it in the end."""
        self.check_status(lib.rkr_session_adopt(self._session, context), "adopt(...)")

    def initialise_matmul(self, info: Any, shapes: Any, attrs: Any) -> None:
        """Create a product of matrices; ``attrs`` is filled in."""
        count = len(shapes)
        status = lib.rkr_session_init_matmul(self._session, info, count, shapes, attrs)
        name = "rknn_matmul_create" + ("_dynamic_shape" if count > 1 else "")
        rows = ", ".join(str(shape.M) for shape in shapes)
        call = f"{name}({rows} x {shapes[0].K} x {shapes[0].N}, type {int(info.type)})"
        self.check_status(status, call)

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return not self._session.is_open

    @property
    def is_foreign(self) -> bool:
        """Whether this process was forked from the one that made the context."""
        return self._owned.is_foreign

    @property
    def has_parent(self) -> bool:
        """Whether the weights are another context's."""
        return self._owned.parent is not None

    @property
    def simulation(self) -> Any:
        """What computes the runs of a simulated context; None on an NPU, or once closed."""
        return self._owned.simulation

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock that every use holds."""
        owned = self._owned
        if owned.generation != fork_generation():  # `is_foreign`, inline for every frame
            raise ForkError(
                "this process was forked after the model was loaded, and an NPU context does not "
                "survive that: load the model in the child, or start processes with 'spawn'"
            )
        return owned.lock.held()

    def opened(self) -> int:
        """Return the ``rknn_context``, inside ``with context.lock``."""
        self.check_open()
        context: int = self._session.context
        return context

    def check_open(self) -> None:
        """Check like `opened`, for a caller who does not need the ``rknn_context``."""
        if not self._session.is_open:
            raise ClosedError(f"the {self.what} is closed")
        if self.flight is not None:
            if self._session.in_flight and self.flight() is not None:
                raise RuntimeError("a run is in flight: wait for it first, or close the model")
            self.land()  # its `Flight` was dropped
        if self._orphans:
            self._owned.destroy_orphans()

    def check_chosen(self) -> None:
        """Check that it is open and its shapes are settled, inside ``with context.lock``."""
        self.check_open()
        if self.paused:
            raise RuntimeError(f"the {self.what} cannot run: {self.paused}")

    def start(self, frame_id: int, fence_fd: int) -> int:
        """Begin a run, inside ``with context.lock``, once `flight` is set; return its status."""
        status: int = lib.rkr_session_start(self._session, frame_id, fence_fd)
        return status

    def land(self) -> int:
        """Wait for a run in flight, inside ``with context.lock``; return its status."""
        status: int = lib.rkr_session_wait(self._session)
        self.flight = None
        return status

    def check_status(self, status: int, call: str, detail: str = "") -> None:
        """Raise the exception for a status other than success; see `status_error`."""
        if status != lib.RKNN_SUCC:
            if status == lib.RKR_ERR_UNAVAILABLE:
                detail = f"this function does not exist in {self.library.path}"
            check_status(status, call, detail or self.library.last_message(), printed())

    def check_run(self, status: int, call: str) -> None:
        """Raise the exception for a run that failed, with what Python code raised in it."""
        if self.custom is not None:
            self._raise_of_operators(status, call)
        if status != lib.RKNN_SUCC:
            self.check_status(status, call, self.suspects)

    def _raise_of_operators(self, status: int, call: str) -> None:
        """Raise the exception of a custom operator; the status of the run may be success."""
        self.exclusive.lent_to = None  # an interrupt may have skipped the operator's own end
        error: BaseException | None = self.custom.take_exception()
        if error is None:
            return
        if status == lib.RKNN_SUCC or error.__cause__ is not None:
            raise error
        raise error from status_error(status, call, "a custom operator raised")

    def keep(self, thing: object) -> None:
        """Keep something alive as long as the runtime may use it."""
        self._owned.things.append(thing)

    def query(self, command: int, info: Any, size: int) -> int:
        """Call ``rknn_query`` and return its status."""
        with self.lock:
            status: int = lib.rkr_query(self.handle, self.opened(), command, info, size)
        return status

    def create_memory(
        self,
        owner: object,
        size_bytes: int,
        call: str,
        create: Callable[[Any, Any], int],
        *,
        is_seen: bool = True,
    ) -> tuple[int, Any, Span | None, Any]:
        """Create a memory of at least `size_bytes` for the NPU, by ``create(session, number)``.

        It is released with the context, by `destroy_memory`, or when ``owner`` is collected. `call`
        is the function of the runtime, for messages.

        Returns:
            Its number, which no other memory of the context has; the ``rknn_tensor_mem *``; the
            span, None if the CPU cannot see it; the finalizer that releases it with its owner.
        """
        number = ffi.new("uint64_t *")
        finalizer = weakref.finalize(owner, self._owned.finalize_memory, number)
        finalizer.atexit = False  # the context's own finalizer runs at exit
        with self.lock:
            self.opened()
            try:
                self.check_status(create(self._session, number), call)
                mem = self.memory(number[0])
                span = None
                if is_seen:
                    data = lib.rkr_session_data(self._session, number[0])
                    address = int(ffi.cast("uintptr_t", data))
                    if not address or mem.size < size_bytes:
                        gave = f"{mem.size} bytes" if address else "no address"
                        raise RknnError(f"{call} gave {gave}")
                    span = self._owned.spans[number[0]] = Span(address, size_bytes)
                return number[0], mem, span, finalizer
            except BaseException:
                self._owned.destroy_memory(number[0])  # no memory has number 0
                raise

    def memory(self, number: int) -> Any:
        """Return the ``rknn_tensor_mem *`` of a memory, NULL if it was released.

        The caller is inside ``with context.lock``.
        """
        return lib.rkr_session_memory(self._session, number)

    @property
    def is_held(self) -> bool:
        """Whether a private array of a memory is alive, perhaps in an exception's traceback."""
        return any(span.is_private for span in list(self._owned.spans.values()))

    def destroy_memory(self, number: int) -> None:
        """Release a memory of `create_memory`, unless it was released already.

        The caller is inside ``with context.lock``.
        """
        self.check_status(self._owned.destroy_memory(number), "rknn_destroy_mem(...)")

    def refuse_views(self) -> None:
        """Raise `BufferError` while an array that views a memory is alive."""
        if self._owned.has_views:
            raise BufferError(
                "arrays that view NPU memory are alive: drop them, or copy them first"
            )

    def close(self) -> None:
        """Release the memories, then the context; in a forked child, only forget them.

        The caller is inside ``with context.lock``, or alone with it.
        """
        if not self.is_foreign:
            self.refuse_views()
        failed = self._owned.destroy()
        self._finalizer.detach()
        for status, call in failed:
            self.check_status(status, call)

    def close_for(self, let_go: Callable[[], None]) -> None:
        """Close for an owner, once, after `let_go` under the lock, which may raise BufferError."""
        if self.is_closed:
            return
        if self.is_foreign:
            self.close()
            return
        with self.lock:
            if self.is_closed:  # another thread closed it meanwhile
                return
            if not _lets_go(let_go):
                # Cycles may hold the rest, or other threads' counts where Python has no GIL.
                gc.collect()
                let_go()
            try:
                self.close()
            finally:
                if self.custom is not None:
                    self.custom.finish()

    def give_up(self) -> None:
        """Close what could not be made ready, in an ``except`` clause that raises again."""
        try:
            self.close()
        except RknnStatusError as error:
            warn(f"while giving up a {self.what}: {error}")
