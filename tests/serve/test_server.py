"""The server of a live view: who gets what, and who is sent away."""

from __future__ import annotations

import http.client
import io
import json
import logging
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from bundles import one_object
from paths import PROJECT
from planting import classification, keypoints, scene, text
from rtsp import RtspServer

from rknn_runtime import Detections
from rknn_runtime.streams import FrameSource
from rknn_runtime.tools.board import resident_kb
from rknn_runtime.tools.serve import LiveView, Server, is_loopback

Image = pytest.importorskip("PIL.Image")
FOUND = Detections(
    np.array([[8, 8, 24, 24]], np.float32), np.array([0.5], np.float32), np.array([1], np.int32)
)
STATUS = {"fps": 12.5, "phase ms": {"run": 3, 'a"b': 4}, "source": "camera"}


def image(value: int = 0, side: int = 32) -> np.ndarray:
    return np.full((side, side, 3), value, np.uint8)


@pytest.fixture
def view():
    return LiveView(["cat", "dog"])


@pytest.fixture
def server(view):
    with Server(view, lambda: STATUS) as server:
        yield server


def get(server: Server, path: str, headers=None):
    """Return status, type and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def opened(server: Server, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse()


def test_the_page_needs_nothing_from_elsewhere(server):
    """One file; and no other site may frame it or run a script in it."""
    status, kind, body = get(server, "/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert b"http://" not in body and b"https://" not in body and b"src=" not in body
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=60) as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_the_newest_frame(server, view):
    """As JSON and as JPEG; before the first there is none."""
    assert get(server, "/detections")[2] == b"{}\n"
    assert get(server, "/snapshot.jpg")[0] == 503
    for value in (10, 200):
        view.publish(image(value), FOUND, {"source": "camera", "frame": value})
    found = json.loads(get(server, "/detections")[2])
    assert (found["number"], found["frame"], found["width"]) == (2, 200, 32)
    assert found["detections"][0]["label"] == "dog"
    _, kind, body = get(server, "/snapshot.jpg")
    assert kind == "image/jpeg"
    with Image.open(io.BytesIO(body)) as jpeg:
        assert jpeg.size == (32, 32) and abs(jpeg.getpixel((30, 30))[0] - 200) < 5


def test_other_paths_name_those_that_there_are(server):
    """Players and people guess names such as stream.mjpg."""
    status, kind, body = get(server, "/stream.mjpg")
    assert status == 404 and kind.startswith("text/plain")
    assert {b"/stream", b"/snapshot.jpg", b"/detections", b"/metrics"} <= set(body.split())


def test_the_jpeg_of_a_camera_is_passed_through(view, server):
    """A second server that shows the first one's stream sends the same bytes."""
    pytest.importorskip("cv2", minversion="4.7")  # older ones decode what comes by network
    ended = threading.Event()
    ramp = np.arange(64 * 64 * 3, dtype=np.uint16).reshape(64, 64, 3) // 64
    ramp = ramp.astype(np.uint8)

    def feed() -> None:
        while not ended.wait(0.01):
            view.publish(ramp, FOUND, {})

    view.watch(1)
    thread = threading.Thread(target=feed)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.port}/stream"
        with FrameSource(url, reconnect_s=0, keep_jpeg=True) as frames:
            frame = next(frames)
    finally:
        ended.set()
        thread.join()
    assert frame.jpeg == view.snapshot().jpeg
    assert np.abs(frame.image.astype(int) - ramp).mean() < 3  # the same image
    passed, drawn = LiveView(), LiveView(draw=True)
    for each in (passed, drawn):
        each.publish(frame.image, FOUND, {}, frame.jpeg)
    assert passed.snapshot().jpeg == frame.jpeg
    assert drawn.snapshot().jpeg != frame.jpeg  # its objects are in the image
    with pytest.raises(TypeError, match="jpeg: expected bytes"):
        passed.publish(frame.image, FOUND, {}, "jpeg")


def test_numbers(server):
    """As JSON, and as Prometheus reads them; texts are none."""
    assert json.loads(get(server, "/status")[2]) == STATUS
    lines = get(server, "/metrics")[2].decode().splitlines()
    assert lines == [
        "rknn_fps 12.5", 'rknn_phase_ms{name="run"} 3', 'rknn_phase_ms{name="a\\"b"} 4'
    ]  # fmt: skip


