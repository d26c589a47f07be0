"""Judge files of one network, by images that they were not made with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.average_precision import overlaps, pairs
from rknn_runtime.conversion.measures import MEASURES, text_boxes
from rknn_runtime.conversion.plan import Plan
from rknn_runtime.conversion.readings import shrink
from rknn_runtime.conversion.sides import Decoding, OnnxSide, RecordedSide, open_side
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.letterbox import letterbox

#: A user's function: the outputs of float and of the file for one image, to a part from 0 to 1.
ScoreFunction = Callable[[Sequence[Array], Sequence[Array]], float]
#: A file, or its outputs for each image.
Judged = Union[str, Path, Sequence[Sequence[Array]]]
#: The smallest confidence of an object that counts, and of its counterpart: an object of 0.26 is
#: kept if the file gives it 0.24.
THRESHOLD, FAIR = 0.25, 0.15
#: Objects of less confidence still tell one choice of ranges from another.
_FAINT = 0.1
_MATCH_IOU = 0.5
#: Fewer objects do not tell how many are kept.
_ENOUGH = 10
#: The IoU that a target asks for at most: boxes of int8 are hardly better.
_IOU = 0.95
#: The part of an output's mean energy that every image is taken to have: nothing but noise has no
#: direction.
_FLOOR = 0.01
#: Probabilities below it are alike.
_LEAST = 1e-6


@dataclass(frozen=True)
class Score:
    """How much of float a file has; ``str()`` is a few words."""

    #: The figure that is compared with the target, 0 to 1.
    quality: float
    #: 0 to 1 without steps, to choose between files of like quality.
    fine: float
    #: What `quality` is: ``"detections"``, ``"top-1"``, ``"cosine"``, ``"function"``, or a task's
    #: measure: ``"texts equal"``, ``"IoU of boxes"``, ``"mIoU"``, ``"PCK"``.
    by: str
    #: The smallest cosine of an output over all images, and of a single image.
    cosine: float
    worst_cosine: float
    #: Objects of float; those that the file has, too; those that only the file has.
    count: int = 0
    kept: int = 0
    extra: int = 0
    #: The last two if an object needs the threshold on both sides.
    strictly_kept: int = 0
    strictly_extra: int = 0
    iou: float = math.nan
    confidence_difference: float = math.nan

    def meets(self, target: float) -> bool:
        """Tell whether a target is reached; boxes have to fit, too."""
        return self.quality >= target and not self.iou < min(target, _IOU)

    @property
    def rank(self) -> float:
        return self.quality + self.fine

    def __str__(self) -> str:
        cosine = f"cosine {self.cosine:.4f}, {self.worst_cosine:.4f} at worst"
        if self.by == "detections":
            counts = f"{self.kept} of {self.count} objects kept, {self.extra} extra"
            if math.isnan(self.confidence_difference):  # boxes of text have none
                return f"{counts}, IoU {self.iou:.3f}, {cosine}"
            return (
                f"{counts} (with one threshold "
                f"for both {self.strictly_kept} and {self.strictly_extra}), IoU {self.iou:.3f}, "
                f"confidence {self.confidence_difference:.3f} apart, {cosine}"
            )
        return cosine if self.by == "cosine" else f"{self.by} {self.quality:.4f}, {cosine}"


class FloatJudge:
    """The network in float, and the images to judge its files with.

    `frames` are ``(1, H, W, C) uint8``, in the colours of the network. Without a user's function
    `score`, files are judged by detections, the measure of the task, top-1 or cosine.
    """

    def __init__(
        self,
        plan: Plan,
        frames: Sequence[Array],
        given: Preprocessing,
        options: dict[str, Any],
        score: ScoreFunction | None = None,
    ) -> None:
        assert plan.onnx is not None
        self._side = OnnxSide(plan.onnx, "network", (given,))
        self._score = score
        self._has_head = plan.head is not None or plan.read_as is not None
        self._task, self._measure = plan.task, MEASURES.get(plan.task or "")
        self.frames = list(frames)
        self.outputs = [self._side.run(i, (frame,)) for i, frame in enumerate(frames)]
        self._floors = [
            _FLOOR * float(np.mean([_energy(each) for each in row])) for row in zip(*self.outputs)
        ]
        self._has_probabilities = _are_probabilities(self.outputs)
        is_vector = all(each.size == max(each.shape) for each in self.outputs[0])
        self._is_classifier = plan.task == "classify" or (self._has_probabilities and is_vector)
        recorded = RecordedSide([], "float", self._side.output_names)
        self._decoding = Decoding([recorded, recorded], {**options, "conf_threshold": _FAINT})

    def feed(self, index: int) -> dict[str, Array]:
        return self._side.feed((self.frames[index],))

    def weight(self, index: int) -> float:
        """Return how much of an image the network sees, to choose images by."""
        if self._has_head:
            ours, _ = self._decoded(index, self.outputs[index])
            return float(ours.confidence.sum())
        return sum(map(_energy, self.outputs[index]))

    def run(self, file: Judged) -> list[list[Array]]:
        """Return the outputs of a file for each image, in float and in the framework's order."""
        if not isinstance(file, (str, Path)):
            return [list(found) for found in file]
        side = open_side(file, "file", None)
        try:
            return [side.run(i, (frame,)) for i, frame in enumerate(self.frames)]
        finally:
            side.close()

    def of(self, file: Judged) -> Score:
        """Judge a ``.rknn`` file on the simulated NPU, or outputs for each image."""
        found = [self._in_shape(*each) for each in zip(self.outputs, self.run(file))]
        alike = [min(self._alike_each(*each)) for each in zip(self.outputs, found)]
        worst, mean = min(alike), float(np.mean(alike))
        whole = min(
            _cosine(np.stack(ours), np.stack(theirs))
            for ours, theirs in zip(zip(*self.outputs), zip(*found))
        )
        if self._score is not None:
            quality = [self._score(*each) for each in zip(self.outputs, found)]
            return Score(float(np.mean(quality)), mean, "function", whole, worst)
        if self._measure is not None:
            size = self.frames[0].shape[1:3]
            parts = [self._measure.alike(*each, size) for each in zip(self.outputs, found)]
            if self._task == "text-detection":
                boxes = [text_boxes(*each, size) for each in zip(self.outputs, found)]
                ious = [iou for *_, each in boxes for iou in each]
                count, kept = sum(first for first, _, _ in boxes), len(ious)
                extra = sum(second for _, second, _ in boxes) - kept
                if kept:
                    part = max(0.0, min(kept / count, 1 - extra / count))
                    return Score(
                        part, mean, "detections", whole, worst, count, kept, extra, kept, extra,
                        float(np.mean(ious)),
                    )  # fmt: skip
            return Score(float(np.mean(parts)), mean, self._measure.name, whole, worst)
        if self._has_head:
            score = self._of_detections(found, whole, worst)
            if score is not None:
                return score
        if self._is_classifier:
            same = [np.argmax(a[0]) == np.argmax(b[0]) for a, b in zip(self.outputs, found)]
            return Score(float(np.mean(same)), worst, "top-1", whole, worst)
        return Score(max(worst, 0.0), mean, "cosine", whole, worst)

    def loss(self, index: int, found: Sequence[Array]) -> float:
        """Return how far outputs for one image are from float, without steps; 0 is equal."""
        outputs = self._in_shape(self.outputs[index], found)
        if self._has_probabilities:
            # The Kullback-Leibler divergence: cosines hardly see a class grow unsure.
            p, q = (np.maximum(each, _LEAST) for each in (self.outputs[index][0], outputs[0]))
            return float(np.mean(np.sum(p * np.log(p / q), axis=-1)))
        apart = 1 - float(np.mean(self._alike_each(self.outputs[index], outputs)))
        if not self._has_head:
            return apart
        return 1 - _agreement(*self._decoded(index, outputs)) + apart

    def _of_detections(self, found: list[list[Array]], cosine: float, worst: float) -> Score | None:
        """Count the objects; None if float has none."""
        count = kept = extra = strictly_kept = strictly_extra = 0
        ious: list[float] = []
        apart: list[float] = []
        fine = []
        for index, outputs in enumerate(found):
            both = self._decoded(index, outputs)
            fine.append((_agreement(*both), float(both[0].confidence.sum())))
            ours, theirs = (each[each.confidence >= FAIR] for each in both)
            iou = overlaps(ours.xyxy, theirs.xyxy)
            matches = pairs(iou, ours.class_id[:, None] == theirs.class_id, _MATCH_IOU)
            sure, also = ours.confidence >= THRESHOLD, theirs.confidence >= THRESHOLD
            count += int(sure.sum())
            extra += int(also.sum()) - sum(bool(also[j]) for _, j in matches)
            strictly = sum(bool(sure[i] and also[j]) for i, j in matches)
            strictly_kept += strictly
            strictly_extra += int(also.sum()) - strictly
            for i, j in matches:
                if sure[i]:
                    kept += 1
                    ious.append(float(iou[i, j]))
                    apart.append(abs(float(ours.confidence[i]) - float(theirs.confidence[j])))
        if not count:
            return None
        quality = max(0.0, min(kept / count, 1 - extra / count))
        if count < _ENOUGH:
            quality = min(quality, max(worst, 0.0))
        weight = sum(each for _, each in fine)
        return Score(
            quality,
            sum(part * each for part, each in fine) / weight,
            "detections",
            cosine,
            worst,
            count,
            kept,
            extra,
            strictly_kept,
            strictly_extra,
            float(np.mean(ious)) if ious else 0.0,
            float(np.mean(apart)) if apart else 1.0,
        )

    def _decoded(self, index: int, outputs: Sequence[Array]) -> tuple[Detections, Detections]:
        both = [list(self.outputs[index]), list(outputs)]
        return self._decoding.decode(both, (self.frames[index],), None)

    def _in_shape(self, ours: Sequence[Array], theirs: Sequence[Array]) -> list[Array]:
        return [np.asarray(b, np.float32).reshape(a.shape) for a, b in zip(ours, theirs)]

    def _alike_each(self, ours: Sequence[Array], theirs: Sequence[Array]) -> list[float]:
        return [_cosine(a, b, floor) for a, b, floor in zip(ours, theirs, self._floors)]


