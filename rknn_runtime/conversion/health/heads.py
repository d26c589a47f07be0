"""Which head a model has: the one that the detector would take, or a classifier's."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import ModelInfo
from rknn_runtime.vision.heads.classification import ClassificationDecoder
from rknn_runtime.vision.heads.find import find_head
from rknn_runtime.vision.heads.views import representable

__all__ = ["Head", "guess_head", "image_size"]

#: Classes of ImageNet, without and with one for everything else. Other numbers
#: of classes say nothing: embeddings come in all sizes.
_IMAGENET = (1000, 1001)


@dataclass(frozen=True)
class Head:
    """What a model's outputs look like."""

    #: As `Detector.head` names it, ``"classifier"``, or ``"vector"``: numbers that may be the
    #: scores of a classifier, an embedding, or anything else.
    name: str
    #: None: the shapes do not say, or it is a vector.
    classes: int | None
    #: How many numbers a vector has; None for other heads.
    numbers: int | None = None
    #: Whether one scale quantizes boxes and scores together.
    shares_scale: bool = False

    def __str__(self) -> str:
        if self.numbers is not None:
            return f"one vector of {self.numbers} numbers"
        if self.classes is None:
            return self.name
        return f"{self.name}, {self.classes} {'class' if self.classes == 1 else 'classes'}"


def guess_head(info: ModelInfo) -> Head | None:
    """Guess the head as `Detector` does.

    Returns:
        The head, or None where no known head has such outputs.
    """
    facts = facts_of(info.custom_string)
    labels = facts.get("labels")
    n_labels = None if labels is None else len(labels)
    if len(info.outputs) == 1:
        numbers = max(info.outputs[0].shape, default=0)
        if math.prod(info.outputs[0].shape) == numbers:
            return _head_of_vector(info, numbers, n_labels)
    size = image_size(info)
    if size is None:
        return None
    try:
        reading = find_head(info.outputs, size, facts.get("head", "auto"), n_labels)
    except ValueError:
        return None
    return Head(reading.head, reading.num_classes, shares_scale=reading.shares_scale)


def image_size(info: ModelInfo) -> tuple[int, int] | None:
    """Height and width of the only input, or None where that is no image."""
    if len(info.inputs) != 1 or len(info.inputs[0].shape) != 4:
        return None
    _, _, height, width = info.inputs[0].nchw_shape
    return height, width


def _head_of_vector(info: ModelInfo, numbers: int, n_labels: int | None) -> Head | None:
    """Call the only output a classifier's where `Classifier` takes it and it is no embedding."""
    if numbers < 2:
        return None
    is_one_image = image_size(info) is not None and info.inputs[0].shape[0] == 1
    try:
        ClassificationDecoder(info.outputs[0])
    except ValueError:
        is_one_image = False
    if is_one_image and _are_scores(info, numbers, n_labels):
        return Head("classifier", numbers)
    return Head("vector", None, numbers)


def _are_scores(info: ModelInfo, numbers: int, n_labels: int | None) -> bool:
    """Tell scores of classes from an embedding, by what the file says.

    That is as many labels as numbers, a softmax, ImageNet's number of classes, or integers that
    stand for 0..1. Several softmaxes do not count: they are those of a transformer's layers.
    """
    if n_labels is not None:
        return n_labels == numbers
    softmaxes = sum(n for name, n in info.operators.items() if "softmax" in name.lower())
    lowest, highest = representable(info.outputs[0])
    is_probability = abs(lowest) <= 0.01 and abs(highest - 1) <= 0.01
    return softmaxes == 1 or numbers in _IMAGENET or is_probability
