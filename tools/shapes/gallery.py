"""Draw the images of the README into docs/images/.

::

    python tools/shapes/gallery.py [FOLDER]

On the simulated NPU the example detector finds objects (``detect.jpg``) and follows them
(``tracks.jpg``); the small networks of tasks.py make ``faces.jpg``, ``classes.jpg``,
``inside.jpg``, ``poses.jpg`` and ``text.jpg`` from images that were picked, and embedding.py's
makes ``embeddings.jpg``.
No network is trained for ``segment.jpg``, ``oriented.jpg`` and ``pose.jpg``: they show true masks,
rectangles and joints of invented scenes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import embedding
import figures
import numpy as np
import scenes
from figures import draw_figure, figure
from PIL import Image, ImageDraw

from rknn_runtime import (
    Detections,
    Detector,
    Embedder,
    MapEstimator,
    Model,
    PoseEstimator,
    Segmenter,
    TextDetector,
    TextReader,
    TextRecognizer,
)
from rknn_runtime.vision import Tracker
from rknn_runtime.vision.drawing import class_color

ROOT = Path(__file__).resolve().parents[2]
SIZE = 320
#: Seeds of the drawings; no network was trained on them.
SCENE, FACES, FIGURES, WORDS = 3_000_076, 3_000_002, 3_000_002, 3_000_010
MOVING, CROPS = 3_000_003, 3_000_318
NETWORKS = ROOT / "tools" / "shapes" / "networks"


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


def scenes_of_pixels() -> tuple[np.ndarray, Model]:
    """Return a drawn scene, and the network for its pixels."""
    image, *_ = scenes.draw_scene(SCENE, SIZE, SIZE)
    return image, Model(NETWORKS / "scene_rk3588.rknn", library="sim")


def classes() -> Any:
    """Draw the class of each pixel, as a trained network finds it."""
    image, model = scenes_of_pixels()
    with model:
        found = Segmenter(model, ["background", *scenes.CLASSES], output="classes")(image)
    return found.draw(Image.fromarray(image))


def inside() -> Any:
    """Draw how far pixels are inside of their shapes, as the same network finds it."""
    image, model = scenes_of_pixels()
    with model:
        return MapEstimator(model, output="inside")(image).draw(Image.fromarray(image))


def faces() -> Any:
    """Draw the faces and points that a trained network finds."""
    image, *_ = figures.draw_faces(FACES)
    path = NETWORKS / "face_rk3588.rknn"
    with Detector.open(path, ["face"], library="sim", conf_threshold=0.6) as detector:
        return detector(image).draw(Image.fromarray(image))


def poses() -> Any:
    """Draw the joints that a trained network finds in the true boxes of figures."""
    image, joints = figures.draw_figures(FIGURES)
    boxes = np.array([figures.figure_box(each) for each in joints])
    with PoseEstimator.open(NETWORKS / "pose_rk3588.rknn", ["figure"], library="sim") as estimator:
        found = estimator(image, boxes)
    return found.draw(image, keypoint_threshold=0.2)


def text() -> Any:
    """Draw the words that two trained networks find and read."""
    image, _ = figures.draw_words(WORDS, ["RK3588", "NPU", "2026", "CNN"], contrast=0.2)
    with TextReader(
        TextDetector.open(NETWORKS / "text_rk3588.rknn", library="sim", unclip_ratio=1.0),
        TextRecognizer.open(NETWORKS / "line_rk3588.rknn", library="sim"),
    ) as reader:
        return reader(image).draw(Image.fromarray(image))


def embeddings() -> Any:
    """Draw the cosines of crops of three shapes, with the crops at their sides."""
    seeds = [CROPS + kind + 6 * i for kind in (0, 3, 5) for i in range(4)]
    crops = [embedding.crop(seed)[0] for seed in seeds]
    with Embedder.open(NETWORKS / "embedding_rk3588.rknn", library="sim") as embedder:
        vectors = embedder.batch(crops)
    cosines = np.clip(embedder.similarity(vectors, vectors), 0, 1)[:, :, None]
    blue = np.round(255 + cosines * (np.array([30, 70, 160]) - 255)).astype(np.uint8)
    side, n = embedding.SIZE // 2, len(crops)
    image = Image.new("RGB", ((n + 1) * side, (n + 1) * side), "white")
    image.paste(Image.fromarray(blue).resize((n * side, n * side), Image.NEAREST), (side, side))
    for i, each in enumerate(crops):
        small = Image.fromarray(each).resize((side, side))
        image.paste(small, ((i + 1) * side, 0))
        image.paste(small, (0, (i + 1) * side))
    return image


def moving(seed: int, frames: int = 40) -> Iterator[np.ndarray]:
    """Draw a scene whose shapes move and cross each other."""
    rng = np.random.default_rng(seed)
    canvas = scenes._background(rng, SIZE, SIZE)
    starts, ends = rng.uniform(40, SIZE - 40, (2, 5, 2))
    for t in np.linspace(0, 1, frames):
        image = canvas.copy()
        for k, (start, end) in enumerate(zip(starts, ends)):
            own = np.random.default_rng([seed, k])
            cover, *_ = scenes._shape(own, k, 2 * SIZE, 2 * SIZE)
            drawn = Image.fromarray((cover * 255).astype(np.uint8)).resize((52, 52))
            x, y = (start + (end - start) * t - 26).astype(int)
            scenes._paint(own, image, np.asarray(drawn) / np.float32(255), x, y)
        yield np.clip(image + 0.5, 0, 255).astype(np.uint8)


def tracks() -> Any:
    """Draw the last frame of moving shapes, with the ways of the tracked objects before it."""
    tracker, ways = Tracker(), defaultdict(list)
    with Detector.open(ROOT / "examples/models/shapes_rk3588.rknn", library="sim") as detector:
        for frame in moving(MOVING):
            found = tracker(detector(frame))
            for number, box in zip(found.tracker_id, found.xyxy):
                ways[int(number)].append(tuple((box[:2] + box[2:]) / 2))
    image = found.draw(Image.fromarray(frame), color_by="track")
    for number, way in ways.items():
        if number >= 0:
            ImageDraw.Draw(image).line(way, class_color(number), 2)
    return image


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
    for make in (
        detect, segment, oriented, pose, classes, inside, faces, poses, text, tracks, embeddings,
    ):  # fmt: skip
        path = folder / f"{make.__name__}.jpg"
        make().convert("RGB").save(path, quality=88, optimize=True)
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
