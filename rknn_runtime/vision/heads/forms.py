"""The forms that heads come in: one row each.

Whether outputs have a form is told by the reader beside its decoder, from shapes and ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, Union

from rknn_runtime.vision.heads.anchors import AnchorDecoder, read_anchors, yolov7_decoder
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.end_to_end import EndToEndDecoder, read_end_to_end
from rknn_runtime.vision.heads.grids import cells_of_one
from rknn_runtime.vision.heads.oriented import (
    SingleOrientedDecoder,
    SplitOrientedDecoder,
    read_oriented_single,
    read_oriented_split,
)
from rknn_runtime.vision.heads.pose import (
    SinglePoseDecoder,
    SplitPoseDecoder,
    read_pose_single,
    read_pose_split,
)
from rknn_runtime.vision.heads.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
    read_segmentation_anchors,
    read_segmentation_single,
    read_segmentation_split,
)
from rknn_runtime.vision.heads.single import SingleOutputDecoder, read_single
from rknn_runtime.vision.heads.split import SplitDecoder, read_split
from rknn_runtime.vision.heads.views import Outputs, Size
from rknn_runtime.vision.heads.yolox import YoloxDecoder, read_yolox

__all__ = ["FORMS", "HEADS", "Fit", "HeadForm"]


class Fit(Protocol):
    """What a reader returns when the outputs have its form."""

    @property
    def num_classes(self) -> int | None:
        """Classes; None: the shapes do not say."""

    @property
    def doubts(self) -> int:
        """How unusual this reading is: 0 for the usual one."""


Reader = Callable[..., Union[Fit, str]]


@dataclass(frozen=True)
class HeadForm:
    """One form that heads come in."""

    name: str
    #: Called with outputs, input size and options.
    make: Callable[..., Decoder]
    #: Called with outputs and input size; returns a `Fit`, or why they do not fit.
    read: Reader
    #: Other names for it in ``head=``.
    families: tuple[str, ...]
    #: Further arguments of the decoder.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether boxes and scores are channels of one tensor, and so have one scale. YOLOv5 also has
    #: one tensor, but all of its values are 0..1, or all are logits, so one scale is enough.
    shares_scale: bool = False
    #: Whether it looks like another form, and so is only taken when ``head=`` asks for it.
    named: bool = False
    #: Whether the number of labels tells classes from other channels: reader and decoder take it.
    labelled: bool = False
    #: Whether it is trained to give one box per object. Such a form is also taken where the name
    #: of an output says so.
    nms_free: bool = False


def _scales(read: Reader) -> Reader:
    """Read several scales."""

    def read_scales(outputs: Outputs, size: Size, **kind: Any) -> Fit | str:
        several = len({attr.shape[2:] for attr in outputs}) > 1
        return read(outputs, size, **kind) if several else "expected several scales"

    return read_scales


def _detections(outputs: Outputs, size: Size) -> Fit | str:
    form = read_end_to_end(outputs)
    if isinstance(form, str) or form.n == 300 or cells_of_one(form.n, size) is None:
        return form
    return "expected another number of detections than of cells"


def _any_pose(outputs: Outputs, size: Size, num_classes: int | None = None) -> Fit | str:
    """Read one output of pose whose classes and keypoints the decoder's options tell apart."""
    form = read_single(
        outputs, size, num_classes=num_classes, objectness=False, n_extra=2, per_cell=1
    )
    return form if isinstance(form, str) else _AnyPose(num_classes)


def _told_apart(outputs: Outputs, size: Size) -> Fit | str:
    """Read masks of YOLOv5 whose boxes have other channels than their coefficients."""
    form = read_segmentation_anchors(outputs, size)
    if isinstance(form, str) or 5 + form.num_classes != form.prototypes.shape[1]:
        return form
    return "expected another number of channels of boxes than of mask coefficients"


@dataclass(frozen=True)
class _AnyPose:
    num_classes: int | None
    doubts: int = 4


def _split(name: str, families: tuple[str, ...], bins: int) -> HeadForm:
    """Make the row of a form with boxes and class scores apart."""
    read = partial(_read_apart, bins=bins)
    return HeadForm(name, SplitDecoder, read, families, {"bins": bins})


def _nms_free(name: str, make: Any, read: Reader, families: tuple[str, ...], bins: int) -> HeadForm:
    """Make the row of a form that another one with NMS looks like."""
    kind = {"bins": bins, "nms": False}
    read = partial(read, bins=bins)
    return HeadForm(name, make, read, families, kind, named=True, nms_free=True)


def _of_one(
    name: str, decoder: Any, read: Reader, families: tuple[str, ...], **notes: Any
) -> HeadForm:
    """Make the row of a form that is one output; the decoder takes that one alone."""

    def make(outputs: Outputs, size: Size, **options: Any) -> Decoder:
        made: Decoder = decoder(outputs[0], size, **options)
        return made

    return HeadForm(name, make, read, families, shares_scale=True, **notes)


