"""Keypoints: YOLOv8-pose, 11-pose."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import check, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import channels_and_predictions
from rknn_runtime.vision.heads.single import COARSE, SingleOutputDecoder
from rknn_runtime.vision.heads.split import SplitDecoder
from rknn_runtime.vision.heads.views import channels_first, describe, quantization_of, representable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rknn_runtime.vision.letterbox import LetterboxTransform

__all__ = ["SinglePoseDecoder", "SplitPoseDecoder"]


def _gather(grids: Any, channels: int, source: NDArray[np.uint32]) -> NDArray[np.float32]:
    values = np.empty((len(source), channels), np.float32)
    status = lib.rkr_yolo_gather(
        grids, len(grids), channels, pointer(source), len(source), pointer(values)
    )
    check(status, "keypoints")
    return values


def _with_keypoints(
    found: Detections, values: NDArray[np.float32], transform: LetterboxTransform | None
) -> Detections:
    """Add ``(n, k, 2 or 3)`` keypoints; those without a confidence get 1."""
    keypoints = np.ones((*values.shape[:2], 3), np.float32)
    keypoints[..., : values.shape[2]] = values
    result = Detections(found.xyxy, found.confidence, found.class_id, keypoints=keypoints)
    return result if transform is None else transform.detections_to_image(result)


class SplitPoseDecoder(SplitDecoder):
    """Decode the model zoo's form: one output per scale, and the keypoints of all.

    Per scale ``[1, 4 * bins + classes, h, w]`` (see `SplitDecoder`; separate box and class
    outputs are taken too), then ``[1, k, 3, N]`` or ``[1, 3 * k, N]``: x, y in pixels of the
    input and confidence of each keypoint, for the cells of all scales, finest first.
    ``keypoints`` of the detections is ``(n, k, 3) float32``. (Layout: examples/yolov8_pose of
    the zoo.)

    Args:
        outputs: Logical attributes of the outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        **options: See `SplitDecoder`.

    Raises:
        ValueError: The outputs have not this form; or see `SplitDecoder`.

    Warns:
        UserWarning: One scale quantizes positions and confidences of the keypoints together,
            so that confidences mean nothing.
    """

    def __init__(
        self, outputs: Sequence[TensorAttr], input_size: tuple[int, int], **options: Any
    ) -> None:
        outputs = channels_first(outputs)
        points = _keypoint_output(outputs)
        boxes = [attr for attr in outputs if attr is not points]
        super().__init__(boxes, input_size, extra=(points,), **options)
        n = sum(attr.shape[2] * attr.shape[3] for attr in boxes) // (
            len(boxes) // len(self._branches)
        )
        if points.shape[-1] != n:
            raise ValueError(
                f"keypoints of {points.shape[-1]} cells for boxes of {n}:\n{describe(outputs)}"
            )
        self._n_cells = n
        self._planes = points.shape[2] if len(points.shape) == 4 else 1
        self._channels = points.shape[1]
        self._points = ffi.new("rkr_yolo_grid[]", 1)
        self._binding(points).add_grid(self._points[0].view, self._channels, self._planes, n)
        _warn_when_coarse(points)

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        found = Decoder._results(self, n, None)
        source = self._source[:n]
        if self._planes == 1:
            values = _gather(self._points, self._channels, source)
            values = values.reshape(n, self._channels // 3, 3)
        else:
            steps = np.arange(self._planes, dtype=np.uint32)[:, None] * self._n_cells
            cells = (source + steps.astype(np.uint32)).ravel()
            gathered = _gather(self._points, self._channels, cells)
            values = gathered.reshape(self._planes, n, self._channels).transpose(1, 2, 0)
        return _with_keypoints(found, values, transform)


def _keypoint_output(outputs: Sequence[TensorAttr]) -> TensorAttr:
    """Return the output ``[1, k, 2 or 3, N]`` or ``[1, 3 * k, N]``."""
    taken = [
        attr
        for attr in outputs
        if (len(attr.shape) == 4 and attr.shape[2] in (2, 3) and attr.shape[3] > attr.shape[2])
        or (len(attr.shape) == 3 and attr.shape[1] % 3 == 0)
    ]
    # A coarse grid can have 3 rows too, but not as many columns as there are cells.
    most = max((attr.shape[-1] for attr in taken), default=0)
    taken = [attr for attr in taken if attr.shape[-1] == most]
    if len(taken) > 1:  # a grid of 3 rows has the shape of keypoints, but not their number
        grids = {attr.shape[2:] for attr in outputs if len(attr.shape) == 4}
        counts = {id(attr): sum(h * w for h, w in grids - {attr.shape[2:]}) for attr in taken}
        taken = [attr for attr in taken if attr.shape[-1] == counts[id(attr)]]
    if len(taken) != 1 or taken[0].shape[0] != 1:
        raise ValueError(
            f"expected one output of keypoints, [1, k, 3, N] or [1, 3 * k, N], got\n"
            f"{describe(outputs)}"
        )
    return taken[0]


def _warn_when_coarse(points: TensorAttr) -> None:
    scale = quantization_of(points)[1]
    if math.isfinite(representable(points)[1]) and scale > COARSE:
        warnings.warn(
            f"output {points.name!r} quantizes positions and confidences of keypoints with one "
            f"scale, {scale:.4g}: positions are off by up to {scale / 2:.4g} pixels, confidences "
            f"are multiples of {scale:.4g}. Convert the model with this output in float16 "
            "(hybrid quantization), as the vendor's model zoo does",
            UserWarning,
            stacklevel=3,
        )


class SinglePoseDecoder(SingleOutputDecoder):
    """Decode Ultralytics' single output ``[1, 4 + classes + k * d, N]``.

    As `SingleOutputDecoder`, with x, y and (d = 3) confidence of each keypoint behind the
    class scores, in the unit of the boxes. ``keypoints`` of the detections is
    ``(n, k, 3) float32``.

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        keypoint_shape: k and d. None: what is left beside `num_classes`, with d = 3.
        num_classes: Classes. None: one, or what is left beside a `keypoint_shape`.
        **options: See `SingleOutputDecoder`.

    Raises:
        ValueError: The output has not this form; or see `SingleOutputDecoder`.
    """

    def __init__(
        self,
        output: TensorAttr,
        input_size: tuple[int, int],
        *,
        keypoint_shape: tuple[int, int] | None = None,
        num_classes: int | None = None,
        **options: Any,
    ) -> None:
        if keypoint_shape is None:
            (output,) = channels_first((output,))
            channels = channels_and_predictions(output, options.get("transposed"))[0]
            left = channels - 4 - (1 if num_classes is None else num_classes)
            if left % 3:
                raise ValueError(
                    f"output {output.name!r} {list(output.shape)}: {left} channels are no "
                    "keypoints of 3 numbers each; give keypoint_shape=(k, 2) or num_classes="
                )
            keypoint_shape = left // 3, 3
        count, dims = keypoint_shape
        if count < 1 or dims not in (2, 3):
            raise ValueError(
                f"output {output.name!r} {list(output.shape)}: keypoint_shape must be "
                f"(k, 2) or (k, 3), got {keypoint_shape}"
            )
        n_extra = count * dims
        super().__init__(output, input_size, n_extra=n_extra, num_classes=num_classes, **options)
        self.keypoint_shape = count, dims
        self._points = ffi.new("rkr_yolo_grid[]", 1)
        self._add_view(output, self._points[0].view)
        self._points[0].first = self._first_extra

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        found = Decoder._results(self, n, None)
        count, dims = self.keypoint_shape
        values = _gather(self._points, count * dims, self._source[:n]).reshape(n, count, dims)
        if self.normalized:
            values[..., :2] *= self._scale
        return _with_keypoints(found, values, transform)
