"""The benchmark example, on the simulated NPU with a recorded answer."""

from __future__ import annotations

import json
import runpy

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

EXAMPLE = PROJECT / "examples" / "benchmark.py"


@pytest.fixture
def model(tmp_path):
    """Two inputs, one of them no image, and two outputs; 2 ms a run."""
    soc = "rk3588"
    inputs = [
        describe_input("image", (1, 3, 8, 10), soc=soc, zero_point=-128, scale=1 / 255),
        describe_input("state", (1, 8), soc=soc, index=1, zero_point=0, scale=0.5),
    ]
    outputs = [
        describe_output("map", (1, 20, 4, 5), soc=soc, zero_point=3, scale=0.25),
        describe_output("scores", (1, 10), soc=soc, index=1, zero_point=0, scale=0.1),
    ]
    answer = Record([np.zeros(attr.shape, np.float32) for attr in outputs])
    path = tmp_path / "model.bundle"
    path.write_bytes(bundle_from_arrays(inputs, outputs, [answer], soc=soc))
    return path


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["benchmark.py", *map(str, arguments)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_it_measures_every_phase(model, control, monkeypatch, capsys, tmp_path):
    """Table and JSON have the same phases; run holds the NPU's time, and frame all but sync."""
    control.set_latency(2000)
    report = tmp_path / "report.json"
    arguments = (model, "--library", "sim", "--runs", 30, "--warm-up", 3, "--json", report)
    run(monkeypatch, *arguments)
    written = json.loads(report.read_text(encoding="utf-8"))
    assert written["simulated"] is True
    assert written["runs"] == 30
    ms = written["ms"]
    assert list(ms) == ["input copy", "sync", "run", "decode", "frame"]
    assert all(0 < row["p50"] <= row["p90"] <= row["p99"] <= row["max"] for row in ms.values())
    assert ms["run"]["p50"] >= 2.0
    assert ms["frame"]["max"] >= ms["run"]["p50"]
    assert written["fps"] == pytest.approx(1e3 / ms["frame"]["p50"])
    printed = capsys.readouterr().out
    assert all(f"| {phase} " in printed for phase in ms)
    assert control.calls("rknn_run") == 33


def test_every_line_says_that_the_npu_is_simulated(model, monkeypatch, capsys):
    """Progress and results alike: none of it can be quoted as a board's."""
    run(monkeypatch, model, "--library", "sim", "--runs", 5, "--warm-up", 0)
    captured = capsys.readouterr()
    lines = captured.out.splitlines() + captured.err.splitlines()
    assert "simulated NPU | run 5 of 5" in lines
    assert [line for line in lines if not line.startswith("simulated NPU | ")] == []


@pytest.mark.parametrize("options", [("--runs", 0), ("--warm-up", -1)])
def test_nonsense_is_refused(model, monkeypatch, capsys, options):
    """Zero runs have no percentiles."""
    with pytest.raises(SystemExit):
        run(monkeypatch, model, "--library", "sim", *options)
    assert "expected --runs > 0" in capsys.readouterr().err
