"""Every family in every form of it, as runtimes deliver it: found, and NumPy's objects.

All of them go through `find_head`, with each dtype and layout; tests of one head alone are in its
own file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from native_tensors import deliver
from planting import Scene, every_delivery
from planting import anchors as planted_anchors
from planting import oriented as planted_oriented
from planting import segmentation as planted_segmentation
from planting import split as planted_split
from planting import yolox as planted_yolox
from planting.compare import assert_equal, assert_finds, assert_same_set
from reference import yolo as reference

from rknn_runtime.vision.heads.find import find_head


class Planted(NamedTuple):
    """Outputs of one head with a scene's objects in them."""

    #: Floats ``(C, H, W)``, or ``(C, N)`` without a grid.
    tensors: list
    #: From such tensors to NumPy's boxes, confidences and classes.
    decode: Callable
    #: How the outputs without a grid are stored: "rank3", "transposed", or "rank4".
    flat: str = "rank3"
    #: Options that the outputs cannot show.
    options: dict = {}  # noqa: RUF012
    #: IoU that int8 leaves of the boxes: 0.99, but where one step is pixels or percents of a size.
    least_iou: float = 0.99
    #: How far one step of a score moves the confidence: sigmoid's steepest slope for logits.
    slope: float = 1.0
    #: Which outputs have the scores.
    scores: slice = slice(None)


def one_cell_each(scene):
    """Drop the second cell of each object, for heads that suppress nothing."""
    scene.cells = [cell for k, cell in enumerate(scene.cells) if cell[0] != scene.cells[k - 1][0]]


def strides_of(scene):
    return [(s, s) for s in scene.strides]


def split(bins, sums=False, free=False, logits=False):
    def plant(scene):
        if free:
            one_cell_each(scene)
        pairs = planted_split.planted(scene, bins, logits)
        tensors = [x for pair in pairs for x in pair]
        if sums:  # of probabilities, also where the scores are logits
            likely = [(box, reference.sigmoid(x) if logits else x) for box, x in pairs]
            totals = planted_split.with_sums(likely)[2::3]
            tensors = [x for pair, total in zip(pairs, totals) for x in (*pair, total)]
        step = 3 if sums else 2

        def decode(real):
            pairs, limit = list(zip(real[::step], real[1::step])), 1.0 if free else 0.45
            return reference.split(pairs, strides_of(scene), 0.25, limit, logits=logits)

        options, scores = {"logits": logits}, slice(1, None, step)
        return Planted(tensors, decode, options=options, slope=0.25 if logits else 1, scores=scores)

    return plant


def anchors(logits=False, yolov7=False):
    def plant(scene):
        scored = not yolov7 or scene.classes > 1
        sizes = planted_anchors.sized(scene)
        tensors = planted_anchors.planted(scene, sizes, logits)

        def decode(real):
            return planted_anchors.reference_of(
                real, scene, sizes, logits=logits, class_scores=scored
            )

        options = {"anchors": sizes, "logits": logits}
        least = (0.92, 0.25) if logits else (0.98, 1)
        return Planted(tensors, decode, "", options, *least)

    return plant


def yolox(scene):
    tensors = planted_yolox.planted(scene)
    return Planted(tensors, lambda real: planted_yolox.reference_of(real, scene), least_iou=0.985)


def yolox_grid(scene):
    ends = np.cumsum([h * w for h, w in scene.grids()])[:-1]
    tensors = [t.reshape(len(t), -1) for t in planted_yolox.planted(scene)]

    def decode(real):
        parts = np.split(real[0], ends, axis=1)
        parts = [part.reshape(len(part), *grid) for part, grid in zip(parts, scene.grids())]
        return planted_yolox.reference_of(parts, scene)

    options = {"strides": scene.strides}
    return Planted([np.concatenate(tensors, axis=1)], decode, "transposed", options, 0.985)


