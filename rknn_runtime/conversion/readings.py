"""Read a detector on photos in the ways that people get wrong, and name the most plausible one.

The content of the photos is not known. A reading is plausible if it finds objects with confidence,
and the same ones in the mirrored and in the shrunk photo; wrong readings do not.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import printable_lines
from rknn_runtime.conversion.average_precision import overlaps, pairs
from rknn_runtime.conversion.html import for_page, page, picture
from rknn_runtime.conversion.plan import named, plan_of
from rknn_runtime.conversion.sides import ModelSide, OnnxSide, Side, float_attr
from rknn_runtime.modelfile.custom_string import facts_of
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.model import Model
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.detections import Detections
from rknn_runtime.vision.heads.decoder import Decoder
from rknn_runtime.vision.heads.find import FORMS, Reading, find_head
from rknn_runtime.vision.image_model import calibrated_for
from rknn_runtime.vision.images import as_scaled
from rknn_runtime.vision.labels import Labels
from rknn_runtime.vision.letterbox import letterbox
from rknn_runtime.vision.plausibility import Judge, Symptom, signs

Options = tuple[tuple[str, Any], ...]

#: Mean and divisor of what networks take.
NORMALIZATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "0 to 1": ((0.0,), (255.0,)),
    "0 to 255": ((0.0,), (1.0,)),
    "ImageNet's": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    "-1 to 1": ((127.5,), (127.5,)),
}
#: Pixels of the longer side of a picture on the page, which has three in a row.
_SIDE = 600
#: More photos add time, not knowledge.
_MOST_PHOTOS = 3
#: A reading is better than another one from this factor on, and plausible from this sum of
#: confidences per photo on.
_CLEAR, _PLAUSIBLE = 1.25, 0.4
#: An unusual normalization is right if it is better than the usual one by this factor. A wrong one
#: can be better by less, as int8 was calibrated with it.
_PROVEN = 2
#: Readings that are nearly as good as the best one.
_EQUAL = 0.9
#: Changed pixels stand for another normalization if they keep so many levels and lose so few.
_LEVELS, _CLIPPED = 32, 0.02
_SHRUNK = 0.8
#: Readings on the page.
_SHOWN = 8
#: Options of decoders that the range of an integer output tells, and photos may contradict.
_TOLD = ("logits", "normalized")


@dataclass(frozen=True)
class Way:
    """One way to use a model."""

    head: str
    color: str
    #: A key of `NORMALIZATIONS`, or the mean and the divisor.
    normalization: str
    is_stretched: bool = False
    #: Options of the decoder.
    options: Options = ()

    def changes(self, other: Way) -> dict[str, str]:
        """Describe the differences of another way, by cause."""
        found = {}
        if other.head != self.head:
            found["head"] = f"the head {other.head}"
        elif dict(other.options) != dict(self.options):
            old = dict(self.options)
            changed = [f"{k}={v}" for k, v in other.options if old.get(k) != v]
            found["scale"] = ", ".join(changed)
        if other.color != self.color:
            found["color"] = f"colours in the order {other.color}"
        if other.normalization != self.normalization:
            found["normalization"] = f"pixels as {other.normalization}"
        if other.is_stretched != self.is_stretched:
            found["letterbox"] = "the photo stretched" if other.is_stretched else "a letterbox"
        return found

    def __str__(self) -> str:
        told = [f"{name}={value}" for name, value in self.options if name in _TOLD]
        fit = "stretched" if self.is_stretched else "letterboxed"
        return ", ".join([self.head, *told, self.color, f"pixels {self.normalization}", fit])


@dataclass(frozen=True)
class Tried:
    """A way and its objects."""

    way: Way
    #: The sum of the confidences that other views confirm, per photo.
    quality: float
    symptoms: tuple[Symptom, ...]
    #: The objects of each photo, in pixels of the model's input.
    found: tuple[Detections, ...]


@dataclass(frozen=True)
class Readings:
    """The verdict; ``str()`` is a text."""

    model: str
    #: The mistakes, the most likely first: ``"labels"``, ``"head"``, ``"scale"``, ``"color"``,
    #: ``"normalization"`` or ``"letterbox"``; empty if nothing is, or nothing is known.
    causes: tuple[str, ...]
    #: Whether the photos prove it.
    is_sure: bool
    text: str
    #: A line of code or a command; empty if nothing is to be done.
    cure: str
    #: How many times as plausible it is as the best reading without these changes.
    margin: float
    #: The most plausible first.
    tried: tuple[Tried, ...] = ()
    #: How the model is used now; None: it cannot be used so.
    used: Way | None = None
    #: With the changes that are proposed; None: none are.
    proposed: Way | None = None
    photos: tuple[Array, ...] = field(default=(), repr=False)
    size: tuple[int, int] = (1, 1)
    labels: Labels | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the photos as plain Python values, ready for JSON."""
        names = ("model", "causes", "is_sure", "text", "cure", "margin")
        tried = [
            {
                "reading": str(each.way),
                "plausibility": each.quality,
                "objects": sum(map(len, each.found)),
                "symptoms": [symptom.kind for symptom in each.symptoms],
            }
            for each in self.tried
        ]
        return {name: getattr(self, name) for name in names} | {"tried": tried}

    def __str__(self) -> str:
        lines = [self.text, *([f"  $ {self.cure}"] if self.cure else []), "plausibility:"]
        lines += [f"  {each.quality:6.2f}  {self._mark(each)}" for each in self._shown()]
        return printable_lines(lines)

    def _shown(self) -> list[Tried]:
        """Return the readings to show: the present, the proposed and the best other ones."""
        first = self.used, self.proposed
        known = [each for way in first for each in self.tried if each.way == way]
        return [*known, *(each for each in self.tried if each.way not in first)][:_SHOWN]

    def _mark(self, one: Tried) -> str:
        marks = {self.proposed: "proposed: ", self.used: "as it is used: "}
        return f"{marks.get(one.way, '')}{one.way}"

    def to_html(self) -> str:
        """Return a page with the photos side by side, read in each way."""
        word = "keep" if self.is_sure and not self.causes else "look"
        parts = [f'<p class="verdict {word}">{html.escape(self.text)}</p>']
        if self.cure:
            parts.append(f"<pre>{html.escape(self.cure)}</pre>")
        for i, photo in enumerate(self.photos):
            figures = []
            for each in self._shown():
                found = each.found[i]
                placed = _placed(found, each.way.is_stretched, self.size, photo.shape[:2])
                named = replace(placed, labels=self.labels)
                small, named = for_page(photo, named, photo.shape[:2], _SIDE)
                drawn = named.draw(small)
                seen = "".join(f"; {symptom.text}" for symptom in each.symptoms)
                figures.append(picture(drawn, f"{each.quality:.2f}: {self._mark(each)}{seen}"))
            parts.append(f'<h2>Photo {i + 1}</h2><div class="pair">{"".join(figures)}</div>')
        return page(f"Readings of {self.model}", parts)


