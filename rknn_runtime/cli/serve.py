"""Show a live image and the results of a model in a browser.

The source is a camera, stream, video or folder of images. The results are also
available as JSON (/detections), and the numbers for Prometheus (/metrics).
Frames that fail are counted and skipped.

Examples:
  rknn-runtime serve yolov8n.rknn 0
  rknn-runtime serve yolov8n.rknn rtsp://camera/stream --listen 0.0.0.0:8080
  rknn-runtime serve yolov8n.rknn photos/ --sim --loop
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rknn_runtime.cli.detect import add_model_arguments, check_model_arguments, task_of
from rknn_runtime.cli.files import check_readable, line_of, naming
from rknn_runtime.cli.options import add_switch, refusals, tell
from rknn_runtime.errors import RknnError

if TYPE_CHECKING:
    from rknn_runtime.cli.sources import Tracks
    from rknn_runtime.streams.pool import Pool
    from rknn_runtime.streams.source import Frame, FrameSource
    from rknn_runtime.streams.stats import PoolStats
    from rknn_runtime.tools.serve import LiveView

#: Seconds for which an image file is shown.
_IMAGE_SECONDS = 1.0
#: Seconds for a frame; more means that the NPU hangs. The emulator needs many for large models.
_WATCHDOG_S = 120.0
#: Seconds to wait, after a signal, for frames in work and for a source.
_PATIENCE_S = 2.0
#: Seconds between two lines about frames that failed.
_QUIET_S = 60.0


def add_arguments(parser: ArgumentParser) -> None:
    add_model_arguments(parser)
    parser.add_argument(
        "source", metavar="SOURCE", help="a camera's number, a URL, a video, or a folder of images"
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="address (127.0.0.1:8080, for this machine only); port 0 for any free one",
    )
    parser.add_argument(
        "--token",
        help="the token that clients must send, also in RKNN_SERVE_TOKEN; by default one is made "
        "if other machines reach the address",
    )
    parser.add_argument(
        "--viewers", type=int, default=32, metavar="N", help="most clients at a time (32)"
    )
    parser.add_argument("--quality", type=int, default=80, metavar="Q", help="JPEG quality (80)")
    parser.add_argument(
        "--reconnect", type=float, metavar="S",
        help="seconds to try to reopen a camera or stream (60; inf: for ever)",
    )  # fmt: skip
    parser.add_argument(
        "--watchdog", type=float, default=_WATCHDOG_S, metavar="S",
        help=f"end with status 1 if a frame takes S seconds, as when the driver hangs "
        f"({_WATCHDOG_S:g}; 0: never)",
    )  # fmt: skip
    add_switch(parser, "--draw", "draw into the images, not in the browser")
    add_switch(parser, "--json", "print the address and the token as one JSON object")
    add_switch(parser, "--loop", "restart a file or folder at its end")


def run(arguments: Namespace) -> None:
    """Serve until the source ends, or until Ctrl-C or a signal."""
    try:
        with refusals():
            _serve(arguments)
    except KeyboardInterrupt:
        tell("stopped", "info")


@contextmanager
def _closing(pool: Pool) -> Iterator[None]:
    """Close a pool, and end the process if a run or a source hangs."""
    from rknn_runtime.streams.ordered import readers_end
    from rknn_runtime.tools.service import end_now, notify

    try:
        yield
    finally:
        notify("STOPPING=1")
        try:
            pool.close(_PATIENCE_S)
        except TimeoutError:
            end_now(f"a frame has not ended for {pool.working_s:.0f} s; ending with status 1")
        if not readers_end(_PATIENCE_S):
            end_now("the source does not end; ending with status 1")


def _serve(arguments: Namespace) -> None:
    from rknn_runtime.cli.sources import expanded
    from rknn_runtime.streams.pool import Pool
    from rknn_runtime.streams.source import is_live
    from rknn_runtime.tools.serve import LiveView, Server, is_loopback
    from rknn_runtime.tools.service import Watchdog, notify

    check_model_arguments(arguments)
    host, port = _address(arguments.listen)
    for name, most in (("viewers", 1000), ("quality", 95)):
        value = getattr(arguments, name)
        if not 1 <= value <= most:
            raise ValueError(f"--{name}: expected 1 to {most}, got {value}")
    for name in ("reconnect", "watchdog"):
        seconds = getattr(arguments, name)
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"--{name}: expected seconds, 0 or more, got {seconds}")
    if Path(arguments.source).is_dir():  # before the model is loaded
        expanded([arguments.source])
    elif not is_live(arguments.source):
        check_readable(arguments.source)
    token = arguments.token or os.environ.get("RKNN_SERVE_TOKEN", "")
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(16)
    model, task = task_of(arguments)
    pool = Pool(model, task, library=arguments.library, contexts=arguments.contexts)
    with _closing(pool):
        first: Any = pool.tasks[0]
        view = LiveView(first.labels, quality=arguments.quality, draw=arguments.draw)
        failures, load = _Failures(), _Load()
        source, reconnect_s = arguments.source, arguments.reconnect
        frames = _opened(source, reconnect_s)
        with naming(arguments.listen):
            server = Server(
                view,
                lambda: _status(view, pool, failures, load),
                host,
                port,
                token=token,
                viewers=arguments.viewers,
                browser_draws=not arguments.draw,
            )
        hangs = "a frame has been in work, so the NPU or its driver hangs,"
        with server, Watchdog(lambda: pool.working_s, arguments.watchdog, hangs):
            query = f"?token={quote(token, safe='')}" if token else ""
            name = f"[{host}]" if ":" in host and not host.startswith("[") else host
            url = f"http://{name}:{server.port}/{query}"
            told = json.dumps({"url": url, "token": token or None}) if arguments.json else url
            print(told, flush=True)
            notify("READY=1")
            shown = _feed(pool, view, failures, source, frames, arguments.track)
            while arguments.loop:
                frames = _opened(source, reconnect_s)
                shown += _feed(pool, view, failures, source, frames, arguments.track)
        tell(f"the end of {source} after {shown} frames", "info")


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"--listen: expected HOST:PORT, got {text!r}")
    return host, int(port)


class _Failures:
    """Counts and reports skipped frames, and ends the server after many in a row."""

    def __init__(self) -> None:
        self.last = ""
        self.source: FrameSource | None = None
        self._count = self._in_row = 0
        self._told = -_QUIET_S

    @property
    def count(self) -> int:
        return self._count + (0 if self.source is None else self.source.damaged)

    def add(self, error: Exception) -> None:
        from rknn_runtime.cli.sources import MOST_FAILURES

        self._count, self._in_row, self.last = self._count + 1, self._in_row + 1, line_of(error)
        if self._in_row >= MOST_FAILURES:
            raise RknnError(f"{self._in_row} frames in a row failed: {self.last}") from None
        now = time.monotonic()
        if now - self._told >= _QUIET_S:
            self._told = now
            log = logging.getLogger("rknn_runtime").warning
            log("frames that failed and were skipped: %d, the last: %s", self.count, self.last)

    def end_row(self) -> None:
        self._in_row = 0


def _opened(source: str, reconnect_s: float | None = None, start: int = 0) -> FrameSource:
    from rknn_runtime.cli.sources import RECONNECT_S
    from rknn_runtime.streams.source import FrameSource

    if reconnect_s is None:
        reconnect_s = RECONNECT_S
    return FrameSource(source, start=start, reconnect_s=reconnect_s, keep_jpeg=True)


def _feed(
    pool: Pool,
    view: LiveView,
    failures: _Failures,
    source: str,
    frames: FrameSource,
    is_tracked: bool,
) -> int:
    """Publish the results, of a file at its own pace, of a live source at once; count them."""
    from rknn_runtime.cli.sources import Tracks

    tracks = Tracks() if is_tracked else None
    begun = time.monotonic()
    done = images = 0
    while True:
        error: Exception | None = None
        failures.source = frames
        with pool.stream(frames) as results:
            while True:
                try:
                    due = begun + images * _IMAGE_SECONDS
                    images += _publish(*next(results), view, frames, due, tracks)
                except StopIteration:
                    break
                except Exception as caught:  # any error of one frame; the next one may work
                    error = caught
                    failures.add(caught)
                else:
                    error = None
                    failures.end_row()
                done += 1
        if frames.is_live:
            raise OSError(f"{frames.name}: {frames.ended}")
        if error is None or not Path(source).is_dir():
            break
        frames = _opened(
            source, start=done
        )  # the rest of a folder, after a file that cannot be read
    if not done:
        raise ValueError(f"{source}: expected images, got none")
    _wait_until(begun + images * _IMAGE_SECONDS)
    return done


def _publish(
    frame: Frame,
    found: Any,
    view: LiveView,
    frames: FrameSource,
    due: float,
    tracks: Tracks | None,
) -> bool:
    """Show a frame at its time; return whether it was an image file, shown at `due`."""
    from rknn_runtime.streams.address import is_image

    is_alone = is_image(frame.name)
    if tracks is not None:
        number = None if is_alone else frame.index
        found = tracks.add(frame.name, number, frame.time_s, found)
    if not frames.is_live:
        _wait_until(due + (0.0 if is_alone else frame.time_s))
    view.publish(frame.image, found, {"source": frame.name, "frame": frame.index}, frame.jpeg)
    return is_alone


def _wait_until(due: float) -> None:
    time.sleep(max(0.0, due - time.monotonic()))


class _Load:
    """How busy the cores were in the last second or longer."""

    def __init__(self) -> None:
        self._busy: list[float] = []
        self._at = 0.0
        self._percent: dict[str, float] = {}

    def of(self, stats: PoolStats) -> dict[str, float]:
        """Return percent by core: the mean of its contexts."""
        took = stats.elapsed_s - self._at
        busy = [context.busy_s for context in stats.contexts]
        if took >= 1 or not self._percent:
            cores: dict[str, list[float]] = {}
            for context, now, before in zip(stats.contexts, busy, self._busy or [0.0] * len(busy)):
                mask = context.core_mask
                name = (
                    "NPU"
                    if mask is None
                    else (mask.name or str(int(mask))).lower().replace("core_", "core ")
                )
                cores.setdefault(name, []).append(100 * (now - before) / max(took, 1e-9))
            self._percent = {
                name: round(min(sum(each) / len(each), 100), 1) for name, each in cores.items()
            }
            self._busy, self._at = busy, stats.elapsed_s
        return self._percent


def _status(view: LiveView, pool: Pool, failures: _Failures, load: _Load) -> dict[str, Any]:
    from rknn_runtime.tools.board import resident_kb, state

    stats, board = pool.stats(), state()
    busiest = max(stats.contexts, key=lambda context: context.frames)
    phases = {phase.name: round(phase.p50_ms, 2) for phase in busiest.phases}
    numbers: dict[str, Any] = {
        "fps": round(view.fps, 1),
        "frames": stats.frames,
        "dropped": stats.dropped,
        "failed": failures.count,
        "viewers": view.watchers,
        "longest run s": round(pool.working_s, 1),
        "phase ms": phases,
        "busy percent": load.of(stats),
        "resident kB": resident_kb(),
    }
    warnings = [str(each) for task in pool.tasks for each in getattr(task, "symptoms", ())]
    if warnings:
        numbers["warning"] = warnings[0]
    if failures.last:
        numbers["last failure"] = failures.last
    names = (("npu load percent", "npu_load_percent"), ("temperature C", "temperature_c"))
    numbers.update((name, board[key]) for name, key in names if key in board)
    return numbers
