"""The command line: what ``rknn-runtime bench`` prints, refuses and keeps."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from paths import PROJECT

from rknn_runtime.cli import main
from rknn_runtime.tools.bench import load

MODEL = str(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")
QUICK = [MODEL, "--sim", "--warm-up", "1"]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the fifth frame that counts, of each measurement."""

    def stop(self: object, name: str, done: int) -> None:
        if done == 5 and "warm-up" not in name:
            raise KeyboardInterrupt

    monkeypatch.setattr("rknn_runtime.cli.bench._Progress.__call__", stop)
    monkeypatch.setattr("rknn_runtime.cli.options.shows_progress", lambda arguments: True)


def test_ctrl_c_ends_a_sweep_with_what_was_measured(interrupted, tmp_path, capsys) -> None:
    """Files and tables have the frames until then and say so; nothing further is measured."""
    report = tmp_path / "report.json"
    assert main(["bench", *QUICK, "--sweep", "--output", str(report)]) == 130
    result = load(report.read_text("utf-8"))
    assert result.about["interrupted"] is True
    (timing,) = result.timings
    assert len(timing.phases_ms["run"]) == 5
    captured = capsys.readouterr()
    assert "interrupted" in captured.out and captured.err.endswith("rknn-runtime: stopped\n")


def test_ctrl_c_ends_a_suite_with_what_was_measured(interrupted, capsys) -> None:
    """The models that follow are left out."""
    assert main(["bench", "suite", MODEL, MODEL, *QUICK, "--json"]) == 130
    (only,) = json.loads(capsys.readouterr().out)
    assert len(only["timings"][0]["phases_ms"]["run"]) == 5


def test_ctrl_c_before_the_first_frame(monkeypatch, capsys) -> None:
    """There is nothing to print."""

    def stop(self: object, name: str, done: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rknn_runtime.cli.bench._Progress.__call__", stop)
    monkeypatch.setattr("rknn_runtime.cli.options.shows_progress", lambda arguments: True)
    for words in (QUICK, ["suite", *QUICK]):
        assert main(["bench", *words]) == 130
        assert capsys.readouterr().out == ""


def test_progress_from_the_start(monkeypatch, capsys) -> None:
    """A model whose frames take seconds shows that it is loaded and warmed up, frame by frame."""
    monkeypatch.setattr("rknn_runtime.cli.bench._STEP_S", 0)
    monkeypatch.setenv("COLUMNS", "1000")  # for the whole name of the model
    monkeypatch.setattr("rknn_runtime.cli.options.shows_progress", lambda arguments: True)
    assert main(["bench", *QUICK, "--frames", "2"]) == 0
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines == [
        "", f"loading {MODEL}", "AUTO, 1 context, warm-up: 1 frame",
        "AUTO, 1 context: 1 frame", "AUTO, 1 context: 2 frames", "",
    ]  # fmt: skip


def test_options_of_another_form_are_refused(capsys) -> None:
    """None is taken and then not heeded."""
    for words in (
        ["compare", "a.json", "b.json", "--html", "x.html"],
        ["compare", "a.json", "b.json", "--sim"],
        ["suite", *QUICK, "--plot", "x.png"],
        [MODEL, "--sim", "--layers", "--sweep"],
        [MODEL, "--sim", "--layers", "--warm-up", "3"],
    ):
        assert main(["bench", *words]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and "expected `bench MODEL`, got `bench " in captured.err
    with pytest.raises(SystemExit):
        main(["bench", MODEL, "--sim", "--plot", "x.gif"])
    assert "ends in .png or .svg, got 'x.gif'" in capsys.readouterr().err


def test_where_nothing_can_be_written_nothing_is_measured(tmp_path, monkeypatch, capsys) -> None:
    """A folder that is missing, a folder itself, no permission, no matplotlib: told at once."""

    def measure(*arguments: object, **named: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr("rknn_runtime.tools.bench.measure", measure)
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    may = os.access
    monkeypatch.setattr("os.access", lambda path, mode: path != sealed and may(path, mode))
    for option in ("--output", "--html", "--plot"):
        for place, reason in (
            (tmp_path / "nowhere" / "x.png", "no such folder"),
            (sealed / "x.png", "permission denied"),
        ):
            assert main(["bench", *QUICK, option, str(place)]) == 1
            assert reason in capsys.readouterr().err
    for words in (QUICK, ["suite", *QUICK], [MODEL, "--sim", "--layers"]):
        assert main(["bench", *words, "--output", str(tmp_path)]) == 1
        assert "is a directory" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["bench", *QUICK, "--plot", str(tmp_path / "x.png")]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [sealed]


def test_tables_to_paste(tmp_path, capsys) -> None:
    """Every form of the command prints Markdown, with clocks and prediction below the table."""
    report = str(tmp_path / "a.json")
    assert main(["bench", *QUICK, "--frames", "3", "--markdown", "--output", report]) == 0
    page = capsys.readouterr().out
    assert "\n| simulated NPU | AUTO | 1 | " in page
    assert "\n- simulated NPU | weights " in page
    assert main(["bench", "compare", report, report, "--markdown"]) == 0
    assert "| simulated NPU | AUTO, 1 context | run | 1.000 | " in capsys.readouterr().out
    assert main(["bench", "compare", report, report, "--json"]) == 0
    assert all(row["simulated"] is True for row in json.loads(capsys.readouterr().out))
    places = ["--markdown", "--output", str(tmp_path / "layers.json")]
    assert main(["bench", MODEL, "--sim", "--layers", *places]) == 0
    page = capsys.readouterr().out
    assert "\n| simulated NPU | # | operator | runs on | us | kB | name |\n" in page
    (layer,) = json.loads((tmp_path / "layers.json").read_text("utf-8"))
    assert (layer["op_type"], layer["simulated"]) == ("Simulated", True)
    assert main(["bench", "suite", *QUICK, "--frames", "3", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert "\n| simulated NPU | shapes_rk3588.rknn | rk3588 | " in page
    assert "\n- simulated NPU | shapes_rk3588.rknn: weights " in page


def test_what_is_wrong_with_a_file_is_told_with_its_name_once(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """Of a model, of one in a suite, of a measurement; of a suite's list that it is one."""
    monkeypatch.chdir(tmp_path)
    Path("empty").write_bytes(b"")
    Path("text").write_bytes(b"nothing")
    Path("list").write_bytes(b"[]")
    for words, told in (
        (["text", "--sim"], "text: not an RKNN model"),
        (["text", "--sim", "--layers"], "text: not an RKNN model"),
        (["suite", "empty", "--sim"], "empty: expected content"),
        (["suite", "nowhere", "--sim"], "nowhere: no such file"),
        (["compare", "empty", "list"], "empty: expected content"),
        (["compare", "list", "list"], "list: expected JSON of `rknn-runtime bench` of form 1, got "
         "something else: a list, as a suite writes it"),
    ):  # fmt: skip
        assert main(["bench", *words]) == 1
        assert capsys.readouterr().err.startswith(f"rknn-runtime: {told}")
