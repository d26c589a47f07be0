"""Files of a machine below a folder, which tests make and which is / otherwise."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Tree"]

_MOST_BYTES = 1 << 20


class Tree:
    """Reads what there is; what is not there, or not ours to read, is empty.

    Args:
        root: The folder that stands for /.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def path(self, name: str) -> Path:
        """Where the file of an absolute name lies."""
        return self.root / name.lstrip("/")

    def name(self, path: Path) -> str:
        """The absolute name of a file below the root."""
        return f"/{path.relative_to(self.root)}"

    def text(self, name: str) -> str:
        """The beginning of a file of /proc, /sys or /etc, without what ends it."""
        try:
            with self.path(name).open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace").strip("\0\n ")
        except OSError:
            return ""

    def exists(self, name: str) -> bool:
        """Whether something has this name, also a link that leads nowhere."""
        return os.path.lexists(self.path(name))

    def glob(self, pattern: str) -> Iterator[str]:
        """Names that match a pattern, sorted."""
        try:
            found = sorted(self.root.glob(pattern.lstrip("/")))
        except OSError:
            found = []
        return map(self.name, found)
