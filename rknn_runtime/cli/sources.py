"""The sources that a command reads: images, folders, patterns, videos, cameras, streams."""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rknn_runtime.streams.ordered import Results
from rknn_runtime.streams.pool import Pool
from rknn_runtime.streams.source import Frame, FrameSource, is_live
from rknn_runtime.vision.images import IMAGE_SUFFIXES, files_with

__all__ = ["Item", "expanded", "results_of"]

#: So long a camera or stream that broke off is waited for.
_RECONNECT_S = 60.0


class Item(NamedTuple):
    """One image of a source.

    Attributes:
        source: The path of an image, else the source as it was given.
        frame: Counts from 0 within a video, camera or stream; None for an image.
        time_s: As `Frame.time_s`.
        image: The path of an image, else ``(H, W, 3) uint8``, BGR.
    """

    source: str
    frame: int | None
    time_s: float
    image: Any


def expanded(sources: list[str]) -> list[str]:
    """Return the files of patterns and folders in their order, and the rest as it is.

    Raises:
        FileNotFoundError: Nothing is there under a name.
        ValueError: A folder without images.
    """
    names = []
    for source in sources:
        path = Path(source)
        if is_live(source):
            names.append(source)
        elif path.is_dir():
            found = files_with(IMAGE_SUFFIXES, path)
            if not found:
                raise ValueError(f"{source}: expected images in the folder, got none")
            names += map(str, found)
        elif path.exists():
            names.append(source)
        else:
            found_names = sorted(glob.glob(source, recursive=True))  # noqa: PTH207
            if not found_names:
                raise FileNotFoundError(f"{source}: no such file, folder, camera or stream")
            names += expanded(found_names)
    return names


def results_of(
    pool: Pool, sources: list[str], drop: str | None = None
) -> Generator[tuple[Item, Any], None, None]:
    """Run a pool on all of the sources, in their order.

    Args:
        pool: Of detectors or classifiers.
        sources: As `expanded` gives them.
        drop: ``"oldest"`` to drop frames of cameras and streams when the pool is slower.

    Yields:
        Each item, and what the pool made of it, or the exception that it raised.
    """
    run: list[str] = []
    for source in sources:
        if not is_live(source):
            run.append(source)
            continue
        yield from _files(pool, run)
        run = []
        yield from _live(pool, source, drop)
    yield from _files(pool, run)


def _files(pool: Pool, sources: list[str]) -> Iterator[tuple[Item, Any]]:
    items: deque[Item] = deque()

    def images() -> Iterator[Any]:
        for source in sources:
            for item in _items(source):
                items.append(item)
                yield item.image

    with pool.map(images(), errors="return", color="BGR") as results:
        for _, result in results:
            yield items.popleft(), result


def _items(source: str) -> Iterator[Item]:
    if Path(source).suffix.lower() in IMAGE_SUFFIXES:
        # By its path: one that cannot be read is then an error of this image alone.
        yield Item(source, None, 0.0, source)
        return
    with FrameSource(source) as frames:
        for frame in frames:
            yield _item(frame)


def _item(frame: Frame) -> Item:
    return Item(frame.name, frame.index, frame.time_s, frame.image)


def _live(pool: Pool, source: str, drop: str | None) -> Iterator[tuple[Item, Any]]:
    results: Results = pool.stream(source, drop=drop, reconnect_s=_RECONNECT_S)
    with results:
        while True:
            try:
                frame, result = next(results)
            except StopIteration:
                error = OSError(f"it broke off, and did not come back in {_RECONNECT_S:g} seconds")
                yield Item(source, None, 0.0, source), error
                return
            yield _item(frame), result
