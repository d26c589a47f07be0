"""Words of captions as stencils: by Pillow in a TrueType font, or in strokes of our own."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._files import read_file
from rknn_runtime.kernels.canvas import Canvas
from rknn_runtime.vision.images import import_pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Font", "Word", "load_font", "stroke_font"]

#: How many words a font keeps: names of classes, and 0 % to 100 %.
_KEPT = 512
#: Labels of two words, of some 15 kB each.
_KEPT_LABELS = 256
#: CJK fonts have some 20 MB.
MAX_FONT_BYTES = 1 << 27

#: Where Debian has it.
_SYSTEM = "DejaVuSans.ttf"

#: The characters from "!" to "~" as strokes: points of two digits, x to the right and y down;
#: capitals stand from 0 to 6, small letters from 2 to 6, and 8 is the lowest. A stroke of one
#: point is a dot.
_STROKES = """
0004|06 0002|2022 1016|3036|0242|0444 413010010213334445361605|2026 6006|0020220200|4464664644
46011020310405162644 0002 10010516 00111506 2125|0244|0442 2125|0343 1506 0333 06 4006
102031352616050110 011016|0626 01103041420646 01103041423313|334445361605 36300444
400002324345361605 413010010516364544331304 004016 13020110304142331304051636454433
051636454130100102133342 03|06 03|1507 310335 0242|0444 013305 01103041422324|26
3616050110304144242242 062046|1434 003041423303|334445360600 4130100105163645 00304145360600
40000646|0333 400006|0333 41301001051636454323 0006|4046|0343 0020|0626|1016 3035261605
0006|4004|2246 000646 0600234046 06004640 103041453616050110 06003041423303
103041453616050110|2446 06003041423303|2346 413010010213334445361605 0040|2026 000516364540
002640 0016325660 0046|4006 002340|2326 00400646 20000626 0046 00202606 022042 0747 0011
4332120305163645|4246 0006|0312324345361605 4332120305163645 4046|4332120305163645
04444332120305163645 30201116|0232 4332120305163645|4247381807 0006|0312324346 0206|00
121708|10 0006|3205|1436 000516 0206|0312223336|3342526366 0206|0312324346 123243453616050312
0208|0312324345361605 4248|4332120305163645 0206|031232 43321203143445361605 10152636|0232
0205163645|4246 022642 0216335662 0246|4206 0226|4218 02420646 20111203141526 0007
00111223141506 04133443
"""


@dataclass(frozen=True, eq=False)
class Word:
    """A text of one line in one font."""

    #: ``(h, w) uint8``: 255 where the letters cover a pixel; read-only.
    stencil: NDArray[np.uint8]
    width: int
    #: Of the stencil's first row below the top of the line.
    offset: int


class Font:
    """Makes words, and keeps them for the next image."""

    def __init__(self, height: int, space: int, render: Callable[[str], Word]) -> None:
        #: Of every line, in pixels, whatever its letters.
        self.height = height
        #: Between words, in pixels.
        self.space = space
        #: Text to `Word`; what separates lines is a space in it.
        self.word = lru_cache(_KEPT)(lambda text: render(" ".join(text.split())))
        #: See `label`: the same few are needed again in the next image.
        self.label = lru_cache(_KEPT_LABELS)(self._label)

    def _label(
        self, first: Word, second: Word, margin: int, paper: bytes, ink: bytes
    ) -> NDArray[np.uint8]:
        """Return two words on a field of a colour, ``(h, w, 3) uint8``, read-only.

        Args:
            first: The left one.
            second: The right one.
            margin: Around them, in pixels.
            paper: Colour of the field, three bytes.
            ink: Colour of the letters.
        """
        width = first.width + self.space + second.width + 2 * margin
        label = np.empty((self.height + 2 * margin, width, 3), np.uint8)
        label[...] = np.frombuffer(paper, np.uint8)
        canvas, left = Canvas(label), margin
        for word in (first, second):
            canvas.blend(word.stencil, left, margin + word.offset, ink)
            left += word.width + self.space
        label.setflags(write=False)
        return label


@lru_cache(maxsize=8)
def load_font(path: str | None, size: float) -> Font:
    """Return a font, the same one for the same arguments.

    Args:
        path: Of a TrueType file. None: Pillow's own font, else DejaVu Sans where the system
            has it, else strokes.
        size: Pixels from line to line, about.

    Raises:
        ImportError: `path` is given and Pillow, or its FreeType, is not installed.
        OSError: The file cannot be read.
        ValueError: It is no regular file, larger than any font, or no font.
    """
    if path is not None:
        fonts = import_pillow().ImageFont
        content = io.BytesIO(read_file(path, MAX_FONT_BYTES))
        try:
            return _true_type_font(fonts.truetype(content, round(size)))
        except OSError as error:
            raise ValueError(f"{path} cannot be read as a font: {error}") from error
    try:
        fonts = import_pillow().ImageFont
    except ImportError:
        return stroke_font(size)
    # Before Pillow 10.1 its own font has one size; without FreeType no font can be opened.
    with contextlib.suppress(TypeError, ImportError, OSError):
        return _true_type_font(fonts.load_default(size))
    with contextlib.suppress(ImportError, OSError):
        return _true_type_font(fonts.truetype(_SYSTEM, round(size)))
    return stroke_font(size)


def _true_type_font(opened: Any) -> Font:
    """Return a font that Pillow has opened."""
    pillow = import_pillow()
    _, line_top, _, line_bottom = opened.getbbox("Ag|")

    def render(text: str) -> Word:
        left, top, right, bottom = opened.getbbox(text)
        left, top = math.floor(left), math.floor(top)
        width, height = max(math.ceil(right) - left, 0), max(math.ceil(bottom) - top, 0)
        stencil = np.zeros((height, width), np.uint8)
        if stencil.size:  # spaces have no height
            image = pillow.Image.new("L", (width, height))
            pillow.ImageDraw.Draw(image).text((-left, -top), text, fill=255, font=opened)
            stencil = np.array(image)
        return _word(stencil, top - math.floor(line_top))

    height = math.ceil(line_bottom) - math.floor(line_top)
    return Font(height, round(opened.getlength(" ")), render)


def stroke_font(size: float) -> Font:
    """Return letters of lines, for ASCII; anything else is a question mark.

    Args:
        size: Pixels from line to line, about; capitals are 0.7 of it high.
    """
    thickness = max(1, round(size / 12))
    unit = 0.09 * size, 0.117 * size
    height = round(8 * unit[1]) + thickness

    def render(text: str) -> Word:
        points: list[tuple[int, int, int, int]] = []
        x = 0
        for character in text:
            segments, width = _segments(character)
            points += [(x + a, b, x + c, d) for a, b, c, d in segments]
            x += width + 2
        width = round(max(x - 2, 0) * unit[0]) + thickness
        lines = np.full((len(points), 5), thickness / 2, np.float32)
        # Whole pixels, so that upright strokes are crisp.
        scaled = np.rint(np.array(points, np.float32).reshape(-1, 2, 2) * unit) + thickness / 2
        lines[:, :4] = scaled.reshape(-1, 4)
        canvas = Canvas(np.zeros((height, width, 3), np.uint8))
        canvas.draw_lines(lines, np.full((len(lines), 3), 255, np.uint8))
        return _word(canvas.pixels[..., 0].copy(), 0)

    return Font(height, round(3 * unit[0]), render)


def _word(stencil: NDArray[np.uint8], offset: int) -> Word:
    stencil.setflags(write=False)
    return Word(stencil, stencil.shape[1], offset)


@lru_cache(maxsize=256)
def _segments(character: str) -> tuple[list[tuple[int, int, int, int]], int]:
    """Return a character's lines and its width, in units of the strokes."""
    if character == " ":
        return [], 1
    glyphs, place = _STROKES.split(), ord(character) - ord("!")
    strokes = glyphs[place if 0 <= place < len(glyphs) else ord("?") - ord("!")]
    segments = []
    for stroke in strokes.split("|"):
        points = [(int(stroke[i]), int(stroke[i + 1])) for i in range(0, len(stroke), 2)]
        segments += [(*a, *b) for a, b in zip(points, points[1:] or points)]
    return segments, max(max(segment[0], segment[2]) for segment in segments)
