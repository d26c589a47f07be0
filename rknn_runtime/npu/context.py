"""The handle that a model and its memories share: an rknn_context and all it owns.

Whoever dies first, memories are released before the context: the vendor's runtimes crash
otherwise. Python collects a cycle's members in any order, so neither the model nor a memory
releases anything by itself; both go through the one `Owned` (``owned.py``) of their context.

C (``csrc/runtime/session.c``) knows what is open, not Python: a signal is raised as soon as a call
returns, before its result is stored.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rknn_runtime._arrays import Span
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._locks import fork_generation
from rknn_runtime.errors import ClosedError, ForkError, RknnError, status_error
from rknn_runtime.npu.library import Library, printed
from rknn_runtime.npu.owned import Owned

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = ["Context", "HasContext"]


@dataclass(frozen=True)
class NewMemory:
    """A memory of the runtime."""

    #: Names it to its context; none is given twice.
    number: int
    #: The ``rknn_tensor_mem *``.
    pointer: Any
    #: Who views it; None where the CPU sees nothing of it.
    span: Span | None
    #: Releases it when its owner is collected, unless the owner detaches this.
    finalizer: weakref.finalize[[Any], object]


class Context:
    """An initialised ``rknn_context``, used by one thread at a time.

    Every use is ``with context.lock: handle = context.opened()``.

    Attributes:
        library: The library it lives in.
        handle: The ``rkr_library *``, for calls to the C shim.
        exclusive: What `lock` hands out, for who works under the same lock without the context.
        suspects: What may be the cause when a run fails; empty when nothing is known.
    """

    suspects = ""
    #: Operators in Python, `rknn_runtime.npu.operators.Operators`; None: there are none. Not in
    #: `Owned`: a finalizer holds that, and such functions often hold their model.
    custom: Any = None
    #: Whoever waits for a run in flight, weakly; None: there is none.
    flight: weakref.ref[Any] | None = None
    #: What is closed, for messages.
    what = "model"
    #: Why nothing may run now, as while shapes are chosen; empty: it may.
    paused = ""
    _owned: Owned

    def __init__(
        self,
        library: Library,
        model: Any,
        flags: int,
        simulation: Any = None,
        *,
        parent: Context | None = None,
        extend: Any = ffi.NULL,
        kept: object = None,
    ) -> None:
        """Initialise a context.

        Args:
            library: The runtime.
            model: The model's bytes, any contiguous buffer; None duplicates ``parent``.
            flags: Of ``rknn_init``.
            simulation: A ``rknn_runtime.sim.PreparedModel``, which computes the runs of a
                simulated context; None on an NPU.
            parent: Whose weights this context uses. It is destroyed after this one, whichever
                is closed first. None: it has its own.
            extend: ``rknn_init_extend *`` or NULL; not NULL with a parent.
            kept: What must live as long as the context.

        Raises:
            ClosedError: The parent is closed.
            RknnStatusError: The runtime refused.
        """
        self._prepare(library, simulation, None if parent is None else parent._owned, kept)
        if parent is None:
            self._initialise(model, flags, ffi.NULL, extend)
        else:
            with parent.lock:
                parent.check_open()
                self._initialise(model, flags, parent._session, extend)
        if simulation is not None:
            simulation.attach(self._session.context)

    def _prepare(
        self,
        library: Library,
        simulation: Any = None,
        parent: Owned | None = None,
        kept: object = None,
    ) -> None:
        """Make the session of a context that is about to be opened."""
        self.library = library
        self.handle = library.handle
        owned = Owned(library, simulation, parent, kept)
        self._owned = owned
        self._session, self._orphans = owned.session, owned.orphans
        self.exclusive = owned.lock
        # Before there is anything to release: nothing comes between having it and this.
        self._finalizer = weakref.finalize(self, owned.finalize)

    def _initialise(self, model: Any, flags: int, parent: Any, extend: Any) -> None:
        if model is None:
            status = lib.rkr_session_dup(self._session, parent)
            call = "rknn_dup_context(...)"
        else:
            with ffi.from_buffer(model) as data:
                status = lib.rkr_session_init(self._session, parent, data, len(data), flags, extend)
                call = f"rknn_init({len(data)} bytes, flags={flags:#x})"
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
        """The lock that every use holds.

        Raises:
            ForkError: The context belongs to the parent process.
            RuntimeError: This thread holds it already; see `ExclusiveLock.held`.
        """
        owned = self._owned
        if owned.generation != fork_generation():  # `is_foreign`, on the path of every frame
            raise ForkError(
                "this process was forked after the model was loaded, and an NPU context does not "
                "survive that: load the model in the child, or start processes with 'spawn'"
            )
        return owned.lock.held()

    def opened(self) -> int:
        """Return the ``rknn_context``, inside ``with context.lock``.

        Raises:
            ClosedError: It was released.
        """
        self.check_open()
        context: int = self._session.context
        return context

    def check_open(self) -> None:
        """Do as `opened`, for a caller who does not need the ``rknn_context``."""
        if not self._session.is_open:
            raise ClosedError(f"the {self.what} is closed")
        if self.flight is not None:
            self._check_flight(self.flight)
        if self._orphans:
            self._owned.destroy_orphans()

    def check_chosen(self) -> None:
        """Check that it is open and its shapes are settled, inside ``with context.lock``.

        While they are chosen, arrays of what was bound before must not be made again.

        Raises:
            ClosedError: It was released.
            RuntimeError: Shapes are being chosen, or could not be.
        """
        self.check_open()
        if self.paused:
            raise RuntimeError(f"the {self.what} cannot run: {self.paused}")

    def _check_flight(self, flight: weakref.ref[Any]) -> None:
        """Refuse to do anything beside a run; wait for one that nobody else can wait for."""
        if self._session.in_flight and flight() is not None:
            raise RuntimeError("a run is in flight: wait for it first, or close the model")
        self.land()

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
        """Raise the exception for a status that is not success; see `status_error`."""
        if status != lib.RKNN_SUCC:
            if status == lib.RKR_ERR_UNAVAILABLE:
                detail = f"this function does not exist in {self.library.path}"
            raise status_error(status, call, detail or self.library.last_message(), printed())

    def check_run(self, status: int, call: str) -> None:
        """Raise the exception for a run that failed, with what the simulated NPU raised in it."""
        if self.custom is not None:
            self._raise_of_operators(status, call)
        if status == lib.RKNN_SUCC:
            return
        simulation = self._owned.simulation
        cause: BaseException | None = None if simulation is None else simulation.take_exception()
        if cause is None:
            self.check_status(status, call, self.suspects)
        elif not isinstance(cause, Exception):
            raise cause  # a KeyboardInterrupt is no failure of the model
        else:
            detail = f"the simulated NPU's executor raised {cause!r}"
            raise status_error(status, call, detail) from cause

    def _raise_of_operators(self, status: int, call: str) -> None:
        """Raise what a custom operator raised in a run, whatever the runtime made of it."""
        self.exclusive.lent_to = None  # whatever interrupted the operator's own end
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
    ) -> NewMemory:
        """Have a memory made that the NPU sees.

        It is released with the context, by `destroy_memory`, or when ``owner`` is collected.

        Args:
            owner: Who has it.
            size_bytes: What it must have.
            call: The function of the runtime, for messages.
            create: Calls it, with the session and ``uint64_t *`` for the number.
            is_seen: Whether the CPU is to see it.

        Raises:
            AllocationError: The runtime has none.
            ClosedError: The context is closed.
            RknnError: The runtime returned a memory that cannot be used.
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
                    address = lib.rkr_session_data(self._session, number[0])
                    span = self._owned.spans[number[0]] = _span(mem, address, size_bytes, call)
                return NewMemory(number[0], mem, span, finalizer)
            except BaseException:
                self._owned.destroy_memory(number[0])  # none has number 0
                raise

    def memory(self, number: int) -> Any:
        """Return the ``rknn_tensor_mem *`` of a memory, NULL when it was released.

        The caller is inside ``with context.lock``.
        """
        return lib.rkr_session_memory(self._session, number)

    @property
    def is_held(self) -> bool:
        """Whether a private array of a memory is alive, perhaps in an exception's traceback."""
        return any(span.is_private for span in list(self._owned.spans.values()))

    def destroy_memory(self, number: int) -> None:
        """Release a memory of `create_memory`; a released one is left alone.

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

        Raises:
            BufferError: An array that views a memory is alive; nothing was released.
            RknnStatusError: The runtime refused; everything was tried all the same.
        """
        if not self.is_foreign:
            self.refuse_views()
        failed = self._owned.destroy()
        self._finalizer.detach()
        for status, call in failed:
            self.check_status(status, call)


class HasContext:
    """What lives in a context of its own: a model."""

    _context: Context


def _span(mem: Any, data: Any, size_bytes: int, call: str) -> Span:
    """Look at a memory that a runtime gave.

    Raises:
        RknnError: It cannot be used.
    """
    address = int(ffi.cast("uintptr_t", data))
    if not address or mem.size < size_bytes:
        raise RknnError(f"{call} gave {f'{mem.size} bytes' if address else 'no address'}")
    return Span(address, size_bytes)
