"""A pool of contexts: every frame once, in order, and nothing left behind."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor

import numpy as np
import pytest
from bundles import one_object
from threads import in_threads

from rknn_runtime import CoreMask, Detector, Model
from rknn_runtime.errors import ClosedError, ForkError, UnavailableError
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.sim.control import Control
from rknn_runtime.streams import Pool
from rknn_runtime.streams.ordered import Results
from rknn_runtime.streams.worker import FrameJob

N_FRAMES = 200
VALUES = 16
SHAPE = (1, 3, 4, 16)


def counting_bundle(soc: str = "rk3588") -> bytes:
    """A model that answers an image full of n with an output full of n."""
    inputs = [describe_input("image", SHAPE, soc=soc, **{"zero_point": -128, "scale": 1.0})]
    outputs = [describe_output("value", (1, 4), soc=soc, zero_point=0, scale=1.0)]
    records = [
        Record([np.full((1, 4), n, np.float32)], [np.full((1, 4, 16, 3), n, np.uint8)])
        for n in range(VALUES)
    ]
    return bundle_from_arrays(inputs, outputs, records, soc=soc)


def frame(n: int) -> np.ndarray:
    return np.full((4, 16, 3), n % VALUES, np.uint8)


@pytest.fixture(scope="module")
def data():
    return counting_bundle()


@pytest.fixture
def live():
    """The live objects of the simulated runtime; none after a test."""
    gc.collect()
    control = Control()
    before = control.live
    threads = set(threading.enumerate())
    yield control
    control.reset()
    gc.collect()
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)  # a reader may be at its last line
        assert not thread.is_alive(), thread
    assert control.live == before


class Gate:
    """A task whose calls wait until they are let through, and are counted."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self.changed = threading.Condition()
        self._let: list[object] = []
        self._more = 0

    def __call__(self, model: Model):
        def call(item: object) -> object:
            with self.changed:
                self.begun.append(item)
                self.changed.notify_all()
                self.changed.wait_for(lambda: self._passes(item))
            return item

        return call

    def _passes(self, item: object) -> bool:
        named = [n for n, each in enumerate(self._let) if each is item]
        if named:
            del self._let[named[0]]
        elif self._more:
            self._more -= 1
        else:
            return False
        return True

    def wait_until_begun(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun) >= count, 60)

    def let(self, item: object) -> None:
        """Let this one through: of several contexts either may be first."""
        with self.changed:
            self._let.append(item)
            self.changed.notify_all()

    def open(self, count: int) -> None:
        """Let some through, whichever they are."""
        with self.changed:
            self._more += count
            self.changed.notify_all()


def test_every_frame_once_and_in_order(data, live):
    """Six contexts give the results of one, each paired with its own frame."""
    with Pool(data, Model, library="sim") as pool:
        frames = [frame(n) for n in range(N_FRAMES)]
        seen = [(given, float(out[0, 0])) for given, (out,) in pool.map(frames)]
    assert [given is each for (given, _), each in zip(seen, frames)] == [True] * N_FRAMES
    assert [value for _, value in seen] == [n % VALUES for n in range(N_FRAMES)]


def test_two_contexts_a_core(data, live):
    """By default; each on one core, and the weights are loaded once."""
    live.reset()
    with Pool(data, Model, library="sim") as pool:
        assert pool.core_masks == (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2) * 2
        assert live.calls("rknn_init") == 1
        assert live.calls("rknn_dup_context") == 5
        assert live.live.contexts == 6
    with Pool(data, Model, library="sim", contexts=2) as pool:
        assert pool.core_masks == (CoreMask.CORE_0, CoreMask.CORE_1)
    with Pool(data, Model, library="sim", core_masks=[CoreMask.CORE_0_1_2, None]) as pool:
        assert pool.core_masks == (CoreMask.CORE_0_1_2, None)


@pytest.mark.parametrize(("soc", "masks"), [("rk3566", (None, None)), ("rk3576", None)])
def test_cores_are_those_of_the_soc(soc, masks, live):
    """A SoC with one core gets no mask."""
    with Pool(counting_bundle(soc), Model, library="sim") as pool:
        assert pool.core_masks == (masks or (CoreMask.CORE_0, CoreMask.CORE_1) * 2)
        assert [float(out[0, 0]) for _, (out,) in pool.map([frame(5)] * 1)] == [5]


