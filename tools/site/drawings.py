"""The drawings of docs/layouts.md, as SVG files: ``python tools/site/drawings.py``.

Drawn by a script so that their numbers can be changed in one place. Colours are such that a
light and a dark page both show them.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["draw"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "drawings"
TEAL, ORANGE, GREY, LINE = "#26a69a", "#ffb74d", "#b0bec5", "#455a64"


def rect(x: float, y: float, w: float, h: float, fill: str, text: str = "") -> str:
    """A box with a text in its middle."""
    box = f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}" stroke="{LINE}"/>'
    return box + (words(x + w / 2, y + h / 2 + 4, text, "middle") if text else "")


def words(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    """A line of text."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}">{text}</text>'


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line with a head."""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="2" '
        'marker-end="url(#head)"/>'
    )


def svg(width: int, height: int, title: str, parts: list[str]) -> str:
    """A whole file, on a light background."""
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
        f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>'
    )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" fill="#263238">'
    )
    ground = f'<rect width="{width}" height="{height}" rx="6" fill="#fafafa"/>'
    body = [opening, f"<title>{title}</title>", f"<defs>{head}</defs>", ground, *parts, "</svg>"]
    return "\n".join(body) + "\n"


def groups() -> str:
    """24 channels of 2 x 3 positions, in groups of 16, and their places."""
    parts = [words(20, 24, "NCHW, as frameworks have it: a plane per channel", size=14)]
    for i, name in enumerate(["c = 0", "c = 1", "c = 2", "...", "c = 23"]):
        parts.append(rect(20 + i * 92, 36, 84, 30, TEAL if i < 3 else ORANGE, name))
    parts.append(words(492, 56, "6 elements each"))
    parts.append(words(20, 100, "NC1HWC2: a plane per group, 16 channels side by side", size=14))
    for group, (fill, what) in enumerate([(TEAL, "0 ... 15"), (ORANGE, "16 ... 23")]):
        y = 132 + group * 62
        parts.append(words(20, y + 20, f"c1 = {group}"))
        for i in range(6):
            x, used = 70 + i * 90, 82 if group == 0 else 41
            parts.append(words(x + 41, y - 4, f"y {i // 3}, x {i % 3}", "middle", 10))
            parts.append(rect(x, y, used, 30, fill, what if group == 0 else "16..23"))
            if group:
                parts.append(rect(x + used, y, 82 - used, 30, GREY, "?"))
    parts.append(words(70, 250, "grey: padding channels, with anything in them"))
    return svg(630, 264, "NCHW and NC1HWC2", parts)


def strides() -> str:
    """Rows of 37 pixels in memory for 48, and a plane that is padded instead."""
    parts = [words(20, 24, "An input of 37 x 21 pixels: w_stride is 48", size=14)]
    for row in range(4):
        y = 36 + row * 22
        parts.append(rect(20, y, 370, 22, TEAL, f"row {row}: 37 pixels"))
        parts.append(rect(390, y, 110, 22, GREY, "11 unused"))
    parts.append(words(510, 51, "next row: 48 on"))
    parts.append(words(20, 150, "An output of 7 x 7: rows end to end, the plane padded", size=14))
    for row in range(7):
        parts.append(rect(20 + row * 66, 162, 66, 26, ORANGE, f"row {row}"))
    parts.append(rect(482, 162, 28, 26, GREY, "3"))
    parts.append(words(520, 180, "49 becomes 52"))
    return svg(630, 204, "Row strides and padded planes", parts)


def affine() -> str:
    """Scores of 0 to 1, and boxes of 0 to 640, on the same 256 steps."""
    parts = [words(20, 24, "int8 has 256 steps: real = (q - zero_point) * scale", size=14)]
    for y, top, step in ((54, "1.0", "1/255"), (124, "640", "2.51")):
        parts.append(rect(60, y, 500, 20, TEAL))
        parts += [f'<path d="M{60 + i * 20} {y}v20" stroke="{LINE}"/>' for i in range(1, 25)]
        parts.append(words(60, y + 36, "q = -128: 0.0", "middle", 11))
        parts.append(words(560, y + 36, f"q = 127: {top}", "middle", 11))
        parts.append(words(310, y + 36, f"a step is {step}", "middle", 11))
    parts.append(words(20, 46, "scores alone"))
    parts.append(words(20, 116, "scores beside boxes in pixels, in one tensor"))
    parts.append(rect(58, 124, 4, 20, ORANGE))
    parts.append(words(60, 182, "every score from 0 to 1 is in the orange stroke: 0"))
    return svg(630, 196, "Affine quantization", parts)


def caches() -> str:
    """Who reads what between the CPU and the NPU, and where a sync stands."""
    parts = []
    for x, name in ((20, "CPU"), (230, "cache of the CPU"), (470, "memory")):
        parts.append(rect(x, 20, 130, 40, TEAL if name == "CPU" else GREY, name))
    parts.append(rect(470, 190, 130, 40, ORANGE, "NPU"))
    parts += [arrow(150, 34, 228, 34), arrow(360, 34, 468, 34)]
    parts += [arrow(468, 50, 362, 50), arrow(228, 50, 152, 50)]
    parts += [arrow(515, 62, 515, 188), arrow(555, 188, 555, 62)]
    parts.append(words(365, 84, "1 sync to device:", size=11))
    parts.append(words(365, 98, "what was written", size=11))
    parts.append(words(365, 112, "goes to memory", size=11))
    parts.append(words(562, 124, "2 run", size=11))
    parts.append(words(230, 84, "3 sync from", size=11))
    parts.append(words(230, 98, "device: old copies", size=11))
    parts.append(words(230, 112, "are forgotten", size=11))
    parts.append(
        words(20, 216, "The NPU never sees the cache: it reads and writes memory.", size=12)
    )
    return svg(630, 246, "Caches", parts)


def draw(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for made in (groups, strides, affine, caches):
        (folder / f"{made.__name__}.svg").write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
