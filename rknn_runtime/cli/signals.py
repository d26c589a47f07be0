"""Ends a command that is told to end as Ctrl-C does: files are closed, and hold what is done."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Ending", "ended_by_signals"]

#: A supervisor's, and a closed terminal's; 128 and the number is then the exit status.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
#: What comes within so many seconds is the same end: a closed terminal sends several.
_SAME_S = 1.0


class Ending:
    """What a command was told to end by.

    Attributes:
        number: Of the signal; Ctrl-C's where there was no other.
    """

    def __init__(self) -> None:
        self.number: int = signal.SIGINT
        self._came = -_SAME_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if now - self._came < _SAME_S:
            return
        self._came, self.number = now, number
        if number == signal.SIGHUP:
            _leave_terminal()
        raise KeyboardInterrupt


def _leave_terminal() -> None:
    """Let what is still printed go nowhere: to a terminal that is gone it is an error."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream)
                os.close(nowhere)


@contextmanager
def ended_by_signals() -> Iterator[Ending]:
    """Turn SIGTERM and SIGHUP into Ctrl-C within a ``with`` block.

    In the main thread alone, as others get no signals, and only signals that would end the
    process: what ``nohup`` or a program around this one handles stays as it is.
    """
    ending = Ending()
    taken = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    taken.append(number)
                    signal.signal(number, ending)
        yield ending
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
