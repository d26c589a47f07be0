"""Drawing of detected objects: boxes, masks, keypoints and captions that can be read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.vision.images import as_pixels, import_pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw_objects"]

Color = tuple[int, int, int]
Box = tuple[float, float, float, float]

#: 80 colours, each as far as possible from all before it (greedily, in OKLab, among
#: colours that are neither dark nor pale nor grey): the first classes differ most.
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

#: COCO's person: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
_COCO_SKELETON = (
    *((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7)),
    *((6, 8), (7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
)


def class_color(class_id: int) -> Color:
    """Return the colour of a class as red, green, blue in 0..255; it repeats after 80."""
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


def draw_objects(
    image: Any,
    xyxy: NDArray[np.float32],
    confidence: NDArray[np.float32],
    class_id: NDArray[np.int32],
    mask: NDArray[np.bool_] | None,
    keypoints: NDArray[np.float32] | None,
    xyxyxyxy: NDArray[np.float32] | None,
    *,
    captions: Sequence[str],
    color: str,
    skeleton: Sequence[tuple[int, int]] | None,
    keypoint_threshold: float,
    font: str | os.PathLike[str] | None,
) -> Any:
    """Return a copy of `image` with objects drawn on it; see `Detections.draw`."""
    pillow = import_pillow()
    pixels, order = as_pixels(image, color)
    canvas = _rgb(pixels, order)
    height, width = canvas.shape[:2]
    for name, values in (("xyxy", xyxy), ("keypoints", keypoints), ("xyxyxyxy", xyxyxyxy)):
        if values is not None and not np.isfinite(values).all():
            raise ValueError(f"{name} has a coordinate that is not finite: nothing was drawn")
    colors = [class_color(i) for i in class_id.tolist()]
    # The most certain object lies on top and has its caption placed first.
    ranked = np.argsort(-confidence, kind="stable").tolist()
    if mask is not None:
        _draw_masks(canvas, mask, colors, ranked[::-1])
    picture = pillow.Image.fromarray(canvas)
    drawing = pillow.ImageDraw.Draw(picture)
    line = max(1, round((height + width) * 0.002))
    for i in reversed(ranked):
        if xyxyxyxy is not None:
            _draw_polygon(drawing, xyxyxyxy[i], colors[i], line)
        else:
            _draw_box(drawing, xyxy[i], colors[i], line)
        if keypoints is not None:
            _draw_keypoints(drawing, keypoints[i], colors[i], line, skeleton, keypoint_threshold)
    writer = _CaptionWriter(drawing, _load_font(font, (height + width) * 0.0095 + 5), line)
    for i in ranked:
        corners = xyxy[i] if xyxyxyxy is None else _bounds(xyxyxyxy[i])
        writer.place(captions[i], corners.tolist(), colors[i])
    writer.paint()
    if not isinstance(image, np.ndarray):
        return picture
    result = np.array(picture)
    return result if order == "RGB" else np.ascontiguousarray(result[..., ::-1])


def _rgb(pixels: NDArray[np.uint8], order: str) -> NDArray[np.uint8]:
    """Return a new ``(H, W, 3)`` array; alpha is dropped."""
    if pixels.shape[2] == 1:
        return np.repeat(pixels, 3, axis=2)
    return np.array(pixels[..., :3] if order == "RGB" else pixels[..., 2::-1], order="C")


def _bounds(points: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([points.min(axis=0), points.max(axis=0)])


def _draw_masks(
    canvas: NDArray[np.uint8],
    mask: NDArray[np.bool_],
    colors: Sequence[Color],
    sequence: Sequence[int],
) -> None:
    """Tint the objects' pixels, and more so those at the edge of a mask."""
    if mask.shape[1:] != canvas.shape[:2]:
        raise ValueError(
            f"masks are {mask.shape[1]}x{mask.shape[2]} (height x width), "
            f"the picture is {canvas.shape[0]}x{canvas.shape[1]}"
        )
    for i in sequence:
        inside = np.pad(mask[i], 1)
        inner = inside[1:-1, 1:-1] & inside[:-2, 1:-1] & inside[2:, 1:-1]
        inner &= inside[1:-1, :-2] & inside[1:-1, 2:]
        for area, weight in ((mask[i], 0.45), (mask[i] & ~inner, 0.8)):
            tint = canvas[area] * (1 - weight) + np.array(colors[i]) * weight
            canvas[area] = (tint + 0.5).astype(np.uint8)