def try_readings(
    model: str | os.PathLike[str],
    photos: Sequence[str | os.PathLike[str]],
    *,
    head: str = "auto",
    labels: Labels | str | os.PathLike[str] | None = None,
    color: str | None = None,
    mean: Sequence[float] = (0,),
    std: Sequence[float] = (255,),
    stretch: bool = False,
    keep_graph: bool = False,
    progress: Callable[[str], object] | None = None,
    **options: Any,
) -> Readings:
    """Find out which reading of a detector photos confirm.

    A ``.rknn`` file runs on the simulated NPU, an ``.onnx`` file in float. Other normalizations
    than the file's are tried as far as the file's pixels can stand for them; an ``.onnx`` file
    takes all.

    Args:
        model: A ``.rknn`` or ``.onnx`` file.
        photos: Paths of photos with objects that the network knows; three are taken.
        head: How the model is used now, as for `Detector`.
        labels: As for `Detector`.
        color: The ``input_color`` of `Detector`.
        mean: For an ``.onnx`` file: the mean of the channels, in 0..255.
        std: For an ``.onnx`` file: the divisor of the channels.
        stretch: As for `Detector`.
        keep_graph: For an ``.onnx`` file: do not cut the graph as `convert` does.
        progress: Called with a line before each run.
        **options: As for `Detector`.

    Raises:
        ImportError: Pillow or onnxruntime is not installed.
        OSError: A file cannot be read.
        RknnError: The model cannot be loaded.
        ValueError: The model does not take one image, or has no known head; or a photo cannot be
            decoded.
    """
    labels = named(labels)
    if not photos:
        raise ValueError("photos: expected at least one, got none")
    say = progress or (lambda line: None)
    normalization = _short(tuple(map(float, mean))), _short(tuple(map(float, std)))
    with ExitStack() as stack:
        subject = _Subject(Path(model), stack, labels, color, normalization, keep_graph)
        # As large as any reading scales them to.
        pictures = [
            as_scaled(photo, "RGB", lambda _: subject.size).pixels[..., :3]
            for photo in photos[:_MOST_PHOTOS]
        ]
        trials = _Trials(subject, pictures, say)
        given, complaint = None, ""
        try:
            given = subject.given(head, options, stretch)
        except ValueError as error:
            complaint = str(error).partition(";")[0].partition(":\n")[0]
        trials.explore(given, stretch)
        found = _verdict(subject, trials, given, complaint)
        order = sorted(trials.tried.values(), key=lambda each: -each.quality)
        is_cut = subject.is_cut and (not order or order[0].quality < _PLAUSIBLE)
        found = replace(
            found, tried=tuple(order), used=given, photos=tuple(pictures), size=subject.size,
            labels=subject.labels,
        )  # fmt: skip
    if not is_cut:
        return found
    whole = try_readings(
        model, photos, labels=labels, color=color, mean=mean, std=std, stretch=stretch,
        keep_graph=True, progress=progress,
    )  # fmt: skip
    if not whole.tried or whole.tried[0].quality < _PLAUSIBLE:
        return found
    head = found.tried[0].way.head if found.tried else "none"
    text = f"wrong: the head that convert finds, {head}; uncut, {whole.tried[0].way}"
    cure = f"rknn-runtime convert {model} --for SOC --keep-graph"
    return replace(whole, causes=("head", *whole.causes), is_sure=True, text=text, cure=cure)


