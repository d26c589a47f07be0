"""Locks that a thread's own second call cannot wait for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

__all__ = ["exclusive", "new_lock"]

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def new_lock() -> Any:
    """Make a lock for `exclusive`."""
    return threading.RLock()


def exclusive(lock: Any) -> AbstractContextManager[object]:
    """Return ``lock`` to hold in a ``with`` block, unless this thread holds it already.

    A signal handler, or the finalizer of an object that is collected meanwhile, runs in the
    middle of another call: waiting for that one, it would wait for ever. The lock's own
    ``with`` is C: a `KeyboardInterrupt` cannot come between taking it and the block, except in
    Python 3.9 and 3.14, where a with statement of any lock has that gap, of nanoseconds.

    Raises:
        RuntimeError: this thread is in such a block, further down its stack.
    """
    if lock._is_owned():
        raise RuntimeError(
            "reentrant call: this thread is in another call to the same object, which a signal "
            "handler or a finalizer interrupted; set a flag there and act on it afterwards"
        )
    held: AbstractContextManager[object] = lock
    return held
