"""Files and folders that are named on the command line: can they be used, and if not, why.

Every command tells it in one wording, with the name in front: ``x: no such file``,
``x: is a directory``, ``x: permission denied``.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rknn_runtime._files import printable
from rknn_runtime.errors import InvalidModelError

__all__ = [
    "check_folder", "check_readable", "check_writable", "labels_file", "line_of", "naming", "told",
    "write_text",
]  # fmt: skip


def check_readable(*names: str | None) -> None:
    """Find out before anything else whether files can be read; None is none.

    Raises:
        OSError: One is not there, is a folder, or not for this user.
    """
    for name in filter(None, names):
        if stat.S_ISDIR(Path(name).stat().st_mode):
            raise _refusal(errno.EISDIR, name)
        if not os.access(name, os.R_OK):
            raise _refusal(errno.EACCES, name)


def labels_file(labels: str | None) -> str | None:
    """Return the file that an option for names of classes names; None where it names none."""
    return None if labels == "coco" else labels


def check_writable(*names: str | None) -> None:
    """Find out before a long work whether the files that it makes can be written; None is none.

    Raises:
        OSError: One cannot, or its folder is missing.
    """
    for name in filter(None, names):
        path = Path(name)
        if path.is_dir():
            raise _refusal(errno.EISDIR, name)
        if not path.exists():
            check_folder(str(path.parent), os.W_OK | os.X_OK)
        elif not os.access(path, os.W_OK):
            raise _refusal(errno.EACCES, name)


def check_folder(name: str | None, mode: int = os.R_OK | os.X_OK, is_made: bool = False) -> None:
    """Find out before a long work whether a folder can be used; None is none.

    Args:
        name: Of the folder.
        mode: What it is used for, as `os.access` takes it.
        is_made: It is made where it is missing.

    Raises:
        OSError: It cannot, or there is none.
    """
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


def _refusal(code: int, name: str) -> OSError:
    return OSError(code, os.strerror(code), name)  # Python makes the fitting class of it


def write_text(name: str, text: str) -> None:
    """Write a file; a name in it that is no text is escaped, as where it is printed.

    Raises:
        OSError: It cannot be written.
    """
    with naming(name):
        Path(name).write_text(text, encoding="utf-8", errors="backslashreplace")


def line_of(error: BaseException) -> str:
    """Return what is wrong in one wording, with the file's name in front: ``x: no such file``."""
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


def told(path: str, error: Exception) -> str:
    """Return what is wrong with a file, with its name in front, once."""
    reason = _reason(error) if isinstance(error, OSError) and error.strerror else str(error)
    # Some messages begin with the path already.
    return f"{printable(path)}: {reason.removeprefix(f'{Path(path)}: ')}"


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a model in front of what is wrong with it; of a file, as of a full disk, too.

    Raises:
        InvalidModelError: With the name.
        OSError: With the name, where it had none.
    """
    try:
        yield
    except InvalidModelError as error:
        raise InvalidModelError(told(name, error)) from None
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = name
        raise
