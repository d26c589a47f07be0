"""Oriented boxes: YOLOv8-obb, 11-obb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.single import SingleOutputDecoder
from rknn_runtime.vision.heads.split import SplitDecoder
from rknn_runtime.vision.heads.views import channels_first, describe

if TYPE_CHECKING:
    from rknn_runtime.vision.letterbox import LetterboxTransform

__all__ = ["SingleOrientedDecoder", "SplitOrientedDecoder"]


class _OrientedDecoder(Decoder):
    """Results with corners."""

    def _allocate_results(self, n: int) -> None:
        super()._allocate_results(n)
        self._corners = np.empty((n, 4, 2), np.float32)
        self._out.corners = pointer(self._corners)

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        found = Detections(
            self._xyxy[:n].copy(),
            self._confidence[:n].copy(),
            self._class_id[:n].copy(),
            xyxyxyxy=self._corners[:n].copy(),
        )
        return found if transform is None else transform.detections_to_image(found)


class SplitOrientedDecoder(_OrientedDecoder, SplitDecoder):
    """Decode the model zoo's form: one output per scale, and the angles of all.

    Per scale ``[1, 4 * bins + classes, h, w]`` (see `SplitDecoder`; separate box and class
    outputs are taken too), then ``[1, 1, N]`` (or ``[1, 1, 1, N]``, ``[1, 1, N, 1]``): for the
    cells of all scales, finest first, v after the sigmoid; the angle is ``(v - 0.25) * pi``,
    from the x axis towards the y axis. ``xyxyxyxy`` of the detections is ``(n, 4, 2)
    float32``, the corners in order; ``xyxy`` their upright hull. (Layout: examples/yolov8_obb of
    the zoo.)

    A box is suppressed by the exact IoU of the two rectangles, as in the zoo, so that
    `iou_threshold` means the same as for upright boxes. Ultralytics compares Gaussians
    instead (ProbIoU, arXiv 2106.06072), which is above 0 even for rectangles that do not meet:
    its thresholds do not carry over.

    Args:
        outputs: Logical attributes of the outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        **options: See `SplitDecoder`.

    Raises:
        ValueError: The outputs have not this form; or see `SplitDecoder`.
    """

    def __init__(
        self, outputs: Sequence[TensorAttr], input_size: tuple[int, int], **options: Any
    ) -> None:
        outputs = channels_first(outputs)
        angles = _angle_output(outputs)
        boxes = [attr for attr in outputs if attr is not angles]
        super().__init__(boxes, input_size, extra=(angles,), **options)
        n = sum(branch.box.height * branch.box.width for branch in self._branches)
        if max(angles.shape) != n:
            raise ValueError(
                f"angles of {max(angles.shape)} cells for boxes of {n}:\n{describe(outputs)}"
            )
        self._angles = ffi.new("rkr_tensor_view *")
        self._binding(angles).add_grid(self._angles, 1, 1, n)
        self._decode_with(lib.rkr_yolo_decode_split_oriented, *self._head, self._angles)


def _angle_output(outputs: Sequence[TensorAttr]) -> TensorAttr:
    """Return the output that is one row of numbers."""
    rows = [
        attr
        for attr in outputs
        if len(attr.shape) in (3, 4) and sorted(attr.shape)[-2] == 1 and attr.shape[1] == 1
    ]
    if len(rows) != 1:
        raise ValueError(f"expected one output of angles, [1, 1, N], got\n{describe(outputs)}")
    return rows[0]


class SingleOrientedDecoder(_OrientedDecoder, SingleOutputDecoder):
    """Decode Ultralytics' single output ``[1, 4 + classes + 1, N]``.

    As `SingleOutputDecoder`, with the angle in radians behind the class scores. For the
    results see `SplitOrientedDecoder`.

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        **options: See `SingleOutputDecoder`.

    Raises:
        ValueError: The output has not this form; or see `SingleOutputDecoder`.
    """

    def __init__(self, output: TensorAttr, input_size: tuple[int, int], **options: Any) -> None:
        super().__init__(output, input_size, objectness=False, n_extra=1, **options)
        self._native = lib.rkr_yolo_decode_single_oriented
