"""Draw detected objects: boxes, masks, keypoints and captions."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, as_float, as_int
from rknn_runtime._files import read_file
from rknn_runtime.kernels.canvas import Canvas, place_captions
from rknn_runtime.vision.images import as_pixels, import_pillow

Color = tuple[int, int, int]

#: 80 colours. Each is as far as possible from all before it in OKLab, so that the first classes
#: differ most; none is dark, pale or grey.
_PALETTE = bytes.fromhex(
    """
    ff3c3c 00ff00 0069ff 4b873c e100ff 87e1ff ffc30f ff96e1 965aa5 00a5c3
    5ad287 c3873c e10096 9696ff 873cff b4ff87 ffa587 b45a5a 00b400 d269e1
    00ffe1 96a50f 5a78c3 e17896 b4d200 b42dc3 0f96ff ff781e c3c378 008787
    2dc3ff 69a578 ff3cd2 f0c3ff d21e5a b487c3 ffe196 00ff96 a569ff 00d2d2
    ff4b96 d22d00 f0f000 967800 1ee14b 6978ff d296ff d2a500 b400ff 96e1b4
    c35a96 ff78ff 96b4f0 a5ff00 b45a00 7896d2 78c300 009600 875ad2 00b469
    e1695a ffa53c d2e178 0087b4 f069c3 00b4a5 a5ffc3 c34bf0 e100c3 f0a5c3
    f0c387 ff0069 96e178 9678d2 d2a569 ff3cff 00f0ff ff8787 96c35a d28778
"""
)

#: Opacity of a mask, of 255: inside, and at the edge.
_TINT, _TINT_EDGE = 115, 204
#: Left and right limbs.
LIMBS: tuple[Color, Color] = (0, 160, 255), (255, 130, 20)
#: CJK fonts have some 20 MB.
_MAX_FONT_BYTES = 1 << 27

#: COCO's person: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
_COCO_SKELETON = (
    *((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7)),
    *((6, 8), (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
)


def class_color(class_id: int) -> Color:
    """Return the colour of a class as red, green, blue in 0..255; colours repeat after 80."""
    start = class_id * 3 % len(_PALETTE)
    red, green, blue = _PALETTE[start : start + 3]
    return red, green, blue


def text_color(background: Color) -> Color:
    """Return black or white, whichever has more contrast with `background`.

    Contrast is WCAG 2's, (lighter + 0.05) / (darker + 0.05) of relative luminance; the
    better of the two is never below 4.5, which WCAG asks for.
    """
    linear = [
        v / 255 / 12.92 if v <= 10 else ((v / 255 + 0.055) / 1.055) ** 2.4 for v in background
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if (luminance + 0.05) ** 2 > 1.05 * 0.05 else (255, 255, 255)


@lru_cache(maxsize=1)
def _colors() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the colours of the classes and of text on them, each ``(80, 3)``, RGB."""
    paper = np.frombuffer(_PALETTE, np.uint8).reshape(-1, 3)
    ink = [text_color(class_color(i)) for i in range(len(paper))]
    return paper, np.array(ink, np.uint8)


class Style(NamedTuple):
    """The options of `Detections.draw`."""

    has_captions: bool
    line_width: int | None
    color_by: str
    skeleton: Sequence[tuple[int, int]] | None
    keypoint_threshold: float
    font: str | os.PathLike[str] | None


