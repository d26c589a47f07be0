"""The climb to int8 as good as float, on a network with a bad stem: channels of unlike range."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from nets import Net, onnx
from paths import PROJECT
from planting.text import words_map

from rknn_runtime import convert
from rknn_runtime.conversion import ladder
from rknn_runtime.conversion.calibration import framed
from rknn_runtime.conversion.environment import _cache
from rknn_runtime.conversion.judge import FloatJudge, Score, variants
from rknn_runtime.conversion.ladder import ALL, Climber, Rung, State
from rknn_runtime.conversion.plan import plan_of
from rknn_runtime.conversion.simulation import Int8Layout, Simulation, moments, rounded_weights
from rknn_runtime.conversion.surgery import Net as Changed
from rknn_runtime.conversion.surgery import equalized, rounded, simplified
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.sim.graph import Graph

pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

ROOT = Path(__file__).resolve().parents[2]
SIZE = 32
SCORE = Score(0.95, 0.9, "cosine", 1.0, 1.0)
PIXELS = Preprocessing((0.0, 0.0, 0.0), (255.0, 255.0, 255.0), rgb2bgr=False)


def bad_stem(act="Sigmoid", seed=0):
    """A convolution with channels of unlike size, SiLU or Relu, a depthwise one, two more."""
    net = Net(seed)
    net.inputs = {"images": [1, 3, SIZE, SIZE]}
    sizes = np.geomspace(1000, 0.1, 16)
    weights = net.rng.normal(0, 1, (16, 3, 3, 3)) * sizes[:, None, None, None]
    x = net.op("Conv", "images", net.const(weights), net.const(sizes), pads=[1] * 4, name="stem")
    if act == "Sigmoid":
        x = net.op("Mul", x, net.op("Sigmoid", x), name="act")
    else:
        x = net.op("Relu", x, name="act")
    # The next layer undoes the sizes, so that small channels count as much.
    weights = net.rng.normal(0, 0.3, (16, 1, 3, 3)) / sizes[:, None, None, None]
    x = net.op(
        "Conv", x, net.const(weights), net.const(np.zeros(16)), group=16, pads=[1] * 4, name="deep"
    )
    x = net.op("Relu", x, name="after")
    x = net.op("Relu", net.conv(x, 16, 16, name="mixed"), name="more")
    net.output("out", net.conv(x, 16, 4, name="last"))
    return net.model()


@pytest.fixture(scope="module")
def frames():
    """Smooth images."""
    rng = np.random.default_rng(1)
    small = rng.integers(0, 256, (6, SIZE // 4, SIZE // 4, 3)).astype(np.uint8)
    return [each.repeat(4, 0).repeat(4, 1)[None] for each in small]


def planned(tmp_path, data):
    """The plan of a conversion of a network."""
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    return plan_of(path, {}, False, "auto", None, "RGB")


def seen_by(data, judge):
    """All tensors of a network in float."""
    feeds = [judge.feed(i) for i in range(len(judge.frames))]
    return moments(data, Changed(data).tensors(), feeds)


def outputs(data, judge):
    """The outputs for each image."""
    graph = Graph(data)
    return [graph.run(judge.feed(i), ["out"]) for i in range(len(judge.frames))]


@pytest.mark.parametrize("act", ["Sigmoid", "Relu"])
def test_factors_are_exact_and_even_the_channels(tmp_path, frames, act):
    """Relu lets them through, SiLU gets a convolution for each side of its product."""
    plan = planned(tmp_path, bad_stem(act))
    judge = FloatJudge(plan, frames, PIXELS, {})
    seen = seen_by(plan.onnx, judge)
    data = equalized(plan.onnx, seen, {}, ["act"])
    assert ("act_open" in Changed(data).tensors()) == (act == "Sigmoid")
    for ours, theirs in zip(judge.outputs, outputs(data, judge)):
        np.testing.assert_allclose(theirs[0], ours[0], rtol=1e-3, atol=1e-3)

    def unlike(seen):
        sizes = np.maximum(np.abs(seen["act"].least), np.abs(seen["act"].most))
        return sizes.max() / sizes.min()

    assert unlike(seen) > 5000
    assert unlike(seen_by(data, judge)) < 500
    if act == "Sigmoid":  # which costs time
        kept = seen_by(equalized(plan.onnx, seen, {}, []), judge)["act"]
        assert np.array_equal(kept.most, seen["act"].most)


def test_factors_pass_pooling_and_concat(tmp_path, frames):
    """The convolution behind takes them back at the right channels."""
    net = Net(3)
    net.inputs = {"images": [1, 3, SIZE, SIZE]}
    sizes = np.geomspace(1, 100, 8)[:, None, None, None]
    weights = net.rng.normal(0, 1, (8, 3, 1, 1)) * sizes
    x = net.op("Conv", "images", net.const(weights), name="uneven")
    clipped = net.op("Clip", net.op("Add", x, net.const(3.0)), net.const(0.0), net.const(6.0))
    x = net.op("Div", net.op("Mul", x, clipped), net.const(6.0), name="act")  # HardSwish
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], name="pool")
    other = net.op("AveragePool", "images", kernel_shape=[2, 2], strides=[2, 2], name="small")
    x = net.op("Concat", other, x, axis=1, name="both")
    net.output("out", net.conv(x, 11, 4, name="last"))
    plan = planned(tmp_path, net.model())
    judge = FloatJudge(plan, frames, PIXELS, {})
    data = equalized(plan.onnx, seen_by(plan.onnx, judge), {}, ["act"])
    assert "act_open" in Changed(data).tensors()
    for ours, theirs in zip(judge.outputs, outputs(data, judge)):
        np.testing.assert_allclose(theirs[0], ours[0], rtol=1e-3, atol=1e-3)


def test_a_tensor_that_other_operators_read_gets_no_factors(tmp_path, frames):
    """Nothing takes them back."""
    net = onnx.load_model_from_string(bad_stem())
    net.graph.output.append(onnx.helper.make_empty_tensor_value_info("act"))
    judge = FloatJudge(planned(tmp_path, bad_stem()), frames, PIXELS, {})
    data = net.SerializeToString()
    assert (
        "act_open"
        not in Changed(equalized(data, seen_by(bad_stem(), judge), {}, ["act"])).tensors()
    )


def test_weights_are_rounded_for_the_output(tmp_path, frames):
    """They lie on the toolkit's steps, and the outputs err less than with the nearest steps."""
    plan = planned(tmp_path, bad_stem("Relu"))
    judge = FloatJudge(plan, frames, PIXELS, {})
    feeds = [judge.feed(i) for i in range(len(judge.frames))]
    better, nearest = Changed(rounded(plan.onnx, feeds)), Changed(plan.onnx)
    for node in better.convolutions():
        weights, _ = better.weights(node)
        np.testing.assert_allclose(rounded_weights(weights), weights, rtol=1e-3, atol=1e-5)
    for node in nearest.convolutions():
        nearest.give(node, 1, rounded_weights(nearest.weights(node)[0]))

    def error(net):
        pairs = zip(judge.outputs, outputs(net.data(), judge))
        return float(np.mean([np.square(a[0] - b[0]).mean() for a, b in pairs]))

    assert error(better) < 0.5 * error(nearest)


