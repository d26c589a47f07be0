"""Likely faults of a model are found in its file; healthy models have no finding."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from paths import DATA, PROJECT

from rknn_runtime.cli.main import main
from rknn_runtime.conversion.health import Head, _double_sigmoid, check, findings
from rknn_runtime.modelfile import ModelInfo, read
from rknn_runtime.modelfile.info import CalibratedRange
from rknn_runtime.sim import describe_output

MODEL = DATA / "models" / "ic3_w37_rk3588.rknn"
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
HEALTHY = sorted([*DATA.glob("models/*.rknn"), *(PROJECT / "examples" / "models").glob("*.rknn")])
#: As the file writes the largest value of its output that calibration reached, and a larger one.
MEASURED = re.findall(rb"'ori_max': \[[0-9.]*\]", MODEL.read_bytes())[-1]
MORE = MEASURED.replace(b"[3", b"[9")
NUMBER = re.findall(rb"[0-9.]+", MEASURED)[0]


def model(*outputs: tuple[tuple[int, ...], float, float]) -> ModelInfo:
    """A model of 320x320 pixels whose int8 outputs reach from one number to the other."""
    described = []
    for index, (shape, low, high) in enumerate(outputs):
        scale = (high - low) / 255
        zero_point = max(-128, min(127, round(-128 - low / scale)))
        described.append(
            describe_output(f"o{index}", shape, index=index, zero_point=zero_point, scale=scale)
        )
    return replace(read(SHAPES), outputs=tuple(described), custom_string="")


def split(low: float, high: float, classes: int = 7) -> ModelInfo:
    """The model zoo's form of YOLOv8, with scores of one range."""
    return model(
        *(
            each
            for side in (40, 20, 10)
            for each in (
                ((1, 64, side, side), -8.0, 9.0),
                ((1, classes, side, side), low, high),
            )
        )
    )


def kinds(info: ModelInfo) -> list[str]:
    return [finding.kind for finding in findings(info, {})]


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
def test_healthy_models_have_no_finding(path: Path) -> None:
    """Every model of the tests and of the examples, as path and as bytes."""
    assert check(path) == check(path.read_bytes()) == ()


def test_boxes_in_pixels_beside_scores() -> None:
    """One scale for 0 to 640 and for 0 to 1 leaves nothing of the scores; 0 to 1 for all does."""
    (finding,) = findings(model(((1, 84, 2100), 0.0, 640.0)), {})
    assert (finding.kind, finding.tensors) == ("shared-scale", ("o0",))
    assert "every score below 1.25 is stored as 0" in finding.text
    assert "rknn-runtime convert" in finding.cure
    assert str(finding) == f"{finding.text}: {finding.cure}"
    assert kinds(model(((1, 84, 2100), 0.0, 1.0))) == []


def test_scores_that_cannot_pass() -> None:
    """Probabilities below 0.5, and logits below 0."""
    (finding,) = findings(split(0.0, 0.3), {})
    assert finding.kind == "low-scores"
    assert finding.tensors == ("o1", "o3", "o5")
    assert "reach 0.3 at most, so no confidence passes 0.5" in finding.text
    (finding,) = findings(split(-12.0, -0.5), {})
    assert finding.kind == "low-scores"
    assert finding.text.endswith("passes 0.5 after the sigmoid")
    assert kinds(split(0.0, 0.6)) == kinds(split(-12.0, 0.5)) == []


def test_a_missing_sigmoid() -> None:
    """Scores above 1 that do not reach low enough to be taken for logits."""
    found = findings(split(-2.0, 4.0), {})
    assert [finding.kind for finding in found] == ["missing-sigmoid"] * 3
    assert "'o1' reach from -2 to 4" in found[0].text
    assert "logits=True" in found[0].cure
    assert kinds(split(-1.0, 0.999)) == []  # a symmetric quantization of 0 to 1


def test_a_second_sigmoid() -> None:
    """Where the custom string names a head that takes logits, and the scores are probabilities."""
    probabilities = split(0.0, 1.0).outputs[1:2]
    (finding,) = _double_sigmoid(probabilities, Head("yolov8-split", 7))
    assert finding.kind == "double-sigmoid"
    assert "each would become 0.5 or more" in finding.text
    assert list(_double_sigmoid(split(-9.0, 5.0).outputs[1:2], Head("yolov8-split", 7))) == []


def test_a_range_that_calibration_left() -> None:
    """Ranges that kl_divergence or mmse cut by more than a tenth are found."""
    cut = {"x": CalibratedRange(0.0, 2.0, 0.0, 4.0), "y": CalibratedRange(-1.0, 1.0, -1.1, 1.1)}
    (finding,) = findings(split(0.0, 1.0), cut)
    assert (finding.kind, finding.tensors) == ("saturation", ("x",))
    assert "measured from 0 to 4 in calibration, but is kept from 0 to 2" in finding.text
    assert "quantized_algorithm='normal'" in finding.cure


def test_ranges_are_read_from_the_file(tmp_path: Path) -> None:
    """As the toolkit documents them there; a text that is none gives none."""
    data = MODEL.read_bytes()
    assert data.count(MEASURED) == 1
    (finding,) = check(data.replace(MEASURED, MORE))
    assert (finding.kind, finding.tensors) == ("saturation", ("output0",))
    assert " to 9.322 in calibration" in finding.text
    for broken in (
        MEASURED.replace(b"[", b"{"),
        MEASURED.replace(NUMBER, b"nan".ljust(len(NUMBER))),
        MEASURED.replace(b"'ori_max'", b"'ori_mox'"),
    ):
        assert len(broken) == len(MEASURED)
        assert check(data.replace(MEASURED, broken)) == ()


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the page of a model, in the table of several, and in JSON."""
    ill = tmp_path / "ill.rknn"
    ill.write_bytes(MODEL.read_bytes().replace(MEASURED, MORE))
    assert main(["info", "--health", str(ill)]) == 0
    page = capsys.readouterr().out
    assert "\nhealth\n  - saturation: 'output0' was measured" in page
    assert main(["info", "--health", str(MODEL)]) == 0
    said = "\nhealth\n  nothing found in the file; with --photos FOLDER also in detections\n"
    assert capsys.readouterr().out.endswith(said)
    assert main(["info", "--health", str(ill), str(MODEL)]) == 0
    title, *rows = capsys.readouterr().out.splitlines()
    assert title.split()[-1] == "health"
    assert [row.split()[-1] for row in rows] == ["saturation", "healthy"]
    assert main(["info", "--health", "--json", str(ill)]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["health"]
    assert set(finding) == {"kind", "tensors", "text", "cure"}


def test_photos_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects are a symptom only if no photo can show them."""
    image = pytest.importorskip("PIL.Image")
    command = ["info", "--health", str(SHAPES), "--photos"]
    assert main([*command, str(PROJECT / "examples" / "scenes")]) == 0
    assert capsys.readouterr().out.endswith("\nhealth\n  nothing found\n")
    image.new("RGB", (64, 64)).save(tmp_path / "black.png")
    assert main([*command, str(tmp_path)]) == 0
    assert "- nothing: nothing is found in any image: find the cause" in capsys.readouterr().out
