"""Tables of text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime._printable import printable

__all__ = ["table"]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells in columns; what is not printable is escaped."""
    rows = [[printable(cell) for cell in cells] for cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in rows
    ]
