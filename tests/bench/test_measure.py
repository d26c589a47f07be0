"""Measuring: phases, choices of cores, and the board's state."""

from __future__ import annotations

import json

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import modelfile
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.tools.bench import (
    Result,
    Settings,
    Timing,
    _predicted,
    compare,
    load,
    measure,
    plot,
    to_html,
)
from rknn_runtime.tools.board import resident_kb, state

PHASES = ["input copy", "sync in", "run", "sync out", "decode", "frame", "npu"]


def bundle(soc: str) -> bytes:
    """Two inputs, one of them no image, and two outputs that are no known head."""
    inputs = [
        describe_input("image", (1, 3, 8, 10), soc=soc, zero_point=-128, scale=1 / 255),
        describe_input("state", (1, 8), soc=soc, index=1, zero_point=0, scale=0.5),
    ]
    outputs = [
        describe_output("map", (1, 20, 4, 5), soc=soc, zero_point=3, scale=0.25),
        describe_output("scores", (1, 10), soc=soc, index=1, zero_point=0, scale=0.1),
    ]
    answer = Record([np.zeros(attr.shape, np.float32) for attr in outputs])
    return bundle_from_arrays(inputs, outputs, [answer], soc=soc)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.rknn"
    path.write_bytes(bundle("rk3588"))
    return path


def test_every_phase_of_a_frame(model, control):
    """The planted time is in the run alone; warm-up frames do not count."""
    control.set_latency(5000)
    result = measure(model, Settings(warm_up=3, frames=10), library="sim")
    assert control.calls("rknn_run") == 13
    (timing,) = result.timings
    assert (timing.cores, timing.contexts) == ("AUTO", 1)
    assert list(timing.phases_ms) == PHASES
    assert {len(values) for values in timing.phases_ms.values()} == {10}
    assert timing.summary("run")["min"] >= 5 <= timing.summary("npu")["min"]
    parts = [timing.phases_ms[name] for name in PHASES[:5]]
    np.testing.assert_allclose(timing.phases_ms["frame"], np.sum(parts, axis=0), atol=1e-3)
    assert timing.fps == pytest.approx(1e3 / np.median(timing.phases_ms["frame"]))
    assert timing.fps <= 200
    summary = timing.summary("frame")
    assert summary["min"] <= summary["p50"] <= summary["p90"] <= summary["p99"] <= summary["max"]
    about = result.about
    assert (about["model"], about["soc"], about["simulated"]) == ("model.rknn", "rk3588", True)


def test_what_the_file_predicts_stands_beside_it(tmp_path):
    """The number of `predict` for the model's SoC; other SoCs and bundles get none."""
    shapes = PROJECT / "examples" / "models"
    path = shapes / "shapes_rk3588.rknn"
    expected = modelfile.predict(modelfile.read_layers(path), "rk3588")
    predicted = _predicted(path, "rk3588")
    assert predicted == {
        "ms": expected.ms, "fastest_ms": expected.fastest_ms, "slowest_ms": expected.slowest_ms
    }  # fmt: skip
    (tmp_path / "bundle").write_bytes(bundle("rk3588"))
    assert _predicted(shapes / "shapes_rv1106.rknn", "rv1106") is None
    assert _predicted(tmp_path / "bundle", "rk3588") is None
    result = measure(path, Settings(0, 2), library="sim")
    result = Result({**result.about, "simulated": False, "predicted": predicted}, result.timings)
    measured = result.timings[0].summary("run")["p50"]
    words = f"a run takes {expected.ms:.3g} ms"
    (line,) = (line for line in str(result).splitlines() if words in line)
    assert line.endswith(f"measured: {measured:.3g} ms")
    assert words in str(load(result.to_json()))


def test_no_line_of_a_simulation_is_taken_for_a_board(model):
    """Each line of text and tables, and each heading of a page, says that it is simulated."""
    result = measure(model, Settings(0, 1), library="sim")
    for line in (str(result) + result.to_markdown()).splitlines():
        assert "simulated NPU" in line or set(line) <= set("|- ")
    rows = [line for line in result.to_markdown().splitlines() if line.startswith("| ")]
    assert len({row.count("|") for row in rows}) == 1
    assert "<h2>simulated NPU | AUTO" in to_html(result)


def test_cores_and_contexts(model, control):
    """One context with each core mask; one to three on each of three cores."""
    control.set_latency(1000)
    result = measure(model, Settings(2, 6, sweep=True), library="sim")
    assert [(timing.cores, timing.contexts) for timing in result.timings] == [
        ("AUTO", 1), ("CORE_0", 1), ("CORE_1", 1), ("CORE_2", 1), ("CORE_0_1", 1),
        ("CORE_0_1_2", 1), ("3 cores", 3), ("3 cores", 6), ("3 cores", 9),
    ]  # fmt: skip
    assert all(timing.fps > 0 for timing in result.timings)


