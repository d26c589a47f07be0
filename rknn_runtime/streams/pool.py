"""Several contexts of one model, so that no core of the NPU waits for Python."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from sys import is_finalizing
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rknn_runtime._arrays import as_float, as_int
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import ClosedError, ForkError, UnavailableError
from rknn_runtime.npu.context import Closing
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.locks import fork_generation
from rknn_runtime.npu.model import Model
from rknn_runtime.streams import placement
from rknn_runtime.streams.cascade import Cascade
from rknn_runtime.streams.ordered import Results
from rknn_runtime.streams.source import Frame, FrameSource
from rknn_runtime.streams.stats import PoolStats
from rknn_runtime.streams.worker import FrameJob, Job, JobQueue, Worker, call_of, made_of
from rknn_runtime.vision.detector import Detector

if TYPE_CHECKING:
    import asyncio

#: One context per core would leave the core idle while Python scales the next image and decodes the
#: last one.
_CONTEXTS_PER_CORE = 2
_MOST_CONTEXTS = 64
_Job = TypeVar("_Job", Job, FrameJob)


class Pool(Closing):
    """Contexts of one model that share the incoming frames, each with a thread.

    A free context takes the next frame, scales, runs and decodes it; the GIL is released in all
    three. Each run goes to an idle core, or to the one that is free first
    (``csrc/runtime/cores.c``). The weights are in memory once (`Model.duplicate`). If a runtime has
    no duplicates (RV1103, RV1106, old versions for others), the pool has one context and logs that.
    Thread-safe; use it as a context manager, or close it.

    Attributes:
        core_masks: The cores that each context starts on; None: the runtime chooses.
        tasks: The task of each context, such as its `Detector`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview | Model,
        task: Callable[..., Any] = Detector,
        *,
        contexts: int | None = None,
        core_masks: Sequence[CoreMask | None] | None = None,
        library: str | os.PathLike[str] | Library | None = None,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        check: bool = True,
        cpus: str | Collection[int] | None = None,
        **options: Any,
    ) -> None:
        """Load the model once and duplicate it.

        Args:
            model: As for `Model`. Or a `Model`, which you close, with its own library and flags:
                all contexts are its duplicates, or it is the only context if it has none.
            task: Made of each context and called with each frame: `Detector`, `Classifier`, or
                `Model`, whose frame is an array, or a tuple with one array per input.
            contexts: Number of contexts; None: two per core.
            core_masks: The cores of each context, such as ``[CoreMask.CORE_0, CoreMask.CORE_1]``,
                instead of `contexts`; None: one core each, in turn. A context also runs on the
                cores of another if they are free first.
            library: As for `Model`.
            flags: As for `Model`.
            check: As for `Model`.
            cpus: CPUs for the threads: their numbers, or ``"big"`` for the fastest ones of a
                big.LITTLE SoC. None: any.
            **options: For `task`, such as ``conf_threshold``.

        Raises:
            ValueError: `contexts` or `core_masks` is not 1 to 64, a CPU does not exist, or
                `library` is given for a `Model`.
            Exception: The exceptions of `Model` and `task`.
        """
        self._is_closed = False
        self._generation = fork_generation()
        self._jobs: JobQueue = SimpleQueue()
        self._dropped, self._counting = 0, threading.Lock()
        #: Held by the thread of a context that closes the pool, from a callback of a future.
        self._closes_itself = threading.Lock()
        self._began = perf_counter()
        self._workers: list[Worker] = []
        self._models: list[Model] = []
        self._lent: Model | None = None
        chosen = placement.cpus_of(cpus)
        if contexts is not None and core_masks is not None:
            raise ValueError("contexts, core_masks: expected one of them, got both")
        if contexts is not None:
            contexts = as_int(contexts, "contexts", 1, _MOST_CONTEXTS)
        masks = None if core_masks is None else placement.checked_masks(core_masks, _MOST_CONTEXTS)
        if isinstance(model, Model) and library is not None:
            raise ValueError("library: expected None, as the model has one, got another")
        try:
            if isinstance(model, Model):
                origin = self._context_of(model)
            else:
                origin = Model(model, library=library, flags=flags, check=check)
            self._models.append(origin)
            self._duplicate(origin, contexts, masks)
            self.tasks = tuple(made_of(task, each, options) for each in self._models)
            calls = map(call_of, self.tasks)
            for i, (call, phases) in enumerate(calls):
                worker = Worker(call, phases, self._jobs, self.core_masks[i], chosen, f"npu-{i}")
                self._workers.append(worker)
            # The threads refer to the queue, not to this object: they end when it is dropped.
            weakref.finalize(self, _dismiss, self._jobs, len(self._workers)).atexit = False
        except BaseException:
            self.close()
            raise

    def _duplicate(
        self, origin: Model, contexts: int | None, masks: list[CoreMask | None] | None
    ) -> None:
        is_asked = contexts is not None or masks is not None
        if masks is None:
            # A model that the caller uses, too, keeps its cores.
            cores = placement.npu_cores(origin) if self._lent is None else 1
            masks = placement.core_masks(cores, contexts or cores * _CONTEXTS_PER_CORE)
        if masks[0] is not None:
            origin.set_core_mask(masks[0])
        try:
            self._models += [origin.duplicate(core_mask=mask) for mask in masks[1:]]
        except UnavailableError as error:
            if is_asked:
                raise
            _tell_of_one_context(str(error), is_costly=len(set(masks)) > 1)
        self.core_masks = tuple(masks[: len(self._models)])
        if self._lent is None:  # its cores are the caller's
            placement.share_cores(self._models, self.core_masks)

    def _context_of(self, model: Model) -> Model:
        """Return a context of a caller's model: a duplicate, so that the model stays free."""
        try:
            return model.duplicate()
        except UnavailableError:
            self._lent = model
            return model

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._models)} contexts"
        return f"<Pool {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Pool can be neither copied nor pickled: it owns NPU contexts and threads. Make it "
            "where it is needed"
        )

    def submit(self, frame: Any, **options: Any) -> Future[Any]:
        """Submit one frame. This never waits, so limit the frames that you submit, or use `map`.

        Args:
            frame: A frame for the task. Do not change it until the future is done.
            **options: For the call, such as ``color="BGR"``.

        Returns:
            A future of the task's result or exception. It can be cancelled until a context
            has started it.

        Raises:
            ClosedError: The pool is closed.
            ForkError: This process was forked after the pool was made.
        """
        self._check_open()
        return self._put(Job(frame, options))

    def _put(self, job: _Job) -> _Job:
        self._jobs.put(job)
        if self._is_closed:  # closed meanwhile: perhaps no worker is left to take it
            job.cancel()
        return job

    def detect(self, frame: Any, **options: Any) -> asyncio.Future[Any]:
        """Submit one frame, for ``await pool.detect(frame)`` in an event loop.

        The arguments and exceptions equal `submit`; RuntimeError if no event loop is running.

        Returns:
            An awaitable of the task's result or exception. Cancelling it cancels the frame, unless
            a context has started it.
        """
        import asyncio  # here: it is a third of the time of a start

        self._check_open()
        loop = asyncio.get_running_loop()
        return asyncio.wrap_future(self.submit(frame, **options), loop=loop)

    def map(
        self,
        frames: Iterable[Any],
        *,
        drop: str | None = None,
        copy: bool = False,
        ahead: int | None = None,
        errors: str = "raise",
        then: Pool | None = None,
        crop: Callable[[Any, Any], Sequence[Any]] | None = None,
        **options: Any,
    ) -> Results:
        """Run on every frame of a source, in order.

        Args:
            frames: The source, such as a list, a generator or a camera that can be iterated. A
                thread of the pool reads it, starting with the first ``next``.
            drop: None: the source waits while all contexts are busy. ``"oldest"``, for live
                sources: the source never waits; only the newest of the waiting frames and of the
                results that nobody has fetched is kept.
            copy: Copy every array. Needed if the source writes new frames into the same array;
                otherwise such a source is refused.
            ahead: How many frames to read in advance if nothing is dropped. None:
                twice the number of contexts.
            errors: ``"raise"``: raise the exception of a frame instead of returning its result.
                ``"return"``: return it as the result, and continue.
            then: A pool of a second model, which runs on what the first one found in each frame
                (a cascade).
            crop: ``crop(frame, result)`` returns the arrays for `then`; None: one per object, as
                `Detections.crop`.
            **options: For each call, such as ``color="BGR"``; of the first model only.

        Returns:
            An iterator over ``(frame, result)``; with `then` the result is
            ``(result, [second result, ...])``.

        Raises:
            ClosedError: The pool is closed.
            ForkError: This process was forked after the pool was made.
            ValueError: `drop`, `errors` or `ahead` is out of range.
        """
        self._check_open()
        if drop not in (None, "oldest"):
            raise ValueError(f'drop: expected None or "oldest", got {drop!r}')
        if errors not in ("raise", "return"):
            raise ValueError(f'errors: expected "raise" or "return", got {errors!r}')
        if then is not None and not isinstance(then, Pool):
            raise TypeError(f"then: expected a Pool, got {type(then).__name__}")
        most = 2 * len(self._models) if ahead is None else as_int(ahead, "ahead", 1, 2**31 - 1)
        cut = crop or (lambda frame, found: found.crop(frame))

        def submit(frame: Any) -> Future[Any] | FrameJob:
            self._check_open()
            job = self._put(FrameJob(frame, options))
            if then is None:
                return job
            return Cascade(job, lambda result: cut(frame, result), then.submit)

        return Results(
            frames,
            submit,
            ahead=most,
            batch=most - len(self._models),
            drop_oldest=drop is not None,
            copy=bool(copy),
            returns_errors=errors == "return",
            on_drop=self._count_drop,
        )

    def stream(
        self,
        source: str | os.PathLike[str] | int | FrameSource,
        *,
        drop: str | None = "auto",
        reconnect_s: float = 60.0,
        **options: Any,
    ) -> Results:
        """Run on every image of a folder, a video, a camera or a network stream.

        Results and exceptions are as for `Detector.stream`.

        Args:
            source: A `FrameSource`, or the source for one.
            drop: As in `map`; ``"auto"`` is ``"oldest"`` for cameras and network streams and None
                for files.
            reconnect_s: How long to try to reopen a camera or stream after it broke off; a
                `FrameSource` has its own.
            **options: For each call.
        """
        self._check_open()
        if drop not in (None, "oldest", "auto"):
            raise ValueError(f'drop: expected None, "oldest" or "auto", got {drop!r}')
        frames = source
        if not isinstance(frames, FrameSource):
            frames = FrameSource(frames, reconnect_s=reconnect_s)
        drops = frames.is_live if drop == "auto" else drop is not None

        options = dict(color="BGR", **options)

        def submit(frame: Frame) -> FrameJob:
            self._check_open()
            return self._put(FrameJob(frame.image, options))

        return Results(
            frames,
            submit,
            ahead=2 * len(self._models),
            batch=len(self._models),
            drop_oldest=drops,
            on_drop=self._count_drop,
            on_close=frames.close,
        )

    def _count_drop(self) -> None:
        with self._counting:  # several readers may call it
            self._dropped += 1

    def _check_open(self) -> None:
        if self._generation != fork_generation():
            raise ForkError(
                "this process was forked after the pool was made, and NPU contexts do not survive "
                "that: make the pool in the child, or start processes with 'spawn'"
            )
        if self._is_closed:
            raise ClosedError("the pool is closed")
        if is_finalizing():
            raise RuntimeError("the interpreter has ended, and with it the threads of the pool")

    def stats(self) -> PoolStats:
        """Return counts and times so far; ``print`` them for a table.

        If the contexts are busy all the time, the NPU or the CPU is the bottleneck; otherwise the
        source or the consumer is.
        """
        return PoolStats(
            tuple(worker.stats() for worker in self._workers),
            self._jobs.qsize(),
            self._dropped,
            perf_counter() - self._began,
        )

    @property
    def working_s(self) -> float:
        """The longest time that a context has worked on its current frame, seconds.

        If it grows far beyond the time of a frame, the NPU or its driver hangs.
        """
        return max((worker.working_s for worker in self._workers), default=0.0)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self, timeout: float | None = None) -> None:
        """Cancel the waiting frames, finish the running ones, and release the contexts; idempotent.

        Nothing is released in a forked child or after the end of the interpreter.

        Args:
            timeout: How long to wait for the running frames, seconds; None: as long as it takes.

        Raises:
            BufferError: An array that views a model's memory is alive.
            RknnStatusError: The runtime refused; the pool is closed nevertheless.
            TimeoutError: A run did not end in time. Its context stays; call again to wait longer.
            ValueError: `timeout` is negative.
        """
        if timeout is not None:
            timeout = as_float(timeout, "timeout")
            if not timeout >= 0:
                raise ValueError(f"timeout: expected seconds, 0 or more, got {timeout}")
        if self._generation != fork_generation():
            return
        self._is_closed = True
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.cancel()
        # Always: the jobs just removed may include the sentinels of another close.
        _dismiss(self._jobs, len(self._workers))
        if is_finalizing():
            return  # the workers never continue, perhaps in the middle of a run
        if any(worker.is_current for worker in self._workers):
            if not self._closes_itself.acquire(blocking=False):
                return  # another callback is closing it, and waits for this one
            try:
                self._end(timeout)
            finally:
                self._closes_itself.release()
        else:
            self._end(timeout)

    def _end(self, timeout: float | None) -> None:
        end = None if timeout is None else monotonic() + timeout
        for worker in self._workers:
            if not worker.join(None if end is None else max(0.0, end - monotonic())):
                raise TimeoutError(f"a frame did not end within {timeout} s; close() again to wait")
        for model in reversed(self._models):
            if model is not self._lent:
                model.close()


def _tell_of_one_context(reason: str, is_costly: bool) -> None:
    """Log why a pool has one context only; as a warning if cores of the NPU stay idle.

    The NPUs of librknnmrt, which has no duplicates, have one core: nothing is wrong there.
    """
    import logging

    level = logging.WARNING if is_costly else logging.INFO
    # The rest of the reason is advice about loading models.
    logging.getLogger("rknn_runtime").log(
        level, "a pool of one context: %s", reason.partition(": ")[0]
    )


def _dismiss(jobs: JobQueue, workers: int) -> None:
    """End the workers after the submitted frames."""
    for _ in range(workers):
        jobs.put(None)
