"""Reads what the kernel and programs print, and says which signs are in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rknn_runtime._files import opened_file
from rknn_runtime.tools.doctor.signs import KERNEL, SIGNS
from rknn_runtime.tools.doctor.tree import Tree

__all__ = [
    "first_match", "line_with", "log_lines", "logged_driver", "logged_runtime", "signs_in",
    "unknown_error",
]  # fmt: skip

#: Searched in lines of small letters: three times as fast as without regard to case.
_SIGNS = {name: re.compile(pattern, re.ASCII) for name, pattern in SIGNS.items()}
_NPU = re.compile(r"rknpu|rknn|rocket|\bnpu\b|galcore", re.ASCII)
#: What a line has to have to be kept: of the kernel, and of a file that was handed in.
_OF_KERNEL = (_NPU, *(_SIGNS[name] for name in KERNEL))
_OF_FILE = (_NPU, *_SIGNS.values())
_ERROR = re.compile(r"\bE RKNN(API)?\b")
_RUNTIME = re.compile(r"rknnm?rt version: ([0-9]+)\.([0-9]+)\.([0-9]+)")
_DRIVER = re.compile(r"(?:driver version|Driver Information,? version|Initialized rknpu):? v?"
                     r"([0-9]+\.[0-9]+\.[0-9]+)")  # fmt: skip
_MOST_LINES = 2000
#: Of a file that is read, of one that may be given, and of a line.
_MOST_BYTES = 1 << 24
_MOST_FILE_BYTES = 1 << 40
_MOST_CHARACTERS = 2000
_SHOWN_CHARACTERS = 200
_FILES = ("/var/log/dmesg", "/var/log/kern.log")


def log_lines(tree: Tree, live: bool, log: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """Read the lines of the kernel's log, and of a file, that speak of the NPU.

    Args:
        tree: Where ``/dev/kmsg`` or ``/var/log`` lie.
        live: It is this machine's own.
        log: A file of what the kernel or a program printed; None: the kernel alone is asked.

    Raises:
        OSError: ``log`` cannot be read.
        ValueError: It is empty, or no regular file.
    """
    lines: list[str] = []
    if log is not None:
        with opened_file(log, _MOST_FILE_BYTES) as data:
            lines += _lines_of(_OF_FILE, bytes(data[:_MOST_BYTES]).decode("utf-8", "replace"))
    kernel = _kernel_messages(tree.path("/dev/kmsg")) if live else ""
    for text in [kernel] if kernel else map(tree.text, _FILES):
        lines += _lines_of(_OF_KERNEL, text)
    return tuple(lines[-_MOST_LINES:])


def _lines_of(topics: Sequence[re.Pattern[str]], text: str) -> list[str]:
    lines = (line[:_MOST_CHARACTERS].strip() for line in text.splitlines())
    return [line for line in lines if _is_said(topics, line)]


def _is_said(signs: Iterable[re.Pattern[str]], line: str) -> bool:
    small = line.lower()
    return any(sign.search(small) for sign in signs)


def _kernel_messages(path: Path) -> str:
    """Read what the kernel keeps of its log: a message a call, until it would wait."""
    found: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # for root only, on most systems
        return ""
    try:
        while len(found) < 100_000:
            try:
                message = os.read(descriptor, 8192)
            except BrokenPipeError:  # overwritten meanwhile: the next one is there
                continue
            if not message:
                break
            found.append(message.partition(b";")[2].partition(b"\n")[0].decode("utf-8", "replace"))
    except OSError:  # the end, for now
        pass
    finally:
        os.close(descriptor)
    return "\n".join(found)


def signs_in(lines: Sequence[str]) -> frozenset[str]:
    """Tell what lines mean."""
    return frozenset(name for name in _SIGNS if line_with(name, lines))


def line_with(sign: str, lines: Sequence[str]) -> str:
    """The first line that means something, as far as a report shows it; empty: none."""
    found = (line for line in lines if _SIGNS[sign].search(line.lower()))
    return next(found, "")[:_SHOWN_CHARACTERS]


def unknown_error(lines: Sequence[str]) -> str:
    """The first line in which a runtime reports an error that no sign knows; empty: none."""
    errors = filter(_ERROR.search, lines)
    return next((line for line in errors if not _is_said(_SIGNS.values(), line)), "")


def first_match(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    """Find a pattern in the first line that has it."""
    return next(filter(None, map(pattern.search, lines)), None)


def logged_runtime(lines: Sequence[str]) -> tuple[int, ...]:
    """Version of the runtime that the log names last; empty: none."""
    for line in reversed(lines):
        match = _RUNTIME.search(line)
        if match:
            return tuple(map(int, match.groups()))
    return ()


def logged_driver(lines: Sequence[str]) -> str:
    """Version of the driver that the log names last; empty: none."""
    for line in reversed(lines):
        match = _DRIVER.search(line)
        if match:
            return match[1]
    return ""
