"""The command line: what ``rknn-runtime predict`` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from paths import PROJECT

from rknn_runtime.cli import main
from rknn_runtime.errors import UnavailableError
from rknn_runtime.modelfile import predict, read_layers

SHAPES = str(PROJECT / "examples" / "models" / "shapes_rk3588.rknn")


def test_a_page_has_a_row_per_soc_and_says_that_nothing_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Time, range, FPS, bound and error, and the names of layers on the CPU."""
    assert main(["predict", SHAPES]) == 0
    page = capsys.readouterr().out
    rows = {line.split()[0]: line for line in page.splitlines() if line.startswith("rk")}
    assert list(rows) == ["rk3562", "rk3566", "rk3568", "rk3576", "rk3588"]
    found = predict(read_layers(SHAPES), "rk3588")
    cells = rows["rk3588"].split()
    assert cells[1] == "1000" and {f"{found.ms:.3g}", f"{found.elsewhere_ms:.3g}"} <= set(cells)
    assert "bandwidth" in rows["rk3588"] and rows["rk3588"].endswith("8%")
    assert "A mainline kernel starts at 200 MHz" in page
    assert main(["predict", SHAPES, "--for", "rk3588", "--clock", "200"]) == 0
    slow = capsys.readouterr().out
    assert "No times at other clocks are public" in slow and " 200 " in slow
    assert "A prediction, not a measurement" in page
    assert "Reshape /Reshape_2" in page and "memory" in page


def test_one_soc_with_its_layers(capsys: pytest.CaptureFixture[str]) -> None:
    """Each layer but the ends, in microseconds."""
    assert main(["predict", SHAPES, "--for", "rk3566", "--layers"]) == 0
    page = capsys.readouterr().out
    assert "rk3588 " not in page.replace("shapes_rk3588", "").replace("made for rk3588", "")
    layers = page.partition("\nrk3566\n")[2].splitlines()
    assert len(layers) == 1 + 92
    assert {line.split()[1] for line in layers[1:]} <= {"compute", "bandwidth", "CPU"}


def test_of_what_nobody_measured_nothing_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    """Of RV1106 no measurements are public: both ways to ask say so, and what helps."""
    model = SHAPES.replace("rk3588", "rv1106")
    assert main(["predict", model]) == 0
    page = capsys.readouterr().out
    assert "\nThe model is made for rv1106, which is not predicted: too few measurements" in page
    assert "rv1106 " not in page.partition("soc ")[2].partition("\n\n")[0]
    assert main(["predict", model, "--for", "rv1106"]) == 1
    refused = capsys.readouterr()
    assert refused.out == "" and "too few measurements" in refused.err and "`bench`" in refused.err


def test_a_driver_adds_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    """With rocket an interrupt a task, pooling by the CPU, 200 MHz, and one SoC alone."""
    layers = read_layers(SHAPES)
    pools = [layer for layer in layers if layer.operator == "MaxPool"]
    tasks = 134  # as `info --placement` counts them beside the stand-in
    vendor = predict(layers, "rk3588", clock_mhz=200)
    copied = predict(layers, "rk3588", clock_mhz=200, driver="rknpu")
    mainline = predict(layers, "rk3588", driver="rocket")
    assert mainline.clock_mhz == 200
    assert vendor.ms < copied.ms < mainline.ms
    assert mainline.fastest_ms - copied.fastest_ms == pytest.approx(tasks * 0.01, rel=0.1)
    assert {time.bound for time in mainline.layers if time.layer in pools} == {"CPU"}
    with pytest.raises(UnavailableError, match="for rk3588, not for rk3566"):
        predict(layers, "rk3566", driver="rocket")
    with pytest.raises(ValueError, match="expected one of rknpu, rocket, got 'mesa'"):
        predict(layers, "rk3588", driver="mesa")
    assert main(["predict", SHAPES, "--driver", "rocket"]) == 0
    page = capsys.readouterr().out
    assert [line.split()[0] for line in page.splitlines() if line.startswith("rk")] == ["rk3588"]
    assert "3 poolings" in page and "assumptions" in page
    assert main(["predict", SHAPES, "--driver", "rknpu"]) == 0
    assert "copies inputs and outputs" in capsys.readouterr().out


def test_an_onnx_file_is_predicted_as_what_becomes_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Within 6 % of the converted file's prediction, and said to be a guess."""
    pytest.importorskip("onnx")
    onnx = str(PROJECT / "examples" / "models" / "shapes.onnx")
    assert main(["predict", onnx, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert (entry["soc"], entry["batch"]) == (None, 1)
    for found in entry["predictions"]:
        of_file = predict(read_layers(SHAPES), found["soc"]).ms
        assert found["ms"] == pytest.approx(of_file, rel=0.06)
    assert main(["predict", onnx]) == 0
    page = capsys.readouterr().out
    assert "as if `convert` had made an int8 model of it" in page
    assert "not known before it is converted" in page
    (tmp_path / "no.onnx").write_bytes(b"nothing")
    assert main(["predict", str(tmp_path / "no.onnx")]) == 1
    assert "expected an ONNX file" in capsys.readouterr().err