def test_a_runtime_without_duplicates_or_measures(tmp_path):
    """librknnmrt: one context, and no time of the NPU's own."""
    path = tmp_path / "mini.rknn"
    path.write_bytes(bundle("rv1106"))
    result = measure(path, Settings(0, 3, sweep=True), library="sim")
    (timing,) = result.timings
    assert list(timing.phases_ms) == PHASES[:-1]


def test_seconds_end_it(model, control):
    """Also without a number of frames."""
    control.set_latency(2000)
    result = measure(model, Settings(0, None, seconds=0.01), library="sim")
    assert 1 <= len(result.timings[0].phases_ms["run"]) <= 5


def test_ctrl_c_keeps_what_was_measured(model):
    """From the first frame on; the model is closed."""

    def interrupt(name: str, done: int) -> None:
        if done == 4:
            raise KeyboardInterrupt

    result = measure(model, Settings(1, 100), library="sim", progress=interrupt)
    assert len(result.timings[0].phases_ms["run"]) == 4


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (Settings(frames=None), ValueError, "frames, seconds: expected one"),
        (Settings(frames=0), ValueError, "frames"),
        (Settings(warm_up=-1), ValueError, "warm_up"),
        (Settings(seconds=0.0), ValueError, "seconds: expected more than 0"),
        (Settings(seconds=float("nan")), ValueError, "seconds"),
        (Settings(frames="many"), TypeError, "frames"),
    ],
)
def test_nonsense_is_refused(model, settings, error, words):
    """Before the model is loaded."""
    with pytest.raises(error, match=words):
        measure(model, settings, library="sim")


def result_of(values, simulated=True, cores="AUTO", **more) -> Result:
    about = {
        "model": "<m>.rknn", "runtime": "2.3.2", "driver": "0.9.8", "soc": "rk3588",
        "simulated": simulated,
        "memory": {"weight_bytes": 1, "internal_bytes": 2, "resident_kb": 3}, **more,
    }  # fmt: skip
    return Result(about, (Timing(cores, 1, 10.0, {"frame": values}, 0),))


PREDICTED = {"ms": 5.0, "fastest_ms": 4.0, "slowest_ms": 6.0}


def test_the_time_of_a_frame_says_whose_it_is():
    """The most frames a second may be another choice's than the time of one frame."""
    result = result_of([6.0] * 10, simulated=False)
    (first,) = result.timings
    both = first, first._replace(cores="CORE_1", fps=20.0)
    said = result._replace(timings=both).verdict.reason
    assert said.startswith("20.0 frames a second (CORE_1, 1 context); one frame takes 6 ms (AUTO,")
    assert "(AUTO" in result.verdict.reason.partition(";")[0]


@pytest.mark.parametrize(
    ("run", "decode", "about", "word", "text", "command"),
    [
        ([5.0] * 10, 1.0, {"simulated": True}, "look", "say nothing about a board", "predict"),
        ([5.0] * 10, 1.0, {"predicted": PREDICTED}, "keep", "one frame takes 6 ms", "--sweep"),
        ([9.0] * 10, 1.0, {"predicted": PREDICTED}, "look", "the NPU takes 9 ms", "--layers"),
        ([5.0] * 10, 7.0, {}, "look", "'decode' takes longer than the NPU", "Pool"),
        ([5.0] * 8 + [15.0] * 2, 1.0, {}, "look", "unsteady", "doctor"),
        ([5.0] * 10, 1.0, {"after": {"throttled": ["npu"]}}, "look", "clock held down", "doctor"),
    ],
)
def test_the_verdict_comes_first(run, decode, about, word, text, command):
    """Text, table and page begin with the meaning of the numbers and the next command."""
    frames = [value + decode for value in run]
    phases = {"run": run, "decode": [decode] * len(run), "frame": frames}
    result = result_of([1.0], **{"simulated": False, **about})
    result = result._replace(timings=(Timing("AUTO", 1, 10.0, phases, 0),))
    assert result.verdict.word == word
    assert text in result.verdict.reason and command in result.verdict.next
    assert str(result).splitlines()[0].endswith(str(result.verdict))
    assert str(result.verdict) in result.to_markdown().splitlines()[2]
    page = to_html(result)
    assert (
        page.index('class="verdict') < page.index("<table") and text.replace("'", "&#x27;") in page
    )
    assert str(load(result.to_json())) == str(result)


def test_json_is_read_again():
    """Whole; and nothing else is taken for it."""
    result = result_of([1.0, 2.5, 3.0])
    again = load(result.to_json())
    assert (again.about, again.timings[0]) == (result.about, result.timings[0])
    assert str(again) == str(result)
    for wrong in ("", "[]", "{}", '{"form": 2}', '{"form": 1, "about": {}, "timings": []}'):
        with pytest.raises(ValueError, match="expected JSON of `rknn-runtime bench`"):
            load(wrong)


