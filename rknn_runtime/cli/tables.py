"""Text for a terminal: tables, and numbers and names made short."""

from __future__ import annotations

from collections.abc import Sequence

from rknn_runtime._files import printable


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells in columns and escape characters that cannot be printed."""
    rows = [[printable(cell) for cell in cells] for cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in rows
    ]


def shape(sizes: Sequence[int]) -> str:
    """Write the sizes of a tensor, ``1x3x320x320``."""
    return "x".join(map(str, sizes)) or "scalar"


def short_name(name: str, most: int = 40) -> str:
    """Keep the end of a long name, where the names of one network differ."""
    return name if len(name) <= most else "..." + name[3 - most :]


def count(number: float) -> str:
    """Write a number with a prefix for its unit: ``"1.2 G"``."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}"
    return f"{number:g} "
