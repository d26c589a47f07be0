"""Draw synthetic detection scenes: coloured shapes on cluttered backgrounds.

``draw_scene(seed)`` is a pure function of its arguments, so a data set is a range of seeds.
Training, calibration and evaluation take disjoint ranges (``TRAIN_SEEDS``, ``CALIBRATION_SEEDS``,
``HELD_OUT_SEEDS``), and nothing has to be stored.

Needs numpy and Pillow. As a script it writes a scene as an image, with its boxes on request::

    python tools/shapes/scenes.py --seed 3000007 --size 640x400 --out scene.png [--boxes]
"""

from __future__ import annotations

import argparse
import math
import os

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("circle", "square", "triangle", "star", "cross", "ring")
SIZE = int(os.environ.get("SHAPES_SIZE", 320))  # side of the networks' input in pixels

TRAIN_SEEDS = range(0, 2_000_000)
CALIBRATION_SEEDS = range(2_000_000, 2_000_200)
PROGRESS_SEEDS = range(2_500_000, 2_500_040)  # looked at while training, decides nothing
HELD_OUT_SEEDS = range(3_000_000, 4_000_000)

PAD_VALUE = 114  # grey of letterbox bars, the value that the YOLO papers' code uses
MIN_SIDE, MAX_SIDE = 16, 200  # longer side of a shape's box, in pixels
MIN_VISIBLE = 0.5  # part of a shape's area that stays uncovered and inside the canvas
MIN_CONTRAST = 60.0  # distance in RGB between a shape's fill and what lies under it
OVERSAMPLE = 3  # shapes are drawn this many times larger, then averaged: smooth edges


