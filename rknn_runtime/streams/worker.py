"""The thread of one context of a pool: it takes the next frame when it is free."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from rknn_runtime.enums import CoreMask
from rknn_runtime.npu.context import warn
from rknn_runtime.npu.model import Model
from rknn_runtime.streams.placement import pin_this_thread
from rknn_runtime.streams.stats import ContextStats, Times
from rknn_runtime.vision.image_model import ImageModel


class Job(Future[Any]):
    """The future result of one frame.

    Attributes:
        frame: The frame until a worker takes it, then None: results that nobody has read must not
            keep the frames of a whole video.
        submitted: Time in seconds of ``perf_counter``.
    """

    def __init__(self, frame: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.frame, self.options = frame, options
        self.submitted = perf_counter()

    def cancel(self) -> bool:
        """Cancel the frame unless a context has begun with it; return whether it was cancelled."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self.frame = None
        return is_cancelled


class FrameJob:
    """The job of one frame for `Results`, with the methods of a `Future` that these call.

    A `Future` has a condition, which takes longer than the rest of a pool's Python.
    """

    __slots__ = (
        "_callback",
        "_error",
        "_lock",
        "_result",
        "_state",
        "frame",
        "options",
        "submitted",
    )

    def __init__(self, frame: Any, options: dict[str, Any]) -> None:
        self.frame, self.options = frame, options
        self._lock, self._state = threading.Lock(), _WAITS
        self._callback: Callable[[Any], None] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self.submitted = perf_counter()

    def running(self) -> bool:
        """Whether a context works at it."""
        return self._state == _RUNS

    def done(self) -> bool:
        """Whether it has ended or was cancelled."""
        return self._state > _RUNS

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._state == _CANCELLED

    def cancel(self) -> bool:
        """Cancel it unless a context has begun with it; return whether it was cancelled."""
        if not self.set_running_or_notify_cancel():
            return self.cancelled()
        self.frame = None
        self._end(_CANCELLED)
        return True

    def set_running_or_notify_cancel(self) -> bool:
        """Begin with it; return False if it was cancelled."""
        with self._lock:
            is_free = self._state == _WAITS
            if is_free:
                self._state = _RUNS
        return is_free

    def set_result(self, result: Any) -> None:
        """End it with a result."""
        self._result = result
        self._end(_FINISHED)

    def set_exception(self, error: BaseException) -> None:
        """End it with an exception."""
        self._error = error
        self._end(_FINISHED)

    def _end(self, state: int) -> None:
        with self._lock:
            self._state, callback = state, self._callback
        if callback is not None:
            callback(self)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call a function, the only one, when the job is done, in the thread that ends it."""
        with self._lock:
            self._callback, is_done = callback, self.done()
        if is_done:
            callback(self)

    def exception(self) -> BaseException | None:
        """Return the exception, or None."""
        return self._error

    def result(self) -> Any:
        """Return the result, or raise the exception."""
        if self._error is not None:
            raise self._error
        return self._result


#: States of a `FrameJob`.
_WAITS, _RUNS, _FINISHED, _CANCELLED = range(4)


def _settle(job: Job | FrameJob, error: BaseException) -> None:
    """End a job after an error outside the work; log the error if the job has ended."""
    job.frame = None
    while not job.done():
        # Memory may run out here, too; then try again.
        with suppress(MemoryError, InvalidStateError):
            job.set_exception(error)
            return
    if job.cancelled():
        with suppress(RuntimeError):  # waiters were notified
            job.set_running_or_notify_cancel()
    warn(f"a pool goes on after {error!r}, which no future could take")


#: Waiting frames; None ends the worker that takes it.
JobQueue = SimpleQueue["Job | FrameJob | None"]


class Worker:
    """A thread that takes jobs from a queue that it shares with others.

    ``call(frame, marks, options)`` does the work and appends to `marks` when each of the phases
    ended, in seconds of ``perf_counter``.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        phases: tuple[str, ...],
        jobs: JobQueue,
        core_mask: CoreMask | None,
        cpus: frozenset[int] | None,
        name: str,
    ) -> None:
        self._call, self._jobs, self._cpus = call, jobs, cpus
        self._core_mask = core_mask
        self._times = Times(("wait", *phases))
        self._since = 0.0
        # A daemon, so that a run that never returns cannot keep the interpreter from ending.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        if self._cpus is not None:
            pin_this_thread(self._cpus)
        while True:
            job = self._jobs.get()
            if job is None:
                return
            try:
                if job.set_running_or_notify_cancel():
                    self._do(job)
            except BaseException as error:
                # Memory ran out, a caller settled the future itself, or its callback raised.
                _settle(job, error)
            del job  # do not keep the result while waiting for the next

    def _do(self, job: Job | FrameJob) -> None:
        frame, job.frame = job.frame, None
        self._since = begun = perf_counter()
        marks = [job.submitted, begun]
        error: BaseException | None = None
        result = None
        try:
            result = self._call(frame, marks, job.options)
        except BaseException as caught:
            # Its traceback would hold arrays of the model, which could then not be closed.
            traceback.clear_frames(caught.__traceback__)
            error = caught
            if isinstance(caught, StopIteration):  # it would end the loop over the results
                error = RuntimeError("the task raised StopIteration")
                error.__cause__ = caught
        self._since = 0.0
        # Before the result is set: waiters find the frame counted.
        self._times.add([*marks, perf_counter()] if error else marks, error is not None)
        if error is None:
            job.set_result(result)
        else:
            job.set_exception(error)

    def stats(self) -> ContextStats:
        """Return the frames and times so far."""
        return ContextStats(self._core_mask, *self._times.sums, self._times.phases())

    @property
    def working_s(self) -> float:
        """For how long it has been working at its frame, seconds; 0: it is waiting for one."""
        since = self._since
        return perf_counter() - since if since else 0.0

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread, as a callback of a future does."""
        return self._thread is threading.current_thread()

    def join(self, timeout: float | None) -> bool:
        """Wait for the thread to end, unless it is the caller's; return whether it has ended."""
        if self.is_current:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()


def made_of(task: Callable[..., Any], model: Model, options: dict[str, Any]) -> Callable[..., Any]:
    """Make a pool's task for a context; a `Model` is a task itself."""
    if task is Model and options:
        raise TypeError(f"a Model takes no options, got {', '.join(options)}")
    if task is Model:
        return model
    try:
        made: Callable[..., Any] = task(model, **options)
        return made
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        raise TypeError(
            f"{error}: a Pool itself takes contexts=, core_masks= and cpus=, and passes other "
            "options to its task"
        ) from None


def call_of(made: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return the function that a worker calls with a frame, and the names of its phases."""
    if not isinstance(made, (ImageModel, Model)):  # its phases are not known

        def call(frame: Any, marks: list[float], options: dict[str, Any]) -> Any:
            result = made(frame, **options)
            marks.append(perf_counter())
            return result

        return call, ("call",)
    is_plain = isinstance(made, Model)
    model = made if isinstance(made, Model) else made.model
    model.is_timed = True

    def timed(frame: Any, marks: list[float], options: dict[str, Any]) -> Any:
        result = made(*frame) if is_plain and isinstance(frame, tuple) else made(frame, **options)
        _, written, _, _, done = model._frame.times_ns()
        marks += written * 1e-9, done * 1e-9, perf_counter()
        return result

    return timed, ("write", "run", "read" if is_plain else "decode")