def test_one_context_where_there_are_no_duplicates(live, caplog):
    """The mini runtime has none: no reason to warn; who asked for more is refused."""
    bundle = counting_bundle("rv1106")
    with caplog.at_level(logging.INFO), Pool(bundle, Model, library="sim") as pool:
        assert pool.core_masks == (None,)
        assert [float(out[0, 0]) for _, (out,) in pool.map(map(frame, range(9)))] == list(range(9))
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert record.getMessage() == (
        "a pool of one context: librknnmrt (RV1103, RV1106) does not implement rknn_dup_context"
    )
    with pytest.raises(UnavailableError, match="rknn_dup_context"):
        Pool(bundle, Model, library="sim", contexts=2)


def test_a_source_is_read_ahead_only_so_far(data, live):
    """Frames that wait are bounded: the source waits instead."""
    gate = Gate()
    read = []

    def source():
        for n in range(100):
            read.append(n)
            yield n

    with Pool(data, gate, library="sim", contexts=2) as pool:
        results = pool.map(source(), ahead=5)
        assert read == []  # lazily
        gate.let(0)
        assert next(results) == (0, 0)
        gate.wait_until_begun(3)
        gate.open(99)
        assert list(results) == [(n, n) for n in range(1, 100)]
    assert read == list(range(100))

    gate, read = Gate(), []
    with Pool(data, gate, library="sim", contexts=2) as pool:
        results = pool.map(source(), ahead=5)
        taker = threading.Thread(target=lambda: next(results))
        taker.start()
        gate.wait_until_begun(2)
        gate.let(0)
        taker.join()
        gate.wait_until_begun(3)
        gate.open(1000)
        assert len(read) <= 7  # one returned, five ahead, one that waits for room
        results.close()


def test_the_newest_frame_wins(data, live):
    """With ``drop="oldest"`` a source never waits: of waiting frames only the last one stays."""
    gate = Gate()
    arrived = threading.Event()
    images = [np.full((4, 16, 3), n, np.uint8) for n in range(50)]

    def camera():
        yield images[0]
        gate.wait_until_begun(1)  # frame 0 is in work
        yield from images[1:]
        arrived.set()

    with Pool(data, gate, library="sim", contexts=1) as pool:
        results = pool.map(camera(), drop="oldest")
        found = []
        taker = threading.Thread(target=lambda: found.extend(results))
        taker.start()
        assert arrived.wait(60)
        gate.open(2)
        taker.join(60)
        found = [(each, int(result[0, 0, 0])) for each, result in found]
        assert [(each is images[n], n) for each, n in found] == [(True, 0), (True, 49)]
        assert results.dropped == 48
        assert pool.stats().dropped == 48


def test_what_a_frame_raises_is_returned_in_its_place(data, live):
    """With ``errors="return"`` a loop goes on; exceptions of the source are raised nevertheless."""

    def source():
        yield frame(1)
        yield np.zeros((5, 5), np.float64)
        yield frame(2)
        raise OSError("the camera is gone")

    with Pool(data, Model, library="sim") as pool:
        results = pool.map(source(), errors="return")
        first, wrong, last = (result for _, result in (next(results) for _ in range(3)))
        assert (float(first[0][0, 0]), float(last[0][0, 0])) == (1, 2)
        assert isinstance(wrong, (TypeError, ValueError))
        with pytest.raises(OSError, match="the camera is gone"):
            next(results)


def test_what_the_source_raises_is_raised_behind_its_frames(data, live):
    """Then the iterator is at its end."""

    def source():
        yield frame(3)
        raise OSError("the camera is gone")

    with Pool(data, Model, library="sim") as pool:
        results = pool.map(source())
        assert float(next(results)[1][0][0, 0]) == 3
        with pytest.raises(OSError, match="the camera is gone"):
            next(results)
        with pytest.raises(StopIteration):
            next(results)


@pytest.mark.parametrize("step", ["set_running_or_notify_cancel", "set_result"])
def test_memory_that_runs_out_fails_its_frame_alone(data, live, monkeypatch, step):
    """A frame that lacks memory while it is handed over fails alone, and the pool goes on."""
    inner, short = getattr(Future, step), [MemoryError("none"), MemoryError("none")]

    def run_out(future, *arguments):
        if short:
            raise short.pop()
        return inner(future, *arguments)

    with Pool(data, Model, library="sim", contexts=1) as pool:
        monkeypatch.setattr(Future, step, run_out)
        for _ in range(2):
            with pytest.raises(MemoryError):
                pool.submit(frame(1)).result(60)
        assert float(pool.submit(frame(2)).result(60)[0][0, 0]) == 2


