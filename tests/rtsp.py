"""A camera on the network for tests: an RTSP server that sends JPEG in its TCP connection."""

from __future__ import annotations

import io
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any

import numpy as np
from PIL import Image

_PAYLOAD = 26  # JPEG, by RFC 3551
_PART = 1400  # bytes of a frame in one packet
_HERTZ, _FPS = 90_000, 25


class RtspServer:
    """Sends images to one client, once or for ever, and hangs up.

    Speaks the needed part of RTSP 1.0 (RFC 2326), and RTP of JPEG (RFC 2435).

    Attributes:
        url: To open.
        is_done: Whether all images were sent.
    """

    def __init__(
        self, images: Sequence[np.ndarray[Any, Any]], *, is_endless: bool = False, port: int = 0
    ) -> None:
        """Take ``(H, W, 3) uint8`` images, BGR, of sides that are multiples of 16."""
        self._images, self._is_endless = images, is_endless
        self._listener = socket.create_server(("127.0.0.1", port))
        self.url = f"rtsp://127.0.0.1:{self._listener.getsockname()[1]}/camera"
        self.is_done = False
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> RtspServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._refuse()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):  # nobody came, or the client went
            connection, _ = self._listener.accept()
            with connection:
                self._answer(connection)
            self.is_done = True
        self._refuse()

    def _refuse(self) -> None:
        """Let nobody in any more; wakes `accept`."""
        with suppress(OSError):  # done already
            self._listener.shutdown(socket.SHUT_RDWR)

    def _answer(self, connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        while True:
            request = lines.readline().split()
            if not request:
                return
            headers = dict(line.split(b": ", 1) for line in iter(lines.readline, b"\r\n"))
            method = request[0].decode()
            body, fields = b"", [b"CSeq: " + headers[b"CSeq"].strip(), b"Session: 1"]
            if method == "OPTIONS":
                fields.append(b"Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN")
            elif method == "DESCRIBE":
                body = (
                    f"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\n"
                    f"m=video 0 RTP/AVP {_PAYLOAD}\r\na=framerate:{_FPS}\r\na=control:0\r\n"
                ).encode()
                fields += [b"Content-Type: application/sdp", b"Content-Length: %d" % len(body)]
            elif method == "SETUP":
                fields.append(b"Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
            connection.sendall(b"\r\n".join([b"RTSP/1.0 200 OK", *fields, b"", body]))
            if method == "PLAY":
                images = cycle(self._images) if self._is_endless else self._images
                for packet in _packets(images):
                    connection.sendall(b"$\0" + struct.pack(">H", len(packet)) + packet)
                return


def _packets(images: Iterable[np.ndarray[Any, Any]]) -> Iterator[bytes]:
    sequence = 0
    for number, image in enumerate(images):
        height, width, _ = image.shape
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(image[..., ::-1])).save(
            file, "JPEG", quality=95, subsampling="4:2:0"
        )
        tables, scan = _parts_of(file.getvalue())
        for begin in range(0, len(scan), _PART):
            part = scan[begin : begin + _PART]
            is_last = begin + _PART >= len(scan)
            time = number * _HERTZ // _FPS % 2**32
            rtp = struct.pack(">BBHII", 0x80, is_last << 7 | _PAYLOAD, sequence, time, 1)
            # 1: 4:2:0. 255: the tables are in the first packet of each frame.
            jpeg = struct.pack(">IBBBB", begin, 1, 255, width // 8, height // 8)
            if begin == 0:
                jpeg += struct.pack(">HH", 0, len(tables)) + tables
            yield rtp + jpeg + part
            sequence = (sequence + 1) % 2**16


def _parts_of(jpeg: bytes) -> tuple[bytes, bytes]:
    """Return the quantization tables of a JPEG file, and the data coded by them."""
    tables, at = b"", 2
    while True:
        marker, size = struct.unpack_from(">HH", jpeg, at)
        segment = jpeg[at + 4 : at + 2 + size]
        at += 2 + size
        if marker == 0xFFDB:
            for begin in range(0, len(segment), 65):
                tables += segment[begin + 1 : begin + 65]
        elif marker == 0xFFDA:
            return tables, jpeg[at:-2]
