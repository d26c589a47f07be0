"""YOLOv10 and YOLO26 with the selection in the graph: ``[1, 300, 6]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import fitting
from rknn_runtime.vision.heads.single import warn_when_coarse
from rknn_runtime.vision.heads.views import (
    Outputs,
    Size,
    channels_first,
    has_boxes_in_0_to_1,
)

__all__ = ["EndToEndDecoder", "read_end_to_end"]


@dataclass(frozen=True)
class EndToEndForm:
    """What an output of detections is."""

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
        normalized: Whether boxes are 0..1 of the input instead of pixels. None: they are in an
            integer output whose largest value, which may be a class number, is below a quarter
            of the input's shorter side; anything else is in pixels.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        MemoryError: See `Decoder`.
        TypeError: See `Decoder`.
        ValueError: The output is not of this form; or see `Decoder`.

    Warns:
        UserWarning: One scale quantizes boxes, scores and class numbers together.
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
        warn_when_coarse(output, in_0_to_1=self.normalized)
