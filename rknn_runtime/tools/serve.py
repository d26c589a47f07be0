"""Show a live image and its results to browsers.

The server is the standard library's, which adds 7 MB of memory and 40 ms to the start; starlette
with uvicorn adds 15 MB and 250 ms, and some boards have 128 MB. uvicorn has no time limit for slow
clients, so that code would be needed in either case.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import json
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.drawing import LIMBS, class_color, text_color
from rknn_runtime.vision.images import import_pillow
from rknn_runtime.vision.tasks import as_dict

if TYPE_CHECKING:
    from rknn_runtime.vision.labels import Labels

#: Seconds that a client has to send its request, and to take each thing that it is sent.
PATIENCE_S = 5.0
#: Other clients than viewers that are answered at the same time.
_MOST_BRIEF = 32
#: Clients of one address that may be sending their request at the same time.
_MOST_WAITING = 16
_MOST_HEAD_BYTES = 1 << 14
#: Send buffer of a connection. A slow client gets a few old images, not a minute of them.
_SEND_BYTES = 1 << 18
#: Seconds between two updates of the panel.
_STATUS_S = 1.0
#: Number of frames that the frame rate is computed from.
_RATE_FRAMES = 60
#: Largest width and height that a JPEG encoder takes.
_MAX_JPEG = 65500
_PAGE = Path(__file__).with_suffix(".html")
_PART = b"--frame\r\nContent-Type: image/jpeg\r\n\r\n"


class Snapshot(NamedTuple):
    """One frame, as it goes to viewers.

    Attributes:
        number: Counts the frames that were shown, from 1; 0 before the first.
        found: What was found, as the text of a JSON object.
        jpeg: The image; empty if nobody was viewing when it came.
    """

    number: int
    found: str
    jpeg: bytes


class LiveView:
    """Holds only the newest frame, so memory stays constant with slow viewers.

    Thread-safe. An image is encoded once for all viewers, and not at all without viewers.

    Args:
        labels: Names of the classes, or None.
        quality: JPEG quality, 1 to 95.
        draw: Draw `Detections` into the image instead of leaving it to the page, which draws
            nothing else.
    """

    def __init__(self, labels: Labels | None = None, *, quality: int = 80, draw: bool = False):
        if not isinstance(draw, bool):
            raise TypeError(f"draw: expected a bool, got {draw!r}")
        self._labels, self._draw = labels, draw
        self._changed = threading.Condition()
        self._newest = Snapshot(0, "{}", b"")
        self._frame: tuple[Any, Any] | None = None
        self._times: deque[float] = deque(maxlen=_RATE_FRAMES)
        self._watchers = 0
        self._is_closed = False
        self._encode = _encoder(as_int(quality, "quality", 1, 95))

    def publish(self, image: Any, found: Any, place: Mapping[str, Any], jpeg: bytes = b"") -> None:
        """Show a frame.

        Args:
            image: ``(H, W, 3) uint8``, BGR. It must not change until the next is published.
            found: The result of any task for the image.
            place: More entries for the JSON, such as ``source`` and ``frame``.
            jpeg: The image as a camera encoded it, which viewers get unchanged. If it is empty, or
                the result is drawn here, the image is encoded here when somebody is viewing.
        """
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
            got = getattr(image, "dtype", type(image).__name__)
            raise TypeError(f"image: expected an array of uint8, got {got}")
        if image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
            raise ValueError(f"image: expected shape (H, W, 3), got {image.shape}")
        if max(image.shape) > _MAX_JPEG:
            raise ValueError(f"image: expected up to {_MAX_JPEG} pixels a side, got {image.shape}")
        if not (hasattr(found, "to_dict") or isinstance(found, np.ndarray)):
            raise TypeError(f"found: expected the result of a task, got {type(found).__name__}")
        if not isinstance(jpeg, bytes):
            raise TypeError(f"jpeg: expected bytes, got {type(jpeg).__name__}")
        image = np.ascontiguousarray(image)
        height, width = image.shape[:2]
        if isinstance(found, Detections):
            objects = found._json(self._labels)
        else:
            objects = json.dumps(as_dict(found, self._labels))
        if not jpeg or self._draws(found):
            jpeg = self._jpeg(image, found) if self._watchers else b""
        with self._changed:
            number = self._newest.number + 1
            words = json.dumps({"number": number, **place, "width": width, "height": height})
            self._newest = Snapshot(number, f"{words[:-1]}, {objects[1:]}", jpeg)
            self._frame = image, found
            self._times.append(time.monotonic())
            self._changed.notify_all()

    def _draws(self, found: Any) -> bool:
        """Whether a result is drawn here."""
        return self._draw if isinstance(found, Detections) else hasattr(found, "draw")

    def _jpeg(self, image: Any, found: Any) -> bytes:
        if self._draws(found):
            image = found.draw(image, self._labels, color="BGR")
        return self._encode(image)

    def wait(self, after: int, timeout: float) -> Snapshot | None:
        """Wait for a frame newer than `after`; return None if none came in time or ever will."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest.number > after or self._is_closed, timeout)
            is_new = self._newest.number > after and not self._is_closed
            return self._newest if is_new else None

    def snapshot(self) -> Snapshot:
        """Return the newest frame with its image; its number is 0 before the first frame."""
        with self._changed:
            newest, frame = self._newest, self._frame
        if newest.jpeg or frame is None:
            return newest
        return newest._replace(jpeg=self._jpeg(*frame))

    def watch(self, change: int) -> None:
        """Count a viewer of images in (1) or out (-1)."""
        with self._changed:
            self._watchers += change

    @property
    def watchers(self) -> int:
        """Number of clients that are viewing images."""
        return self._watchers

    @property
    def fps(self) -> float:
        """Frames per second over the last frames; it falls when no more come."""
        with self._changed:
            times = list(self._times)
        gaps = len(times) - 1
        if gaps < 1:
            return 0.0
        took = times[-1] - times[0]
        late = time.monotonic() - times[-1] - 2 * took / gaps
        return gaps / (took + max(0.0, late))

    @property
    def is_closed(self) -> bool:
        """Whether no more frames come."""
        return self._is_closed

    def close(self) -> None:
        """End the view for all viewers; idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _encoder(quality: int) -> Callable[[Any], bytes]:
    """Return a function that encodes BGR images as JPEG, by OpenCV (faster) or else Pillow."""
    try:
        import cv2
    except ImportError:
        pillow = import_pillow()

        def encode(image: Any) -> bytes:
            file = io.BytesIO()
            pillow.Image.fromarray(image[..., ::-1]).save(file, "JPEG", quality=quality)
            return file.getvalue()

        return encode

    def encode_by_opencv(image: Any) -> bytes:
        data: bytes = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
        return data

    return encode_by_opencv


def _hex(color: tuple[int, int, int]) -> str:
    return "#" + bytes(color).hex()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Server:
    """Serves a view from a separate thread; close it, or use it as a context manager.

    Args:
        view: What to show.
        status: Returns the numbers of the panel: a mapping of numbers, texts, or mappings of
            numbers.
        host: Address to listen at.
        port: 0 for any free port.
        token: What a client must give as ``?token=`` or ``Authorization: Bearer``; empty for
            none.
        viewers: How many clients may receive images at the same time, and how many events.
            Others get a 503, as does everyone while 32 more clients are being answered.
        browser_draws: The page draws the objects; False if they are in the images.

    Attributes:
        port: The port that it listens at.
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
        viewers = as_int(viewers, "viewers", 1, 10**6)
        if not token and not is_loopback(host):
            raise ValueError(f"token: expected one for {host}, which others reach, got none")
        try:
            token.encode()
        except UnicodeEncodeError:
            raise ValueError(f"token: expected text in UTF-8, got {token!r}") from None
        self.view, self.status, self.token, self.host = view, status, token, host
        self.image_slots = threading.BoundedSemaphore(viewers)
        self.event_slots = threading.BoundedSemaphore(viewers)
        page = _PAGE.read_text("utf-8")
        colors = [[_hex(paper), _hex(text_color(paper))] for paper in map(class_color, range(80))]
        facts = {"BROWSER_DRAWS": browser_draws, "PALETTE": colors, "LIMBS": list(map(_hex, LIMBS))}
        for name, fact in facts.items():
            page = page.replace(f"{name}_HERE", json.dumps(fact))
        self.page = page.encode()
        self._listener = _Listener(self, host, port, 2 * viewers + _MOST_BRIEF)
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


