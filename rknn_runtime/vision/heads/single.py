"""Heads whose one output has the boxes worked out: Ultralytics' YOLOv5, v8, v9, 11, 12."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import cells_of_one, channels_and_predictions
from rknn_runtime.vision.heads.views import (
    channels_first,
    checked_size,
    quantization_of,
    representable,
)

__all__ = ["SingleOutputDecoder"]

#: Confidences further apart than this are called coarse: fewer than 50 steps in 0..1.
COARSE = 0.02


class SingleOutputDecoder(Decoder):
    """Decode ``[1, 4 + classes, N]``: centre x, centre y, width, height, class scores.

    Rank 4 forms (``[1, 4 + classes, N, 1]``, ``[1, 4 + classes, 1, N]``) and the transposed
    ``[1, N, 4 + classes]`` are the same head. Scores are taken as they are, after the sigmoid
    that the exported graph ends with. YOLOv5 and v7 have objectness before the class scores,
    ``[1, N, 5 + classes]``: confidence is objectness times class score.

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        num_classes: Classes; None: all channels behind the box.
        normalized: Whether boxes are 0..1 of the input instead of pixels. None: an integer
            output whose largest value is below 2 is, anything else is in pixels.
        transposed: Whether predictions come before channels. None: when there are more of
            the former, as in every real model.
        objectness: Whether there is an objectness. None: when N is three times the number of
            cells, one prediction per anchor.
        n_extra: Channels behind the class scores that are something else.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        ValueError: The output has not this form; or see `Decoder`.

    Warns:
        UserWarning: One scale quantizes boxes in pixels and scores together, so that
            scores are too coarse to be useful.
    """

    def __init__(
        self,
        output: TensorAttr,
        input_size: tuple[int, int],
        *,
        num_classes: int | None = None,
        normalized: bool | None = None,
        transposed: bool | None = None,
        objectness: bool | None = None,
        n_extra: int = 0,
        **options: Any,
    ) -> None:
        (output,) = channels_first((output,))
        channels, n, transposed = channels_and_predictions(output, transposed)
        input_size = checked_size(input_size)
        if objectness is None:
            per_cell = cells_of_one(n, input_size)
            objectness = per_cell is not None and per_cell[1] == 3
        self.objectness = bool(objectness)
        others = 4 + self.objectness + n_extra
        if not 1 <= (1 if num_classes is None else num_classes) <= channels - others:
            raise ValueError(
                f"output {output.name!r} {list(output.shape)} has {channels} channels: no room "
                f"for {num_classes or 'any'} classes beside {others} channels of other use"
            )
        super().__init__((output,), input_size, n, **options)
        self.num_classes = channels - others if num_classes is None else num_classes
        self.normalized = representable(output)[1] < 2 if normalized is None else bool(normalized)
        height, width = self.input_size
        self._scale = (float(width), float(height)) if self.normalized else (1.0, 1.0)
        self._form = channels, n, transposed
        self._view = ffi.new("rkr_tensor_view *")
        self._add_view(output, self._view)
        self._decode_with(
            lib.rkr_yolo_decode_single_objectness if objectness else lib.rkr_yolo_decode_single,
            self._view,
            self.num_classes,
            *self._scale,
        )
        warn_when_coarse(output, 2 if objectness else 1)

    @property
    def _first_extra(self) -> int:
        """The first channel behind the class scores."""
        return 4 + self.objectness + self.num_classes

    def _add_view(self, output: TensorAttr, view: Any) -> None:
        channels, n, transposed = self._form
        if transposed:
            self._binding(output).add(view, channels, 1, n, n, channels)
        else:
            self._binding(output).add_grid(view, channels, 1, n)


_SPLIT_FORM = (
    "Convert the split form instead, boxes and class scores as separate outputs: export with the "
    "vendor's fork of the training code (github.com/airockchip), or name the graph's last "
    "convolutions in rknn.load_onnx(outputs=[...]). Or divide the boxes by the input size in the "
    "graph"
)


def warn_when_coarse(output: TensorAttr, factors: int = 1, remedy: str = _SPLIT_FORM) -> None:
    """Warn of scores that share the scale of boxes; called by constructors.

    Args:
        output: The output.
        factors: How many scores are multiplied to a confidence.
        remedy: How to convert the model instead.
    """
    scale = quantization_of(output)[1]
    if math.isfinite(representable(output)[1]) and scale > COARSE:
        warnings.warn(
            f"output {output.name!r} quantizes boxes and scores with one scale: all scores are "
            f"multiples of {scale:.4g}, the smallest confidence above 0 is {scale**factors:.4g}. "
            f"{remedy}",
            UserWarning,
            stacklevel=3,
        )
