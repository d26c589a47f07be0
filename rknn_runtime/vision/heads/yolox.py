"""YOLOX: objectness, no anchors, sizes as powers of e."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Predictions,
    Size,
    by_scale,
    cells_of_one,
    channels_first,
    checked_size,
    fitting,
    grid_of,
    grids_of,
    predictions_of,
    representable,
    strides_of,
)
from rknn_runtime.vision.heads.single import coarse, is_decoded

_EXPECTED = "expected outputs of 5 + classes channels, one per scale or one for all"


class YoloxForm(NamedTuple):
    """The outputs of YOLOX's head."""

    num_classes: int
    #: Outputs per scale, finest first; empty if there is one output of all scales.
    scales: list[TensorAttr]
    one: Predictions | None
    doubts: int = 0


def read_yolox(
    outputs: Outputs, input_size: Size, *, per_cell: int | None = None
) -> YoloxForm | str:
    """Read the form of `YoloxDecoder`; with `per_cell` only a single output."""
    if len(outputs) == 1:
        one = predictions_of(outputs[0])
        if isinstance(one, str):
            return one
        cells = cells_of_one(one.n, input_size)
        if one.channels < 6 or per_cell not in (None, None if cells is None else cells[1]):
            return _EXPECTED
        # The published export has predictions before channels.
        doubts = (not one.transposed) + bool(is_decoded(outputs[0], input_size))
        return YoloxForm(one.channels - 5, [], one, doubts)
    scales = by_scale(outputs, input_size, (1,))
    if isinstance(scales, str):
        return scales
    channels = scales[0][0].shape[1]
    if channels < 6 or per_cell is not None:
        return _EXPECTED
    # Logarithms of sizes need more than 0..1, but nothing is as low as the logits of scores.
    lowest, highest = representable(scales[0][0])
    doubts = highest < 1.05 or -math.inf < lowest < -6
    return YoloxForm(channels - 5, [attr for (attr,) in scales], None, doubts)


class YoloxDecoder(Decoder):
    """Decode ``[1, 5 + classes, h, w]`` per scale, or all scales in ``[1, N, 5 + classes]``.

    The single output is the raw grid of ``export --decode_in_inference=False``, also channels
    first, ``[1, 5 + classes, N]``. A cell has x, y relative to the cell, logarithms of width and
    height in strides, objectness, class scores; confidence is objectness times class score.

    Args:
        outputs: Logical attributes: one per scale, in any order, or the single one.
        input_size: Height and width of the model's input in pixels.
        strides: Pixels between cells of each scale of a single output, in its order. None: the
            usual ones with this number of predictions.
        logits: Whether scores still need the sigmoid. The published exports end with it.
        **options: Thresholds and limits, see `Decoder`.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        strides: Sequence[int] | None = None,
        logits: bool = False,
        **options: Any,
    ) -> None:
        outputs = channels_first(outputs)
        input_size = checked_size(input_size)
        form = fitting(read_yolox(outputs, input_size), outputs)
        n = sum(attr.shape[2] * attr.shape[3] for attr in form.scales)
        super().__init__(outputs, input_size, form.one.n if form.one else n, **options)
        self.num_classes = form.num_classes
        self.logits = bool(logits)
        if form.one is None:
            self._grids = ffi.new("rkr_yolo_grid[]", len(form.scales))
            for grid, attr in zip(self._grids, form.scales):
                grid.stride_y, grid.stride_x = strides_of(attr, input_size)
                self._binding(attr).add_grid(grid.view, *grid_of(attr))
        else:
            self._add_runs(outputs[0], form.one, strides)
            self.symptoms = coarse(outputs[0])
        self._decode_with(
            "rkr_yolo_decode_yolox",
            grids=self._grids,
            n_grids=len(self._grids),
            n_classes=self.num_classes,
            sigmoid=self.logits,
        )

    def _add_runs(
        self, output: TensorAttr, form: Predictions, strides: Sequence[int] | None
    ) -> None:
        channels, n, transposed = form
        if strides is None:
            strides, _ = cells_of_one(n, self.input_size) or ((8, 16, 32), 1)
        grids = grids_of(self.input_size, strides, n, output)
        self._grids = ffi.new("rkr_yolo_grid[]", len(grids))
        binding, first = self._binding(output), 0
        for grid, stride, (height, width) in zip(self._grids, strides, grids):
            grid.stride_x = grid.stride_y = stride
            if transposed:
                binding.add(grid.view, channels, height, width, n, channels, first * channels)
            else:
                binding.add_grid(grid.view, channels, height, width, first_cell=first, n_cells=n)
            first += height * width