def _agreement(ours: Detections, theirs: Detections) -> float:
    """Return how well objects agree, each with the most similar of the other side."""
    weight = float(ours.confidence.sum() + theirs.confidence.sum())
    if not weight:
        return 1.0
    same = ours.class_id[:, None] == theirs.class_id
    apart = np.abs(ours.confidence[:, None] - theirs.confidence)
    alike = np.where(same, overlaps(ours.xyxy, theirs.xyxy) * (1 - apart), 0.0)
    first = float(ours.confidence @ alike.max(axis=1, initial=0.0))
    return (first + float(theirs.confidence @ alike.max(axis=0, initial=0.0))) / weight


def _energy(values: Array) -> float:
    flat = np.asarray(values, np.float32).ravel()
    with np.errstate(all="ignore"):
        return float(flat @ flat)


def _cosine(a: Array, b: Array, floor: float = 0.0) -> float:
    """Return the cosine, 0 if a value is infinite or NaN."""
    first, second = (np.asarray(each, np.float32).ravel() for each in (a, b))
    with np.errstate(all="ignore"):
        product = float(first @ second) + floor
    size = math.sqrt((_energy(a) + floor) * (_energy(b) + floor))
    if not math.isfinite(product) or not math.isfinite(size):
        return 0.0
    return product / size if size else float(_energy(a) == _energy(b))


