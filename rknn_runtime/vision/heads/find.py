"""All forms of heads, and how to find the one that a model's outputs have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Union

from rknn_runtime.vision.heads.anchors import AnchorDecoder, read_anchors, yolov7_decoder
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.faces import (
    AnchorFaceDecoder,
    RetinaFaceDecoder,
    ScrfdDecoder,
    SingleFaceDecoder,
    YunetDecoder,
    read_anchor_faces,
    read_retinaface,
    read_scrfd,
    read_single_faces,
    read_yunet,
)
from rknn_runtime.vision.heads.gfl import GflDecoder, read_nanodet_plus, read_picodet
from rknn_runtime.vision.heads.oriented import (
    SingleOrientedDecoder,
    SplitOrientedDecoder,
    read_oriented_single,
    read_oriented_split,
)
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    cells_of_one,
    channels_first,
    checked_size,
    describe,
    representable,
)
from rknn_runtime.vision.heads.pair import (
    PairDecoder,
    QueriesDecoder,
    read_pair,
    read_queries,
)
from rknn_runtime.vision.heads.pose import (
    AnchorPoseDecoder,
    JoinedPoseDecoder,
    SinglePoseDecoder,
    SplitPoseDecoder,
    read_anchor_pose,
    read_pose_joined,
    read_pose_single,
    read_pose_split,
)
from rknn_runtime.vision.heads.priors import SsdDecoder, read_ssd
from rknn_runtime.vision.heads.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
    read_segmentation_anchors,
    read_segmentation_single,
    read_segmentation_split,
)
from rknn_runtime.vision.heads.single import (
    EndToEndDecoder,
    SingleOutputDecoder,
    read_end_to_end,
    read_single,
)
from rknn_runtime.vision.heads.split import SplitDecoder, read_split
from rknn_runtime.vision.heads.yolox import YoloxDecoder, read_yolox


class Fit(Protocol):
    """The result of a reader if the outputs have its form."""

    @property
    def num_classes(self) -> int | None:
        """Number of classes; None: the shapes do not show it."""

    @property
    def doubts(self) -> int:
        """How unusual this reading is: 0 for the usual one."""


Reader = Callable[..., Union[Fit, str]]


class _Form(NamedTuple):
    name: str
    #: Called with outputs, input size and options.
    make: Callable[..., Decoder]
    #: Called with outputs and input size; returns a `Fit`, or why they do not fit.
    read: Reader
    #: Other names of it in ``head=``.
    families: tuple[str, ...]
    #: Further arguments of `make`.
    options: Mapping[str, Any] = MappingProxyType({})
    #: Whether `make` takes the only output instead of a list.
    takes_one: bool = False
    #: Whether boxes and scores are channels of one tensor with one scale. Not for YOLOv5: all of
    #: its values are 0..1, or all are logits, so one scale is enough.
    shares_scale: bool = False
    #: Whether it looks like another form, so that ``head=`` must name it.
    named: bool = False
    #: Whether `make` and `read` need the number of labels to tell classes from other channels.
    labelled: bool = False
    #: Whether it is trained to give one box per object. Then the name of an output may name it.
    nms_free: bool = False
    #: Forms that are as usual, so that nothing is known without labels or ``head=``.
    rivals: tuple[str, ...] = ()
    #: Called with outputs and fit; names networks with such outputs that no form reads, or "".
    like: Callable[[Outputs, Any], str] | None = None


def _scales(read: Reader) -> Reader:
    """Read several scales."""

    def read_scales(outputs: Outputs, size: Size, **kind: Any) -> Fit | str:
        several = len({attr.shape[2:] for attr in outputs}) > 1
        return read(outputs, size, **kind) if several else "one scale"

    return read_scales


def _detections(outputs: Outputs, size: Size) -> Fit | str:
    form = read_end_to_end(outputs)
    if isinstance(form, str) or form.n == 300 or cells_of_one(form.n, size) is None:
        return form
    return "as many detections as cells"


class _AnyPose(NamedTuple):
    num_classes: int | None
    doubts: int = 4


def _any_pose(outputs: Outputs, size: Size, num_classes: int | None = None) -> Fit | str:
    """Read one output of pose whose classes and keypoints the decoder's options tell apart."""
    form = read_single(
        outputs, size, num_classes=num_classes, objectness=False, n_extra=2, per_cell=1
    )
    return form if isinstance(form, str) else _AnyPose(num_classes)