class _Listener(ThreadingHTTPServer):
    """Accepts clients, each with a thread, and disconnects those that send too slowly."""

    daemon_threads = True
    block_on_close = False  # a client that does not read must not keep the program from ending
    allow_reuse_address = True
    request_queue_size = 64
    #: Whether an internal error was logged.
    is_told = False

    def __init__(self, mine: Server, host: str, port: int, room: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.mine = mine
        self._room, self._clients = room, 0
        self._lock = threading.Lock()
        #: Clients whose request was not accepted yet, the oldest first: address and time.
        self._waiting: dict[socket.socket, tuple[str, float]] = {}
        super().__init__((host.strip("[]"), port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a client."""
        client, address = super().get_request()
        client.settimeout(PATIENCE_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        return client, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Make room for a client, at the expense of the one that has been sending for longest."""
        host = client_address[0]
        with self._lock:
            same = [client for client, (address, _) in self._waiting.items() if address == host]
            if len(same) >= _MOST_WAITING:
                self._disconnect(same[0])
            elif self._clients >= self._room and self._waiting:
                self._disconnect(next(iter(self._waiting)))
            elif self._clients >= self._room:
                answer = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                with suppress(OSError):
                    request.sendall(answer + b"Retry-After: 1\r\nContent-Length: 0\r\n\r\n")
                return False
            self._waiting[request] = host, time.monotonic()
            self._clients += 1
        return True

    def accept(self, client: socket.socket) -> None:
        """Note that a client's request was read and is allowed."""
        with self._lock:
            self._waiting.pop(client, None)

    def service_actions(self) -> None:
        """Disconnect, twice a second, the clients that took too long to send a request."""
        late = time.monotonic() - PATIENCE_S
        with self._lock:
            for client in [each for each, (_, since) in self._waiting.items() if since < late]:
                self._disconnect(client)

    def _disconnect(self, client: socket.socket) -> None:
        del self._waiting[client]
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)  # its thread ends then

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a client's thread."""
        try:
            super().process_request(request, client_address)
        except BaseException:  # none can be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, client: socket.socket) -> None:
        with self._lock:
            self._waiting.pop(client, None)
            self._clients -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report nothing when a client disconnects."""


class _Head:
    """Reads the lines of a request, up to a number of bytes in all."""

    def __init__(self, file: Any) -> None:
        self._file, self._left = file, _MOST_HEAD_BYTES
        self.is_whole = False
        self.close = file.close

    def readline(self, limit: int) -> bytes:
        line: bytes = self._file.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("request")
        self.is_whole = line.endswith(b"\n")
        return line


class _Handler(BaseHTTPRequestHandler):
    """Answers one request of a client."""

    server: _Listener
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "rknn-runtime", ""
    requestline, command, request_version = "", "", "HTTP/1.1"
    _is_answered = _may_send_more = False

    def setup(self) -> None:
        """Limit the size of the request."""
        super().setup()
        self.rfile: Any = _Head(self.rfile)

    def handle_one_request(self) -> None:
        """Refuse a request line that is too long, and the rest as the base class does."""
        try:
            super().handle_one_request()
        except LineTooLong:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)

    def do_GET(self) -> None:
        """Answer; an internal error is logged once, as a browser asks again every second."""
        try:
            self._answer()
        except OSError:  # disconnected
            raise
        except Exception as error:
            if not self.server.is_told:
                self.server.is_told = True
                log = logging.getLogger("rknn_runtime").error
                log("a request could not be answered: %r", error)
            if not self._is_answered:
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Refuse the methods that HTTP knows and these paths do not have."""
        self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = do_POST

    def _answer(self) -> None:
        hosts = self.headers.get_all("Host", [])
        # A body has no meaning here, but the client may send one.
        self._may_send_more = bool(
            {"content-length", "transfer-encoding"} & {name.lower() for name in self.headers}
        )
        try:
            path = urlsplit(self.path)
            name = urlsplit(f"//{path.netloc or ''.join(hosts)}").hostname or ""
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        has_host = len(hosts) == 1 or (not hosts and self.request_version == "HTTP/1.0")
        if not self.rfile.is_whole or self.request_version == "HTTP/0.9" or not has_host:
            self.send_error(HTTPStatus.BAD_REQUEST)
        # Without a token a request must name this machine, which a foreign page cannot do by DNS
        # rebinding.
        elif not self._mine.token and not is_loopback(name):
            self._send_text(HTTPStatus.FORBIDDEN, "this name is not this server's")
        elif not self._has_token(path.query):
            text = "the token is missing or wrong"
            self._send_text(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})
        else:
            self.server.accept(self.connection)
            mine = self._mine
            answers = {
                "/": lambda: self._send(HTTPStatus.OK, "text/html; charset=utf-8", mine.page),
                "/frames": self._frames,
                "/stream": self._stream,
                "/events": self._events,
                "/snapshot.jpg": self._snapshot,
                "/detections": lambda: self._send_json(mine.view.snapshot().found),
                "/status": lambda: self._send_json(json.dumps(mine.status())),
                "/metrics": self._metrics,
            }
            if path.path in answers:
                answers[path.path]()
            else:
                text = f"there is nothing here; there are {' '.join(answers)}"
                self._send_text(HTTPStatus.NOT_FOUND, text)

    @property
    def _mine(self) -> Server:
        return self.server.mine

    def _has_token(self, query: str) -> bool:
        """Return whether the token was given, and no wrong one with it."""
        wanted = self._mine.token.encode()
        given = [token.encode() for token in parse_qs(query, True).get("token", ())]
        for said in self.headers.get_all("Authorization", ()):
            scheme, _, token = said.partition(" ")
            if scheme.lower() == "bearer":
                given.append(token.strip().encode("latin-1"))  # the bytes as they came
        right = [hmac.compare_digest(token, wanted) for token in given]
        return not wanted or (any(right) and all(right))

    def _snapshot(self) -> None:
        jpeg = self._mine.view.snapshot().jpeg
        if jpeg:
            self._send(HTTPStatus.OK, "image/jpeg", jpeg)
        else:
            self._send_text(HTTPStatus.SERVICE_UNAVAILABLE, "there is no frame yet")

    def _metrics(self) -> None:
        kind = "text/plain; version=0.0.4; charset=utf-8"
        self._send(HTTPStatus.OK, kind, "".join(_metric_lines(self._mine.status())).encode())

    def _stream(self) -> None:
        """Send MJPEG.

        The boundary and the next part's headers follow each image at once: browsers and others show
        an image only when they come.
        """
        kind = "multipart/x-mixed-replace; boundary=frame"
        with self._viewer(kind, self._mine.image_slots) as begun:
            if begun:
                self.wfile.write(_PART)
                for frame, _ in self._news(has_image=True, has_status=False):
                    if frame is not None:
                        self.wfile.write(frame.jpeg + b"\r\n" + _PART)

    def _frames(self) -> None:
        """Send the page each image together with its objects.

        A message is the sizes of JSON and JPEG, 4 bytes each, and both of them. The panel's numbers
        are a message without a JPEG.
        """
        with self._viewer("application/octet-stream", self._mine.image_slots) as begun:
            for frame, status in self._news(has_image=True) if begun else ():
                if status:
                    self._send_message(f'{{"status": {status}}}', b"")
                if frame is not None:
                    self._send_message(frame.found, frame.jpeg)

    def _send_message(self, text: str, jpeg: bytes) -> None:
        sizes = b"".join(size.to_bytes(4, "big") for size in (len(text.encode()), len(jpeg)))
        self.wfile.write(sizes + text.encode() + jpeg)

    def _events(self) -> None:
        with self._viewer("text/event-stream", self._mine.event_slots) as begun:
            for frame, status in self._news(has_image=False) if begun else ():
                if status:
                    self.wfile.write(f"event: status\ndata: {status}\n\n".encode())
                if frame is not None:
                    self.wfile.write(f"data: {frame.found}\n\n".encode())

    @contextmanager
    def _viewer(self, kind: str, slots: threading.Semaphore) -> Iterator[bool]:
        """Begin an endless answer; give whether there is room and a body is wanted."""
        if not slots.acquire(blocking=False):
            self._send_text(HTTPStatus.SERVICE_UNAVAILABLE, "too many are looking")
            yield False
            return
        try:
            self._begin(HTTPStatus.OK, {"Content-Type": kind})
            yield self.command != "HEAD"
        finally:
            slots.release()

    def _news(
        self, *, has_image: bool, has_status: bool = True
    ) -> Iterator[tuple[Snapshot | None, str]]:
        """Yield each new frame or None, and the panel's numbers once a second or an empty text.

        The newest frame comes at once, as the source may not give another for a long time.
        """
        view = self._mine.view
        number, due = 0, 0.0
        view.watch(has_image)
        try:
            while not view.is_closed:
                now = time.monotonic()
                status = ""
                if has_status and now >= due:
                    due = now + _STATUS_S
                    status = json.dumps(self._mine.status())
                    yield None, status
                frame = view.wait(number, due - now if has_status else _STATUS_S)
                if frame is not None:
                    if has_image and not frame.jpeg:  # nobody was viewing when it came
                        frame = view.snapshot()
                    number = frame.number
                    yield frame, ""
        finally:
            view.watch(-has_image)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in a line of text, which repeats nothing of the request."""
        self.request_version = "HTTP/1.1"  # HTTP/0.9 has no status
        self._may_send_more = True
        status = HTTPStatus(code)
        allow = {"Allow": "GET, HEAD"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}
        self._send_text(status, status.phrase.lower(), allow)

    def _send_text(self, status: HTTPStatus, text: str, more: Mapping[str, str] = {}) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode(), more)

    def _send_json(self, text: str) -> None:
        self._send(HTTPStatus.OK, "application/json", f"{text}\n".encode())

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, more: Mapping[str, str] = {}
    ) -> None:
        self._begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **more})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _begin(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        self._is_answered = True
        self.send_response(status)
        policy = (
            "default-src 'none'; img-src 'self'; connect-src 'self'; "
            "script-src 'unsafe-inline'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        )
        always = {
            "Connection": "close", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff", "Content-Security-Policy": policy,
        }  # fmt: skip
        for name, value in {**headers, **always}.items():
            self.send_header(name, value)
        self.end_headers()

    def finish(self) -> None:
        """Read some of the client's remaining bytes; otherwise a reset would lose the answer."""
        super().finish()
        if self._may_send_more:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.settimeout(_STATUS_S)
                for _ in range(16):
                    if not self.connection.recv(1 << 16):
                        return

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests contain the token."""


def _metric_lines(status: Mapping[str, Any]) -> list[str]:
    """Return Prometheus' text: numbers by their names, mappings of numbers with a label."""
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
