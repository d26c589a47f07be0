"""Compare two runs of a model: float, the simulated NPU, a board, or recorded outputs.

`compare` compares outputs and detections. The accuracy analysis of the vendor's toolkit, which
judges single layers, is in `rknn_runtime.conversion.analysis`, and can be imported from here.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Union

import numpy as np

from rknn_runtime._arrays import Array, as_float, as_list
from rknn_runtime._files import printable_lines
from rknn_runtime.conversion.analysis import (
    Analysis,
    AnalysisRow,
    LayerError,
    parse_analysis,
    read_analysis,
)
from rknn_runtime.conversion.average_precision import (
    AveragePrecision,
    average_precision,
    overlaps,
    pairs,
)
from rknn_runtime.conversion.html import MOST_SIDE, page
from rknn_runtime.conversion.measures import MEASURES
from rknn_runtime.conversion.readings import confirmed, shrink
from rknn_runtime.conversion.sides import (
    Comparable,
    Decoding,
    OnnxSide,
    RecordedSide,
    Side,
    open_side,
)
from rknn_runtime.conversion.verdict import (
    Advice,
    Example,
    accuracy_parts,
    example_of,
    verdict_on,
    verdict_part,
)
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.images import as_scaled
from rknn_runtime.vision.plausibility import Judge, Symptom

__all__ = [
    "AccuracyReport", "Analysis", "AnalysisRow", "AveragePrecision", "DetectionRow", "LayerError",
    "Match", "OutputRow", "ResultRow", "average_precision", "compare", "parse_analysis",
    "read_analysis",
]  # fmt: skip

#: The forms of a frame: the path of an image, one input, or all inputs.
GivenFrame = Union[str, "os.PathLike[str]", Array, Sequence[Array]]
#: Images with pictures.
_EXAMPLES = 4
Progress = Callable[[int, Union[int, None]], object]


@dataclass(frozen=True)
class OutputRow:
    """An output of both sides, over all frames."""

    name: str
    #: The shape for one frame, in the order of the exporting framework.
    shape: tuple[int, ...]
    #: The cosine of both, with all values of all frames as one vector; 1.0 is the same direction.
    cosine: float
    #: The smallest cosine of a frame, and the number of this frame from 0.
    worst_cosine: float
    worst_frame: int
    #: Largest and mean absolute difference, in the unit of the output.
    max_error: float
    mean_error: float
    #: Signal to noise, ``10 log10(sum(a**2) / sum((a - b)**2))`` in decibels; infinite if both are
    #: equal.
    snr_db: float


@dataclass(frozen=True)
class Match:
    """A detection of both sides."""

    frame: int
    class_id: int
    iou: float
    #: The confidence of the reference, and of the other.
    confidence: float
    other_confidence: float
    #: How far the keypoints of both are apart in pixels of the network's input, on average and at
    #: most; None: there are none.
    points_apart: float | None = None
    worst_point: float | None = None


@dataclass(frozen=True)
class DetectionRow:
    """The detections of both sides, over all frames."""

    #: The number of detections of the reference, and of the other.
    count: int
    other_count: int
    matches: tuple[Match, ...]
    #: ``(frame, class, confidence)`` of detections that only the reference has.
    missed: tuple[tuple[int, int, float], ...]
    #: ``(frame, class, confidence)`` of detections that only the other has.
    extra: tuple[tuple[int, int, float], ...]

    @property
    def mean_iou(self) -> float:
        """The mean IoU of the matches; NaN without a match."""
        return _mean([match.iou for match in self.matches])

    @property
    def mean_confidence_difference(self) -> float:
        """The mean absolute difference of confidence of the matches; NaN without a match."""
        return _mean([abs(m.other_confidence - m.confidence) for m in self.matches])

    @property
    def max_confidence_difference(self) -> float:
        """The largest absolute difference of confidence of the matches; NaN without a match."""
        found = [abs(m.other_confidence - m.confidence) for m in self.matches]
        return max(found, default=math.nan)

    @property
    def mean_points_apart(self) -> float:
        """The mean distance of keypoints of the matches in pixels; NaN without keypoints."""
        return _mean([m.points_apart for m in self.matches if m.points_apart is not None])

    @property
    def max_points_apart(self) -> float:
        """The largest distance of keypoints of the matches in pixels; NaN without keypoints."""
        found = [m.worst_point for m in self.matches if m.worst_point is not None]
        return max(found, default=math.nan)


@dataclass(frozen=True)
class ResultRow:
    """How alike the results of both sides are, by the measure of their task; 1.0 is equal."""

    #: ``"texts equal"``, ``"IoU of boxes"``, ``"mIoU"`` or ``"PCK"``.
    measure: str
    mean: float
    worst: float
    #: The number of the worst frame, from 0.
    worst_frame: int

    def __str__(self) -> str:
        return (
            f"{self.measure}: {self.mean:.4f} on average, {self.worst:.4f} at worst (frame "
            f"{self.worst_frame})"
        )


@dataclass(frozen=True)
class AccuracyReport:
    """A comparison of two runs; ``str()`` is a table, the worst output first."""

    #: The names of both sides.
    reference: str
    other: str
    frames: int
    #: The outputs in the order of the reference; empty if the sides have different outputs.
    outputs: tuple[OutputRow, ...]
    #: None if detections were not wanted.
    detections: DetectionRow | None = None
    #: The precision of the reference and of the other, if the ground truth was given.
    average_precision: tuple[AveragePrecision, AveragePrecision] | None = None
    #: Implausible detections of the reference, and of the other side.
    symptoms: tuple[tuple[Symptom, ...], tuple[Symptom, ...]] = ((), ())
    #: The first images with the objects of both.
    examples: tuple[Example, ...] = field(default=(), repr=False)
    #: Of text, scenes and keypoints, if a side's file says its task.
    results: ResultRow | None = None

    @property
    def verdict(self) -> Advice:
        """What to do with the model."""
        return verdict_on(self)

    def to_html(self) -> str:
        """Return the report as a page that loads nothing from elsewhere, the verdict first."""
        title = f"{self.reference} beside {self.other}"
        return page(title, [verdict_part(self.verdict), *accuracy_parts(self)])

    def worst(self, count: int = 5) -> tuple[OutputRow, ...]:
        """Return the outputs with the smallest cosines, smallest first."""
        return tuple(sorted(self.outputs, key=lambda row: row.cosine)[:count])

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, ready for JSON; None replaces NaN and infinity."""
        said = {"verdict": self.verdict._asdict(), **asdict(replace(self, examples=()))}
        del said["examples"]
        if self.detections is not None:
            names = "mean_iou mean_confidence_difference max_confidence_difference"
            for name in f"{names} mean_points_apart max_points_apart".split():
                said["detections"][name] = getattr(self.detections, name)
        found: dict[str, Any] = plain(said)
        return found

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        lines = [str(self.verdict), f"{self.reference} beside {self.other}, {frames}"]
        if self.outputs:
            lines.append("   cosine     worst  max error mean error  SNR dB  output")
        for row in self.worst(len(self.outputs)):
            lines.append(
                f"{row.cosine:9.6f} {row.worst_cosine:9.6f} {row.max_error:10.4g} "
                f"{row.mean_error:10.4g} {row.snr_db:7.2f}  {row.name}"
            )
        if self.detections is not None:
            lines += _words(self.detections)
        if self.results is not None:
            lines.append(str(self.results))
        if self.average_precision is not None:
            for name, found in zip((self.reference, self.other), self.average_precision):
                lines.append(f"{found}  {name}")
        return printable_lines(lines)


