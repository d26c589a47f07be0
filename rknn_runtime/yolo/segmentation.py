"""Instance segmentation: YOLOv5-seg, v8-seg, 11-seg. Masks from prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import check, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.detections import Detections
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.yolo.anchors import AnchorDecoder
from rknn_runtime.yolo.branches import by_scale, grid_of
from rknn_runtime.yolo.decoder import Decoder
from rknn_runtime.yolo.single import SingleOutputDecoder
from rknn_runtime.yolo.split import SplitDecoder
from rknn_runtime.yolo.tensor_view import OutputBinding, describe

if TYPE_CHECKING:
    from rknn_runtime.yolo.letterbox import LetterboxTransform

__all__ = [
    "AnchorSegmentationDecoder",
    "SingleSegmentationDecoder",
    "SplitSegmentationDecoder",
]


class _Masks:
    """Makes masks for what a decoder found.

    Args:
        prototypes: The bound output ``[1, p, h, w]``.
        grids: C array: where the p coefficients of each prediction lie.
        input_size: Height and width of the model's input.
    """

    def __init__(self, prototypes: OutputBinding, grids: Any, input_size: tuple[int, int]) -> None:
        self.count, height, width = grid_of(prototypes.attr)
        self._view = ffi.new("rkr_tensor_view *")
        prototypes.add_grid(self._view, self.count, height, width)
        self._grids = grids
        self._input_size = input_size
        self._per_pixel = (height / input_size[0], width / input_size[1])
        self._scratch = np.empty((height + 1) * width, np.float32)

    def add(self, decoder: Decoder, n: int, transform: LetterboxTransform | None) -> Detections:
        coefficients = np.empty((n, self.count), np.float32)
        source = decoder._source
        status = lib.rkr_yolo_gather(
            self._grids, len(self._grids), self.count, pointer(source), n, pointer(coefficients)
        )
        check(status, "mask coefficients")
        found = Decoder._results(decoder, n, transform)
        size, (scale_y, offset_y), (scale_x, offset_x) = self._mapping(transform)
        mask = np.zeros((n, *size), np.bool_)
        xyxy = np.ascontiguousarray(found.xyxy)
        status = lib.rkr_yolo_masks(
            self._view,
            pointer(coefficients),
            ffi.cast("float *", pointer(xyxy)),
            n,
            scale_x,
            offset_x,
            scale_y,
            offset_y,
            *size,
            pointer(self._scratch),
            pointer(mask),
        )
        check(status, "masks")
        return Detections(found.xyxy, found.confidence, found.class_id, mask)

    def _mapping(
        self, transform: LetterboxTransform | None
    ) -> tuple[tuple[int, int], tuple[float, float], tuple[float, float]]:
        """Return the masks' size, and scale and offset into the prototypes, down and across."""
        if transform is None:
            return self._input_size, (self._per_pixel[0], 0.0), (self._per_pixel[1], 0.0)
        down, across = (
            (
                transform.resized_size[axis] / transform.image_size[axis] * self._per_pixel[axis],
                transform.offset[axis] * self._per_pixel[axis],
            )
            for axis in (0, 1)
        )
        return transform.image_size, down, across


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


class SplitSegmentationDecoder(SplitDecoder):
    """Decode YOLOv8-seg and 11-seg of the model zoo: 10 or 13 outputs.

    Per scale a box, a class, perhaps a sum output (see `SplitDecoder`) and ``[1, p, h, w]``
    mask coefficients; then ``[1, p, H, W]`` prototypes. ``mask`` of the detections is
    ``(n, height, width) bool``, of the model's input or, with a transform, of the picture:
    where the coefficients' sum of prototypes, interpolated bilinearly, is above 0, inside
    the box.

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

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, n, transform)


class AnchorSegmentationDecoder(AnchorDecoder):
    """Decode YOLOv5-seg of the model zoo: 7 outputs.

    Per scale ``[1, anchors * (5 + classes), h, w]`` (see `AnchorDecoder`) and
    ``[1, anchors * p, h, w]`` mask coefficients; then ``[1, p, H, W]`` prototypes. For
    ``mask`` see `SplitSegmentationDecoder`.

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

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, n, transform)


class SingleSegmentationDecoder(SingleOutputDecoder):
    """Decode Ultralytics' two outputs: ``[1, 4 + classes + p, N]`` and ``[1, p, H, W]``.

    The first is that of `SingleOutputDecoder` with p mask coefficients behind the class
    scores, the second the prototypes. For ``mask`` see `SplitSegmentationDecoder`.

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
        grids[0].first = 4 + self.num_classes
        self._masks = _Masks(self._binding(prototypes), grids, self.input_size)

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, n, transform)
