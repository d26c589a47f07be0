"""Instance segmentation: YOLOv5-seg, v8-seg, 11-seg. Masks from prototypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.anchors import AnchorDecoder, read_anchors
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import by_scale, fitting, grid_of, without
from rknn_runtime.vision.heads.single import SingleOutputDecoder, read_single
from rknn_runtime.vision.heads.split import SplitDecoder, read_split
from rknn_runtime.vision.heads.views import OutputViews, channels_first, checked_size

if TYPE_CHECKING:
    from rknn_runtime.vision.transform import LetterboxTransform

__all__ = [
    "AnchorSegmentationDecoder",
    "SingleSegmentationDecoder",
    "SplitSegmentationDecoder",
    "read_segmentation_anchors",
    "read_segmentation_single",
    "read_segmentation_split",
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

    def __init__(self, prototypes: OutputViews, grids: Any, input_size: tuple[int, int]) -> None:
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
        xyxy, confidence, class_id = decoder._arrays(n)
        self._place(transform)
        mask = np.zeros((n, self._geometry.height, self._geometry.width), np.bool_)
        status = lib.rkr_yolo_masks(
            self._view,
            self._grids,
            len(self._grids),
            pointer(decoder._source),
            pointer(xyxy),
            n,
            self._geometry,
            pointer(mask),
        )
        check_status(status, "masks")
        return Detections(xyxy, confidence, class_id, mask)

    def _place(self, transform: LetterboxTransform | None) -> None:
        """Say how large the masks are and where they lie on the prototypes."""
        image = resized = self._input_size
        offset = (0, 0)
        if transform is not None:
            image, resized = transform.image_size, transform.resized_size
            offset = transform.offset
        (down, across), geometry = self._per_pixel, self._geometry
        geometry.height, geometry.width = image
        geometry.scale_y, geometry.offset_y = resized[0] / image[0] * down, offset[0] * down
        geometry.scale_x, geometry.offset_x = resized[1] / image[1] * across, offset[1] * across


class _SegmentationDecoder(Decoder):
    """Results with masks."""

    _masks: _Masks

    def _results(self, n: int, transform: LetterboxTransform | None) -> Detections:
        return self._masks.add(self, n, transform)


def _grids(bindings: Sequence[OutputViews], count: int, anchors: int = 1) -> Any:
    """Describe ``[1, anchors * count, h, w]`` outputs, scale after scale, to C."""
    grids = ffi.new("rkr_yolo_grid[]", anchors * len(bindings))
    for i, binding in enumerate(bindings):
        for k in range(anchors):
            grid = grids[anchors * i + k]
            binding.add_grid(grid.view, *grid_of(binding.attr))
            grid.first = count * k
    return grids


class SegmentationForm(NamedTuple):
    """What outputs are in a head with masks."""

    num_classes: int
    #: What the decoder without masks reads, in the model's order.
    boxes: list[TensorAttr]
    #: Per scale, finest first; none where they are channels of the boxes' output.
    coefficients: list[TensorAttr]
    prototypes: TensorAttr
    doubts: int = 0


def read_segmentation_split(
    outputs: Sequence[TensorAttr], input_size: tuple[int, int], *, bins: int | None = None
) -> SegmentationForm | str:
    """Read the form of `SplitSegmentationDecoder`, or say what speaks against it.

    Args:
        outputs: In NCHW, in the model's order.
        input_size: Height and width of the model's input in pixels.
        bins: As in `SplitDecoder`.
    """
    prototypes = _prototypes(outputs)
    if isinstance(prototypes, str):
        return prototypes
    rest = without(outputs, [prototypes])
    scales = by_scale(rest, input_size, (3, 4))
    if isinstance(scales, str):
        return scales
    count, found = prototypes.shape[1], None
    for i in reversed(range(len(scales[0]))):  # coefficients come last, where all else fits
        coefficients = [scale[i] for scale in scales]
        if scales[0][i].shape[1] != count:
            continue
        boxes = without(rest, coefficients)
        form = read_split(boxes, input_size, bins=bins, joined=False)
        if not isinstance(form, str):
            doubts = form.doubts + (i < len(scales[0]) - 1)
            if found is None or doubts < found.doubts:
                found = SegmentationForm(form.num_classes, boxes, coefficients, prototypes, doubts)
    return found or f"expected box, class and {count} mask coefficients as outputs of each scale"


def read_segmentation_anchors(
    outputs: Sequence[TensorAttr], input_size: tuple[int, int], *, per_cell: int = 3
) -> SegmentationForm | str:
    """Read the form of `AnchorSegmentationDecoder`, or say what speaks against it.

    Args:
        outputs: In NCHW, in the model's order.
        input_size: Height and width of the model's input in pixels.
        per_cell: Anchors of each cell.
    """
    prototypes = _prototypes(outputs)
    if isinstance(prototypes, str):
        return prototypes
    rest = without(outputs, [prototypes])
    scales = by_scale(rest, input_size, (2,))
    if isinstance(scales, str):
        return scales
    count = per_cell * prototypes.shape[1]
    for i in reversed(range(len(scales[0]))):
        coefficients = [scale[i] for scale in scales]
        if scales[0][i].shape[1] == count:
            boxes = without(rest, coefficients)
            form = read_anchors(boxes, input_size, per_cell=per_cell)
            if not isinstance(form, str):
                doubts = int(i == 0)
                return SegmentationForm(form.num_classes, boxes, coefficients, prototypes, doubts)
    return f"expected boxes with classes, and {count} mask coefficients, as outputs of each scale"


def read_segmentation_single(
    outputs: Sequence[TensorAttr],
    input_size: tuple[int, int],
    *,
    num_classes: int | None = None,
    transposed: bool | None = None,
    objectness: bool | None = None,
    per_cell: int | None = None,
) -> SegmentationForm | str:
    """Read the form of `SingleSegmentationDecoder`, or say what speaks against it.

    Args:
        outputs: In NCHW, in the model's order.
        input_size: Height and width of the model's input in pixels.
        num_classes: As in `SingleOutputDecoder`.
        transposed: As there.
        objectness: As there.
        per_cell: As in `read_single`.
    """
    planes = [attr for attr in outputs if len(attr.shape) == 4 and min(attr.shape[2:]) > 1]
    if len(outputs) != 2 or len(planes) != 1 or planes[0].shape[0] != 1:
        return "expected two outputs, [1, 4 + classes + p, N] and prototypes [1, p, h, w]"
    head = without(outputs, planes)
    form = read_single(
        head,
        input_size,
        num_classes=num_classes,
        transposed=transposed,
        objectness=objectness,
        n_extra=planes[0].shape[1],
        per_cell=per_cell,
    )
    if isinstance(form, str):
        return form
    return SegmentationForm(form.num_classes, head, [], planes[0], form.doubts)


def _prototypes(outputs: Sequence[TensorAttr]) -> TensorAttr | str:
    """Return the one output whose grid no other has."""
    grids = [attr.shape[2:] if len(attr.shape) == 4 else None for attr in outputs]
    alone = [attr for attr, grid in zip(outputs, grids) if grid and grids.count(grid) == 1]
    return alone[0] if len(alone) == 1 else "expected one output of prototypes, on its own grid"


class SplitSegmentationDecoder(_SegmentationDecoder, SplitDecoder):
    """Decode YOLOv8-seg and 11-seg of the model zoo: 10 or 13 outputs.

    Per scale a box, a class, perhaps a sum output (see `SplitDecoder`) and ``[1, p, h, w]``
    mask coefficients; then ``[1, p, H, W]`` prototypes. ``mask`` of the detections is
    ``(n, height, width) bool``, of the model's input or, with a transform, of the image:
    where the coefficients' sum of prototypes, interpolated bilinearly, is above 0 (its
    sigmoid above 0.5), inside the box. They take height * width bytes per object. (Layout:
    examples/yolov8_seg of the zoo.)

    Args:
        outputs: Logical attributes of the outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        bins: See `SplitDecoder`.
        **options: See `SplitDecoder`.

    Raises:
        ValueError: The outputs have not this form; or see `SplitDecoder`.
    """

    def __init__(
        self,
        outputs: Sequence[TensorAttr],
        input_size: tuple[int, int],
        *,
        bins: int | None = None,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_segmentation_split(outputs, size, bins=bins), outputs)
        extra = (*form.coefficients, form.prototypes)
        super().__init__(form.boxes, input_size, extra=extra, bins=bins, **options)
        bindings = [self._binding(attr) for attr in form.coefficients]
        grids = _grids(bindings, grid_of(form.prototypes)[0])
        self._masks = _Masks(self._binding(form.prototypes), grids, self.input_size)


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
        outputs, per_cell = channels_first(outputs), 3
        if options.get("anchors") is not None:
            per_cell = len(options["anchors"][0])
        size = checked_size(input_size)
        form = fitting(read_segmentation_anchors(outputs, size, per_cell=per_cell), outputs)
        extra = (*form.coefficients, form.prototypes)
        super().__init__(form.boxes, input_size, extra=extra, **options)
        bindings = [self._binding(attr) for attr in form.coefficients]
        grids = _grids(bindings, grid_of(form.prototypes)[0], per_cell)
        self._masks = _Masks(self._binding(form.prototypes), grids, self.input_size)


class SingleSegmentationDecoder(_SegmentationDecoder, SingleOutputDecoder):
    """Decode Ultralytics' two outputs: ``[1, 4 + classes + p, N]`` and ``[1, p, H, W]``.

    The first is that of `SingleOutputDecoder` (for YOLOv5-seg ``[1, N, 5 + classes + p]``), with
    p mask coefficients behind the class scores, the second the prototypes. For ``mask`` see
    `SplitSegmentationDecoder`.

    Args:
        outputs: Logical attributes of the two outputs, in the model's order.
        input_size: Height and width of the model's input in pixels.
        num_classes: See `SingleOutputDecoder`.
        transposed: See there.
        objectness: See there.
        **options: See there.

    Raises:
        ValueError: The outputs have not this form; or see `SingleOutputDecoder`.
    """

    def __init__(
        self,
        outputs: Sequence[TensorAttr],
        input_size: tuple[int, int],
        *,
        num_classes: int | None = None,
        transposed: bool | None = None,
        objectness: bool | None = None,
        **options: Any,
    ) -> None:
        outputs = channels_first(outputs)
        kind: dict[str, Any] = {
            "num_classes": num_classes,
            "transposed": transposed,
            "objectness": objectness,
        }
        form = fitting(read_segmentation_single(outputs, checked_size(input_size), **kind), outputs)
        (head,), prototypes = form.boxes, form.prototypes
        count = grid_of(prototypes)[0]
        super().__init__(head, input_size, n_extra=count, extra=(prototypes,), **kind, **options)
        grids = ffi.new("rkr_yolo_grid[]", 1)
        self._add_view(head, grids[0].view)
        grids[0].first = self._first_extra
        self._masks = _Masks(self._binding(prototypes), grids, self.input_size)
