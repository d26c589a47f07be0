"""How what owns memory or a context of a runtime is closed."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, TypeVar

from rknn_runtime.errors import RknnStatusError
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.owned import warn

__all__ = ["Closing", "ContextOwner"]

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
        # The traceback of an exception may hold the view that forbids closing: then the exception
        # is raised, and the garbage collector releases the rest.
        try:
            self.close()
        except BufferError:
            if error is None:
                raise


class ContextOwner(Closing):
    """Owns a context of a runtime: a model, or a product of matrices. Not for direct use."""

    _library: Library
    _context: Context

    @property
    def library(self) -> Library:
        """The runtime library; ``library.is_simulated`` tells the simulated NPU."""
        return self._library

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._context.is_closed

    def close(self) -> None:
        """Release memory and context; idempotent. In a forked child nothing is released.

        Weights that a duplicate uses stay until it is closed, too.

        Raises:
            BufferError: An array that views its memory is alive; nothing was released.
            RknnStatusError: The runtime refused; it is closed all the same.
            RuntimeError: Called in the middle of another call, as by a signal handler.
        """
        if self._context.is_closed:
            return
        if self._context.is_foreign:
            self._context.close()
            return
        with self._context.lock:
            if self._context.is_closed:  # by another thread, meanwhile
                return
            self._let_go()
            try:
                self._context.close()
            finally:
                if self._context.custom is not None:
                    self._context.custom.finish()

    def _let_go(self) -> None:
        """Make ready to be closed, inside ``with context.lock``, or raise `BufferError`."""

    def _give_up(self) -> None:
        """Close what could not be made ready; for an ``except`` clause, which raises again."""
        try:
            self._context.close()
        except RknnStatusError as error:
            warn(f"while giving up a {self._context.what}: {error}")

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(
            f"a {kind} can be neither copied nor pickled: it owns an NPU context. Make it where "
            "it is needed"
        )