def _placed(
    found: Detections, is_stretched: bool, size: tuple[int, int], shape: tuple[int, ...]
) -> Detections:
    """Return objects in pixels of the photo, as boxes."""
    scale = np.array([shape[1] / size[1], shape[0] / size[0]])
    if not is_stretched:
        scale[:] = scale.max()
    offset = (np.array(size[::-1]) * scale - shape[1::-1]) / 2
    boxes = found.xyxy * np.tile(scale, 2) - np.tile(offset, 2)
    boxes = np.clip(boxes, 0, np.tile(shape[1::-1], 2)).astype(np.float32)
    return Detections(boxes, found.confidence, found.class_id)


class _Subject:
    """A model whose inputs and outputs can be read in several ways; `stack` closes it."""

    def __init__(
        self,
        path: Path,
        stack: ExitStack,
        labels: Labels | None,
        color: str | None,
        normalization: tuple[tuple[float, ...], tuple[float, ...]],
        keep_graph: bool,
    ) -> None:
        self.path, self.labels, self.soc = path, labels, ""
        self.is_cut = False
        self.side: Side
        if path.suffix.lower() == ".onnx":
            plan = plan_of(path, {}, keep_graph, "auto", None, color or "RGB")
            if plan.onnx is None or plan.size is None:
                raise ValueError(f"{path}: expected a network that takes one image, got another")
            self.side, self.size, channels = (
                OnnxSide(plan.onnx, path.name, None),
                plan.size,
                plan.channels,
            )
            self.facts: dict[str, Any] = {}
            if plan.head is not None:
                logits = {"logits": True} if plan.head.logits else {}
                self.facts = {"head": plan.head.name, "options": {**plan.head.options, **logits}}
            self.labels = labels or plan.labels
            self.is_cut = bool(plan.cut)
            self.normalization = normalization
        else:
            model = stack.enter_context(Model(path, library="sim"))
            attr, self.soc = model.inputs[0], read(path).soc
            if len(model.inputs) != 1 or not attr.takes_pixels or attr.channels not in (1, 3):
                raise ValueError(f"{path}: expected a model that takes one image, got another")
            self.side, self.size, channels = (
                ModelSide(model, path.name, owned=False), (attr.height, attr.width), attr.channels
            )  # fmt: skip
            self.facts = facts_of(model.custom_string)
            self.labels = self.facts.get("labels") if labels is None else labels
            color = color or self.facts.get("color") or calibrated_for(model)
            given = model._preprocessing
            self.normalization = ((0.0,), (1.0,))
            if given and given[0] is not None:
                self.normalization = _short(given[0].mean), _short(given[0].std)
        self.color = "GRAY" if channels == 1 else color or "RGB"
        known = [name for name, each in NORMALIZATIONS.items() if each == self.normalization]
        mean, divisor = (",".join(f"{one:g}" for one in each) for each in self.normalization)
        self.normalization_name = known[0] if known else f"(x - {mean}) / {divisor}"
        #: The number of classes, if labels agree with the outputs.
        self.classes: int | None = None
        zeros = np.zeros((*self.size, channels), np.uint8)
        self.attrs = self.side.outputs or self.float_attrs(self.side.run(0, (zeros[None],)))

    def float_attrs(self, arrays: list[Array]) -> list[TensorAttr]:
        """Describe outputs in float."""
        return [float_attr(self.side, i, array) for i, array in enumerate(arrays)]

    def given(self, head: str, options: dict[str, Any], stretch: bool) -> Way:
        if head == "auto":
            head = self.facts.get("head", "auto")
            options = {**self.facts.get("options", {}), **options}
        count = None if self.labels is None else len(self.labels)
        reading = find_head(self.attrs, self.size, head, count)
        self.classes = count
        told = _told(reading.make(**options), options)
        return Way(reading.head, self.color, self.normalization_name, stretch, told)

    def reading(self, head: str, attrs: Sequence[TensorAttr]) -> Reading:
        """Read the outputs with a head; labels only help it."""
        count = None if self.labels is None else len(self.labels)
        with suppress(ValueError):
            return find_head(attrs, self.size, head, count)
        return find_head(attrs, self.size, head)

    def usual_head(self) -> str:
        """Return the head that the file names or its outputs usually have; empty: none."""
        with suppress(ValueError):
            return str(self.facts.get("head") or self.reading("auto", self.attrs).head)
        return ""

    def told(self, start: Tried, tried: Sequence[Tried]) -> Tried | None:
        """Return the plausible way with the options that ranges of outputs tell, if not this."""
        told = dict(_told(self.reading(start.way.head, self.attrs).make(), {}))
        options = tuple(sorted({**dict(start.way.options), **told}.items()))
        way = replace(start.way, options=options)
        same = [each for each in tried if each.way == way and way != start.way]
        return same[0] if same and same[0].quality >= _PLAUSIBLE else None

    def heads(self) -> Iterator[tuple[str, Options]]:
        """Yield each form that the outputs have, and the options that their ranges tell."""
        kept = self.facts.get("options", {})
        # Heads without NMS look like those with it, which read their outputs, too.
        names = [form.name for form in FORMS if not (form.named and form.nms_free)]
        for name in dict.fromkeys(names):
            options = kept if name == self.facts.get("head") else {}
            with suppress(ValueError, TypeError):
                reading = self.reading(name, self.attrs)
                if self.classes in (None, reading.num_classes):
                    yield name, _told(reading.make(**options), options)

    def run(self, image: Array, normalization: str) -> list[Array] | None:
        """Return the outputs, or None if the pixels cannot stand for another normalization."""
        wanted = NORMALIZATIONS.get(normalization, self.normalization)
        if isinstance(self.side, OnnxSide):
            mean, std = ((each * 3)[:3] for each in wanted)
            self.side.preprocessing = (Preprocessing(mean, std, rgb2bgr=False),)
        elif wanted != self.normalization:
            (low, divisor), (its_low, its_divisor) = (
                [np.array(each) for each in pair] for pair in (wanted, self.normalization)
            )
            changed = (image - low) / divisor * its_divisor + its_low
            if np.min(its_divisor / divisor) * 255 < _LEVELS:
                return None
            if np.mean((changed < -0.5) | (changed > 255.5)) > _CLIPPED:
                return None
            image = np.clip(np.rint(changed), 0, 255).astype(np.uint8)
        return self.side.run(0, (image[None],))


