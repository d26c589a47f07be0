"""The benchmark example, on the simulated NPU."""

from __future__ import annotations

import runpy

from paths import PROJECT

from rknn_runtime.tools.bench import load

EXAMPLE = PROJECT / "examples" / "benchmark.py"


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["benchmark.py", *map(str, arguments)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_it_measures_every_phase(model, control, monkeypatch, capsys, tmp_path):
    """Table and JSON are the same."""
    control.set_latency(2000)
    report = tmp_path / "report.json"
    arguments = (model, "--library", "sim", "--runs", 30, "--warm-up", 3, "--json", report)
    run(monkeypatch, *arguments)
    assert capsys.readouterr().out == f"{load(report.read_text('utf-8'))}\n"
    assert control.calls("rknn_run") == 33
