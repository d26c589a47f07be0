"""Choose the picture of ``rknn-runtime demo``: a scene on which the small network is right.

::

    python tools/shapes/demo.py [SEEDS]

Takes ``rknn_runtime/tools/data/demo.rknn.xz`` and writes ``demo.npz`` next to it: the scene in few
colours, which a wheel without Pillow can read.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import decode
import gallery
import numpy as np
import scenes
from PIL import Image

from rknn_runtime import Detector, Model

DATA = Path(__file__).resolve().parents[2] / "rknn_runtime" / "tools" / "data"
COLOURS, SIDE = 32, 224


def in_few_colours(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of a smaller image as numbers of colours, and the colours."""
    small = Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BOX)
    few = small.quantize(COLOURS, dither=Image.Dither.NONE)
    palette = np.array(few.getpalette()[: 3 * COLOURS], np.uint8).reshape(-1, 3)
    return np.asarray(few, np.uint8), palette


def main() -> None:
    """Try scenes, and keep the one with the most right objects."""
    best = -100.0
    model = Model(lzma.decompress((DATA / "demo.rknn.xz").read_bytes()), library="sim")
    with model:
        detector = Detector(model)
        for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 400):
            image, masks, class_ids = gallery.true_shapes(seed, scenes.CLASSES)
            boxes = np.array([gallery.bounds(np.argwhere(mask)[:, ::-1]) for mask in masks])
            boxes = boxes * (SIDE / image.shape[0])
            pixels, palette = in_few_colours(image)
            found = detector(palette[pixels])
            good = decode.iou_matrix(found.xyxy, boxes) > 0.7
            good &= found.class_id[:, None] == class_ids[None, :]
            right, wrong = int(good.any(axis=0).sum()), int((~good.any(axis=1)).sum())
            score = right - 2 * wrong + float(found.confidence.mean()) if len(found) else -100.0
            if score > best:
                best = score
                np.savez_compressed(DATA / "demo.npz", pixels=pixels, palette=palette)
                print(f"seed {seed}: {right} of {len(boxes)}, and {wrong} wrong", flush=True)


if __name__ == "__main__":
    main()
