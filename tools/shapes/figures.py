"""Draw what the networks of the other tasks see: figures, faces, words and lines of text.

Every function is pure: a seed decides everything. Needs numpy and Pillow.
"""

from __future__ import annotations

import math
import string

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from scenes import SIZE, _background, _finish

#: COCO's keypoints of a standing figure, 1 high, feet at 0: nose, eyes, ears, shoulders, elbows,
#: wrists, hips, knees, ankles, each left before right as the figure has it.
FIGURE = np.array(
    [(0, 0.92), (0.02, 0.94), (-0.02, 0.94), (0.05, 0.92), (-0.05, 0.92), (0.11, 0.79),
     (-0.11, 0.79), (0.2, 0.66), (-0.2, 0.66), (0.24, 0.52), (-0.24, 0.52), (0.07, 0.5),
     (-0.07, 0.5), (0.09, 0.27), (-0.09, 0.27), (0.1, 0.03), (-0.1, 0.03)]
)  # fmt: skip
#: What moves with a joint, and the joint: arms turn in the shoulder, and so on.
LIMBS = [((7, 9), 5), ((8, 10), 6), ((9,), 7), ((10,), 8), ((13, 15), 11), ((14, 16), 12)]
BONES = [(5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12), (11, 12), (11, 13), (13, 15),
         (12, 14), (14, 16)]  # fmt: skip
CROP = 128, 96  # height and width of the figures' network
#: Eyes, nose and corners of the mouth of a face of radius 1, as the viewer sees them.
FACE = np.array([(-0.38, -0.2), (0.38, -0.2), (0, 0.12), (-0.33, 0.48), (0.33, 0.48)])
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase
LINE = 32, 192  # height and width of the lines' network


def figure(
    rng: np.random.Generator, x: float, height: float, ground: float = SIZE - 20
) -> np.ndarray:
    """Return the joints of a figure that moves, ``(17, 2)`` in pixels."""
    joints = FIGURE.copy()
    for moved, joint in LIMBS:
        angle = rng.uniform(-0.9, 0.9) if joint < 11 else rng.uniform(-0.35, 0.35)
        c, s = math.cos(angle), math.sin(angle)
        joints[list(moved)] = (joints[list(moved)] - joints[joint]) @ [[c, s], [-s, c]]
        joints[list(moved)] += FIGURE[joint] if joint in (5, 6, 11, 12) else joints[joint]
    return np.c_[x + joints[:, 0] * height, ground - joints[:, 1] * height]


def draw_figure(image: Image.Image, joints: np.ndarray, color: tuple[int, ...]) -> None:
    """Draw bones, body and head."""
    draw = ImageDraw.Draw(image)
    width = round(np.ptp(joints[:, 1]) * 0.07)
    for a, b in BONES:
        draw.line([tuple(joints[a]), tuple(joints[b])], color, width)
    draw.polygon([tuple(joints[i]) for i in (5, 6, 12, 11)], fill=color)
    x, y, radius = *joints[0], width * 1.2
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(224, 180, 150))


def figure_box(joints: np.ndarray) -> np.ndarray:
    """Return the box of a figure, ``(4,) float32``, xyxy, with its head and feet."""
    margin = np.ptp(joints[:, 1]) * np.array([0.07, 0.14, 0.07, 0.07])
    low, high = joints.min(axis=0), joints.max(axis=0)
    return (np.concatenate([low, high]) + margin * (-1, -1, 1, 1)).astype(np.float32)


def draw_figures(seed: int) -> tuple[Image.Image, list[np.ndarray]]:
    """Draw three figures, and return their joints, too."""
    rng = np.random.default_rng([seed, 17])
    image = Image.fromarray(np.clip(_background(rng, SIZE, SIZE), 0, 255).astype(np.uint8))
    figures = [
        figure(rng, x + rng.uniform(-20, 20), rng.uniform(140, 270), SIZE - rng.uniform(5, 30))
        for x in (60, 160, 260)
    ]
    for joints in figures:
        draw_figure(image, joints, tuple(int(v) for v in rng.integers(40, 220, 3)))
    return image, figures