def test_images_follow_each_other(server, view):
    """A viewer gets the newest at once, then each that comes, with all that makes it show it."""
    view.publish(image(10), FOUND, {})
    answer = opened(server, "/stream")
    assert answer.headers["Content-Type"] == "multipart/x-mixed-replace; boundary=frame"

    part = b"--frame\r\nContent-Type: image/jpeg\r\n\r\n"
    assert answer.read(len(part)) == part

    def next_value() -> int:
        jpeg = b""
        while not jpeg.endswith(b"\r\n" + part):
            jpeg += answer.read(1)
        with Image.open(io.BytesIO(jpeg)) as picture:
            return picture.getpixel((0, 0))[0]

    assert abs(next_value() - 10) < 5
    for value in (100, 200):
        view.publish(image(value), FOUND, {})
        assert abs(next_value() - value) < 5
    view.close()
    assert answer.read() == b""
    answer.close()


def test_picture_and_objects_come_in_one_message(server, view):
    """So a page cannot draw the objects of one frame over the picture of another."""
    view.publish(image(10), FOUND, {})
    answer = opened(server, "/frames")

    def message() -> tuple[dict, bytes]:
        sizes = [int.from_bytes(answer.read(4), "big") for _ in range(2)]
        return json.loads(answer.read(sizes[0])), answer.read(sizes[1])

    assert message() == ({"status": STATUS}, b"")
    for number, side in enumerate((32, 48), 1):
        found, jpeg = message()
        assert (found["number"], found["width"]) == (number, side)
        with Image.open(io.BytesIO(jpeg)) as picture:
            assert picture.size == (side, side)
        view.publish(image(10, 48), FOUND, {})
    view.close()
    answer.close()


def test_events(server, view):
    """The numbers first, then every frame."""
    answer = opened(server, "/events")
    assert answer.readline() == b"event: status\n"
    assert json.loads(answer.readline()[len("data: ") :]) == STATUS
    assert answer.readline() == b"\n"
    view.publish(image(), FOUND, {"frame": 7})
    assert json.loads(answer.readline()[len("data: ") :])["frame"] == 7
    view.close()
    answer.close()


def test_who_reaches_it_from_elsewhere_needs_a_token(view):
    """In the address or as a header; another one is refused, and none is needed on loopback."""
    with pytest.raises(ValueError, match="token: expected one for"):
        Server(view, dict, "0.0.0.0")
    with Server(view, lambda: STATUS, "0.0.0.0", token="secret") as server:
        for path in ("/", "/stream", "/events", "/snapshot.jpg", "/detections", "/metrics"):
            assert get(server, path)[0] == get(server, f"{path}?token=wrong")[0] == 401
        assert get(server, "/?token=secret")[0] == 200
        assert get(server, "/status", {"Authorization": "Bearer secret"})[0] == 200
        assert get(server, "/status", {"Authorization": "Bearer s\u00e9cret"})[0] == 401
    assert [is_loopback(host) for host in ("127.0.0.9", "::1", "localhost", "[::1]")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "board", "")] == [False] * 4


def test_too_many_viewers(view):
    """One more than there is room for is told so, and has room when another one leaves."""
    with Server(view, lambda: STATUS, viewers=2) as server:
        view.publish(image(), FOUND, {})
        first = [opened(server, path) for path in ("/stream", "/events") * 2]
        assert [each.status for each in first] == [200] * 4
        assert get(server, "/stream")[0] == get(server, "/events")[0] == 503
        assert get(server, "/detections")[0] == 200
        view.close()
        for each in first:
            each.read()
            each.close()


def test_slow_clients_make_nothing_grow(view):
    """A hundred that read nothing, while frames go on: memory stays, and the others are served."""
    with Server(view, lambda: STATUS, viewers=100) as server:
        noise = np.random.default_rng(1).integers(0, 256, (240, 320, 3)).astype(np.uint8)
        view.publish(noise, FOUND, {})
        clients = []
        for _ in range(100):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            client.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            clients.append(client)
        while view.watchers < 100:
            threading.Event().wait(0.01)
        for _ in range(20):
            view.publish(noise, FOUND, {})
        before = resident_kb()
        for _ in range(200):
            view.publish(noise, FOUND, {})
        assert resident_kb() - before < 8000  # 200 images are 15 MB, for each of them
        assert get(server, "/snapshot.jpg")[0] == 200
        for client in clients:
            client.close()


