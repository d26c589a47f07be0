"""The example prints the lines of the Rust crate's example."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

EXAMPLE = PROJECT / "examples" / "coco_test.py"
SCALE = 1 / 255  # boxes 0..1 of the input and scores share it


def bundle(tmp_path, soc, classes, objects, custom_string=""):
    """A YOLOv8 of one output, 320x320, which sees `objects`: cell, class, score, box 0..1."""
    output = np.zeros((1, 4 + classes, 2100, 1), np.float32)
    for cell, class_id, score, box in objects:
        output[0, :4, cell, 0] = box
        output[0, 4 + class_id, cell, 0] = score
    values = {"soc": soc, "zero_point": -128, "scale": SCALE}
    data = bundle_from_arrays(
        [describe_input("images", (1, 3, 320, 320), **values)],
        [describe_output("output0", output.shape, **values)],
        [Record([output])],
        soc=soc,
        custom_string=custom_string,
    )
    path = tmp_path / "yolov8n.rknn"
    path.write_bytes(data)
    return path


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", [EXAMPLE.name, *map(str, arguments), "--library", "sim"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def image(save_image):
    return save_image(640, 640)


def test_prints_what_the_crate_prints(tmp_path, image, monkeypatch, capsys):
    """Line for line: model, input, output, speed, counts before and after NMS, objects."""
    model = bundle(
        tmp_path,
        "rv1106",
        80,
        [
            (7, 15, 173 * SCALE, (135 * SCALE, 79 * SCALE, 111 * SCALE, 67 * SCALE)),
            (8, 15, 170 * SCALE, (135 * SCALE, 79 * SCALE, 110 * SCALE, 67 * SCALE)),
            (2000, 2, 160 * SCALE, (128 * SCALE, 128 * SCALE, 1.0, 1.0)),
            (2099, 15, 130 * SCALE, (51 * SCALE, 204 * SCALE, 51 * SCALE, 51 * SCALE)),
        ],
    )
    lines = run(monkeypatch, capsys, model, image, "0.6")
    assert re.fullmatch(r"\d+\.\d ms/inference \(\d+\.\d FPS\)", lines.pop(3))
    assert lines == [
        f"Model: {model}",
        "Input: 320x320 NHWC",
        "Output: [1, 6, 2100, 1, 16] NC1HWC2",
        "2100 predictions, 80 classes",
        "3 -> 2 detections (after NMS)",
        "",
        "   1. cat (67.8%) at (339, 198) 279x168",
        "   2. car (62.7%) at (321, 321) 640x640",
    ]


NETS = EXAMPLE.parent.parent / "tests" / "data"


@pytest.mark.parametrize(
    "name", ["nets/shapes_yolov8", "nets/shapes_yolov5", "models/sp7x7_c33", "models/rank1_in_vec"]
)
def test_another_model_is_refused(name, image, monkeypatch, capsys):
    """Several outputs, one of another form, or no image: the message names the expected model."""
    with pytest.raises(SystemExit, match=r"coco_test\.py wants a YOLOv8 of one output, \[1, 4 \+"):
        run(monkeypatch, capsys, NETS / f"{name}_rk3588.rknn", image)
    assert capsys.readouterr().out == ""
