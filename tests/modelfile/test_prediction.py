"""The time of a run, predicted from a file's layers."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import pytest
from paths import DATA, PROJECT

from rknn_runtime.enums import TensorType
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile import Layer, LayerTensor, predict, read_layers
from rknn_runtime.modelfile.prediction import ELSEWHERE_MOST, PREDICTED_SOCS, SPEEDS, cycles

SHAPES = read_layers(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")
RK3588 = SPEEDS["rk3588"]


@pytest.fixture(scope="module")
def judge():
    """The module tools/judge_prediction.py."""
    path = PROJECT / "tools" / "judge_prediction.py"
    spec = importlib.util.spec_from_file_location("judge_prediction", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def conv(
    channels: int = 64,
    out: int = 64,
    side: int = 32,
    kernel: int = 3,
    depthwise: bool = False,
    operator: str = "Conv",
    dtype: TensorType = TensorType.INT8,
) -> Layer:
    size = 1 if dtype is TensorType.INT8 else 2
    read, written = (
        (LayerTensor("x", (1, c, side, side), dtype, c * side * side * size),)
        for c in (channels, out)
    )
    terms = kernel * kernel * (1 if depthwise else channels)
    macs = out * side * side * terms
    return Layer(operator, "x", "NPU", 1, read, written, 0, macs, (kernel, kernel))


def us(layer: Layer, soc: str = "rk3588") -> float:
    return predict([layer], soc).layers[0].us


def test_a_layer_takes_its_cycles_and_its_bytes() -> None:
    """The sides of a right triangle; blocks of 32 by 32 channels on RK3588."""
    cycles = 32 * 32 * 9 * 2 * 2
    compute = cycles / (1000 * RK3588.efficiency)
    bandwidth = 2 * 64 * 32 * 32 / (1000 * RK3588.bandwidth)
    assert us(conv()) == pytest.approx(math.hypot(compute, bandwidth) + RK3588.start_us)
    found = predict([conv(), conv(kernel=1), conv()._replace(device="")], "rk3588")
    assert [time.bound for time in found.layers] == ["compute", "bandwidth", ""]
    assert found.ms == pytest.approx(sum(time.us for time in found.layers) / 1000)
    assert found.fps == pytest.approx(1000 / found.ms)


def test_cycles_count_whole_blocks() -> None:
    """3 channels cost the cycles of 32; a depthwise convolution one for each 64 channels."""
    assert [cycles(conv(channels=c), RK3588) for c in (3, 32, 33, 64)] == [
        32 * 32 * 9 * 2 * blocks for blocks in (1, 1, 2, 2)
    ]
    assert cycles(conv(depthwise=True), RK3588) == 32 * 32 * 9
    assert cycles(conv(depthwise=True), SPEEDS["rk3566"]) == 32 * 32 * 9 * 2


def test_functions_from_a_table_cost_cycles() -> None:
    swish = us(conv(operator="ConvExSwish")) - us(conv(operator="ConvRelu"))
    assert swish == pytest.approx(64 * 32 * 32 * RK3588.table_cycles / 1000)


@pytest.mark.parametrize("soc", PREDICTED_SOCS)
def test_wide_layers_take_longer(soc: str) -> None:
    """A model may mix them with int8; RK3566 multiplies a quarter of int8's channels a cycle."""
    narrow, wide = conv(kernel=7), conv(kernel=7, dtype=TensorType.FLOAT16)
    start = SPEEDS[soc].start_us
    factor = (us(wide, soc) - start) / (us(narrow, soc) - start)
    assert factor == pytest.approx(4 if soc in ("rk3566", "rk3568") else 2, rel=0.05)
    assert predict([narrow, wide], soc).ms * 1000 == pytest.approx(us(narrow, soc) + us(wide, soc))
    fp16 = read_layers(DATA / "models" / "fp16_ic1_w37_rk3588.rknn")
    assert predict(fp16, soc).ms > 0


def test_a_slow_clock_widens_the_range() -> None:
    """From a memory that keeps its speed to one that slows down as well; the start remains."""
    full, slow = predict(SHAPES, "rk3588"), predict(SHAPES, "rk3588", clock_mhz=200)
    assert (full.clock_mhz, slow.clock_mhz) == (1000, 200)
    assert full == predict(SHAPES, "rk3588", clock_mhz=1000)
    assert full.ms < slow.ms < 5 * full.ms
    assert slow.slowest_ms / slow.fastest_ms > 1.2 * full.slowest_ms / full.fastest_ms
    assert slow.fastest_ms < slow.ms < slow.slowest_ms
    with pytest.raises(ValueError, match="clock_mhz: expected 1 to"):
        predict(SHAPES, "rk3588", clock_mhz=0)


