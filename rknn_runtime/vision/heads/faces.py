"""Faces with five points: RetinaFace, SCRFD, YuNet, YOLOv5-face."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.anchors import AnchorDecoder, AnchorForm, Anchors, read_anchors
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    any_below_zero,
    beside_boxes,
    by_scale,
    channels_first,
    checked_size,
    fitting,
    looks_like_logits,
)
from rknn_runtime.vision.heads.parts import Part, parts_by_scale, parts_of_all
from rknn_runtime.vision.heads.priors import PriorDecoder, place_anchor
from rknn_runtime.vision.heads.single import SingleForm, SingleOutputDecoder, read_single
from rknn_runtime.vision.letterbox import LetterboxTransform

#: Names of the heads here.
FACES = ("retinaface", "scrfd", "yunet", "yolov5-face")
#: Eyes, nose, corners of the mouth; the person's right ones, which are on the left, first.
POINTS = 5
#: Sides of the square prior boxes in pixels, finest scale first: of RetinaFace, then of RFB and
#: slim of Face-Detector-1MB-with-landmark.
RETINAFACE_PRIORS = ((16, 32), (64, 128), (256, 512))
#: Width and height in pixels, finest scale first, of deepcam-cn/yolov5-face.
YOLOV5_FACE_ANCHORS: Anchors = (
    ((4, 5), (8, 10), (13, 16)),
    ((23, 29), (43, 55), (73, 105)),
    ((146, 217), (231, 300), (335, 433)),
)
FACE_1MB_PRIORS = ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256))


class FaceForm(NamedTuple):
    """The outputs of a head for faces."""

    #: Per scale, finest first: the parts in the order that the reader names.
    scales: list[list[Part]]
    num_classes: int = 1
    doubts: int = 0

    @property
    def n_predictions(self) -> int:
        """Predictions of all scales."""
        return sum(part.height * part.width * part.per_cell for part, *_ in self.scales)


def read_retinaface(outputs: Outputs, input_size: Size) -> FaceForm | str:
    """Read the form of `RetinaFaceDecoder`: boxes, scores, points."""
    channels = 4, 2, 2 * POINTS
    for priors in (RETINAFACE_PRIORS, FACE_1MB_PRIORS):
        per_cell = [len(sizes) for sizes in priors]
        scales = parts_of_all(outputs, input_size, channels, per_cell)
        if isinstance(scales, str):
            scales = _uneven_grids(outputs, input_size, channels, per_cell)
        if not isinstance(scales, str):
            return FaceForm(scales)
    return (
        "expected boxes [1, N, 4], scores [1, N, 2] and points [1, N, 10] of 2 predictions a cell, "
        "or [1, 8, h, w], [1, 4, h, w] and [1, 20, h, w] per scale"
    )


def _uneven_grids(
    outputs: Outputs, input_size: Size, channels: Sequence[int], per_cell: Sequence[int]
) -> list[list[Part]] | str:
    """Read grids with another number of predictions in each scale."""
    shapes = sorted({attr.shape[2:] for attr in outputs}, key=lambda grid: -math.prod(grid))
    if len(shapes) != len(per_cell) or any(len(attr.shape) != 4 for attr in outputs):
        return "expected grids of these scales"
    scales: list[list[Part]] = []
    for shape, each, stride in zip(shapes, per_cell, (8, 16, 32, 64)):
        group = [attr for attr in outputs if attr.shape[2:] == shape]
        found = parts_by_scale(group, input_size, channels, at_least=1)
        if isinstance(found, str) or found[0][0].per_cell != each or found[0][0].stride != stride:
            return "expected grids of these scales"
        scales += found
    return scales


def read_scrfd(outputs: Outputs, input_size: Size, *, points: bool | None = None) -> FaceForm | str:
    """Read the form of `ScrfdDecoder`: scores, boxes, perhaps points."""
    for has_points in (True, False) if points is None else (points,):
        channels = (1, 4, 2 * POINTS) if has_points else (1, 4)
        scales = parts_by_scale(outputs, input_size, channels)
        if isinstance(scales, str):
            continue
        part = scales[0][0]
        # Grids of one prediction a cell without points are YOLOv6's, too.
        is_usual = has_points or part.per_cell == 2 or part.first_row is not None
        return FaceForm(scales, doubts=0 if is_usual else 4)
    return (
        "expected per scale scores [1, N, 1], boxes [1, N, 4] and perhaps points [1, N, 10], or "
        "[1, 2, h, w], [1, 8, h, w] and [1, 20, h, w]"
    )


def read_yunet(outputs: Outputs, input_size: Size) -> FaceForm | str:
    """Read the form of `YunetDecoder`: class scores, objectness, boxes, points."""
    scales = parts_by_scale(outputs, input_size, (1, 1, 4, 2 * POINTS))
    if isinstance(scales, str):
        return scales
    if scales[0][0].per_cell != 1:
        return "expected one prediction of each cell"
    return FaceForm(scales)


class AnchorFaceForm(NamedTuple):
    """The outputs of YOLOv5-face."""

    boxes: AnchorForm
    #: Per scale, finest first; none if they are channels between objectness and class.
    points: list[TensorAttr]
    num_classes: int = 1
    doubts: int = 0

    @property
    def between(self) -> int:
        """Channels between objectness and class."""
        return 0 if self.points else 2 * POINTS


def read_anchor_faces(
    outputs: Outputs, input_size: Size, *, per_cell: int = 3, whole: bool | None = None
) -> AnchorFaceForm | str:
    """Read the form of `AnchorFaceDecoder`, of `per_cell` anchors.

    `whole`: whether a scale has one output or two; None: either.
    """
    if whole is not False:
        form = read_anchors(outputs, input_size, per_cell=per_cell)
        has_scales = len({attr.shape[2:] for attr in outputs}) > 1
        if (
            not isinstance(form, str)
            and form.num_classes == 2 * POINTS + 1
            and all(attr.affine is None or looks_like_logits(attr) for attr in outputs)
            and has_scales
        ):
            return AnchorFaceForm(form, [])
        if whole:
            return f"expected [1, {16 * per_cell}, h, w] per scale, before the sigmoid"
    scales = by_scale(outputs, input_size, (2,))
    if isinstance(scales, str):
        return scales
    found = beside_boxes(
        outputs,
        scales,
        lambda attr: attr.shape[1] == per_cell * 2 * POINTS,
        lambda left: read_anchors(left, input_size, per_cell=per_cell),
    )
    if found is None or found.boxes.num_classes != 1:
        return f"expected boxes [1, {6 * per_cell}, h, w] and points [1, {10 * per_cell}, h, w]"
    return AnchorFaceForm(found.boxes, found.others, doubts=found.doubts)


def read_single_faces(outputs: Outputs, input_size: Size) -> SingleForm | str:
    """Read the form of `SingleFaceDecoder`."""
    form = read_single(outputs, input_size, objectness=True, n_extra=2 * POINTS, per_cell=3)
    return form if isinstance(form, str) or form.num_classes == 1 else "expected [1, N, 16]"


class _FaceDecoder(Decoder):
    num_classes = 1
    _points: Any = None

    def _add_points(self, parts: Sequence[Part], place: Any) -> None:
        """Describe the points of the parts of each scale, finest first; see `Place`."""
        grids = ffi.new("rkr_yolo_grid[]", sum(part.per_cell for part in parts))
        each = iter(grids)
        for i, part in enumerate(parts):
            for k in range(part.per_cell):
                grid = next(each)
                part.describe(grid.view, self._binding(part.attr))
                grid.first = k * part.channels
                place_anchor(grid, part, *place(i, k))
        self._points = grids

    def results(self, transform: LetterboxTransform | None) -> Detections:
        n = self._out.count
        if self._points is None:
            return super().results(transform)
        points = np.empty((n, POINTS, 3), np.float32)
        status = lib.rkr_yolo_points(
            self._points,
            len(self._points),
            POINTS,
            pointer(self._source),
            n,
            ffi.NULL if transform is None else transform._placement,
            pointer(points),
        )
        check_status(status, "points")
        return Detections._of(self._columns, n, keypoints=points, labels=self.labels)


class RetinaFaceDecoder(_FaceDecoder, PriorDecoder):
    """Decode RetinaFace: boxes, scores of background and face, and points, relative to priors.

    ``[1, N, 4]``, ``[1, N, 2]`` and ``[1, N, 10]`` with scores after the softmax, as the model
    zoo's export has them, or per scale ``[1, 8, h, w]``, ``[1, 4, h, w]`` and ``[1, 20, h, w]``
    before it. With 3, 2, 2 and 3 predictions a cell it is RFB or slim of
    Face-Detector-1MB-with-landmark. ``keypoints`` of the detections is ``(n, 5, 3) float32``: eyes,
    nose, corners of the mouth, each with confidence 1, as the head gives none. (Formulas:
    arXiv 1905.00641; priors of biubug6/Pytorch_Retinaface.)

    Args:
        outputs: Logical attributes of the outputs, in any order.
        input_size: Height and width of the model's input in pixels.
        priors: Sides of the square prior boxes in pixels, finest scale first. None: those of
            RetinaFace or its relatives, by the number of predictions.
        logits: Whether scores still need the softmax. None: if they are grids, or if an integer
            output of scores holds negative numbers.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        ValueError: The outputs are not of this form, or the priors do not fit them.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        priors: Sequence[Sequence[float]] | None = None,
        logits: bool | None = None,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_retinaface(outputs, size), outputs)
        super().__init__(outputs, size, form.n_predictions, **options)
        per_cell = tuple(part.per_cell for part, *_ in form.scales)
        if priors is None:
            known = (RETINAFACE_PRIORS, FACE_1MB_PRIORS)
            priors = next(each for each in known if tuple(map(len, each)) == per_cell)
        if tuple(map(len, priors)) != per_cell:
            raise ValueError(
                f"priors: expected {', '.join(map(str, per_cell))} sizes, finest scale first, "
                f"got {priors}"
            )
        sides = self.priors = tuple(tuple(float(side) for side in each) for each in priors)
        score = form.scales[0][1]
        if logits is None:
            logits = score.first_row is None or any_below_zero([score.attr])
        self.logits = bool(logits)
        self._add_priors(
            [(box, scores, None) for box, scores, _ in form.scales],
            lambda i, k: (sides[i][k], sides[i][k], 0.5),
            (0.1, 0.2),
            lib.RKR_SCORE_SOFTMAX if self.logits else lib.RKR_SCORE_READY,
        )
        self._add_points(
            [points for *_, points in form.scales],
            lambda i, k: (0.1 * sides[i][k], 0.1 * sides[i][k], 0.5),
        )


