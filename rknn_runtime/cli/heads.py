"""Which head a model has: the one that the detector would take, or a classifier's."""

from __future__ import annotations

from dataclasses import dataclass

from rknn_runtime.enums import Layout
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.reader import ModelInfo
from rknn_runtime.vision.heads.find import find_head

__all__ = ["Head", "guess_head"]

#: Parts of the names of forms that have boxes and scores as channels of one tensor. The
#: tensors of YOLOv5 are one, too, but all 0..1.
_SHARED = ("-single", "-grid", "end-to-end", "yolox")


@dataclass(frozen=True)
class Head:
    """What a model's outputs look like."""

    #: As `Detector.head` names it, or ``"classifier"``.
    name: str
    #: None: the shapes do not say.
    classes: int | None

    def __str__(self) -> str:
        if self.classes is None:
            return self.name
        return f"{self.name}, {self.classes} {'class' if self.classes == 1 else 'classes'}"

    @property
    def shares_scale(self) -> bool:
        """Whether one scale quantizes boxes and scores together."""
        return any(part in self.name for part in _SHARED)


def guess_head(info: ModelInfo) -> Head | None:
    """Guess the head as `Detector` does.

    Returns:
        The head, or None when nothing known looks like that.
    """
    inputs, outputs = info.inputs, info.outputs
    shapes = [attr.shape for attr in outputs]
    if len(shapes) == 1 and (len(shapes[0]) == 2 or shapes[0][2:] == (1, 1)):
        return Head("classifier", shapes[0][1]) if shapes[0][1] > 1 else None
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    shape = inputs[0].shape
    size = shape[1:3] if inputs[0].layout is Layout.NHWC else shape[2:4]
    facts = facts_of(info.custom_string)
    labels = facts.get("labels")
    try:
        reading = find_head(
            outputs,
            (size[0], size[1]),
            facts.get("head", "auto"),
            None if labels is None else len(labels),
        )
    except ValueError:
        return None
    return Head(reading.head, reading.num_classes)