def draw_objects(
    image: Any,
    found: Any,
    captions: Sequence[tuple[str, str]],
    color: str,
    style: Style,
    out: NDArray[np.uint8] | None,
) -> Any:
    """Draw `Detections` on a copy of `image`, or on `out`; see `Detections.draw`.

    A caption is two texts side by side; the first is shortened if there is no room.
    """
    xyxy, mask, keypoints, xyxyxyxy = found.xyxy, found.mask, found.keypoints, found.xyxyxyxy
    pixels, order = as_pixels(image, color)
    height, width = pixels.shape[:2]
    _check_places(height, width, mask, {"xyxy": xyxy, "keypoints": keypoints, "xyxyxyxy": xyxyxyxy})
    threshold = as_float(style.keypoint_threshold, "keypoint_threshold")
    if math.isnan(threshold):
        raise ValueError("keypoint_threshold: expected a number, got nan")
    joined = _joined(style.skeleton, 0 if keypoints is None else keypoints.shape[1])
    around = xyxy
    if xyxyxyxy is not None:
        around = np.concatenate([xyxyxyxy.min(axis=1), xyxyxyxy.max(axis=1)], axis=1)
    line = max(1, round((height + width) * 0.002))
    if style.line_width is not None:
        line = as_int(style.line_width, "line_width", 0, 1000)
    kinds = _kinds(found, style.color_by)
    paper, ink = (table[kinds % len(table)] for table in _colors())
    if order == "BGR":
        paper = np.ascontiguousarray(paper[:, ::-1])
    canvas = _canvas(image, pixels, out)

    # The most certain object is on top, and its caption is placed first; of masks the smallest.
    ranked = np.argsort(-found.confidence, kind="stable")
    below = ranked[::-1]
    writer = None
    if style.has_captions:
        letters = _load_font(_font_path(style.font), _letter_size(height + width, around))
        writer = _CaptionWriter(canvas, letters, max(line, 1))
        writer.place([captions[i] for i in ranked.tolist()], np.ascontiguousarray(around[ranked]))
    if mask is not None:
        areas = np.subtract(xyxy[:, 2:], xyxy[:, :2], dtype=np.float64).prod(axis=1)
        inside = _pixel_box(canvas, xyxy).tolist()
        for i in below[np.argsort(-areas[below], kind="stable")].tolist():
            _tint(canvas, mask[i], inside[i], paper[i].tobytes())
    if line == 0:
        pass
    elif xyxyxyxy is None:
        _draw_boxes(canvas, xyxy[below], paper[below], line)
    else:
        _draw_polygons(canvas, xyxyxyxy[below], paper[below], line)
    if keypoints is not None:
        is_person = keypoints.shape[1] == 17 and np.array_equal(joined, _person()[0])
        limbs = _limbs(paper[below], order) if is_person else None
        _draw_keypoints(
            canvas,
            keypoints[below],
            joined,
            threshold,
            paper[below],
            ink[below],
            max(line, 1),
            limbs,
        )
    if writer is not None:
        writer.paint(paper[ranked], ink[ranked])
    return _drawn(canvas, image, out)


def draw_captions(
    image: Any,
    captions: Sequence[tuple[str, str]],
    color: str = "RGB",
    font: str | os.PathLike[str] | None = None,
    out: NDArray[np.uint8] | None = None,
) -> Any:
    """Write captions below each other into the upper left corner of an image.

    A caption is two texts side by side; the first is shortened if there is no room. All else is as
    for `Detections.draw`.
    """
    pixels, order = as_pixels(image, color)
    canvas = _canvas(image, pixels, out)
    sides = canvas.height + canvas.width
    letters = _load_font(_font_path(font), round(sides * 0.0095 + 5))
    writer = _CaptionWriter(canvas, letters, max(1, round(sides * 0.002)))
    writer.stack(captions)
    paper, ink = (table[np.arange(len(captions)) % len(table)] for table in _colors())
    writer.paint(paper if order == "RGB" else np.ascontiguousarray(paper[:, ::-1]), ink)
    return _drawn(canvas, image, out)


def _check_places(
    height: int,
    width: int,
    mask: NDArray[np.bool_] | None,
    places: dict[str, NDArray[np.float32] | None],
) -> None:
    for name, values in places.items():
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"{name}: expected finite numbers, got a NaN or an infinity")
    if mask is not None and mask.shape[1:] != (height, width):
        raise ValueError(
            f"image: expected the size of the masks, {mask.shape[1]}x{mask.shape[2]} "
            f"(height x width), got {height}x{width}"
        )


def _limited(values: NDArray[Any], lowest: Any, highest: Any) -> NDArray[Any]:
    """Do the same as `numpy.clip`, which is several times slower on few values."""
    limited: NDArray[Any] = np.minimum(np.maximum(values, lowest), highest)
    return limited


def _canvas(image: Any, pixels: NDArray[np.uint8], out: NDArray[np.uint8] | None) -> Canvas:
    """Return `out`, or a new array, that holds the image without alpha."""
    shape = (*pixels.shape[:2], 3)
    if out is None:
        canvas = Canvas(np.empty(shape, np.uint8))
    else:
        if not isinstance(image, np.ndarray):
            raise TypeError("out: expected None, as image is no array, got one")
        canvas = Canvas(out, "out")
        if canvas.pixels.shape != shape:
            raise ValueError(f"out: expected shape {shape}, got {canvas.pixels.shape}")
    if out is not image:
        _copy(pixels, canvas.pixels)
    return canvas


def _drawn(canvas: Canvas, image: Any, out: NDArray[np.uint8] | None) -> Any:
    """Return the drawing in the form of `image`: an array, or an image of Pillow."""
    if isinstance(image, np.ndarray):
        return canvas.pixels if out is None else out
    return import_pillow().Image.fromarray(canvas.pixels)