def _words(row: DetectionRow) -> list[str]:
    lines = [
        f"detections: {row.count} and {row.other_count}, {len(row.matches)} in both, "
        f"{len(row.missed)} missed, {len(row.extra)} invented"
    ]
    if row.matches:
        lines.append(
            f"in both: IoU {row.mean_iou:.4f} on average, {min(m.iou for m in row.matches):.4f} "
            f"at least; confidence {row.mean_confidence_difference:.4f} apart on average, "
            f"{row.max_confidence_difference:.4f} at most"
        )
    if not math.isnan(row.mean_points_apart):
        lines.append(
            f"keypoints: {row.mean_points_apart:.2f} pixels apart on average, "
            f"{row.max_points_apart:.2f} at most"
        )
    return lines


def _points_apart(
    ours: Detections, theirs: Detections, i: int, j: int
) -> tuple[float | None, float | None]:
    """Return the mean and the largest distance of the keypoints of two objects."""
    if ours.keypoints is None or theirs.keypoints is None or ours.keypoints.shape[1] == 0:
        return None, None
    difference = ours.keypoints[i, :, :2].astype(float) - theirs.keypoints[j, :, :2]
    apart = np.hypot(difference[:, 0], difference[:, 1])
    return float(apart.mean()), float(apart.max())


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def plain(value: Any) -> Any:
    """Return a value as JSON takes it; None replaces NaN and infinity."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def compare(
    a: Comparable,
    b: Comparable,
    frames: Iterable[GivenFrame],
    *,
    detect: bool = False,
    truth: Iterable[Detections] | None = None,
    match_iou: float = 0.5,
    task: str | None = None,
    mean_values: Sequence[Sequence[float]] | None = None,
    std_values: Sequence[Sequence[float]] | None = None,
    color: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> AccuracyReport:
    """Run two sides on the same frames, and compare their outputs.

    A side has one of these forms:

    - the path of an ``.onnx`` file, which onnxruntime computes in float;
    - a ``.rknn`` file or a bundle, by path or as bytes, on the simulated NPU;
    - a loaded `Model` or `GeneralModel`, as on a board;
    - the path of an ``.npz`` file of recorded outputs: an array per output, whose first dimension
      counts the frames;
    - a list of recorded outputs: a list of arrays per frame.

    Frames are taken one at a time, so a generator over thousands needs little memory.

    Args:
        a: The reference.
        b: The other side.
        frames: For each frame, the inputs as for `Model.run` (or the only one), or an image of any
            size to letterbox: a path, or ``(H, W, C) uint8``.
        detect: Also decode both, and compare the detections.
        truth: The true objects of each frame, in pixels of the image, for mAP; implies `detect`.
        match_iou: Detections of a class match from this IoU on.
        task: ``"text-detection"``, ``"text-recognition"``, ``"semantic"`` or ``"keypoints"``: also
            compare the results of this task. None: that of a side's file, if it says one.
        mean_values: For ONNX files: the mean of each channel per input, as in the toolkit's
            ``config``. None: the values of the other side's model, else 0.
        std_values: For ONNX files: the divisor of each channel per input. None: the values of the
            other side's model, else 1.
        color: The colours that the sides take, ``"RGB"`` or ``"BGR"``, and that frames of arrays
            have; None: those that a side's file says, else RGB.
        progress: Called with the number of frames done, and of all (None if not known).
        **options: With `detect`: ``head``, ``labels`` (names, or a file of them), and the options
            of the decoder, as for `Detector`.

    Returns:
        The report.

    Raises:
        InvalidModelError: A file is no model or no recording.
        OSError: A file cannot be read.
        ImportError: onnxruntime is not installed.
        RknnError: A model fails.
        ValueError: The sides have different outputs (without `detect`), a frame does not fit, no
            frame was given, or no known head has such outputs.
    """
    threshold = as_float(match_iou, "match_iou")
    if task not in (None, *MEASURES):
        raise ValueError(f"task: expected one of {', '.join(MEASURES)}, got {task!r}")
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
            sides.append(open_side(side, name, given))
            opened.callback(sides[-1].close)
        for mine, other in (sides, sides[::-1]) if given is None else ():
            # An ONNX file gets the normalization of the `.rknn` model on the other side.
            if mine.inputs is None and mine.preprocessing is None:
                mine.preprocessing = other.preprocessing
        run = _Run(sides, detect or truth is not None, options, threshold, task)
        run.color = color or _color_of(sides)
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


def _color_of(sides: Sequence[Side]) -> str:
    """Return the channel order of the first side that is a file."""
    for side in sides:
        if side.custom_string is not None:
            given = side.preprocessing
            is_swapped = given and given[0] is not None and given[0].rgb2bgr
            color: str = facts_of(side.custom_string).get("color", "BGR" if is_swapped else "RGB")
            return color
    return "RGB"


class _Run:
    color = "RGB"

    def __init__(
        self,
        sides: list[Side],
        detect: bool,
        options: dict[str, Any],
        match_iou: float,
        task: str | None,
    ) -> None:
        self._sides = sides
        self._match_iou = match_iou
        self._decoding = Decoding(sides, options) if detect else None
        self._sums: list[_Sum] | None = None
        self._order: list[int] = []
        self._matches: list[Match] = []
        self._only: tuple[list[Any], list[Any]] = ([], [])
        self._found: tuple[list[Detections], list[Detections]] = ([], [])
        self._judges = Judge(), Judge()
        self._examples: list[Example] = []
        said = [facts_of(side.custom_string).get("task") for side in sides if side.custom_string]
        self._task: str = task or next((each for each in said if each in MEASURES), "")
        self._alike: list[float] = []

    def over(
        self,
        frames: Iterable[GivenFrame],
        truth: Iterable[Detections] | None,
        progress: Progress | None,
    ) -> AccuracyReport:
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
            None
            if self._decoding is None
            else DetectionRow(
                sum(map(len, self._found[0])),
                sum(map(len, self._found[1])),
                tuple(self._matches),
                tuple(self._only[0]),
                tuple(self._only[1]),
            ),
            precision,
            (self._judges[0].symptoms(), self._judges[1].symptoms()),
            tuple(self._examples),
            self._results(),
        )

    def _results(self) -> ResultRow | None:
        if not self._alike:
            return None
        worst = int(np.argmin(self._alike))
        name, mean = MEASURES[self._task].name, _mean(self._alike)
        return ResultRow(name, mean, self._alike[worst], worst)

    def _take(self, index: int, frame: GivenFrame) -> None:
        fit = "line" if self._task == "text-recognition" else "center"
        inputs, transform = _inputs(frame, self._sides, self.color, fit)
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
        if self._order and self._task in MEASURES:
            height, width = inputs[0].shape[-3:-1]
            other_results = [results[1][other] for other in self._order]
            self._alike.append(
                MEASURES[self._task].alike(results[0], other_results, (height, width))
            )
        if self._decoding is None:
            return
        ours, theirs = self._decoding.decode(results, inputs, transform)
        self._found[0].append(ours)
        self._found[1].append(theirs)
        alone = self._match(index, ours, theirs)
        size = inputs[0].shape[-3:-1] if transform is None else transform.image_size
        for judge, found in zip(self._judges, (ours, theirs)):
            judge.add(found, size)
        if index < _EXAMPLES:
            self._confirm(index, inputs, results[0])
            with suppress(ImportError):  # Pillow
                name = Path(frame).name if isinstance(frame, (str, os.PathLike)) else f"{index}"
                pixels = _shown(frame, inputs, self.color)
                self._examples.append(example_of(name, pixels, size, (ours, theirs), alone))

    def _confirm(self, index: int, inputs: tuple[Array, ...], results: list[Array]) -> None:
        """Note which part of the reference's objects is in the mirrored and shrunk image, too."""
        side, decoding = self._sides[0], self._decoding
        pixels = inputs[0].reshape(inputs[0].shape[-3:])
        if decoding is None or isinstance(side, RecordedSide) or pixels.dtype != np.uint8:
            return
        size = pixels.shape[:2]
        views = [
            side.run(index, (np.ascontiguousarray(view[None]),))
            for view in (pixels[:, ::-1], shrink(pixels))
        ]
        whole, mirrored, shrunk = (decoding.decode_first(each, size) for each in (results, *views))
        self._judges[0].confirm(
            float(whole.confidence.sum()), confirmed(whole, mirrored, shrunk, size)
        )

    def _match(self, index: int, ours: Detections, theirs: Detections) -> tuple[set[int], set[int]]:
        """Pair the objects of both sides; return the numbers of those without a pair."""
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
                    *_points_apart(ours, theirs, i, j),
                )
            )
        alone = (
            set(range(len(ours))) - {i for i, _ in found},
            set(range(len(theirs))) - {j for _, j in found},
        )
        for side, only, numbers in zip((ours, theirs), self._only, alone):
            only += [(index, side[i].class_id, side[i].confidence) for i in sorted(numbers)]
        return alone


