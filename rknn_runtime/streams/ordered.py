"""Results in the order of their frames, while the source is read ahead."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import numpy as np

from rknn_runtime._ffi import ffi
from rknn_runtime.errors import ClosedError, ForkError
from rknn_runtime.npu.context import Closing
from rknn_runtime.npu.locks import fork_generation
from rknn_runtime.streams.worker import FrameJob

#: How long to wait for a caller's source at the end of the program, seconds.
_PATIENCE = 1.0


class Results(Closing, Iterator[Any]):
    """An iterator over ``(frame, result)`` in the order of the frames; see `Pool.map`.

    A thread reads the source, starting with the first ``next``. The exception of a frame is raised
    instead of its result; the following ``next`` continues. When you leave a loop early, `close`
    the iterator, use it in a ``with`` block, or drop it: that cancels the waiting frames.
    """

    def __init__(
        self,
        frames: Iterable[Any],
        submit: Callable[[Any], Future[Any] | FrameJob],
        *,
        ahead: int,
        drop_oldest: bool,
        on_drop: Callable[[], None],
        batch: int = 1,
        on_close: Callable[[], None] | None = None,
        copy: bool = False,
        returns_errors: bool = False,
    ) -> None:
        """Prepare to read the frames.

        Args:
            frames: The source.
            submit: Hands a frame to the pool.
            ahead: How many frames may be read and not yet returned.
            drop_oldest: Drop older frames instead of letting the source wait.
            on_drop: Called for each dropped frame.
            batch: When as many frames as `ahead` are read, sleep until so many more may be: waking
                the reader costs as much as reading a frame.
            on_close: Called when no more frames are wanted, to end a wait in the source.
            copy: The source writes new frames into the same arrays.
            returns_errors: Return the exception of a frame as its result instead of raising it.
        """
        self._generation = fork_generation()
        self._returns_errors = returns_errors
        self._at_end: Callable[[], None] | None = None
        self._window = _Window(ahead, max(1, batch), drop_oldest, on_drop, on_close)
        self._reader = _Reader(iter(frames), submit, self._window, copy)
        # The thread refers to the window only, so that this object can be collected.
        weakref.finalize(self, self._window.close).atexit = False

    @property
    def dropped(self) -> int:
        """How many frames were dropped for newer ones so far."""
        return self._window.dropped

    def __next__(self) -> tuple[Any, Any]:
        """Return the next frame and its result.

        Raises:
            ClosedError: The pool was closed before the frame's turn came.
            ForkError: This process was forked after the iterator was made.
            Exception: The exception of the source or the frame.
        """
        if self._generation != fork_generation():
            raise ForkError(
                "this process was forked from the one with the pool: make a pool in the child"
            )
        if self._reader.ident is None:
            with self._window.lock:  # several threads may ask for the first frame
                if self._reader.ident is None:
                    self._reader.start()
        try:
            frame, job = self._window.take()
        except StopIteration:
            self.close()
            raise
        if job.cancelled():
            raise ClosedError("the pool was closed before this frame's turn came")
        if self._returns_errors and not isinstance(job, _SourceFailed):
            error = job.exception()
            return frame, job.result() if error is None else error
        return frame, job.result()

    def close(self) -> None:
        """Cancel the waiting frames and stop reading the source; idempotent."""
        self._window.close()
        if self._at_end is not None:
            self._at_end()

    def ending_with(self, end: Callable[[], None]) -> Results:
        """Call `end` when the iterator is exhausted or closed; return the iterator."""
        self._at_end = end
        return self


class _Entry:
    """A frame that was read, the address of its array, and its future result."""

    __slots__ = ("address", "frame", "is_done", "job")

    def __init__(self, frame: Any, address: int | None, job: Future[Any] | FrameJob) -> None:
        self.frame, self.address, self.job = frame, address, job
        self.is_done = False


class _Window:
    """The frames that were read and not yet returned, between the reader and the iterator.

    Ctrl-C is raised in the iterator's thread and must not leave a lock held, as it could in the
    Python code of ``with condition``: the workers would then wait forever. So that thread takes
    the plain lock, waits for a second one, and never waits for a future.
    """

    def __init__(
        self,
        size: int,
        batch: int,
        drop_oldest: bool,
        on_drop: Callable[[], None],
        on_close: Callable[[], None] | None,
    ) -> None:
        self._size, self._drop_oldest = size, drop_oldest
        self._few = size - batch
        self._on_drop, self._on_close = on_drop, on_close
        #: Whether `close` also ends a wait in the source.
        self.ends_wait = on_close is not None
        self.lock = threading.RLock()
        #: The reader waits here.
        self._has_room = threading.Condition(self.lock)
        #: The iterator waits for this lock, which is released at a result or the end.
        self._news = threading.Lock()
        self._news.acquire()
        self._entries: deque[_Entry] = deque()
        self._is_over = False
        self.dropped = 0

    def wait_for_room(self) -> bool:
        """Wait until another frame may be read; return False if no more are wanted."""
        with self.lock:
            while not (self._is_over or self._drop_oldest or len(self._entries) < self._size):
                self._has_room.wait()
            return not self._is_over

    def add(self, frame: Any, address: int | None, job: Future[Any] | FrameJob) -> None:
        entry = _Entry(frame, address, job)
        with self.lock:
            if self._is_over:
                job.cancel()
                return
            self._entries.append(entry)
            while self._drop_oldest and self._drop_one():
                self.dropped += 1
                self._on_drop()
            self._tell()  # the first entry may be another one

        def done(_: Future[Any] | FrameJob) -> None:
            with self.lock:
                entry.is_done = True
                self._tell()

        job.add_done_callback(done)

    def _drop_one(self) -> bool:
        """Drop the oldest frame that a newer one can replace, if any."""
        entries = self._entries
        if len(entries) > 1 and entries[0].is_done and entries[1].is_done:
            entries.popleft()
            return True
        waiting = [i for i, e in enumerate(entries) if not (e.job.running() or e.job.done())]
        if len(waiting) > 1 and entries[waiting[0]].job.cancel():
            del entries[waiting[0]]
            return True
        return False

    def refuse(self, address: int, error: Exception) -> None:
        """Fail all frames that begin at an address."""
        with self.lock:
            for entry in self._entries:
                if entry.address == address:
                    entry.job, entry.is_done = _SourceFailed(error), True
            self._tell()

    def has(self, address: int) -> bool:
        with self.lock:
            return address in [entry.address for entry in self._entries]

    def take(self) -> tuple[Any, Future[Any] | FrameJob]:
        """Wait for the result of the first frame, and take both out."""
        while True:
            with self.lock:
                if self._entries and self._entries[0].is_done:
                    entry = self._entries.popleft()
                    self._tell()  # the reader, and other threads that wait for a result
                    return entry.frame, entry.job
                if self._is_over and not self._entries:
                    self._tell()
                    raise StopIteration
            self._news.acquire()

    def end(self) -> None:
        with self.lock:
            self._is_over = True
            self._tell()

    def close(self) -> None:
        """Cancel the waiting frames and want no more."""
        with self.lock:
            self._is_over = True
            jobs = [entry.job for entry in self._entries]
            self._entries.clear()
            self._tell()
        if self._on_close is not None:
            self._on_close()
        for job in jobs:
            job.cancel()

    def _tell(self) -> None:
        """Wake the reader and the iterator if there is something to do; the lock is held."""
        if self._is_over or len(self._entries) <= self._few:
            self._has_room.notify_all()
        is_ready = self._entries[0].is_done if self._entries else self._is_over
        if is_ready and self._news.locked():
            self._news.release()


class _Reader(threading.Thread):
    """Reads a source.

    A daemon thread: a silent source must not keep the interpreter from ending. But a thread inside
    OpenCV at the end of the interpreter aborts the process, because glibc ends it by a C++
    exception that OpenCV catches. So `_end_readers` waits for it first.
    """

    def __init__(
        self,
        source: Iterator[Any],
        submit: Callable[[Any], Future[Any] | FrameJob],
        window: _Window,
        copy: bool,
    ) -> None:
        arguments = (source, submit, window, copy)
        super().__init__(target=_read, args=arguments, name="source", daemon=True)
        self.window = window


def readers_end(timeout: float) -> bool:
    """Close all sources; return whether their threads ended within so many seconds each."""
    readers = _close_readers()
    for reader in readers:
        reader.join(timeout)
    return not any(reader.is_alive() for reader in readers)


def _close_readers() -> list[_Reader]:
    readers = [thread for thread in threading.enumerate() if isinstance(thread, _Reader)]
    for reader in readers:
        reader.window.close()
    return readers


@atexit.register
def _end_readers() -> None:
    readers = _close_readers()
    with suppress(KeyboardInterrupt):  # the user does not want to wait
        for reader in readers:
            reader.join(None if reader.window.ends_wait else _PATIENCE)


def _read(
    source: Iterator[Any],
    submit: Callable[[Any], Future[Any] | FrameJob],
    window: _Window,
    copy: bool,
) -> None:
    """Hand the frames of a source to a pool, as far ahead as the window allows."""
    try:
        while window.wait_for_room():
            try:
                frame = next(source)
            except StopIteration:
                break
            if copy:
                frame = _copied(frame)
            address = None if copy else _address(frame)
            if address is not None and window.has(address):
                error = ValueError(
                    "frames: expected new memory for every frame, got an array that a frame still "
                    "to be done lies in, as of a camera that is read into one array: give copy=True"
                )
                window.refuse(address, error)
                raise error
            window.add(frame, address, submit(frame))
            del frame
    except BaseException as error:
        window.add(None, None, _SourceFailed(error))
    window.end()


class _SourceFailed(Future[Any]):
    """The result that stands for an exception of the source."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.set_exception(error)


def _copied(frame: Any) -> Any:
    if isinstance(frame, tuple):
        return tuple(_copied(part) for part in frame)
    return frame.copy() if isinstance(frame, np.ndarray) else frame


def _address(frame: Any) -> int | None:
    """Return the address of an array, or None for anything else, such as a path."""
    if isinstance(frame, tuple) and frame:
        frame = frame[0]
    if not isinstance(frame, np.ndarray):
        return None
    try:
        return int(ffi.cast("uintptr_t", ffi.from_buffer(frame)))
    except ValueError:  # it has gaps; the other way takes several times as long
        address: int = frame.__array_interface__["data"][0]
        return address
