"""Heads with one output of worked-out boxes: Ultralytics' YOLOv5, v8, v9, 11, 12."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Predictions,
    Size,
    cells_of_one,
    channels_first,
    checked_size,
    fitting,
    has_boxes_in_0_to_1,
    predictions_of,
    quantization_of,
    representable,
)
from rknn_runtime.vision.plausibility import Symptom, shared_scale

#: Confidences further apart than this are called coarse: fewer than 50 steps in 0..1.
COARSE = 0.02


class SingleForm(NamedTuple):
    """One output with boxes, scores and perhaps more."""

    num_classes: int
    objectness: bool
    layout: Predictions
    #: How unusual this reading is; see `Fit`.
    doubts: int = 0


def read_single(
    outputs: Outputs,
    input_size: Size,
    *,
    num_classes: int | None = None,
    transposed: bool | None = None,
    objectness: bool | None = None,
    n_extra: int = 0,
    per_cell: int | None = None,
) -> SingleForm | str:
    """Read the form of `SingleOutputDecoder`."""
    if len(outputs) != 1:
        return "expected one output"
    layout = predictions_of(outputs[0], transposed)
    if isinstance(layout, str):
        return layout
    cells = cells_of_one(layout.n, input_size)
    found_per_cell = None if cells is None else cells[1]
    if per_cell not in (None, found_per_cell):
        return f"expected {per_cell} predictions of each cell"
    has_objectness = found_per_cell == 3 if objectness is None else bool(objectness)
    others = 4 + has_objectness + n_extra
    if not 1 <= (1 if num_classes is None else num_classes) <= layout.channels - others:
        return (
            f"{layout.channels} channels: no room for {num_classes or 'any'} classes beside "
            f"{others} channels of other use"
        )
    found = layout.channels - others if num_classes is None else num_classes
    # Ultralytics' exports of heads without objectness have channels first, others last.
    doubts = found_per_cell == 1 and layout.transposed != has_objectness
    raw = found_per_cell == 1 and has_objectness and is_decoded(outputs[0], input_size) is False
    return SingleForm(found, has_objectness, layout, doubts + raw)


def is_decoded(output: TensorAttr, input_size: Size) -> bool | None:
    """Tell boxes in pixels or 0..1 from YOLOX's grid, by the range of an integer output.

    The grid has logarithms of sizes in strides, which are below 0 for small boxes and never as
    large as pixels. None: a float output without the name of YOLOX's or YOLOv6's export.
    """
    lowest, highest = representable(output)
    if math.isinf(highest):
        return {"output": False, "outputs": True}.get(output.name)
    return min(input_size) / 4 < highest or (lowest > -0.5 and highest < 2)


class SingleOutputDecoder(Decoder):
    """Decode ``[1, 4 + classes, N]``: centre x, centre y, width, height, class scores.

    Rank 4 forms (``[1, 4 + classes, N, 1]``, ``[1, 4 + classes, 1, N]``) and the transposed
    ``[1, N, 4 + classes]`` are the same head. Exported graphs end with a sigmoid, so scores are
    taken unchanged. YOLOv5 and v7 have objectness before the class scores,
    ``[1, N, 5 + classes]``: confidence is objectness times class score.

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        num_classes: Classes; None: all channels after the box.
        normalized: Whether boxes are 0..1 of the input instead of pixels. None: they are if the
            output is an integer one whose largest value, in any channel, is below a quarter of
            the input's shorter side.
        transposed: Whether predictions come before channels. None: if there are more predictions,
            as in every real model.
        objectness: Whether there is an objectness. None: if N is three times the number of cells,
            one prediction per anchor.
        n_extra: Channels after the class scores for other uses.
        **options: Thresholds and limits, see `Decoder`.
    """

    #: Channels between objectness and class scores.
    _between = 0

    def __init__(
        self,
        output: TensorAttr,
        input_size: Size,
        *,
        num_classes: int | None = None,
        normalized: bool | None = None,
        transposed: bool | None = None,
        objectness: bool | None = None,
        n_extra: int = 0,
        **options: Any,
    ) -> None:
        outputs, input_size = channels_first((output,)), checked_size(input_size)
        kind: dict[str, Any] = {"num_classes": num_classes, "transposed": transposed}
        kind |= {"objectness": objectness, "n_extra": n_extra}
        form = fitting(read_single(outputs, input_size, **kind), outputs)
        super().__init__(outputs, input_size, form.layout.n, **options)
        (output,) = outputs
        self.objectness, self.num_classes = form.objectness, form.num_classes
        if normalized is None:
            normalized = has_boxes_in_0_to_1(output, input_size)
        self.normalized = bool(normalized)
        height, width = input_size
        self._scale = (float(width), float(height)) if self.normalized else (1.0, 1.0)
        self._layout = form.layout
        grids = ffi.new("rkr_yolo_grid[]", 1)
        self._view, grids[0].between = grids[0].view, self._between
        grids[0].stride_x, grids[0].stride_y = self._scale
        self._add_view(output, self._view)
        self._decode_with(
            "rkr_yolo_decode_single_objectness" if form.objectness else "rkr_yolo_decode_single",
            grids=grids,
            n_grids=1,
            output=ffi.addressof(grids[0], "view"),
            n_classes=self.num_classes,
            scale_x=self._scale[0],
            scale_y=self._scale[1],
        )
        self.symptoms = coarse(output)

    @property
    def _first_extra(self) -> int:
        """The first channel after the class scores."""
        return 4 + self.objectness + self.num_classes

    def _add_view(self, output: TensorAttr, view: Any) -> None:
        channels, n, transposed = self._layout
        if transposed:
            self._binding(output).add(view, channels, 1, n, n, channels)
        else:
            self._binding(output).add_grid(view, channels, 1, n)


def coarse(output: TensorAttr) -> tuple[Symptom, ...]:
    """Report scores that share a scale with boxes that is too coarse for them."""
    lowest, highest = representable(output)
    step = quantization_of(output)[1]
    if not math.isfinite(highest) or step <= COARSE:
        return ()
    return (shared_scale(output.name, lowest, highest, step),)


class EndToEndForm(NamedTuple):
    """One output of detections."""

    n: int
    num_classes: None = None
    doubts: int = 0


def read_end_to_end(outputs: Outputs) -> EndToEndForm | str:
    """Read the form of `EndToEndDecoder`."""
    shape = outputs[0].shape
    if len(outputs) != 1 or len(shape) != 3 or shape[0] != 1 or shape[2] != 6:
        return "expected [1, N, 6]"
    return EndToEndForm(shape[1])


class EndToEndDecoder(Decoder):
    """Decode ``[1, N, 6]``: x1, y1, x2, y2, score, class number; one row per detection.

    Nothing is suppressed: `iou_threshold` and `class_agnostic` have no effect.

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        normalized: Whether boxes are 0..1 of the input; None: see `SingleOutputDecoder`.
        **options: Thresholds and limits, see `Decoder`.
    """

    def __init__(
        self,
        output: TensorAttr,
        input_size: Size,
        *,
        normalized: bool | None = None,
        **options: Any,
    ) -> None:
        (output,) = channels_first((output,))
        n = fitting(read_end_to_end((output,)), (output,)).n
        super().__init__((output,), input_size, n, **options)
        height, width = self.input_size
        if normalized is None:
            normalized = has_boxes_in_0_to_1(output, self.input_size)
        self.normalized = bool(normalized)
        scale_x, scale_y = (width, height) if self.normalized else (1, 1)
        self._options.suppress = False
        self._view = ffi.new("rkr_tensor_view *")
        self._bindings[0].add(self._view, 6, 1, n, n, 6)
        self._decode_with(
            "rkr_yolo_decode_end_to_end", output=self._view, scale_x=scale_x, scale_y=scale_y
        )
        self.symptoms = coarse(output)
