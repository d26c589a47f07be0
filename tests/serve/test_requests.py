"""Whatever is sent to the port of ``serve`` gets a proper status, and makes nothing grow."""

from __future__ import annotations

import logging
import random
import re
import socket
import threading
from contextlib import ExitStack

import numpy as np
import pytest

from rknn_runtime import Detections
from rknn_runtime.tools.bench.board import resident_kb
from rknn_runtime.tools.serve import LiveView, Server

pytest.importorskip("PIL.Image")
HOST = b"Host: localhost\r\n"
GET = b"GET /status HTTP/1.1\r\n" + HOST
STATUS = {"fps": 1.0}


@pytest.fixture
def server():
    """Without a token."""
    view = LiveView()
    view.publish(np.zeros((32, 32, 3), np.uint8), Detections.empty(), {})
    with Server(view, lambda: STATUS) as server:
        yield server


@pytest.fixture(scope="module")
def shared():
    """The same, for tests that leave nothing behind: a server takes half a second to end."""
    with Server(LiveView(), lambda: STATUS) as server:
        yield server


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def told(server: Server, data: bytes, hangs_up: bool = True) -> bytes:
    """Send something, and return all that comes until the server hangs up."""
    with connected(server) as client:
        client.sendall(data)
        if hangs_up:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while part := client.recv(1 << 16):
            answer += part
        return answer


def statuses(answer: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"^HTTP/1\.1 (\d+) ", answer, re.M)]


