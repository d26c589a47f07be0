"""Instance segmentation: YOLOv5-seg, v8-seg, 11-seg. Masks from prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import check, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.anchors import AnchorDecoder
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import by_scale, grid_of
from rknn_runtime.vision.heads.single import SingleOutputDecoder
from rknn_runtime.vision.heads.split import SplitDecoder
from rknn_runtime.vision.heads.views import OutputBinding, channels_first, describe

if TYPE_CHECKING:
    from rknn_runtime.vision.letterbox import LetterboxTransform

__all__ = [
    "AnchorSegmentationDecoder",
    "SingleSegmentationDecoder",
    "SplitSegmentationDecoder",
]

#: What the native code has room for.
_MOST_PROTOTYPES, _MOST_COLUMNS = 256, 1024


class _Masks:
    """Makes masks for what a decoder found.

    Args:
        prototypes: The bound output ``[1, p, h, w]``.
        grids: C array: where the p coefficients of each prediction lie.
        input_size: Height and width of the model's input.
    """

    def __init__(self, prototypes: OutputBinding, grids: Any, input_size: tuple[int, int]) -> None:
        self.count, height, width = grid_of(prototypes.attr)
        if self.count > _MOST_PROTOTYPES or width > _MOST_COLUMNS:
            raise ValueError(
                f"output {prototypes.attr.name!r} {list(prototypes.attr.shape)}: expected at "
                f"most {_MOST_PROTOTYPES} prototypes of at most {_MOST_COLUMNS} columns"
            )
        self._view = ffi.new("rkr_tensor_view *")
        prototypes.add_grid(self._view, self.count, height, width)
        self._grids = grids
        self._input_size = input_size
        self._per_pixel = (height / input_size[0], width / input_size[1])
        self._geometry = ffi.new("rkr_mask_geometry *")

    def add(self, decoder: Decoder, n: int, transform: LetterboxTransform | None) -> Detections:
        found = Decoder._results(decoder, n, transform)
        self._place(transform)
        mask = np.zeros((n, self._geometry.height, self._geometry.width), np.bool_)
        status = lib.rkr_yolo_masks(
            self._view,
            self._grids,
            len(self._grids),
            pointer(decoder._source),
            pointer(found.xyxy),
            n,
            self._geometry,
            pointer(mask),
        )
        check(status, "masks")
        return Detections(found.xyxy, found.confidence, found.class_id, mask)

    def _place(self, transform: LetterboxTransform | None) -> None:
        """Say how large the masks are and where they lie on the prototypes."""
        picture = resized = self._input_size
        offset = (0, 0)
        if transform is not None:
            picture, resized = transform.image_size, transform.resized_size
            offset = transform.offset
        (down, across), geometry = self._per_pixel, self._geometry
        geometry.height, geometry.width = picture
        geometry.scale_y, geometry.offset_y = resized[0] / picture[0] * down, offset[0] * down
        geometry.scale_x, geometry.offset_x = resized[1] / picture[1] * across, offset[1] * across


class _SegmentationDecoder(Decoder):
    """Results with masks."""

    _masks: _Masks

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, n, transform)


def _grids(bindings: Sequence[OutputBinding], count: int, anchors: int = 1) -> Any:
    """Describe ``[1, anchors * count, h, w]`` outputs, scale after scale, to C."""
    grids = ffi.new("rkr_yolo_grid[]", anchors * len(bindings))
    for i, binding in enumerate(bindings):
        for k in range(anchors):
            grid = grids[anchors * i + k]
            binding.add_grid(grid.view, *grid_of(binding.attr))
            grid.first = count * k
    return grids


def _without_prototypes(outputs: Sequence[TensorAttr]) -> tuple[list[TensorAttr], TensorAttr]:
    """Take out the one output whose grid no other has: the prototypes."""
    outputs = channels_first(outputs)
    grids = [attr.shape[2:] if len(attr.shape) == 4 else None for attr in outputs]
    alone = [attr for attr, grid in zip(outputs, grids) if grid and grids.count(grid) == 1]
    if len(alone) != 1:
        raise ValueError(
            f"expected one output of prototypes, on a grid of its own, got\n{describe(outputs)}"
        )
    return [attr for attr in outputs if attr is not alone[0]], alone[0]


def _coefficients(
    outputs: Sequence[TensorAttr], channels: int
) -> tuple[list[TensorAttr], list[TensorAttr]]:
    """Take out the last output of each scale: the coefficients, finest scale first."""
    scales = by_scale(outputs)
    taken = [scale[-1] for scale in scales]
    if any(len(scale) < 2 or grid_of(scale[-1])[0] != channels for scale in scales):
        raise ValueError(
            f"expected {channels} mask coefficients as the last output of each scale, got\n"
            f"{describe(outputs)}"
        )
    return [attr for attr in outputs if not any(attr is t for t in taken)], taken


class SplitSegmentationDecoder(_SegmentationDecoder, SplitDecoder):
    """Decode YOLOv8-seg and 11-seg of the model zoo: 10 or 13 outputs.

    Per scale a box, a class, perhaps a sum output (see `SplitDecoder`) and ``[1, p, h, w]``
    mask coefficients; then ``[1, p, H, W]`` prototypes. ``mask`` of the detections is
    ``(n, height, width) bool``, of the model's input or, with a transform, of the picture:
    where the coefficients' sum of prototypes, interpolated bilinearly, is above 0 (its
    sigmoid above 0.5), inside the box. They take height * width bytes per object. (Layout:
    examples/yolov8_seg of the zoo.)

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
        rest, prototypes = _without_prototypes(outputs)
        boxes, coefficients = _coefficients(rest, grid_of(prototypes)[0])
        super().__init__(boxes, input_size, extra=(*coefficients, prototypes), **options)
        bindings = [self._binding(attr) for attr in coefficients]
        count = grid_of(prototypes)[0]
        self._masks = _Masks(self._binding(prototypes), _grids(bindings, count), self.input_size)


