"""Which head do these outputs make?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rknn_runtime.tensor import TensorAttr
from rknn_runtime.yolo.anchors import YOLOV7_ANCHORS, AnchorDecoder
from rknn_runtime.yolo.branches import by_scale, channels_and_predictions, grid_of
from rknn_runtime.yolo.decoder import Decoder
from rknn_runtime.yolo.end_to_end import EndToEndDecoder
from rknn_runtime.yolo.oriented import SingleOrientedDecoder, SplitOrientedDecoder
from rknn_runtime.yolo.pose import SinglePoseDecoder, SplitPoseDecoder
from rknn_runtime.yolo.segmentation import (
    AnchorSegmentationDecoder,
    SingleSegmentationDecoder,
    SplitSegmentationDecoder,
)
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder
from rknn_runtime.yolo.tensor_view import check_attrs, checked_size, describe
from rknn_runtime.yolo.yolox import YoloxDecoder

__all__ = ["HEADS", "Reading", "find_head"]

_V8_FORMS = ("yolov8-split", "yolov8-single")
_FREE_FORMS = ("yolov10-split", "end-to-end")
_SEG_FORMS = ("yolov8-seg-split", "yolov8-seg-single")
_POSE_FORMS = ("yolov8-pose-split", "yolov8-pose-single")
_OBB_FORMS = ("yolov8-obb-split", "yolov8-obb-single")

#: What ``head=`` can be: a form, or a family and the forms that it comes in.
HEADS: dict[str, tuple[str, ...]] = {
    "yolov5": ("yolov5",),
    "yolov7": ("yolov7",),
    "yolov6": ("yolov6-split", "ppyoloe", "yolov8-single"),
    "yolov8": _V8_FORMS,
    "yolov9": _V8_FORMS,
    "yolo11": _V8_FORMS,
    "yolo12": _V8_FORMS,
    "yolov10": _FREE_FORMS,
    "yolo26": (*_FREE_FORMS, "yolov8-single"),
    "yolox": ("yolox", "yolox-grid"),
    "ppyoloe": ("ppyoloe",),
    "yolov5-seg": ("yolov5-seg",),
    "yolov8-seg": _SEG_FORMS,
    "yolo11-seg": _SEG_FORMS,
    "yolov8-pose": _POSE_FORMS,
    "yolo11-pose": _POSE_FORMS,
    "yolov8-obb": _OBB_FORMS,
    "yolo11-obb": _OBB_FORMS,
    "yolov6-split": ("yolov6-split",),
    "yolov8-split": ("yolov8-split",),
    "yolov8-single": ("yolov8-single",),
    "yolov10-split": ("yolov10-split",),
    "yolox-grid": ("yolox-grid",),
    "end-to-end": ("end-to-end",),
    **{form: (form,) for form in (*_SEG_FORMS, *_POSE_FORMS, *_OBB_FORMS)},
}
#: Forms whose outputs look like another's; only taken when asked for.
_ON_REQUEST = ("yolov7", "yolov10-split")

#: The strides that one-output heads come with.
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (8, 16), (16, 32))


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
    """Tell which head a model's outputs make, from their number, shapes and order.

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
    check_attrs(outputs)
    input_size = checked_size(input_size)
    if head != "auto" and head not in HEADS:
        raise ValueError(f"head: expected 'auto' or one of {', '.join(HEADS)}; got {head!r}")
    found = [
        reading
        for reader in _READERS
        for reading in reader(outputs, input_size)
        if (reading.head not in _ON_REQUEST if head == "auto" else reading.head in HEADS[head])
    ]
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