def _draw_box(drawing: Any, box: NDArray[np.float32], color: Color, line: int) -> None:
    """Draw the part of a box that lies in the picture, its line on the inside."""
    width, height = drawing.im.size
    x1, x2 = np.clip(np.sort(box[0::2]), 0, width).tolist()
    y1, y2 = np.clip(np.sort(box[1::2]), 0, height).tolist()
    if x1 < x2 and y1 < y2:
        # Edges are at pixel borders: the box from 0 to 3 covers the pixels 0, 1 and 2.
        left, top, right, bottom = int(x1), int(y1), -int(-x2 // 1) - 1, -int(-y2 // 1) - 1
        drawing.rectangle((left, top, right, bottom), outline=color, width=line)


def _draw_polygon(drawing: Any, points: NDArray[np.float32], color: Color, line: int) -> None:
    drawing.line(_path([*points, points[0], points[1]], drawing), color, line, joint="curve")


def _draw_keypoints(
    drawing: Any,
    points: NDArray[np.float32],
    color: Color,
    line: int,
    skeleton: Sequence[tuple[int, int]] | None,
    threshold: float,
) -> None:
    if skeleton is None:
        skeleton = _COCO_SKELETON if len(points) == 17 else ()
    shown = points[:, 2] >= threshold
    for a, b in skeleton:
        if shown[a] and shown[b]:
            drawing.line(_path([points[a, :2], points[b, :2]], drawing), color, line)
    radius = line * 1.5
    for x, y in _path(points[shown, :2], drawing):
        corners = (x - radius, y - radius, x + radius, y + radius)
        drawing.ellipse(corners, fill=color, outline=text_color(color))


def _path(points: Any, drawing: Any) -> list[tuple[float, float]]:
    """Return points as Pillow takes them, those far away moved near: it counts in 32 bits."""
    reach = 9.0 * max(drawing.im.size)
    return [
        (min(max(float(x), -reach), reach), min(max(float(y), -reach), reach)) for x, y in points
    ]


def _load_font(path: str | os.PathLike[str] | None, size: float) -> Any:
    fonts = import_pillow().ImageFont
    if path is not None:
        return fonts.truetype(os.fspath(path), round(size))
    try:
        return fonts.load_default(size)
    except (TypeError, ImportError, OSError):  # Before Pillow 10.1, or without FreeType.
        pass
    try:
        return fonts.truetype("DejaVuSans.ttf", round(size))  # Where Debian has it.
    except (ImportError, OSError):
        return fonts.load_default()


class _CaptionWriter:
    """Writes captions inside the picture, beside each other where there is room."""

    def __init__(self, drawing: Any, font: Any, line: int) -> None:
        self._drawing = drawing
        self._font = font
        self._margin = line + 1
        self._placed: list[tuple[Box, str, Box, Color]] = []

    def place(self, caption: str, box: Sequence[float], color: Color) -> None:
        """Put a caption at a box's top left corner, or where it hides none placed before."""
        width, height = self._drawing.im.size
        if box[2] <= 0 or box[3] <= 0 or box[0] >= width or box[1] >= height:
            return
        text, extent = self._fit(caption, width)
        w = extent[2] - extent[0] + 2 * self._margin
        h = extent[3] - extent[1] + 2 * self._margin
        x, y = self._corner(box, w, h)
        self._placed.append(((x, y, x + w, y + h), text, extent, color))

    def paint(self) -> None:
        """Write what was placed; where captions had to overlap, the first one is on top."""
        for (x1, y1, x2, y2), text, (left, top, _, _), color in reversed(self._placed):
            self._drawing.rectangle((x1, y1, x2 - 1, y2 - 1), fill=color)
            origin = (x1 + self._margin - left, y1 + self._margin - top)
            self._drawing.text(origin, text, fill=text_color(color), font=self._font)

    def _fit(self, caption: str, width: int) -> tuple[str, Box]:
        """Return as much of the caption as the picture is wide, and its extent.

        The extent has the height of a full line, so that all captions are equally high.
        """
        if not hasattr(self._font, "path"):  # Pillow's bitmap font knows Latin-1 alone.
            caption = caption.encode("latin-1", "replace").decode("latin-1")
        text, shortest, longest = caption, 0, len(caption)
        left, _, right, _ = self._extent(text)
        if right - left + 2 * self._margin > width:
            while shortest < longest:
                length = (shortest + longest + 1) // 2
                left, _, right, _ = self._extent(caption[:length] + "...")
                if right - left + 2 * self._margin <= width:
                    shortest = length
                else:
                    longest = length - 1
            text = caption[:shortest] + "..."
            left, _, right, _ = self._extent(text)
        _, top, _, bottom = self._extent("Ag|")
        return text, (left, top, right, bottom)

    def _extent(self, text: str) -> Box:
        if not hasattr(self._font, "getbbox"):  # The bitmap font before Pillow 9.2.
            return (0, 0, *self._font.getsize(text))
        left, top, right, bottom = self._font.getbbox(text)
        return left, top, right, bottom

    def _corner(self, box: Sequence[float], w: float, h: float) -> tuple[float, float]:
        """Return the top left corner of a caption of w x h pixels."""
        width, height = self._drawing.im.size
        left, top, right, bottom = (int(v) for v in box)
        candidates = [
            (left, top - h),
            (left, top),
            (right - w, top - h),
            (left, bottom),
            (left, bottom - h),
            (right - w, bottom - h),
        ]
        inside = [
            (min(max(x, 0), max(width - w, 0)), min(max(y, 0), max(height - h, 0)))
            for x, y in candidates
        ]
        # First those that are in the picture above or below their box as they should be.
        ranked = sorted(zip(inside, candidates), key=lambda pair: pair[0][1] != pair[1][1])
        for (x, y), _ in ranked:
            if all(
                x + w <= x1 or x2 <= x or y + h <= y1 or y2 <= y
                for (x1, y1, x2, y2), _, _, _ in self._placed
            ):
                return x, y
        return ranked[0][0]