def _told(decoder: Decoder, options: Mapping[str, Any]) -> Options:
    """Return the options that outputs in float do not tell."""
    told = {name: getattr(decoder, name) for name in _TOLD if hasattr(decoder, name)}
    return tuple(sorted({**told, **options}.items(), key=lambda item: item[0]))


def _short(values: tuple[float, ...]) -> tuple[float, ...]:
    return values[:1] if len(set(values)) == 1 else values


class _Trials:
    """Tries ways on photos; each input is run once."""

    def __init__(
        self, subject: _Subject, photos: Sequence[Any], say: Callable[[str], object]
    ) -> None:
        self._subject, self._photos, self._say = subject, photos, say
        self._outputs: dict[tuple[str, str, bool], list[list[list[Array]]] | None] = {}
        self.tried: dict[Way, Tried] = {}

    def test(self, way: Way) -> Tried | None:
        """Read the photos in a way; None if the model cannot be run or read so."""
        if way in self.tried:
            return self.tried[way]
        views = self._views(way)
        if views is None:
            return None
        try:
            attrs = self._subject.float_attrs(views[0][0])
            decoder = self._subject.reading(way.head, attrs).make(**dict(way.options))
        except (ValueError, TypeError):
            return None
        judge, found, quality = Judge(), [], 0.0
        for photo in views:
            plain, mirrored, shrunk = (_decoded(decoder, outputs) for outputs in photo)
            found.append(plain)
            judge.add(plain, self._subject.size)
            if not any(signs(plain, self._subject.size, 300)):
                quality += confirmed(plain, mirrored, shrunk, self._subject.size)
        self.tried[way] = Tried(way, quality / len(views), judge.symptoms(), tuple(found))
        return self.tried[way]

    def _views(self, way: Way) -> list[list[list[Array]]] | None:
        """Return the outputs of each photo: plain, mirrored and shrunk."""
        key = way.color, way.normalization, way.is_stretched
        if key not in self._outputs:
            self._say(f"trying {way.color}, {way.normalization}{', stretched' * way.is_stretched}")
            self._outputs[key] = self._run(way)
        return self._outputs[key]

    def _run(self, way: Way) -> list[list[list[Array]]] | None:
        size, found = self._subject.size, []
        for photo in self._photos:
            pixels, _ = letterbox(photo, size, out_color=way.color, stretch=way.is_stretched)
            outputs = [
                self._subject.run(np.ascontiguousarray(view), way.normalization)
                for view in (pixels, pixels[:, ::-1], shrink(pixels))
            ]
            if any(each is None for each in outputs):
                return None
            found.append([each for each in outputs if each is not None])
        return found

    def around(self, way: Way) -> Iterator[Way]:
        """Yield the ways with one change."""
        start = self.tried.get(way)
        # What finds anything has the right head, but anchors change boxes alone.
        if start is None or start.quality < _PLAUSIBLE or way.head in ("yolov5", "yolov7"):
            for head, options in self._subject.heads():
                yield replace(way, head=head, options=options)
        if way.color != "GRAY":
            yield replace(way, color="BGR" if way.color == "RGB" else "RGB")
        for name in NORMALIZATIONS:
            yield replace(way, normalization=name)
        height, width = self._subject.size
        if any(photo.shape[0] * width != photo.shape[1] * height for photo in self._photos):
            yield replace(way, is_stretched=not way.is_stretched)
        for name in _TOLD:
            if name in dict(way.options):
                options = tuple((k, not v if k == name else v) for k, v in way.options)
                yield replace(way, options=options)

    def explore(self, given: Way | None, stretch: bool) -> None:
        """Try the given way, all ways with one change, and from the best one with one more."""
        subject = self._subject
        start = Way("", subject.color, subject.normalization_name, stretch)
        for way in [] if given is None else [given]:
            self.test(way)
        for _ in range(2):
            for way in self.around(given or start):
                self.test(way)
            best = max(self.tried.values(), key=lambda each: each.quality, default=None)
            if best is None or best.way == given:
                return
            given = best.way


