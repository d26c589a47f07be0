"""YOLOX: objectness, no anchors, sizes as powers of e."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import (
    channels_and_predictions,
    grid_of,
    grids_of,
    scales_of_one,
    strides_of,
)
from rknn_runtime.vision.heads.single import warn_when_coarse
from rknn_runtime.vision.heads.views import channels_first, describe

__all__ = ["YoloxDecoder"]

_IN_FLOAT = "Convert the model with this output in float16 (hybrid quantization)"


class YoloxDecoder(Decoder):
    """Decode ``[1, 5 + classes, h, w]`` per scale, or all scales in ``[1, N, 5 + classes]``.

    The single output is the raw grid that ``export --decode_in_inference=False`` gives; its
    channels-first form ``[1, 5 + classes, N]`` is taken too. Per cell: x, y relative to the
    cell, logarithms of width and height in strides, objectness, class scores; confidence is
    objectness times class score.

    Args:
        outputs: Logical attributes: one per scale, in any order, or the single one.
        input_size: Height and width of the model's input in pixels.
        strides: Pixels between cells of each scale of a single output, in its order.
        logits: Whether scores still need the sigmoid. The published exports end with it.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        ValueError: The outputs have not this form, or the strides do not fit; or see `Decoder`.

    Warns:
        UserWarning: The single output has one scale for boxes and scores, which makes these
            coarse.
    """

    def __init__(
        self,
        outputs: Sequence[TensorAttr],
        input_size: tuple[int, int],
        *,
        strides: Sequence[int] = (8, 16, 32),
        logits: bool = False,
        **options: Any,
    ) -> None:
        outputs = channels_first(outputs)
        if len(outputs) == 1:
            channels, n, _ = channels_and_predictions(outputs[0])
            scales = []
        else:
            scales = scales_of_one(outputs)
            channels = grid_of(scales[0])[0]
            n = sum(attr.shape[2] * attr.shape[3] for attr in scales)
        if channels < 6:
            raise ValueError(f"expected 5 + classes channels, got\n{describe(outputs)}")
        super().__init__(outputs, input_size, n, **options)
        self.num_classes = channels - 5
        self.logits = bool(logits)
        if scales:
            self._add_scales(scales)
        else:
            self._add_runs(outputs[0], strides)
            warn_when_coarse(outputs[0], 2, _IN_FLOAT)
        self._decode_with(
            lib.rkr_yolo_decode_yolox, self._grids, len(self._grids), self.num_classes, self.logits
        )

    def _add_scales(self, scales: Sequence[TensorAttr]) -> None:
        self._grids = ffi.new("rkr_yolo_grid[]", len(scales))
        for grid, attr in zip(self._grids, scales):
            grid.stride_y, grid.stride_x = strides_of(attr, self.input_size)
            self._binding(attr).add_grid(grid.view, *grid_of(attr))

    def _add_runs(self, output: TensorAttr, strides: Sequence[int]) -> None:
        channels, n, transposed = channels_and_predictions(output)
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
