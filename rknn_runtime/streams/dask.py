"""A fleet of boards on Dask: archives of images and videos, in chunks, exactly once.

Needs Dask distributed (``pip install distributed``) on the boards and on the machine that asks;
see ``docs/fleet.md``.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime._files import read_file, replace_file
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.model import Model
from rknn_runtime.streams.address import shown
from rknn_runtime.streams.pool import Pool
from rknn_runtime.streams.source import FrameSource
from rknn_runtime.vision.decimals import doubles
from rknn_runtime.vision.images import ImageFile
from rknn_runtime.vision.tasks import TASKS

try:
    from distributed import Client, as_completed, get_worker
    from distributed.diagnostics.plugin import WorkerPlugin
except ImportError:
    raise ImportError("rknn_runtime.streams.dask needs Dask: pip install distributed") from None

__all__ = ["RESOURCE", "NpuPlugin", "Segment", "detect", "segments"]

#: The resource of which each task takes one; a worker declares one per core that its pool uses.
RESOURCE = "NPU"
#: Chunks in flight per worker, so that none waits for the scheduler.
_AHEAD = 4
Progress = Callable[[int, Union[int, None]], object]
Records = Sequence[dict[str, Any]]
#: The limit of rknn_init.
_MOST_MODEL_BYTES = 2**32 - 1
_MOST_RECORD_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Segment:
    """A part of a video: the frames from `start` up to, but not including, `stop`."""

    path: str
    start: int
    stop: int


def segments(path: str | os.PathLike[str], frames: int = 300) -> list[Segment]:
    """Split a video into segments.

    Args:
        path: A video that OpenCV reads here, and that the workers have at the same path.
        frames: Frames per segment; the last one may have fewer.

    Raises:
        ImportError: OpenCV is missing.
        OSError: The video cannot be opened, or does not say how many frames it has.
        ValueError: `frames` is less than 1.
    """
    step = as_int(frames, "frames", 1, 2**31 - 1)
    name = os.fspath(path)
    import cv2

    capture = cv2.VideoCapture(name)
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) if capture.isOpened() else 0
    capture.release()
    if count <= 0:
        raise OSError(f"path: OpenCV cannot count the frames of {shown(name)!r}")
    return [Segment(name, i, min(i + step, count)) for i in range(0, count, step)]


class _RecordTask:
    """A task of a `Pool` that returns its results as plain values; it can be pickled."""

    def __init__(self, task: str, options: dict[str, Any]) -> None:
        self._task, self._options = task, options

    def __call__(self, model: Model) -> Callable[..., dict[str, Any]]:
        reader = TASKS[self._task].load()(model, **self._options)

        def read(image: Any, **each: Any) -> dict[str, Any]:
            if isinstance(image, tuple):  # decoded here, so that a damaged one fails alone
                image = ImageFile(*image)
            found = reader(image, **each)
            if isinstance(found, np.ndarray):
                return {"embedding": doubles(found).tolist()}
            record: dict[str, Any] = found.to_dict(reader.labels)
            return record

        return read


class NpuPlugin(WorkerPlugin):
    """Opens a `Pool` in each worker process, keeps it, and declares its cores to the scheduler.

    Args:
        model: The model's bytes, which are sent with the plugin, or its path on the workers.
        sha256: For a path: refuse a file with another hash. None: take any file.
        library: The runtime library on the workers; see `rknn_runtime.open_library`.
        contexts: See `Pool`.
        task: What the model is for, a key of `rknn_runtime.vision.tasks.TASKS` but ``"text"``.
        **options: For the class of the task, such as ``conf_threshold`` for `Detector`.

    Attributes:
        name: Dask's name of the plugin, another one for other models or options.
    """

    #: Registering it again changes nothing.
    idempotent = True

    def __init__(
        self,
        model: bytes | str | os.PathLike[str],
        *,
        sha256: str | None = None,
        library: str | None = None,
        contexts: int | None = None,
        task: str = "detect",
        **options: Any,
    ) -> None:
        if task not in TASKS or task == "text":  # which needs two models
            known = ", ".join(name for name in TASKS if name != "text")
            raise ValueError(f"task: expected one of {known}, got {task!r}")
        if not isinstance(model, (bytes, str, os.PathLike)):
            raise TypeError(f"model: expected bytes or a path, got {type(model).__name__}")
        self._model = model if isinstance(model, bytes) else os.fspath(model)
        self._sha256 = _hash(model) if isinstance(model, bytes) else sha256
        self._library, self._contexts, self._options = library, contexts, options
        self.task = task
        said = (self._sha256 or self._model, library, contexts, sorted(options.items()))
        described = repr(said if task == "detect" else (*said, task))
        self.name = f"rknn-runtime-{_hash(described.encode())[:16]}"
        self._pool: Pool | None = None

    async def setup(self, worker: Any) -> None:
        """Open the pool; called by Dask in each worker."""
        model = self._model
        data = model if isinstance(model, bytes) else read_file(model, _MOST_MODEL_BYTES)
        if self._sha256 not in (None, _hash(data)):
            raise ValueError(
                f"model: expected a file with the SHA-256 {self._sha256}, got {_hash(data)} at "
                f"{self._model!r} on this worker: copy the right model there, or send its bytes"
            )
        self._pool = Pool(
            data,
            _RecordTask(self.task, self._options),
            library=self._library,
            contexts=self._contexts,
        )
        await worker.set_resources(**{RESOURCE: len(set(self._pool.core_masks))})

    def teardown(self, worker: Any) -> None:
        """Close the pool; called by Dask when the worker ends."""
        if self._pool is not None:
            self._pool.close()

    @property
    def pool(self) -> Pool:
        """The worker's pool.

        Raises:
            RuntimeError: This is not the worker's own plugin.
        """
        if self._pool is None:
            raise RuntimeError("the pool is opened in the workers: client.register_plugin(plugin)")
        return self._pool

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}


def detect(
    client: Client,
    plugin: NpuPlugin,
    items: Iterable[str | os.PathLike[str] | Segment | tuple[str, bytes]],
    *,
    chunk: int = 20,
    retries: int = 3,
    folder: str | os.PathLike[str] | None = None,
    format: str = "jsonl",
    progress: Progress | None = None,
) -> Iterator[dict[str, Any]]:
    """Detect objects in images and videos on all workers of a cluster.

    If a worker dies, another one does its chunks again. Each chunk's records come exactly once.

    Args:
        client: The cluster's client.
        plugin: The model; it is registered with the workers.
        items: Paths of images, as the workers see them; ``(name, bytes)`` of images to send;
            `Segment` of videos (see `segments`).
        chunk: How many images make one task. Each segment is a task of its own.
        retries: How often a chunk that raised is tried again.
        folder: Where to keep the records of each chunk, in a file that is written whole or not at
            all. Files that exist already are not computed again, so that a stopped job continues.
            None: nowhere.
        format: Format of these files: ``"jsonl"``, one JSON text per record and line, or
            ``"parquet"``, all files of which are one table (needs PyArrow).
        progress: Called with the number of chunks done, including those kept from before, and the
            number of all chunks (None if `items` is not a sequence).

    Yields:
        One record per frame, in the order in which chunks are done: ``"source"``, ``"frame"``,
        ``"time_s"``, and ``"detections"`` as from `Detections.to_dict` or what the results of
        another task give, or ``"error"`` for an image that cannot be read.

    Raises:
        ImportError: PyArrow is missing.
        ValueError: `chunk` or `retries` is out of range, or `format` is not known.
        Exception: The exception of a chunk's last try.
    """
    size, tries = as_int(chunk, "chunk", 1, 10_000), as_int(retries, "retries", 0, 1000)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: expected a function, got {type(progress).__name__}")
    if not isinstance(client, Client) or not isinstance(plugin, NpuPlugin):
        raise TypeError(
            "client, plugin: expected a distributed.Client and an NpuPlugin, got "
            f"{type(client).__name__} and {type(plugin).__name__}"
        )
    kept, kind = None if folder is None else Path(folder), _format_of(format)
    if format == "parquet" and plugin.task not in ("detect", "text-detection", "keypoints"):
        raise ValueError(f'format: expected "jsonl" for the task {plugin.task}, got {format!r}')
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    # The second is its name in Dask before 2023.9, as in Debian 12.
    names = ("register_plugin", "register_worker_plugin")
    register = next(getattr(client, name) for name in names if hasattr(client, name))
    register(plugin, plugin.name)
    total = None
    if progress is not None and isinstance(items, Sequence):
        total = sum(1 for _ in _chunks(items, size))
    chunks_done = _chunks_done(client, plugin.name, _chunks(items, size), tries, kept, kind)
    return _records(chunks_done, progress, total)


def _records(
    chunks_done: Iterator[list[dict[str, Any]]], progress: Progress | None, total: int | None
) -> Iterator[dict[str, Any]]:
    for done, records in enumerate(chunks_done, 1):
        if progress is not None:
            progress(done, total)
        yield from records


def _chunks_done(
    client: Client,
    plugin: str,
    chunks: Iterator[tuple[Any, ...]],
    retries: int,
    folder: Path | None,
    kind: _Format,
) -> Iterator[list[dict[str, Any]]]:
    """Keep a few chunks in flight per worker, and yield the records of each finished one."""
    running: Any = as_completed()  # type: ignore[no-untyped-call]
    ahead = _AHEAD * max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    in_flight = 0
    while True:
        while in_flight < ahead:
            chunk = next(chunks, None)
            if chunk is None:
                break
            key = f"{plugin}-{_hash(repr(chunk).encode())}"
            path = None if folder is None else folder / f"{key}{kind.suffix}"
            kept = None if path is None else kind.kept(path, chunk)
            if kept is not None:
                yield kept
                continue
            running.add(
                client.submit(
                    _run_chunk, plugin, chunk, key=key, retries=retries, resources={RESOURCE: 1}
                )
            )
            in_flight += 1
        if not in_flight:
            return
        future = next(running)
        in_flight -= 1
        records = future.result()
        if folder is not None:
            kind.keep(folder / f"{future.key}{kind.suffix}", records)
        future.release()
        yield records


def _chunks(items: Iterable[Any], size: int) -> Iterator[tuple[Any, ...]]:
    """Group images; leave segments alone."""
    images: list[Any] = []
    for item in items:
        if isinstance(item, Segment):
            yield (item,)
            continue
        is_sent = isinstance(item, tuple) and [type(part) for part in item] == [str, bytes]
        if not is_sent and not isinstance(item, (str, os.PathLike)):
            raise TypeError(f"items: expected paths, segments or (name, bytes), got {item!r}")
        images.append(item if is_sent else os.fspath(item))
        if len(images) == size:
            yield tuple(images)
            images = []
    if images:
        yield tuple(images)


def _run_chunk(plugin: str, chunk: Sequence[Any]) -> list[dict[str, Any]]:
    """Detect objects in each frame of a chunk; runs in a worker."""
    mine: Any = get_worker().plugins[plugin]
    pool: Pool = mine.pool
    places: list[dict[str, Any]] = []

    def images() -> Iterator[Any]:
        for item in chunk:
            for place, image in _frames(item):
                places.append(place)
                yield image

    records = []
    for i, (_, found) in enumerate(pool.map(images(), errors="return", color="BGR")):
        if isinstance(found, (OSError, ValueError)) and not isinstance(found, RknnError):
            found = {"error": str(found)}
        elif isinstance(found, Exception):
            raise found
        records.append({**places[i], **found})
    return records


def _frames(item: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    if isinstance(item, Segment):
        with FrameSource(item.path, start=item.start) as frames:
            for frame in frames:
                if frame.index >= item.stop:
                    return
                yield _place(item.path, frame.index, frame.time_s), frame.image
    elif isinstance(item, tuple):
        yield _place(item[0], 0, 0.0), item
    else:
        yield _place(item, 0, 0.0), item


def _place(source: str, frame: int, time_s: float) -> dict[str, Any]:
    return {"source": shown(source), "frame": frame, "time_s": round(time_s, 6)}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Format(NamedTuple):
    suffix: str
    written: Callable[[Records], bytes]
    read: Callable[[bytes], list[dict[str, Any]]]

    def keep(self, path: Path, records: Records) -> None:
        replace_file(path, self.written(records))

    def kept(self, path: Path, chunk: tuple[Any, ...]) -> list[dict[str, Any]] | None:
        """Return the records of a file; None if it is missing, or damaged, which is logged."""
        try:
            records = self.read(read_file(path, _MOST_RECORD_BYTES))
            images = sum(not isinstance(item, Segment) for item in chunk)
            if records and len(records) in (images or len(records),):
                return records
            reason = f"expected {images or 'some'} records, got {len(records)}"
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = str(error)
        log = logging.getLogger("rknn_runtime").warning
        log("%s is damaged and is computed again: %s", path, reason)
        return None


def _lines(records: Records) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _read_lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError('format="parquet" needs PyArrow: pip install pyarrow') from None
    return pyarrow


def _schema(pa: Any) -> Any:
    """The same columns for every chunk, so that all files are one table."""
    points = pa.list_(pa.list_(pa.float64()))
    detection = {
        "class_id": pa.int64(),
        "label": pa.string(),
        "confidence": pa.float64(),
        "xyxy": pa.list_(pa.float64()),
        "keypoints": points,
        "xyxyxyxy": points,
        "mask": pa.struct({"size": pa.list_(pa.int64()), "counts": pa.list_(pa.int64())}.items()),
    }
    return pa.schema(
        {
            "source": pa.string(),
            "frame": pa.int64(),
            "time_s": pa.float64(),
            "error": pa.string(),
            "detections": pa.list_(pa.struct(detection.items())),
        }.items()
    )


def _table(records: Records) -> bytes:
    pa = _pyarrow()
    table = pa.Table.from_pylist(list(records), schema=_schema(pa))
    file = io.BytesIO()
    pa.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _read_table(data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _pyarrow().parquet.read_table(io.BytesIO(data)).to_pylist()
    for row in rows:
        row["detections"] = row["detections"] and [_present(each) for each in row["detections"]]
    return [_present(row) for row in rows]


def _present(row: dict[str, Any]) -> dict[str, Any]:
    """Drop the columns that a record has no value for, which are None in a table."""
    return {name: value for name, value in row.items() if value is not None}


_FORMATS = {
    "jsonl": _Format(".jsonl", _lines, _read_lines),
    "parquet": _Format(".parquet", _table, _read_table),
}


def _format_of(name: str) -> _Format:
    """Return a format by its name, or raise ImportError if its package is missing."""
    if name not in _FORMATS:
        raise ValueError(f"format: expected one of {', '.join(_FORMATS)}, got {name!r}")
    if name == "parquet":
        _pyarrow()
    return _FORMATS[name]
