"""What strangers send to a port: HTTP requests, read in bounded time and memory, and refused.

The standard library's server reads a line at a time, each for as long as its client likes, and
starts a thread for every client.
"""

from __future__ import annotations

import io
import logging
import re
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

__all__ = ["PATIENCE_S", "Connection", "Listener"]

#: So long a client may take to send a request, and to take what it is sent; seconds.
PATIENCE_S = 5.0
#: Of a request's line and headers.
_MOST_HEAD_BYTES = 1 << 14
_LINE = re.compile(rb"\S+ \S+ HTTP/\d+\.\d+\r?")
_END = re.compile(rb"\n\r?\n")
#: Methods that HTTP knows, of which these paths have none.
_OTHER_METHODS = ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")
#: Send buffer of a connection: a slow client gets a few old images, not a minute of them.
_SEND_BYTES = 1 << 18
#: What a refused client still sends is taken until then, so that it reads why it was refused.
_LINGER_S, _LINGER_BYTES = 1.0, 1 << 20
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Listener(ThreadingHTTPServer):
    """Accepts clients, at most `room` at the same time; each has a thread."""

    daemon_threads = True
    block_on_close = False  # a client that does not read must not keep the program from ending
    allow_reuse_address = True
    request_queue_size = 64
    #: Whether an error of ours was logged.
    is_told = False

    def __init__(self, host: str, port: int, handler: type[Connection], room: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.BoundedSemaphore(room)
        super().__init__((host.strip("[]"), port), handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a client."""
        client, address = super().get_request()
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        return client, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse a client for whom there is no thread."""
        if self._room.acquire(blocking=False):
            return True
        with suppress(OSError):
            request.sendall(_NO_ROOM)
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a client's thread."""
        try:
            super().process_request(request, client_address)
        except BaseException:  # none can be started
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing when a client disconnects."""


class _RefusedError(Exception):
    """What is sent is no request that is answered."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status)
        self.status = status


class Connection(BaseHTTPRequestHandler):
    """Answers the requests of one client; a subclass has `answer`."""

    server: Listener
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rknn-runtime", ""

    def setup(self) -> None:
        """Begin with nothing read."""
        super().setup()
        self.rfile.close()  # of the socket, which would stay open for it
        self._pending = b""
        self._is_more_coming = False
        self._is_answered = False

    def answer(self) -> None:
        """Answer a GET or HEAD; `path` and `headers` are the request's."""
        raise NotImplementedError

    def handle_one_request(self) -> None:
        """Read a request, and answer it."""
        self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
        self.close_connection = True
        self._is_answered = False
        try:
            head = self._head()
        except _RefusedError as refused:
            self.send_error(refused.status)
            return
        if head is None:
            return
        self.rfile = io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request():
            return
        hosts = self.headers.get_all("Host", [])
        if self.request_version != "HTTP/1.0" and len(hosts) != 1:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or any(length != "0" for length in lengths):
            # A body has no meaning here, and is not to be taken for the next request.
            self._is_more_coming = self.close_connection = True
        if self.command in ("GET", "HEAD"):
            self._answer()
        elif self.command in _OTHER_METHODS:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def _answer(self) -> None:
        try:
            self.answer()
        except OSError:  # disconnected
            raise
        except Exception as error:  # ours; told once, as a browser asks again every second
            if not self.server.is_told:
                self.server.is_told = True
                log = logging.getLogger("rknn_runtime").error
                log("a request could not be answered: %r", error)
            self.close_connection = True
            if not self._is_answered:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _head(self) -> bytes | None:
        """Read a request up to its empty line; None: there is none."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self._pending = self._pending.lstrip(b"\r\n")
            line, newline, _ = self._pending.partition(b"\n")
            if newline and not _LINE.fullmatch(line):  # HTTP/0.9, or none at all
                raise _RefusedError(HTTPStatus.BAD_REQUEST)
            end = _END.search(self._pending)
            if end and end.end() <= _MOST_HEAD_BYTES:
                head, self._pending = self._pending[: end.end()], self._pending[end.end() :]
                return head
            if len(self._pending) > _MOST_HEAD_BYTES:
                is_line = len(line) > _MOST_HEAD_BYTES
                too_long = HTTPStatus.REQUEST_URI_TOO_LONG
                too_large = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
                raise _RefusedError(too_long if is_line else too_large)
            data = self._received(deadline)
            if not data:
                if not self._pending:
                    return None
                late = data is None
                raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT if late else HTTPStatus.BAD_REQUEST)
            self._pending += data

    def _received(self, deadline: float) -> bytes | None:
        """What comes next; empty: the client hung up, None: nothing came in time."""
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        self.connection.settimeout(left)
        try:
            return bytes(self.connection.recv(_MOST_HEAD_BYTES))
        except socket.timeout:
            return None
        finally:
            self.connection.settimeout(PATIENCE_S)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in a line of text, which repeats nothing of it, and hang up."""
        self.close_connection = self._is_more_coming = True
        self.request_version = "HTTP/1.1"  # what is not understood gets a status, too
        status = HTTPStatus(code)
        allow = {"Allow": "GET, HEAD"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}
        self.send_text(status, status.phrase.lower(), allow)

    def send_text(
        self, status: HTTPStatus, text: str, headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Send a line of text."""
        self.send_whole(status, "text/plain; charset=utf-8", f"{text}\n".encode(), headers)

    def send_whole(
        self, status: HTTPStatus, kind: str, body: bytes, headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        """Send an answer with its length; of a HEAD without the body."""
        self.begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **headers})
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        """Send what stands before an answer."""
        self._is_answered = True
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        elif self.request_version == "HTTP/1.0":
            self.send_header("Connection", "keep-alive")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; img-src 'self'; connect-src 'self'; "
            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        self.end_headers()

    def finish(self) -> None:
        """End, when a client that still sends has been told why it was refused."""
        super().finish()
        if not self._is_more_coming:
            return
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            deadline, left = time.monotonic() + _LINGER_S, _LINGER_BYTES
            while left > 0:
                data = self._received(deadline)
                if not data:
                    return
                left -= len(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests contain the token."""
