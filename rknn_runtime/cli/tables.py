"""Tables of text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table"]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells in columns; what is not printable is escaped."""
    rows = [["".join(map(_printable, cell)) for cell in cells] for cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in rows
    ]


def _printable(character: str) -> str:
    """A character as it is, or escaped where it could steer the terminal."""
    return character if character.isprintable() else ascii(character)[1:-1]
