"""Draw what wrong detections look like into docs/images/, for docs/wrong-detections.md.

::

    python tools/shapes/causes.py [FOLDER]

Each picture is the example network's own answer, misused in one way.
Needs onnxruntime and Pillow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from rknn_runtime import Detections, Detector
from rknn_runtime.vision import nms

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "examples" / "models"
SCENE = np.asarray(Image.open(ROOT / "examples" / "scenes" / "scene.png").convert("RGB"))
LABELS = ["circle", "square", "triangle", "star", "cross", "ring"]
SIDE = 220  # of a picture in pixels

#: An image, its objects, and the names that are drawn.
Shown = tuple[np.ndarray, Detections, Any]


def detected(image: Any, shown: Any = None, **options: Any) -> Shown:
    """Detect on the simulated NPU; another image than the one detected in may be shown."""
    with Detector.open(MODELS / "shapes_rk3588.rknn", library="sim", **options) as detector:
        found = detector(image)
        return (image if shown is None else shown), found, detector.labels


def in_float(scale: float, change: Callable[[np.ndarray], np.ndarray]) -> Shown:
    """Run the float network on pixels times ``scale``, and decode its changed output."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(MODELS / "shapes.onnx"))
    pixels = SCENE.transpose(2, 0, 1)[None].astype(np.float32) * scale
    rows = change(session.run(None, {"images": pixels})[0])[0, :, 0].T
    rows = np.ascontiguousarray(rows, np.float32)
    confidence, class_id = rows[:, 4:].max(1), rows[:, 4:].argmax(1).astype(np.int32)
    centre, size = rows[:, :2] * 320, rows[:, 2:4] * 320
    boxes = np.ascontiguousarray(np.concatenate([centre - size / 2, centre + size / 2], 1))
    kept = [i for i in nms(boxes, confidence, class_id) if confidence[i] >= 0.25]
    return SCENE, Detections(boxes[kept], confidence[kept], class_id[kept]), LABELS


def in_one_scale(rows: np.ndarray) -> np.ndarray:
    """Round boxes of 640 pixels and scores to the 256 levels of one int8 scale."""
    unit = np.r_[np.full(4, 640), np.ones(6)].reshape(1, 10, 1, 1)
    step = (rows * unit).max() / 255
    return np.round(rows * unit / step) * step / unit


def far_away() -> np.ndarray:
    """The scene as a small part of a large photo."""
    photo = np.full((1600, 1600, 3), 114, np.uint8)
    photo[700:860, 700:860] = np.asarray(Image.fromarray(SCENE).resize((160, 160)))
    return photo


def squashed() -> np.ndarray:
    """The scene as a wide photo, as networks see it that were trained on stretched ones."""
    return np.asarray(Image.fromarray(SCENE).resize((800, 240)))


def sheared() -> np.ndarray:
    """A camera's luma, whose rows have 16 bytes more than its reader knows."""
    luma = np.pad(np.asarray(Image.fromarray(SCENE).convert("L")), ((0, 0), (0, 16)))
    rows = luma.ravel()[: SCENE.shape[0] * SCENE.shape[1]].reshape(SCENE.shape[:2])
    return np.repeat(rows[..., None], 3, axis=2)


#: The page's order; the first is right.
CAUSES: dict[str, Callable[[], Shown]] = {
    "right": lambda: detected(SCENE),
    "colours": lambda: detected(SCENE, shown=SCENE[..., ::-1]),
    "normalization": lambda: in_float(1.0, lambda rows: rows),
    "head": lambda: detected(SCENE, head="yolox-single", labels=list("ABCDE")),
    "one-scale": lambda: in_float(1 / 255, in_one_scale),
    "unit": lambda: detected(SCENE, normalized=False),
    "stretched": lambda: detected(squashed()),
    "rows": lambda: detected(sheared()),
    "labels": lambda: detected(SCENE, labels=["person", "bicycle", "car", "bus", "train", "boat"]),
    "threshold": lambda: detected(SCENE, conf_threshold=0.004, iou_threshold=0.9),
    "far": lambda: detected(far_away()),
}


def main() -> None:
    """Draw all of them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in CAUSES.items():
        image, found, labels = make()
        drawn = Image.fromarray(found.draw(np.ascontiguousarray(image), labels)).convert("RGB")
        drawn.thumbnail((SIDE, SIDE))
        path = folder / f"wrong-{name}.jpg"
        drawn.save(path, quality=70, optimize=True)
        print(f"{path.name}: {len(found)} objects, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
