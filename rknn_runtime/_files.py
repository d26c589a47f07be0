"""Read regular files of a bounded size, replace files, and print names from files.

Nothing is mapped: a mapped file kills the process (SIGBUS) if another program cuts it short. A
FIFO or a device is refused before it is opened, because it could hang or never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

#: Bytes that are read at once if only parts are wanted.
_BLOCK_BYTES = 1 << 14
#: The most that is read of a file of the kernel.
_MOST_KERNEL_BYTES = 1 << 20


class FileView:
    """The bytes of an open file, each block read when it is first asked for, and then kept.

    Slices are bytes, ``len()`` is the size that the file had when it was opened.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._opened_as = self._state()
        self._size = self._opened_as[0]
        self._blocks: dict[int, bytes] = {}

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        """Return bytes, fewer than were asked for at the end of the file; raise as `read_into`."""
        start, stop, _ = part.indices(self._size)
        number = start // _BLOCK_BYTES
        base = number * _BLOCK_BYTES
        if stop > base + _BLOCK_BYTES:
            return self._read(start, stop)
        block = self._blocks.get(number)
        if block is None:
            block = self._read(base, min(base + _BLOCK_BYTES, self._size))
            self._blocks[number] = block
        return block[start - base : stop - base]

    def _read(self, start: int, stop: int) -> bytes:
        parts = []
        while start < stop:
            parts.append(os.pread(self.descriptor, stop - start, start))
            if not parts[-1]:
                raise ValueError(self._changed())
            start += len(parts[-1])
        return b"".join(parts)

    def read_into(self, target: memoryview) -> None:
        """Fill ``target`` with the bytes from the start on.

        Raises:
            OSError: They cannot be read.
            ValueError: The file became shorter.
        """
        done = 0
        while done < len(target):
            with target[done:] as rest:
                count = os.preadv(self.descriptor, [rest], done)
            if not count:
                raise ValueError(self._changed())
            done += count

    def check_unchanged(self) -> None:
        """Raise ValueError when the file was written to, or cut, since it was opened."""
        if self._state() != self._opened_as:
            raise ValueError(self._changed())

    def _state(self) -> tuple[int, int]:
        now = os.fstat(self.descriptor)
        return now.st_size, now.st_mtime_ns

    def _changed(self) -> str:
        return f"{self.path} changed while it was read; wait until it is complete, and try again"


@contextmanager
def opened_file(path: str | os.PathLike[str], most_bytes: int) -> Iterator[FileView]:
    """Open a regular file of at most `most_bytes` for the time of a ``with`` block.

    Call `FileView.check_unchanged` after the last read.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is a directory, a FIFO, a device; empty, or too large.
    """
    name = os.fsdecode(path)
    descriptor = _opened(name)
    try:
        status = os.fstat(descriptor)
        if not status.st_size:
            raise ValueError(f"{name}: expected content, got 0 bytes; copy or make it again")
        if status.st_size > most_bytes:
            raise ValueError(f"{name}: expected at most {most_bytes} bytes, got {status.st_size}")
        yield FileView(name, descriptor)
    finally:
        os.close(descriptor)


def read_file(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Read a regular file of at most `most_bytes` whole.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no regular file, empty, too large, or changed while it was read.
    """
    with opened_file(path, most_bytes) as view:
        content = view[:]
        view.check_unchanged()
        return content


def read_kernel_file(path: str | os.PathLike[str]) -> bytes:
    """Read a file of /proc or /sys, or its beginning; nothing if no regular one can be read."""
    try:
        descriptor = _opened(os.fsdecode(path))
        with open(descriptor, "rb") as file:
            return file.read(_MOST_KERNEL_BYTES) or b""  # None: it would have to wait
    except (OSError, ValueError):
        return b""


def _opened(name: str) -> int:
    """Open a regular file for reading; leave any other one alone."""
    _refuse_irregular(name, os.stat(name).st_mode)
    # The name may mean another file by now: then a FIFO must not hang.
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _refuse_irregular(name, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_irregular(name: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    kinds = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"))
    kind = next((word for test, word in kinds if test(mode)), "a device")
    raise ValueError(f"{name}: expected a regular file, got {kind}")


def replace_file(path: str | os.PathLike[str], content: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all, through a new file in its folder.

    A file that exists keeps its permissions, and a link its target; a new one gets `mode` without
    the bits of the umask. A device such as ``/dev/stdout`` is written in place, as is a file in a
    folder where nothing may be made.

    Raises:
        OSError: It cannot be written; the old file is unchanged.
    """
    try:
        with replaced_file(path, mode) as new, open(new, "wb") as file:
            file.write(content)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None
        raise


@contextmanager
def replaced_file(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[str]:
    """Give the name of a file to write, which becomes `path` at the end of a ``with`` block.

    It is in the folder of `path` and has its ending. After an exception the old file is unchanged.
    What `replace_file` writes in place has its own name.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    old_mode = None
    with suppress(FileNotFoundError):
        old_mode = os.stat(target).st_mode
    if old_mode is not None and not (
        stat.S_ISREG(old_mode) and os.access(folder, os.W_OK | os.X_OK)
    ):
        yield target
        return
    new = os.path.join(folder, f".rknn-{os.urandom(8).hex()}{os.path.splitext(name)[1]}")
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
    try:
        yield new
        with open(new, "rb") as file:
            os.fsync(file.fileno())
            if old_mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old_mode))
        os.replace(new, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(new)
        raise


def printable(text: str) -> str:
    """Return a text with escapes for characters that end a line or control the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines as one text, each of them printable."""
    return "\n".join(map(printable, lines))


def is_escaped(name: str) -> bool:
    r"""Tell whether JSON has a ``\u`` in a name: the runtime looks it up there, undecoded."""
    if name.isascii() and name.isprintable() and "\\" not in name:
        return False
    import json  # only here, as it costs more than the rest of a load

    return "\\u" in json.dumps(name)


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML, its texts escaped; without a head if no title has a text."""
    from html import escape  # here, as each load of a model imports this module

    def row(kind: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"

    lines = [row("th", titles)] if any(titles) else []
    return f"<table>{''.join([*lines, *(row('td', cells) for cells in rows)])}</table>"