def _copy(pixels: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    if pixels.shape[2] == 3 and pixels.strides[2] == 1:
        target[...] = pixels
        return
    # Channel by channel is five times as fast in NumPy.
    if np.may_share_memory(pixels, target):
        pixels = pixels.copy()
    for c in range(3):
        target[..., c] = pixels[..., c % pixels.shape[2]]


def _font_path(font: Any) -> str | None:
    if font is not None and not isinstance(font, (str, os.PathLike)):
        raise TypeError(f"font: expected the path of a TrueType file, got {type(font).__name__}")
    return None if font is None else os.fsdecode(font)


def _letter_size(sides: int, boxes: NDArray[np.float32]) -> int:
    size = sides * 0.0095 + 5
    if len(boxes) > 1:
        # NumPy's median takes ten times as long on few values.
        heights = np.sort(np.subtract(boxes[:, 3], boxes[:, 1], dtype=np.float64))
        middle = float(heights[(len(boxes) - 1) // 2] + heights[len(boxes) // 2]) / 2
        size = max(min(size, middle / 3), 10)
    return round(size)


@lru_cache(maxsize=1)
def _person() -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return COCO's pairs, and which of the lines and then the points are left and right.

    Keypoints with odd numbers are on a person's left.
    """
    joined = np.array(_COCO_SKELETON, np.intp)
    ends = np.concatenate([joined, np.arange(17).repeat(2).reshape(-1, 2)])
    return joined, (ends % 2 == 1).all(axis=1), ((ends % 2 == 0) & (ends > 0)).all(axis=1)


def _limbs(paper: NDArray[np.uint8], order: str) -> NDArray[np.uint8]:
    """Return the colours of the lines and then the points of COCO's persons."""
    _, is_left, is_right = _person()
    limbs = np.repeat(paper[:, np.newaxis], len(is_left), axis=1)
    for color, chosen in zip(LIMBS, (is_left, is_right)):
        limbs[:, chosen] = color if order == "RGB" else color[::-1]
    return limbs


def _kinds(found: Any, color_by: str) -> NDArray[Any]:
    """Return the number of each object that its colour is chosen by."""
    if color_by not in ("class", "instance", "track"):
        raise ValueError(f'color_by: expected "class", "instance" or "track", got {color_by!r}')
    if color_by == "track" and found.tracker_id is None:
        raise ValueError('color_by: expected "class" or "instance" without tracks, got "track"')
    kinds = {"class": found.class_id, "track": found.tracker_id}
    chosen = kinds.get(color_by)
    return np.arange(len(found)) if chosen is None else chosen


def _joined(skeleton: Any, count: int) -> NDArray[np.intp]:
    """Return the pairs of keypoints to join, ``(m, 2)``; none where there are no keypoints."""
    if skeleton is None and count == 17:
        return _person()[0]
    if count == 0 or skeleton is None:
        skeleton = ()
    try:
        pairs = [(a, b) for a, b in skeleton]
    except (TypeError, ValueError):
        raise TypeError(f"skeleton: expected pairs of keypoints, got {skeleton!r}") from None
    ends = [as_int(end, "skeleton", 0, count - 1) for pair in pairs for end in pair]
    return np.array(ends, np.intp).reshape(-1, 2)


def _tint(canvas: Canvas, mask: NDArray[np.bool_], box: list[int], color: bytes) -> None:
    """Tint the part of a mask in its box in pixels, and its edge more than its inside."""
    left, top, right, bottom = box
    inside = mask[top:bottom, left:right]
    edge = inside.copy()
    edge[1:-1, 1:-1] &= ~(
        inside[:-2, 1:-1] & inside[2:, 1:-1] & inside[1:-1, :-2] & inside[1:-1, 2:]
    )
    stencil = inside.view(np.uint8) * np.uint8(_TINT) + edge.view(np.uint8) * np.uint8(
        _TINT_EDGE - _TINT
    )
    canvas.blend(stencil, left, top, color)


def _pixel_box(canvas: Canvas, xyxy: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the pixels of boxes in the image: left, top, and right, bottom past the last one.

    Edges are at pixel borders: the box from 0 to 3 covers the pixels 0, 1 and 2.
    """
    size = np.array((canvas.width, canvas.height))
    first = _limited(np.minimum(xyxy[:, :2], xyxy[:, 2:]), 0, size)
    last = _limited(np.maximum(xyxy[:, :2], xyxy[:, 2:]), 0, size)
    box: NDArray[Any] = np.concatenate([np.floor(first), np.ceil(last)], axis=1)
    return box.astype(np.int32)


def _draw_boxes(
    canvas: Canvas, xyxy: NDArray[np.float32], colors: NDArray[np.uint8], line: int
) -> None:
    """Draw the parts of boxes in the image, with lines inside the boxes."""
    pixels = _pixel_box(canvas, xyxy)
    left, top, right, bottom = pixels.T
    sides = np.repeat(pixels[:, np.newaxis], 4, axis=1)
    sides[:, 0, 3] = np.minimum(top + line, bottom)
    sides[:, 1, 1] = np.maximum(bottom - line, top)
    sides[:, 2, 2] = np.minimum(left + line, right)
    sides[:, 3, 0] = np.maximum(right - line, left)
    canvas.fill_boxes(sides.reshape(-1, 4), np.repeat(colors, 4, axis=0))


def _draw_polygons(
    canvas: Canvas, corners: NDArray[np.float32], colors: NDArray[np.uint8], line: int
) -> None:
    lines = np.full((len(corners), 4, 5), line / 2, np.float32)
    lines[..., :2] = corners
    lines[..., 2:4] = np.roll(corners, -1, axis=1)
    canvas.draw_lines(lines.reshape(-1, 5), np.repeat(colors, 4, axis=0))


def _draw_keypoints(
    canvas: Canvas,
    points: NDArray[np.float32],
    joined: NDArray[np.intp],
    threshold: float,
    paper: NDArray[np.uint8],
    ink: NDArray[np.uint8],
    line: int,
    limbs: NDArray[np.uint8] | None,
) -> None:
    """Draw lines between keypoints, then a disc with a thin rim for each keypoint."""
    n, k, m = len(points), points.shape[1], len(joined)
    lines = np.empty((n, m + 2 * k, 5), np.float32)
    lines[:, :m, :2] = points[:, joined[:, 0], :2]
    lines[:, :m, 2:4] = points[:, joined[:, 1], :2]
    lines[:, :m, 4] = line / 2
    lines[:, m:, :2] = lines[:, m:, 2:4] = np.repeat(points[..., :2], 2, axis=1)
    lines[:, m::2, 4] = line * 1.5 + 0.5
    lines[:, m + 1 :: 2, 4] = line * 1.5 - 0.5
    colors = np.repeat(paper[:, np.newaxis], m + 2 * k, axis=1)
    if limbs is not None:
        colors[:, :m], colors[:, m + 1 :: 2] = limbs[:, :m], limbs[:, m:]
    colors[:, m::2] = ink[:, np.newaxis]
    certain = points[..., 2] >= threshold
    shown = np.concatenate([certain[:, joined].all(axis=2), np.repeat(certain, 2, axis=1)], axis=1)
    canvas.draw_lines(lines[shown], colors[shown])


class _Font:
    """Renders texts of one line by Pillow and keeps them: the next image has the same few.

    Bitmap fonts, which have one size, are drawn `scale` times as large.
    """

    def __init__(self, font: Any, scale: int = 1) -> None:
        self._font, self._scale = font, scale
        self._is_bitmap = not hasattr(font, "getmetrics")
        _, self._top, _, bottom = self._box("Ag|")
        #: Height of every line in pixels.
        self.height = (bottom - self._top) * scale
        #: Between two texts, in pixels.
        self.gap = self.height // 4
        self.width = lru_cache(512)(self._width)
        self._word = lru_cache(512)(self._stencil)
        self.label = lru_cache(256)(self._label)

    def _box(self, text: str) -> tuple[int, int, int, int]:
        if self._is_bitmap:  # before Pillow 9.2 it has no getbbox
            return (0, 0, *self._font.getmask(self._known(text)).size)
        left, top, right, bottom = self._font.getbbox(text)
        return math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)

    def _known(self, text: str) -> str:
        """Return a text on one line, without characters that a bitmap font lacks."""
        text = " ".join(text.split())
        return text.encode("latin-1", "replace").decode("latin-1") if self._is_bitmap else text

    def _width(self, text: str) -> int:
        left, _, right, _ = self._box(self._known(text))
        return (right - left) * self._scale

    def _stencil(self, text: str) -> NDArray[np.uint8]:
        """Return ``(height, width) uint8``: 255 where the letters cover a pixel."""
        pillow, text = import_pillow(), self._known(text)
        left, _, right, _ = self._box(text)
        size = max(right - left, 1), self.height // self._scale
        image = pillow.Image.new("L", size)
        draw = pillow.ImageDraw.Draw(image)
        draw.text((-left, -self._top), text, fill=255, font=self._font)
        return np.array(image).repeat(self._scale, axis=0).repeat(self._scale, axis=1)

    def _label(
        self, name: str, percent: str, margin: int, paper: bytes, ink: bytes
    ) -> NDArray[np.uint8]:
        """Return two texts side by side on a field with a margin, ``(h, w, 3) uint8``."""
        second = margin + self.width(name) + self.gap
        size = self.height + 2 * margin, second + self.width(percent) + margin
        label = np.empty((*size, 3), np.uint8)
        label[...] = np.frombuffer(paper, np.uint8)
        canvas = Canvas(label)
        canvas.blend(self._word(name), margin, margin, ink)
        canvas.blend(self._word(percent), second, margin, ink)
        return label


@lru_cache(maxsize=8)
def _load_font(path: str | None, size: int) -> _Font:
    """Return a font with lines of about `size` pixels.

    Without a path it is Pillow's own. Before Pillow 10.1 that is a bitmap font of one size, so
    DejaVu Sans is taken if the system has it.
    """
    fonts = import_pillow().ImageFont
    if path is not None:
        content = io.BytesIO(read_file(path, _MAX_FONT_BYTES))
        try:
            return _Font(fonts.truetype(content, size))
        except OSError as error:
            raise ValueError(f"{path} cannot be read as a font: {error}") from error
    with contextlib.suppress(TypeError, ImportError, OSError):
        return _Font(fonts.load_default(size))
    with contextlib.suppress(ImportError, OSError):
        return _Font(fonts.truetype("DejaVuSans.ttf", size))
    return _Font(fonts.load_default(), max(1, size // 11))


class _CaptionWriter:
    """Writes captions inside the image, without overlap if there is room.

    A caption is a name, which is shortened if there is no room, and a percentage.
    """

    def __init__(self, canvas: Canvas, font: _Font, line: int) -> None:
        self._canvas, self._font = canvas, font
        self._margin = line + 1
        self._texts: list[tuple[str, str]] = []
        #: Left and top of each caption; -1: its object is outside the image.
        self._corners: list[list[int]] = []

    def _fit(self, captions: Sequence[tuple[str, str]]) -> tuple[list[int], int]:
        """Take the captions; return their widths and their height in pixels."""
        width, around = self._font.width, self._font.gap + 2 * self._margin
        room = self._canvas.width - around
        self._texts = [self._fitting(name, percent, room) for name, percent in captions]
        widths = [width(name) + width(percent) + around for name, percent in self._texts]
        return widths, self._font.height + 2 * self._margin

    def stack(self, captions: Sequence[tuple[str, str]]) -> None:
        """Put the captions below each other, those that begin in the image."""
        _, height = self._fit(captions)
        tops = range(0, height * len(captions), height)
        self._corners = [[0 if top < self._canvas.height else -1, top] for top in tops]

    def place(self, captions: Sequence[tuple[str, str]], boxes: NDArray[np.float32]) -> None:
        """Put each caption at a corner of its box, where it hides no earlier caption."""
        widths, height = self._fit(captions)
        size = self._canvas.height, self._canvas.width
        placed = place_captions(boxes, np.array(widths, np.int32), height, size)
        self._corners = placed.tolist()

    def _fitting(self, name: str, percent: str, room: int) -> tuple[str, str]:
        """Shorten a name so that it and the percentage fit, with dots at its end."""
        width, room = self._font.width, room - self._font.width(percent)
        # A name with more letters than the image has pixels in a row cannot fit.
        if len(name) <= self._canvas.width and width(name) <= room:
            return name, percent
        shortest, longest = 0, max(min(len(name), room), 0)
        while shortest < longest:
            length = (shortest + longest + 1) // 2
            if width(name[:length] + "...") <= room:
                shortest = length
            else:
                longest = length - 1
        return name[:shortest] + "...", percent

    def paint(self, paper: NDArray[np.uint8], ink: NDArray[np.uint8]) -> None:
        """Write the captions in ``(n, 3) uint8`` colours, the first on top where they overlap."""
        pixels, papers, inks = self._canvas.pixels, paper.tobytes(), ink.tobytes()
        for i in range(len(self._texts) - 1, -1, -1):
            left, top = self._corners[i]
            if left < 0:
                continue
            colors = papers[3 * i : 3 * i + 3], inks[3 * i : 3 * i + 3]
            label = self._font.label(*self._texts[i], self._margin, *colors)
            # The image may be smaller than the caption, which never begins outside.
            part = pixels[top : top + label.shape[0], left : left + label.shape[1]]
            part[...] = label[: part.shape[0], : part.shape[1]]
