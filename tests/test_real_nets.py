"""Trained nets of four heads, converted by the vendor's toolkit, on the simulated NPU."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime import Model
from rknn_runtime.modelfile.reader import read
from rknn_runtime.sim import bundle_from_rknn

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


#: How much mAP@0.5:0.95 a net may lose in int8: at its outputs alone, and in every layer. In the
#: single form boxes have steps of 1.25 pixels: 1.1 points over 500 scenes, then 4 points.
LOSSES = {"onnx": (0.015, 0.01), "commands": (0.05, 0.01)}


@pytest.mark.parametrize("engine", LOSSES)
@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_map_on_the_simulated_npu(path, engine, tool, float_ap):
    """The file's commands, and its graph in float: both lose at most a point of mAP@0.5."""
    expected = float_ap(onnx_of(path))
    head = "yolov10" if "yolov10" in path.stem else "auto"  # without NMS: not told from YOLOv8
    graph = onnx_of(path) if engine == "onnx" else None
    with tool.product_detector(path, "product", head, graph) as detect:
        ap = tool.evaluate(detect, SCENES)[0]
    assert np.nanmean(expected[:, 0]) > 0.5
    assert np.nanmean(ap[:, 0]) > np.nanmean(expected[:, 0]) - 0.01
    is_single = path.stem in ("shapes_rv1106", "shapes_rk3588")
    assert np.nanmean(ap) > np.nanmean(expected) - LOSSES[engine][0 if is_single else 1]


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_dequantized_outputs_are_near_the_graph(path):
    """Computed from the ONNX file, they differ by half a step, where they are in range."""
    import onnxruntime
    from PIL import Image

    image = np.asarray(Image.open(ROOT / "examples" / "scenes" / "scene.png").convert("RGB"))
    session = onnxruntime.InferenceSession(str(onnx_of(path)), providers=["CPUExecutionProvider"])
    tensor = image.transpose(2, 0, 1)[None].astype(np.float32) / 255
    expected = session.run(None, {"images": tensor})
    with Model(bundle_from_rknn(path, onnx_of(path)), library="sim") as model:
        outputs = model(image)
        for attr, output, wanted in zip(model.outputs, outputs, expected):
            low = (-128 - attr.zero_point) * attr.scale
            high = (127 - attr.zero_point) * attr.scale
            step = attr.scale * 0.5 + 1e-4  # the graph's own rounding of sums
            np.testing.assert_allclose(output, np.clip(wanted, low, high), rtol=0, atol=step)


@pytest.mark.parametrize("path", NETS, ids=lambda path: path.stem)
def test_the_mini_runtime_runs_its_operators(path):
    """No operator that the RV1106's runtime refuses is in the file, and labels are."""
    info = read(path)
    assert '"labels":["circle",' in info.custom_string
    known = "Add Concat Conv ConvClip ConvRelu ConvReluAdd ConvSigmoid InputOperator MaxPool"
    known += " OutputOperator Reshape Resize"
    assert set(info.operators) <= set(known.split())