def test_two_measurements_are_compared_with_their_spread():
    """Clear differences are called slower, possible noise is called same."""
    draw = np.random.default_rng(1)
    before = result_of(draw.normal(10, 1, 200).tolist())
    slower = result_of(draw.normal(15, 1, 200).tolist())
    again = result_of(draw.normal(10, 1, 200).tolist())
    (ratio,) = compare(before, slower)
    assert (ratio.phase, ratio.verdict) == ("frame", "slower")
    assert 1.4 < ratio.low < ratio.ratio < ratio.high < 1.6
    assert compare(slower, before)[0].verdict == "faster"
    assert compare(before, again)[0].verdict == "same"


def test_what_cannot_be_compared_is_refused():
    """A board with a simulation, or other choices of cores."""
    with pytest.raises(ValueError, match="got one of each"):
        compare(result_of([1.0]), result_of([1.0], simulated=False))
    with pytest.raises(ValueError, match="none in common"):
        compare(result_of([1.0]), result_of([1.0], cores="CORE_0_1"))


def test_the_page_needs_nothing_from_elsewhere():
    """Names are escaped, drawings are part of the page, and every frame of very many counts."""
    spike = [1.0] * 100_000
    spike[777] = 50.0
    page = to_html(result_of(spike, simulated=False))
    assert "<m>" not in page and "&lt;m&gt;" in page
    assert "http" not in page and "src=" not in page
    assert "<figcaption>Time of each frame" in page
    assert page.count("<svg") == 2 and "50.000 ms" in page
    assert "highest bar: 99999 frames" in page and "0 ms" in page
    assert len(page) < 100_000


def test_a_sweep_begins_with_a_table_of_its_choices():
    """Before the tables of each choice."""
    choices = [Timing(f"CORE_{i}", 1, 10.0 * i, {"frame": [2.0 + i] * 3}, 0) for i in (1, 2)]
    page = to_html(result_of([1.0])._replace(timings=tuple(choices)))
    row = "<tr><td>CORE_2, 1 context</td><td>20.0</td><td>4.000</td><td>4.000</td></tr>"
    assert "frames a second</th>" in page and page.index(row) < page.index("<h2>")


def test_a_plot(tmp_path):
    """Drawn by matplotlib, where that is installed."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    plot(result_of([1.0, 2.0, 3.0]), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_board_s_state(tmp_path):
    """Clocks, governors, temperatures; and which clocks are held below their own."""
    tree = {
        "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq": "1416000",
        "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq": "1416000",
        "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "1800000",
        "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "ondemand",
        "sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000",
        "sys/class/devfreq/fdab0000.npu/max_freq": "1000000000",
        "sys/class/devfreq/fdab0000.npu/available_frequencies": "300000000 1000000000",
        "sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand",
        "sys/class/devfreq/dmc/cur_freq": "garbage",
        "sys/class/thermal/thermal_zone0/temp": "61461",
        "sys/class/thermal/thermal_zone0/type": "soc-thermal",
    }
    for name, text in tree.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    found = state(str(tmp_path))
    assert found == {
        "frequency_mhz": {"cpu0": 1416.0, "npu": 1000.0},
        "governor": {"cpu0": "ondemand", "npu": "rknpu_ondemand"},
        "temperature_c": {"soc-thermal": 61.461},
        "throttled": ["cpu0"],
    }
    text = str(result_of([1.0], before=found, after=found))
    assert "npu 1000 -> 1000" in text and "held below their full clock: cpu0" in text
    assert state(str(tmp_path / "nothing")) == {}
    assert resident_kb() > 1000 and resident_kb(str(tmp_path)) == 0


def test_the_command(model, tmp_path, capsys):
    """Tables, JSON, page, comparison, layers and suite work; errors take one line."""
    from rknn_runtime.cli import main

    report, page = tmp_path / "a.json", tmp_path / "a.html"
    base = ["bench", str(model), "--sim", "--frames", "3", "--warm-up", "1"]
    assert main([*base, "--output", str(report), "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"{load(report.read_text('utf-8'))}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert main([*base, "--json"]) == 0
    assert load(capsys.readouterr().out).about["model"] == "model.rknn"
    assert main(["bench", "compare", str(report), str(report)]) == 0
    assert capsys.readouterr().out.count("same") == len(PHASES)
    assert main(["bench", "compare", str(report), str(report), "--json"]) == 0
    assert {row["verdict"] for row in json.loads(capsys.readouterr().out)} == {"same"}
    assert main(["bench", str(model), "--layers", "--sim"]) == 0
    assert "NPU" in capsys.readouterr().out
    (tmp_path / "bad.rknn").write_bytes(b"nothing")
    assert main(["bench", "suite", str(tmp_path), *base[2:], "--markdown"]) == 1
    captured = capsys.readouterr()
    assert "| simulated NPU | model.rknn | rk3588 |" in captured.out and "bad.rknn" in captured.err
    for wrong in (
        ["compare", str(report)],
        ["compare", str(report), str(model)],
        ["suite"],
        ["suite", str(model), "--html", "x.html"],
        [str(model), "another.rknn"],
        [str(model), "--frames", "0", "--sim"],
    ):
        assert main(["bench", *wrong]) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith("rknn-runtime: ") and captured.err.count("\n") == 1