def _told_apart(outputs: Outputs, size: Size) -> Fit | str:
    """Read masks of YOLOv5 if boxes and mask coefficients have different numbers of channels."""
    form = read_segmentation_anchors(outputs, size)
    if isinstance(form, str) or 5 + form.num_classes != form.prototypes.shape[1]:
        return form
    return "as many channels of boxes as of masks"


def _like_anchors(outputs: Outputs, form: Any) -> str:
    """Name other networks with outputs of anchors."""
    if form.num_classes > 180:  # angles
        return "YOLOv5-obb"
    scales: list[Any] = getattr(form, "scales", [])
    # Those have no sigmoid for sizes.
    is_coarse = bool(scales[1:]) and scales[-1].attr is outputs[0]
    return "YOLOv3, YOLOv4 and PP-YOLO" * (is_coarse and representable(outputs[0])[1] >= 1.05)


def _like_distances(outputs: Outputs, form: Any) -> str:
    """Name networks with class scores before distances, which they count otherwise."""
    box, score, *sums = form.scales[0]
    is_first = next(attr for attr in outputs if attr is box or attr is score) is score
    # Alike, either may come first, unless a range is a probability's.
    is_open = box.shape == score.shape and not sums and representable(score)[1] >= 1.05
    return "RTMDet, FCOS and GFL" * (is_first or is_open)


def _like_queries(outputs: Outputs, form: Any) -> str:
    """Name networks with a box, a score, a class and an angle in as many columns."""
    is_open = form.num_classes == 3 and representable(outputs[0])[1] > 2.05
    return "YOLO26-obb" * is_open


def _like_maps(outputs: Outputs, size: Size) -> str:
    """Name networks of one map per scale, by its channels or its grids."""
    grids = {attr.shape[2:] for attr in outputs if len(attr.shape) == 4}
    if len(outputs) < 2 or len(grids) < len(outputs) or representable(outputs[0])[1] < 1.05:
        return ""
    channels, rows = outputs[0].shape[1], [grid[0] for grid in grids]
    # Heads on a stride of 4 have one of 32, too.
    is_fine = 4 * max(rows) >= size[0] and max(rows) < 8 * min(rows)
    return "features or scenes" * (is_fine or channels % 32 == 0)


_read_apart = _scales(partial(read_split, joined=False))


def _split(name: str, families: tuple[str, ...], bins: int, **notes: Any) -> _Form:
    """Boxes and class scores apart."""
    read = partial(_read_apart, bins=bins)
    return _Form(name, SplitDecoder, read, families, {"bins": bins}, **notes)


def _nms_free(name: str, make: Any, read: Reader, families: tuple[str, ...], bins: int) -> _Form:
    """One box per object; looks like a form with NMS."""
    options = {"bins": bins, "nms": False}
    return _Form(name, make, partial(read, bins=bins), families, options, named=True, nms_free=True)


def _of_one(
    name: str, decoder: Any, read: Reader, families: tuple[str, ...], **notes: Any
) -> _Form:
    """One output."""
    return _Form(name, decoder, read, families, takes_one=True, shares_scale=True, **notes)


def _single(
    name: str, families: tuple[str, ...], per_cell: int, *, objectness: bool, **notes: Any
) -> _Form:
    """One output for `SingleOutputDecoder`."""
    read = partial(read_single, per_cell=per_cell, objectness=objectness)
    notes["options"] = {"objectness": objectness}
    return _of_one(name, SingleOutputDecoder, read, families, **notes)


def _single_seg(name: str, families: tuple[str, ...], per_cell: int, *, objectness: bool) -> _Form:
    """Such an output with mask coefficients, and prototypes."""
    read = partial(read_segmentation_single, per_cell=per_cell, objectness=objectness)
    options = {"objectness": objectness}
    return _Form(name, SingleSegmentationDecoder, read, families, options, shares_scale=True)