def test_numbers_are_folded_into_convolutions(tmp_path, frames):
    """A factor and an addend behind an activation, as PP-OCR has them, but not before padding."""
    net = Net(2)
    net.inputs = {"images": [1, 3, SIZE, SIZE]}
    x = net.conv("images", 3, 8)
    for kernel in (3, 1):
        x = net.op("Relu", x)
        x = net.op("Add", net.op("Mul", x, net.const([1.7])), net.const([0.3]))
        x = net.conv(x, 8, 8, size=kernel)
    net.output("out", x)
    plan = planned(tmp_path, net.model())
    judge = FloatJudge(plan, frames, PIXELS, {})
    data = simplified(plan.onnx, judge.feed(0))
    kinds = [each.op_type for each in onnx.load_model_from_string(data).graph.node]
    assert kinds == ["Conv", "Relu", "Mul", "Add", "Conv", "Relu", "Conv"]
    for ours, theirs in zip(judge.outputs, outputs(data, judge)):
        np.testing.assert_allclose(theirs[0], ours[0], rtol=1e-3, atol=1e-3)


def test_batch_normalization_and_constants_are_folded(tmp_path, frames):
    """The resulting weights are the ones that the toolkit rounds."""
    net = Net()
    net.inputs = {"images": [1, 3, SIZE, SIZE]}
    x = net.conv("images", 3, 8)
    x = net.op("BatchNormalization", x, *(net.const(np.linspace(1, 2, 8)) for _ in range(4)))
    net.output("out", net.op("Relu", x))
    plan = planned(tmp_path, net.model())
    judge = FloatJudge(plan, frames, PIXELS, {})
    data = simplified(plan.onnx, judge.feed(0))
    kinds = [each.op_type for each in onnx.load_model_from_string(data).graph.node]
    assert kinds == ["Conv", "Relu"]


