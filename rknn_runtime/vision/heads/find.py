"""Find out which head a model's outputs belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.forms import FORMS, HEADS, Fit, HeadForm
from rknn_runtime.vision.heads.views import (
    Outputs,
    Size,
    channels_first,
    checked_size,
    describe,
)

__all__ = ["HEADS", "Reading", "find_head"]

#: How unusual a reading is.
Rank = tuple[bool, bool, int]


@dataclass(frozen=True)
class Reading:
    """One way to read the outputs: a form, its classes, and how to make its decoder."""

    head: str
    num_classes: int | None
    make: Callable[..., Decoder]
    #: See `HeadForm`.
    shares_scale: bool = False


#: Parts of the names of outputs of heads without NMS. In Ultralytics' graphs the layers of
#: YOLOv10's and YOLO26's are called one2one; the zoo's exports have the name of the model.
_FREE_NAMES = ("one2one", "yolov10", "yolo26")


def find_head(
    outputs: Outputs,
    input_size: Size,
    head: str = "auto",
    num_classes: int | None = None,
) -> Reading:
    """Tell which head a model's outputs belong to, from their number, shapes, ranges and names.

    Where outputs can be read in two ways, the one that agrees with `num_classes` counts,
    then one of 80 classes, then the more usual one.

    Args:
        outputs: Logical attributes of all outputs of the model.
        input_size: Height and width of the model's input in pixels.
        head: ``"auto"``, or a key of `HEADS`: a form, or a family.
        num_classes: Number of classes, if known.

    Returns:
        The reading; ``reading.make(**options)`` makes the decoder.

    Raises:
        ValueError: `head` is not known, or the outputs fit no head; the message lists them.
    """
    outputs = channels_first(outputs)
    input_size = checked_size(input_size)
    if not isinstance(head, str) or head not in ("auto", *HEADS):
        raise ValueError(f"head: expected 'auto' or one of {', '.join(HEADS)}; got {head!r}")
    names = "\n".join([attr.name for attr in outputs]).lower()
    is_free = any(part in names for part in _FREE_NAMES)
    found: list[tuple[Rank, Reading]] = []
    for form in FORMS if outputs else ():
        if head == "auto":
            skipped = form.named and not (is_free and form.nms_free)
        else:
            skipped = form.name not in HEADS[head]
        fit = "" if skipped else form.read(outputs, input_size, **_labels(form, num_classes))
        if not isinstance(fit, str):
            reading = _reading(form, fit, outputs, input_size, num_classes)
            is_coco = reading.num_classes == 80
            found.append(((not is_coco, is_free and not form.nms_free, fit.doubts), reading))
    fitting = [
        each
        for each in found
        if num_classes in (None, each[1].num_classes) or each[1].num_classes is None
    ]
    if not fitting:
        readings = [reading for _, reading in found]
        raise ValueError(_complaint(outputs, input_size, head, num_classes, readings))
    return min(fitting, key=lambda each: each[0])[1]


def _labels(form: HeadForm, num_classes: int | None) -> dict[str, Any]:
    """Return the arguments of reader and decoder that follow from the labels."""
    return {"num_classes": num_classes} if form.labelled and num_classes is not None else {}


def _reading(
    form: HeadForm, fit: Fit, outputs: Outputs, size: Size, num_classes: int | None
) -> Reading:
    fixed = {**form.options, **_labels(form, num_classes)}

    def make(**options: Any) -> Decoder:
        return form.make(outputs, size, **{**fixed, **options})

    return Reading(form.name, fit.num_classes, make, form.shares_scale)


def _fits(form: HeadForm, outputs: Outputs, size: Size) -> bool:
    """Whether outputs have a form, whatever the labels."""
    return not form.labelled and not isinstance(form.read(outputs, size), str)


def _complaint(
    outputs: Outputs, size: Size, head: str, num_classes: int | None, found: list[Reading]
) -> str:
    height, width = size
    listed = f"outputs of a model with {height} x {width} pixels of input:\n{describe(outputs)}"
    if found:
        counts = ", ".join(f"{r.head} of {r.num_classes} classes" for r in found)
        return f"there are {num_classes} labels, but the outputs make {counts}; {listed}"
    by_name = [form.name for form in FORMS if form.named and _fits(form, outputs, size)]
    if head == "auto" and by_name:
        return (
            f"head: expected {' or '.join(map(repr, by_name))}, got 'auto': these could be such "
            f"outputs, with boxes first, but only their order would tell; {listed}"
        )
    what = "no known head" if head == "auto" else f"no {head} head"
    return f"cannot tell how to decode: {what} has these {listed}\nknown heads: {', '.join(HEADS)}"
