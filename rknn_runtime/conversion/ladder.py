"""Climb from the toolkit's int8 to a file that is as good as float, step by step."""

from __future__ import annotations

import hashlib
import html
import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from time import monotonic
from typing import Any, Optional

from rknn_runtime._files import html_table, replace_file
from rknn_runtime.conversion.accuracy import plain
from rknn_runtime.conversion.calibration import framed
from rknn_runtime.conversion.judge import FloatJudge, Score, ScoreFunction, variants
from rknn_runtime.conversion.plan import Plan
from rknn_runtime.conversion.simulation import (
    Int8Layout,
    Moments,
    Ranges,
    Simulation,
    by_noise,
    choose_ranges,
    costs,
    machine_noise,
    moments,
)
from rknn_runtime.conversion.surgery import Net, equalized, is_equal, rounded, simplified
from rknn_runtime.errors import RknnError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.layers import read_layers
from rknn_runtime.modelfile.prediction import predict
from rknn_runtime.modelfile.soc import Soc
from rknn_runtime.npu.model import Model

#: A tensor gets a second convolution if it costs this part of the whole loss.
_WORTH = 0.02
#: The part of the loss that the first float16 blocks are to take away.
_HALF = 0.5
#: How near the number of blocks is to the fewest that do, as a part.
_NEAR = 1 / 8
#: Instead of tensors' names: the whole network is float16.
ALL = "*"
#: The part of the time that is kept for float16.
_RESERVE = 0.3
#: The part of the time that is left that a search may take.
_SEARCH = 0.35
#: How often channels are made alike.
_ROUNDS = 2
#: Tensors whose cost is measured, but for float16: there dozens can have a part in the loss.
_SUSPECTS = 40
#: Images to choose by.
_CHOSEN = 8
#: Operators of scores.
_SCORES = ("Sigmoid", "Softmax", "HardSigmoid")
#: Of an image; of larger ones fewer are taken.
_USUAL_PIXELS = 416 * 416
#: The predicted time, and the size.
Price = tuple[Optional[float], int]


@dataclass(frozen=True)
class Rung:
    name: str
    #: What it did.
    text: str
    score: Score
    #: Whether later steps build on it.
    is_kept: bool
    file_bytes: int
    #: Predicted; None if the SoC has no prediction.
    ms: float | None
    #: What the step took.
    seconds: float

    def is_better(self, other: Rung, target: float) -> bool:
        """Tell whether the file is the better one, or faster if both reach the target."""
        fits = self.score.meets(target), other.score.meets(target)
        if all(fits):
            return _costs_less((self.ms, self.file_bytes), (other.ms, other.file_bytes))
        return (fits[0], self.score.rank) > (fits[1], other.score.rank)


def _costs_less(ours: Price, others: Price) -> bool:
    """Compare predicted times, or sizes where nothing is predicted."""
    if ours[0] is None or others[0] is None:
        return ours[1] < others[1]
    return ours[0] < others[0]