def _single(name: str, families: tuple[str, ...], per_cell: int, *, objectness: bool) -> HeadForm:
    """Make the row of a form that `SingleOutputDecoder` reads."""
    kind: dict[str, Any] = {"objectness": objectness}
    read = partial(read_single, per_cell=per_cell, **kind)
    return _of_one(name, SingleOutputDecoder, read, families, options=kind)


def _single_seg(
    name: str, families: tuple[str, ...], per_cell: int, *, objectness: bool
) -> HeadForm:
    """Make the row of such a form with mask coefficients, beside prototypes."""
    kind: dict[str, Any] = {"objectness": objectness}
    read = partial(read_segmentation_single, per_cell=per_cell, **kind)
    return HeadForm(name, SingleSegmentationDecoder, read, families, kind, shares_scale=True)


_read_apart = _scales(partial(read_split, joined=False))
_once = partial(partial, per_cell=1)

_V8 = ("yolov8", "yolov9", "yolo11", "yolo12")
_FREE = ("yolov10", "yolo26")
_SEG = ("yolov8-seg", "yolo11-seg", "yolo12-seg")
_POSE = ("yolov8-pose", "yolo11-pose", "yolo12-pose")
_OBB = ("yolov8-obb", "yolo11-obb", "yolo12-obb")
_ANY_SEG, _ANY_POSE = (*_SEG, "yolo26-seg"), (*_POSE, "yolo26-pose")
_ANY_OBB = (*_OBB, "yolo26-obb")

#: Where outputs have two forms that are equally usual, the first one here is taken.
FORMS: tuple[HeadForm, ...] = (
    HeadForm("yolov5", AnchorDecoder, _scales(read_anchors), ("yolov5",)),
    HeadForm("yolov7", yolov7_decoder, _scales(read_anchors), ("yolov7",), named=True),
    _split("yolov8-split", _V8, 16),
    _split("yolov6-split", ("yolov6",), 1),
    _split("ppyoloe", ("yolov6", "ppyoloe"), 17),
    HeadForm("yolov8-joined", SplitDecoder, _scales(partial(read_split, joined=True)), _V8),
    _nms_free("yolov10-split", SplitDecoder, _read_apart, _FREE, 16),
    _nms_free("yolov10-split", SplitDecoder, _read_apart, _FREE, 1),
    HeadForm("yolox", YoloxDecoder, _scales(read_yolox), ("yolox",), shares_scale=True),
    _of_one("end-to-end", EndToEndDecoder, _detections, _FREE, nms_free=True),
    _single("yolov5-single", ("yolov5", "yolov7"), 3, objectness=True),
    _of_one("yolov8-pose-single", SinglePoseDecoder, _once(read_pose_single), _ANY_POSE),
    _single("yolov8-single", (*_V8, *_FREE, "yolov6"), 1, objectness=False),
    _of_one("yolov8-obb-single", SingleOrientedDecoder, _once(read_oriented_single), _ANY_OBB),
    HeadForm("yolox-grid", YoloxDecoder, _once(read_yolox), ("yolox",), shares_scale=True),
    _single("yolox-single", ("yolox", "yolov6"), 1, objectness=True),
    HeadForm("yolov8-seg-split", SplitSegmentationDecoder, read_segmentation_split, _SEG),
    _nms_free(
        "yolo26-seg-split", SplitSegmentationDecoder, read_segmentation_split, ("yolo26-seg",), 1
    ),
    HeadForm("yolov5-seg", AnchorSegmentationDecoder, _told_apart, ("yolov5-seg",)),
    HeadForm(
        "yolov5-seg",
        AnchorSegmentationDecoder,
        read_segmentation_anchors,
        ("yolov5-seg",),
        named=True,
    ),
    _single_seg("yolov8-seg-single", _ANY_SEG, 1, objectness=False),
    _single_seg("yolov5-seg-single", ("yolov5-seg",), 3, objectness=True),
    HeadForm("yolov8-obb-split", SplitOrientedDecoder, read_oriented_split, _OBB),
    _nms_free("yolo26-obb-split", SplitOrientedDecoder, read_oriented_split, ("yolo26-obb",), 1),
    HeadForm("yolov8-pose-split", SplitPoseDecoder, read_pose_split, _POSE),
    _nms_free("yolo26-pose-split", SplitPoseDecoder, read_pose_split, ("yolo26-pose",), 1),
    _of_one(
        "yolov8-pose-single", SinglePoseDecoder, _any_pose, _ANY_POSE, named=True, labelled=True
    ),
)


def _heads() -> dict[str, tuple[str, ...]]:
    heads: dict[str, tuple[str, ...]] = {form.name: (form.name,) for form in FORMS}
    for family in dict.fromkeys(family for form in FORMS for family in form.families):
        heads[family] = tuple(dict.fromkeys(f.name for f in FORMS if family in f.families))
    return heads


#: What ``head=`` can be: a form, or a family; and the forms that it means. A family can have the
#: name of a form of it.
HEADS: dict[str, tuple[str, ...]] = _heads()