def rows_of(scene, per_cell=1, objectness=False):
    """``(4 or 5 + classes, N)``, boxes 0..1: the end of a graph that computes the boxes."""
    starts = np.cumsum([0] + [h * w for h, w in scene.grids()])
    boxes = scene.rng.uniform(0, 1, (4, starts[-1]))
    scores = scene.noise(scene.classes, (starts[-1],))
    for k, branch, y, x, score in scene.cells:
        p = starts[branch] + y * scene.grids()[branch][1] + x
        corner, far = scene.xyxy[k].reshape(2, 2) / scene.size[::-1]
        boxes[:, p] = [*((corner + far) / 2), *(far - corner)]
        scores[scene.class_id[k], p] = score
    certain = np.where(scores.max(axis=0) > 0.2, 1.0, 0.5)[None]
    whole = np.concatenate([boxes, *([certain] if objectness else []), scores])
    empty = np.zeros_like(whole)
    return np.concatenate([whole, *([empty] * (per_cell - 1))], axis=1).astype(np.float32)


def single(flat, per_cell=1, objectness=False):
    def plant(scene):
        def decode(real):
            unit = scene.size[::-1]
            if not objectness:
                return reference.single(real[0], 0.25, 0.45, unit)
            boxes = real[0][:4].T * np.array([*unit, *unit], np.float32)
            return reference.objectness(boxes, real[0][4:].T, False, 0.25, 0.45)

        rows = rows_of(scene, per_cell, objectness)
        # One step of 1 / 255 is more than a pixel of an image.
        return Planted([rows], decode, flat, {"normalized": True}, 0.92)

    return plant


def end_to_end(scene):
    """Boxes and scores 0..1; one int8 scale leaves room for few classes."""
    rows = np.zeros((6, 300), np.float32)
    n = len(scene.xyxy)
    rows[:4, :n] = (scene.xyxy / np.array([*scene.size[::-1]] * 2)).T
    rows[4, :n] = np.linspace(0.95, 0.3, n)
    rows[4, n:] = 0.1
    scene.class_id = np.minimum(scene.class_id, 1)
    rows[5, :n] = scene.class_id

    def decode(real):
        found = real[0][:, real[0][4] >= 0.25]
        found = found[:, np.argsort(-found[4], kind="stable")]
        unit = np.array([*scene.size[::-1]] * 2, np.float32)
        return found[:4].T * unit, found[4], np.rint(found[5]).astype(int)

    return Planted([rows], decode, "transposed", {"normalized": True}, 0.95)


def split_segmentation(sums):
    def plant(scene):
        plain = split(16, sums)(scene)
        step = 3 if sums else 2
        prototypes, coefficients = planted_segmentation.planted_masks(scene)
        scales = [plain.tensors[i : i + step] for i in range(0, len(plain.tensors), step)]
        tensors = [x for scale, c in zip(scales, coefficients) for x in (*scale, c)]

        def decode(real):
            return plain.decode([x for i, x in enumerate(real[:-1]) if i % (step + 1) != step])

        return Planted([*tensors, prototypes], decode, scores=slice(1, -1, step + 1))

    return plant


def anchor_segmentation(scene):
    plain = anchors()(scene)
    prototypes, coefficients = planted_segmentation.planted_masks(scene, 3)
    tensors = [x for pair in zip(plain.tensors, coefficients) for x in pair]
    return plain._replace(
        tensors=[*tensors, prototypes],
        decode=lambda real: plain.decode(real[:-1:2]),
        scores=slice(0, -1, 2),
    )


def single_segmentation(flat, per_cell=1, objectness=False):
    def plant(scene):
        plain = single(flat, per_cell, objectness)(scene)
        prototypes, coefficients = planted_segmentation.planted_masks(scene)
        rows = np.tile(planted_segmentation.rows_of(coefficients).T, per_cell)
        head = np.concatenate([plain.tensors[0], rows])
        # Coefficients would make the int8 steps of boxes and scores four times as large.
        head[-len(rows) :] /= 2 * np.abs(head[-len(rows) :]).max()
        return plain._replace(
            tensors=[head, prototypes],
            decode=lambda real: plain.decode([real[0][: -len(rows)]]),
            scores=slice(1),
        )

    return plant


