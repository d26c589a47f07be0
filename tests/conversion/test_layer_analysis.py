"""The toolkit judges the layers of a network: the job it is given, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.cli.main import main
from rknn_runtime.conversion import analysis
from rknn_runtime.conversion.toolkit import ToolkitError
from rknn_runtime.errors import InvalidModelError

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("PIL")

ONNX = PROJECT / "examples" / "models" / "shapes.onnx"
SCENES = PROJECT / "examples" / "scenes"
#: Written by hand in the form of the toolkit.
TEXT = """\
layer_name            simulator_error
                     entire              single
                  cos      euc        cos      euc
[Input] images  1.00000 | 0.0       1.00000 | 0.0
[Conv] output0  0.99000 | 1.5       0.99500 | 0.5
"""


@pytest.fixture
def jobs(monkeypatch):
    """Jobs that a toolkit was given, which leaves the text above."""
    given = []

    def run(python, job, progress=None):
        paths = Path(job["build"]["dataset"]).read_text("utf-8").split()
        images = [np.load(path) for path in [*paths, *job["accuracy_analysis"]["inputs"]]]
        given.append((python, job, images))
        folder = Path(job["accuracy_analysis"]["output_dir"])
        folder.mkdir()
        (folder / "error_analysis.txt").write_text(TEXT, "utf-8")
        if progress is not None:
            progress("accuracy_analysis")
        return ""

    monkeypatch.setattr(analysis, "run_job", run)
    monkeypatch.setattr(analysis, "toolkit_python", lambda version, **_: f"python of {version}")
    return given


def test_the_job_has_all_that_was_said(jobs, tmp_path) -> None:
    """Images in the input's size as NCHW, the first to judge with, mean, std, algorithm."""
    said = []
    found = analysis.analyse(
        ONNX, "RK3588", SCENES, mean=(1, 2, 3), std=(4, 5, 6), algorithm="mmse", limit=2,
        progress=said.append,
    )  # fmt: skip
    assert [row.name for row in found.rows] == ["images", "output0"]
    assert said == ["accuracy_analysis"]
    ((python, job, images),) = jobs
    assert python == "python of 2.3.2"
    assert job["config"] == {
        "target_platform": "rk3588",
        "mean_values": [[1, 2, 3]],
        "std_values": [[4, 5, 6]],
        "quantized_algorithm": "mmse",
    }
    assert [image.shape for image in images] == [(1, 3, 320, 320)] * 3
    np.testing.assert_array_equal(images[0], images[2])
    assert set(job["accuracy_analysis"]) == {"inputs", "output_dir"}
    assert not Path(job["load"]["arguments"]["model"]).exists()  # of the time of the job


def test_an_image_and_a_board_may_be_named(jobs) -> None:
    """The board by its name, or the only one."""
    analysis.analyse(ONNX, "rk3588", SCENES, image=SCENES / "wide.jpg", limit=1, device="ab12")
    analysis.analyse(ONNX, "rk3588", SCENES, limit=1, device=True)
    (_, named, images), (_, only, _) = jobs
    assert named["accuracy_analysis"]["target"] == "rk3588"
    assert named["accuracy_analysis"]["device_id"] == "ab12"
    assert only["accuracy_analysis"]["device_id"] is None
    assert (images[0] != images[1]).any()


def test_what_the_toolkit_complains_of_is_told(jobs, monkeypatch) -> None:
    """And a text that is none."""

    def fail(*_):
        raise ToolkitError("rknn-toolkit2 failed in accuracy_analysis: no devices", "x", "")

    monkeypatch.setattr(analysis, "run_job", fail)
    with pytest.raises(ToolkitError, match="no devices"):
        analysis.analyse(ONNX, "rk3588", SCENES)
    monkeypatch.setattr(
        analysis, "run_job",
        lambda _, job, __: Path(job["accuracy_analysis"]["output_dir"], "error_analysis.txt")
        .write_text("x") if Path(job["accuracy_analysis"]["output_dir"]).mkdir() is None else 0,
    )  # fmt: skip
    with pytest.raises(InvalidModelError, match="expected the table of an accuracy analysis"):
        analysis.analyse(ONNX, "rk3588", SCENES)


def test_misuse_is_told(jobs, tmp_path) -> None:
    """Before anything is installed or run."""
    with pytest.raises(ValueError, match="target: expected one of"):
        analysis.analyse(ONNX, "rk9999", SCENES)
    with pytest.raises(ValueError, match=r"model: expected an \.onnx file"):
        analysis.analyse("a.rknn", "rk3588", SCENES)
    with pytest.raises(ValueError, match="limit"):
        analysis.analyse(ONNX, "rk3588", SCENES, limit=0)
    with pytest.raises(ValueError, match="calibrate: expected"):
        analysis.analyse(ONNX, "rk3588", tmp_path)
    vector = PROJECT / "tests" / "data" / "models" / "rank1_in_vec.onnx"
    with pytest.raises(ValueError, match="model: expected a network that takes one image"):
        analysis.analyse(vector, "rk3588", SCENES)
    assert jobs == []


def test_the_command(jobs, capsys, tmp_path) -> None:
    """It prints the table, writes the plot, and names missing files."""
    plot = tmp_path / "a.svg"
    command = ["accuracy", str(ONNX), "--for", "rk3588", "--calibrate", str(SCENES)]
    assert main([*command, "--device", "--limit", "1", "--plot", str(plot)]) == 0
    printed = capsys.readouterr()
    assert "output0 (Conv)" in printed.out
    assert printed.err == "accuracy_analysis\n"
    assert plot.exists()
    ((_, job, _),) = jobs
    assert job["accuracy_analysis"]["target"] == "rk3588"
    assert main(["accuracy", str(ONNX)]) == 1
    assert "--for: expected one, as there is no second side, got none" in capsys.readouterr().err
