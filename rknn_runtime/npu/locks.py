"""A lock that refuses a second call of the same thread, and that is free in a forked child."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from sys import is_finalizing
from typing import Any

#: How often this process was forked.
_generation = 0
#: Every lock of this process.
_locks: weakref.WeakSet[ExclusiveLock] = weakref.WeakSet()


def fork_generation() -> int:
    """Return how often this process was forked: earlier objects belong to a parent."""
    return _generation


class ExclusiveLock:
    """A lock for one object, held in a ``with lock.held():`` block by one call at a time."""

    __slots__ = ("__weakref__", "_lock", "lent_to")

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        #: The thread that works for the holder of the lock, for example a function that a runtime
        #: calls; or None. If it waited for the lock, it would wait for itself.
        self.lent_to: int | None = None
        _locks.add(self)

    def held(self) -> AbstractContextManager[object]:
        """Return the lock to hold in a ``with`` block, unless this thread holds it already.

        A signal handler or a finalizer runs in the middle of another call; if it waited for that
        call, it would wait for ever. The lock's own ``with`` is C, so that a `KeyboardInterrupt`
        cannot come between taking the lock and the block, except for a gap of nanoseconds in
        Python 3.9 and 3.14.
        """
        lock = self._lock
        if is_finalizing():
            if not lock.acquire(blocking=False):
                raise RuntimeError(
                    "the interpreter has ended in the middle of another thread's call to the same "
                    "object: end your threads first, as in an atexit function"
                )
            lock.release()
        if lock._is_owned() or (self.lent_to is not None and self.lent_to == threading.get_ident()):
            raise RuntimeError(
                "reentrant call: this thread is in another call to the same object, which a "
                "signal handler, a finalizer or a custom operator interrupted; set a flag there "
                "and act on it afterwards"
            )
        held: AbstractContextManager[object] = lock
        return held

    def try_acquire(self) -> bool:
        """Take it unless somebody has it, this thread included; then call `release`."""
        return not self._lock._is_owned() and bool(self._lock.acquire(blocking=False))

    def release(self) -> None:
        """Release the lock after `try_acquire`."""
        self._lock.release()


def _after_fork() -> None:
    """Free the locks in a child: other threads that may hold them exist in the parent only."""
    global _generation
    _generation += 1
    for lock in list(_locks):
        if not lock._lock._is_owned():
            lock._lock._at_fork_reinit()


os.register_at_fork(after_in_child=_after_fork)