def joined(scene):
    """Boxes and logits in one output per scale, as the zoo's pose and obb have them."""
    pairs = planted_split.planted(scene, 16, logits=True)

    def decode(real):
        pairs = [(x[:64], x[64:]) for x in real]
        return reference.split(pairs, strides_of(scene), 0.25, 0.45, logits=True)

    tensors = [np.concatenate(pair) for pair in pairs]
    return Planted(tensors, decode, options={"logits": True}, slope=0.25)


def split_pose(scene):
    plain = joined(scene)
    n = sum(h * w for h, w in scene.grids())
    points = scene.rng.uniform(-0.5, 1.5, (51, n)).astype(np.float32) * scene.size[0]
    return plain._replace(
        tensors=[*plain.tensors, points],
        decode=lambda real: plain.decode(real[:-1]),
        scores=slice(0, -1),
    )


def single_pose(flat):
    def plant(scene):
        plain = single(flat)(scene)
        points = scene.rng.uniform(0, 1, (51, plain.tensors[0].shape[1])).astype(np.float32)
        return plain._replace(
            tensors=[np.concatenate([*plain.tensors, points])],
            decode=lambda real: plain.decode([real[0][:-51]]),
        )

    return plant


def split_oriented(scene):
    pairs, angles = planted_oriented.planted(scene)
    tensors = [*(np.concatenate(pair) for pair in pairs), angles[None]]

    def decode(real):
        pairs = [(x[:64], x[64:]) for x in real[:-1]]
        return reference.split_oriented(pairs, scene.strides, real[-1].ravel(), 0.25, 0.45)

    return Planted(tensors, decode, least_iou=0.985, slope=0.25, scores=slice(0, -1))


def single_oriented(flat):
    def plant(scene):
        """Angles are 0..1 here, since one int8 scale serves all."""
        rows = rows_of(scene)
        angles = scene.rng.uniform(0, 1, (1, rows.shape[1]))
        for k, branch, y, x, _ in scene.cells:
            first = sum(h * w for h, w in scene.grids()[:branch])
            angles[0, first + y * scene.grids()[branch][1] + x] = (k % 6) / 6
        rows = np.concatenate([rows, angles]).astype(np.float32)
        unit = np.array([*scene.size[::-1]] * 2, np.float32)

        def decode(real):
            (x,) = real
            return reference.oriented(x[:4].T * unit, x[-1], x[4:-1].T, 0.25, 0.45)

        return Planted([rows], decode, flat, {"normalized": True}, 0.92)

    return plant


