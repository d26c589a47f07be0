"""Keypoints: YOLOv7-pose, v7-face, v8-pose, 11-pose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.anchors import AnchorDecoder, Anchors, read_anchors
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    beside_boxes,
    by_scale,
    channels_first,
    checked_size,
    fitting,
    grid_of,
    predictions_of,
    quantization_of,
    representable,
    strides_of,
    without,
)
from rknn_runtime.vision.heads.single import COARSE, SingleForm, SingleOutputDecoder, read_single
from rknn_runtime.vision.heads.split import SplitDecoder, SplitForm, read_split
from rknn_runtime.vision.letterbox import LetterboxTransform
from rknn_runtime.vision.plausibility import coarse_keypoints

#: Bins of each distance, if no output of boxes alone shows their number.
_JOINED_BINS = 16
#: Width and height in pixels, finest scale first, of derronqi/yolov7-face.
YOLOV7_FACE_ANCHORS: Anchors = (
    ((4, 5), (6, 8), (10, 12)),
    ((15, 19), (23, 30), (39, 52)),
    ((72, 97), (123, 164), (209, 297)),
)


class PoseForm(NamedTuple):
    """The outputs of a split head, or of one with anchors, with keypoints."""

    num_classes: int
    boxes: Any
    #: Outputs of convolutions per scale, finest first; or one output of all scales, in pixels.
    points: list[TensorAttr]
    raw: bool
    doubts: int
    #: The first channel of the keypoints in their outputs.
    first: int = 0


def read_pose_split(
    outputs: Outputs, input_size: Size, *, bins: int | None = None
) -> PoseForm | str:
    """Read the form of `SplitPoseDecoder`."""
    points = _keypoint_output(outputs)
    if points is not None:
        form = read_split(without(outputs, [points]), input_size, bins=bins)
        if isinstance(form, str):
            return form
        if points.shape[-1] != form.n_cells:
            return f"keypoints of {points.shape[-1]} cells for boxes of {form.n_cells}"
        return PoseForm(form.num_classes, form, [points], False, form.doubts)
    scales = by_scale(outputs, input_size, (3,))
    if isinstance(scales, str):
        return "expected keypoints [1, k, 3, N] or [1, 3 * k, N], or [1, 3 * k, h, w] per scale"
    found = beside_boxes(
        outputs,
        scales,
        lambda attr: attr.shape[1] % 3 == 0,
        lambda left: read_split(left, input_size, bins=bins),
    )
    if found is None:
        return "expected keypoints [1, 3 * k, h, w] beside box and class of each scale"
    boxes, maps, doubts = found
    return PoseForm(boxes.num_classes, boxes, maps, True, doubts)


def read_pose_joined(
    outputs: Outputs, input_size: Size, *, bins: int | None = None
) -> PoseForm | str:
    """Read the form of `JoinedPoseDecoder`, of 16 bins."""
    if bins not in (None, _JOINED_BINS):
        return f"expected {_JOINED_BINS} bins"
    scales = by_scale(outputs, input_size, (1,))
    channels = 4 * _JOINED_BINS + 1
    if isinstance(scales, str) or len(scales) < 2:
        return "expected one output for each of several scales"
    if scales[0][0].shape[1] != channels + 15:
        return f"expected [1, {channels} + 15, h, w] per scale"
    form = SplitForm(1, _JOINED_BINS, scales, 0)
    return PoseForm(1, form, [attr for (attr,) in scales], True, 0, channels)


def read_pose_single(
    outputs: Outputs,
    input_size: Size,
    *,
    num_classes: int | None = None,
    transposed: bool | None = None,
    keypoint_shape: tuple[int, int] | None = None,
    per_cell: int | None = None,
    objectness: bool = False,
) -> SingleForm | str:
    """Read the form of `SinglePoseDecoder`."""
    layout = predictions_of(outputs[0], transposed) if len(outputs) == 1 else "expected one output"
    if isinstance(layout, str):
        return layout
    n_extra = 0 if keypoint_shape is None else math.prod(keypoint_shape)
    if keypoint_shape is None:
        num_classes = 1 if num_classes is None else num_classes
        n_extra = layout.channels - 4 - objectness - num_classes
        if n_extra % 3 or n_extra < 3:
            return (
                f"{n_extra} channels are no keypoints of 3 numbers each; give "
                "keypoint_shape=(k, 2) or num_classes="
            )
    kind: dict[str, Any] = {"num_classes": num_classes, "n_extra": n_extra, "per_cell": per_cell}
    form = read_single(outputs, input_size, transposed=transposed, objectness=objectness, **kind)
    if isinstance(form, str):
        return form
    # 17 keypoints of a person are more usual than classes, five of a face as usual.
    doubts = {15: 0, 51: 0 if objectness else -1}.get(n_extra, 3)
    return "other keypoints" if doubts == per_cell == 3 else form._replace(doubts=doubts)


def _gather(grids: Any, channels: int, source: NDArray[np.uint32]) -> NDArray[np.float32]:
    values = np.empty((len(source), channels), np.float32)
    status = lib.rkr_yolo_gather(
        grids, len(grids), channels, pointer(source), len(source), pointer(values)
    )
    check_status(status, "keypoints")
    return values


def _with_keypoints(
    decoder: Decoder, values: NDArray[np.float32], transform: LetterboxTransform | None
) -> Detections:
    """Return the results with ``(n, k, 2 or 3)`` keypoints; a missing confidence becomes 1."""
    if values.shape[2] == 2:
        values = np.concatenate([values, np.ones((*values.shape[:2], 1), np.float32)], axis=2)
    if transform is not None:
        values = transform.points_to_image(values)
    keypoints = np.ascontiguousarray(values)
    return Detections._of(
        decoder._columns, len(keypoints), keypoints=keypoints, labels=decoder.labels
    )


class SplitPoseDecoder(SplitDecoder):
    """Decode the model zoo's form: one output per scale, and the keypoints of all.

    Per scale ``[1, 4 * bins + classes, h, w]`` (see `SplitDecoder`; separate box and class
    outputs are taken too), then ``[1, k, 3, N]`` or ``[1, 3 * k, N]``: x, y in pixels of the
    input and confidence of each keypoint, for the cells of all scales, finest first.
    ``keypoints`` of the detections is ``(n, k, 3) float32``. (Layout: examples/yolov8_pose in
    the zoo.) If the graph was cut after its last convolutions, the keypoints are
    ``[1, 3 * k, h, w]`` per scale: half of the distance in strides from the cell's corner to x and
    y, and the confidence's logit. With 1 bin (YOLO26) it is the whole distance from the cell's
    centre.

    Arguments and exceptions are as for `SplitDecoder`; pass all outputs of the model.
    """

    _read = staticmethod(read_pose_split)

    def _add_task(self, form: PoseForm) -> None:
        self._n_cells = form.boxes.n_cells
        self._channels, self._planes = form.points[0].shape[1] - form.first, 1
        self._raw: _RawKeypoints | None = None
        self._points = ffi.new("rkr_yolo_grid[]", len(form.points))
        if form.raw:
            factor, centre = (1.0, 0.5) if form.boxes.bins == 1 else (2.0, 0.0)
            grids = [(*attr.shape[2:], *strides_of(attr, self.input_size)) for attr in form.points]
            self._raw = _RawKeypoints(grids, factor, centre)
            for grid, attr in zip(self._points, form.points):
                self._binding(attr).add_grid(grid.view, *grid_of(attr))
                grid.first = form.first
            return
        (points,) = form.points
        if len(points.shape) == 4:
            self._planes = points.shape[2]
            first = np.arange(self._planes) * self._n_cells
            self._steps = first.astype(np.uint32)[:, None]
        self._binding(points).add_grid(
            self._points[0].view, self._channels, self._planes, self._n_cells
        )
        step = quantization_of(points)[1]
        if math.isfinite(representable(points)[1]) and step > COARSE:
            self.symptoms = (coarse_keypoints(points.name, step),)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """Return the results of the last decoding with their keypoints."""
        n = self._out.count
        source = self._source[:n]
        if self._planes == 1:
            values = _gather(self._points, self._channels, source)
            values = values.reshape(n, self._channels // 3, 3)
            if self._raw is not None:
                values = self._raw.worked_out(values, source)
        else:
            cells = (source + self._steps).ravel()
            gathered = _gather(self._points, self._channels, cells)
            values = gathered.reshape(self._planes, n, self._channels).transpose(1, 2, 0)
        return _with_keypoints(self, values, transform)


class JoinedPoseDecoder(SplitPoseDecoder):
    """Decode YOLOv8-face as its project exports it: one output per scale, ``[1, 80, h, w]``.

    64 channels of boxes and one class (see `SplitDecoder`), then x, y and confidence of five
    points as of `SplitPoseDecoder`. ``keypoints`` of the detections is ``(n, 5, 3) float32``.
    (Layout: derronqi/yolov8-face.)

    Arguments and exceptions are as for `SplitDecoder`.
    """

    _read = staticmethod(read_pose_joined)


class _RawKeypoints:
    """Works out keypoints from the outputs of convolutions."""

    def __init__(self, grids: Sequence[Sequence[float]], factor: float, centre: float) -> None:
        """Take height, width and both strides of each grid."""
        self._factor, self._centre = factor, centre
        self._starts = np.zeros(len(grids), np.uint32)
        self._widths = np.array([grid[1] for grid in grids], np.uint32)
        self._starts[1:] = np.cumsum([grid[0] * grid[1] for grid in grids[:-1]])
        # x before y
        self._strides = np.array([grid[:1:-1] for grid in grids], np.float32)

    def worked_out(
        self, values: NDArray[np.float32], source: NDArray[np.uint32]
    ) -> NDArray[np.float32]:
        """Return ``(n, k, 3)`` keypoints of cells in pixels of the model's input."""
        scale = np.searchsorted(self._starts, source, side="right") - 1
        y, x = np.divmod(source - self._starts[scale], self._widths[scale])
        corner = np.stack([x, y], axis=1).astype(np.float32) + np.float32(self._centre)
        # Values of no trained network may be too large; e to a large number is infinity, and
        # 1 / it is 0.
        with np.errstate(over="ignore", invalid="ignore"):
            values[..., :2] *= np.float32(self._factor)
            values[..., :2] += corner[:, None]
            values[..., :2] *= self._strides[scale][:, None]
            values[..., 2] = 1 / (1 + np.exp(-values[..., 2]))
        return values