def test_the_judge_counts_cosines_of_images_with_next_to_nothing_fairly(tmp_path, frames):
    """Noise has no direction: a black image is compared with the energy of the others."""
    plan = planned(tmp_path, bad_stem())
    judge = FloatJudge(plan, frames, PIXELS, {})
    judge.outputs[0] = [np.full_like(judge.outputs[0][0], 1e-4)]
    judge.outputs[0][0][0, 0] = 0
    lost = [list(each) for each in judge.outputs]
    lost[0] = [np.zeros_like(lost[0][0])]
    assert judge.of(lost).by == "cosine"
    assert judge.of(lost).quality > 0.99
    lost[1] = [-lost[1][0]]
    assert judge.of(lost).quality == 0.0
    lost[1] = [np.full_like(lost[1][0], np.nan)]
    assert judge.of(lost).worst_cosine == 0.0
    halved = FloatJudge(plan, frames, PIXELS, {}, lambda a, b: 0.5)
    assert halved.of(halved.outputs).quality == 0.5
    assert halved.of(halved.outputs).by == "function"


def test_a_detector_that_was_not_cut_is_judged_by_its_objects():
    """A YOLOv5 whose outputs are separate already has a head all the same."""
    plan = plan_of(ROOT / "tests/data/nets/shapes_yolov5.onnx", {}, False, "auto", None, None)
    assert plan.head is None
    frame = framed(ROOT / "examples/scenes/scene.png", plan.size, "RGB")
    judge = FloatJudge(plan, [frame], PIXELS, {})
    score = judge.of(judge.outputs)
    assert score.by == "detections"
    assert score.count == score.kept > 3


def test_boxes_of_text_are_counted_as_objects(tmp_path, frames):
    """One of three is lost: what remains fits, which the mean IoU over all does not say."""
    plan = replace(planned(tmp_path, bad_stem()), task="text-detection")
    judge = FloatJudge(plan, frames[:1], PIXELS, {})
    ours = words_map().astype(np.float32)
    judge.frames, judge.outputs = [np.zeros((1, 64, 96, 3), np.uint8)], [[ours]]
    theirs = ours.copy()
    theirs[..., 40:51, 10:71] = 0
    score = judge.of([[theirs]])
    assert (score.by, score.count, score.kept, score.extra) == ("detections", 3, 2, 0)
    assert score.iou == pytest.approx(1, abs=1e-6)
    assert "2 of 3 objects kept, 0 extra, IoU 1.000" in str(score)
    assert judge.of([[0 * ours]]).quality == 0


def test_probabilities_lose_by_their_divergence(tmp_path, frames):
    """The cosine hardly sees a class grow unsure."""
    net = Net()
    net.inputs = {"images": [1, 3, SIZE, SIZE]}
    x = net.op("Flatten", net.op("GlobalAveragePool", "images"))
    net.output("out", net.op("Softmax", x, axis=1))
    judge = FloatJudge(planned(tmp_path, net.model()), frames, PIXELS, {})
    judge.outputs[0] = [np.array([[0.98, 0.01, 0.01]], np.float32)]
    unsure = np.array([[0.8, 0.1, 0.1]], np.float32)
    assert judge.loss(0, judge.outputs[0]) == 0
    assert judge.loss(0, [unsure]) > 0.15
    assert judge.of(judge.outputs).by == "top-1"


def test_a_target_for_detections_asks_for_boxes_that_fit():
    """Objects that are found, but elsewhere, are no success."""
    good = Score(0.96, 0.9, "detections", 1.0, 1.0, 50, 48, 1, iou=0.96)
    assert good.meets(0.95)
    assert not good.meets(0.97)
    assert not Score(0.96, 0.9, "detections", 1.0, 1.0, 50, 48, 1, iou=0.9).meets(0.95)


