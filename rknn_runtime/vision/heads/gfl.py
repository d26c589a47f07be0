"""PicoDet and NanoDet: distributions of distances on grids that may reach beyond the input."""

from __future__ import annotations

from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    any_below_zero,
    channels_first,
    checked_size,
    fitting,
    predictions_of,
)
from rknn_runtime.vision.heads.parts import Part, channels_of, parts_by_scale, parts_of_all

#: Bins of each distance.
_BINS = 8
_BOX = 4 * _BINS


class GflForm(NamedTuple):
    """The outputs of such a head."""

    num_classes: int
    #: Per scale, finest first: class scores, distances.
    scales: list[list[Part]]
    #: Whether class scores and distances are columns of one output.
    joined: bool = False
    doubts: int = 0

    @property
    def n_cells(self) -> int:
        """Cells of all scales."""
        return sum(part.height * part.width for part, _ in self.scales)


def read_picodet(outputs: Outputs, input_size: Size, *, rows: bool | None = None) -> GflForm | str:
    """Read class scores and distances as separate outputs; `rows`: as rows, or as grids."""
    counts = {channels_of(attr) for attr in outputs if len(attr.shape) > 1}
    others = counts - {_BOX} or counts
    if len(others) != 1:
        return f"expected class scores and {_BOX} channels of distances for each scale"
    (num_classes,) = others
    scales = parts_by_scale(outputs, input_size, (num_classes, _BOX))
    if isinstance(scales, str):
        return scales
    part = scales[0][0]
    if part.per_cell != 1 or rows not in (None, part.first_row is not None):
        return "expected one prediction of each cell" if rows is None else "another layout"
    return GflForm(num_classes, scales)


def read_nanodet_plus(outputs: Outputs, input_size: Size) -> GflForm | str:
    """Read class scores before distances in one output, ``[1, N, classes + 32]``."""
    layout = predictions_of(outputs[0], True) if len(outputs) == 1 else "expected one output"
    if isinstance(layout, str) or layout.channels <= _BOX:
        return f"expected [1, N, classes + {_BOX}]"
    scales = parts_of_all(outputs, input_size, (layout.channels,), (1,) * 4)
    if isinstance(scales, str):
        return scales
    return GflForm(layout.channels - _BOX, [part * 2 for part in scales], True)


class GflDecoder(Decoder):
    """Decode PicoDet and NanoDet: class scores, and distances as distributions of 8 bins.

    PicoDet and NanoDet: per scale ``[1, h * w, classes]`` and ``[1, h * w, 32]``, with scores after
    the sigmoid; or as grids ``[1, classes, h, w]`` and ``[1, 32, h, w]``, as a cut at the
    convolutions gives them. NanoDet-Plus: ``[1, N, classes + 32]``, all scales. Strides are 8, 16,
    32 and perhaps 64; the last cells may reach beyond the input. (Formulas: arXiv 2111.00902 and
    2006.04388; RangiLyu/nanodet.)

    Args:
        outputs: Logical attributes of the outputs; scales in any order.
        input_size: Height and width of the model's input in pixels.
        plus: Whether cells are NanoDet-Plus', whose distances count from the upper left corner of
            the cell instead of its middle. None: if there is one output.
        logits: Whether class scores still need the sigmoid. None: if an integer output of scores
            holds negative numbers and no distances.
        **options: Thresholds and limits, see `Decoder`.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        plus: bool | None = None,
        logits: bool | None = None,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        read = read_nanodet_plus if len(outputs) == 1 else read_picodet
        form = fitting(read(outputs, size), outputs)
        super().__init__(outputs, size, form.n_cells, **options)
        self.num_classes, self.bins = form.num_classes, _BINS
        self.plus = form.joined if plus is None else bool(plus)
        if logits is None:
            logits = not form.joined and any_below_zero(score.attr for score, _ in form.scales)
        self.logits = bool(logits)
        branches = ffi.new("rkr_yolo_branch[]", len(form.scales))
        for branch, (score, box) in zip(branches, form.scales):
            score.describe(branch.score, self._binding(score.attr))
            box.describe(branch.box, self._binding(box.attr))
            branch.box_first = self.num_classes if form.joined else 0
            branch.stride_x = branch.stride_y = box.stride
            branch.offset = 0.0 if self.plus else 0.5
        self._decode_with(
            "rkr_yolo_decode_split",
            branches=branches,
            n_branches=len(branches),
            n_classes=self.num_classes,
            n_bins=_BINS,
            sigmoid=self.logits,
        )