def read_anchor_pose(outputs: Outputs, input_size: Size, *, per_cell: int = 3) -> PoseForm | str:
    """Read the form of `AnchorPoseDecoder`, of `per_cell` anchors."""
    form = read_anchors(outputs, input_size, per_cell=per_cell)
    if isinstance(form, str):
        return form
    # One class, and 5 or 17 keypoints.
    if form.num_classes not in (16, 52) or representable(outputs[0])[1] < 1.05:
        return "expected 21 or 57 logits of each anchor"
    return PoseForm(1, form, [], True, form.doubts, 6)


class AnchorPoseDecoder(AnchorDecoder):
    """Decode YOLOv7-pose and -face: YOLOv5's boxes of one class, then 17 or 5 keypoints.

    Per scale ``[1, anchors * (6 + 3 * k), h, w]`` before the sigmoid; x of a keypoint is
    ``(2 * v - 0.5 + column) * stride``. (WongKinYiu/yolov7, derronqi/yolov7-face.)

    See `AnchorDecoder`; five points of three scales have the anchors of YOLOv7-face.
    """

    _read = staticmethod(read_anchor_pose)

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        anchors: Anchors | None = None,
        **options: Any,
    ) -> None:
        form = read_anchor_pose(channels_first(outputs), checked_size(input_size))
        if anchors is None and not isinstance(form, str):
            is_face = form.boxes.num_classes == 16 and len(outputs) == 3
            anchors = YOLOV7_FACE_ANCHORS if is_face else None
        super().__init__(outputs, input_size, anchors=anchors, **{"logits": True, **options})

    def _add_task(self, form: PoseForm) -> None:
        self._channels = form.boxes.num_classes - 1
        self._points = self._grids_of(form.boxes.scales, form.first)
        sizes = [(scale.height, scale.width) for scale in form.boxes.scales]
        cells = np.repeat(sizes, self.anchors.shape[1], axis=0).tolist()
        strides = [(grid.stride_y, grid.stride_x) for grid in self._points]
        self._raw = _RawKeypoints([(*a, *b) for a, b in zip(cells, strides)], 2.0, -0.5)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """See `SplitPoseDecoder`."""
        source = self._source[: self._out.count]
        k = self._channels // 3
        values = _gather(self._points, self._channels, source).reshape(len(source), k, 3)
        return _with_keypoints(self, self._raw.worked_out(values, source), transform)