#: The form to be found, the ``head=`` to ask for, and the planted outputs.
FAMILIES = {
    "yolov5": ("yolov5", "auto", anchors()),
    "yolov5 logits": ("yolov5", "auto", anchors(logits=True)),
    "yolov7": ("yolov7", "yolov7", anchors(yolov7=True)),
    "yolov7 logits": ("yolov7", "yolov7", anchors(logits=True, yolov7=True)),
    "yolov5 single": ("yolov5-single", "auto", single("transposed", 3, objectness=True)),
    "yolov6": ("yolov6-split", "auto", split(1)),
    "yolov6 sums": ("yolov6-split", "auto", split(1, sums=True)),
    "yolov6 single": ("yolox-single", "yolov6", single("transposed", objectness=True)),
    "yolov8": ("yolov8-split", "auto", split(16)),
    "yolov8 sums": ("yolov8-split", "auto", split(16, sums=True)),
    "yolov8 single": ("yolov8-single", "auto", single("rank3")),
    "yolov8 rank 4": ("yolov8-single", "auto", single("rank4")),
    "yolov8 transposed": ("yolov8-single", "yolov8", single("transposed")),
    "yolov8 logits": ("yolov8-split", "auto", split(16, logits=True)),
    "yolov10": ("yolov10-split", "yolov10", split(16, free=True)),
    "yolov10 sums": ("yolov10-split", "yolov10", split(16, sums=True, free=True)),
    "yolo26": ("yolov10-split", "yolo26", split(1, free=True)),
    "yolo26 sums": ("yolov10-split", "yolo26", split(1, sums=True, free=True)),
    "yolo26 logits": ("yolov10-split", "yolo26", split(1, sums=True, free=True, logits=True)),
    "end to end": ("end-to-end", "auto", end_to_end),
    "yolox": ("yolox", "auto", yolox),
    "yolox grid": ("yolox-grid", "yolox", yolox_grid),
    "yolox single": ("yolox-single", "yolox-single", single("transposed", objectness=True)),
    "ppyoloe": ("ppyoloe", "auto", split(17)),
    "ppyoloe sums": ("ppyoloe", "auto", split(17, sums=True)),
    "yolov5-seg": ("yolov5-seg", "auto", anchor_segmentation),
    "yolov5-seg single": (
        "yolov5-seg-single",
        "auto",
        single_segmentation("transposed", 3, objectness=True),
    ),
    "yolov8-seg": ("yolov8-seg-split", "auto", split_segmentation(sums=False)),
    "yolov8-seg sums": ("yolov8-seg-split", "auto", split_segmentation(sums=True)),
    "yolov8-seg single": ("yolov8-seg-single", "auto", single_segmentation("rank3")),
    "yolov8-pose": ("yolov8-pose-split", "auto", split_pose),
    "yolov8-pose single": ("yolov8-pose-single", "yolov8-pose", single_pose("rank3")),
    "yolov8-obb": ("yolov8-obb-split", "auto", split_oriented),
    "yolov8-obb single": ("yolov8-obb-single", "yolov8-obb", single_oriented("rank3")),
}


def deliver_one(x, planted, dtype, form, index):
    """A grid in this form; other outputs in the shape of the head's exporter."""
    if x.ndim == 2:
        x, form = x[:, None], form if planted.flat == "rank4" else planted.flat
    attr, raw, real = deliver(x[None], dtype, form, index=index, name=f"out{index}")
    return attr, raw, real[0] if x.shape[1] > 1 else real[0, :, 0]


def assert_same_rectangles(found, expected, step, iou_at_least=0.99):
    """As `assert_same_set`, for corners."""
    corners, confidence, class_id = expected
    overlap = np.array([[planted_oriented.iou(a, b) for b in corners] for a in found.xyxyxyxy])
    best = overlap.argmax(axis=1)
    assert sorted(best.tolist()) == list(range(len(corners)))
    assert overlap.max(axis=1).min() >= iou_at_least
    assert np.array_equal(found.class_id, class_id[best])
    assert np.abs(found.confidence - confidence[best]).max() <= step


@pytest.mark.parametrize("family", FAMILIES)
@every_delivery
def test_every_family(family, dtype, form, size, strides, classes):
    """The head is found, and finds what NumPy does in the same values, and in the floats."""
    head, asked, plant = FAMILIES[family]
    scene = Scene(7, size, strides, classes)
    planted = plant(scene)
    delivered = [deliver_one(x, planted, dtype, form, i) for i, x in enumerate(planted.tensors)]
    attrs, raw, real = (list(column) for column in zip(*delivered))
    reading = find_head(attrs, size, asked, num_classes=classes)
    assert (reading.head, reading.num_classes or classes) == (head, classes)
    found = reading.make(**planted.options)(raw)
    same, exact = planted.decode(real), planted.decode(planted.tensors)
    step = planted.slope * max(attr.native.scale for attr in attrs[planted.scores]) + 1e-3
    least_iou = planted.least_iou if dtype in ("int8", "uint8") else 0.99
    if found.xyxyxyxy is not None:
        assert_same_rectangles(found, same, 1e-5)
        assert_same_rectangles(found, exact, step, least_iou)
        return
    assert_equal(found, same, 0.05)
    assert_same_set(found, same, 1e-5)
    assert_same_set(found, exact, step, least_iou)
    assert_finds(found, scene, 0.85)