@pytest.mark.parametrize("step", ["set_running_or_notify_cancel", "set_result"])
def test_a_loop_survives_a_lack_of_memory(data, live, monkeypatch, step):
    """Its frame raises the error, and the next ones give their results."""
    inner, short = getattr(FrameJob, step), [MemoryError("none")]

    def run_out(*arguments):
        if short:
            raise short.pop()
        return inner(*arguments)

    monkeypatch.setattr(FrameJob, step, run_out)
    with Pool(data, Model, library="sim", contexts=1) as pool:
        results = pool.map([frame(n) for n in range(4)])
        with pytest.raises(MemoryError):
            next(results)
        assert [float(out[0, 0]) for _, (out,) in results] == [1, 2, 3]


def test_a_job_that_ended_tells_at_once():
    """A callback that comes after the end is called, one that was there is called once."""
    for end in (lambda job: job.set_result(1), FrameJob.cancel):
        told = []
        early, late = FrameJob(None, {}), FrameJob(None, {})
        early.add_done_callback(told.append)
        end(early)
        end(late)
        late.add_done_callback(told.append)
        assert told == [early, late]
    assert not late.set_running_or_notify_cancel()


@pytest.mark.parametrize("step", [1, 2], ids=["whole", "with gaps"])
def test_frames_in_one_array_are_copied_or_refused(data, live, step):
    """A camera that is read into one array would let a context see the next frame."""

    def camera():
        array = np.zeros((4, 16 * step, 3), np.uint8)[:, ::step]
        for n in range(30):
            array[...] = n % VALUES
            yield array

    with Pool(data, Model, library="sim") as pool:
        values = [float(out[0, 0]) for _, (out,) in pool.map(camera(), copy=True)]
        assert values == [n % VALUES for n in range(30)]

    gate = Gate()
    with Pool(data, gate, library="sim", contexts=1) as pool:
        results = pool.map(camera())
        failed = []

        def take():
            try:
                next(results)
            except ValueError as error:
                failed.append(str(error))

        taker = threading.Thread(target=take)
        taker.start()
        taker.join(60)
        gate.open(2)
        assert "copy=True" in failed[0]


def test_submit_gives_a_future(data, live):
    """It is done, cancelled, or raises, like a future of ``concurrent.futures``."""
    gate = Gate()
    with Pool(data, gate, library="sim", contexts=1) as pool:
        first, second, third = (pool.submit(n) for n in range(3))
        gate.wait_until_begun(1)
        assert not first.cancel()
        assert second.cancel()
        gate.open(2)
        assert first.result(60) == 0
        assert third.result(60) == 2
        with pytest.raises(CancelledError):
            second.result()
        assert gate.begun == [0, 2]


def test_detect_is_awaited(data, live):
    """Many at once, in an event loop."""

    async def main(pool):
        return await asyncio.gather(*(pool.detect(frame(n)) for n in range(40)))

    with Pool(data, Model, library="sim") as pool:
        outputs = asyncio.run(main(pool))
        with pytest.raises(RuntimeError, match="loop"):
            pool.detect(frame(0))
    assert [float(out[0, 0]) for (out,) in outputs] == [n % VALUES for n in range(40)]


@pytest.mark.parametrize(
    ("kind", "surfaces"),
    [
        (StopIteration, RuntimeError), (GeneratorExit, GeneratorExit), (CancelledError, None),
        (SystemExit, SystemExit), (KeyboardInterrupt, KeyboardInterrupt),
    ],
)  # fmt: skip
def test_whatever_a_task_raises_surfaces(data, live, kind, surfaces):
    """In a loop, whose later frames come all the same, and in an event loop, which must not hang.

    A StopIteration would end the loop as if the source had ended.
    """
    surfaces = surfaces or (CancelledError, asyncio.CancelledError)

    def task(model):
        def call(item):
            if item == 1:
                raise kind("of the task")
            return item

        return call

    async def main(pool):
        return await asyncio.wait_for(pool.detect(1), 60)

    with Pool(data, task, library="sim", contexts=2) as pool:
        with pool.map(range(4)) as results:
            assert next(results) == (0, 0)
            with pytest.raises(surfaces):
                next(results)
            assert list(results) == [(2, 2), (3, 3)]
        with pytest.raises(surfaces):
            asyncio.run(main(pool))


