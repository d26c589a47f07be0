"""Text: boxes around it (DB), and the characters of a line (CTC)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray, as_float, as_int, check_status, pointer
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import Layout
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.classification import softmax_mode
from rknn_runtime.vision.heads.frame import FrameDecoder
from rknn_runtime.vision.heads.outputs import (
    Outputs,
    Size,
    channels_first,
    checked_size,
    describe,
    fitting,
    looks_like_logits,
    reaches_below_zero,
)
from rknn_runtime.vision.heads.scene import _add_view, read_scene
from rknn_runtime.vision.letterbox import LetterboxTransform
from rknn_runtime.vision.nms import as_threshold

_MOST = 2**31 - 1


class TextBoxDecoder(FrameDecoder[Detections]):
    """Decode the map of probabilities of a DB head (arXiv 1911.08947): PP-OCR's text detectors.

    Cells at or above `threshold` that are neighbours make a part; its smallest rectangle is kept if
    the mean probability in it reaches `box_threshold`, and then grows by `unclip_ratio` times area
    over perimeter on each side. That is PaddleOCR's DBPostProcess for boxes of four corners, with
    its usual options.

    Args:
        outputs: Logical attributes of all outputs of the model: ``[1, 1, h, w]`` or ``[1, h, w]``.
        input_size: Height and width of the model's input in pixels.
        output: Index or name of the output to read, if there are several.
        threshold: The lowest probability of a cell with text.
        box_threshold: The smallest score of a box that counts.
        unclip_ratio: How much boxes grow, as heads are trained on shrunk text.
        min_side: Boxes with a shorter side below this are dropped, in cells.
        max_detections: How many boxes are returned at most, those with the highest scores.
        logits: Whether the map is before the sigmoid. None: integers tell it by their range; floats
            are taken for probabilities.
    """

    def __init__(
        self,
        outputs: Outputs,
        input_size: Size,
        *,
        output: int | str | None = None,
        threshold: float = 0.3,
        box_threshold: float = 0.6,
        unclip_ratio: float = 1.5,
        min_side: float = 3,
        max_detections: int = 1000,
        logits: bool | None = None,
    ) -> None:
        outputs, input_size = channels_first(outputs), checked_size(input_size)
        form = fitting(read_scene(outputs, input_size, output), outputs)
        if form.channels != 1:
            raise ValueError(
                f"expected one probability for each cell, got {form.channels or 'classes'}:\n"
                f"{describe([form.output])}"
            )
        super().__init__((form.output,))
        self.input_size = input_size
        self._view = ffi.new("rkr_tensor_view *")
        _add_view(self._bindings[0], form, self._view)
        self._stride = np.array(
            [input_size[1] / form.width, input_size[0] / form.height], np.float64
        )
        if logits is None:
            logits = looks_like_logits(form.output) or reaches_below_zero(form.output)
        self.logits = bool(logits)
        self._options = ffi.new("rkr_text_options *")
        self._options.sigmoid = self.logits
        self.threshold, self.box_threshold = threshold, box_threshold
        for name, value in (("unclip", unclip_ratio), ("min_side", min_side)):
            number = as_float(value, name)
            if not 0 <= number < 1e6:
                raise ValueError(f"{name}: expected 0 or more, got {value!r}")
            setattr(self._options, name, number)
        count = as_int(max_detections, "max_detections", 1, 100_000)
        self._corners, self._scores = np.empty((count, 4, 2), np.float32), np.empty(count, "f4")
        self._count = ffi.new("size_t *")

    @property
    def threshold(self) -> float:
        """The lowest probability of a cell with text; can be set between frames."""
        return float(self._options.threshold)

    @threshold.setter
    def threshold(self, value: float) -> None:
        self._options.threshold = as_threshold(value, "threshold", 1)

    @property
    def box_threshold(self) -> float:
        """The smallest score of a box that counts; can be set between frames."""
        return float(self._options.box_threshold)

    @box_threshold.setter
    def box_threshold(self, value: float) -> None:
        self._options.box_threshold = as_threshold(value, "box_threshold", 1)

    def results(self, transform: LetterboxTransform | None) -> Detections:
        """Return the boxes by falling score, with their corners; the lock is held."""
        status = lib.rkr_text_boxes(
            self._view, self._options, pointer(self._corners.reshape(-1)), pointer(self._scores),
            len(self._scores), self._count,
        )  # fmt: skip
        check_status(status, "rkr_text_boxes")
        n = self._count[0]
        order = np.argsort(-self._scores[:n], kind="stable")
        corners = self._corners[order] * self._stride
        size = self.input_size
        if transform is not None:
            corners, size = transform.points_to_image(corners), transform.image_size
        corners = np.clip(corners, 0, size[::-1])
        return Detections(
            np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1).astype(np.float32),
            self._scores[order],
            np.zeros(n, np.int32),
            xyxyxyxy=corners.astype(np.float32),
            labels=["text"],
        )


class LineForm(NamedTuple):
    """An output with scores of characters for each step along a line."""

    steps: int
    characters: int
    #: Whether a step's characters are neighbours in memory.
    last: bool


def read_line(output: TensorAttr, count: int | None = None) -> LineForm | str:
    """Read the form of `TextLineDecoder`.

    If a `count` of characters is known, there are as many channels, or one or two more.
    """
    shape = tuple(size for size in output.shape if size != 1)
    if len(shape) != 2 or output.shape[0] != 1:
        return "expected the scores of one line, [1, steps, characters] or [1, characters, steps]"
    first, last = shape
    # As many classes as characters and a blank are the most usual. Lines have fewer steps than
    # there are characters, but for digits.
    doubts = [{1: 0, 0: 1, 2: 2}.get(size - (count or 0), 3) for size in (first, last)]
    if count is not None and min(doubts) == 3:
        return f"expected scores of {count} characters, and perhaps of a blank and a space"
    is_last = last > first if count is None or doubts[0] == doubts[1] else doubts[1] < doubts[0]
    if output.stored.layout is Layout.NC1HWC2 and is_last:
        return "expected [1, characters, steps] of an output that lies in memory as NC1HWC2"
    return LineForm(first, last, True) if is_last else LineForm(last, first, False)


class TextLineDecoder(FrameDecoder["tuple[str, float]"]):
    """Decode the scores of a CTC head: PP-OCR's text recognizers, CRNN, LPRNet.

    The most likely character of each step counts; repeated ones are one, and blanks between them
    are dropped (greedy decoding, as PaddleOCR and the model zoo do). With `beam`, the probabilities
    of all ways to write a text count (prefix beam search, arXiv 1408.2873, without a dictionary).

    Args:
        output: Logical attribute of the output: ``[1, steps, characters]``, as PaddleOCR has it, or
            ``[1, characters, steps]`` or a rank 4 form of that, as LPRNet has it.
        characters: The text of each class but the blank, in order; or of all classes, with the
            blank as ``""``, ``"blank"`` or ``"-"`` first or last.
        blank: The class of the blank, ``"first"`` or ``"last"``. None: as `characters` tell, else
            the first, as PaddleOCR has it; there a last class that `characters` lack is the space.
        softmax: Whether scores are logits. None: see `ClassificationDecoder`.
        beam: How many texts to follow; 1: greedy decoding, which is about a hundred times faster.
    """

    def __init__(
        self,
        output: TensorAttr,
        characters: Sequence[str],
        *,
        blank: str | None = None,
        softmax: bool | None = None,
        beam: int = 1,
    ) -> None:
        (output,) = channels_first((output,))
        form = fitting(read_line(output, len(characters)), (output,))
        super().__init__((output,))
        texts, self.blank = _classes(list(characters), form.characters, blank)
        #: The text of each class, ``""`` for the blank.
        self.characters: tuple[str, ...] = tuple(texts)
        self.steps = form.steps
        self._softmax = softmax_mode(output, softmax)
        self._view = ffi.new("rkr_tensor_view *")
        binding, count = self._bindings[0], form.characters
        if form.last:
            binding.add(self._view, count, 1, form.steps, form.steps, count)
        else:
            binding.add_grid(self._view, count, 1, form.steps)
        self._scratch = np.empty(count, np.float32)
        self._indices = np.empty(form.steps, np.uint32)
        self._confidence = np.empty(form.steps, np.float32)
        self._count = ffi.new("size_t *")
        self.beam = as_int(beam, "beam", 1, 1000)

    def results(self, transform: object) -> tuple[str, float]:
        """Return the text and its confidence, the mean of its characters'; the lock is held.

        With `beam`, the confidence is the n-th root of the probability of the n characters.
        """
        if self.beam > 1:
            values = np.empty((self.steps, len(self.characters)), np.float32)
            status = lib.rkr_view_values(self._view, pointer(values.reshape(-1)))
            check_status(status, "rkr_view_values")
            found, confidence = _beam_search(self._probabilities(values), self.blank, self.beam)
            return "".join([self.characters[i] for i in found]), confidence
        status = lib.rkr_ctc_greedy(
            self._view, self.blank, self._softmax, pointer(self._scratch), pointer(self._indices),
            pointer(self._confidence), self._count,
        )  # fmt: skip
        check_status(status, "rkr_ctc_greedy")
        n = self._count[0]
        text = "".join([self.characters[i] for i in self._indices[:n].tolist()])
        return text, float(self._confidence[:n].mean()) if n else 0.0

    def _probabilities(self, values: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = np.nan_to_num(values.astype(np.float64))
        sums, is_auto = scores.sum(axis=1), self._softmax == lib.RKR_SOFTMAX_AUTO
        is_one = is_auto and bool((scores >= 0).all() and (abs(sums - 1) < 0.02).all())
        if self._softmax == lib.RKR_SOFTMAX_NO or is_one:
            return scores.clip(0, 1)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


def _beam_search(
    steps: NDArray[np.float64], blank: int, width: int
) -> tuple[tuple[int, ...], float]:
    """Return the most probable text, and its probability by character."""
    # For each text, the probability of the paths that end with a blank, and of the others.
    texts: dict[tuple[int, ...], list[float]] = {(): [1.0, 0.0]}
    lost = 0.0  # the logarithm of what was divided by
    for step in steps:
        after: dict[tuple[int, ...], list[float]] = {}
        likely = np.argsort(-step, kind="stable")[: width + 1].tolist()
        for text, (ended, open_) in texts.items():
            for i in likely:
                p = float(step[i])
                if i == blank:
                    after.setdefault(text, [0.0, 0.0])[0] += p * (ended + open_)
                    continue
                is_repeated = text[-1:] == (i,)
                if is_repeated:
                    after.setdefault(text, [0.0, 0.0])[1] += p * open_
                longer = after.setdefault((*text, i), [0.0, 0.0])
                longer[1] += p * (ended if is_repeated else ended + open_)
        best = sorted(after.items(), key=lambda each: -sum(each[1]))[:width]
        highest = sum(best[0][1]) or 1.0
        texts = {text: [p / highest for p in both] for text, both in best}
        lost += math.log(highest)
    text, both = next(iter(texts.items()))
    total = sum(both)
    if not text or not total > 0:
        return (), 0.0
    return text, math.exp((math.log(total) + lost) / len(text))


def _classes(given: list[str], count: int, blank: str | None) -> tuple[list[str], int]:
    """Return the text of each class and the number of the blank."""
    if blank not in (None, "first", "last"):
        raise ValueError(f'blank: expected "first", "last" or None, got {blank!r}')
    for text in given:
        if not isinstance(text, str):
            raise TypeError(f"characters: expected a str for each class, got {type(text).__name__}")
    if len(given) == count:
        marks = ("", "blank", "<blank>", "-")
        found = [name for name, i in (("first", 0), ("last", -1)) if given[i] in marks]
        blank = blank or (found[0] if len(found) == 1 else None)
        if blank is None:
            raise ValueError(
                f'blank: expected "first" or "last", as there are {count} characters for {count} '
                "classes and they do not tell which is the blank, got None"
            )
        given[0 if blank == "first" else -1] = ""
    elif blank == "last":
        given = [*given, *[" "] * (count - len(given) - 1), ""]
    else:
        given = ["", *given, *[" "] * (count - len(given) - 1)]
    return given, given.index("") if blank != "last" else count - 1