def _decoded(decoder: Decoder, outputs: list[Array]) -> Detections:
    raw = [
        np.ascontiguousarray(outputs[attr.index], np.float32).reshape(attr.shape)
        for attr in decoder.outputs
    ]
    return decoder(raw)


def shrink(pixels: Array) -> Array:
    """Return an image made smaller in a frame of its size."""
    height, width = pixels.shape[:2]
    size = round(height * _SHRUNK), round(width * _SHRUNK)
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    canvas = np.full_like(pixels, 114)
    canvas[top : top + size[0], left : left + size[1]] = letterbox(
        pixels, size, stretch=True, out_color="GRAY" if pixels.shape[2] == 1 else "RGB"
    )[0]
    return canvas


def confirmed(
    plain: Detections, mirrored: Detections, shrunk: Detections, size: tuple[int, int]
) -> float:
    """Return the sum of confidences that other views confirm, less where they contradict."""
    height, width = size
    flipped = mirrored.xyxy[:, [2, 1, 0, 3]] * (-1, 1, -1, 1) + (width, 0, width, 0)
    edges = [side - round(side * _SHRUNK) for side in (width, height)]
    offset = np.array(edges * 2) // 2
    grown = (shrunk.xyxy - offset) / _SHRUNK
    return (
        _agreement(plain, mirrored, flipped, size) / 2 + _agreement(plain, shrunk, grown, size) / 2
    )


