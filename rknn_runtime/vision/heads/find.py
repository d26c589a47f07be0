"""Which head do these outputs make?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.anchors import YOLOV7_ANCHORS, AnchorDecoder
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.end_to_end import EndToEndDecoder
from rknn_runtime.vision.heads.grids import (
    by_scale,
    cells_of_one,
    channels_and_predictions,
    grid_of,
)
from rknn_runtime.vision.heads.oriented import SingleOrientedDecoder, SplitOrientedDecoder
from rknn_runtime.vision.heads.pose import SinglePoseDecoder, SplitPoseDecoder
from rknn_runtime.vision.heads.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
)
from rknn_runtime.vision.heads.single import SingleOutputDecoder
from rknn_runtime.vision.heads.split import SplitDecoder
from rknn_runtime.vision.heads.views import channels_first, checked_size, describe, representable
from rknn_runtime.vision.heads.yolox import YoloxDecoder

__all__ = ["HEADS", "Reading", "find_head"]

_V8_FORMS = ("yolov8-split", "yolov8-single")
_FREE_FORMS = ("yolov10-split", "end-to-end")
_SEG_FORMS = ("yolov8-seg-split", "yolov8-seg-single")
_POSE_FORMS = ("yolov8-pose-split", "yolov8-pose-single")
_OBB_FORMS = ("yolov8-obb-split", "yolov8-obb-single")

#: The forms that each family comes in. A family can have the name of a form of it.
_FAMILIES: dict[str, tuple[str, ...]] = {
    "yolov5": ("yolov5", "yolov5-single"),
    "yolov7": ("yolov7", "yolov5-single"),
    "yolov6": ("yolov6-split", "ppyoloe", "yolov8-single", "yolox-single"),
    "yolov8": _V8_FORMS,
    "yolov9": _V8_FORMS,
    "yolo11": _V8_FORMS,
    "yolo12": _V8_FORMS,
    "yolov10": _FREE_FORMS,
    "yolo26": (*_FREE_FORMS, "yolov8-single"),
    "yolox": ("yolox", "yolox-grid", "yolox-single"),
    "ppyoloe": ("ppyoloe",),
    "yolov5-seg": ("yolov5-seg", "yolov5-seg-single"),
    "yolov8-seg": _SEG_FORMS,
    "yolo11-seg": _SEG_FORMS,
    "yolov8-pose": _POSE_FORMS,
    "yolo11-pose": _POSE_FORMS,
    "yolov8-obb": _OBB_FORMS,
    "yolo11-obb": _OBB_FORMS,
}
#: What ``head=`` can be: a family, or a form; and the forms that it means.
HEADS: dict[str, tuple[str, ...]] = {
    **{form: (form,) for forms in _FAMILIES.values() for form in forms},
    **_FAMILIES,
}
#: Forms whose outputs look like another's; only taken when asked for.
_ON_REQUEST = ("yolov7", "yolov10-split")
#: The same, where the name of an output says that it comes from a head without NMS: in
#: Ultralytics' graphs the layers of YOLOv10's and YOLO26's are called one2one.
_FREE_NAME = "one2one"
_ON_REQUEST_THERE = ("yolov7", "yolov6-split", "yolov8-split", "ppyoloe")


class Reading(NamedTuple):
    """One way to read the outputs: a form, its classes, and how to make its decoder."""

    head: str
    num_classes: int | None
    make: Callable[..., Decoder]


Outputs = Sequence[TensorAttr]
Size = tuple[int, int]
Reader = Callable[[Outputs, Size], Iterator[Reading]]


def find_head(
    outputs: Outputs,
    input_size: Size,
    head: str = "auto",
    num_classes: int | None = None,
) -> Reading:
    """Tell which head a model's outputs make, from their number, shapes, order and names.

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
        ValueError: `head` is not known, or the outputs fit to no head; the message lists them.
    """
    outputs = channels_first(outputs)
    input_size = checked_size(input_size)
    if not isinstance(head, str) or head not in ("auto", *HEADS):
        raise ValueError(f"head: expected 'auto' or one of {', '.join(HEADS)}; got {head!r}")
    is_free = any(_FREE_NAME in attr.name for attr in outputs)
    skipped = _ON_REQUEST_THERE if is_free else _ON_REQUEST
    found = [
        reading
        for reader in _READERS
        for reading in reader(outputs, input_size)
        if (reading.head not in skipped if head == "auto" else reading.head in HEADS[head])
    ]
    if head != "auto" and "yolov8-pose-single" in HEADS[head]:
        found += _pose(outputs, input_size, num_classes)
    fitting = [
        reading
        for reading in found
        if num_classes is None or reading.num_classes in (None, num_classes)
    ]
    if not fitting:
        raise ValueError(_complaint(outputs, input_size, head, num_classes, found))
    of_coco = (r for r in fitting if r.num_classes == 80 and r.head not in _OBB_FORMS)
    return next(of_coco, fitting[0])


def _complaint(
    outputs: Outputs, size: Size, head: str, num_classes: int | None, found: list[Reading]
) -> str:
    height, width = size
    listed = f"outputs of a model with {height} x {width} pixels of input:\n{describe(outputs)}"
    if found:
        counts = ", ".join(f"{r.head} of {r.num_classes} classes" for r in found)
        return f"there are {num_classes} labels, but the outputs make {counts}; {listed}"
    what = "no known head" if head == "auto" else f"no {head} head"
    return f"cannot tell how to decode: {what} has these {listed}\nknown heads: {', '.join(HEADS)}"


def _reading(
    head: str, num_classes: int | None, decoder_class: Any, what: Any, size: Size, /, **fixed: Any
) -> Reading:
    def make(**options: Any) -> Decoder:
        decoder: Decoder = decoder_class(what, size, **{**fixed, **options})
        return decoder

    return Reading(head, num_classes, make)


def _split(outputs: Outputs, size: Size) -> Iterator[Reading]:
    scales = _scales(outputs)
    if len(scales) < 2 or len(scales[0]) not in (2, 3):
        return
    channels = {tuple(grid_of(attr)[0] for attr in scale) for scale in scales}
    if len(channels) != 1:
        return
    box, score, *sums = channels.pop()
    names = {4: "yolov6-split", 64: "yolov8-split", 68: "ppyoloe"}
    if box not in names or sums not in ([], [1]):
        return
    yield _reading(names[box], score, SplitDecoder, outputs, size)
    yield _reading("yolov10-split", score, SplitDecoder, outputs, size, nms=False)


def _scales(outputs: Outputs) -> list[list[TensorAttr]]:
    try:
        return by_scale(outputs)
    except ValueError:
        return []


def _anchors(outputs: Outputs, size: Size) -> Iterator[Reading]:
    if len(outputs) not in (3, 4) or not all(len(attr.shape) in (4, 5) for attr in outputs):
        return
    yolov7 = YOLOV7_ANCHORS if len(outputs) == 3 else None
    for name, anchors in (("yolov5", None), ("yolov7", yolov7)):
        try:
            classes = AnchorDecoder(outputs, size, anchors=anchors).num_classes
        except ValueError:
            continue
        scores = name == "yolov5" or classes > 1
        options = {"anchors": anchors, "class_scores": scores}
        yield _reading(name, classes, AnchorDecoder, outputs, size, **options)


def _yolox(outputs: Outputs, size: Size) -> Iterator[Reading]:
    scales = _scales(outputs)
    channels = {grid_of(scale[0])[0] for scale in scales}
    if len(scales) < 2 or len(scales[0]) != 1 or len(channels) != 1:
        return
    if min(channels) > 5:
        yield _reading("yolox", min(channels) - 5, YoloxDecoder, outputs, size)


def _single(outputs: Outputs, size: Size) -> Iterator[Reading]:
    if len(outputs) != 1:
        return
    output = outputs[0]
    try:
        channels, n, transposed = channels_and_predictions(output)
    except ValueError:
        return
    cells = cells_of_one(n, size)
    if output.shape[1:] == (n, 6) and (cells is None or n == 300):
        yield _reading("end-to-end", None, EndToEndDecoder, output, size)
    if cells is None or channels < 5:
        return
    strides, per_cell = cells
    objectness = [
        _reading("yolox-grid", channels - 5, YoloxDecoder, outputs, size, strides=strides),
        _reading("yolox-single", channels - 5, SingleOutputDecoder, output, size, objectness=True),
    ]
    if per_cell == 3:
        order = [objectness[1]._replace(head="yolov5-single")]
    else:
        v8 = _reading("yolov8-single", channels - 4, SingleOutputDecoder, output, size)
        obb = _reading("yolov8-obb-single", channels - 5, SingleOrientedDecoder, output, size)
        objectness.sort(key=lambda each: (each.head == "yolox-grid") == _is_decoded(output, size))
        # Each exporter's own order of dimensions first. 56 channels are 17 keypoints of a person.
        order = [*objectness, v8, obb] if transposed else [v8, obb, *objectness]
        if channels > 5 and channels % 3 == 2:
            pose = _reading("yolov8-pose-single", 1, SinglePoseDecoder, output, size)
            order.insert(0 if channels == 56 else len(order), pose)
    yield from (reading for reading in order if reading.num_classes)


def _pose(outputs: Outputs, size: Size, num_classes: int | None) -> Iterator[Reading]:
    """Yield the single output of pose, with keypoints of any shape and any number of classes."""
    try:
        (output,) = outputs
        channels, n, _ = channels_and_predictions(output)
    except ValueError:
        return
    known = {} if num_classes is None else {"num_classes": num_classes}
    cells = cells_of_one(n, size)
    if cells is not None and cells[1] == 1 and channels - 4 - (num_classes or 1) > 1:
        yield _reading("yolov8-pose-single", num_classes, SinglePoseDecoder, output, size, **known)


def _is_decoded(output: TensorAttr, size: Size) -> bool:
    """Tell boxes in pixels or 0..1 from YOLOX's grid, by the range of an integer output.

    The grid has logarithms of sizes in strides: below 0 for small boxes, and never as large as
    pixels are.
    """
    lowest, highest = representable(output)
    return min(size) / 4 < highest < math.inf or (lowest > -0.5 and highest < 2)


def _accepted_by(
    head: str, decoder_class: Callable[..., Decoder], with_objectness: str = ""
) -> Reader:
    """Return a reader that asks the decoder's class itself.

    Args:
        head: The form.
        decoder_class: Its class.
        with_objectness: What the form is called where the class finds an objectness.
    """

    def read(outputs: Outputs, size: Size) -> Iterator[Reading]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they come when the decoder is made for use
                decoder: Any = decoder_class(outputs, size)
        except ValueError:
            return
        name = with_objectness if with_objectness and decoder.objectness else head
        yield _reading(name, decoder.num_classes, decoder_class, outputs, size)

    return read


#: Where two readers find something, the first one's reading is the more usual.
_READERS: tuple[Reader, ...] = (
    _split,
    _anchors,
    _yolox,
    _single,
    _accepted_by("yolov8-seg-split", SplitSegmentationDecoder),
    _accepted_by("yolov5-seg", AnchorSegmentationDecoder),
    _accepted_by("yolov8-seg-single", SingleSegmentationDecoder, "yolov5-seg-single"),
    _accepted_by("yolov8-pose-split", SplitPoseDecoder),
    _accepted_by("yolov8-obb-split", SplitOrientedDecoder),
)
