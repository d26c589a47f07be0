"""Oriented boxes: YOLOv8-obb, 11-obb."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    by_scale,
    grid_of,
    looks_like_logits,
    reaches_below_zero,
    without,
)
from rknn_runtime.vision.heads.single import SingleForm, SingleOutputDecoder, read_single
from rknn_runtime.vision.heads.split import SplitDecoder, SplitForm, read_split
from rknn_runtime.vision.letterbox import LetterboxTransform


class OrientedForm(NamedTuple):
    """The outputs of a split head with angles."""

    num_classes: int
    boxes: SplitForm
    #: Per scale, finest first; or the one of all scales.
    angles: list[TensorAttr]
    doubts: int


def read_oriented_split(
    outputs: Outputs, input_size: Size, *, bins: int | None = None
) -> OrientedForm | str:
    """Read the form of `SplitOrientedDecoder`."""
    angles = [attr for attr in outputs if _is_row(attr)]
    doubts = 0
    if not angles:
        scales = by_scale(outputs, input_size, (3,))
        if isinstance(scales, str):
            return "expected one output of angles, [1, 1, N], or [1, 1, h, w] per scale"
        # Scores of one class come before angles; an output without negative values looks like the
        # sum of class scores.
        places = [i for i, attr in enumerate(scales[0]) if attr.shape[1] == 1]
        if not places:
            return "expected angles [1, 1, h, w] as one of three outputs per scale"
        angles = [scale[places[-1]] for scale in scales]
        is_sum = not reaches_below_zero(angles[0])
        doubts = (places[-1] < 2) + 3 * (
            is_sum and not any(map(looks_like_logits, without(scales[0], angles)))
        )
    elif len(angles) != 1:
        return "expected one output of angles, [1, 1, N]"
    form = read_split(without(outputs, angles), input_size, bins=bins)
    if isinstance(form, str):
        return form
    n = sum(max(attr.shape) if _is_row(attr) else attr.shape[2] * attr.shape[3] for attr in angles)
    if n != form.n_cells:
        return f"angles of {n} cells for boxes of {form.n_cells}"
    return OrientedForm(form.num_classes, form, angles, doubts + form.doubts)


def _is_row(attr: TensorAttr) -> bool:
    """Whether an output is one row of numbers."""
    shape = attr.shape
    return len(shape) in (3, 4) and shape[:2] == (1, 1) and sorted(shape)[-2] == 1


def read_oriented_single(
    outputs: Outputs, input_size: Size, *, per_cell: int | None = None
) -> SingleForm | str:
    """Read the form of `SingleOrientedDecoder`."""
    form = read_single(outputs, input_size, objectness=False, n_extra=1, per_cell=per_cell)
    if isinstance(form, str) or form.num_classes == 15:  # DOTA
        return form
    # COCO has upright boxes.
    return form._replace(doubts=form.doubts + (4 if form.num_classes == 80 else 1))


class _OrientedDecoder(Decoder):
    def _allocate_results(self, n: int) -> None:
        super()._allocate_results(n)
        self._corners = np.empty((n, 4, 2), np.float32)
        self._out.corners = pointer(self._corners)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        n = self._out.count
        corners = self._corners[:n].copy()
        if transform is not None:
            corners = transform.points_to_image(corners)
        return Detections._of(self._columns, n, xyxyxyxy=corners, labels=self.labels)


class SplitOrientedDecoder(_OrientedDecoder, SplitDecoder):
    """Decode the model zoo's form: one output per scale, and the angles of all.

    Per scale ``[1, 4 * bins + classes, h, w]`` (see `SplitDecoder`; separate box and class
    outputs are taken too), then ``[1, 1, N]`` (or ``[1, 1, 1, N]``, ``[1, 1, N, 1]``): for the
    cells of all scales, finest first, v after the sigmoid; the angle is ``(v - 0.25) * pi``,
    from the x axis towards the y axis. ``xyxyxyxy`` of the detections is ``(n, 4, 2)
    float32``, the corners in order; ``xyxy`` is their upright hull. (Layout: examples/yolov8_obb
    in the zoo.) If the graph was cut after its last convolutions, the angles are ``[1, 1, h, w]``
    per scale, before the sigmoid; with 1 bin (YOLO26) they are radians. This is known from an
    integer output that reaches below 0, or class scores that need the sigmoid, too.

    Suppression uses the exact IoU of two rectangles, as in the zoo, so that `iou_threshold` means
    the same as for upright boxes. Thresholds of Ultralytics do not carry over: it compares
    Gaussians (ProbIoU, arXiv 2106.06072), which overlap even if the rectangles do not.

    Arguments and exceptions are as for `SplitDecoder`; pass all outputs of the model.
    """

    _read = staticmethod(read_oriented_split)

    def _add_task(self, form: OrientedForm) -> None:
        angles = form.angles
        self._angles = ffi.new("rkr_yolo_grid[]", len(angles))
        for grid, attr in zip(self._angles, angles):
            is_row = _is_row(attr)
            shape = (1, 1, max(attr.shape)) if is_row else grid_of(attr)
            self._binding(attr).add_grid(grid.view, *shape)
        kind = lib.RKR_ANGLE_SIGMOID
        if reaches_below_zero(angles[0]) or (self.logits and not _is_row(angles[0])):
            kind = lib.RKR_ANGLE_RADIANS if self.bins == 1 else lib.RKR_ANGLE_LOGIT
        self._decode_with(
            "rkr_yolo_decode_split_oriented",
            **self._head,
            grids=self._angles,
            n_grids=len(angles),
            angle_kind=kind,
        )


class SingleOrientedDecoder(_OrientedDecoder, SingleOutputDecoder):
    """Decode Ultralytics' single output ``[1, 4 + classes + 1, N]``.

    As `SingleOutputDecoder`, with the angle in radians after the class scores. For the results see
    `SplitOrientedDecoder`.
    """

    def __init__(self, output: TensorAttr, input_size: Size, **options: Any) -> None:
        super().__init__(output, input_size, objectness=False, n_extra=1, **options)
        self._decode_with("rkr_yolo_decode_single_oriented", **self._head)