def _agreement(one: Detections, other: Detections, boxes: Array, size: tuple[int, int]) -> float:
    """Return the sum of confidences of objects in both views, times the part that is in both.

    Objects outside of the image, or nearly where a more certain one is, are in neither.
    """
    kept, others = _sound(one.xyxy, size), _sound(boxes, size)
    same = one.class_id[kept][:, None] == other.class_id[others]
    iou = overlaps(one.xyxy[kept], boxes[others].astype(np.float32))
    both = pairs(iou, same, 0.5)
    weights = [
        float(iou[i, j] * min(one.confidence[kept[i]], other.confidence[others[j]]))
        for i, j in both
    ]
    return sum(weights) * 2 * len(both) / max(len(one) + len(other), 1)


def _sound(boxes: Array, size: tuple[int, int]) -> list[int]:
    """Return which boxes, the most certain first, are mostly inside and overlap none before."""
    whole = np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(axis=1)
    inside = np.clip(boxes, 0, np.tile(size[::-1], 2))
    seen = np.maximum(inside[:, 2:] - inside[:, :2], 0).prod(axis=1)
    iou = overlaps(boxes.astype(np.float32), boxes.astype(np.float32))
    kept: list[int] = []
    for i in np.flatnonzero(2 * seen > whole).tolist():
        if not kept or iou[i, kept].max() < 0.5:
            kept.append(i)
    return kept