def _keypoint_output(outputs: Outputs) -> TensorAttr | None:
    """Return the output ``[1, k, 2 or 3, N]`` or ``[1, 3 * k, N]``, if there is one."""
    taken = [
        attr
        for attr in outputs
        if (len(attr.shape) == 4 and attr.shape[2] in (2, 3) and attr.shape[3] > attr.shape[2])
        or (len(attr.shape) == 3 and attr.shape[1] % 3 == 0)
    ]
    # A coarse grid can have 3 rows too, but fewer columns than there are cells.
    most = max((attr.shape[-1] for attr in taken), default=0)
    taken = [attr for attr in taken if attr.shape[-1] == most]
    if len(taken) > 1:  # a grid of 3 rows has the shape of keypoints, but another number
        grids = {attr.shape[2:] for attr in outputs if len(attr.shape) == 4}
        counts = {id(attr): sum(h * w for h, w in grids - {attr.shape[2:]}) for attr in taken}
        taken = [attr for attr in taken if attr.shape[-1] == counts[id(attr)]]
    return taken[0] if len(taken) == 1 and taken[0].shape[0] == 1 else None


class SinglePoseDecoder(SingleOutputDecoder):
    """Decode Ultralytics' single output ``[1, 4 + classes + k * d, N]``.

    As `SingleOutputDecoder`, with x, y and (d = 3) confidence of each keypoint after the class
    scores, in the unit of the boxes. ``keypoints`` of the detections is ``(n, k, 3) float32``.

    Args:
        output: See `SingleOutputDecoder`.
        input_size: See `SingleOutputDecoder`.
        keypoint_shape: k and d. None: all channels after the class scores, with d = 3.
        objectness: Whether class scores follow an objectness, as in YOLOv7.
        num_classes: Classes. None: one, or all channels before those of `keypoint_shape`.
        transposed: See `SingleOutputDecoder`.
        **options: `normalized` of `SingleOutputDecoder`; thresholds and limits, see `Decoder`.
    """

    def __init__(
        self,
        output: TensorAttr,
        input_size: Size,
        *,
        keypoint_shape: tuple[int, int] | None = None,
        objectness: bool = False,
        num_classes: int | None = None,
        transposed: bool | None = None,
        **options: Any,
    ) -> None:
        outputs, size = channels_first((output,)), checked_size(input_size)
        if keypoint_shape is not None:
            count, dims = keypoint_shape
            if count < 1 or dims not in (2, 3):
                raise ValueError(f"keypoint_shape: expected (k, 2) or (k, 3), got {keypoint_shape}")
        kind: dict[str, Any] = {"num_classes": num_classes, "transposed": transposed}
        kind["objectness"] = objectness
        read = read_pose_single(outputs, size, keypoint_shape=keypoint_shape, **kind)
        form = fitting(read, outputs)
        if keypoint_shape is None:
            keypoint_shape = (form.layout.channels - 4 - objectness - form.num_classes) // 3, 3
        self.keypoint_shape = keypoint_shape
        n_extra = math.prod(keypoint_shape)
        super().__init__(output, size, n_extra=n_extra, **kind, **options)
        self._points = ffi.new("rkr_yolo_grid[]", 1)
        self._add_view(self.outputs[0], self._points[0].view)
        self._points[0].first = self._first_extra

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """Return the results of the last decoding with their keypoints."""
        (count, dims), n = self.keypoint_shape, self._out.count
        values = _gather(self._points, count * dims, self._source[:n]).reshape(n, count, dims)
        if self.normalized:
            values[..., :2] *= self._scale
        return _with_keypoints(self, values, transform)