HOST = b"Host: localhost\r\n"
GET = b"GET /status HTTP/1.1\r\n" + HOST


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
    "long line": (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", [414]),
    "endless line": (b"a" * 100_000, [414]),
    "long header": (GET + b"X: " + b"a" * 20_000 + b"\r\n\r\n", [431]),
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
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00\n" * 9, [400]),
    "nothing": (b"", []),
    "cut": (b"GET /sta", [400]),
    "cut headers": (GET, [400]),
    "HEAD": (b"HEAD /status HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "HEAD of what does not end": (b"HEAD /stream HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "POST": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc", [405]),
    "CONNECT": (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", [405]),
    "a method of nobody": (b"BREW / HTTP/1.1\r\n" + HOST + b"\r\n", [501]),
    "..": (b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "%2e%2e": (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "%00": (b"GET /status%00 HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "a null": (b"GET /sta\0tus HTTP/1.1\r\n" + HOST + b"\r\n", [404]),
    "no text": (b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"X: \xff\r\n\r\n", [404]),
    "absolute": (b"GET http://localhost/status HTTP/1.1\r\n" + HOST + b"\r\n", [200]),
    "absolute, foreign": (b"GET http://evil.example/ HTTP/1.1\r\n" + HOST + b"\r\n", [403]),
    "absolute, none": (b"GET http://[/ HTTP/1.1\r\n" + HOST + b"\r\n", [400]),
    "websocket": (
        b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        [200],
    ),
    "a body is no request": (GET + b"Content-Length: 60\r\n\r\n" + GET + b"\r\n", [200]),
    "chunks are no request": (GET + b"Transfer-Encoding: chunked\r\n\r\n" + GET + b"\r\n", [200]),
    "a folded header": (GET + b"X: a\r\n b\r\n\r\n", [200]),
    "a header without a colon": (GET + b"nothing\r\n\r\n", [200]),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_has_its_status(server, name, caplog):
    """As HTTP has it; nothing of the request is repeated, and nothing is logged."""
    data, expected = REQUESTS[name]
    answer = told(server, data)
    assert caplog.records == []
    assert statuses(answer) == expected
    assert b"Traceback" not in answer and b"etc/passwd" not in answer and b"<" not in answer[:300]
    if name.startswith("HEAD"):
        assert answer.endswith(b"\r\n\r\n")


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


BLACK = np.zeros((2, 2, 3), np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: LiveView(draw=1), TypeError, "draw: expected a bool, got 1"),
        (lambda: LiveView().publish([], FOUND, {}), TypeError, "array of uint8, got list"),
        (lambda: LiveView().publish(BLACK + 1.0, FOUND, {}), TypeError, "uint8, got float64"),
        (lambda: LiveView().publish(BLACK[0], FOUND, {}), ValueError, "(H, W, 3), got (2, 3)"),
        (lambda: LiveView().publish(BLACK[:0], FOUND, {}), ValueError, "got (0, 2, 3)"),
        (
            lambda: LiveView().publish(np.repeat(BLACK, 32768, 0), FOUND, {}),
            ValueError, "up to 65500 pixels a side, got (65536, 2, 3)",
        ),
        (lambda: LiveView().publish(BLACK, 3, {}), TypeError, "result of a task, got int"),
        (lambda: Server(None, dict), TypeError, "view: expected a LiveView, got None"),
        (lambda: Server(LiveView(), {}), TypeError, "status: expected a callable, got {}"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_refused(call, error, words):
    """Before a viewer gets it."""
    with pytest.raises(error, match=re.escape(words)):
        call()


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        client.settimeout(60)


def test_who_sends_slowly(server, monkeypatch):
    """A byte now and then keeps no connection: the whole request has its time."""
    monkeypatch.setattr("rknn_runtime.tools.serve.PATIENCE_S", 0.5)
    with connected(server) as slow, connected(server) as silent:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        began = time.monotonic()
        while is_open(slow) or is_open(silent):
            with suppress(OSError):
                slow.sendall(b"x")
            threading.Event().wait(0.02)
            assert time.monotonic() - began < 30


def test_slow_clients_lock_nobody_out(server):
    """Of one address's 150 the last 16 stay, and neither others nor itself are kept away."""
    with ExitStack() as stack:
        clients = []
        for _ in range(150):
            clients.append(stack.enter_context(connected(server)))
            clients[-1].sendall(GET)  # without its end
        assert statuses(told(server, GET + b"\r\n")) == [200]
        assert sum(map(is_open, clients)) <= 16
        clients[-1].sendall(b"\r\n")
        assert statuses(clients[-1].recv(1 << 16)) == [200]


def test_the_oldest_that_waits_goes_when_there_is_no_room(monkeypatch):
    """Whatever its address is; one that was let in stays, and when all were, the next is told."""
    monkeypatch.setattr("rknn_runtime.tools.serve._MOST_BRIEF", 0)
    with Server(LiveView(), lambda: STATUS, viewers=1) as server, ExitStack() as stack:
        answer = opened(server, "/events")
        assert answer.status == 200  # one of two places
        first = stack.enter_context(connected(server))
        first.sendall(GET)
        assert statuses(told(server, GET + b"\r\n")) == [200]  # in the place of the first
        assert not first.recv(1)
        server._listener._room = 1
        for _ in range(1000):  # until the threads of the requests before have ended
            if statuses(told(server, b"", hangs_up=False)) == [503]:
                break
        else:
            pytest.fail("all were let in")
        assert answer.readline() == b"event: status\n"
        answer.close()


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
    for _ in range(10):
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


@pytest.fixture
def model(tmp_path):
    """A detector that always sees a star."""
    path = tmp_path / "model.rknn"
    path.write_bytes(one_object(json.dumps({"labels": ["disc", "star"]})))
    return path


def started(model, source, *options, **variables):
    """A command that serves a source; its first line is its address."""
    words = ["serve", str(model), str(source), "--sim", "--listen", "127.0.0.1:0", *options]
    return subprocess.Popen(
        [sys.executable, "-m", "rknn_runtime", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **variables},
    )


@pytest.fixture
def command(model, tmp_path):
    """A command that serves three images; its process and address."""
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(3):
        Image.new("RGB", (96, 64), (10, 20, 60 * i)).save(folder / f"{i}.png")
    process = started(model, folder, "--loop")
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    yield process, address
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_the_command(command):
    """It prints its address, shows the objects, and ends with Ctrl-C."""
    process, address = command
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    events = urllib.request.urlopen(f"{address}events", timeout=60)
    while not (line := events.readline()).startswith(b'data: {"number"'):
        pass
    found = json.loads(line[len("data: ") :])
    assert found["detections"][0]["label"] == "star" and found["width"] == 96
    with urllib.request.urlopen(f"{address}status", timeout=60) as answer:
        status = json.loads(answer.read())
    assert status["frames"] >= 1 and "run" in status["phase ms"]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "rknn-runtime: stopped\n")
    events.close()


def test_every_task(tmp_path, monkeypatch):
    """Results are JSON, or in the image if the page cannot draw them."""
    from rknn_runtime.cli import serve
    from rknn_runtime.cli.main import main

    shown: list[tuple[dict, bool]] = []

    class Kept(LiveView):
        def publish(self, image, found, place, jpeg=b""):
            super().publish(image, found, place, jpeg)
            newest = self.snapshot()
            with Image.open(io.BytesIO(newest.jpeg)) as jpeg:
                is_plain = max(high - low for low, high in jpeg.getextrema()) < 9
            shown.append((json.loads(newest.found), is_plain))

    monkeypatch.setattr("rknn_runtime.tools.serve.LiveView", Kept)
    monkeypatch.setattr(serve, "_IMAGE_SECONDS", 0.0)
    paths = {name: tmp_path / f"{name}.rknn" for name in ("scene", "words", "line", "net", "class")}
    paths["scene"].write_bytes(scene.bundle([scene.scores()[:, 1:2]]))
    paths["words"].write_bytes(text.detector(task="text-detection"))
    paths["line"].write_bytes(text.recognizer(characters="abc"))
    paths["net"].write_bytes(keypoints.embedding(np.array([3, 4], np.float32), task="embed"))
    paths["class"].write_bytes(classification.bundle())
    pose = tmp_path / "pose.rknn"
    pose.write_bytes(keypoints.simcc())
    photo = tmp_path / "photo.jpg"
    Image.new("RGB", (128, 64), (10, 20, 30)).save(photo)

    def served(model, *options):
        shown.clear()
        words = [str(model), str(photo), "--sim", "--listen", "127.0.0.1:0", *map(str, options)]
        assert main(["serve", *words]) == 0
        return shown[0]

    found, is_plain = served(paths["scene"], "--task", "semantic", "--conf", "0.4")
    assert found["classes"][0]["label"] == "foreground" and not is_plain
    found, is_plain = served(paths["scene"], "--task", "map")
    assert found["map"] == {"height": 64, "width": 128, "lowest": -4, "highest": 4} and not is_plain
    found, is_plain = served(paths["words"])
    assert len(found["detections"]) == 3 and is_plain  # the page draws it
    found, is_plain = served(paths["words"], "--recognizer", paths["line"])
    assert [line["text"] for line in found["lines"]] == ["cab"] * 3 and not is_plain
    found, is_plain = served(paths["line"])
    assert found["text"] == "cab" and not is_plain
    found, is_plain = served(paths["class"], "--task", "classify", "--top", 2)
    assert len(found["classes"]) == 2 and not is_plain
    found, is_plain = served(paths["net"])
    assert found["embedding"] == pytest.approx([0.6, 0.8]) and is_plain  # nothing to draw
    found, is_plain = served(pose)
    assert len(found["detections"][0]["keypoints"]) == keypoints.COUNT and is_plain


@pytest.mark.parametrize("ending", ["signal", "watchdog"])
def test_a_run_that_hangs_ends_the_command(model, tmp_path, ending):
    """One SIGTERM does, or the watchdog; both say why, with a status that systemd restarts.

    A supervisor hears that it is ready, and nothing more from a watchdog that has given up.
    """
    picture, notify = tmp_path / "0.png", str(tmp_path / "notify")
    Image.new("RGB", (96, 64)).save(picture)
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    inbox.bind(notify)
    inbox.settimeout(60)
    limit = ("--watchdog", "2") if ending == "watchdog" else ()
    hangs = {"RKNN_SIM_LATENCY_US": "600000000", "NOTIFY_SOCKET": notify}
    with inbox, started(model, picture, *limit, **hangs) as process:
        assert inbox.recv(100) == b"READY=1"
        if ending == "signal":
            assert inbox.recv(100) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "ending with status 1" in err and "Traceback" not in err


def test_no_password_of_a_camera_is_shown(model):
    """On no path that is served, nor where the command prints."""
    pytest.importorskip("cv2")
    with RtspServer([image(90, 64)], is_endless=True) as camera:
        process = started(model, camera.url.replace("://", "://me:HIDDEN@"))
        try:
            address = process.stdout.readline().strip()
            with urllib.request.urlopen(f"{address}events", timeout=60) as events:
                while not (line := events.readline()).startswith(b'data: {"number"'):
                    assert b"HIDDEN" not in line
            assert b"rtsp://me:***@127.0.0.1" in line and b"HIDDEN" not in line
            for path in ("", "detections", "status", "metrics", "snapshot.jpg"):
                with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
                    assert b"HIDDEN" not in answer.read()
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert "HIDDEN" not in out + err and process.returncode == 0


def test_a_camera_that_goes_is_told(model, monkeypatch, capsys):
    """The command ends, with the reason and the status of a failure."""
    pytest.importorskip("cv2")
    from rknn_runtime.cli import main, sources

    monkeypatch.setattr(sources, "RECONNECT_S", 0.0)
    with RtspServer([image(90, 64)] * 3) as camera:
        url = camera.url.replace("://", "://me:HIDDEN@")
        assert main(["serve", str(model), url, "--sim", "--listen", "127.0.0.1:0"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("rknn-runtime: rtsp://me:***@127.0.0.1:") and "broke off" in err


def test_the_end_of_a_folder_is_told(model, tmp_path, monkeypatch, capsys):
    """A server that ends without a word looks like one that broke."""
    from rknn_runtime.cli import main, serve

    monkeypatch.setattr(serve, "_IMAGE_SECONDS", 0.0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(2):
        Image.new("RGB", (96, 64)).save(folder / f"{i}.png")
    assert main(["serve", str(model), str(folder), "--sim", "--listen", "127.0.0.1:0"]) == 0
    assert capsys.readouterr().err == f"rknn-runtime: the end of {folder} after 2 frames\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "8080"], "--listen: expected HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "--listen: expected HOST:PORT"),
        (["--viewers", "0"], "--viewers: expected 1 to 1000"),
        (["--quality", "96"], "--quality: expected 1 to 95"),
        (["--conf", "2"], "--conf: expected 0 to 1"),
        (["--watchdog", "-1"], "--watchdog: expected seconds, 0 or more, got -1.0"),
        (["--reconnect", "nan"], "--reconnect: expected seconds, 0 or more, got nan"),
    ],
)
def test_nonsense_is_refused(model, tmp_path, capsys, arguments, message):
    """In one line."""
    from rknn_runtime.cli import main

    assert main(["serve", str(model), str(tmp_path), "--sim", *arguments]) == 1
    assert message in capsys.readouterr().err
