"""Boxes relative to prior boxes: the base of RetinaFace and YuNet, and SSD."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    any_below_zero,
    channels_first,
    checked_size,
    fitting,
    without,
)
from rknn_runtime.vision.heads.parts import Part, channels_of

#: Called with scale and prediction of a cell; returns width and height of the anchor in pixels,
#: and the place of its centre in the cell.
Place = Callable[[int, int], "tuple[float, float, float]"]


def place_anchor(grid: Any, part: Part, width: float, height: float, offset: float) -> None:
    """Fill in the place of an anchor of each cell of a ``rkr_yolo_grid``."""
    grid.stride_x = grid.stride_y = part.stride
    grid.anchor_width, grid.anchor_height, grid.offset = width, height, offset


class PriorDecoder(Decoder):
    """Boxes relative to prior boxes."""

    num_classes: int

    def _add_priors(
        self,
        scales: Sequence[Sequence[Part | None]],
        place: Place,
        variances: tuple[float, float],
        kind: int,
        background: int = 0,
    ) -> Any:
        """Describe boxes, scores, and perhaps objectness of each scale; return the C priors.

        `variances` are of centres and sizes, `kind` is an ``RKR_SCORE_``, `background` the number
        of classes before the first that can be found.
        """
        priors = ffi.new("rkr_yolo_prior[]", sum(box.per_cell for box, *_ in scales if box))
        each = iter(priors)
        n_classes = self.num_classes - background
        for i, (box, score, *objectness) in enumerate(scales):
            assert box is not None and score is not None
            for k in range(box.per_cell):
                prior = next(each)
                box.describe(prior.box.view, self._binding(box.attr))
                prior.box.first = 4 * k
                place_anchor(prior.box, box, *place(i, k))
                score.describe(prior.score, self._binding(score.attr))
                prior.score_first = (k + 1) * score.channels - n_classes
                for part in objectness:
                    if part is not None:
                        part.describe(prior.objectness, self._binding(part.attr))
                        prior.objectness_first = k
        self._decode_with(
            "rkr_yolo_decode_priors",
            priors=priors,
            n_priors=len(priors),
            n_classes=n_classes,
            first_class=background,
            sigmoid=kind,
            centre_variance=variances[0],
            size_variance=variances[1],
        )
        return priors


class SsdForm(NamedTuple):
    """The outputs of SSD's head."""

    #: With the background.
    num_classes: int
    #: Per scale, finest first: boxes, class scores.
    scales: list[list[Part]]
    doubts: int = 0


#: Scales of the anchors as parts of the input, from the first scale on, and the last one's next.
_LOWEST, _HIGHEST, _LAST = 0.2, 0.95, 1.0
_SCALES = 6
#: Width by height.
_RATIOS = (1.0, 2.0, 0.5, 3.0, 1 / 3)


def ssd_anchors() -> list[list[tuple[float, float]]]:
    """Return width and height of the anchors of each scale as parts of the input.

    They are TensorFlow's with six scales (``ssd_anchor_generator``): three of the first scale, then
    six each.
    """
    step = (_HIGHEST - _LOWEST) / (_SCALES - 1)
    sizes = [*(_LOWEST + step * i for i in range(_SCALES)), _LAST]
    found = [[(0.1, 0.1), *(_sides(sizes[0], ratio) for ratio in (2.0, 0.5))]]
    for size, following in zip(sizes[1:], sizes[2:]):
        between = (size * following) ** 0.5
        found.append([*(_sides(size, ratio) for ratio in _RATIOS), (between, between)])
    return found


def _sides(size: float, ratio: float) -> tuple[float, float]:
    root: float = ratio**0.5
    return size * root, size / root


