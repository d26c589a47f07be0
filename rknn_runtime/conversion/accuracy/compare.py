"""Runs two sides on the same frames, and measures how far they lie apart."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any, Union

import numpy as np

from rknn_runtime._arrays import Array, as_float, as_list
from rknn_runtime.conversion.accuracy.average_precision import average_precision
from rknn_runtime.conversion.accuracy.boxes import overlaps, pairs
from rknn_runtime.conversion.accuracy.decoding import Decoding
from rknn_runtime.conversion.accuracy.report import AccuracyReport, DetectionRow, Match, OutputRow
from rknn_runtime.conversion.accuracy.sources import Comparable, Source, open_source
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.vision.detections import Detections

__all__ = ["compare"]

#: What a frame may be: the path of an image, one input, or all of them.
GivenFrame = Union[str, "os.PathLike[str]", Array, Sequence[Array]]
Progress = Callable[[int, Union[int, None]], object]


def compare(
    a: Comparable,
    b: Comparable,
    frames: Iterable[GivenFrame],
    *,
    detect: bool = False,
    truth: Iterable[Detections] | None = None,
    match_iou: float = 0.5,
    mean_values: Sequence[Sequence[float]] | None = None,
    std_values: Sequence[Sequence[float]] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> AccuracyReport:
    """Run two sides on the same frames, and tell how far they lie apart.

    A side is the path of an ``.onnx`` file, which onnxruntime computes in float; the path of a
    ``.rknn`` file, or a bundle (path or bytes), on the simulated NPU; a loaded `Model` or
    `GeneralModel`, as on a board; or what was recorded: the path of an ``.npz`` file with an array
    per output, whose first dimension counts the frames, or a list with a list of arrays per frame.

    Frames are taken one by one, so a generator over thousands needs no memory for them.

    Args:
        a: The reference.
        b: The other.
        frames: Each the inputs as `Model.run` takes them (an array stands for one), or an image,
            a path or ``(H, W, C) uint8`` of any size, which is letterboxed into the input.
        detect: Also decode both, and compare what they detect.
        truth: What is true of each frame, in pixels of the image: gives mAP; implies `detect`.
        match_iou: Detections of a class are the same from this IoU on.
        mean_values: Per input the mean of each channel, as the toolkit's ``config`` has it, for
            ONNX files. None: as the other side's model says, else 0.
        std_values: Likewise, what to divide by. None: likewise, else 1.
        progress: Is called with the number of frames done, and of all (None: not known).
        **options: With `detect`: ``head``, ``labels`` (names, or a file of them), and what the
            head's decoder takes, as `Detector` does.

    Returns:
        The report.

    Raises:
        InvalidModelError: A file is no model or no recording.
        OSError: A file cannot be read.
        ImportError: onnxruntime is not installed.
        RknnError: A model fails.
        TypeError: An argument of another type.
        ValueError: The sides have other outputs and `detect` is not asked for, a frame does not
            fit, or there is none; or the outputs make no known head.
    """
    threshold = as_float(match_iou, "match_iou")
    if not 0 < threshold <= 1:
        raise ValueError(f"match_iou: expected a number above 0 and up to 1, got {match_iou!r}")
    if options and not (detect or truth is not None):
        raise TypeError(f"options: expected none without detect=True, got {', '.join(options)}")
    if isinstance(frames, (str, bytes, os.PathLike, np.ndarray)):
        kind = type(frames).__name__
        raise TypeError(f"frames: expected a list of frames or an iterator, got {kind}")
    given = _given(mean_values, std_values)
    with ExitStack() as opened:
        sides = []
        for side, name in ((a, "a"), (b, "b")):
            sides.append(open_source(side, name, given))
            opened.callback(sides[-1].close)
        if given is None:
            _share_preprocessing(sides)
        run = _Run(sides, detect or truth is not None, options, threshold)
        return run.over(frames, truth, progress)


def _given(
    means: Sequence[Sequence[float]] | None, stds: Sequence[Sequence[float]] | None
) -> tuple[Preprocessing, ...] | None:
    if means is None and stds is None:
        return None
    expected = "a list of numbers per input"
    count = len(means if means is not None else stds or ())
    means = [(0.0,)] * count if means is None else as_list(means, "mean_values", expected)
    stds = [(1.0,)] * count if stds is None else as_list(stds, "std_values", expected)
    if len(means) != len(stds):
        raise ValueError(
            f"mean_values, std_values: expected as many in both, got {len(means)} and {len(stds)}"
        )
    return tuple(
        Preprocessing(
            _floats(mean, "mean_values"),
            _floats(std, "std_values"),
            rgb2bgr=False,
        )
        for mean, std in zip(means, stds)
    )


def _floats(values: Sequence[float], name: str) -> tuple[float, ...]:
    given = as_list(values, name, "a list of numbers per input")
    return tuple(as_float(value, name) for value in given)


def _share_preprocessing(sides: Sequence[Source]) -> None:
    """Normalise for an ONNX file as the `.rknn` model beside it does."""
    for side, other in (sides, sides[::-1]):
        if side.inputs is None and side.preprocessing is None:
            side.preprocessing = other.preprocessing


class _Run:
    """One comparison."""

    def __init__(
        self, sides: list[Source], detect: bool, options: dict[str, Any], match_iou: float
    ) -> None:
        self._sides = sides
        self._match_iou = match_iou
        self._decoding = Decoding(sides, options) if detect else None
        self._sums: list[_Sum] | None = None
        self._order: list[int] = []
        self._matches: list[Match] = []
        self._only: tuple[list[Any], list[Any]] = ([], [])
        self._found: tuple[list[Detections], list[Detections]] = ([], [])

    def over(
        self,
        frames: Iterable[GivenFrame],
        truth: Iterable[Detections] | None,
        progress: Progress | None,
    ) -> AccuracyReport:
        """Go over the frames."""
        total = len(frames) if isinstance(frames, Sequence) else None
        count = 0
        for count, frame in enumerate(frames, 1):
            self._take(count - 1, frame)
            if progress is not None:
                progress(count, total)
        if not count:
            raise ValueError("frames: expected at least one, got none")
        precision = None
        if truth is not None:
            true = list(islice(truth, count + 1))
            first, second = (average_precision(found, true) for found in self._found)
            precision = first, second
        return AccuracyReport(
            self._sides[0].name,
            self._sides[1].name,
            count,
            tuple(each.row() for each in self._sums or ()),
            self._detections() if self._decoding is not None else None,
            precision,
        )

    def _take(self, index: int, frame: GivenFrame) -> None:
        inputs, transform = _inputs(frame, self._sides)
        results = [side.run(index, inputs) for side in self._sides]
        if self._sums is None:
            self._order = _pairing(self._sides, results, must=self._decoding is None)
            names = self._sides[0].output_names
            self._sums = [
                _Sum(names[i] if names else f"output {i}", results[0][i].shape)
                for i in (range(len(results[0])) if self._order else ())
            ]
        for i, (each, other) in enumerate(zip(self._sums, self._order)):
            each.add(index, results[0][i], results[1][other])
        if self._decoding is None:
            return
        ours, theirs = self._decoding.decode(results, inputs, transform)
        self._found[0].append(ours)
        self._found[1].append(theirs)
        self._match(index, ours, theirs)

    def _match(self, index: int, ours: Detections, theirs: Detections) -> None:
        iou = overlaps(ours.xyxy, theirs.xyxy)
        same = ours.class_id[:, None] == theirs.class_id
        found = pairs(iou, same, self._match_iou)
        for i, j in found:
            self._matches.append(
                Match(
                    index,
                    int(ours.class_id[i]),
                    float(iou[i, j]),
                    float(ours.confidence[i]),
                    float(theirs.confidence[j]),
                )
            )
        for side, only, taken in (
            (ours, self._only[0], {i for i, _ in found}),
            (theirs, self._only[1], {j for _, j in found}),
        ):
            only += [
                (index, one.class_id, one.confidence)
                for number, one in enumerate(side)
                if number not in taken
            ]

    def _detections(self) -> DetectionRow:
        return DetectionRow(
            sum(map(len, self._found[0])),
            sum(map(len, self._found[1])),
            tuple(self._matches),
            tuple(self._only[0]),
            tuple(self._only[1]),
        )


def _inputs(frame: GivenFrame, sides: Sequence[Source]) -> tuple[tuple[Array, ...], Any]:
    """The arrays of a frame; where an image was letterboxed, how."""
    is_image = isinstance(frame, (str, os.PathLike))
    if not is_image and not isinstance(frame, np.ndarray):
        arrays = as_list(frame, "frames", "paths, arrays or lists of them")
        for array in arrays:
            if not isinstance(array, np.ndarray):
                kind = type(array).__name__
                raise TypeError(f"frames: expected paths, arrays or lists of them, got {kind}")
        return tuple(arrays), None
    size = _image_size(sides)
    if isinstance(frame, np.ndarray):
        is_other = size is not None and frame.shape[:2] != size
        if frame.ndim != 3 or frame.dtype != np.uint8 or not is_other:
            return (frame,), None
    if size is None:
        raise ValueError("frames: expected arrays, as no side has one image input, got an image")
    # Only here: arrays that fit need no images.
    from rknn_runtime.vision.letterbox import letterbox

    pixels, transform = letterbox(frame, size)
    return (pixels[None],), transform


def _image_size(sides: Sequence[Source]) -> tuple[int, int] | None:
    """Height and width of the one image input."""
    for side in sides:
        if side.inputs is not None:
            if len(side.inputs) == 1 and side.inputs[0].takes_pixels:
                return side.inputs[0].height, side.inputs[0].width
            return None
    for side in sides:
        graph = getattr(side, "graph", None)
        if graph is not None and len(graph.inputs) == 1 and len(graph.inputs[0].shape) == 4:
            height, width = graph.inputs[0].shape[2:]
            return (height, width) if height and width else None
    return None


def _pairing(sides: Sequence[Source], results: list[list[Array]], *, must: bool) -> list[int]:
    """Find the other side's output for each of the reference: by name, else by position."""
    names = [side.output_names for side in sides]
    order = list(range(len(results[0])))
    if names[0] and names[1] and sorted(names[0]) == sorted(names[1]):
        order = [names[1].index(name) for name in names[0]]
    sizes = [array.size for array in results[0]]
    if len(results[1]) == len(sizes) and [results[1][i].size for i in order] == sizes:
        return order
    if must:
        listed = [[tuple(array.shape) for array in each] for each in results]
        raise ValueError(
            f"b: expected outputs as those of a, {listed[0]}, got {listed[1]}; detect=True "
            "compares what they detect"
        )
    return []