class AnchorSegmentationDecoder(_SegmentationDecoder, AnchorDecoder):
    """Decode YOLOv5-seg of the model zoo: 7 outputs.

    Per scale ``[1, anchors * (5 + classes), h, w]`` (see `AnchorDecoder`) and
    ``[1, anchors * p, h, w]`` mask coefficients; then ``[1, p, H, W]`` prototypes. For
    ``mask`` see `SplitSegmentationDecoder`. (Layout: examples/yolov5_seg of the zoo.)

    Args:
        outputs: Logical attributes of the outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        **options: See `AnchorDecoder`.

    Raises:
        ValueError: The outputs have not this form; or see `AnchorDecoder`.
    """

    def __init__(
        self, outputs: Sequence[TensorAttr], input_size: tuple[int, int], **options: Any
    ) -> None:
        rest, prototypes = _without_prototypes(outputs)
        count, anchors = grid_of(prototypes)[0], 3
        if options.get("anchors") is not None:
            anchors = len(options["anchors"][0])
        boxes, coefficients = _coefficients(rest, anchors * count)
        super().__init__(boxes, input_size, extra=(*coefficients, prototypes), **options)
        bindings = [self._binding(attr) for attr in coefficients]
        grids = _grids(bindings, count, anchors)
        self._masks = _Masks(self._binding(prototypes), grids, self.input_size)


class SingleSegmentationDecoder(_SegmentationDecoder, SingleOutputDecoder):
    """Decode Ultralytics' two outputs: ``[1, 4 + classes + p, N]`` and ``[1, p, H, W]``.

    The first is that of `SingleOutputDecoder` (for YOLOv5-seg ``[1, N, 5 + classes + p]``), with
    p mask coefficients behind the class scores, the second the prototypes. For ``mask`` see
    `SplitSegmentationDecoder`.

    Args:
        outputs: Logical attributes of the two outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        **options: See `SingleOutputDecoder`.

    Raises:
        ValueError: The outputs have not this form; or see `SingleOutputDecoder`.
    """

    def __init__(
        self, outputs: Sequence[TensorAttr], input_size: tuple[int, int], **options: Any
    ) -> None:
        outputs = channels_first(outputs)
        planes = [attr for attr in outputs if len(attr.shape) == 4 and min(attr.shape[2:]) > 1]
        if len(outputs) != 2 or len(planes) != 1:
            raise ValueError(
                "expected two outputs, [1, 4 + classes + p, N] and prototypes [1, p, h, w], got\n"
                f"{describe(outputs)}"
            )
        prototypes = planes[0]
        head = outputs[0] if prototypes is outputs[1] else outputs[1]
        count = grid_of(prototypes)[0]
        super().__init__(head, input_size, n_extra=count, extra=(prototypes,), **options)
        grids = ffi.new("rkr_yolo_grid[]", 1)
        self._add_view(head, grids[0].view)
        grids[0].first = self._first_extra
        self._masks = _Masks(self._binding(prototypes), grids, self.input_size)