@pytest.mark.slow  # 13 fits
def test_the_ranges_hold_most_published_times_of_networks_outside_of_the_fit(judge) -> None:
    """Eight of ten, each family left out and as heavy as another; the median error as stated."""
    found = judge.judge()
    assert len(found.ratios) >= 130
    for soc in judge.SOCS:
        speed = SPEEDS[soc]
        each = judge.errors(found, soc)
        assert judge.quantile(each, 0.8) <= speed.spread
        assert judge.quantile(each, 0.5) <= speed.error + 0.005
        assert sum(error <= speed.spread for error, _ in each) >= 0.78 * len(each)
        others = [one for times in found.elsewhere[soc].values() for one in times]
        assert not others or abs(speed.elsewhere / judge.np.median(others) - 1) < 0.01
        assert max(others, default=0) <= ELSEWHERE_MOST
    for inside, count in found.held().values():  # each source left out
        assert inside >= 0.8 * count > 0


def test_the_constants_are_those_of_the_fit(judge) -> None:
    """The tool's formula and the product's give the same milliseconds."""
    known = judge.networks()
    x = []
    for soc in judge.SOCS:
        speed = SPEEDS[soc]
        x += [speed.efficiency, speed.bandwidth, speed.start_us, speed.table_cycles]
    shared = [judge.prediction.WEIGHT_PART, judge.prediction.SLOW_COPY]
    x = judge.np.log([*x, *shared, judge.prediction.SLOW_PRODUCT])
    for name in ("mobilenetv2", "yolov8n", "ppocrv4_rec", "clip_text"):
        for soc in judge.SOCS:
            layers = judge.layers_for(known[name], soc)
            ms = judge._ms(x, judge._features(layers, soc), soc)
            assert predict(layers, soc).ms == pytest.approx(ms, rel=1e-6)


def test_the_published_times_are_many_and_have_sources(judge) -> None:
    """At least 60 from five sources; every source is described on the page."""
    figures = judge.figures()
    page = judge.TIMES.with_suffix(".md").read_text(encoding="utf-8")
    sources = {figure.source for figure in figures}
    assert len(figures) >= 60 and len(sources) >= 5
    assert all(f"| {source} | " in page for source in sources)


def test_a_boards_result_becomes_a_row(judge, tmp_path: Path, monkeypatch) -> None:
    """In one command; not the time of an emulator."""
    times = tmp_path / "speeds.csv"
    times.write_text("network,input,type,rk3562,rk3566,rk3576,rk3588,source\n", encoding="utf-8")
    monkeypatch.setattr(judge, "TIMES", times)
    about = {"model": "best_rk3566.rknn", "soc": "rk3566", "inputs": [[1, 64, 64, 3]]}
    timings = [{"summary_ms": {"run": {"p50": 12.345}}}]
    result = tmp_path / "board.json"
    result.write_text(json.dumps({"about": {**about, "simulated": False}, "timings": timings}))
    judge.add(result, "me, Zero 3W, 900 MHz")
    (row,) = judge.figures()
    assert row == ("best_rk3566", "rk3566", 12.3, "me, Zero 3W, 900 MHz")
    result.write_text(json.dumps({"about": {**about, "simulated": True}, "timings": timings}))
    with pytest.raises(SystemExit, match="expected a board of"):
        judge.add(result, "me")


def test_what_has_no_public_figures_is_not_predicted() -> None:
    """Another SoC, and a model without multiplications."""
    with pytest.raises(UnavailableError, match=r"soc: expected one of .*, got 'rv1106'"):
        predict(SHAPES, "rv1106")
    with pytest.raises(UnavailableError, match="no layer of this model multiplies"):
        predict([], "rk3588")
    with pytest.raises(ValueError, match="batch: expected 1 to"):
        predict(SHAPES, "rk3588", batch=0)
    with pytest.raises(TypeError, match="batch: expected an integer, got"):
        predict(SHAPES, "rk3588", batch=1.5)  # type: ignore[arg-type]
    assert predict(SHAPES, "rk3588", batch=3).ms == pytest.approx(3 * predict(SHAPES, "rk3588").ms)