def test_a_callback_may_close_the_pool(data, live):
    """It runs in the thread of a context, which cannot wait for itself; also two at once."""
    gate, closed, errors = Gate(), threading.Semaphore(0), []

    def close(_):
        try:
            pool.close()
        except BaseException as error:
            errors.append(error)
        closed.release()

    pool = Pool(data, gate, library="sim", contexts=2)
    jobs = [pool.submit(n) for n in range(2)]
    for job in jobs:
        job.add_done_callback(close)
    gate.open(2)
    assert all(closed.acquire(timeout=60) for _ in jobs)
    assert not errors
    assert pool.is_closed
    pool.close()


def test_a_callback_may_close_a_pool_whose_closing_waits_for_it(data, live):
    """Its close takes the other close's orders to the workers out of the queue."""
    gate, closed = Gate(), threading.Semaphore(0)

    def close(_):
        pool.close()
        closed.release()

    pool = Pool(data, gate, library="sim", contexts=2)
    jobs = [pool.submit(n) for n in range(2)]
    for job in jobs:
        job.add_done_callback(close)
    gate.wait_until_begun(2)
    gate.let(0)
    while pool._jobs.qsize() < 2:  # until the first close waits for the other context
        time.sleep(0)
    gate.let(1)
    assert all(closed.acquire(timeout=60) for _ in jobs)


def test_asyncio_is_imported_when_it_is_used():
    """The import takes a third of a program's start."""
    code = "import sys; from rknn_runtime.streams import Pool; assert 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_leaving_a_loop_cancels_what_waits(data, live):
    """By ``close``, by ``with``, or by dropping the iterator: the source is read no more."""
    for leave in ("close", "with", "drop"):
        gate = Gate()
        with Pool(data, gate, library="sim", contexts=1) as pool:
            ended = threading.Event()

            def source(ended=ended):
                try:
                    while True:
                        yield object()
                finally:
                    ended.set()

            results = pool.map(source())
            gate.open(1)
            next(results)
            gate.wait_until_begun(2)
            if leave == "close":
                results.close()
                assert list(results) == []
            elif leave == "with":
                with results:
                    pass
            del results
            gc.collect()
            gate.open(1)
            assert ended.wait(60)


def test_closing_the_pool_cancels_what_waits(data, live):
    """Running frames end; waiting frames raise `ClosedError` in their order."""
    gate = Gate()
    pool = Pool(data, gate, library="sim", contexts=1)
    results = pool.map(iter(range(10)), ahead=4)
    found = []

    def take():
        try:
            found.extend(results)
        except ClosedError:
            found.append("closed")

    taker = threading.Thread(target=take)
    taker.start()
    gate.wait_until_begun(1)
    with pytest.raises(TimeoutError, match="again"):
        pool.close(timeout=0)
    assert pool.is_closed
    gate.open(10)
    pool.close()
    pool.close()
    taker.join(60)
    assert found == [(0, 0), "closed"]
    for use in (lambda: pool.submit(1), lambda: pool.map([1])):
        with pytest.raises(ClosedError):
            use()
    assert "closed" in repr(pool)


def test_a_pool_that_is_dropped_ends_by_itself(data, live):
    """Its threads never keep it alive, and end with it, as do its contexts."""
    pool = Pool(data, Model, library="sim", contexts=3)
    future = pool.submit(frame(4))
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("npu-")]
    assert len(workers) >= 3
    del pool
    gc.collect()
    for thread in workers:
        thread.join(60)
    assert float(future.result(60)[0][0, 0]) == 4


def test_ctrl_c_leaves_no_lock_behind():
    """Wherever in the iterator it comes, those who work on frames can end."""

    class Interrupting:
        """Raises at the n-th place of this thread where Python looks for signals."""

        def __init__(self, n: int) -> None:
            self.left = n

        def __call__(self, frame: object, event: str, arg: object) -> None:
            self.left -= event in ("call", "c_return")
            if self.left == 0:
                raise KeyboardInterrupt

    place, interrupted = 0, True
    while interrupted:
        place += 1
        executor = ThreadPoolExecutor(2)
        submit = functools.partial(executor.submit, abs)
        results = Results(range(9), submit, ahead=2, drop_oldest=False, on_drop=lambda: None)
        next(results)  # starts the reader
        gc.disable()  # callbacks of the collector are places, too, and not ours
        sys.setprofile(Interrupting(place))
        try:
            for _ in results:
                pass
            interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
            gc.enable()
        for end in (results.close, executor.shutdown):
            ending = threading.Thread(target=end)
            ending.start()
            ending.join(60)
            assert not ending.is_alive(), place
        results._reader.join(60)
        assert not results._reader.is_alive(), place
    assert place > 50