def _shown(frame: GivenFrame, inputs: tuple[Array, ...], color: str) -> Array:
    """Return a frame as ``(H, W, C) uint8``, RGB, large enough for a page."""
    if isinstance(frame, (str, os.PathLike)):
        return as_scaled(frame, "RGB", lambda _: (MOST_SIDE, MOST_SIDE)).pixels
    if isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.dtype == np.uint8:
        return frame
    pixels = inputs[0].reshape(inputs[0].shape[-3:])
    if pixels.dtype != np.uint8:
        pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    return pixels[..., ::-1] if color == "BGR" and pixels.shape[2] == 3 else pixels


def _inputs(
    frame: GivenFrame, sides: Sequence[Side], color: str, fit: str
) -> tuple[tuple[Array, ...], Any]:
    """Return the arrays of a frame, and the transform if it was letterboxed."""
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
    # Imported only here: arrays that fit do not need it.
    from rknn_runtime.vision.letterbox import placed

    pixels, transform = placed(frame, size, color, fit)
    return (pixels[None],), transform


def _image_size(sides: Sequence[Side]) -> tuple[int, int] | None:
    """Return height and width of the one image input."""
    for side in sides:
        if side.inputs is not None:
            if len(side.inputs) == 1 and side.inputs[0].takes_pixels:
                return side.inputs[0].height, side.inputs[0].width
            return None
    for side in sides:
        graphs = side.graph.inputs if isinstance(side, OnnxSide) else ()
        if len(graphs) == 1 and len(graphs[0].shape) == 4:
            height, width = graphs[0].shape[2:]
            return (height, width) if height and width else None
    return None


def _pairing(sides: Sequence[Side], results: list[list[Array]], *, must: bool) -> list[int]:
    """Find the output of the other side for each of the reference, by name or by position."""
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
            f"{sides[1].name}: expected outputs as those of {sides[0].name}, {listed[0]}, got "
            f"{listed[1]}; to compare what they detect, give --detect (detect=True in Python)"
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
        a, b = (np.asarray(array, np.float64).ravel() for array in (ours, theirs))
        if a.size != b.size:
            raise ValueError(
                f"frame {index}: expected {a.size} values in {self._name!r} of both, got {b.size}"
            )
        with np.errstate(all="ignore"):  # NaN and infinity go on into the row
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
    """Return the cosine; 1.0 if both vectors are zero, and 0.0 if only one is."""
    both, first, second = products.tolist()
    if 0.0 in (first, second):
        return float(first == second)
    if not all(map(math.isfinite, (both, first, second))):
        return math.nan
    return float(both / (math.sqrt(first) * math.sqrt(second)))