_V8 = ("yolov8", "yolov9", "yolo11", "yolo12")
_FREE = ("yolov10", "yolo26")
_SEG = ("yolov8-seg", "yolo11-seg", "yolo12-seg")
_POSE = ("yolov8-pose", "yolo11-pose", "yolo12-pose", "yolov8-face")
_OBB = ("yolov8-obb", "yolo11-obb", "yolo12-obb")
_ANY_SEG, _ANY_POSE = (*_SEG, "yolo26-seg"), (*_POSE, "yolo26-pose")
_ANY_OBB = (*_OBB, "yolo26-obb")
_GFL = ("picodet", "nanodet")
_POSE7 = ("yolov7-pose", "yolov7-face")

#: If outputs have two forms that are equally usual, the first one here is taken.
FORMS: tuple[_Form, ...] = (
    _Form("yolov5", AnchorDecoder, _scales(read_anchors), ("yolov5",), like=_like_anchors),
    _Form("yolov7", yolov7_decoder, _scales(read_anchors), ("yolov7",), named=True),
    _split("yolov8-split", _V8, 16),
    _split("yolov6-split", ("yolov6",), 1, like=_like_distances),
    _split("ppyoloe", ("yolov6", "ppyoloe"), 17, like=_like_distances),
    _Form(
        "yolov8-joined",
        SplitDecoder,
        _scales(partial(read_split, joined=True)),
        _V8,
        rivals=("yolov5",),
    ),
    _nms_free("yolov10-split", SplitDecoder, _read_apart, _FREE, 16),
    _nms_free("yolov10-split", SplitDecoder, _read_apart, _FREE, 1),
    _Form("yolox", YoloxDecoder, _scales(read_yolox), ("yolox",), shares_scale=True),
    _of_one("end-to-end", EndToEndDecoder, _detections, _FREE, nms_free=True),
    _single("yolov5-single", ("yolov5", "yolov7"), 3, objectness=True, like=_like_anchors),
    _single("yolov8-single", (*_V8, *_FREE, "yolov6"), 1, objectness=False),
    _of_one(
        "yolov8-pose-single",
        SinglePoseDecoder,
        partial(read_pose_single, per_cell=1),
        _ANY_POSE,
        rivals=("yolov8-single",),
    ),
    _of_one(
        "yolov8-obb-single",
        SingleOrientedDecoder,
        partial(read_oriented_single, per_cell=1),
        _ANY_OBB,
        rivals=("yolov8-single",),
    ),
    _Form(
        "yolox-grid", YoloxDecoder, partial(read_yolox, per_cell=1), ("yolox",), shares_scale=True
    ),
    _single("yolox-single", ("yolox", "yolov6"), 1, objectness=True, rivals=("yolox-grid",)),
    _Form("yolov8-seg-split", SplitSegmentationDecoder, read_segmentation_split, _SEG),
    _nms_free(
        "yolo26-seg-split", SplitSegmentationDecoder, read_segmentation_split, ("yolo26-seg",), 1
    ),
    _Form("yolov5-seg", AnchorSegmentationDecoder, _told_apart, ("yolov5-seg",)),
    _Form(
        "yolov5-seg",
        AnchorSegmentationDecoder,
        read_segmentation_anchors,
        ("yolov5-seg",),
        named=True,
    ),
    _single_seg("yolov8-seg-single", _ANY_SEG, 1, objectness=False),
    _single_seg("yolov5-seg-single", ("yolov5-seg",), 3, objectness=True),
    _Form("yolov8-obb-split", SplitOrientedDecoder, read_oriented_split, _OBB),
    _nms_free("yolo26-obb-split", SplitOrientedDecoder, read_oriented_split, ("yolo26-obb",), 1),
    _Form("yolov8-pose-split", SplitPoseDecoder, read_pose_split, _POSE),
    _nms_free("yolo26-pose-split", SplitPoseDecoder, read_pose_split, ("yolo26-pose",), 1),
    _of_one(
        "yolov8-pose-single", SinglePoseDecoder, _any_pose, _ANY_POSE, named=True, labelled=True
    ),
    _Form("yolov7-pose", AnchorPoseDecoder, _scales(read_anchor_pose), _POSE7, rivals=("yolov5",)),
    _of_one(
        "yolov7-pose-single",
        SinglePoseDecoder,
        partial(read_pose_single, per_cell=3, objectness=True),
        _POSE7,
        options={"objectness": True},
        rivals=("yolov5-single",),
    ),
    _Form("yolo-nas", PairDecoder, partial(read_pair, queries=False), ("yolo-nas",)),
    _Form("rt-detr", PairDecoder, partial(read_pair, queries=True), ("rt-detr",)),
    _of_one(
        "rt-detr-single",
        QueriesDecoder,
        read_queries,
        ("rt-detr",),
        labelled=True,
        rivals=("end-to-end",),
        like=_like_queries,
    ),
    _of_one(
        "rt-detr-single",
        QueriesDecoder,
        partial(read_queries, named=True),
        ("rt-detr",),
        named=True,
        labelled=True,
    ),
    _Form("ssd", SsdDecoder, read_ssd, ("ssd",)),
    _Form("retinaface", RetinaFaceDecoder, read_retinaface, ("retinaface",)),
    _Form("scrfd", ScrfdDecoder, read_scrfd, ("scrfd",)),
    _Form("yunet", YunetDecoder, read_yunet, ("yunet",)),
    _Form(
        "yolov8-face",
        JoinedPoseDecoder,
        read_pose_joined,
        ("yolov8-face",),
        rivals=("yolov8-joined",),
    ),
    _Form(
        "yolov5-face",
        AnchorFaceDecoder,
        partial(read_anchor_faces, whole=False),
        ("yolov5-face",),
    ),
    _Form(
        "yolov5-face",
        AnchorFaceDecoder,
        partial(read_anchor_faces, whole=True),
        ("yolov5-face",),
        rivals=("yolov5",),
    ),
    _of_one(
        "yolov5-face-single",
        SingleFaceDecoder,
        read_single_faces,
        ("yolov5-face",),
        rivals=("yolov5-single",),
    ),
    _Form("picodet", GflDecoder, partial(read_picodet, rows=True), _GFL),
    _Form(
        "nanodet-plus",
        GflDecoder,
        read_nanodet_plus,
        ("nanodet-plus",),
        {"plus": True},
        rivals=("yolox-grid", "yolox-single"),
    ),
    # As grids, nothing but the name tells the two: half a cell lies between their boxes.
    _Form("picodet", GflDecoder, partial(read_picodet, rows=False), _GFL, named=True),
    _Form(
        "nanodet-plus",
        GflDecoder,
        partial(read_picodet, rows=False),
        ("nanodet-plus",),
        {"plus": True},
        named=True,
    ),
)


