"""Boxes and class scores as separate outputs: YOLOv6, v8 to 12, 26, PP-YOLOE of the model zoo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.grids import by_scale, grid_of, strides_of
from rknn_runtime.vision.heads.views import channels_first, describe, looks_like_logits

__all__ = ["SplitDecoder"]

_MOST_BINS = 64
_MOST_BRANCHES = 8


class SplitDecoder(Decoder):
    """Decode the vendor model zoo's split form: per scale a box and a class output.

    Per scale, ``[1, 4 * bins, h, w]`` holds the distances from the cell's centre to the left,
    top, right and bottom in strides, each as a number (1 bin) or as a distribution (16 bins in
    YOLOv8 to 12, 17 in PP-YOLOE; distribution focal loss); ``[1, classes, h, w]`` the class
    scores; a third output ``[1, 1, h, w]``, if there, the sum of the class scores, by which
    most cells are rejected without a look at their classes.
    Both can also be one output ``[1, 4 * bins + classes, h, w]``, where the graph was cut
    before them.

    Args:
        outputs: Logical attributes of the outputs, in the model's order: box before class
            scores before their sum; scales in any order.
        input_size: Height and width of the model's input in pixels.
        bins: Bins of each distance. None: what the box outputs have, 16 where box and classes
            are one output.
        logits: Whether class scores still need the sigmoid. None: they do where box and
            classes are one output, and where an integer output can be clearly below 0.
        nms: False for heads that are trained to give one box per object: YOLOv10, YOLO26.
        **options: Thresholds and limits, see `Decoder`.

    Raises:
        ValueError: The outputs have not this form; or see `Decoder`.
    """

    def __init__(
        self,
        outputs: Sequence[TensorAttr],
        input_size: tuple[int, int],
        *,
        bins: int | None = None,
        logits: bool | None = None,
        nms: bool = True,
        **options: Any,
    ) -> None:
        outputs = channels_first(outputs)
        scales = by_scale(outputs)
        joined = len(scales[0]) == 1
        self.num_classes, self.bins = _classes_and_bins(scales, bins)
        n = sum(attr.shape[2] * attr.shape[3] for attr, *_ in scales)
        super().__init__(outputs, input_size, n, **options)
        self._options.suppress = bool(nms)
        if logits is None:
            logits = joined or looks_like_logits(scales[0][1])
        self.logits = bool(logits)
        self._branches = ffi.new("rkr_yolo_branch[]", len(scales))
        for branch, scale in zip(self._branches, scales):
            parts = scale * 2 if joined else scale
            for view, attr in zip((branch.box, branch.score, branch.score_sum), parts):
                self._binding(attr).add_grid(view, *grid_of(attr))
            branch.score_first = 4 * self.bins if joined else 0
            branch.stride_y, branch.stride_x = strides_of(scale[0], self.input_size)
        self._head = (self._branches, len(scales), self.num_classes, self.bins, self.logits)
        self._decode_with(lib.rkr_yolo_decode_split, *self._head)


def _classes_and_bins(scales: list[list[TensorAttr]], bins: int | None) -> tuple[int, int]:
    channels = {tuple(grid_of(attr)[0] for attr in scale) for scale in scales}
    first = channels.pop()
    if len(first) == 1:
        box = 4 * (16 if bins is None else bins)
        first = (box, first[0] - box)
    box, score = first if len(first) == 2 else first[:2] if first[2:] == (1,) else (0, 0)
    fits = 0 < box <= 4 * _MOST_BINS and box % 4 == 0 and bins in (None, box // 4) and score > 0
    if not fits or channels or len(scales) > _MOST_BRANCHES:
        outputs = [attr for scale in scales for attr in scale]
        raise ValueError(
            "expected per scale a box output [1, 4 * bins, h, w], a class output "
            "[1, classes, h, w] and perhaps their sum [1, 1, h, w], or one output of "
            f"4 * bins + classes channels, got\n{describe(outputs)}"
        )
    return score, box // 4
