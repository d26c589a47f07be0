"""YOLOv5 and YOLOv7: boxes relative to anchors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.frame import OutputViews
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    channels_first,
    checked_size,
    fitting,
    looks_like_logits,
    representable,
)

Anchors = Sequence[Sequence[Sequence[float]]]

#: Width and height in pixels, finest scale first; from the models' published configurations.
YOLOV5_ANCHORS: Anchors = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)
YOLOV7_ANCHORS: Anchors = (
    ((12, 16), (19, 36), (40, 28)),
    ((36, 75), (76, 55), (72, 146)),
    ((142, 110), (192, 243), (459, 401)),
)
#: The models with a fourth scale, of stride 64: YOLOv5-P6, and YOLOv7-W6 and larger.
YOLOV5_P6_ANCHORS: Anchors = (
    ((19, 27), (44, 40), (38, 94)),
    ((96, 68), (86, 152), (180, 137)),
    ((140, 301), (303, 264), (238, 542)),
    ((436, 615), (739, 380), (925, 792)),
)


class _Scale(NamedTuple):
    attr: TensorAttr
    channels: int  # per anchor
    height: int
    width: int
    channels_last: bool

    def add_anchor(self, view: Any, binding: OutputViews, k: int) -> int:
        """Describe anchor k; return the channel that its values begin at."""
        cells = self.height * self.width
        if len(self.attr.shape) == 4:
            binding.add_grid(view, self.attr.shape[1], self.height, self.width)
            return k * self.channels
        c2 = self.channels if self.channels_last else 1
        offset = k * cells * self.channels
        binding.add(view, self.channels, self.height, self.width, cells, c2, offset)
        return 0


class AnchorForm(NamedTuple):
    """The outputs of a head with anchors."""

    num_classes: int
    #: Finest first.
    scales: list[_Scale]
    doubts: int = 0


def read_anchors(outputs: Outputs, input_size: Size, *, per_cell: int = 3) -> AnchorForm | str:
    """Read the form of `AnchorDecoder`, of `per_cell` anchors."""
    scales = []
    for attr in outputs:
        scale = _scale_of(attr, input_size, per_cell)
        if isinstance(scale, str):
            return scale
        scales.append(scale)
    if len({scale.channels for scale in scales}) != 1:
        return "expected as many channels per anchor in each output"
    if len({scale[2:4] for scale in scales}) != len(scales):
        return "expected one output for each scale"
    scales.sort(key=lambda scale: -scale.height * scale.width)
    # All values are in 0..1, or all are logits.
    doubts = 1.05 < representable(outputs[0])[1] < math.inf and not any(
        looks_like_logits(attr) for attr in outputs
    )
    return AnchorForm(scales[0].channels - 5, scales, doubts)


def _scale_of(attr: TensorAttr, input_size: Size, n: int) -> _Scale | str:
    shape, forms = attr.shape, []
    if len(shape) == 4 and shape[1] % n == 0:
        forms = [_Scale(attr, shape[1] // n, shape[2], shape[3], False)]
    elif len(shape) == 5 and shape[1] == n:
        forms = [
            _Scale(attr, shape[4], shape[2], shape[3], True),
            _Scale(attr, shape[2], shape[3], shape[4], False),
        ]
    forms = [
        form
        for form in forms
        if form.channels > 5
        and input_size[0] % form.height == 0
        and input_size[1] % form.width == 0
        and input_size[0] * form.width == input_size[1] * form.height
    ]
    if shape[:1] != (1,) or len(forms) != 1:
        problem = "can be read in two ways" if len(forms) == 2 else "has another form"
        return (
            f"expected outputs [1, {n} * (5 + classes), h, w], [1, {n}, h, w, 5 + classes] or "
            f"[1, {n}, 5 + classes, h, w] with a grid of square cells over {input_size[0]} x "
            f"{input_size[1]} pixels; {attr.name!r} {problem}"
        )
    return forms[0]


class AnchorDecoder(Decoder):
    """Decode one output per scale: ``[1, anchors * (5 + classes), h, w]``.

    Also ``[1, anchors, h, w, 5 + classes]`` and ``[1, anchors, 5 + classes, h, w]``. An anchor has
    x, y, width, height, objectness, class scores; confidence is objectness times class score.

    Args:
        outputs: Logical attributes of the outputs, scales in any order.
        input_size: Height and width of the model's input in pixels.
        anchors: ``(scales, anchors, 2)``: width and height in pixels, finest scale first.
            None: those of YOLOv5 for three or four scales (YOLOv7-tiny and -W6 have the same).
        logits: Whether values still need the sigmoid. None: if an integer output can be clearly
            below 0.
        class_scores: False: confidence is objectness alone, and every object is class 0. YOLOv7
            does not train the class score of a model with one class; it stays near 0.5.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        ValueError: The outputs are not of this form, or the anchors do not fit them.
    """

    #: See `SplitDecoder`.
    _read: Any = staticmethod(read_anchors)

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        anchors: Anchors | None = None,
        logits: bool | None = None,
        class_scores: bool = True,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        given = None if anchors is None else _checked_anchors(anchors)
        per_cell = 3 if given is None else given.shape[1]
        form = fitting(self._read(outputs, size, per_cell=per_cell), outputs)
        scales: list[_Scale] = getattr(form, "boxes", form).scales
        self.anchors = _anchors_of(scales, given)
        n = per_cell * sum(scale.height * scale.width for scale in scales)
        super().__init__(outputs, size, n, **options)
        self.num_classes = form.num_classes
        self.logits = looks_like_logits(scales[0].attr) if logits is None else bool(logits)
        grids = self._grids_of(scales)
        for grid in grids:
            grid.between = getattr(form, "between", 0)
        n_scores = self.num_classes if class_scores else 0
        self._decode_with(
            "rkr_yolo_decode_anchors",
            grids=grids,
            n_grids=len(grids),
            n_classes=n_scores,
            sigmoid=self.logits,
        )
        self._add_task(form)

    def _grids_of(self, scales: list[_Scale], first: int = 0) -> Any:
        """Describe each anchor from its channel `first` on."""
        per_cell = self.anchors.shape[1]
        grids = ffi.new("rkr_yolo_grid[]", per_cell * len(scales))
        for i, grid in enumerate(grids):
            scale, k = scales[i // per_cell], i % per_cell
            grid.anchor_width, grid.anchor_height = self.anchors[i // per_cell, k]
            grid.stride_y = self.input_size[0] / scale.height
            grid.stride_x = self.input_size[1] / scale.width
            grid.first = scale.add_anchor(grid.view, self._binding(scale.attr), k) + first
        return grids


def yolov7_decoder(
    outputs: Outputs,
    input_size: Size,
    *,
    anchors: Anchors | None = None,
    class_scores: bool | None = None,
    **options: Any,
) -> AnchorDecoder:
    """Make an `AnchorDecoder` with the defaults of YOLOv7; arguments are the same."""
    if anchors is None and len(outputs) == 3:
        anchors = YOLOV7_ANCHORS
    if class_scores is None:
        form = read_anchors(channels_first(outputs), checked_size(input_size))
        class_scores = isinstance(form, str) or form.num_classes > 1
    return AnchorDecoder(outputs, input_size, anchors=anchors, class_scores=class_scores, **options)


def _checked_anchors(anchors: Anchors) -> Array:
    try:
        array = np.array(anchors, np.float64)
    except ValueError as error:
        raise ValueError(f"anchors: expected (scales, anchors, 2) numbers, got {error}") from None
    if array.ndim != 3 or array.shape[2] != 2 or array.shape[1] == 0:
        raise ValueError(f"anchors: expected shape (scales, anchors, 2), got {array.shape}")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("anchors: expected finite numbers above 0, got others")
    return array


def _anchors_of(scales: list[_Scale], given: Array | None) -> Array:
    known = {3: YOLOV5_ANCHORS, 4: YOLOV5_P6_ANCHORS}
    if given is None:
        if len(scales) not in known:
            raise ValueError(
                f"no default anchors for {len(scales)} scales; give anchors=, or another head="
            )
        return np.array(known[len(scales)], np.float64)
    if len(given) != len(scales):
        raise ValueError(
            f"anchors: expected {len(scales)} scales, one for each output, got {len(given)}"
        )
    return given
