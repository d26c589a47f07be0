"""Boxes and class scores as separate outputs: YOLOv6, v8 to 12, 26, PP-YOLOE of the model zoo."""

from __future__ import annotations

from itertools import permutations
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    by_scale,
    channels_first,
    checked_size,
    fitting,
    grid_of,
    looks_like_logits,
    reaches_below_zero,
    representable,
    strides_of,
)

_MOST_BINS = 64
_MOST_BRANCHES = 8
#: YOLOv6 and 26, YOLOv8 to 12, PP-YOLOE.
_USUAL_BINS = (1, 16, 17)
_EXPECTED = (
    "expected per scale a box output [1, 4 * bins, h, w], a class output [1, classes, h, w] and "
    "perhaps their sum [1, 1, h, w], or one output of 4 * bins + classes channels"
)


class SplitForm(NamedTuple):
    """The outputs of a split head."""

    num_classes: int
    bins: int
    #: Per scale, finest first: box, class scores, perhaps their sum; or one output of both.
    scales: list[list[TensorAttr]]
    #: How unusual this reading is; see `Fit`.
    doubts: int

    @property
    def joined(self) -> bool:
        """Whether boxes and class scores are one output."""
        return len(self.scales[0]) == 1

    @property
    def n_cells(self) -> int:
        """Cells of all scales."""
        return sum(attr.shape[2] * attr.shape[3] for attr, *_ in self.scales)


def read_split(
    outputs: Outputs, input_size: Size, *, bins: int | None = None, joined: bool | None = None
) -> SplitForm | str:
    """Read the form of `SplitDecoder`.

    Class scores may come before boxes if the numbers of channels distinguish them.
    """
    counts = {None: (1, 2, 3), True: (1,), False: (2, 3)}[joined]
    scales = by_scale(outputs, input_size, counts)
    if isinstance(scales, str):
        return scales
    if len(scales) > _MOST_BRANCHES:
        return _EXPECTED
    if len(scales[0]) == 1:
        joined_bins = 16 if bins is None else bins
        num_classes = scales[0][0].shape[1] - 4 * joined_bins
        fits = num_classes > 0 and 0 < joined_bins <= _MOST_BINS
        # Distributions need more than 0..1, and class scores are logits.
        lowest, highest = representable(scales[0][0])
        doubts = highest < 1.05 or lowest >= -2.5
        return SplitForm(num_classes, joined_bins, scales, doubts) if fits else _EXPECTED
    if bins is not None and all(attr.shape[1] != 4 * bins for attr in scales[0]):
        return _EXPECTED
    found: SplitForm | None = None
    for order in permutations(range(len(scales[0]))):
        form = _read_in_order(scales, order, bins)
        if form is not None and (found is None or form.doubts < found.doubts):
            found = form
            if form.doubts == 0:
                break
    return _EXPECTED if found is None else found


def _read_in_order(
    scales: list[list[TensorAttr]], order: tuple[int, ...], bins: int | None
) -> SplitForm | None:
    box = scales[0][order[0]]
    found, rest = divmod(box.shape[1], 4)
    if rest or not 0 < found <= _MOST_BINS or bins not in (None, found):
        return None
    _, score, *sums = [scales[0][i] for i in order]
    in_order = list(order) == sorted(order)
    if not in_order and found not in _USUAL_BINS:
        return None
    if any(each.shape[1] != 1 for each in sums):
        return None
    doubts = [
        not in_order,
        order[-1] != len(order) - 1 and len(sums) > 0,  # sums are made last
        representable(box)[1] < 1.05,  # distances and their distributions need more than 0..1
        # A sum is one of probabilities. An output below 0, or together with class scores that need
        # the sigmoid, is something else, such as an angle.
        *(reaches_below_zero(each) or looks_like_logits(score) for each in sums),
        2 * (found not in _USUAL_BINS),
    ]
    return SplitForm(
        score.shape[1], found, [[scale[i] for i in order] for scale in scales], sum(doubts)
    )


class SplitDecoder(Decoder):
    """Decode the vendor model zoo's split form: per scale a box and a class output.

    Per scale, ``[1, 4 * bins, h, w]`` holds the distances from the cell's centre to the left,
    top, right and bottom in strides, each as a number (1 bin) or as a distribution (16 bins in
    YOLOv8 to 12, 17 in PP-YOLOE; distribution focal loss); ``[1, classes, h, w]`` the class
    scores. A third output ``[1, 1, h, w]``, if there is one, is the sum of the class scores, which
    rejects most cells before their classes are read. Boxes and class scores can also be one output
    ``[1, 4 * bins + classes, h, w]``, if the graph was cut before they were separated.

    Args:
        outputs: Logical attributes of the outputs, in the model's order. If the numbers of
            channels are ambiguous, boxes come before class scores, and these before their sum.
            Scales in any order.
        input_size: Height and width of the model's input in pixels.
        bins: Bins of each distance. None: as in the box outputs, or 16 if boxes and classes are
            one output.
        logits: Whether class scores still need the sigmoid. None: they do if boxes and classes are
            one output, or if an integer output can be clearly below 0.
        nms: False for heads that are trained to give one box per object: YOLOv10, YOLO26.
        **options: Thresholds and limits, see `Decoder`.
    """

    #: Reads the form of the outputs. A subclass for a task reads a form with a `SplitForm` as its
    #: `boxes`.
    _read: Any = staticmethod(read_split)

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        bins: int | None = None,
        logits: bool | None = None,
        nms: bool = True,
        **options: Any,
    ) -> None:
        outputs, size = channels_first(outputs), checked_size(input_size)
        form = fitting(self._read(outputs, size, bins=bins), outputs)
        boxes: SplitForm = getattr(form, "boxes", form)
        self.num_classes, self.bins = boxes.num_classes, boxes.bins
        super().__init__(outputs, size, boxes.n_cells, **options)
        self._options.suppress = bool(nms)
        if logits is None:
            logits = boxes.joined or looks_like_logits(boxes.scales[0][1])
        self.logits = bool(logits)
        self._branches = ffi.new("rkr_yolo_branch[]", len(boxes.scales))
        for branch, scale in zip(self._branches, boxes.scales):
            parts = scale * 2 if boxes.joined else scale
            for view, attr in zip((branch.box, branch.score, branch.score_sum), parts):
                self._binding(attr).add_grid(view, *grid_of(attr))
            branch.score_first = 4 * self.bins if boxes.joined else 0
            branch.stride_y, branch.stride_x = strides_of(scale[0], size)
            branch.offset = 0.5
        self._decode_with(
            "rkr_yolo_decode_split",
            branches=self._branches,
            n_branches=len(self._branches),
            n_classes=self.num_classes,
            n_bins=self.bins,
            sigmoid=self.logits,
        )
        self._add_task(form)