def _verdict(subject: _Subject, trials: _Trials, given: Way | None, complaint: str) -> Readings:
    """Name the causes, whether the photos prove them, and the cure."""
    name, tried = subject.path.name, list(trials.tried.values())
    if given is not None and subject.path.suffix.lower() == ".onnx":
        # The ranges of a converted file will tell the decoder; the network in float has none.
        same = [each for each in tried if replace(each.way, options=given.options) == given]
        given = max(same, key=lambda each: each.quality).way if same else given
    start = None if given is None else trials.tried.get(given)
    told = None if start is None else subject.told(start, tried)
    tried = [each for each in tried if subject.told(each, tried) is None]
    usual = subject.usual_head()
    if given is None and any(
        each.quality >= _PLAUSIBLE and each.way.head == usual for each in tried
    ):
        tried = [each for each in tried if each.way.head == usual]
    best = max((each.quality for each in tried), default=0.0)
    if best < _PLAUSIBLE:
        return _guess(subject, start, complaint)
    doubt = _doubted_normalization(subject, tried)
    if start is not None and start.quality >= _EQUAL * best and told is None:
        other = _without_labels(subject, start)
        if other is not None:
            return other
        if doubt:
            return _normalization(subject, start.way, f"not sure; perhaps wrong: {doubt}")
        rivals = [
            each.way.head
            for each in tried
            if each.quality >= _EQUAL * best
            and each.way.head != start.way.head
            and each.found != start.found
        ]
        text = "used like this it finds plausible objects, and no other reading is better"
        if rivals:
            text = f"not sure: with the head {rivals[0]} it finds as much; compare the boxes"
        return Readings(name, (), not rivals, text, "", best / start.quality)
    # Choose the way with the fewest changes among those that no other is clearly better than.
    base = given or Way("", subject.color, subject.normalization_name)
    good = [each for each in tried if each.quality * _CLEAR >= best and each is not start]
    count = None if subject.labels is None else len(subject.labels)

    def strangeness(each: Tried) -> tuple[int, bool, bool]:
        different = base.changes(each.way)
        return len(different), "head" in different, _classes(subject, each.way) not in (None, count)

    chosen = told or min(good, key=strangeness)
    changes = base.changes(chosen.way)
    others = [
        each.quality
        for each in [*tried, *([] if start is None else [start])]
        if not changes.items() <= base.changes(each.way).items() and each.found != chosen.found
    ]
    margin = chosen.quality / max([*others, 0.01])
    classes = _classes(subject, chosen.way)
    if "head" in changes and None not in (count, classes) and count != classes:
        changes = {
            "labels": f"{classes} classes instead of {count}, {changes.pop('head')}",
            **changes,
        }
    possible = {"color", "letterbox"}
    if chosen.way.head != (subject.usual_head() or chosen.way.head):
        possible |= {"head", "labels"}
    if doubt and changes.keys() <= possible:
        more = f"or the {' or the '.join(changes)}: with {' and '.join(changes.values())}"
        more = f"{doubt}; {more} {chosen.quality:.2f} is confirmed instead of {_quality(start)}"
        found = _normalization(subject, base, f"not sure; perhaps wrong: {more}")
        return replace(found, causes=("normalization", *changes))
    is_sure = margin >= _CLEAR
    said = (
        f"wrong: the {' and the '.join(changes)}."
        if is_sure
        else (f"not sure; perhaps wrong: the {' or the '.join(changes)}.")
    )
    now = complaint or f"As it is used, {_quality(start)} of confidence"
    text = f"{said} {now}; with {' and '.join(changes.values())}, {chosen.quality:.2f} is confirmed"
    return Readings(
        name, tuple(changes), is_sure, text, _cure(subject, chosen.way, changes),
        min(margin, 99.0), proposed=chosen.way,
    )  # fmt: skip


def _without_labels(subject: _Subject, start: Tried) -> Readings | None:
    """Doubt a number of labels that alone makes the outputs an unusual head."""
    if subject.labels is None or "head" in subject.facts:
        return None
    with suppress(ValueError):
        usual = find_head(subject.attrs, subject.size)
        if usual.head != start.way.head and usual.num_classes not in (None, len(subject.labels)):
            text = (
                f"not sure; perhaps wrong: the labels. With {len(subject.labels)} of them the head "
                f"is taken for {start.way.head}, while such outputs usually are {usual.head} of "
                f"{usual.num_classes} classes"
            )
            cure = f"Detector(model, labels, head={usual.head!r})"
            return Readings(subject.path.name, ("labels",), False, text, cure, 1.0)
    return None


