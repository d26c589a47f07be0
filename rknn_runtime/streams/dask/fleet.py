"""A fleet of boards on Dask: archives of images and videos, in chunks, exactly once.

The engine is Dask distributed (``pip install distributed``), on the boards and on the machine
that asks; see ``docs/fleet.md``.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from rknn_runtime._arrays import as_int
from rknn_runtime._files import read_file
from rknn_runtime.errors import RknnError
from rknn_runtime.streams.address import shown
from rknn_runtime.streams.dask.storage import Format, format_of
from rknn_runtime.streams.pool import Pool
from rknn_runtime.streams.records import RecordTask
from rknn_runtime.streams.source import FrameSource

try:
    from distributed import Client, as_completed, get_worker
    from distributed.diagnostics.plugin import WorkerPlugin
except ImportError:
    raise ImportError("rknn_runtime.streams.dask needs Dask: pip install distributed") from None

__all__ = ["NpuPlugin", "Segment", "detect", "segments"]

#: The resource that a task takes one of; a worker declares as many as it has contexts at work.
RESOURCE = "NPU"
#: Chunks in flight per worker: enough that none waits for the scheduler.
_AHEAD = 4
Progress = Callable[[int, Union[int, None]], object]
#: What rknn_init takes.
_MOST_MODEL_BYTES = 2**32 - 1


@dataclass(frozen=True)
class Segment:
    """A part of a video, by frames: from `start` on, up to `stop`, which does not belong to it."""

    path: str
    start: int
    stop: int


def segments(path: str | os.PathLike[str], frames: int = 300) -> list[Segment]:
    """Part a video into segments of so many frames.

    Args:
        path: A video that OpenCV reads here, and the workers at the same path.
        frames: Of each segment but the last.

    Raises:
        ImportError: OpenCV is missing.
        OSError: The video cannot be opened, or does not say how many frames it has.
        TypeError: An argument of another type.
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


class NpuPlugin(WorkerPlugin):
    """Opens a `Pool` in each worker process, keeps it, and declares its cores to the scheduler.

    Args:
        model: The model's bytes, which come with the plugin, or its path on the workers.
        sha256: Of a path: refuse another file. None: any.
        library: The runtime library on the workers; see `rknn_runtime.open_library`.
        contexts: See `Pool`.
        **options: For `Detector`, such as ``conf_threshold``.

    Attributes:
        name: Tells plugins of other models or options apart; Dask's name of the plugin.

    Raises:
        TypeError: `model` is neither bytes nor a path.
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
        **options: Any,
    ) -> None:
        if not isinstance(model, (bytes, str, os.PathLike)):
            raise TypeError(f"model: expected bytes or a path, got {type(model).__name__}")
        self._model = model if isinstance(model, bytes) else os.fspath(model)
        self._sha256 = _hash(model) if isinstance(model, bytes) else sha256
        self._library, self._contexts, self._options = library, contexts, options
        described = repr((self._sha256 or self._model, library, contexts, sorted(options.items())))
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
            data, RecordTask(self._options), library=self._library, contexts=self._contexts
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

    A chunk that is lost with its worker is done again by another one; each chunk's records come
    once, whatever happened to it before.

    Args:
        client: Of the cluster.
        plugin: Which model; it is registered with the workers.
        items: Paths of images, as the workers see them; ``(name, bytes)`` of images that are sent;
            `Segment` of videos (see `segments`).
        chunk: So many images are one task. A segment is one by itself.
        retries: How often a chunk that raised is tried again.
        folder: Where the records of each chunk are kept, in a file that appears whole or not at
            all. What is there already is not computed again, so that a stopped job goes on where
            it was. None: nowhere.
        format: Of these files: ``"jsonl"``, a JSON text per record and line, or ``"parquet"``, of
            which all files are one table (needs PyArrow).
        progress: Is called with the number of chunks done, those kept from before among them, and
            of all (None: not known, as `items` is no sequence).

    Yields:
        One record per frame, in the order in which chunks are done: ``"source"``, ``"frame"``,
        ``"time_s"``, and ``"detections"`` as of `Detections.to_dict`, or ``"error"`` for an
        image that cannot be read.

    Raises:
        ImportError: PyArrow is missing.
        TypeError: An argument of another type.
        ValueError: `chunk` or `retries` is out of range, or there is no such `format`.
        Exception: What a chunk raised at last.
    """
    size, tries = as_int(chunk, "chunk", 1, 10_000), as_int(retries, "retries", 0, 1000)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: expected a function, got {type(progress).__name__}")
    if not isinstance(client, Client) or not isinstance(plugin, NpuPlugin):
        raise TypeError(
            "client, plugin: expected a distributed.Client and an NpuPlugin, got "
            f"{type(client).__name__} and {type(plugin).__name__}"
        )
    kept, kind = None if folder is None else Path(folder), format_of(format)
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
    kind: Format,
) -> Iterator[list[dict[str, Any]]]:
    """Keep a few chunks in flight per worker, and yield the records of each that comes back."""
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
            if path is not None and path.exists():
                yield kind.read(path)
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
    """In a worker: detect in each frame of a chunk."""
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
        from PIL import Image

        yield _place(item[0], 0, 0.0), Image.open(io.BytesIO(item[1]))
    else:
        yield _place(item, 0, 0.0), item


def _place(source: str, frame: int, time_s: float) -> dict[str, Any]:
    return {"source": shown(source), "frame": frame, "time_s": round(time_s, 6)}


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
