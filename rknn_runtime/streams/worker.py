"""One context of a pool and the thread that uses it: it takes the next frame when it is free."""

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
from rknn_runtime.streams.placement import pin_this_thread
from rknn_runtime.streams.stats import ContextStats, Times

__all__ = ["Job", "JobQueue", "Worker"]


class Job(Future[Any]):
    """What becomes of one frame.

    Attributes:
        frame: Until it is taken; then None, so that results that nobody has read do not keep
            the frames of a whole video.
        submitted: When, in seconds of ``perf_counter``.
    """

    def __init__(self, frame: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self.frame, self.options = frame, options
        self.submitted = perf_counter()

    def cancel(self) -> bool:
        """Give the frame up unless a context has begun with it; return whether that was done."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self.frame = None
        return is_cancelled

    def settle(self, error: BaseException) -> None:
        """Let nobody wait, after an error beside the work; where the job has ended, log it."""
        self.frame = None
        while not self.done():
            # Memory may run out here, too: there is nothing to do but to try again.
            with suppress(MemoryError, InvalidStateError):
                self.set_exception(error)
                return
        if self.cancelled():
            with suppress(RuntimeError):  # who waits for it was told
                self.set_running_or_notify_cancel()
        warn(f"a pool goes on after {error!r}, which no future could take")


#: Waiting frames; None ends the worker that takes it.
JobQueue = SimpleQueue["Job | None"]


class Worker:
    """A thread that takes jobs from a queue that it shares with others.

    Args:
        call: Does the work: ``call(frame, mark, **options)``, where ``mark()`` notes that a
            phase ends now, and ``mark(*times)`` when some ended, in seconds of ``perf_counter``.
        phases: Names of the phases.
        jobs: The queue.
        core_mask: What the context was given.
        cpus: CPUs to run on; None: any.
        name: Of the thread.
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
                job.settle(error)
            del job  # and with it the result, while waiting for the next

    def _do(self, job: Job) -> None:
        frame, job.frame = job.frame, None
        marks = [job.submitted, perf_counter()]
        error: BaseException | None = None
        result = None
        try:
            result = self._call(
                frame, lambda *times: marks.extend(times or (perf_counter(),)), **job.options
            )
        except BaseException as caught:
            # Its traceback would hold arrays of the model, which could then not be closed.
            traceback.clear_frames(caught.__traceback__)
            error = caught
        # Before the result is there: who waits for it finds it counted.
        self._times.add([*marks, perf_counter()] if error else marks, error is not None)
        if error is None:
            job.set_result(result)
        else:
            job.set_exception(error)

    def stats(self) -> ContextStats:
        """Return what was done so far."""
        return ContextStats(self._core_mask, *self._times.sums, self._times.phases())

    def join(self, timeout: float | None) -> bool:
        """Wait until it has ended; return whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()