def _split(outputs: Outputs, size: Size) -> Iterator[Reading]:
    scales = _scales(outputs)
    if len(scales) < 2 or len(scales[0]) not in (2, 3):
        return
    channels = {tuple(grid_of(attr)[0] for attr in scale) for scale in scales}
    if len(channels) != 1:
        return
    box, score, *sums = channels.pop()
    names = {1: ("yolov6-split",), 16: ("yolov8-split",), 17: ("ppyoloe",)}
    if box % 4 or box // 4 not in names or sums not in ([], [1]):
        return
    for name in names[box // 4]:
        yield Reading(name, score, lambda **options: SplitDecoder(outputs, size, **options))
    yield Reading(
        "yolov10-split",
        score,
        lambda **options: SplitDecoder(outputs, size, nms=False, **options),
    )


def _scales(outputs: Outputs) -> list[list[TensorAttr]]:
    try:
        return by_scale(outputs)
    except ValueError:
        return []


def _anchors(outputs: Outputs, size: Size) -> Iterator[Reading]:
    if len(outputs) not in (3, 4) or not all(len(attr.shape) in (4, 5) for attr in outputs):
        return
    for name, anchors in (("yolov5", None), ("yolov7", YOLOV7_ANCHORS)):
        try:
            decoder = AnchorDecoder(outputs, size, anchors=anchors)
        except ValueError:
            continue

        def make(_anchors: Any = anchors, **options: Any) -> Decoder:
            return AnchorDecoder(outputs, size, **{"anchors": _anchors, **options})

        yield Reading(name, decoder.num_classes, make)


def _yolox(outputs: Outputs, size: Size) -> Iterator[Reading]:
    scales = _scales(outputs)
    channels = {grid_of(scale[0])[0] for scale in scales}
    if len(scales) < 2 or len(scales[0]) != 1 or len(channels) != 1:
        return
    if min(channels) > 5:
        yield Reading(
            "yolox",
            min(channels) - 5,
            lambda **options: YoloxDecoder(outputs, size, **options),
        )


def _single(outputs: Outputs, size: Size) -> Iterator[Reading]:
    if len(outputs) != 1:
        return
    try:
        channels, n, transposed = channels_and_predictions(outputs[0])
    except ValueError:
        return
    strides = _strides_of(n, size)
    if strides is None:
        if outputs[0].shape[1:] == (n, 6):
            yield Reading(
                "end-to-end",
                None,
                lambda **options: EndToEndDecoder(outputs[0], size, **options),
            )
        return
    pose = Reading(
        "yolov8-pose-single",
        1,
        lambda **options: SinglePoseDecoder(outputs[0], size, **options),
    )
    v8 = Reading(
        "yolov8-single",
        channels - 4,
        lambda **options: SingleOutputDecoder(outputs[0], size, **options),
    )
    yolox = Reading(
        "yolox-grid",
        channels - 5,
        lambda **options: YoloxDecoder(outputs, size, **{"strides": strides, **options}),
    )
    oriented = Reading(
        "yolov8-obb-single",
        channels - 5,
        lambda **options: SingleOrientedDecoder(outputs[0], size, **options),
    )
    # Each exporter's own order of dimensions first. 56 channels are 17 keypoints of a person.
    order = [yolox, v8, oriented] if transposed else [v8, oriented, yolox]
    if channels > 5 and channels % 3 == 2:
        order.insert(0 if channels == 56 else len(order), pose)
    yield from (reading for reading in order if reading.num_classes and reading.num_classes > 0)


def _strides_of(n: int, size: Size) -> tuple[int, ...] | None:
    for strides in _STRIDES:
        if all(size[0] % s == 0 and size[1] % s == 0 for s in strides) and n == sum(
            (size[0] // s) * (size[1] // s) for s in strides
        ):
            return strides
    return None


def _accepted_by(head: str, decoder_class: Callable[..., Decoder]) -> Reader:
    """Return a reader that asks the decoder's class itself."""

    def read(outputs: Outputs, size: Size) -> Iterator[Reading]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # they come when the decoder is made for use
                decoder: Any = decoder_class(outputs, size)
        except ValueError:
            return
        yield Reading(
            head,
            decoder.num_classes,
            lambda **options: decoder_class(outputs, size, **options),
        )

    return read


#: Where two readers find something, the first one's reading is the more usual.
_READERS: tuple[Reader, ...] = (
    _split,
    _anchors,
    _yolox,
    _single,
    _accepted_by("yolov8-seg-split", SplitSegmentationDecoder),
    _accepted_by("yolov5-seg", AnchorSegmentationDecoder),
    _accepted_by("yolov8-seg-single", SingleSegmentationDecoder),
    _accepted_by("yolov8-pose-split", SplitPoseDecoder),
    _accepted_by("yolov8-obb-split", SplitOrientedDecoder),
)
