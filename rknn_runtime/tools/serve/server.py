"""An HTTP server of a live view: page, images, events, numbers. It serves no files."""

from __future__ import annotations

import hmac
import ipaddress
import json
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rknn_runtime._arrays import as_int
from rknn_runtime.tools.serve.connection import PATIENCE_S, Connection, Listener
from rknn_runtime.tools.serve.page import PAGE
from rknn_runtime.tools.serve.view import LiveView

__all__ = ["Server", "is_loopback"]

#: Clients that get an answer with an end, at the same time.
_MOST_BRIEF = 32
_BOUNDARY = "frame"
#: Seconds between two updates of the panel.
_STATUS_S = 1.0


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Server:
    """Serves a view from a thread of its own; close it, or use it as a context manager.

    Args:
        view: What to show.
        status: Gives the numbers of the panel: a flat mapping, of numbers, texts, or mappings
            of numbers.
        host: Address to listen at.
        port: 0: any that is free.
        token: What a client must give, as ``?token=`` or ``Authorization: Bearer``; empty: it
            need not.
        viewers: How many clients may receive images at the same time, and how many events; others
            get a 503, as whoever else comes while there are 32 more than those.
        browser_draws: The page draws the objects; False: they are in the images.

    Attributes:
        port: That it listens at.

    Raises:
        OSError: The address is not available.
        TypeError: An argument of another type.
        ValueError: An address that others reach, without a token; a token that is no text in
            UTF-8; a number out of range.
    """

    def __init__(
        self,
        view: LiveView,
        status: Callable[[], Mapping[str, Any]],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        token: str = "",
        viewers: int = 32,
        browser_draws: bool = True,
    ) -> None:
        for name, value, wanted in (
            ("view", view, LiveView), ("host", host, str), ("token", token, str),
            ("browser_draws", browser_draws, bool),
        ):  # fmt: skip
            if not isinstance(value, wanted):
                raise TypeError(f"{name}: expected a {wanted.__name__}, got {value!r}")
        if not callable(status):
            raise TypeError(f"status: expected a callable, got {status!r}")
        port = as_int(port, "port", 0, 65535)
        if not token and not is_loopback(host):
            raise ValueError(f"token: expected one for {host}, which others reach, got none")
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(f"token: expected text in UTF-8, got {token!r}") from None
        self.view, self.status, self.token = view, status, token
        self.host = host
        viewers = as_int(viewers, "viewers", 1, 10**6)
        self.image_slots = threading.BoundedSemaphore(viewers)
        self.event_slots = threading.BoundedSemaphore(viewers)
        draws = json.dumps(browser_draws)
        self.page = PAGE.replace("BROWSER_DRAWS_HERE", draws).encode()
        self._listener = _Listener(host, port, _Handler, 2 * viewers + _MOST_BRIEF)
        self._listener.mine = self
        self.port = int(self._listener.server_address[1])
        self._thread = threading.Thread(
            target=self._listener.serve_forever, name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Disconnect the viewers and stop listening; idempotent."""
        self.view.close()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(PATIENCE_S)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(Listener):
    mine: Server


class _Handler(Connection):
    server: _Listener

    def answer(self) -> None:
        """Answer a GET or HEAD."""
        try:
            path = urlsplit(self.path)
            name = urlsplit(f"//{path.netloc or self.headers.get('Host', '')}").hostname or ""
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        answer = _ANSWERS.get(path.path)
        # Without a token, a request names this machine; one of a foreign page does not (DNS
        # rebinding).
        if not self._mine.token and not is_loopback(name):
            self.send_text(HTTPStatus.FORBIDDEN, "this name is not this server's")
        elif not self._may(path.query):
            text = "the token is missing or wrong"
            self.send_text(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})
        elif answer is None:
            self.send_text(HTTPStatus.NOT_FOUND, "there is nothing here")
        else:
            answer(self)

    @property
    def _mine(self) -> Server:
        return self.server.mine

    def _may(self, query: str) -> bool:
        """Whether the token was given; of several, one that is wrong is one too many."""
        wanted = self._mine.token.encode()
        given = [token.encode() for token in parse_qs(query, True).get("token", ())]
        for said in self.headers.get_all("Authorization", ()):
            scheme, _, token = said.partition(" ")
            if scheme.lower() == "bearer":
                given.append(token.strip().encode("latin-1"))  # the bytes as they came
        right = [hmac.compare_digest(token, wanted) for token in given]
        return not wanted or (any(right) and all(right))

    def _page(self) -> None:
        self.send_whole(HTTPStatus.OK, "text/html; charset=utf-8", self._mine.page)

    def _detections(self) -> None:
        self._json(self._mine.view.snapshot().found)

    def _status(self) -> None:
        self._json(json.dumps(self._mine.status()))

    def _json(self, text: str) -> None:
        self.send_whole(HTTPStatus.OK, "application/json", f"{text}\n".encode())

    def _snapshot(self) -> None:
        jpeg = self._mine.view.snapshot().jpeg
        if not jpeg:
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, "there is no frame yet")
            return
        self.send_whole(HTTPStatus.OK, "image/jpeg", jpeg)

    def _metrics(self) -> None:
        text = "".join(_metric_lines(self._mine.status()))
        kind = "text/plain; version=0.0.4; charset=utf-8"
        self.send_whole(HTTPStatus.OK, kind, text.encode())

    def _stream(self) -> None:
        kind = f"multipart/x-mixed-replace; boundary={_BOUNDARY}"
        self._endless(kind, self._mine.image_slots, self._images)

    def _events(self) -> None:
        self._endless("text/event-stream", self._mine.event_slots, self._all_events)

    def _endless(
        self, kind: str, slots: threading.Semaphore, send: Callable[[LiveView], None]
    ) -> None:
        """Send an answer that does not end, unless there are too many viewers."""
        if not slots.acquire(blocking=False):
            self.send_text(HTTPStatus.SERVICE_UNAVAILABLE, "too many are looking")
            return
        self.close_connection = True
        try:
            self.begin(HTTPStatus.OK, {"Content-Type": kind})
            if self.command != "HEAD":
                send(self._mine.view)
        except OSError:  # disconnected, or too slow
            pass
        finally:
            slots.release()

    def _images(self, view: LiveView) -> None:
        view.watch(1)
        try:
            # The newest one at once: the source may not give another for a long time.
            shown: Any = view.snapshot()
            while not view.is_closed:
                if shown is not None and shown.jpeg:
                    head = f"--{_BOUNDARY}\r\nContent-Type: image/jpeg\r\n"
                    head += f"Content-Length: {len(shown.jpeg)}\r\n\r\n"
                    self.wfile.write(head.encode() + shown.jpeg + b"\r\n")
                after = 0 if shown is None else shown.number
                newer = view.wait(after, PATIENCE_S)
                shown = newer if newer is not None else shown and shown._replace(jpeg=b"")
        finally:
            view.watch(-1)

    def _all_events(self, view: LiveView) -> None:
        number, next_status = 0, 0.0
        while not view.is_closed:
            now = time.monotonic()
            if now >= next_status:
                next_status = now + _STATUS_S
                text = json.dumps(self._mine.status())
                self.wfile.write(f"event: status\ndata: {text}\n\n".encode())
            frame = view.wait(number, next_status - now)
            if frame is not None:
                number = frame.number
                self.wfile.write(f"data: {frame.found}\n\n".encode())


_ANSWERS: dict[str, Callable[[_Handler], None]] = {
    "/": _Handler._page,
    "/stream": _Handler._stream,
    "/events": _Handler._events,
    "/snapshot.jpg": _Handler._snapshot,
    "/detections": _Handler._detections,
    "/status": _Handler._status,
    "/metrics": _Handler._metrics,
}


def _metric_lines(status: Mapping[str, Any]) -> list[str]:
    """Prometheus' text: numbers by their names, mappings of numbers with a label."""
    lines = []
    for key, value in status.items():
        name = "rknn_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in key.lower())
        if isinstance(value, Mapping):
            numbers = {k: v for k, v in value.items() if isinstance(v, (int, float))}
            for label, number in numbers.items():
                quoted = str(label).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                lines.append(f'{name}{{name="{quoted}"}} {number}\n')
        elif isinstance(value, (int, float)):
            lines.append(f"{name} {value}\n")
    return lines