class YunetDecoder(_FaceDecoder, PriorDecoder):
    """Decode YuNet: per scale class score, objectness, box and points of each cell.

    ``[1, h * w, n]`` or ``[1, n, h, w]`` with n = 1, 1, 4 and 10. The confidence is the square root
    of class score times objectness. For ``keypoints`` see `RetinaFaceDecoder`. (Formulas:
    ShiqiYu/libfacedetection.train, and OpenCV's FaceDetectorYN.)

    Args:
        outputs: Logical attributes of the outputs; scales in any order.
        input_size: Height and width of the model's input in pixels.
        logits: Whether scores still need the sigmoid. None: if an integer output of scores holds
            negative numbers.
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
        form = fitting(read_yunet(outputs, size), outputs)
        super().__init__(outputs, size, form.n_predictions, **options)
        if logits is None:
            logits = any_below_zero(part.attr for scale in form.scales for part in scale[:2])
        self.logits = bool(logits)
        strides = [part.stride for part, *_ in form.scales]
        place = partial(_on_corner, strides)
        self._add_priors(
            [(box, score, objectness) for score, objectness, box, _ in form.scales],
            place,
            (1.0, 1.0),
            lib.RKR_SCORE_SIGMOID if self.logits else lib.RKR_SCORE_READY,
        )
        self._add_points([points for *_, points in form.scales], place)


def _on_corner(strides: Sequence[int], i: int, _: int) -> tuple[float, float, float]:
    """Place an anchor of the size of a cell on its upper left corner."""
    return strides[i], strides[i], 0.0


class ScrfdDecoder(_FaceDecoder):
    """Decode SCRFD: per scale scores, distances to the sides of the box, and perhaps points.

    ``[1, h * w * p, n]``, ``[h * w * p, n]`` or ``[1, p * n, h, w]`` with n = 1, 4 and 10, for
    p = 2 predictions a cell, both at its upper left corner. Distances and points are in strides.
    For ``keypoints`` see `RetinaFaceDecoder`; without points it is None. (Formulas:
    deepinsight/insightface, arXiv 2105.04714.)

    Args:
        outputs: Logical attributes of the outputs; scales in any order.
        input_size: Height and width of the model's input in pixels.
        logits: Whether scores still need the sigmoid. None: if an integer output of scores holds
            negative numbers.
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
        form = fitting(read_scrfd(outputs, size), outputs)
        super().__init__(outputs, size, form.n_predictions, **options)
        if logits is None:
            logits = any_below_zero(scores.attr for scores, *_ in form.scales)
        self.logits = bool(logits)
        per_cell = form.scales[0][0].per_cell
        branches = ffi.new("rkr_yolo_branch[]", per_cell * len(form.scales))
        for i, branch in enumerate(branches):
            score, box = form.scales[i // per_cell][:2]
            branch.box_first, branch.score_first = 4 * (i % per_cell), i % per_cell
            branch.stride_x = branch.stride_y = box.stride
            box.describe(branch.box, self._binding(box.attr))
            score.describe(branch.score, self._binding(score.attr))
        self._decode_with(
            "rkr_yolo_decode_split",
            branches=branches,
            n_branches=len(branches),
            n_classes=1,
            n_bins=1,
            sigmoid=self.logits,
        )
        if len(form.scales[0]) == 3:
            strides = [part.stride for part, *_ in form.scales]
            self._add_points([scale[2] for scale in form.scales], partial(_on_corner, strides))


class AnchorFaceDecoder(_FaceDecoder, AnchorDecoder):
    """Decode YOLOv5-face: boxes as of YOLOv5, and points.

    Per scale ``[1, anchors * 6, h, w]`` (see `AnchorDecoder`, of one class) and
    ``[1, anchors * 10, h, w]``, as a cut leaves it; or both in one, with the points before the
    class, ``[1, anchors * 16, h, w]`` before the sigmoid. Points are in sizes of the anchor from
    the upper left corner of the cell. For ``keypoints`` see
    `RetinaFaceDecoder`. (Formulas and anchors: deepcam-cn/yolov5-face.)

    Arguments and exceptions are as for `AnchorDecoder`; `anchors` defaults to YOLOv5-face's.
    """

    _read = staticmethod(read_anchor_faces)

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        anchors: Anchors | None = None,
        **options: Any,
    ) -> None:
        anchors = YOLOV5_FACE_ANCHORS if anchors is None else anchors
        if len(outputs) == len(anchors):
            options.setdefault("logits", True)
        super().__init__(outputs, input_size, anchors=anchors, **options)

    def _add_task(self, form: AnchorFaceForm) -> None:
        scales = form.boxes.scales
        if form.points:
            parts = zip(scales, form.points)
            scales = [scale._replace(attr=attr, channels=2 * POINTS) for scale, attr in parts]
        self._points = self._grids_of(scales, 0 if form.points else 5)


class SingleFaceDecoder(_FaceDecoder, SingleOutputDecoder):
    """Decode YOLOv5-face's own export: one output ``[1, N, 16]``, all worked out.

    Box and objectness (see `SingleOutputDecoder`), x and y of five points in the unit of the boxes,
    the class score. For ``keypoints`` see `RetinaFaceDecoder`. (Layout: deepcam-cn/yolov5-face.)

    Args:
        output: Logical attribute of the output.
        input_size: Height and width of the model's input in pixels.
        **options: `normalized` of `SingleOutputDecoder`; thresholds and limits, see `Decoder`.
    """

    _between = 2 * POINTS

    def __init__(self, output: TensorAttr, input_size: Size, **options: Any) -> None:
        outputs = channels_first((output,))
        fitting(read_single_faces(outputs, checked_size(input_size)), outputs)
        kind: dict[str, Any] = {"num_classes": 1, "n_extra": self._between, "objectness": True}
        super().__init__(outputs[0], input_size, **{**kind, **options})
        self._points = ffi.new("rkr_yolo_grid[]", 1)
        self._points[0].first = 5
        self._points[0].anchor_width, self._points[0].anchor_height = self._scale
        self._add_view(self.outputs[0], self._points[0].view)
