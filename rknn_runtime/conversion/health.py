"""Find the likely reasons why a converted model detects nothing, from its file alone.

It looks at the head, at the ranges of the outputs and at the calibration, and says the cure.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import CalibratedRange, ModelInfo
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.classification import ClassificationDecoder
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.find import find_head
from rknn_runtime.vision.heads.outputs import representable
from rknn_runtime.vision.plausibility import Judge, Symptom
from rknn_runtime.vision.tasks import are_scores

__all__ = ["Head", "Symptom", "check", "findings", "guess_head", "judge_photos", "symptoms_of_head"]

#: The part of the measured range that may be clipped.
CUT = 0.1
#: The usual confidence threshold.
USUAL = 0.5


def check(model: str | os.PathLike[str] | bytes) -> tuple[Symptom, ...]:
    """Look for likely faults of a model, without running it.

    The head is guessed from shapes and ranges as `Detector` does. It finds nothing in a float16
    model, whose outputs hold any number.

    Args:
        model: Path or bytes of a ``.rknn`` file.

    Returns:
        The symptoms, the most serious first; empty for a healthy model.

    Raises:
        InvalidModelError: The file is no model, or damaged.
        OSError: The file cannot be read.
    """
    with opened(model) as data:
        file = ModelFile(data)
        return findings(file.info(), file.calibration())


def findings(info: ModelInfo, calibration: Mapping[str, CalibratedRange]) -> tuple[Symptom, ...]:
    """Check a file that was already read; see `check`.

    Args:
        info: The model.
        calibration: The ranges of tensors by name, from the file.
    """
    head = guess_head(info)
    found = list(_of_head(info, head)) if head is not None else []
    return (*found, *_saturation(calibration))


def judge_photos(
    model: str | os.PathLike[str] | bytes, photos: Sequence[str | os.PathLike[str]]
) -> tuple[Symptom, ...]:
    """Detect in photos on the simulated NPU, and judge the objects.

    Raises:
        ImportError: Pillow is not installed.
        InvalidModelError: The file is no model, or damaged.
        OSError: A file cannot be read.
        ValueError: The model does not detect, or a photo cannot be decoded.
    """
    # Only here: a file is judged without a runtime.
    from rknn_runtime.npu.model import Model
    from rknn_runtime.vision.detector import Detector
    from rknn_runtime.vision.images import size_of_file

    judge = Judge()
    with Model(model, library="sim") as loaded:
        detector = Detector(loaded)
        detector._judge = None  # it would log what is returned here
        for photo in photos:
            judge.add(detector(photo), size_of_file(photo))
    return judge.symptoms()


def symptoms_of_head(info: ModelInfo, head: Head) -> tuple[Symptom, ...]:
    """Return the faults that the decoder of a head finds in the outputs."""
    decoder = _decoder(info, head)
    return () if decoder is None else decoder.symptoms


def _of_head(info: ModelInfo, head: Head) -> Iterator[Symptom]:
    decoder = _decoder(info, head)
    if decoder is None:
        return
    yield from decoder.symptoms
    scores = _scores(info, head)
    if not scores:
        return
    logits = bool(getattr(decoder, "logits", False))
    yield from _low_scores(scores, logits)
    yield from (_double_sigmoid if logits else _missing_sigmoid)(scores, head)


def _low_scores(attrs: tuple[TensorAttr, ...], logits: bool) -> Iterator[Symptom]:
    """Report scores that cannot reach the usual threshold."""
    highest = max(representable(attr)[1] for attr in attrs)
    if highest <= 0 if logits else highest < USUAL:
        names = tuple(attr.name for attr in attrs)
        after = " after the sigmoid" if logits else ""
        yield Symptom(
            "low-scores",
            names,
            f"the scores in {', '.join(map(repr, names))} reach {highest:.4g} at most, so no "
            f"confidence passes {USUAL}{after}",
            "calibrate with images that show the objects, prepared as at run time (letterbox, "
            "colour order, mean and std)",
        )


def _missing_sigmoid(attrs: tuple[TensorAttr, ...], head: Head) -> Iterator[Symptom]:
    for attr in attrs:
        lowest, highest = representable(attr)
        # A symmetric scale, or one that is a power of 2, reaches further than the values.
        is_wide = attr.affine is not None and attr.affine[0] == 0
        if (2.05 if is_wide else 1.05) < highest < float("inf"):
            yield Symptom(
                "missing-sigmoid",
                (attr.name,),
                f"the scores in {attr.name!r} reach from {lowest:.4g} to {highest:.4g}, but the "
                f"head {head.name} takes them as probabilities",
                "give Detector(model, logits=True), or keep the sigmoid in the graph",
            )


def _double_sigmoid(attrs: tuple[TensorAttr, ...], head: Head) -> Iterator[Symptom]:
    for attr in attrs:
        lowest, highest = representable(attr)
        if lowest >= -0.01 and highest <= 1.05:
            yield Symptom(
                "double-sigmoid",
                (attr.name,),
                f"the scores in {attr.name!r} reach from {lowest:.4g} to {highest:.4g} as "
                f"probabilities do, but the head {head.name} takes them as logits, so each "
                "would become 0.5 or more",
                "give Detector(model, logits=False) where the head takes it, or cut the graph in "
                "front of the sigmoid",
            )


def _saturation(calibration: Mapping[str, CalibratedRange]) -> Iterator[Symptom]:
    for name, kept in calibration.items():
        width = kept.highest - kept.lowest
        lost = max(kept.lowest - kept.measured_lowest, kept.measured_highest - kept.highest)
        if width > 0 and lost > CUT * width:
            yield Symptom(
                "saturation",
                (name,),
                f"{name!r} was measured from {kept.measured_lowest:.4g} to "
                f"{kept.measured_highest:.4g} in calibration, but is kept from {kept.lowest:.4g} "
                f"to {kept.highest:.4g}: values beyond are cut",
                "convert with quantized_algorithm='normal', or look for a calibration image "
                "that is not like the others",
            )


class Head(NamedTuple):
    """The head of a model, as far as its outputs tell."""

    #: The name as in `Detector.head`, or ``"classifier"``, or ``"vector"``: numbers that may be
    #: scores of a classifier, an embedding, or anything else.
    name: str
    #: The number of classes; None if the shapes do not tell, and for a vector.
    classes: int | None
    #: The length of a vector; None for other heads.
    numbers: int | None = None
    #: Whether boxes and scores share one scale.
    shares_scale: bool = False
    #: See `Reading`.
    others: str = ""

    def __str__(self) -> str:
        if self.numbers is not None:
            return f"one vector of {self.numbers} numbers"
        if self.classes is None:
            return self.name
        told = f"{self.name}, {self.classes} {'class' if self.classes == 1 else 'classes'}"
        return f"{told}; or {self.others}" if self.others else told


def guess_head(info: ModelInfo) -> Head | None:
    """Guess the head as `Detector` does.

    Returns:
        The head, or None if no known head has such outputs.
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
    return Head(
        reading.head, reading.num_classes, shares_scale=reading.shares_scale, others=reading.others
    )