def test_variants_are_other_images_of_one_size(frames):
    """Four of them, none the image itself."""
    made = variants(frames[0])
    assert len({each.tobytes() for each in (*made, frames[0])}) == 5
    assert {each.shape for each in made} == {frames[0].shape}
    lines = variants(frames[0], "text-recognition")
    mirrored = made[0].tobytes()
    assert mirrored not in {each.tobytes() for each in lines}
    assert {each.shape for each in lines} == {frames[0].shape}


def layout_of(data, judge):
    """The stored layout of a file of the network, with ranges as the toolkit takes them."""
    seen = seen_by(data, judge)
    names = Changed(data).tensors()
    fused = {"deep", "mixed", "act_gate", *([] if "act_open" in names else ["stem"])}
    inner = [n for n in names if n not in fused]
    inner = [n for n in inner if not n.startswith(("sigmoid", "stem_", "deep_", "identity"))]
    ranges = {
        n: (float(min(0.0, seen[n].least.min())), float(max(0.0, seen[n].most.max())))
        for n in inner
    }
    nodes = tuple(((before,), (name,)) for before, name in zip(["images", *inner], inner))
    return Int8Layout(ranges, tuple((name,) for name in inner), nodes)


class Bench:
    """A stand-in toolkit: a "file" is the network simulated in int8."""

    def __init__(self, tmp_path, data, frames, monkeypatch, interrupt_at=None):
        self.plan = planned(tmp_path, data)
        self.chooser = FloatJudge(self.plan, frames[:3], PIXELS, {})
        self.judge = FloatJudge(self.plan, frames[3:], PIXELS, {})
        self.built, self.interrupt_at = 0, interrupt_at
        self.path, self.folder = tmp_path / "best.rknn", tmp_path / "steps"
        monkeypatch.setattr("rknn_runtime.conversion.ladder.read_layers", lambda path: [])
        monkeypatch.setattr(Int8Layout, "read", lambda path: self.files[path.read_bytes()][1])
        monkeypatch.setattr(Climber, "machine_noise", lambda climber, state: {})
        self.files = {}
        self.of_outputs = self.judge.of
        self.judge.of = self.judged

    def build(self, onnx_bytes, ranges, wide, stored, path):
        if self.built == self.interrupt_at:
            raise KeyboardInterrupt
        self.built += 1
        layout = layout_of(onnx_bytes, self.chooser)
        key = f"file {self.built}".encode()
        key += b" " * (1000 if ALL in wide else 10 * len(wide))
        self.files[key] = onnx_bytes, layout, {**layout.ranges, **ranges}, wide
        path.write_bytes(key)
        return {name: list(pair) for name, pair in layout.ranges.items()}

    def judged(self, path):
        data, layout, ranges, wide = self.files[path.read_bytes()]
        if ALL in wide:
            return self.of_outputs(self.judge.outputs)
        found = {}
        feeds = [self.judge.feed(i) for i in range(len(self.judge.frames))]

        def keep(index, given):
            found[index] = [each.copy() for each in given]
            return 0.0

        Simulation(data, layout, feeds, keep).run(ranges, wide)
        return self.of_outputs([found[i] for i in range(len(feeds))])

    def climb(self, target, soc="rk3588", **options):
        climber = Climber(
            self.plan.onnx, self.judge, self.chooser, self.build, SOCS[soc], self.folder, 60,
            lambda line: None, target,
        )  # fmt: skip
        return climber.climb(self.path, **options)


def test_the_climb_ends_at_the_target_and_says_what_each_step_gained(tmp_path, frames, monkeypatch):
    """The stem gets factors, the file is the best, and nothing is tried beyond it."""
    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch)
    climb = bench.climb(0.99)
    names = [rung.name for rung in climb.rungs]
    assert names[0] == "toolkit"
    assert names[-1] == "channels"

    assert climb.reason == "the target is reached"
    assert climb.rungs[0].score.quality < 0.985
    assert climb.score.quality >= 0.99
    assert bench.files[bench.path.read_bytes()][0].count(b"act_open") > 0
    assert not bench.folder.exists()
    assert "by factors" in str(climb)
    assert "the target is reached" in "".join(climb.to_html())
    assert json.dumps(climb.to_dict(), allow_nan=False)


