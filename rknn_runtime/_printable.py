"""Text of a file for a terminal, which a name in it must not steer."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["printable", "printable_lines"]


def printable(text: str) -> str:
    """Return a text with escapes in place of what would end a line, or steer the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(lines: Iterable[str]) -> str:
    """Return lines, each made printable, as one text: no name in them begins another line."""
    return "\n".join(map(printable, lines))