@dataclass(frozen=True)
class Climb:
    """All steps, and why they ended; ``str()`` is a table."""

    target: float
    images: int
    rungs: tuple[Rung, ...]
    best: int
    #: Why it stopped.
    reason: str
    seconds: float

    @property
    def score(self) -> Score:
        return self.rungs[self.best].score

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; None replaces NaN."""
        said: dict[str, Any] = plain(asdict(self))
        return said

    def to_html(self) -> Iterator[str]:
        yield "<h2>The climb</h2>"
        yield f"<p>{html.escape(self._words())}</p>"
        rows = [
            (
                f"{rung.name}{' (the file)' if i == self.best else ''}",
                f"{rung.score.quality:.3f}",
                f"{rung.score.fine:.4f}",
                "" if rung.ms is None else f"{rung.ms:.2f}",
                f"{rung.file_bytes / 2**20:.2f}",
                f"{rung.seconds:.0f}",
                f"{rung.text}: {rung.score}",
            )
            for i, rung in enumerate(self.rungs)
        ]
        titles = "step", "quality", "agreement", "ms, predicted", "MiB", "seconds", "result"
        yield _bars(self)
        yield f'<div class="words">{html_table(titles, rows)}</div>'

    def _words(self) -> str:
        return (
            f"{self.reason}; target {self.target:g}, judged on {self.images} images that were not "
            f"calibrated with, {self.seconds / 60:.1f} minutes"
        )

    def __str__(self) -> str:
        lines = [self._words()]
        for i, rung in enumerate(self.rungs):
            cost = "" if rung.ms is None else f"{rung.ms:.2f} ms, "
            mark = "*" if i == self.best else " " if rung.is_kept else "-"
            lines.append(
                f"{mark} {rung.name:9} {rung.score.quality:6.3f}  {cost}"
                f"{rung.file_bytes / 2**20:.2f} MiB, {rung.seconds:.0f} s: {rung.text}"
            )
            lines.append(f"  {'':9} {rung.score}")
        return "\n".join(lines)


def _bars(climb: Climb) -> str:
    rows = []
    for i, rung in enumerate(climb.rungs):
        y, color = 24 * i + 4, "#2a5" if i == climb.best else "#06c" if rung.is_kept else "#999"
        rows.append(
            f'<text x="4" y="{y + 13}">{html.escape(rung.name)}</text>'
            f'<rect x="90" y="{y}" width="{400 * rung.score.quality:.1f}" height="18" '
            f'fill="{color}"/>'
        )
    height, x = 24 * len(climb.rungs) + 4, 90 + 400 * climb.target
    line = f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height}" stroke="#d33"/>'
    return (
        f'<svg viewBox="0 0 500 {height}" width="500" font-size="12" role="img">'
        f"<title>quality of each step; the line is the target</title>{''.join(rows)}{line}</svg>"
    )


@dataclass(frozen=True)
class State:
    """The recipe of a file."""

    #: The network in float.
    onnx: bytes
    #: Ranges of inner tensors; empty: the toolkit's.
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    is_rounded: bool = False
    #: Tensors that are float16.
    wide: tuple[str, ...] = ()
    text: str = "as the toolkit does"

    def digest(self) -> str:
        said = json.dumps([sorted(self.ranges.items()), self.is_rounded, self.wide])
        return hashlib.sha256(self.onnx + said.encode()).hexdigest()[:20]


#: Builds a network. Arguments: the ``.onnx`` bytes, all ranges (none: the toolkit takes them from
#: the images), the tensors in float16, the tensors that the file stores, and the path to write.
#: Returns the toolkit's ranges.
Build = Callable[[bytes, Ranges, Sequence[str], Sequence[str], Path], dict[str, Any]]


Step = Callable[["Climber", State], Iterator[State]]


class Climber:
    """The work of one climb.

    `judge` judges files, by images that nothing is chosen by; `chooser` has the images to choose
    by, those that show most first. `folder` keeps the results of steps until the climb ends.
    """

    def __init__(
        self,
        onnx: bytes,
        judge: FloatJudge,
        chooser: FloatJudge,
        build: Build,
        soc: Soc,
        folder: Path,
        seconds: float,
        say: Callable[[str], None],
        target: float,
    ) -> None:
        self._onnx, self._judge, self._chooser = onnx, judge, chooser
        self._feeds = [chooser.feed(i) for i in range(len(chooser.frames))]
        self._build, self.soc, self._folder, self._say = build, soc, folder, say
        self._start, self._seconds, self._target = monotonic(), seconds, target
        self._layouts: dict[bytes, Int8Layout] = {}
        self._seen: dict[bytes, dict[str, Moments]] = {}
        self.feed = self._feeds[0]
        self._rounded: dict[bytes, bytes] = {}
        self._simulations: dict[tuple[bytes, bool], Simulation] = {}

    def climb(self, path: Path, without: Sequence[str] = ()) -> Climb:
        """Climb, and have the best file in `path` at any time."""
        rungs: list[Rung] = []
        best, reason, target = -1, "all steps were tried", self._target
        reserve = 0.0 if self.soc.mini or "float16" in without else _RESERVE * self._seconds
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            state = self.plain()
            for name, step in STEPS.items():
                if name in without:
                    continue
                left = reserve if name != "float16" else 0.0
                if best >= 0 and self._left() <= left:
                    reason = "the time is over; the same call goes on from here"
                    if name != "float16":
                        continue
                self._say(f"{name} ...")
                start, base, is_whole = monotonic(), state, False
                for tried in self._tried(name, step, base):
                    rung = self._judged(name, tried, start)
                    is_better = best < 0 or rung.is_better(rungs[best], target)
                    rungs.append(replace(rung, is_kept=is_better))
                    self._say(f"{name}: {'kept' if is_better else 'not kept'}, {rung.score}")
                    if is_better:
                        best, state = len(rungs) - 1, tried
                        replace_file(path, self._file(tried).read_bytes())
                    # Whole float16 comes first: if it fits, parts of it may do, else nothing will.
                    is_whole, meets = ALL in tried.wide, rung.score.meets(target)
                    is_last = not meets if is_whole else meets and not tried.wide
                    if is_last or self._left() <= left:
                        break
                    start = monotonic()
                if best >= 0 and rungs[best].score.meets(target):
                    reason = "the target is reached"
                    break
                if is_whole:
                    reason = "not even float16 reaches the target"
        except KeyboardInterrupt:
            if best < 0:
                raise
            reason = "it was interrupted; the same call goes on from here"
        if "goes on" not in reason:
            shutil.rmtree(self._folder, ignore_errors=True)
        spent = monotonic() - self._start
        return Climb(target, len(self._judge.frames), tuple(rungs), best, reason, spent)

    def _left(self) -> float:
        return self._seconds - (monotonic() - self._start)

    def deadline(self) -> float:
        return monotonic() + max(self._left(), 0) * _SEARCH

    def _tried(self, name: str, step: Step, state: State) -> Iterator[State]:
        """Yield the states that a step proposes; known ones come from the folder."""
        made: Iterator[State] | None = None
        asked = f"-{self._target * 1e6:.0f}" if name == "float16" else ""  # no other looks at it
        for i in count():
            place = self._folder / f"{name}{asked}-{state.digest()}-{i}"
            known = place.with_suffix(".json")
            if not known.exists():
                made = islice(step(self, state), i, None) if made is None else made
                tried = next(made, None)
                if tried is not None:
                    replace_file(place.with_suffix(".onnx"), tried.onnx)
                said = None if tried is None else {**vars(tried), "onnx": None}
                _write(known, said)
            said = json.loads(known.read_text("utf-8"))
            if said is None:
                return
            yield State(**{**said, "onnx": place.with_suffix(".onnx").read_bytes()})

    def _file(self, state: State) -> Path:
        return self._folder / f"{state.digest()}.rknn"

    def built(self, state: State) -> Path:
        path = self._file(state)
        if not path.exists():
            partial, stored = path.with_suffix(".part"), []
            ranges: Ranges = {}
            if state != State(state.onnx) and ALL not in state.wide:
                plain = State(state.onnx)
                own = json.loads(self.built(plain).with_suffix(".table").read_text("utf-8"))
                known = set(self.layout(state.onnx).ranges)
                stored = sorted(known.intersection(Net(state.onnx).tensors()))
                ranges = {**own, **self.ranges(state)}
            table = self._build(self.network(state), ranges, state.wide, stored, partial)
            _write(path.with_suffix(".table"), table)
            partial.replace(path)
        return path

    def _judged(self, name: str, state: State, start: float) -> Rung:
        score, (ms, size) = self._score(state), self.price(state)
        return Rung(name, state.text, score, True, size, ms, monotonic() - start)

    def _score(self, state: State) -> Score:
        path = self.built(state)
        known = path.with_suffix(".score")
        try:
            return Score(**json.loads(known.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            score = self._judge.of(path)
            _write(known, asdict(score))
            return score

    def meets_target(self, state: State) -> bool:
        return self._score(state).meets(self._target)

    def price(self, state: State) -> Price:
        path, ms = self.built(state), None
        with suppress(RknnError):
            ms = predict(read_layers(path), self.soc.name).ms
        return ms, path.stat().st_size

    def plain(self) -> State:
        return State(simplified(self._onnx, self._feeds[0]))

    def in_float16(self) -> State:
        return State(self._onnx, wide=(ALL,), text="the whole network in float16")

    def network(self, state: State) -> bytes:
        if not state.is_rounded:
            return state.onnx
        if state.onnx not in self._rounded:
            self._rounded = {state.onnx: rounded(state.onnx, self._feeds)}
        return self._rounded[state.onnx]

    def behind(self, onnx: bytes, names: Sequence[str]) -> dict[str, Moments]:
        """Return what convolutions compute in front of activations, in float."""
        net = Net(onnx)
        before = [node.output[0] for node in net.convolutions() if net.activated(node)[0] in names]
        return moments(onnx, before, self._feeds)

    def layout(self, onnx: bytes) -> Int8Layout:
        """Return the inner tensors of a network's file, with the toolkit's ranges."""
        if onnx not in self._layouts:
            self._layouts[onnx] = Int8Layout.read(self.built(State(onnx)))
        return self._layouts[onnx]

    def seen(self, onnx: bytes) -> dict[str, Moments]:
        if onnx not in self._seen:
            self._seen[onnx] = moments(onnx, self.layout(onnx).ranges, self._feeds)
        return self._seen[onnx]

    def simulation(self, state: State, has_weights: bool = True) -> Simulation:
        """Return the network with int8 simulated, of weights, too, or only of tensors."""
        key = self.network(state), has_weights
        if key not in self._simulations:
            height, width = self._judge.frames[0].shape[1:3]
            images = max(2, min(_CHOSEN, 2 * _USUAL_PIXELS // (height * width)))
            feeds, layout = self._feeds[:images], self.layout(state.onnx)
            made = Simulation(key[0], layout, feeds, self._chooser.loss, has_weights)
            self._simulations = {key: made}
        return self._simulations[key]

    def ranges(self, state: State) -> dict[str, tuple[float, float]]:
        own = self.layout(state.onnx).ranges
        return {**own, **{name: state.ranges[name] for name in own.keys() & state.ranges.keys()}}

    def machine_noise(self, state: State) -> dict[str, float]:
        """Return by how much layers err more than by the rounding of their results."""
        with Model(self.built(state), library="sim") as model:
            model.run(self._chooser.frames[0])
            tensors = model.tensors()
        layout = replace(self.layout(state.onnx), ranges=self.ranges(state))
        return machine_noise(self.network(state), layout, self._feeds[0], tensors)

    def groups(self, state: State) -> list[tuple[str, ...]]:
        """Return the tensors that share ranges, those that probably cost most first."""
        return by_noise(self.layout(state.onnx), self.seen(state.onnx))

    def costs(
        self, state: State, groups: Sequence[tuple[str, ...]]
    ) -> list[tuple[float, tuple[str, ...]]]:
        """Return what each group of tensors costs, as a part of the loss, largest first."""
        simulation = self.simulation(state, has_weights=False)
        return costs(simulation, groups, self.ranges(state), self.deadline())


def _unchanged(work: Climber, state: State) -> Iterator[State]:
    yield state


def _ranges(work: Climber, state: State) -> Iterator[State]:
    """Ranges chosen by the error at the outputs; scores get 0 to 1."""
    layout, net, before = work.layout(state.onnx), Net(state.onnx), work.ranges(state)
    ranges = dict(before)
    ends = [group for group in layout.groups if net.outputs.intersection(group)]
    for group in ends:
        if any(net.operator(name) in _SCORES for name in group):
            low, high = ranges[group[0]]
            ranges.update(dict.fromkeys(group, (low, max(high, 1.0))))
    groups = [group for group in work.groups(state) if group not in ends][:_SUSPECTS]
    found = choose_ranges(work.simulation(state), groups, ranges, work.deadline())
    chosen = sum(found[group[0]] != before[group[0]] for group in layout.groups)
    yield replace(state, ranges=found, text=f"{chosen} ranges chosen by the error at the outputs")


def _weights(work: Climber, state: State) -> Iterator[State]:
    """Weights rounded for the outputs of their layers, and biases corrected for it."""
    yield replace(state, is_rounded=True, text="weights rounded for the outputs of their layers")


def _channels(work: Climber, state: State) -> Iterator[State]:
    """Channels of unlike range given factors, where float stays the same."""
    for _ in range(_ROUNDS):  # what is left shows when the worst is gone
        found = work.costs(state, work.groups(state)[:_SUSPECTS])
        costly = [name for cost, group in found if cost > _WORTH for name in group]
        seen = {**work.seen(state.onnx), **work.behind(state.onnx, costly)}
        onnx = equalized(state.onnx, seen, work.ranges(state), costly)
        if onnx == state.onnx or not is_equal(onnx, state.onnx, work.feed):
            return
        state = replace(
            state, onnx=onnx, ranges=dict(state.ranges), text="channels made alike by factors"
        )
        ranges = work.ranges(state)
        for value, gated in Net(onnx).values().items():
            if value in ranges and gated in ranges:  # the gate closes on what lies below
                low, high = ranges[value]
                state.ranges[value] = max(low, -max(high, *ranges[gated])), high
        yield state


def _float16(work: Climber, state: State) -> Iterator[State]:
    """All in float16, then the fewest tensors, with second convolutions and without."""
    if work.soc.mini:  # it has none
        return
    whole, plain = work.in_float16(), replace(work.plain(), is_rounded=state.is_rounded)
    yield whole
    least, bases = work.price(whole), {"": state}
    if _costs_less(work.price(State(plain.onnx)), work.price(State(state.onnx))):
        bases = {", instead of second convolutions": plain, **bases}
    for words, base in bases.items():
        for mixed in _mixtures(work, base, least):
            yield replace(mixed, text=mixed.text + words)
            if work.meets_target(mixed):
                least = work.price(mixed)


def _mixtures(work: Climber, state: State, least: Price) -> Iterator[State]:
    """Search for the fewest tensors in float16, each with its producer and its readers.

    Files that cost `least` or more are built and priced, but never judged.
    """
    groups, noise = work.groups(state), work.machine_noise(state)
    costly = [
        (cost * max(noise.get(name, 1.0) for name in group), group)
        for cost, group in work.costs(state, groups)
    ]
    known = {group for _, group in costly}
    costly += [(0.0, group) for group in groups if group not in known]  # no time was left for them
    costly.sort(key=lambda each: -each[0])
    layout, most = work.layout(state.onnx), _HALF * sum(max(cost, 0.0) for cost, _ in costly)
    few, many, blocks = 0, len(costly) + 1, 1
    while sum(cost for cost, _ in costly[:blocks]) < most:
        blocks += 1
    while many - few > max(1, _NEAR * few):
        wide = dict.fromkeys(n for _, group in costly[:blocks] for n in _whole(layout.nodes, group))
        text = f"{blocks} tensors in float16, with the layers that write and read them"
        mixed = replace(state, wide=tuple(n for n in wide if n not in work.feed), text=text)
        is_cheap = _costs_less(work.price(mixed), least)
        if is_cheap:
            yield mixed
        few, many = (few, blocks) if not is_cheap or work.meets_target(mixed) else (blocks, many)
        blocks = min(max(round(math.sqrt(few * many)), few + 1), many - 1)


def _whole(nodes: Sequence[Any], group: Sequence[str]) -> list[str]:
    """Return the outputs of all nodes that write or read tensors of a group."""
    members = set(group)
    return [
        name
        for inputs, outputs in nodes
        if members.intersection(inputs) or members.intersection(outputs)
        for name in outputs
    ]


#: The steps by their names. Ranges come late: their gain shows once little else is lost.
STEPS: dict[str, Step] = {
    "toolkit": _unchanged,
    "channels": _channels,
    "weights": _weights,
    "ranges": _ranges,
    "float16": _float16,
}


def climb(
    plan: Plan,
    images: Sequence[Path],
    others: Sequence[Path],
    given: Preprocessing,
    options: Mapping[str, Any],
    build: Build,
    soc: Soc,
    target: float,
    path: Path,
    minutes: float,
    say: Callable[[str], None],
    score: ScoreFunction | None = None,
    without: Sequence[str] = (),
) -> Climb:
    """Write the best file that can be found in some minutes; see `convert`.

    Steps choose by `images`, and files are judged by `others`, or variants of `images`.
    """
    assert plan.onnx is not None and plan.size is not None
    own = [framed(each, plan.size, plan.color, plan.fit) for each in _spread(images, _CHOSEN)]
    most = max(12, min(40, 40 * _USUAL_PIXELS // (plan.size[0] * plan.size[1])))
    judged = [framed(each, plan.size, plan.color, plan.fit) for each in _spread(others, most)]
    more = [each for frame in judged or own for each in variants(frame, plan.task)]
    judged += _spread(more, most - len(judged))
    say(f"float on {len(judged)} images to judge by, and {len(own)} to choose by")
    chooser = FloatJudge(plan, own, given, dict(options))
    order = sorted(range(len(own)), key=lambda i: -chooser.weight(i))
    chooser = FloatJudge(plan, [own[i] for i in order], given, dict(options))
    judge = FloatJudge(plan, judged, given, dict(options), score)
    digest = hashlib.sha256(plan.onnx)
    for frame in (*own, *judged):
        digest.update(frame.tobytes())
    digest.update(repr((soc.name, given, sorted(options.items()))).encode())
    folder = path.with_name(f".{path.name}.{digest.hexdigest()[:12]}")
    climber = Climber(plan.onnx, judge, chooser, build, soc, folder, minutes * 60, say, target)
    return climber.climb(path, without)


def _spread(things: Sequence[Any], most: int) -> list[Any]:
    """Take some things, evenly."""
    taken = max(0, min(len(things), most))
    return [things[i * len(things) // taken] for i in range(taken)]


def _write(path: Path, thing: object) -> None:
    """Write JSON whole, because the next climb reads it."""
    replace_file(path, json.dumps(thing).encode())
