"""Judge whether an image can show the objects found in it, and describe faults of models.

Every command and class uses these faults, words and cures.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rknn_runtime.vision.detections import Detections

#: The cure of all that is seen in objects.
ASK = "find the cause with: rknn-runtime doctor MODEL PHOTO"
#: What each sign says of an image.
_TEXTS = {
    "too-many": "as many objects are found as are kept at most, in a single image",
    "no-area": "most boxes have no area",
    "saturated": "nearly all confidences are 100 %",
    "equal-scores": "all confidences are equal",
    "double-sigmoid": "most confidences are 50 %, as if the sigmoid were applied twice",
    "corner": "all boxes lie in one corner of the image",
    "nothing": "nothing is found in any image",
    "unconfirmed": "the mirrored and the shrunk images do not show the same objects",
}
#: Fewer objects than these prove nothing.
_FEW, _MANY = 3, 20
#: Objects below this confidence are only there if somebody asked for them.
_USUAL = 0.25
_FULL = 0.999
#: The part of confidences that changed views confirm at least.
_CONFIRMED = 0.05
#: The part of an image's sides that is a corner.
_CORNER = 0.05


@dataclass(frozen=True)
class Symptom:
    """A likely fault of a model, or of the way it is used."""

    #: ``"shared-scale"``, ``"low-scores"``, ``"missing-sigmoid"``, ``"double-sigmoid"`` or
    #: ``"saturation"``, from the file; ``"too-many"``, ``"no-area"``, ``"saturated"``,
    #: ``"equal-scores"``, ``"double-sigmoid"``, ``"corner"``, ``"nothing"`` or
    #: ``"unconfirmed"``, from photos.
    kind: str
    #: The names of the tensors.
    tensors: tuple[str, ...]
    #: The finding, with numbers.
    text: str
    #: The cure.
    cure: str

    def __str__(self) -> str:
        return f"{self.text}: {self.cure}"


def shared_scale(name: str, lowest: float, highest: float, step: float) -> Symptom:
    """Describe boxes and scores in one integer scale that is too coarse for scores."""
    return Symptom(
        "shared-scale",
        (name,),
        f"output {name!r} has boxes and scores in one scale, {lowest:.4g} to {highest:.4g} "
        f"in steps of {step:.4g}: every score below {step / 2:.3g} is stored as 0",
        "convert the ONNX file with rknn-runtime convert, which makes boxes and scores outputs of "
        "their own",
    )


def coarse_keypoints(name: str, step: float) -> Symptom:
    """Describe positions and confidences of keypoints in one coarse integer scale."""
    return Symptom(
        "shared-scale",
        (name,),
        f"output {name!r} has positions and confidences of keypoints in one scale: positions are "
        f"off by up to {step / 2:.4g} pixels, confidences are multiples of {step:.4g}",
        "convert the model with this output in float16 (hybrid quantization)",
    )


@lru_cache(maxsize=256)
def tell(text: str) -> None:
    """Log a warning, each text once in a process."""
    import logging  # here, because it costs more than the rest of this package

    logging.getLogger("rknn_runtime").warning("%s", text)


def signs(found: Detections, size: tuple[int, int] | None, most: int) -> Iterator[str]:
    """Yield the signs of implausible objects of one image.

    `size` is its height and width, None: not known; `most` is how many objects the decoder returns
    at most.
    """
    count = len(found)
    if count < _FEW:
        return
    boxes, confidence = found.xyxy, found.confidence
    least = float(confidence.min())
    if count >= max(most, _MANY) and least >= _USUAL:
        yield "too-many"
    if ((boxes[:, 2:] - boxes[:, :2]).min(axis=1) < 1).mean() >= 0.5:
        yield "no-area"
    if count >= _MANY and (confidence >= _FULL).mean() >= 0.8:
        yield "saturated"
    elif count >= _MANY and least == float(confidence.max()):
        yield "equal-scores"
    # The sigmoid makes 0.5 of the many scores of 0, and keeps the others below 0.74.
    elif count >= _MANY and least >= 0.5 and float(np.median(confidence)) < 0.51:
        yield "double-sigmoid"
    if size is not None and _in_one_corner(found, size):
        yield "corner"


def _in_one_corner(found: Detections, size: tuple[int, int]) -> bool:
    height, width = size
    left, top = found.xyxy[:, :2].min(axis=0).tolist()
    right, bottom = found.xyxy[:, 2:].max(axis=0).tolist()
    is_aside = right <= _CORNER * width or left >= (1 - _CORNER) * width
    is_above_or_below = bottom <= _CORNER * height or top >= (1 - _CORNER) * height
    return bool(is_aside and is_above_or_below)


class Judge:
    """Collects the signs of several images, of a decoder that returns at most `most` objects."""

    def __init__(self, most: int = 300) -> None:
        self._most = most
        self._signs: Counter[str] = Counter()
        self.images = self.objects = 0
        self._whole = self._confirmed = 0.0

    def add(self, found: Detections, size: tuple[int, int] | None = None) -> None:
        """Look at the objects of one image; see `signs`."""
        self.images += 1
        self.objects += len(found)
        self._signs.update(signs(found, size, self._most))

    def confirm(self, whole: float, confirmed: float) -> None:
        """Note a sum of confidences, and the part of it that changed views of an image confirm."""
        self._whole, self._confirmed = self._whole + whole, self._confirmed + confirmed

    def symptoms(self) -> tuple[Symptom, ...]:
        """Return what at least half of the images show, or that none shows anything."""
        kinds = [kind for kind, count in self._signs.items() if 2 * count >= self.images]
        if self.images and not self.objects:
            kinds.append("nothing")
        if self._whole >= _FEW and self._confirmed < _CONFIRMED * self._whole:
            kinds.append("unconfirmed")
        return tuple(Symptom(kind, (), _TEXTS[kind], ASK) for kind in kinds)
