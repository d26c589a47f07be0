"""Files of a machine below a folder, which tests make and which is / otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rknn_runtime._files import read_kernel_file

__all__ = ["Tree"]

_MOST_LINKS = 40


class Tree:
    """Reads what there is; what is not there, or not ours to read, is empty.

    Args:
        root: The folder that stands for /.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    @property
    def is_this_machine(self) -> bool:
        """The root is /."""
        return self.root == Path("/")

    def path(self, name: str, *, follow: bool = True) -> Path:
        """Where the file of an absolute name lies; links lead nowhere outside the root.

        Args:
            name: Absolute.
            follow: Whether the last part is followed, when it is a link.
        """
        if self.is_this_machine:
            return Path(name)
        left, found, links = name.split("/")[::-1], self.root, 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                found = found if found == self.root else found.parent
                continue
            path = found / part
            if (follow or left) and path.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    return self.root / "a link to itself"
                goal = str(path.readlink())
                found = self.root if goal.startswith("/") else found
                left += goal.split("/")[::-1]
            else:
                found = path
        return found

    def text(self, name: str) -> str:
        """The beginning of a file of /proc, /sys or /etc, without what ends it."""
        return read_kernel_file(self.path(name)).decode("utf-8", "replace").strip("\0\n ")

    def exists(self, name: str) -> bool:
        """Whether something has this name, also a link that leads nowhere."""
        return os.path.lexists(self.path(name, follow=False))

    def glob(self, pattern: str) -> Iterator[str]:
        """Names that match a pattern, sorted."""
        folder = pattern.partition("*")[0].rpartition("/")[0]
        base = self.path(folder)
        try:
            found = sorted(base.glob(pattern[len(folder) + 1 :]))
        except OSError:
            found = []
        return (f"{folder}/{path.relative_to(base)}" for path in found)
