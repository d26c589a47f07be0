"""Check files and folders of the command line, and word errors the same way in every command.

The name comes first: ``x: no such file``, ``x: is a directory``, ``x: permission denied``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rknn_runtime._files import printable, replace_file
from rknn_runtime.errors import InvalidModelError


def check_readable(*names: str | None) -> None:
    """Check that files can be read; None is skipped."""
    for name in filter(None, names):
        if stat.S_ISDIR(Path(name).stat().st_mode):
            raise _refusal(errno.EISDIR, name)
        if not os.access(name, os.R_OK):
            raise _refusal(errno.EACCES, name)


def labels_file(labels: str | None) -> str | None:
    """Return the file of an option for class names; None for ``coco``, which needs none."""
    return None if labels == "coco" else labels


def check_writable(*names: str | None) -> None:
    """Check, before long work, that files can be written; None is skipped."""
    for name in filter(None, names):
        path = Path(name)
        if path.is_dir():
            raise _refusal(errno.EISDIR, name)
        if not path.exists():
            check_folder(str(path.parent), os.W_OK | os.X_OK)
        elif not os.access(path, os.W_OK):
            raise _refusal(errno.EACCES, name)


def check_folder(name: str | None, mode: int = os.R_OK | os.X_OK, is_made: bool = False) -> None:
    """Check, before long work, that a folder can be used; None is skipped."""
    if name is None:
        return
    path = Path(name)
    while is_made and not os.path.lexists(path):
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path))
    if not path.is_dir():
        raise _refusal(errno.ENOTDIR, str(path))
    if not os.access(path, mode):
        raise _refusal(errno.EACCES, str(path))


def made_folder(name: str) -> None:
    check_folder(name, os.W_OK | os.X_OK, is_made=True)
    Path(name).mkdir(parents=True, exist_ok=True)


def _refusal(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)  # Python picks the subclass


def write_text(name: str, text: str) -> None:
    """Write a file whole or not at all; characters that UTF-8 does not have are escaped."""
    replace_file(name, text.encode("utf-8", "backslashreplace"))


def line_of(error: BaseException) -> str:
    """Return the message of an error, after the name of its file: ``x: no such file``."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename is None:
        return _reason(error)
    return f"{printable(os.fsdecode(error.filename))}: {_reason(error)}"


def _reason(error: OSError) -> str:
    reason = error.strerror or ""
    if reason == os.strerror(errno.ENOENT):
        return "no such file"
    return reason[:1].lower() + reason[1:]


def counted(count: int, thing: str) -> str:
    """Return a number with its noun."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def told(path: str, error: Exception) -> str:
    """Return the message of an error about a file, after the name of the file."""
    reason = _reason(error) if isinstance(error, OSError) and error.strerror else str(error)
    # Some messages already begin with the path.
    return f"{printable(path)}: {reason.removeprefix(f'{Path(path)}: ')}"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Add the name of a file to errors that do not have it, for example on a full disk."""
    try:
        yield
    except InvalidModelError as error:
        raise InvalidModelError(told(name, error)) from None
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = name
        raise
