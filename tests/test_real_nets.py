"""Trained nets of four heads, converted by the vendor's toolkit, on the simulated NPU."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime.modelfile.reader import read

pytest.importorskip("PIL")
pytest.importorskip("onnxruntime")
ROOT = Path(__file__).resolve().parents[1]
NETS = sorted(
    [*ROOT.glob("examples/models/*.rknn"), *ROOT.glob("tests/data/nets/*.rknn")],
    key=lambda path: path.name,
)
SCENES = 32


@pytest.fixture(scope="module")
def tool():
    """The module tools/shapes/evaluate.py, whose neighbours it imports by plain name."""
    sys.path.insert(0, str(ROOT / "tools" / "shapes"))
    try:
        import evaluate

        evaluate.draw_input = functools.cache(evaluate.draw_input)  # slower than any net
        yield evaluate
    finally:
        sys.path.remove(str(ROOT / "tools" / "shapes"))


@pytest.fixture(scope="module")
def float_ap(tool):
    """AP of an ONNX file in onnxruntime, decoded in NumPy; measured once per file."""
    known = {}

    def measure(path):
        if path not in known:
            with tool.onnx_detector(path) as detect:
                known[path] = tool.evaluate(detect, SCENES)[0]
        return known[path]

    return measure


def onnx_of(path):
    return path.with_name(path.name.rsplit("_", 1)[0] + ".onnx")


def test_every_head_is_there():
    """Single output, YOLOv5, YOLOv8 and YOLOv10, each for both kinds of chip."""
    names = {path.stem for path in NETS}
    heads = ("shapes", "shapes_yolov5", "shapes_yolov8", "shapes_yolov10")
    assert names == {f"{head}_{soc}" for head in heads for soc in ("rv1106", "rk3588")}


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_map_on_the_simulated_npu(path, tool, float_ap):
    """It loses at most a point of mAP@0.5.

    In the single form boxes have steps of 1.25 pixels, which costs 4 points of mAP@0.5:0.95.
    """
    expected = float_ap(onnx_of(path))
    head = "yolov10" if "yolov10" in path.stem else "auto"  # without NMS: not told from YOLOv8
    with tool.product_detector(path, "product", head) as detect:
        ap = tool.evaluate(detect, SCENES)[0]
    assert np.nanmean(expected[:, 0]) > 0.5
    assert np.nanmean(ap[:, 0]) > np.nanmean(expected[:, 0]) - 0.01
    is_single = path.stem in ("shapes_rv1106", "shapes_rk3588")
    assert np.nanmean(ap) > np.nanmean(expected) - (0.05 if is_single else 0.01)


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_the_mini_runtime_runs_its_operators(path):
    """No operator that the RV1106's runtime refuses is in the file, and labels are."""
    info = read(path)
    assert '"labels":["circle",' in info.custom_string
    known = "Add Concat Conv ConvClip ConvRelu ConvReluAdd ConvSigmoid InputOperator MaxPool"
    known += " OutputOperator Reshape Resize"
    assert set(info.operators) <= set(known.split())