def draw_crop(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a figure as ``PoseEstimator`` cuts it out; return pixels and joints ``(17, 2)``."""
    rng = np.random.default_rng([seed, 18])
    image, figures = draw_figures(seed)
    joints = figures[int(rng.integers(3))]
    box = figure_box(joints)
    size = box[2:] - box[:2]
    centre = (box[:2] + box[2:]) / 2 + size * rng.uniform(-0.06, 0.06, 2)
    height, width = CROP
    scale = max(size[0] / width, size[1] / height) * 1.25 * rng.uniform(0.85, 1.15)
    left, top = centre - np.array([width, height]) / 2 * scale
    crop = image.transform((width, height), Image.AFFINE, (scale, 0, left, 0, scale, top), 2)
    pixels = np.asarray(crop).astype(np.float32)
    _finish(rng, pixels)
    if rng.integers(2):
        pixels = pixels[..., rng.permutation(3)]
    return np.clip(pixels, 0, 255).astype(np.uint8), (joints - (left, top)) / scale - 0.5


def draw_faces(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw up to six faces.

    Returns:
        The image; boxes, ``(n, 4) float32``, xyxy; points, ``(n, 5, 2) float32``.
    """
    rng = np.random.default_rng([seed, 5])
    image = Image.fromarray(np.clip(_background(rng, SIZE, SIZE), 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    boxes: list[np.ndarray] = []
    points: list[np.ndarray] = []
    wanted = int(rng.integers(1, 7))
    for _ in range(40):
        if len(boxes) == wanted:
            break
        radius = math.exp(rng.uniform(math.log(16), math.log(75)))
        x, y = rng.uniform(radius, SIZE - radius, 2)
        box = np.array([x - radius, y - radius * 1.2, x + radius, y + radius * 1.2], np.float32)
        if any((box[:2] < b[2:]).all() and (b[:2] < box[2:]).all() for b in boxes):
            continue
        boxes.append(box)
        points.append(_face(rng, draw, x, y, radius))
    canvas = np.asarray(image).astype(np.float32)
    _finish(rng, canvas)
    pixels = np.clip(canvas, 0, 255).astype(np.uint8)
    return pixels, np.array(boxes).reshape(-1, 4), np.array(points, np.float32).reshape(-1, 5, 2)


def _face(
    rng: np.random.Generator, draw: ImageDraw.ImageDraw, x: float, y: float, radius: float
) -> np.ndarray:
    angle = rng.uniform(-0.5, 0.5)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])

    def placed(shape: np.ndarray) -> np.ndarray:
        return shape @ turn * radius + (x, y)

    def fill(shape: np.ndarray, color: tuple[int, ...]) -> None:
        draw.polygon([tuple(p) for p in placed(shape)], fill=color)

    angles = np.arange(48) * math.pi / 24
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    tone = rng.uniform(0.35, 1)
    skin = tuple(int(v * tone) for v in (240, 200, 170))
    fill(circle * (0.95, 1.2), skin)
    hair = tuple(int(v) for v in rng.integers(0, 140, 3))
    fill(circle[24:] * (0.95, 1.2) + (0, -0.02), hair)
    fill(circle[24:] * (0.9, 0.62) + (0, -0.02), skin)
    landmarks = FACE * rng.uniform(0.9, 1.1, 2) + rng.uniform(-0.05, 0.05, 2)
    for eye in landmarks[:2]:
        fill(circle * (0.17, 0.11) + eye, (250, 250, 250))
        fill(circle * 0.09 + eye, (30, 30, 40))
    dark = tuple(int(v * 0.65) for v in skin)
    nose = landmarks[2]
    fill(np.array([(0, -0.3), (0.12, 0), (0, 0.05), (-0.12, 0)]) + nose, dark)
    left, right = landmarks[3:]
    dip = rng.uniform(0.02, 0.25)
    t = np.linspace(0, 1, 16)[:, None]
    upper = left + (right - left) * t
    lower = upper + np.c_[0 * t, dip * 4 * t * (1 - t)]
    lip = np.array([0, 0.03])
    fill(np.concatenate([upper - lip, lower[::-1] + lip]), (170, 40, 50))
    return placed(landmarks)


def _word(rng: np.random.Generator, shortest: int = 3, longest: int = 9) -> str:
    letters = rng.integers(0, len(CHARACTERS), int(rng.integers(shortest, longest + 1)))
    word = "".join(CHARACTERS[i] for i in letters)
    style = rng.random()
    return word.upper() if style < 0.3 else word.capitalize() if style < 0.6 else word


def render(word: str, height: int) -> np.ndarray:
    """Return the coverage of a word in Pillow's own font, ``(h, w) float32``, without margins."""
    font = ImageFont.load_default(height)
    left, top, right, bottom = font.getbbox(word)
    mask = Image.new("L", (int(right - left) + 2, int(bottom - top) + 2))
    ImageDraw.Draw(mask).text((1 - left, 1 - top), word, fill=255, font=font)
    return np.asarray(mask).astype(np.float32) / 255


def _blend(rng: np.random.Generator, canvas: np.ndarray, mask: np.ndarray, x: int, y: int) -> None:
    """Paint a mask in a colour that can be seen."""
    target = canvas[y : y + mask.shape[0], x : x + mask.shape[1]]
    under = target.mean(axis=(0, 1))
    color = rng.uniform(0, 255, 3)
    while abs((color - under).mean()) < 60:
        color = rng.uniform(0, 255, 3)
    target += (color.astype(np.float32) - target) * mask[..., None]


def draw_words(
    seed: int, words: list[str] | None = None, contrast: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw words, of random letters unless given, a little turned, on a background of a contrast.

    Returns:
        The image; corners of each word from its upper left one clockwise, ``(n, 4, 2) float32``.
    """
    rng = np.random.default_rng([seed, 4])
    canvas = _background(rng, SIZE, SIZE)
    canvas += (rng.uniform(0, 255, 3) - canvas) * np.float32(1 - contrast)
    taken = np.zeros((SIZE, SIZE), bool)
    given = list(words or [_word(rng) for _ in range(int(rng.integers(2, 9)))])
    corners = []
    for _ in range(80):
        if not given:
            break
        flat = render(given[-1], int(rng.integers(20, 46)))
        angle = rng.uniform(-12, 12)
        turned = Image.fromarray((flat * 255).astype(np.uint8)).rotate(angle, 2, expand=True)
        mask = np.asarray(turned).astype(np.float32) / 255
        height, width = mask.shape
        if width > SIZE - 8 or height > SIZE - 8:
            continue
        x, y = int(rng.integers(4, SIZE - width - 3)), int(rng.integers(4, SIZE - height - 3))
        place = slice(max(y - 6, 0), y + height + 6), slice(max(x - 6, 0), x + width + 6)
        if taken[place].any():
            continue
        taken[place] = True
        _blend(rng, canvas, mask, x, y)
        h, w = flat.shape
        c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        quad = np.array([(-w, -h), (w, -h), (w, h), (-w, h)]) / 2 @ [[c, -s], [s, c]]
        corners.append(quad + np.array([x + width / 2, y + height / 2]))
        given.pop()
    _finish(rng, canvas)
    return np.clip(canvas, 0, 255).astype(np.uint8), np.array(corners, np.float32).reshape(-1, 4, 2)


def draw_line(seed: int) -> tuple[np.ndarray, str, np.ndarray]:
    """Draw a word as ``TextRecognizer`` sees it: of the input's height, grey to its right.

    Returns:
        The image, the word, and the middle of each of its characters in pixels.
    """
    rng = np.random.default_rng([seed, 3])
    word, size = _word(rng), int(rng.integers(18, 46))
    flat = render(word, size)
    turned = Image.fromarray((flat * 255).astype(np.uint8)).rotate(
        rng.uniform(-3, 3), 2, expand=True
    )
    margin = np.asarray(rng.uniform(0.02, 0.3, 4) * flat.shape[0]).astype(int)
    mask = np.pad(np.asarray(turned).astype(np.float32) / 255, (margin[:2], margin[2:]))
    canvas = np.empty((*mask.shape, 3), np.float32)
    canvas[:] = rng.uniform(0, 255, 3)
    if rng.random() < 0.5:
        canvas = canvas * 0.5 + _background(rng, *mask.shape[::-1]) * 0.5
    _blend(rng, canvas, mask, 0, 0)
    _finish(rng, canvas)
    image = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    height, width = LINE
    wide = min(width, max(1, round(image.width * height / image.height)))
    line = np.full((height, width, 3), 127, np.uint8)
    line[:, :wide] = np.asarray(image.resize((wide, height), Image.BILINEAR))
    font = ImageFont.load_default(size)
    ends = np.array([font.getlength(word[:i]) for i in range(len(word) + 1)])
    first = margin[2] + (mask.shape[1] - ends[-1] - margin[2:].sum()) / 2
    return line, word, ((ends[1:] + ends[:-1]) / 2 + first) * wide / image.width