def _classes(subject: _Subject, way: Way) -> int | None:
    with suppress(ValueError):
        return subject.reading(way.head, subject.attrs).num_classes
    return None


def _quality(start: Tried | None) -> str:
    return f"{0 if start is None else start.quality:.2f}"


#: If other than 0 to 1.
_USUAL_NORMALIZATION = {
    "yolox": "0 to 255", "yunet": "0 to 255", "ppyoloe": "", "picodet": "", "nanodet": "",
    "ssd": "", "retinaface": "", "scrfd": "",
}  # fmt: skip


def _usual_normalization(head: str) -> str:
    """Return the usual range of pixels of a head's networks; empty if projects differ."""
    return _USUAL_NORMALIZATION.get(head.partition("-")[0], "0 to 1")


def _doubted_normalization(subject: _Subject, tried: Sequence[Tried]) -> str:
    """Doubt an unusual normalization of a file that photos do not confirm; return why, or empty.

    It is judged for the head that the outputs show: another one may seem right because of it.
    """
    best = max(tried, key=lambda each: each.quality)
    head = subject.usual_head() or best.way.head
    usual, mine = _usual_normalization(head), subject.normalization_name
    if subject.path.suffix.lower() == ".onnx" or not usual or mine == usual:
        return ""
    as_it_is, as_usual = (
        max(
            (
                each.quality
                for each in tried
                if (each.way.head, each.way.normalization) == (head, name)
            ),
            default=0.0,
        )
        for name in (mine, usual)
    )
    if as_usual > _CLEAR * as_it_is or as_it_is > _PROVEN * as_usual > 0:
        return ""
    return _unusual(subject, head)


def _unusual(subject: _Subject, head: str) -> str:
    return (
        f"the normalization. The file takes pixels as {subject.normalization_name}, while networks "
        f"with the head {head} usually take {_usual_normalization(head)}. The .onnx file with the "
        "same photos would prove it"
    )


def _normalization(subject: _Subject, way: Way, text: str) -> Readings:
    """Return that the normalization may be wrong, and the cure."""
    usual = _usual_normalization(way.head)
    cure = _cure(subject, replace(way, normalization=usual), {"normalization": usual})
    return Readings(subject.path.name, ("normalization",), False, text, cure, 1.0)


def _guess(subject: _Subject, start: Tried | None, complaint: str) -> Readings:
    head = "" if start is None else start.way.head
    nothing = "not sure: no reading finds plausible objects"
    if complaint:
        nothing = f"{nothing}, and {complaint}"
    if not head or _usual_normalization(head) in ("", subject.normalization_name):
        text = f"{nothing}; are there any that it knows?"
        return Readings(subject.path.name, (), False, text, "", 1.0)
    text = f"{nothing}. Perhaps wrong: {_unusual(subject, head)}"
    return _normalization(subject, Way(head, subject.color, ""), text)


def _cure(subject: _Subject, way: Way, changes: Mapping[str, str]) -> str:
    """Return the command or the line of code that applies a way."""
    is_file = subject.path.suffix.lower() == ".rknn"
    if "normalization" in changes or not is_file:
        mean, std = (
            ",".join(f"{each:g}" for each in (values * 3)[:3])
            for values in NORMALIZATIONS.get(way.normalization, subject.normalization)
        )
        network = "NETWORK.onnx" if is_file else str(subject.path)
        color = f" --color {way.color}" if way.color == "BGR" else ""
        command = f"rknn-runtime convert {network} --for {subject.soc or 'SOC'}{color}"
        return f"{command} --mean {mean} --std {std}"
    words = [f"head={way.head!r}"] if {"head", "labels"} & changes.keys() else []
    words += [f"{k}={v!r}" for k, v in way.options if k in _TOLD and "scale" in changes]
    words += [f"input_color={way.color!r}"] if "color" in changes else []
    words += ["stretch=True"] if way.is_stretched else []
    labels = ", labels" if "labels" in changes else ""
    return f"Detector(model{labels}, {', '.join(words)})"
