"""Runs a model and measures the time of each phase."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import as_float, as_int
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import RknnError, UnavailableError
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.prediction import predict
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.model import Model
from rknn_runtime.streams.placement import npu_cores
from rknn_runtime.streams.pool import Pool
from rknn_runtime.tools.bench.result import Result, Timing
from rknn_runtime.tools.board import resident_kb, state
from rknn_runtime.vision.detector import Detector
from rknn_runtime.vision.letterbox import LetterboxTransform

__all__ = ["Settings", "measure"]

#: Of a frame of one context, in their order. ``npu`` is what the runtime says of the run itself.
PHASES = ("input copy", "sync in", "run", "sync out", "decode")


class _Stopped(KeyboardInterrupt):
    """Ctrl-C, with what was measured of a choice until then."""

    def __init__(self, timing: Timing) -> None:
        super().__init__()
        self.timing = timing


_SINGLES = (CoreMask.CORE_0, CoreMask.CORE_1, CoreMask.CORE_2)
_TOGETHER = (CoreMask.CORE_0_1, CoreMask.CORE_0_1_2)


class Settings(NamedTuple):
    """What to measure.

    Attributes:
        warm_up: Frames that do not count.
        frames: That count; None: as many as `seconds` allow.
        seconds: Of each choice; None: no limit.
        sweep: Every core by itself, several together, and one to three contexts per core, too.
    """

    warm_up: int = 20
    frames: int | None = 200
    seconds: float | None = None
    sweep: bool = False


def measure(
    model: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    library: str | os.PathLike[str] | Library | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> Result:
    """Measure a model.

    One context: each phase by itself, in the order of a frame. The values of the inputs make no
    difference to the NPU; they are ones. ``decode`` is what a `Detector` does behind the run
    where the outputs are of a head that it knows, else all outputs as float32. Several contexts:
    a `Pool` of them, and what comes out of it. Ctrl-C ends it: what was measured until then is
    returned, with ``about["interrupted"]``.

    Args:
        model: A ``.rknn`` file.
        settings: None: 200 frames of one context.
        library: See `Model`.
        progress: Called with the name of a choice, or of its warm-up, and the frames done.

    Raises:
        KeyboardInterrupt: Ctrl-C, before the first frame that counts.
        RknnError: The model cannot be loaded, or a run failed.
        TypeError: A setting of another type.
        ValueError: A setting out of range, or neither `frames` nor `seconds`.
    """
    wanted = _checked(Settings() if settings is None else settings)
    report = (lambda name, done: None) if progress is None else progress
    before = state()
    timings: list[Timing] = []
    interrupted = False
    try:
        with Model(model, library=library) as loaded:
            about = _about(model, loaded)
            timings.append(_one_context(loaded, wanted, report))
            cores = npu_cores(loaded) if wanted.sweep else 1
            for mask in (*_SINGLES[:cores], *_TOGETHER[: cores - 1]) if cores > 1 else ():
                loaded.set_core_mask(mask)
                timings.append(_one_context(loaded, wanted, report, str(mask.name)))
        for timing in _pools(model, library, cores, wanted, report) if wanted.sweep else ():
            timings.append(timing)
    except KeyboardInterrupt as stop:
        if isinstance(stop, _Stopped):
            timings.append(stop.timing)
        if not timings:
            raise
        interrupted = True
    about["interrupted"] = interrupted
    # The time of a board's NPU beside that of a PC's emulator would only be taken for it.
    predicted = None if about["simulated"] else _predicted(model, about["soc"])
    about.update(predicted=predicted, before=before, after=state())
    about["memory"]["resident_kb"] = resident_kb()
    return Result(about, tuple(timings))


def _checked(settings: Settings) -> Settings:
    if not isinstance(settings, Settings):
        raise TypeError(f"settings: expected Settings, got {type(settings).__name__}")
    frames, seconds, sweep = settings.frames, settings.seconds, settings.sweep
    if not isinstance(sweep, bool):
        raise TypeError(f"sweep: expected a bool, got {sweep!r}")
    if frames is None and seconds is None:
        raise ValueError("frames, seconds: expected one of them, got neither")
    if seconds is not None:
        seconds = as_float(seconds, "seconds")
        if not 0 < seconds <= 86400:
            raise ValueError(f"seconds: expected more than 0 and up to a day, got {seconds}")
    return Settings(
        as_int(settings.warm_up, "warm_up", 0, 10**6),
        None if frames is None else as_int(frames, "frames", 1, 10**7),
        seconds,
        sweep,
    )


def _about(model: str | os.PathLike[str], loaded: Model) -> dict[str, Any]:
    memory = loaded.memory_size
    version = loaded.sdk_version
    return {
        "model": Path(model).name,
        "library": loaded.library.path,
        "runtime": version.api,
        "driver": version.driver,
        "simulated": loaded.library.is_simulated,
        "soc": loaded._soc,
        "inputs": [list(attr.shape) for attr in loaded.inputs],
        "outputs": [list(attr.shape) for attr in loaded.outputs],
        "memory": {"weight_bytes": memory.weight_bytes, "internal_bytes": memory.internal_bytes},
    }


def _predicted(model: str | os.PathLike[str], soc: str | None) -> dict[str, float] | None:
    """What the file says of a run here; None where that is not known, as of float16."""
    try:
        found = predict(read_layers(model), soc or "", batch=read(model).batch)
    except RknnError:
        return None
    return {name: getattr(found, name) for name in ("ms", "fastest_ms", "slowest_ms")}


def _one_context(
    model: Model, settings: Settings, progress: Callable[[str, int], None], cores: str = "AUTO"
) -> Timing:
    views = [model.input_view(i) for i in range(len(model.inputs))]
    frames = [np.ones_like(view) for view in views]
    decode = _decoder(model)
    was_timed, model.is_timed = model.is_timed, True
    rows: list[tuple[float, ...]] = []
    npu: list[float] = []
    warm_kb, begin, clock, stopped = 0, 0.0, time.perf_counter, False
    name = f"{cores}, 1 context"
    try:
        for number in range(-settings.warm_up, settings.frames or 2**62):
            if number == 0:
                warm_kb, begin = resident_kb(), clock()
            start = clock()
            for view, frame in zip(views, frames):
                np.copyto(view, frame)
            copied = clock()
            model.run()
            ran = clock()
            decode()
            decoded = clock()
            if number < 0:
                progress(f"{name}, warm-up", number + settings.warm_up + 1)
                continue
            steps = model.step_times
            assert steps is not None
            sync_in, run, sync_out = steps.sync_to_device_s, steps.run_s, steps.sync_from_device_s
            rows.append((copied - start, sync_in, run, sync_out, decoded - ran))
            npu += _npu_seconds(model) if len(npu) == len(rows) - 1 else []
            progress(name, number + 1)
            if settings.seconds is not None and decoded - begin >= settings.seconds:
                break
    except KeyboardInterrupt:
        if not rows:
            raise
        stopped = True
    finally:
        del views
        model.is_timed = was_timed
    columns = np.array(rows).T
    phases = {name: _ms(column) for name, column in zip(PHASES, columns)}
    phases["frame"] = _ms(columns.sum(axis=0))
    if len(npu) == len(rows):
        phases["npu"] = _ms(np.array(npu))
    fps = 1e3 / float(np.median(phases["frame"]))
    timing = Timing(cores, 1, fps, phases, resident_kb() - warm_kb)
    if stopped:
        raise _Stopped(timing)
    return timing


def _ms(seconds: Any) -> list[float]:
    """Milliseconds, to a tenth of a microsecond: the clock is not finer."""
    milliseconds: list[float] = np.round(1e3 * seconds, 4).tolist()
    return milliseconds


def _npu_seconds(model: Model) -> list[float]:
    """Return what the runtime measured of the last run; nothing where it does not measure."""
    try:
        return [1e-6 * model.last_run_us]
    except RknnError:
        return []


def _decoder(model: Model) -> Callable[[], object]:
    """Return what follows a run: the decoder of a detector, or every output as float32."""
    try:
        detector = Detector(model)
    except ValueError:
        outputs = [np.empty(attr.shape, np.float32) for attr in model.outputs]
        return lambda: [model.output_f32(i, out) for i, out in enumerate(outputs)]
    size = detector.input_size
    transform = LetterboxTransform(size, size, size, (0, 0))
    count = len(model.outputs)
    return lambda: detector.decoder([model.output_raw(i) for i in range(count)], transform)


def _whole_frame(model: Model) -> Callable[[object], None]:
    """Return what a context of a pool does: the phases of `_one_context`."""
    frames = [np.ones_like(model.input_view(i)) for i in range(len(model.inputs))]
    decode = _decoder(model)

    def call(_: object) -> None:
        for i, frame in enumerate(frames):
            np.copyto(model.input_view(i), frame)
        model.run()
        decode()

    return call


def _pools(
    model: str | os.PathLike[str],
    library: str | os.PathLike[str] | Library | None,
    cores: int,
    settings: Settings,
    progress: Callable[[str, int], None],
) -> Iterator[Timing]:
    """One to three contexts on each of the cores."""
    singles = _SINGLES[:cores]
    for per_core in (1, 2, 3):
        masks = list(singles) * per_core if cores > 1 else [None] * per_core
        if len(masks) == 1:
            continue  # measured already
        try:
            pool = Pool(model, _whole_frame, library=library, core_masks=masks)
        except UnavailableError:  # a runtime without duplicates
            break
        with pool:
            yield _pool(pool, cores, settings, progress)


def _pool(
    pool: Pool, cores: int, settings: Settings, progress: Callable[[str, int], None]
) -> Timing:
    contexts = len(pool.core_masks)
    chosen = f"{cores} {'core' if cores == 1 else 'cores'}"
    name = f"{chosen}, {contexts} contexts"
    stopped = False
    waiting: deque[tuple[float, Any]] = deque()
    latencies: list[float] = []
    warm_kb = resident_kb()
    begin = time.perf_counter()
    warm = max(settings.warm_up, contexts)
    try:
        for number in range(-warm, settings.frames or 2**62):
            while len(waiting) < 2 * contexts:
                waiting.append((time.perf_counter(), pool.submit(None)))
            since, future = waiting.popleft()
            future.result()
            now = time.perf_counter()
            if number == -1:
                begin = now
            if number < 0:
                progress(f"{name}, warm-up", number + warm + 1)
                continue
            latencies.append(now - since)
            progress(name, number + 1)
            if settings.seconds is not None and now - begin >= settings.seconds:
                break
    except KeyboardInterrupt:
        if not latencies:
            raise
        stopped = True
    took = time.perf_counter() - begin
    for _, future in waiting:
        future.result()
    timing = Timing(
        chosen,
        contexts,
        len(latencies) / took,
        {"in the pool": _ms(np.array(latencies))},
        resident_kb() - warm_kb,
    )
    if stopped:
        raise _Stopped(timing)
    return timing
