"""The sources that a command reads: images, folders, patterns, videos, cameras, streams."""

from __future__ import annotations

import glob
import logging
import os.path
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rknn_runtime._files import printable
from rknn_runtime.cli.files import counted
from rknn_runtime.errors import RknnError
from rknn_runtime.streams.address import is_image, path_of, shown
from rknn_runtime.streams.pool import Pool
from rknn_runtime.streams.source import FrameSource, is_live
from rknn_runtime.vision.images import IMAGE_SUFFIXES, files_with

if TYPE_CHECKING:
    from rknn_runtime.vision.detections import Detections

#: A camera or stream that broke off may come back for this long.
RECONNECT_S = 60.0
#: Pictures and videos that a folder is not searched for.
_OTHER_PICTURES = {
    ".avi", ".avif", ".gif", ".heic", ".heif", ".jp2", ".jxl", ".mkv", ".mov", ".mp4",
}  # fmt: skip
#: After this many failures in a row, a live source is given up.
MOST_FAILURES = 100


class Item(NamedTuple):
    """One image of a source.

    Attributes:
        source: The path of an image, else the given source without its password.
        frame: The number of the frame from 0; None for an image.
        time_s: As `Frame.time_s`.
        image: The path of an image, else ``(H, W, 3) uint8``, BGR.
        fps: The frame rate of the source; 0 if it is not known.
        is_live: Whether the source is a camera or a stream.
    """

    source: str
    frame: int | None
    time_s: float
    image: Any
    fps: float = 0.0
    is_live: bool = False

    @property
    def stem(self) -> str:
        """The file name without its ending; for a stream, the name in its path, or the host."""
        return path_of(self.source).stem.replace("***", "").replace(":", "_") or "stream"


class Names:
    """Names for files to write, with a number if two sources have the same name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, item: Item, suffix: str) -> str:
        if item.source not in self._names:
            name, number = f"{item.stem}{suffix}", 1
            while name in self._taken:
                number += 1
                name = f"{item.stem}-{number}{suffix}"
            self._taken.add(name)
            self._names[item.source] = name
        return self._names[item.source]


def expanded(sources: list[str]) -> list[str]:
    """Replace patterns and folders by their files, in order."""
    names = []
    for source in sources:
        path = Path(source)
        if is_live(source):
            names.append(source)
        elif path.is_dir():
            images = files_with(IMAGE_SUFFIXES, path)
            if not images:
                raise ValueError(f"{source}: expected images in the folder, got none")
            _tell_of_rest(path, len(images))
            names += map(str, images)
        elif os.path.lexists(source):
            names.append(source)
        else:
            found = sorted(glob.glob(source, recursive=True))  # noqa: PTH207
            if "**" in source:  # finds folders, too, besides the files in them
                found = [name for name in found if not Path(name).is_dir()]
            if not found:
                raise FileNotFoundError(f"{source}: no such file, folder, camera or stream")
            names += expanded(found)
    return names


def _tell_of_rest(folder: Path, images: int) -> None:
    """Log files of a folder that look like images but cannot be read."""
    paths = list(folder.iterdir())
    folders = sum(path.is_dir() for path in paths)
    endings = sorted({path.suffix.lower() for path in paths} & _OTHER_PICTURES)
    rest = [f"{counted(folders, 'folder')} in it ('{folder}/**/*' reads what is there)"] * (
        folders > 0
    )
    rest += [f"files ending in {', '.join(endings)}"] * bool(endings)
    if rest:
        log = logging.getLogger("rknn_runtime").warning
        found = counted(images, "image")
        log("%s: %s; not read: %s", printable(str(folder)), found, " and ".join(rest))


class Tracks:
    """Numbers the objects of frames, with a tracker for each run through a source.

    Raises:
        ImportError: The package that tracks is missing.
    """

    def __init__(self) -> None:
        from rknn_runtime.vision.tracking import Tracker

        self._make = Tracker
        self._tracker = Tracker()
        self._last: tuple[str, int] = "", -1

    def add(self, source: str, frame: int | None, time_s: float, found: Detections) -> Detections:
        """Continue the tracks with the next frame; images count as one video."""
        if frame is None:
            source, frame = "", self._last[1] + 1 if self._last[0] == "" else 0
        if source != self._last[0] or frame <= self._last[1]:
            self._tracker = self._make()
        self._last = source, frame
        return self._tracker(found, time_s if source else None)


def results_of(
    pool: Pool, sources: list[str], drop: str | None = "auto"
) -> Generator[tuple[Item, Any], None, None]:
    """Run a pool on all sources, in order.

    Yields:
        Each item with its result, or with the exception that it raised.
    """
    images: list[str] = []
    for source in sources:
        if is_image(source) and not is_live(source):
            images.append(source)
            continue
        yield from _images(pool, images)
        images = []
        yield from _stream(pool, source, drop)
    yield from _images(pool, images)


def _images(pool: Pool, paths: list[str]) -> Iterator[tuple[Item, Any]]:
    # Paths, not pixels: an unreadable image then fails alone.
    with pool.map(paths, errors="return") as results:
        for path, result in results:
            yield Item(path, None, 0.0, path), result


def _stream(pool: Pool, source: str, drop: str | None) -> Iterator[tuple[Item, Any]]:
    failed = Item(shown(source), None, 0.0, shown(source))
    try:
        frames = FrameSource(source, reconnect_s=RECONNECT_S)
    except (OSError, ValueError) as error:
        yield failed, error
        return
    count = failures = 0
    with pool.stream(frames, drop=drop) as results:
        while not (frames.is_live and failures == MOST_FAILURES):
            try:
                frame, result = next(results)
            except StopIteration:
                break
            except (OSError, ValueError, RknnError) as error:  # the next frame may succeed
                failures += 1
                yield failed, error
                continue
            count, failures = count + 1, 0
            number = None if is_image(frame.name) else frame.index
            place = frame.name, number, frame.time_s, frame.image
            yield Item(*place, frames.fps, frames.is_live), result
    if frames.is_live:
        yield failed, OSError(frames.ended or f"given up after {failures} failures in a row")
    elif not (count or failures):
        yield failed, ValueError("expected images, got none")