def test_stats(data, live):
    """Every frame is counted, and timed in each phase."""
    with Pool(data, Model, library="sim", contexts=2) as pool:
        assert [context.phases for context in pool.stats().contexts] == [(), ()]
        list(pool.map(map(frame, range(50))))
        stats = pool.stats()
        assert stats.frames == 50
        assert stats.waiting == stats.dropped == 0
        for context in stats.contexts:
            assert 0 <= context.busy_s <= stats.elapsed_s
            for phase in context.phases:
                assert 0 <= phase.p50_ms <= phase.p99_ms
        assert "50 frames" in str(stats)
        assert pickle.loads(pickle.dumps(stats)) == stats


@pytest.mark.parametrize(
    ("task", "names"),
    [
        (Model, ["wait", "write", "run", "read"]),
        (Detector, ["wait", "write", "run", "decode"]),
        (lambda model: model.run, ["wait", "call"]),
    ],
)
def test_stats_tell_the_phases_apart(live, task, names):
    """The time of the NPU, which is planted, is all in the phase of the run."""
    live.set_latency(20_000)
    with Pool(one_object(), task, library="sim", contexts=1) as pool:
        list(pool.map(np.zeros((64, 64, 3), np.uint8) for _ in range(3)))
        (context,) = pool.stats().contexts
    assert [phase.name for phase in context.phases] == names
    for phase in context.phases:
        if phase.name in ("run", "call"):
            assert phase.p50_ms >= 20


def test_threads_run_on_the_cpus_asked_for(data, live, tmp_path):
    """``"big"`` takes the fastest ones that Linux names."""
    from rknn_runtime.streams.placement import cpus_of

    usable = sorted(os.sched_getaffinity(0))
    seen = []

    def task(model):
        def call(item):
            seen.append(os.sched_getaffinity(0))

        return call

    with Pool(data, task, library="sim", contexts=1, cpus=usable[:1]) as pool:
        list(pool.map([1]))
    assert seen == [{usable[0]}]
    assert os.sched_getaffinity(0) == set(usable)
    for i, cpu in enumerate(usable):
        folder = tmp_path / f"cpu{cpu}"
        folder.mkdir()
        (folder / "cpu_capacity").write_text("1024\n" if i == 0 else "414\n", "ascii")
    expected = frozenset(usable[:1]) if len(usable) > 1 else None
    assert cpus_of("big", str(tmp_path)) == expected
    assert cpus_of("big", str(tmp_path / "nothing")) is None
    for wrong in ("small", [], [10**4], [-1]):
        with pytest.raises(ValueError, match="cpus"):
            cpus_of(wrong)
    for wrong in (1, ["0"]):
        with pytest.raises(TypeError, match="cpus"):
            cpus_of(wrong)


def test_wrong_arguments(data, live):
    """Each is refused with the expected value, and leaves nothing alive."""
    for options, error in (
        ({"contexts": 0}, ValueError("contexts")),
        ({"contexts": 65}, ValueError("contexts")),
        ({"contexts": "2"}, TypeError("contexts")),
        ({"contexts": 1, "core_masks": [None]}, ValueError("core_masks")),
        ({"core_masks": []}, ValueError("core_masks: expected 1 to 64, got 0")),
        ({"core_masks": 7}, TypeError("core_masks: expected CoreMask members such as .*, got 7")),
        ({"core_masks": [0, 1, 2]}, TypeError(r"core_masks: .*, got 0 in \[0, 1, 2\]")),
        ({"cpus": "little"}, ValueError("cpus")),
        ({"no_such_option": 1}, TypeError("no_such_option")),
    ):
        with pytest.raises(type(error), match=str(error)):
            Pool(data, **{"task": Model, "library": "sim", **options})
    with pytest.raises(TypeError, match=r"cores'.* itself takes contexts=, core_masks="):
        Pool(one_object(json.dumps({"labels": ["cat", "dog"]})), library="sim", cores=3)
    with Pool(data, Model, library="sim", contexts=1) as pool:
        for options, error in (
            ({"drop": "newest"}, ValueError),
            ({"errors": "ignore"}, ValueError),
            ({"ahead": 0}, ValueError),
            ({"ahead": 1.5}, TypeError),
        ):
            with pytest.raises(error):
                pool.map([], **options)
        with pytest.raises(TypeError):
            pool.map(7)
        assert list(pool.map([])) == []
        for way_out in (copy.copy, pickle.dumps):
            with pytest.raises(TypeError, match="neither copied nor pickled"):
                way_out(pool)
        for timeout in (-1, float("nan")):
            with pytest.raises(ValueError, match="timeout"):
                pool.close(timeout)