def ssd_grids(input_size: Size) -> list[Size]:
    """Return the rows and columns of cells of each scale: a 16th of the input, then halves."""
    grids = [(-(-input_size[0] // 16), -(-input_size[1] // 16))]
    while len(grids) < _SCALES:
        rows, columns = grids[-1]
        grids.append((-(-rows // 2), -(-columns // 2)))
    return grids


def read_ssd(outputs: Outputs, input_size: Size) -> SsdForm | str:
    """Read the form of `SsdDecoder`."""
    grids = ssd_grids(input_size)
    counts = [len(each) for each in ssd_anchors()]
    if len(outputs) == 2:
        numbers = [n * rows * columns for n, (rows, columns) in zip(counts, grids)]
        n = sum(numbers)
        shapes = [attr.shape for attr in outputs]
        if any(len(shape) != 3 or shape[:2] != (1, n) for shape in shapes):
            return f"expected [1, {n}, 4] and [1, {n}, classes]"
        pairs = [list(outputs)] * _SCALES
        firsts: list[int | None] = [0, *accumulate(numbers[:-1])]
    else:
        if len(outputs) != 2 * _SCALES or {len(attr.shape) for attr in outputs} != {4}:
            return f"expected boxes and classes for grids of {grids[0]} cells and halves of it"
        pairs = [[attr for attr in outputs if attr.shape[2:] == grid] for grid in grids]
        firsts = [None] * _SCALES
    scales: list[list[Part]] = []
    for pair, each, grid, first in zip(pairs, counts, grids, firsts):
        if first is None:  # small inputs have the same grid twice
            taken = [part.attr for scale in scales for part in scale]
            pair = without(pair, taken)
        per_cell = 1 if first is not None else each
        boxes = [attr for attr in pair if channels_of(attr) == 4 * per_cell][:1]
        scores = [attr for attr in without(pair, boxes) if channels_of(attr) != 4 * per_cell]
        scores = scores or without(pair, boxes)
        if not boxes or not scores or channels_of(scores[0]) % per_cell:
            return f"expected {4 * per_cell} channels of boxes, and class scores"
        classes = channels_of(scores[0]) // per_cell
        place = *grid, 0, each
        scales.append([Part(boxes[0], *place, 4, first), Part(scores[0], *place, classes, first)])
    (found, *others) = {score.channels for _, score in scales}
    if others or found < 2:
        return "expected as many classes at each scale, with a background"
    return SsdForm(found, scales)


class SsdDecoder(PriorDecoder):
    """Decode SSD of TensorFlow's object detection, such as ssd_mobilenet_v1 and v2.

    ``[1, N, 4]`` and ``[1, N, classes]`` (N = 1917 for 300 x 300 pixels), or per scale
    ``[1, a * 4, h, w]`` and ``[1, a * classes, h, w]``, with a = 3 anchors a cell of the first
    scale and 6 of the five others. Boxes are y, x, height, width relative to the anchors, with
    variances 0.1 and 0.2. Class 0 is the background, which is never found, so that class numbers
    are those of the outputs. (Formulas: arXiv 1512.02325; TensorFlow's ``ssd_anchor_generator`` and
    ``faster_rcnn_box_coder``.)

    Args:
        outputs: Logical attributes of the outputs, in any order.
        input_size: Height and width of the model's input in pixels.
        logits: Whether scores still need the sigmoid. None: for integer outputs that hold negative
            numbers, and for float ones, as the graphs end before it.
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
        form = fitting(read_ssd(outputs, size), outputs)
        n = sum(box.height * box.width * box.per_cell for box, _ in form.scales)
        super().__init__(outputs, size, n, **options)
        self.num_classes = form.num_classes
        scores = [score.attr for _, score in form.scales]
        if logits is None:
            logits = scores[0].stored.dtype.numpy.kind == "f" or any_below_zero(scores)
        self.logits = bool(logits)
        height, width = size
        anchors = ssd_anchors()

        def place(i: int, k: int) -> tuple[float, float, float]:
            across, down = anchors[i][k]
            return across * width, down * height, 0.5

        kind = lib.RKR_SCORE_SIGMOID if self.logits else lib.RKR_SCORE_READY
        priors = self._add_priors(form.scales, place, (0.1, 0.2), kind, background=1)
        self._native.swapped = True
        each = iter(priors)
        for box, _ in form.scales:  # cells share the input, which they do not divide
            for _ in range(box.per_cell):
                grid = next(each).box
                grid.stride_y, grid.stride_x = height / box.height, width / box.width