#: The values of ``head=``, a form or a family, and the forms that each means. A family can have
#: the name of one of its forms.
HEADS: dict[str, tuple[str, ...]] = {
    **{form.name: (form.name,) for form in FORMS},
    **{
        family: tuple(dict.fromkeys(form.name for form in FORMS if family in form.families))
        for family in (family for form in FORMS for family in form.families)
    },
}

#: Parts of the names of outputs of heads without NMS. In Ultralytics' graphs the layers of
#: YOLOv10's and YOLO26's are called one2one; the zoo's exports have the name of the model.
_FREE_NAMES = ("one2one", "yolov10", "yolo26")


class Reading(NamedTuple):
    """One way to read the outputs: a form, its classes, and how to make its decoder."""

    head: str
    num_classes: int | None
    make: Callable[..., Decoder]
    #: Whether boxes and scores are channels of one tensor with one scale.
    shares_scale: bool = False
    #: Other heads with such outputs, in words; `head` is only the usual one.
    others: str = ""


def find_head(
    outputs: Outputs,
    input_size: Size,
    head: str = "auto",
    num_classes: int | None = None,
) -> Reading:
    """Find the head of a model from the number, shapes, ranges and names of its outputs.

    If outputs can be read in two ways, the one that agrees with `num_classes` is taken, then one
    of 80 classes, then the more usual one.

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
    # How unusual each reading is, the reading, its form and fit.
    found: list[tuple[tuple[bool, bool, int], Reading, _Form, Fit]] = []
    for form in FORMS if outputs else ():
        if head == "auto":
            skipped = form.named and not (is_free and form.nms_free)
        else:
            skipped = form.name not in HEADS[head]
        fit = "" if skipped else form.read(outputs, input_size, **_labels(form, num_classes))
        if not isinstance(fit, str):
            reading = _reading(form, fit, outputs, input_size, num_classes)
            order = reading.num_classes != 80, is_free and not form.nms_free, fit.doubts
            found.append((order, reading, form, fit))
    listed = (
        f"outputs of a model with {input_size[0]} x {input_size[1]} pixels of input:\n"
        f"{describe(outputs)}"
    )
    fitting = [each for each in found if num_classes in (None, each[1].num_classes or num_classes)]
    if not fitting:
        readings = [reading for _, reading, *_ in found]
        raise ValueError(_complaint(outputs, input_size, head, num_classes, readings, listed))
    order, best, form, fit = min(fitting, key=lambda each: each[0])
    others = form.like(outputs, fit) if form.like and head == "auto" else ""
    if head == "auto" and num_classes is None:
        others = others or _like_maps(outputs, input_size)
    if others:
        raise ValueError(
            f"head: expected {best.head!r}, got 'auto': these could be such outputs, or those of "
            f"{others}, which are not decoded; {listed}"
        )
    equal = [each for each in fitting if each[0] == order and each[1] is not best]
    rivals = [each[1] for each in equal if best.head in each[2].rivals]
    if rivals and head == "auto":
        both = (best, *rivals)
        counts = {each.num_classes for each in both} - {None}
        labels = ", or labels, which would decide" * (len(counts) == len(both))
        raise ValueError(f"head: expected {_named(both)}{labels}, got 'auto'; {listed}")
    if head != "auto":
        return best
    others = "" if num_classes is not None else _named([each[1] for each in equal])
    # YOLOv4's usual sizes; its values are logits.
    if best.head == "yolov5" and input_size in ((416, 416), (608, 608)):
        others = others or "YOLOv4, not decoded," * (representable(outputs[0])[1] >= 1.05)
    return best._replace(others=others)


def _named(readings: Iterable[Reading]) -> str:
    return " or ".join(f"{each.head!r} of {each.num_classes} classes" for each in readings)


def _labels(form: _Form, num_classes: int | None) -> dict[str, Any]:
    """Return the arguments of `read` and `make` that follow from the labels."""
    return {"num_classes": num_classes} if form.labelled and num_classes is not None else {}


def _reading(
    form: _Form, fit: Fit, outputs: Outputs, size: Size, num_classes: int | None
) -> Reading:
    fixed = {**form.options, **_labels(form, num_classes)}
    taken = outputs[0] if form.takes_one else outputs

    def make(**options: Any) -> Decoder:
        return form.make(taken, size, **{**fixed, **options})

    return Reading(form.name, fit.num_classes, make, form.shares_scale)


def _fits(form: _Form, outputs: Outputs, size: Size) -> bool:
    """Whether outputs have a form, whatever the labels."""
    return not form.labelled and not isinstance(form.read(outputs, size), str)


def _complaint(
    outputs: Outputs,
    size: Size,
    head: str,
    num_classes: int | None,
    found: list[Reading],
    listed: str,
) -> str:
    if found:
        counts = ", ".join(f"{r.head} of {r.num_classes} classes" for r in found)
        return f"there are {num_classes} labels, but the outputs make {counts}; {listed}"
    by_name = [form.name for form in FORMS if form.named and _fits(form, outputs, size)]
    if head == "auto" and by_name:
        return (
            f"head: expected {' or '.join(map(repr, by_name))}, got 'auto': these could be such "
            f"outputs, but they alone do not tell; {listed}"
        )
    what = "no known head" if head == "auto" else f"no {head} head"
    return f"cannot tell how to decode: {what} has these {listed}\nknown heads: {', '.join(HEADS)}"
