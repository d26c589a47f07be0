"""Looks for what makes an int8 model detect nothing: by its head, its ranges, its calibration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rknn_runtime.conversion.health.heads import Head, guess_head, image_size
from rknn_runtime.modelfile.container import opened
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import CalibratedRange, ModelInfo
from rknn_runtime.modelfile.reader import ModelFile
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.find import find_head
from rknn_runtime.vision.heads.views import representable

__all__ = ["Symptom", "check", "findings"]

#: A tensor with a range this large leaves fewer than three int8 values for a score of 0 to 1.
FAR = 100.0
#: Part of the measured range that the kept one may leave out.
CUT = 0.1
#: The confidence that a detection has to pass where nobody set another threshold.
USUAL = 0.5


@dataclass(frozen=True)
class Symptom:
    """Something that is likely wrong."""

    #: ``"shared-scale"``, ``"low-scores"``, ``"missing-sigmoid"``, ``"double-sigmoid"`` or
    #: ``"saturation"``.
    kind: str
    #: Names of the tensors.
    tensors: tuple[str, ...]
    #: What was found, in numbers.
    text: str
    #: What to do.
    cure: str

    def __str__(self) -> str:
        return f"{self.text}: {self.cure}"


def check(model: str | os.PathLike[str] | bytes) -> tuple[Symptom, ...]:
    """Look for what is likely wrong with a model.

    Nothing is run: heads are told from shapes and ranges as `Detector` does, so of a float16
    model, whose outputs hold any number, nothing is found.

    Args:
        model: A ``.rknn`` file: path or bytes.

    Returns:
        What was found, the most serious first; empty for a healthy model.

    Raises:
        InvalidModelError: It is no model, or a damaged one.
        OSError: The file cannot be read.
        TypeError: It is neither path nor bytes.
    """
    with opened(model) as data:
        file = ModelFile(data)
        return findings(file.info(), file.calibration())


def findings(info: ModelInfo, calibration: Mapping[str, CalibratedRange]) -> tuple[Symptom, ...]:
    """Check a file that was read already; see `check`.

    Args:
        info: The model.
        calibration: Ranges of tensors by name, as the file tells them.
    """
    head = guess_head(info)
    found = list(_of_head(info, head)) if head is not None else []
    return (*found, *_saturation(calibration))


def _of_head(info: ModelInfo, head: Head) -> Iterator[Symptom]:
    if head.name == "classifier" or head.numbers is not None:
        return
    if head.shares_scale:
        yield from filter(None, map(_shared_scale, info.outputs))
    scores = _scores(info, head)
    if not scores:
        return
    logits = _logits(info, head)
    yield from _low_scores(scores, logits)
    yield from (_double_sigmoid if logits else _missing_sigmoid)(scores, head)


def _shared_scale(attr: TensorAttr) -> Symptom | None:
    lowest, highest = representable(attr)
    if attr.affine is None or not FAR <= max(-lowest, highest) < float("inf"):
        return None
    step = attr.affine[1]
    return Symptom(
        "shared-scale",
        (attr.name,),
        f"output {attr.name!r} has boxes and scores in one scale, {lowest:.4g} to {highest:.4g} "
        f"in steps of {step:.4g}: every score below {step / 2:.3g} is stored as 0",
        "convert the ONNX file with rknn-runtime convert, which makes boxes and scores outputs of "
        "their own",
    )


def _low_scores(attrs: tuple[TensorAttr, ...], logits: bool) -> Iterator[Symptom]:
    """Find scores whose highest stored value is below the usual threshold."""
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
        # A scale that is symmetric, or a power of 2, reaches beyond what it was made for.
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
                f"to {kept.highest:.4g}: what lies beyond is cut",
                "convert with quantized_algorithm='normal', or look for a calibration image "
                "that is not like the others",
            )


def _logits(info: ModelInfo, head: Head) -> bool:
    """Whether the head's decoder applies the sigmoid."""
    size = image_size(info)
    labels = facts_of(info.custom_string).get("labels")
    if size is None:
        return False
    try:
        reading = find_head(info.outputs, size, head.name, None if labels is None else len(labels))
        return bool(getattr(reading.make(), "logits", False))
    except ValueError:
        return False


def _scores(info: ModelInfo, head: Head) -> tuple[TensorAttr, ...]:
    """The outputs that hold the scores, where the shapes tell them from boxes."""
    if head.shares_scale or head.classes is None:
        return ()
    grids = [attr for attr in info.outputs if len(attr.shape) == 4]
    scales = {attr.nchw_shape[2:] for attr in grids}
    found = tuple(attr for attr in grids if attr.nchw_shape[1] == head.classes)
    return found if len(found) == len(scales) else ()