def test_a_context_that_cannot_be_made_leaves_nothing(data, live):
    """Whatever step of whatever duplicate fails."""
    for function in ("rknn_dup_context", "rknn_create_mem", "rknn_set_io_mem"):
        for nth in range(1, 4):
            live.reset()
            live.fail(function, nth=nth, code=-1)
            with pytest.raises(Exception):  # noqa: B017 - which one is told elsewhere
                Pool(data, Model, library="sim", contexts=4)
            gc.collect()
            assert live.live.contexts == 0


def test_a_child_process_is_told_to_make_its_own(data, live):
    """Threads and contexts do not survive a fork: `ForkError`, and it ends by itself."""
    with Pool(data, Model, library="sim", contexts=2) as pool:
        results = pool.map(map(frame, range(100)))
        next(results)
        child = os.fork()
        if child == 0:
            told = 0
            for use in (lambda: pool.submit(frame(0)), lambda: pool.map([]), lambda: next(results)):
                try:
                    use()
                except ForkError:
                    told += 1
            pool.close()
            os._exit(told)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 3
        results.close()


def test_threads_share_results(live):
    """The first thread starts the reader, once, and each frame goes to one thread."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Pool(one_object(), library="sim", contexts=2) as pool:
            for _ in range(20):
                results = pool.map([np.zeros((64, 64, 3), np.uint8) for _ in range(6)])
                start, found = threading.Barrier(4), []

                def take(results=results, start=start, found=found):
                    start.wait()
                    found.extend(len(detections) for _, detections in results)

                in_threads(take, [()] * 4)
                assert found == [1] * 6
    finally:
        sys.setswitchinterval(interval)


def test_a_cascade_in_order(data, live):
    """Each frame has the results of all its own parts."""
    frames = [frame(n) for n in range(60)]

    def cut(image, out):
        n = int(out[0][0, 0])
        assert int(image[0, 0, 0]) == n
        return [frame(n + i) for i in range(n % 4)]

    with Pool(data, Model, library="sim") as first, Pool(data, Model, library="sim") as second:
        seen = []
        for image, (out, parts) in first.map(frames, then=second, crop=cut):
            seen.append((image, int(out[0][0, 0]), [int(part[0, 0]) for (part,) in parts]))
    assert all(image is each for (image, _, _), each in zip(seen, frames))
    expected = [(n % VALUES, [(n + i) % VALUES for i in range(n % VALUES % 4)]) for n in range(60)]
    assert [(n, parts) for _, n, parts in seen] == expected


def test_the_parts_of_a_frame_do_not_wait_for_the_loop(data, live):
    """They are submitted when the first model is done, although nobody asks for the frame."""
    first_gate, second_gate = Gate(), Gate()
    frames = list("ab")
    pools = [Pool(data, gate, library="sim", contexts=2) for gate in (first_gate, second_gate)]
    with pools[0] as first, pools[1] as second:
        results = first.map(frames, then=second, crop=lambda item, _: [item, item + item])
        taker = threading.Thread(target=lambda: found.append(next(results)))
        found: list[object] = []
        taker.start()
        first_gate.let(frames[1])
        second_gate.wait_until_begun(2)  # although "a" is not done
        assert sorted(second_gate.begun) == ["b", "bb"]
        first_gate.open(1)
        second_gate.open(4)
        taker.join(60)
        assert [*found, *results] == [("a", ("a", ["a", "aa"])), ("b", ("b", ["b", "bb"]))]


def test_a_cascade_that_fails(data, live):
    """Its exceptions come in the frame's place; a closed second pool is told of."""

    def cut(n, _):
        if n == 1:
            raise KeyError("no crop")
        return [n, "x"] if n == 2 else [n]

    def second(model):
        return lambda part: part + 0

    with Pool(data, lambda model: abs, library="sim") as first:
        other = Pool(data, second, library="sim")
        results = first.map(range(5), then=other, crop=cut, errors="return")
        seen = [result for _, result in results]
        assert [seen[n] for n in (0, 3, 4)] == [(n, [n]) for n in (0, 3, 4)]
        assert [type(seen[n]) for n in (1, 2)] == [KeyError, TypeError]
        other.close()
        with pytest.raises(ClosedError):
            next(first.map([0], then=other, crop=cut))
        with pytest.raises(TypeError, match="then: expected a Pool"):
            first.map([0], then=second)