def test_float16_is_the_last_step_and_only_where_the_soc_has_it(tmp_path, frames, monkeypatch):
    """Without factors, tensors are kept in float16, with their producers and readers.

    The whole network is tried first, and a mixture that reaches the target, too, costs less.
    Any tensor can be in it, not only those that other steps suspect.
    """
    monkeypatch.setattr(ladder, "_SUSPECTS", 0)
    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch)
    climb = bench.climb(0.99, without=["channels"])
    last = [rung for rung in climb.rungs if rung.name == "float16"]
    assert "whole" in last[0].text
    assert climb.rungs[climb.best] is last[-1] is not last[0]
    wide = bench.files[bench.path.read_bytes()][3]
    assert {"act", "after"} <= set(wide)
    assert climb.score.quality >= 0.99
    on_mini = Bench(tmp_path, bad_stem(), frames, monkeypatch).climb(
        0.999, "rv1106", without=["channels"]
    )
    assert "float16" not in [rung.name for rung in on_mini.rungs]
    assert on_mini.reason == "all steps were tried"


@pytest.mark.parametrize("second", [0, 3, 60])
@pytest.mark.parametrize(("needed", "most"), [(1, 99), (2, 99), (37, 49), (80, 99)])
def test_nearly_the_fewest_tensors_in_float16_are_found(needed, most, second):
    """The loss is spread over many tensors, and more than some cost as much as all.

    Second convolutions save a third of the tensors, but may cost more than these.
    """
    groups = [(f"t{i}",) for i in range(100)]
    nodes = tuple(((), group) for group in groups)

    class Work:
        soc, feed = SOCS["rk3588"], {}
        in_float16 = Climber.in_float16
        _onnx = b""

        def plain(self):
            return State(b"plain")

        def groups(self, state):
            return groups

        def machine_noise(self, state):
            return {"t5": 3.0}

        def costs(self, state, groups):  # the time ends before all are measured
            return [(0.02, group) for group in groups[:60]]

        def layout(self, onnx):
            return Int8Layout({}, tuple(groups), nodes)

        def price(self, state):
            if ALL in state.wide:
                return most + 1.0, 1
            return len(state.wide) + (second if state.onnx == b"second" else 0), 1

        def meets_target(self, state):
            return len(state.wide) * (1.5 if state.onnx == b"second" else 1) >= needed

    work = Work()
    whole, *mixed = ladder._float16(work, State(b"second"))
    assert whole.wide == (ALL,)
    assert mixed[0].wide[0] == "t5"
    assert len({(each.onnx, each.wide) for each in mixed}) == len(mixed) <= 16
    prices = [work.price(each)[0] for each in mixed]
    assert max(prices) <= most
    least = min(needed, math.ceil(needed / 1.5) + second) if second else math.ceil(needed / 1.5)
    found = min(p for p, each in zip(prices, mixed) if work.meets_target(each))
    assert least <= found <= max(least + 1, 9 / 8 * least)
    for each in mixed:
        assert each.onnx == (b"plain" if "instead of second" in each.text else b"second")
    assert second or all(each.onnx == b"second" for each in mixed)


def test_float16_that_misses_the_target_ends_the_climb(tmp_path, frames, monkeypatch):
    """No mixture is tried, and the reason is said."""
    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch)
    monkeypatch.setattr(bench, "of_outputs", lambda found: replace(SCORE, quality=0.5))
    climb = bench.climb(0.99)
    assert climb.reason == "not even float16 reaches the target"
    assert [rung.name for rung in climb.rungs].count("float16") == 1


def test_layers_that_pass_values_on_share_a_range():
    """As the file has it: pools and their concatenation, and what is enlarged."""
    layout = Int8Layout.read(PROJECT / "examples/models/shapes_rk3588.rknn")
    shared = [{name.rpartition("/")[2] for name in group} for group in layout.groups]
    assert shared.count({"Relu_output_0", "Resize_output_0"}) == 2
    assert {"Relu_output_0", "MaxPool_output_0", "Concat_output_0"} in shared
    assert sorted(name for group in layout.groups for name in group) == sorted(layout.ranges)
    for group in layout.groups:
        assert len({layout.ranges[name] for name in group}) == 1
    assert all(low <= 0 <= high for low, high in layout.ranges.values())


def test_of_two_files_that_reach_the_target_the_faster_is_better():
    """Else the one with the better score, whatever it costs."""
    rung = Rung("a", "", SCORE, True, 5, 2.0, 1.0)
    slow = replace(rung, score=replace(SCORE, fine=1.0), ms=3.0)
    assert rung.is_better(slow, 0.9)
    assert slow.is_better(rung, 0.99)
    assert replace(slow, ms=None, file_bytes=4).is_better(rung, 0.9)


