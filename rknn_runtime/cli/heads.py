"""Guesses from shapes alone which detection head a model has, to tell a reader."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr

__all__ = ["Head", "guess_head"]

STRIDES = ((8, 16, 32), (8, 16, 32, 64))
#: Channels of a box: four sides, or a distribution of 16 (YOLOv8) or 17 bins (PP-YOLOE) each.
BOXES = {
    4: "YOLOv6 split head",
    64: "YOLOv8 split head (also YOLOv9, v10, 11, 12)",
    68: "PP-YOLOE split head",
}


@dataclass(frozen=True)
class Head:
    """What a model's outputs look like."""

    #: Family and form, for people.
    name: str
    #: None: the shapes do not say.
    classes: int | None
    #: Input pixels per cell of each scale; empty where the form does not have them.
    strides: tuple[int, ...] = ()
    #: Boxes (not 0..1) and scores are channels of one tensor and share its scale.
    shares_scale: bool = False

    def __str__(self) -> str:
        parts = [self.name]
        if self.classes is not None:
            parts.append(f"{self.classes} {'class' if self.classes == 1 else 'classes'}")
        if self.strides:
            parts.append(f"strides {'/'.join(map(str, self.strides))}")
        return ", ".join(parts)


def guess_head(inputs: Sequence[TensorAttr], outputs: Sequence[TensorAttr]) -> Head | None:
    """Guess the head from the number and the shapes of inputs and outputs.

    Args:
        inputs: Logical attributes.
        outputs: Logical attributes.

    Returns:
        The head, or None when nothing known looks like that.
    """
    shapes = [attr.shape for attr in outputs]
    if len(shapes) == 1 and (len(shapes[0]) == 2 or shapes[0][2:] == (1, 1)):
        return Head("classifier", shapes[0][1]) if shapes[0][1] > 1 else None
    size = _image_size(inputs)
    if size is None:
        return None
    if len(shapes) == 1:
        return _single(shapes[0], size)
    return _anchored(shapes, size) or _branched(shapes, size)


def _image_size(inputs: Sequence[TensorAttr]) -> tuple[int, int] | None:
    """Height and width of the image input; None when there is no single one."""
    if len(inputs) != 1 or len(inputs[0].shape) != 4:
        return None
    shape = inputs[0].shape
    return (shape[1], shape[2]) if inputs[0].layout is Layout.NHWC else (shape[2], shape[3])


def _cells(size: tuple[int, int], strides: tuple[int, ...]) -> int:
    return sum((size[0] // stride) * (size[1] // stride) for stride in strides)


def _single(shape: tuple[int, ...], size: tuple[int, int]) -> Head | None:
    """One output ``[1, channels, N]`` or ``[1, N, channels]``, maybe with a dimension of 1."""
    if len(shape) == 4 and shape[3] == 1:
        shape = shape[:3]
    if len(shape) == 4 and shape[2] == 1:
        shape = (*shape[:2], shape[3])
    if len(shape) != 3:
        return None
    rows, columns = shape[1:]
    if columns == 6 and rows <= 1000:
        return Head("end-to-end head (YOLOv10, YOLO26)", None, shares_scale=True)
    for strides in STRIDES:
        cells = _cells(size, strides)
        if columns == cells and rows > 4:
            return Head("YOLOv8 single output (also YOLOv9, 11, 12)", rows - 4, strides, True)
        if rows == cells and columns > 5:
            return Head("YOLOX single output", columns - 5, strides, True)
        if rows == 3 * cells and columns > 5:
            return Head("YOLOv5 single output (also YOLOv7)", columns - 5, strides, True)
    return None


def _anchored(shapes: list[tuple[int, ...]], size: tuple[int, int]) -> Head | None:
    """One output per stride: three anchors of ``5 + classes``, or one of YOLOX."""
    flat = [_without_anchors(shape, size) for shape in shapes]
    if any(len(shape) != 4 for shape in flat):
        return None
    strides = _strides(flat, size)
    channels = flat[0][1]
    if strides is None or any(shape[1] != channels for shape in flat):
        return None
    if channels % 3 == 0 and channels // 3 > 5:
        return Head("YOLOv5 head with anchors (also YOLOv7)", channels // 3 - 5, strides)
    if channels > 5:
        return Head("YOLOX head", channels - 5, strides, True)
    return None


def _without_anchors(shape: tuple[int, ...], size: tuple[int, int]) -> tuple[int, ...]:
    """Merge the anchors of ``[1, 3, H, W, C]`` or ``[1, 3, C, H, W]`` into the channels."""
    if len(shape) != 5 or shape[1] != 3:
        return shape
    if _strides([(1, 0, *shape[2:4])], size, partial=True):
        return shape[0], 3 * shape[4], *shape[2:4]
    return shape[0], 3 * shape[2], *shape[3:5]


def _branched(shapes: list[tuple[int, ...]], size: tuple[int, int]) -> Head | None:
    """Per stride a box, the class scores and, in some exports, the sum of the scores."""
    for strides in STRIDES:
        per_branch, rest = divmod(len(shapes), len(strides))
        if rest or per_branch not in (2, 3) or any(len(shape) != 4 for shape in shapes):
            continue
        branches = [shapes[i : i + per_branch] for i in range(0, len(shapes), per_branch)]
        channels = [shape[1] for shape in branches[0]]
        same = all(
            len({shape[2:] for shape in branch}) == 1 and [s[1] for s in branch] == channels
            for branch in branches
        )
        if not same or _strides([branch[0] for branch in branches], size) != strides:
            continue
        if channels[0] in BOXES and channels[2:] in ([], [1]):
            return Head(BOXES[channels[0]], channels[1], strides)
    return None


def _strides(
    shapes: list[tuple[int, ...]], size: tuple[int, int], partial: bool = False
) -> tuple[int, ...] | None:
    """The strides of ``[1, C, H, W]`` outputs, finest first; None when they are not such."""
    strides = tuple(max(1, round(size[0] / shape[2])) for shape in shapes)
    exact = all(
        math.ceil(side / stride) == cells
        for stride, shape in zip(strides, shapes)
        for side, cells in zip(size, shape[2:])
    )
    known = set(strides) <= set(STRIDES[-1]) if partial else strides in STRIDES
    return strides if exact and known else None
