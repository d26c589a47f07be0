"""The forms that heads come in: a row each.

Whether outputs have a form is told by the reader beside its decoder, from shapes and ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, Union

from rknn_runtime.tensor import TensorAttr
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
from rknn_runtime.vision.heads.yolox import YoloxDecoder, read_yolox

__all__ = ["FORMS", "HEADS", "Fit", "HeadForm"]

Outputs = Sequence[TensorAttr]
Size = tuple[int, int]


class Fit(Protocol):
    """What readers return: that outputs have a form."""

    @property
    def num_classes(self) -> int | None:
        """Classes; None: the shapes do not say."""

    @property
    def doubts(self) -> int:
        """How much speaks against this reading, 0 for the usual."""


Reader = Callable[..., Union[Fit, str]]


class HeadForm(NamedTuple):
    """One form that heads come in."""

    name: str
    #: Called with outputs, input size and options.
    make: Callable[..., Decoder]
    #: Called with outputs and input size; returns a `Fit`, or what speaks against it.
    read: Reader
    #: Other names that mean it, as ``head=``.
    families: tuple[str, ...]
    #: What the decoder is told beside.
    options: Mapping[str, Any] = {}
    #: Whether boxes and scores are channels of one tensor, and so have one scale. The tensors of
    #: YOLOv5 are one, too, but all 0..1; and where all are logits, they are alike.
    shares_scale: bool = False
    #: Whether it looks like another form, and is only taken when asked for.
    named: bool = False
    #: Whether the number of labels tells classes from other channels: reader and decoder take it.
    labelled: bool = False
    #: Whether it is trained to give one box per object. Such a form is also taken where the name
    #: of an output says so.
    nms_free: bool = False


def _of_one(decoder_class: Callable[..., Decoder]) -> Callable[..., Decoder]:
    """Make a decoder of one output from the only one."""
    return lambda outputs, size, **options: decoder_class(outputs[0], size, **options)


def _scales(read: Reader) -> Reader:
    """Read several scales."""

    def read_scales(outputs: Outputs, size: Size) -> Fit | str:
        several = len({attr.shape[2:] for attr in outputs}) > 1
        return read(outputs, size) if several else "expected several scales"

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


class _AnyPose(NamedTuple):
    num_classes: int | None
    doubts: int = 4


_split = partial(partial, read_split, joined=False)
_single = partial(partial, read_single, per_cell=1)

_V8 = ("yolov8", "yolov9", "yolo11", "yolo12")
_FREE = ("yolov10", "yolo26")
_SEG = ("yolov8-seg", "yolo11-seg", "yolo12-seg")
_POSE = ("yolov8-pose", "yolo11-pose", "yolo12-pose")
_OBB = ("yolov8-obb", "yolo11-obb", "yolo12-obb")
_FREE_OF_NMS = {"named": True, "nms_free": True}

#: Of two forms that outputs have, with as much against both, the first is the more usual.
FORMS: tuple[HeadForm, ...] = (
    HeadForm("yolov5", AnchorDecoder, _scales(read_anchors), ("yolov5",)),
    HeadForm("yolov7", yolov7_decoder, _scales(read_anchors), ("yolov7",), named=True),
    HeadForm("yolov8-split", SplitDecoder, _scales(_split(bins=16)), _V8, {"bins": 16}),
    HeadForm("yolov6-split", SplitDecoder, _scales(_split(bins=1)), ("yolov6",), {"bins": 1}),
    HeadForm(
        "ppyoloe", SplitDecoder, _scales(_split(bins=17)), ("yolov6", "ppyoloe"), {"bins": 17}
    ),
    HeadForm("yolov8-joined", SplitDecoder, _scales(partial(read_split, joined=True)), _V8),
    HeadForm(
        "yolov10-split",
        SplitDecoder,
        _scales(_split(bins=16)),
        _FREE,
        {"bins": 16, "nms": False},
        **_FREE_OF_NMS,
    ),
    HeadForm(
        "yolov10-split",
        SplitDecoder,
        _scales(_split(bins=1)),
        _FREE,
        {"bins": 1, "nms": False},
        **_FREE_OF_NMS,
    ),
    HeadForm("yolox", YoloxDecoder, _scales(read_yolox), ("yolox",), shares_scale=True),
    HeadForm(
        "end-to-end", _of_one(EndToEndDecoder), _detections, _FREE, shares_scale=True, nms_free=True
    ),
    HeadForm(
        "yolov5-single",
        _of_one(SingleOutputDecoder),
        _single(objectness=True, per_cell=3),
        ("yolov5", "yolov7"),
        {"objectness": True},
        shares_scale=True,
    ),
    HeadForm(
        "yolov8-pose-single",
        _of_one(SinglePoseDecoder),
        partial(read_pose_single, per_cell=1),
        (*_POSE, "yolo26-pose"),
        shares_scale=True,
    ),
    HeadForm(
        "yolov8-single",
        _of_one(SingleOutputDecoder),
        _single(objectness=False),
        (*_V8, *_FREE, "yolov6"),
        {"objectness": False},
        shares_scale=True,
    ),
    HeadForm(
        "yolov8-obb-single",
        _of_one(SingleOrientedDecoder),
        partial(read_oriented_single, per_cell=1),
        (*_OBB, "yolo26-obb"),
        shares_scale=True,
    ),
    HeadForm(
        "yolox-grid", YoloxDecoder, partial(read_yolox, per_cell=1), ("yolox",), shares_scale=True
    ),
    HeadForm(
        "yolox-single",
        _of_one(SingleOutputDecoder),
        _single(objectness=True),
        ("yolox", "yolov6"),
        {"objectness": True},
        shares_scale=True,
    ),
    HeadForm("yolov8-seg-split", SplitSegmentationDecoder, read_segmentation_split, _SEG),
    HeadForm(
        "yolo26-seg-split",
        SplitSegmentationDecoder,
        partial(read_segmentation_split, bins=1),
        ("yolo26-seg",),
        {"bins": 1, "nms": False},
        **_FREE_OF_NMS,
    ),
    HeadForm("yolov5-seg", AnchorSegmentationDecoder, read_segmentation_anchors, ("yolov5-seg",)),
    HeadForm(
        "yolov8-seg-single",
        SingleSegmentationDecoder,
        partial(read_segmentation_single, objectness=False, per_cell=1),
        (*_SEG, "yolo26-seg"),
        {"objectness": False},
        shares_scale=True,
    ),
    HeadForm(
        "yolov5-seg-single",
        SingleSegmentationDecoder,
        partial(read_segmentation_single, objectness=True, per_cell=3),
        ("yolov5-seg",),
        {"objectness": True},
        shares_scale=True,
    ),
    HeadForm("yolov8-obb-split", SplitOrientedDecoder, read_oriented_split, _OBB),
    HeadForm(
        "yolo26-obb-split",
        SplitOrientedDecoder,
        partial(read_oriented_split, bins=1),
        ("yolo26-obb",),
        {"bins": 1, "nms": False},
        **_FREE_OF_NMS,
    ),
    HeadForm("yolov8-pose-split", SplitPoseDecoder, read_pose_split, _POSE),
    HeadForm(
        "yolo26-pose-split",
        SplitPoseDecoder,
        partial(read_pose_split, bins=1),
        ("yolo26-pose",),
        {"bins": 1, "nms": False},
        **_FREE_OF_NMS,
    ),
    HeadForm(
        "yolov8-pose-single",
        _of_one(SinglePoseDecoder),
        _any_pose,
        (*_POSE, "yolo26-pose"),
        shares_scale=True,
        named=True,
        labelled=True,
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
