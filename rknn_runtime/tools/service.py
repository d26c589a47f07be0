"""Run under a supervisor such as systemd: report the program's state, and end it when it hangs."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

__all__ = ["Watchdog", "end_now", "notify"]

#: Seconds between two checks.
_LOOK_S = 1.0


def notify(message: str) -> None:
    """Send systemd a message such as ``READY=1``; do nothing without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    if address.startswith("@"):  # an abstract address
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as place:
        place.settimeout(_LOOK_S)
        place.sendto(message.encode(), address)


def end_now(reason: str) -> NoReturn:
    """End this process with status 1, without waiting for threads that do not end."""
    logging.getLogger("rknn_runtime").error("%s", reason)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(1)


class Watchdog:
    """A thread that ends the process when something hangs; a context manager that stops it.

    While nothing hangs it says so to systemd once a second, for ``WatchdogSec=``.

    Args:
        hangs_s: Returns for how many seconds the same piece of work has lasted.
        limit_s: More is too long; 0: no limit.
        what: What hangs then, for the log.
        end: Called with the reason.
    """

    def __init__(
        self,
        hangs_s: Callable[[], float],
        limit_s: float,
        what: str,
        end: Callable[[str], object] = end_now,
    ) -> None:
        self._hangs_s, self._limit_s, self._what, self._end = hangs_s, limit_s, what, end
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            lasted = self._hangs_s()
            if self._limit_s and lasted > self._limit_s:
                notify(f"STATUS={self._what}")
                self._end(f"{self._what} for {lasted:.0f} s; ending with status 1")
                return
            notify("WATCHDOG=1")

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