REQUESTS = {
    "right": (GET + b"\r\n", [200]),
    "newlines alone": (b"GET /status HTTP/1.1\nHost: localhost\n\n", [200]),
    "empty lines before": (b"\r\n\r\n" + GET + b"\r\n", [200]),
    "long line": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", [414]),
    "endless line": (b"a" * 100_000, [414]),
    "long header": (GET + b"X: " + b"a" * 20_000 + b"\r\n\r\n", [431]),
    "many headers": (GET + b"X: a\r\n" * 500 + b"\r\n", [431]),
    "headers of 100 kB": (GET + b"X: aaaaaaaaaaaaaaaa\r\n" * 5000 + b"\r\n", [431]),
    "no host": (b"GET /status HTTP/1.1\r\n\r\n", [400]),
    "two hosts": (GET + HOST + b"\r\n", [400]),
    "host that is none": (b"GET / HTTP/1.1\r\nHost: [\r\n\r\n", [400]),
    "foreign host": (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", [403]),
    "no host in HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", [403]),
    "HTTP/0.9": (b"GET /\r\n", [400]),
    "HTTP/1.0": (b"GET /status HTTP/1.0\r\n" + HOST + b"\r\n", [200]),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505]),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", [505]),
    "no version": (b"GET / HTTP/x\r\n" + HOST + b"\r\n", [400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00\n" * 9, [400]),
    "nothing": (b"", []),
    "cut": (b"GET /sta", [400]),
    "cut headers": (GET, [400]),
    "HEAD": (b"HEAD /status HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "HEAD of what does not end": (b"HEAD /stream HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "POST": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", [405]),
    "large POST": (b"POST / HTTP/1.1\r\n" + HOST + b"\r\n" + b"a" * 300_000, [405]),
    "PUT": (b"PUT /x HTTP/1.1\r\n" + HOST + b"\r\n", [405]),
    "OPTIONS": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", [405]),
    "CONNECT": (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", [405]),
    "a method of nobody": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", [501]),
    "..": (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "%2e%2e": (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "%00": (b"GET /status%00 HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "a null": (b"GET /sta\0tus HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "non-ASCII": ("GET /é?token=ü HTTP/1.1\r\nHost: localhost\r\nX: ß\r\n\r\n".encode(), [404]),
    "no text": (b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"X: \xff\r\n\r\n", [404]),
    "absolute": (b"GET http://localhost/status HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "absolute, foreign": (b"GET http://evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n", [403]),
    "absolute, none": (b"GET http://[/ HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "websocket": (
        b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        [200],
    ),
    "three in a row": ((GET + b"\r\n") * 3, [200] * 3),
    "a body is no request": (GET + b"Content-Length: 60\r\n\r\n" + GET + b"\r\n", [200]),
    "chunks are no request": (GET + b"Transfer-Encoding: chunked\r\n\r\n" + GET + b"\r\n", [200]),
    "a wrong one ends the row": (GET + b"\r\nGET /\r\n" + GET + b"\r\n", [200, 400]),
    "a folded header": (GET + b"X: a\r\n b\r\n\r\n", [200]),
    "a header without a colon": (GET + b"nothing\r\n\r\n", [200]),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_has_its_status(shared, name, caplog):
    """As HTTP has it; nothing of the request is repeated, and nothing is logged."""
    data, expected = REQUESTS[name]
    answer = told(shared, data)
    assert caplog.records == []
    assert statuses(answer) == expected
    assert b"Traceback" not in answer and b"etc/passwd" not in answer and b"<" not in answer[:300]
    if name.startswith("HEAD"):
        assert answer.endswith(b"\r\n\r\n")


def test_who_may_stay(shared):
    """HTTP/1.1 until it says otherwise, HTTP/1.0 when it asks for it; what is refused goes."""
    old = b"GET /status HTTP/1.0\r\n" + HOST
    for first, stays in (
        (GET, True), (GET + b"Connection: close\r\n", False),
        (old, False), (old + b"Connection: keep-alive\r\n", True),
        (b"PUT / HTTP/1.1\r\n" + HOST, False),
    ):  # fmt: skip
        answer = told(shared, first + b"\r\n" + GET + b"\r\n")
        assert len(statuses(answer)) == 1 + stays
        assert (b"\r\nConnection: close\r\n" in answer.partition(b"\r\n\r\n")[0] + b"\r\n") != stays
    assert b"\r\nConnection: keep-alive\r\n" in told(
        shared, old + b"Connection: keep-alive\r\n\r\n"
    )


@pytest.mark.parametrize("secret", ["secret", "gehe\u00edm & #+%?", "a" * 500])
def test_tokens(secret, caplog):
    """In the query or as a bearer's, in UTF-8; of several, each is right."""
    from urllib.parse import quote

    good, header = quote(secret, safe="").encode(), secret.encode()
    with Server(LiveView(), lambda: STATUS, token=secret) as server:
        for query, headers, status in (
            (b"?token=" + good, b"", 200),
            (b"?x=1&token=" + good + b"&y", b"", 200),
            (b"", b"Authorization: Bearer " + header + b"\r\n", 200),
            (b"", b"authorization: bearer " + header + b"\r\n", 200),
            (b"?token=" + good, b"Authorization: Basic eDp5\r\n", 200),
            (b"", b"", 401),
            (b"?token=", b"", 401),
            (b"?token", b"", 401),
            (b"?token=" + good + b"x", b"", 401),
            (b"?token=%ff%fe", b"", 401),
            (b"?token=wrong&token=" + good, b"", 401),
            (b"?token=" + good + b"&token=wrong", b"", 401),
            (b"?token=" + good, b"Authorization: Bearer wrong\r\n", 401),
            (b"?token=wrong", b"Authorization: Bearer " + header + b"\r\n", 401),
            (b"", b"Authorization: " + header + b"\r\n", 401),
            (b"", b"Authorization: Basic " + header + b"\r\n", 401),
            (b"", b"Cookie: token=" + good + b"\r\n", 401),
            (b"", b"X-Token: " + header + b"\r\n", 401),
            (b"#token=" + good, b"", 401),
            (b"/token=" + good, b"", 401),
            (b"?TOKEN=" + good, b"", 401),
        ):
            request = b"GET /status%s HTTP/1.1\r\nHost: board\r\n%s\r\n" % (query, headers)
            answer = told(server, request)
            assert statuses(answer) == [status], request
            assert (b"WWW-Authenticate: Bearer\r\n" in answer) == (status == 401)
    assert caplog.records == []


def test_a_token_that_is_no_text():
    """As of arguments in another encoding: refused at once, not at each request."""
    with pytest.raises(ValueError, match="token: expected text in UTF-8"):
        Server(LiveView(), dict, token="\udcff")


def test_who_sends_slowly(server, monkeypatch):
    """A byte now and then keeps no thread for ever: the whole request has its time."""
    monkeypatch.setattr("rknn_runtime.tools.serve.connection.PATIENCE_S", 1.0)
    ended = threading.Event()
    for sent, expected in ((b"GET / HTTP/1.1\r\nX: ", [408]), (b"", [])):
        with connected(server) as client:

            def drip(client: socket.socket = client, sent: bytes = sent) -> None:
                try:
                    client.sendall(sent)
                    while sent and not ended.wait(0.02):
                        client.sendall(b"x")
                except OSError:
                    pass

            thread = threading.Thread(target=drip)
            thread.start()
            answer = b""
            try:
                while part := client.recv(1 << 12):
                    answer += part
            except ConnectionResetError:
                pass
            ended.set()
            thread.join()
            ended.clear()
        assert statuses(answer) == expected


def test_more_clients_than_there_is_room_for(server, monkeypatch):
    """Threads are no more than those; one above is told, and comes in when another one goes."""
    monkeypatch.setattr("rknn_runtime.tools.serve.connection.PATIENCE_S", 60.0)  # on a slow machine
    room = 2 * 32 + 32
    before = threading.active_count()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(room)]
        for client in clients:
            client.sendall(GET)  # without its end
        while threading.active_count() < before + room:
            threading.Event().wait(0.01)
        for _ in range(20):
            assert statuses(told(server, GET + b"\r\n", hangs_up=False)) == [503]
        assert threading.active_count() == before + room
        clients[0].sendall(b"Connection: close\r\n\r\n")
        assert statuses(clients[0].recv(1 << 16)) == [200]
        while threading.active_count() == before + room:
            threading.Event().wait(0.01)
        assert statuses(told(server, GET + b"\r\n")) == [200]


def test_nothing_grows(server):
    """Thousands of requests, right, wrong and torn: no thread is left, and memory stays."""
    random_ = random.Random(1)
    rows = [data for data, _ in REQUESTS.values()]

    def round_() -> None:
        for data in random_.sample(rows, len(rows)):
            cut = random_.randrange(len(data) + 1)
            told(server, data[:cut])
            noise = bytearray(data[:2000])
            for _ in range(3 if noise else 0):
                noise[random_.randrange(len(noise))] = random_.randrange(256)
            told(server, bytes(noise))

    before = threading.active_count()
    for _ in range(5):
        round_()
    kilobytes = resident_kb()
    for _ in range(25):
        round_()
    assert resident_kb() - kilobytes < 4000
    while threading.active_count() > before:
        threading.Event().wait(0.01)
    assert statuses(told(server, GET + b"\r\n")) == [200]


def test_an_error_of_ours_has_a_status(caplog):
    """And one line in the log, however often it is asked for."""
    numbers = iter([RuntimeError("planted")] * 3)

    def status() -> dict:
        raise next(numbers)

    with Server(LiveView(), status) as server:
        for _ in range(2):
            assert statuses(told(server, GET + b"\r\n")) == [500]
        events = told(server, b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n")
        assert statuses(events) == [200]  # it had begun
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "a request could not be answered: RuntimeError('planted')"
