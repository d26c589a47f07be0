"""Drives Firefox by its own protocol, Marionette: Debian has no geckodriver, as selenium needs."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any


class Firefox:
    """A Firefox without a window, with the methods of selenium's drivers that the tests use."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        Path(self._profile.name, "user.js").write_text(
            f'user_pref("marionette.port", {port});', "utf-8"
        )
        command = ["firefox-esr", "--headless", "--marionette", "--no-remote"]
        self._process = subprocess.Popen(
            [*command, "--profile", self._profile.name],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._socket = self._connect(port)
        self._file = self._socket.makefile("rb")
        self._read()  # its greeting
        self._count = 0
        self._call("WebDriver:NewSession", pageLoadStrategy="none")

    def _connect(self, port: int) -> socket.socket:
        end = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=60)
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def _read(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            size += self._file.read(1)
        return json.loads(self._file.read(int(size[:-1])))

    def _call(self, name: str, **arguments: Any) -> Any:
        self._count += 1
        text = json.dumps([0, self._count, name, arguments]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, value = self._read()
        assert error is None, error
        return value

    def get(self, address: str) -> None:
        """Open a page."""
        self._call("WebDriver:Navigate", url=address)

    def execute_script(self, script: str) -> Any:
        """Return what JavaScript in the page returns."""
        return self._call("WebDriver:ExecuteScript", script=script, args=[])["value"]

    def set_window_size(self, width: int, height: int) -> None:
        """Resize the window."""
        self._call("WebDriver:SetWindowRect", width=width, height=height)

    def save_screenshot(self, path: str) -> None:
        """Write the shown page as PNG."""
        shot = self._call("WebDriver:TakeScreenshot", full=False, hash=False)["value"]
        Path(path).write_bytes(base64.b64decode(shot))

    def quit(self) -> None:
        """End it."""
        self._file.close()
        self._socket.close()
        self._process.terminate()
        self._process.wait(20)
        self._profile.cleanup()
