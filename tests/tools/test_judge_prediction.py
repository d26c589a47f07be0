"""The judgement of predictions, on a table of one network."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from paths import PROJECT

from rknn_runtime.modelfile import predict, read_layers

MODELS = PROJECT / "examples" / "models"


@pytest.fixture
def judge_prediction() -> ModuleType:
    path = PROJECT / "tools" / "judge_prediction.py"
    spec = importlib.util.spec_from_file_location("judge_prediction", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_whole(judge_prediction) -> None:
    """25 networks, slower on RK3566 than on RK3562, and there than on RK3588."""
    table = judge_prediction.measured()
    assert len(table) == 25
    for row in table.values():
        assert list(row) == list(judge_prediction.SOCS)
        assert row["rk3566"] < row["rk3562"] < row["rk3588"]


def test_a_network_is_judged(judge_prediction, tmp_path: Path, monkeypatch, capsys) -> None:
    """The example, as if it had been measured: a quarter faster than what is predicted."""
    pytest.importorskip("onnx")
    shutil.copy(MODELS / "shapes.onnx", tmp_path / "shapes.onnx")
    layers = read_layers(MODELS / "shapes_rk3588.rknn")
    rows = [f"{1.25 * predict(layers, soc).fps:.3f}" for soc in judge_prediction.SOCS]
    monkeypatch.setattr(judge_prediction, "MEASURED", f"shapes {' '.join(rows)}")
    monkeypatch.setattr(sys, "argv", ["judge_prediction.py", str(tmp_path)])
    judge_prediction.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == list(judge_prediction.SOCS)
    for line in lines:
        (worst,) = (int(word[1:-1]) for word in line.split() if word.startswith("+"))
        assert 18 <= worst <= 33  # the ONNX file's layers are guessed, within 6 %
        assert "1 of 1" in line or "0 of 1" in line
    (tmp_path / "shapes.onnx").unlink()
    with pytest.raises(SystemExit):
        judge_prediction.main()
    assert "expected files such as shapes.onnx, got none" in capsys.readouterr().err
