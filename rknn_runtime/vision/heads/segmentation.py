"""Instance segmentation: YOLOv5-seg, v8-seg, 11-seg. Masks from prototypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.anchors import AnchorDecoder, AnchorForm, read_anchors
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.frame import OutputViews, Placement
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    beside_boxes,
    by_scale,
    channels_first,
    fitting,
    grid_of,
    without,
)
from rknn_runtime.vision.heads.single import SingleForm, SingleOutputDecoder, read_single
from rknn_runtime.vision.heads.split import SplitDecoder, SplitForm, read_split
from rknn_runtime.vision.letterbox import LetterboxTransform

#: Limits of the native code.
_MOST_PROTOTYPES, _MOST_COLUMNS = 256, 1024


class _Masks:
    """Makes the masks of found objects.

    The C array of grids has the places of the coefficients of each prediction.
    """

    def __init__(self, prototypes: OutputViews, grids: Any, input_size: Size) -> None:
        self.count, height, width = grid_of(prototypes.attr)
        if self.count > _MOST_PROTOTYPES or width > _MOST_COLUMNS:
            raise ValueError(
                f"output {prototypes.attr.name!r}: expected at most {_MOST_PROTOTYPES} prototypes "
                f"of at most {_MOST_COLUMNS} columns, got {list(prototypes.attr.shape)}"
            )
        self._view = ffi.new("rkr_tensor_view *")
        prototypes.add_grid(self._view, self.count, height, width)
        self._grids = grids
        self._placement = Placement(input_size, (height, width))

    def add(self, decoder: Decoder, n: int, transform: LetterboxTransform | None) -> Detections:
        mask = np.zeros((n, *self._placement.of(transform)), np.bool_)
        status = lib.rkr_yolo_masks(
            self._view,
            self._grids,
            len(self._grids),
            pointer(decoder._source),
            decoder._out.xyxy,
            n,
            self._placement.native,
            pointer(mask),
        )
        check_status(status, "masks")
        return Detections._of(decoder._columns, n, mask=mask, labels=decoder.labels)


class SegmentationForm(NamedTuple):
    """The outputs of a head with masks."""

    num_classes: int
    boxes: SplitForm | AnchorForm | SingleForm
    #: Per scale, finest first; empty if they are channels of the boxes' output.
    coefficients: list[TensorAttr]
    prototypes: TensorAttr
    doubts: int


def read_segmentation_split(
    outputs: Outputs, input_size: Size, *, bins: int | None = None
) -> SegmentationForm | str:
    """Read the form of `SplitSegmentationDecoder`."""
    return _read_scales(
        outputs, input_size, (3, 4), 1, partial(read_split, bins=bins, joined=False)
    )


def read_segmentation_anchors(
    outputs: Outputs, input_size: Size, *, per_cell: int = 3
) -> SegmentationForm | str:
    """Read the form of `AnchorSegmentationDecoder`, of `per_cell` anchors."""
    return _read_scales(
        outputs, input_size, (2,), per_cell, partial(read_anchors, per_cell=per_cell)
    )


def _read_scales(
    outputs: Outputs,
    input_size: Size,
    counts: tuple[int, ...],
    per_cell: int,
    read: Callable[[Outputs, Size], Any],
) -> SegmentationForm | str:
    """Read heads whose scales have an output of coefficients."""
    prototypes = _prototypes(outputs)
    if isinstance(prototypes, str):
        return prototypes
    rest = without(outputs, [prototypes])
    scales = by_scale(rest, input_size, counts)
    if isinstance(scales, str):
        return scales
    count = per_cell * prototypes.shape[1]
    found = beside_boxes(
        rest, scales, lambda attr: attr.shape[1] == count, lambda left: read(left, input_size)
    )
    if found is None:
        return f"expected boxes, classes and {count} mask coefficients as outputs of each scale"
    boxes, coefficients, doubts = found
    return SegmentationForm(boxes.num_classes, boxes, coefficients, prototypes, doubts)


def read_segmentation_single(
    outputs: Outputs, input_size: Size, **kind: Any
) -> SegmentationForm | str:
    """Read the form of `SingleSegmentationDecoder`; keywords as of `read_single`."""
    parts = _head_and_prototypes(outputs)
    if isinstance(parts, str):
        return parts
    head, prototypes = parts
    form = read_single([head], input_size, n_extra=prototypes.shape[1], **kind)
    if isinstance(form, str):
        return form
    return SegmentationForm(form.num_classes, form, [], prototypes, form.doubts)


def _head_and_prototypes(outputs: Outputs) -> tuple[TensorAttr, TensorAttr] | str:
    planes = [attr for attr in outputs if len(attr.shape) == 4 and min(attr.shape[2:]) > 1]
    if len(outputs) != 2 or len(planes) != 1 or planes[0].shape[0] != 1:
        return "expected two outputs, [1, 4 + classes + p, N] and prototypes [1, p, h, w]"
    (head,) = without(outputs, planes)
    return head, planes[0]


def _prototypes(outputs: Outputs) -> TensorAttr | str:
    """Return the one output whose grid no other has."""
    grids = [attr.shape[2:] if len(attr.shape) == 4 else None for attr in outputs]
    alone = [attr for attr, grid in zip(outputs, grids) if grid and grids.count(grid) == 1]
    return alone[0] if len(alone) == 1 else "expected one output of prototypes, on its own grid"


class _SegmentationDecoder(Decoder):
    _masks: _Masks

    def _add_task(self, form: SegmentationForm) -> None:
        """Bind the coefficients, which are separate outputs, scale after scale."""
        count = form.prototypes.shape[1]
        anchors = form.coefficients[0].shape[1] // count
        grids = ffi.new("rkr_yolo_grid[]", anchors * len(form.coefficients))
        for i, grid in enumerate(grids):
            attr = form.coefficients[i // anchors]
            self._binding(attr).add_grid(grid.view, *grid_of(attr))
            grid.first = count * (i % anchors)
        self._masks = _Masks(self._binding(form.prototypes), grids, self.input_size)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, self._out.count, transform)


class SplitSegmentationDecoder(_SegmentationDecoder, SplitDecoder):
    """Decode YOLOv8-seg and 11-seg of the model zoo: 10 or 13 outputs.

    Per scale a box, a class, perhaps a sum output (see `SplitDecoder`) and ``[1, p, h, w]``
    mask coefficients; then ``[1, p, H, W]`` prototypes. ``mask`` of the detections is
    ``(n, height, width) bool`` in the size of the model's input or, with a transform, of the image.
    A mask is true inside the box if the sum of prototypes times coefficients, interpolated
    bilinearly, is above 0 (its sigmoid above 0.5). It takes height * width bytes. (Layout:
    examples/yolov8_seg in the zoo.)

    Arguments and exceptions are as for `SplitDecoder`; pass all outputs of the model.
    """

    _read = staticmethod(read_segmentation_split)


class AnchorSegmentationDecoder(_SegmentationDecoder, AnchorDecoder):
    """Decode YOLOv5-seg of the model zoo: 7 outputs.

    Per scale ``[1, anchors * (5 + classes), h, w]`` (see `AnchorDecoder`) and
    ``[1, anchors * p, h, w]`` mask coefficients; then ``[1, p, H, W]`` prototypes. For
    ``mask`` see `SplitSegmentationDecoder`. (Layout: examples/yolov5_seg in the zoo.)

    Arguments and exceptions are as for `AnchorDecoder`; pass all outputs of the model.
    """

    _read = staticmethod(read_segmentation_anchors)


class SingleSegmentationDecoder(_SegmentationDecoder, SingleOutputDecoder):
    """Decode Ultralytics' two outputs: ``[1, 4 + classes + p, N]`` and ``[1, p, H, W]``.

    The first is as for `SingleOutputDecoder` (for YOLOv5-seg ``[1, N, 5 + classes + p]``), with p
    mask coefficients after the class scores; the second has the prototypes. For ``mask`` see
    `SplitSegmentationDecoder`.

    Arguments and exceptions are as for `SingleOutputDecoder`, but pass both outputs in the model's
    order, and no `n_extra`.
    """

    def __init__(self, outputs: Outputs, input_size: Size, **options: Any) -> None:
        outputs = channels_first(outputs)
        head, prototypes = fitting(_head_and_prototypes(outputs), outputs)
        count = prototypes.shape[1]
        super().__init__(head, input_size, n_extra=count, extra=(prototypes,), **options)
        grids = ffi.new("rkr_yolo_grid[]", 1)
        self._add_view(head, grids[0].view)
        grids[0].first = self._first_extra
        self._masks = _Masks(self._binding(prototypes), grids, self.input_size)