def draw_scene(
    seed: int, width: int = SIZE, height: int = SIZE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw one scene.

    Args:
        seed: Decides everything in the scene, together with the canvas size.
        width: Canvas width in pixels, at least 64.
        height: Canvas height in pixels, at least 64.

    Returns:
        The image, ``(height, width, 3) uint8, RGB``; the boxes, ``(n, 4) float32, pixels, xyxy``,
        clipped to the canvas; the class ids, ``(n,) int64``, indices into ``CLASSES``.
        A box encloses the whole shape, also where another shape covers a part of it.

    Raises:
        ValueError: The canvas is too small.
    """
    return _draw(seed, width, height)[:3]


def draw_classes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a scene of ``SIZE``; return it and the class of each pixel, 0 for no shape."""
    image, _, class_ids, owner = _draw(seed, SIZE, SIZE)
    return image, np.r_[0, class_ids + 1].astype(np.uint8)[owner + 1]


def _draw(
    seed: int, width: int, height: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw a scene; return also which shape is on top at each pixel, -1 for none."""
    if width < 64 or height < 64:
        raise ValueError(f"the canvas is at least 64x64 pixels, got {width}x{height}")
    rng = np.random.default_rng([seed, width, height])
    canvas = _background(rng, width, height)
    owner = np.full((height, width), -1, np.int32)  # which shape is on top at each pixel
    areas: list[float] = []
    visible: list[int] = []
    boxes: list[tuple[float, float, float, float]] = []
    class_ids: list[int] = []
    wanted = int(rng.integers(3, 15) * math.sqrt(width * height) / SIZE + 0.5)
    for _ in range(wanted * 3):
        if len(boxes) == wanted:
            break
        class_id = int(rng.integers(len(CLASSES)))
        mask, x0, y0, box = _shape(rng, class_id, width, height)
        solid = mask > 0.5
        target = owner[y0 : y0 + mask.shape[0], x0 : x0 + mask.shape[1]]
        covered = np.bincount(target[solid & (target >= 0)], minlength=len(boxes))
        area = _full_area(class_id, box)
        if solid.sum() < MIN_VISIBLE * area:
            continue
        if any(v - c < MIN_VISIBLE * a for v, c, a in zip(visible, covered.tolist(), areas)):
            continue
        _paint(rng, canvas, mask, x0, y0)
        visible = [v - c for v, c in zip(visible, covered.tolist())]
        target[solid] = len(boxes)
        areas.append(float(solid.sum()))
        visible.append(int(solid.sum()))
        boxes.append(_clip(box, width, height))
        class_ids.append(class_id)
    _finish(rng, canvas)
    image = np.clip(canvas + 0.5, 0, 255).astype(np.uint8)
    corners = np.array(boxes, np.float32).reshape(-1, 4)
    return image, corners, np.array(class_ids, np.int64), owner


def draw_input(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a scene as the networks see it: ``SIZE`` x ``SIZE``, one in four letterboxed.

    Args:
        seed: As for ``draw_scene``; a multiple of four gives a letterboxed wide or tall scene.

    Returns:
        As ``draw_scene``; boxes in pixels of the network's input.
    """
    if seed % 4:
        return draw_scene(seed)
    rng = np.random.default_rng([seed, 1])
    long_side = int(rng.integers(320, 513))
    short_side = int(long_side * rng.uniform(0.5, 0.95))
    wide = bool(rng.integers(2))
    width, height = (long_side, short_side) if wide else (short_side, long_side)
    image, boxes, class_ids = draw_scene(seed, width, height)
    image, scale, left, top = letterbox(image, SIZE)
    return image, boxes * np.float32(scale) + np.array([left, top] * 2, np.float32), class_ids


def letterbox(image: np.ndarray, size: int) -> tuple[np.ndarray, float, int, int]:
    """Fit an image into a square, aspect kept, centred, bars of ``PAD_VALUE``.

    Args:
        image: ``(height, width, 3) uint8``.
        size: Side of the square in pixels.

    Returns:
        The square image (a copy), the scale, and the left and top offset in pixels:
        ``x_square = x * scale + left``.
    """
    height, width = image.shape[:2]
    scale = min(size / width, size / height)
    new_w, new_h = round(width * scale), round(height * scale)
    left, top = (size - new_w) // 2, (size - new_h) // 2
    resized = Image.fromarray(image).resize((new_w, new_h), Image.BILINEAR)
    square = np.full((size, size, 3), PAD_VALUE, np.uint8)
    square[top : top + new_h, left : left + new_w] = np.asarray(resized)
    return square, scale, left, top


def draw_boxes(image: np.ndarray, boxes: np.ndarray, class_ids: np.ndarray) -> Image.Image:
    """Draw boxes with class names onto a copy of an image."""
    drawn = Image.fromarray(image)
    draw = ImageDraw.Draw(drawn)
    for box, class_id in zip(boxes.tolist(), class_ids.tolist()):
        draw.rectangle(box, outline=(255, 0, 0))
        draw.text((box[0] + 2, box[1] + 1), CLASSES[class_id], fill=(255, 0, 0))
    return drawn


# --- backgrounds ----------------------------------------------------------------------------


def _background(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """Return a cluttered background, ``(height, width, 3) float32``, 0..255."""
    yy, xx = np.mgrid[0:height, 0:width].astype(np.float32)
    angle = rng.uniform(0, 2 * math.pi)
    if rng.random() < 0.5:
        ramp = xx / width * math.cos(angle) + yy / height * math.sin(angle)
    else:
        cx, cy = rng.uniform(0, width), rng.uniform(0, height)
        ramp = np.hypot((xx - cx) / width, (yy - cy) / height)
    ramp = (ramp - ramp.min()) / max(float(np.ptp(ramp)), 1e-6)
    first, second = rng.uniform(0, 255, (2, 3)).astype(np.float32)
    canvas = first + (second - first) * ramp[..., None]
    canvas += _cloud(rng, width, height) * np.float32(rng.uniform(0, 40))
    for _ in range(int(rng.integers(0, 5))):
        _texture_patch(rng, canvas, xx, yy)
    drawn = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(drawn)
    for _ in range(int(rng.integers(0, 22))):
        _clutter(rng, draw, width, height)
    return np.asarray(drawn).astype(np.float32)


def _cloud(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """Return smooth noise, ``(height, width, 3) float32``, about -1..1."""
    cells = int(rng.integers(3, 24))
    coarse = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
    smooth = Image.fromarray(coarse).resize((width, height), Image.BICUBIC)
    return np.asarray(smooth).astype(np.float32) / 127.5 - 1.0


def _texture_patch(
    rng: np.random.Generator, canvas: np.ndarray, xx: np.ndarray, yy: np.ndarray
) -> None:
    """Blend stripes, checks or dots into a soft-edged region of the canvas."""
    height, width = xx.shape
    cx, cy = rng.uniform(0, width), rng.uniform(0, height)
    rx, ry = rng.uniform(0.1, 0.45) * width, rng.uniform(0.1, 0.45) * height
    weight = np.clip(1.6 - 1.6 * np.hypot((xx - cx) / rx, (yy - cy) / ry), 0, 1)
    angle, period = rng.uniform(0, math.pi), rng.uniform(4, 22)
    u = (xx * math.cos(angle) + yy * math.sin(angle)) * np.float32(2 * math.pi / period)
    v = (yy * math.cos(angle) - xx * math.sin(angle)) * np.float32(2 * math.pi / period)
    kind = int(rng.integers(3))
    if kind == 0:
        pattern = np.sin(u)
    elif kind == 1:
        pattern = np.sign(np.sin(u) * np.sin(v))
    else:
        pattern = np.sin(u) + np.sin(v) > 0.9
    colour = rng.uniform(-110, 110, 3).astype(np.float32)
    canvas += (weight * pattern)[..., None] * colour


def _clutter(rng: np.random.Generator, draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    """Draw one thing that is none of the classes: a line, an arc, a bar or a letter."""
    colour = tuple(int(c) for c in rng.integers(0, 256, 3))
    x, y = rng.uniform(0, width), rng.uniform(0, height)
    kind = int(rng.integers(4))
    if kind == 0:
        end = (rng.uniform(0, width), rng.uniform(0, height))
        draw.line([(x, y), end], fill=colour, width=int(rng.integers(1, 5)))
    elif kind == 1:
        r, start = rng.uniform(8, 90), int(rng.integers(0, 360))
        stop = start + int(rng.integers(30, 170))
        draw.arc([x - r, y - r, x + r, y + r], start, stop, colour, int(rng.integers(1, 5)))
    elif kind == 2:
        angle, length, half = rng.uniform(0, math.pi), rng.uniform(20, 120), rng.uniform(2, 5)
        dx, dy = math.cos(angle), math.sin(angle)
        corners = [
            (length / 2, half),
            (-length / 2, half),
            (-length / 2, -half),
            (length / 2, -half),
        ]
        draw.polygon([(x + a * dx - b * dy, y + a * dy + b * dx) for a, b in corners], fill=colour)
    else:
        draw.text((x, y), chr(int(rng.integers(65, 91))) * int(rng.integers(1, 5)), fill=colour)


def _finish(rng: np.random.Generator, canvas: np.ndarray) -> None:
    """Add pixel noise and a change of brightness, in place."""
    canvas *= np.float32(rng.uniform(0.75, 1.15))
    sigma = float(rng.uniform(0, 14)) if rng.random() < 0.7 else 0.0
    if sigma:
        noise = rng.standard_normal((*canvas.shape[:2], 1), dtype=np.float32)
        canvas += noise * np.float32(sigma)


# --- shapes ---------------------------------------------------------------------------------


def _outline(class_id: int, rng: np.random.Generator) -> np.ndarray:
    """Return the unit polygon of a class, ``(n, 2)``, centred on the origin, not rotated."""
    name = CLASSES[class_id]
    if name in ("circle", "ring"):
        t = np.arange(72) * (2 * math.pi / 72)
        return np.stack([np.cos(t), np.sin(t)], 1)
    if name == "square":
        return np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)], float)
    if name == "triangle":
        t = np.arange(3) * (2 * math.pi / 3)
        return np.stack([np.cos(t), np.sin(t)], 1)
    if name == "star":
        t = np.arange(10) * (math.pi / 5)
        radius = np.where(np.arange(10) % 2, rng.uniform(0.36, 0.46), 1.0)
        return np.stack([np.cos(t) * radius, np.sin(t) * radius], 1)
    w = rng.uniform(0.26, 0.38)  # cross: half the width of a bar
    corner = [(w, 1), (w, w), (1, w), (1, -w), (w, -w), (w, -1)]
    return np.array(corner + [(-x, -y) for x, y in corner], float)


def _shape(
    rng: np.random.Generator, class_id: int, width: int, height: int
) -> tuple[np.ndarray, int, int, tuple[float, float, float, float]]:
    """Place one shape: coverage mask inside the canvas, its corner, and its whole box."""
    angle = rng.uniform(0, 2 * math.pi)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    points = _outline(class_id, rng) @ turn
    points *= rng.uniform(0.88, 1.0, 2)  # a slight stretch, so that boxes are not all alike
    longest = np.ptp(points, axis=0).max()
    limit = min(MAX_SIDE, 0.62 * min(width, height))
    side = math.exp(rng.uniform(math.log(MIN_SIDE), math.log(limit)))
    points *= side / longest
    centre = rng.uniform((0.02 * width, 0.02 * height), (0.98 * width, 0.98 * height))
    points += centre
    low, high = points.min(0), points.max(0)
    x0, y0 = (max(math.floor(v), 0) for v in low)
    x1, y1 = min(math.ceil(high[0]), width), min(math.ceil(high[1]), height)
    x1, y1 = max(x1, x0 + 1), max(y1, y0 + 1)
    drawn = Image.new("L", ((x1 - x0) * OVERSAMPLE, (y1 - y0) * OVERSAMPLE))
    draw = ImageDraw.Draw(drawn)
    local = (points - (x0, y0)) * OVERSAMPLE
    draw.polygon([(x, y) for x, y in local.tolist()], fill=255)
    if CLASSES[class_id] == "ring":
        middle = (np.array(centre) - (x0, y0)) * OVERSAMPLE
        hole = middle + (local - middle) * rng.uniform(0.45, 0.66)
        draw.polygon([(x, y) for x, y in hole.tolist()], fill=0)
    mask = np.asarray(drawn.resize((x1 - x0, y1 - y0), Image.BOX)).astype(np.float32) / 255
    return mask, x0, y0, (low[0], low[1], high[0], high[1])


def _full_area(class_id: int, box: tuple[float, float, float, float]) -> float:
    """Return about how many pixels a shape has, those outside of the canvas included."""
    fill = {"circle": 0.78, "square": 0.7, "triangle": 0.5, "star": 0.38, "cross": 0.5, "ring": 0.5}
    return fill[CLASSES[class_id]] * (box[2] - box[0]) * (box[3] - box[1])


def _clip(
    box: tuple[float, float, float, float], width: int, height: int
) -> tuple[float, float, float, float]:
    return max(box[0], 0.0), max(box[1], 0.0), min(box[2], width), min(box[3], height)


def _paint(
    rng: np.random.Generator, canvas: np.ndarray, mask: np.ndarray, x0: int, y0: int
) -> None:
    """Paint a shape's mask onto the canvas with a plain, shaded or striped fill."""
    target = canvas[y0 : y0 + mask.shape[0], x0 : x0 + mask.shape[1]]
    under = target[mask > 0.5].mean(0)
    colour = rng.uniform(0, 255, 3)
    for _ in range(20):
        if np.linalg.norm(colour - under) >= MIN_CONTRAST:
            break
        colour = rng.uniform(0, 255, 3)
    fill = np.broadcast_to(colour.astype(np.float32), target.shape).copy()
    style = rng.random()
    if style < 0.6:
        yy, xx = np.mgrid[0 : mask.shape[0], 0 : mask.shape[1]].astype(np.float32)
        angle = rng.uniform(0, 2 * math.pi)
        u = xx * math.cos(angle) + yy * math.sin(angle)
        if style < 0.35:
            shade = (u - u.mean()) / max(float(np.ptp(u)), 1.0) * rng.uniform(0, 90)
        else:
            shade = np.sin(u * (2 * math.pi / rng.uniform(4, 16))) * rng.uniform(5, 35)
        fill += shade[..., None].astype(np.float32)
    alpha = (mask * rng.uniform(0.85, 1.0))[..., None].astype(np.float32)
    target += (fill - target) * alpha


def main() -> None:
    """Write one scene as an image."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEEDS[0])
    parser.add_argument("--size", default=f"{SIZE}x{SIZE}", help="WIDTHxHEIGHT in pixels")
    parser.add_argument("--out", required=True)
    parser.add_argument("--boxes", action="store_true", help="draw the boxes as well")
    args = parser.parse_args()
    width, height = (int(v) for v in args.size.split("x"))
    image, boxes, class_ids = draw_scene(args.seed, width, height)
    drawn = draw_boxes(image, boxes, class_ids) if args.boxes else Image.fromarray(image)
    drawn.save(args.out)
    for box, class_id in zip(boxes.tolist(), class_ids.tolist()):
        print(CLASSES[class_id], *(f"{v:.1f}" for v in box))


if __name__ == "__main__":
    main()
