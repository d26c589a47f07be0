"""Tables of text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["printable", "table"]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells in columns; what is not printable is escaped."""
    rows = [[printable(cell) for cell in cells] for cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in rows
    ]


def printable(text: str) -> str:
    """Return a text with escapes in place of what would end a line, or steer the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
