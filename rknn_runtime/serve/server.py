"""An HTTP server of a live view: page, images, events, numbers. It serves no files."""

from __future__ import annotations

import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rknn_runtime._arrays import as_int
from rknn_runtime.serve.page import PAGE
from rknn_runtime.serve.view import LiveView

__all__ = ["Server", "is_loopback"]

#: A client that takes no data for so many seconds is disconnected.
_PATIENCE = 5.0
#: Send buffer of a connection: a slow client gets a few old images, not a minute of them.
_SEND_BYTES = 1 << 18
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
        viewers: How many clients may receive images or events at the same time; others get a 503.
        browser_draws: The page draws the objects; False: they are in the images.

    Attributes:
        port: That it listens at.

    Raises:
        OSError: The address is not available.
        TypeError: An argument of another type.
        ValueError: An address that others reach, without a token; a number out of range.
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
        self.view, self.status, self.token = view, status, token
        self.host = host
        self.slots = threading.BoundedSemaphore(as_int(viewers, "viewers", 1, 10**6))
        draws = json.dumps(browser_draws)
        self.page = PAGE.replace("BROWSER_DRAWS_HERE", draws).encode()
        kind = _Listener6 if ":" in host else _Listener
        self._listener = kind((host.strip("[]"), port), _Handler)
        self._listener.server = self
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
        self._thread.join(_PATIENCE)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client that does not read must not keep the program from ending
    allow_reuse_address = True
    request_queue_size = 64
    server: Server

    def get_request(self) -> tuple[socket.socket, Any]:
        client, address = super().get_request()
        client.settimeout(_PATIENCE)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        return client, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing when a client disconnects."""


class _Listener6(_Listener):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rknn-runtime", ""

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        answer = _ANSWERS.get(path.path)
        if not self._is_local_name():
            self._plain(HTTPStatus.FORBIDDEN, "this name is not this server's")
        elif not self._may(path.query):
            self._plain(HTTPStatus.UNAUTHORIZED, "the token is missing or wrong")
        elif answer is None:
            self._plain(HTTPStatus.NOT_FOUND, "there is nothing here")
        else:
            answer(self)

    do_HEAD = do_GET

    @property
    def _mine(self) -> Server:
        listener: Any = self.server
        server: Server = listener.server
        return server

    def _is_local_name(self) -> bool:
        """Whether a request names this machine; one of a foreign page does not (DNS rebinding)."""
        if self._mine.token:
            return True
        name = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        return is_loopback(name)

    def _may(self, query: str) -> bool:
        token = self._mine.token
        given = parse_qs(query).get("token", [""])[0]
        said = self.headers.get("Authorization", "")
        if said.startswith("Bearer "):
            given = said[len("Bearer ") :]
        return not token or hmac.compare_digest(given.encode(), token.encode())

    def _plain(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self._common_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _common_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; img-src 'self'; connect-src 'self'; "
            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        self.end_headers()

    def _page(self) -> None:
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self._mine.page)

    def _detections(self) -> None:
        found = self._mine.view.snapshot().found
        self._send(HTTPStatus.OK, "application/json", f"{found}\n".encode())

    def _status(self) -> None:
        text = json.dumps(self._mine.status())
        self._send(HTTPStatus.OK, "application/json", f"{text}\n".encode())

    def _snapshot(self) -> None:
        jpeg = self._mine.view.snapshot().jpeg
        if not jpeg:
            self._plain(HTTPStatus.SERVICE_UNAVAILABLE, "there is no frame yet")
            return
        self._send(HTTPStatus.OK, "image/jpeg", jpeg)

    def _metrics(self) -> None:
        text = "".join(_metric_lines(self._mine.status()))
        self._send(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text.encode())

    def _stream(self) -> None:
        kind = f"multipart/x-mixed-replace; boundary={_BOUNDARY}"
        self._endless(kind, self._images)

    def _events(self) -> None:
        self._endless("text/event-stream", self._all_events)

    def _endless(self, kind: str, send: Callable[[LiveView], None]) -> None:
        """Send an answer that does not end, unless there are too many viewers."""
        mine = self._mine
        if not mine.slots.acquire(blocking=False):
            self._plain(HTTPStatus.SERVICE_UNAVAILABLE, "too many are looking")
            return
        self.close_connection = True
        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self._common_headers()
            if self.command != "HEAD":
                send(mine.view)
        except OSError:  # disconnected, or too slow
            pass
        finally:
            mine.slots.release()

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
                newer = view.wait(after, _PATIENCE)
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

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests contain the token."""


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