def _are_probabilities(outputs: Sequence[Sequence[Array]]) -> bool:
    """Tell whether the sum of the only output is always 1, of one vector or of each row."""
    if any(len(found) != 1 or found[0].ndim < 1 or found[0].shape[-1] < 2 for found in outputs):
        return False
    return all(bool(np.all(np.abs(found[0].sum(axis=-1) - 1) < 1e-3)) for found in outputs)


def variants(frame: Array, task: str | None = None) -> list[Array]:
    """Return an image flipped, larger, small on grey, and dark: its objects, but not its pixels.

    Mirrored or tiny lines are no text: those are lighter, larger, blurred and dark.
    """
    pixels = frame[0]
    height, width = pixels.shape[:2]
    color = "GRAY" if pixels.shape[2] == 1 else "RGB"
    flipped = np.ascontiguousarray(pixels[:, ::-1])
    part = np.ascontiguousarray(pixels[height // 10 : -height // 10, width // 10 : -width // 10])
    larger = letterbox(part, (height, width), out_color=color)[0]
    dark = (pixels * 0.6).astype(np.uint8)
    if task == "text-recognition":
        half = letterbox(pixels, (height // 2, width // 2), out_color=color)[0]
        blurred = letterbox(half, (height, width), out_color=color)[0]
        return [each[None] for each in (dark + np.uint8(100), larger, blurred, dark)]
    return [each[None] for each in (flipped, larger, shrink(flipped), dark)]