class _Sum:
    """Running sums of one output over the frames, in float64."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self._name, self._shape = name, tuple(shape)
        self._products = np.zeros(3)
        self._noise = self._error = self._worst_error = 0.0
        self._count = 0
        self._worst = (math.inf, 0)

    def add(self, index: int, ours: Array, theirs: Array) -> None:
        """Take the output of one frame."""
        a, b = (np.asarray(array, np.float64).ravel() for array in (ours, theirs))
        if a.size != b.size:
            raise ValueError(
                f"frame {index}: expected {a.size} values in {self._name!r} of both, got {b.size}"
            )
        with np.errstate(all="ignore"):  # what is not finite in an output is so in its row
            products = np.array([a @ b, a @ a, b @ b])
            difference = np.abs(a - b)
            self._noise += float(difference @ difference)
        self._products += products
        self._error += float(difference.sum())
        self._worst_error = float(np.maximum(self._worst_error, difference.max(initial=0.0)))
        self._count += a.size
        cosine = _cosine(products)
        if cosine < self._worst[0] or (math.isnan(cosine) and not math.isnan(self._worst[0])):
            self._worst = (cosine, index)

    def row(self) -> OutputRow:
        """Sum up."""
        signal, noise = float(self._products[1]), self._noise
        ratio = signal / noise if noise else math.inf
        snr = ratio if math.isnan(ratio) else 10 * math.log10(ratio) if ratio else -math.inf
        return OutputRow(
            self._name,
            self._shape,
            _cosine(self._products),
            *self._worst,
            self._worst_error,
            self._error / max(self._count, 1),
            snr,
        )


def _cosine(products: Array) -> float:
    """1.0 for two vectors without a length, 0.0 for one beside one with a length."""
    both, first, second = products.tolist()
    if 0.0 in (first, second):
        return float(first == second)
    if not all(map(math.isfinite, (both, first, second))):
        return math.nan
    return float(both / (math.sqrt(first) * math.sqrt(second)))