def test_an_interrupted_climb_keeps_the_best_and_goes_on(tmp_path, frames, monkeypatch):
    """Nothing that was built or judged before is done again."""
    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch, interrupt_at=2)
    first = bench.climb(0.99)
    assert "interrupted" in first.reason
    assert bench.path.exists()
    assert bench.folder.is_dir()
    bench.interrupt_at = None
    second = bench.climb(0.99)
    assert second.reason == "the target is reached"
    assert second.rungs[0].score.quality == first.rungs[0].score.quality
    again = Bench(tmp_path, bad_stem(), frames, monkeypatch)
    again.climb(0.99)
    assert bench.built == again.built


def test_what_a_climb_keeps_is_written_whole(tmp_path, frames, monkeypatch):
    """A kill or a full disk leaves no half file that the next climb would read."""
    rename, whole = os.replace, set()

    def replaced(source, target):
        rename(source, target)
        whole.add(str(target))

    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch, interrupt_at=2)
    monkeypatch.setattr(os, "replace", replaced)
    bench.climb(0.99)
    kept = {str(each) for each in bench.folder.iterdir() if each.suffix != ".rknn"}
    assert {Path(each).suffix for each in kept} == {".json", ".onnx", ".score", ".table"}
    assert kept <= whole


def test_the_time_ends_a_climb_that_can_go_on(tmp_path, frames, monkeypatch):
    """At least one file is there, steps are kept, and float16 is tried all the same."""
    bench = Bench(tmp_path, bad_stem(), frames, monkeypatch)
    monkeypatch.setattr(Climber, "_left", lambda climber: 0.0)
    climb = bench.climb(0.99, "rv1106")
    assert climb.reason.startswith("the time is over")
    assert bench.path.exists()
    assert bench.folder.is_dir()
    climb = Bench(tmp_path / "other", bad_stem(), frames, monkeypatch).climb(0.99)
    assert [rung.name for rung in climb.rungs] == ["toolkit", "float16"]
    assert climb.reason == "the target is reached"


def test_states_with_other_ranges_are_other_files():
    """The names of files in the folder tell everything that is built."""
    plain = State(b"x")
    others = [State(b"y"), State(b"x", {"a": (0.0, 1.0)}), State(b"x", {}, True)]
    assert len({each.digest() for each in (plain, *others, State(b"x", {}, False, ("a",)))}) == 5
    assert plain.digest() == State(b"x", text="other words").digest()


def test_inner_tensors_are_computed_where_onnxruntime_cannot_fuse(monkeypatch):
    """It refuses some networks with inner tensors as outputs, but only when it optimizes."""
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession

    def fails(data, options, **given):
        if options.graph_optimization_level != ort.GraphOptimizationLevel.ORT_DISABLE_ALL:
            raise RuntimeError("Failed to find node output")
        return session(data, options, **given)

    monkeypatch.setattr(ort, "InferenceSession", fails)
    feed = {"images": np.zeros((1, 3, SIZE, SIZE), np.float32)}
    assert moments(bad_stem(), ["act"], [feed])["act"].most.shape == (16,)


@pytest.mark.slow
@pytest.mark.parametrize("last", ["channels", "float16"])
def test_the_toolkit_builds_what_the_steps_ask_for(tmp_path, frames, last):
    """The true files, judged on the emulator."""
    if not (_cache() / "rknn-toolkit2-2.3.2" / "ready.json").exists():
        pytest.skip("needs rknn-toolkit2 in the user's cache: `make test-convert` installs it")
    photos = tmp_path / "photos"
    photos.mkdir()
    for i, frame in enumerate(frames):
        np.save(photos / f"{i}.npy", frame)
    network = tmp_path / "net.onnx"
    network.write_bytes(bad_stem())
    without = ["channels"] if last == "float16" else []
    target = 0.99 if last == "channels" else 0.995
    made = convert(network, "rk3588", calibrate=photos, target=target, without=without)
    print(made)
    assert made.climb.rungs[0].score.quality < 0.985
    assert made.climb.rungs[made.climb.best].name == last
    assert made.climb.score.quality >= target
    assert made.report.accuracy.outputs[0].cosine > target
