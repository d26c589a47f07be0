"""Worked-out boxes and scores as two outputs: YOLO-NAS, RT-DETR."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    any_below_zero,
    cells_of_one,
    channels_first,
    checked_size,
    fitting,
    predictions_of,
    representable,
)
from rknn_runtime.vision.heads.single import SingleForm, SingleOutputDecoder

#: Predictions of RT-DETR, and of networks like it.
_QUERIES = 300


class PairForm(NamedTuple):
    """Boxes and scores."""

    num_classes: int
    n: int
    boxes: TensorAttr
    scores: TensorAttr
    doubts: int = 0


def read_pair(outputs: Outputs, input_size: Size, *, queries: bool | None = None) -> PairForm | str:
    """Read the form of `PairDecoder`; `queries`: of RT-DETR, or of cells, as YOLO-NAS has them."""
    shapes = [attr.shape for attr in outputs]
    if len(shapes) != 2 or any(len(s) != 3 or s[:2] != (1, shapes[0][1]) for s in shapes):
        return "expected boxes [1, N, 4] and scores [1, N, classes]"
    boxes = [attr for attr in outputs if attr.shape[2] == 4]
    if not boxes:
        return "expected boxes [1, N, 4]"
    n, cells = shapes[0][1], cells_of_one(shapes[0][1], input_size)
    is_queries = n == _QUERIES
    if not is_queries and (cells is None or cells[1] != 1):
        return f"expected {_QUERIES} predictions, or one of each cell"
    if queries not in (None, is_queries):
        return "expected another number of predictions"
    scores = outputs[1] if boxes[0] is outputs[0] else outputs[0]
    return PairForm(scores.shape[2], n, boxes[0], scores)


class PairDecoder(Decoder):
    """Decode boxes ``[1, N, 4]`` and class scores ``[1, N, classes]``.

    YOLO-NAS: x1, y1, x2, y2 in pixels for each cell, and scores after the sigmoid. RT-DETR: centre,
    width and height as parts of the input for each of 300 queries, and scores before the sigmoid;
    nothing is suppressed, since a query finds one object. (Layouts: Deci's
    super-gradients; Hugging Face's RT-DETR, arXiv 2304.08069.)

    Args:
        outputs: Logical attributes of both outputs. With four classes boxes come first.
        input_size: Height and width of the model's input in pixels.
        logits: Whether scores still need the sigmoid. None: as above, but integer outputs tell it
            by their range.
        **options: Thresholds and limits, see `Decoder`.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        logits: bool | None = None,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_pair(outputs, size), outputs)
        super().__init__(outputs, size, form.n, **options)
        self.num_classes = form.num_classes
        is_queries = form.n == _QUERIES
        if logits is None:
            is_float = form.scores.stored.dtype.numpy.kind == "f"
            logits = is_queries if is_float else any_below_zero([form.scores])
        self.logits = bool(logits)
        self._options.suppress = not is_queries
        branches = ffi.new("rkr_yolo_branch[]", 1)
        for view, attr in ((branches[0].box, form.boxes), (branches[0].score, form.scores)):
            self._binding(attr).add(view, attr.shape[2], 1, form.n, form.n, attr.shape[2])
        self._decode_with(
            "rkr_yolo_decode_pair",
            branches=branches,
            n_branches=1,
            n_classes=self.num_classes,
            sigmoid=self.logits,
            centred=is_queries,
            scale_x=size[1] if is_queries else 1,
            scale_y=size[0] if is_queries else 1,
        )


def read_queries(
    outputs: Outputs, input_size: Size, *, num_classes: int | None = None, named: bool = False
) -> SingleForm | str:
    """Read the form of `QueriesDecoder`.

    Rows of other heads may have as many columns: boxes with masks or keypoints of YOLO26. So,
    unless the head is `named`, there must be labels, or 80 classes.
    """
    layout = predictions_of(outputs[0], True) if len(outputs) == 1 else "expected one output"
    if isinstance(layout, str) or layout.n != _QUERIES or layout.channels < 5:
        return f"expected [1, {_QUERIES}, 4 + classes]"
    found = layout.channels - 4
    if not named and found != (num_classes or 80):
        return "other classes"
    holds_pixels = 2.05 < representable(outputs[0])[1] < math.inf
    return SingleForm(found, False, layout, holds_pixels)


class QueriesDecoder(SingleOutputDecoder):
    """Decode RT-DETR as Ultralytics exports it: ``[1, 300, 4 + classes]``.

    Centre, width and height are parts of the input, and scores are after the sigmoid. Nothing is
    suppressed, since a query finds one object. Arguments are as for `SingleOutputDecoder`.
    """

    def __init__(self, output: TensorAttr, input_size: Size, **options: Any) -> None:
        (checked,) = channels_first((output,))
        fitting(read_queries((checked,), input_size, named=True), (checked,))
        kind: dict[str, Any] = {"transposed": True, "objectness": False, "normalized": True}
        super().__init__(output, input_size, **{**kind, **options})
        self._options.suppress = False
