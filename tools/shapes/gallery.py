"""Draw the images of the README into docs/images/.

::

    python tools/shapes/gallery.py [FOLDER]

``detect.jpg`` shows the objects that the example detector finds on the simulated NPU. No net for
the other tasks is trained here: ``segment.jpg``, ``oriented.jpg`` and ``pose.jpg`` show the drawing
alone, of the true masks, rectangles and joints of scenes made up for it.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scenes
from PIL import Image, ImageDraw

from rknn_runtime import Detections, Detector, Model

ROOT = Path(__file__).resolve().parents[2]
SIZE = 320
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


def detect() -> Any:
    """Draw the objects that the trained detector finds in its scene."""
    scene = ROOT / "examples" / "scenes" / "scene.png"
    with Model(ROOT / "examples/models/shapes_rk3588.rknn", library="sim") as model:
        detector = Detector(model)
        found = detector(scene)
    return found.draw(scene, detector.labels)


def true_shapes(seed: int, kinds: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a scene of 8 separate shapes; return image, masks and class ids."""
    rng = np.random.default_rng(seed)
    canvas = scenes._background(rng, SIZE, SIZE)
    masks: list[np.ndarray] = []
    class_ids: list[int] = []
    while len(masks) < 8:
        class_id = scenes.CLASSES.index(rng.choice(kinds))
        cover, x, y, box = scenes._shape(rng, class_id, SIZE, SIZE)
        mask = np.zeros((SIZE, SIZE), bool)
        mask[y : y + cover.shape[0], x : x + cover.shape[1]] = cover > 0.5
        is_inside = min(box) >= 2 and max(box) <= SIZE - 2 and 45 < np.ptp(box[::2]) < 120
        if is_inside and not any((mask & other).any() for other in masks):
            scenes._paint(rng, canvas, cover, x, y)
            masks.append(mask)
            class_ids.append(class_id)
    image = np.clip(canvas + 0.5, 0, 255).astype(np.uint8)
    return image, np.array(masks), np.array(class_ids, np.int32)


def segment() -> Any:
    """Draw true masks."""
    image, masks, class_ids = true_shapes(34, scenes.CLASSES)
    boxes = [bounds(np.argwhere(mask)[:, ::-1]) for mask in masks]
    return truth(boxes, class_ids, mask=masks).draw(Image.fromarray(image), scenes.CLASSES)


def oriented() -> Any:
    """Draw the smallest rectangles around true shapes."""
    image, masks, class_ids = true_shapes(43, ("square", "cross", "triangle"))
    corners = np.array([rectangle(np.argwhere(mask)[:, ::-1]) for mask in masks], np.float32)
    boxes = [bounds(each) for each in corners]
    found = truth(boxes, class_ids, xyxyxyxy=corners)
    return found.draw(Image.fromarray(image), scenes.CLASSES)


def pose() -> Any:
    """Draw figures, and their joints on them."""
    rng = np.random.default_rng(5)
    canvas = scenes._background(rng, SIZE, SIZE)
    image = Image.fromarray(np.clip(canvas, 0, 255).astype(np.uint8))
    figures = [figure(rng, x, height) for x, height in ((70, 190), (165, 250), (262, 160))]
    for joints in figures:
        draw_figure(image, joints, tuple(int(v) for v in rng.integers(60, 200, 3)))
    boxes = [bounds(joints) + np.float32([-12, -26, 12, 12]) for joints in figures]
    points = np.array([np.c_[joints, np.ones(17)] for joints in figures], np.float32)
    class_ids = np.zeros(len(figures), np.int32)
    return truth(boxes, class_ids, keypoints=points).draw(image, ["person"])


def figure(rng: np.random.Generator, x: float, height: float) -> np.ndarray:
    """Return the joints of a figure that moves, ``(17, 2)`` in pixels."""
    joints = FIGURE.copy()
    for moved, joint in LIMBS:
        angle = rng.uniform(-0.9, 0.9) if joint < 11 else rng.uniform(-0.35, 0.35)
        c, s = math.cos(angle), math.sin(angle)
        joints[list(moved)] = (joints[list(moved)] - joints[joint]) @ [[c, s], [-s, c]]
        joints[list(moved)] += FIGURE[joint] if joint in (5, 6, 11, 12) else joints[joint]
    return np.c_[x + joints[:, 0] * height, SIZE - 20 - joints[:, 1] * height]


def draw_figure(image: Image.Image, joints: np.ndarray, color: tuple[int, ...]) -> None:
    draw = ImageDraw.Draw(image)
    width = round(np.ptp(joints[:, 1]) * 0.07)
    for a, b in BONES:
        draw.line([tuple(joints[a]), tuple(joints[b])], color, width)
    draw.polygon([tuple(joints[i]) for i in (5, 6, 12, 11)], fill=color)
    x, y, radius = *joints[0], width * 1.2
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(224, 180, 150))


def truth(boxes: list[np.ndarray], class_ids: np.ndarray, **more: np.ndarray) -> Detections:
    """Return the answer of a perfect net: the confidence is 1."""
    ones = np.ones(len(class_ids), np.float32)
    return Detections(np.array(boxes, np.float32), ones, class_ids, **more)


def bounds(points: np.ndarray) -> np.ndarray:
    """Return the box of points, ``(4,) float32, xyxy``."""
    return np.concatenate([points.min(axis=0), points.max(axis=0)]).astype(np.float32)


def rectangle(points: np.ndarray) -> np.ndarray:
    """Return the corners of the smallest rectangle around points, of those at whole degrees."""
    best = None
    for angle in np.radians(np.arange(90)):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        x1, y1, x2, y2 = bounds(points @ turn)
        area = (x2 - x1) * (y2 - y1)
        if best is None or area < best[0]:
            best = area, np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2)]) @ turn.T
    return best[1]


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for make in (detect, segment, oriented, pose):
        path = folder / f"{make.__name__}.jpg"
        make().convert("RGB").save(path, quality=88, optimize=True)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
