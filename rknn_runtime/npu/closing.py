"""The ``with`` block of objects that have `close`."""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

__all__ = ["Closing"]

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
