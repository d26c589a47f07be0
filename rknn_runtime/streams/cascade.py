"""A second model on the objects of the first, as one future result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Lock
from typing import Any

from rknn_runtime.errors import ClosedError
from rknn_runtime.streams.worker import FrameJob


class Cascade(Future[Any]):
    """The future ``(result, [second result, ...])`` of one frame.

    The thread that finished the first model cuts the frame and submits the parts, so no core waits
    for the loop over the results.
    """

    def __init__(
        self,
        first: FrameJob,
        parts_of: Callable[[Any], Sequence[Any]],
        submit: Callable[[Any], Future[Any]],
    ) -> None:
        """Wait for the first result; `parts_of` cuts the frame by it, `submit` takes the parts."""
        super().__init__()
        self._first, self._parts_of, self._submit = first, parts_of, submit
        self._parts: list[Future[Any]] = []
        self._left, self._counting = 1, Lock()
        first.add_done_callback(self._take_first)

    def running(self) -> bool:
        """Whether the first model has begun with the frame."""
        return not self.done() and (self._first.running() or self._first.done())

    def cancel(self) -> bool:
        """Cancel the frame unless a context has begun with it."""
        return self._first.cancel() or self.cancelled()

    def _take_first(self, first: FrameJob) -> None:
        try:
            if first.cancelled():
                super().cancel()
                return
            for part in self._parts_of(first.result()):
                job = self._submit(part)
                self._parts.append(job)
                with self._counting:
                    self._left += 1
                job.add_done_callback(self._count)
            self._count(first)
        except BaseException as error:
            self._fail(error)
        finally:
            del self._parts_of, self._submit  # they hold the frame

    def _count(self, _: Future[Any] | FrameJob) -> None:
        """Note that a model is done with something; the last one gives the result."""
        with self._counting:
            self._left -= 1
            if self._left:
                return
        try:
            if any(part.cancelled() for part in self._parts):
                raise ClosedError("the pool of the second model was closed before this frame's end")
            result = self._first.result(), [part.result() for part in self._parts]
            with suppress(InvalidStateError):  # it failed already
                self.set_result(result)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        for part in self._parts:
            part.cancel()
        with suppress(InvalidStateError):
            self.set_exception(error)