def image_size(info: ModelInfo) -> tuple[int, int] | None:
    """Return height and width of the only input, or None if it is no image."""
    if len(info.inputs) != 1 or len(info.inputs[0].shape) != 4:
        return None
    _, channels, height, width = info.inputs[0].nchw_shape
    return (height, width) if channels in (1, 3) else None


def _head_of_vector(info: ModelInfo, numbers: int, n_labels: int | None) -> Head | None:
    """Tell a classifier, as `Classifier` takes it, from an embedding."""
    if numbers < 2:
        return None
    is_one_image = image_size(info) is not None and info.inputs[0].shape[0] == 1
    try:
        ClassificationDecoder(info.outputs[0])
    except ValueError:
        is_one_image = False
    if is_one_image and are_scores(info.outputs[0], n_labels, info.operators):
        return Head("classifier", numbers)
    return Head("vector", None, numbers)


def _decoder(info: ModelInfo, head: Head) -> Decoder | None:
    """Make the decoder of a head; None for a classifier."""
    size = image_size(info)
    labels = facts_of(info.custom_string).get("labels")
    if size is None or head.numbers is not None:
        return None
    try:
        count = None if labels is None else len(labels)
        return find_head(info.outputs, size, head.name, count).make()
    except ValueError:
        return None


def _scores(info: ModelInfo, head: Head) -> tuple[TensorAttr, ...]:
    """Return the outputs with scores, if their shapes differ from the shapes of boxes."""
    if head.shares_scale or head.classes is None:
        return ()
    grids = [attr for attr in info.outputs if len(attr.shape) == 4]
    scales = {attr.nchw_shape[2:] for attr in grids}
    found = tuple(attr for attr in grids if attr.nchw_shape[1] == head.classes)
    return found if len(found) == len(scales) else ()
