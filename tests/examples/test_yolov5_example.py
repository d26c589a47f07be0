"""The YOLOv5 examples, general and zero-copy API, on a simulated NPU with a recorded answer."""

from __future__ import annotations

import json
import re
import runpy

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output
from rknn_runtime.vision.heads import YOLOV5_ANCHORS

EXAMPLES = PROJECT / "examples"
LABELS = ["disc", "square", "star"]
#: Class, score, and the box in pixels of the 320x320 input, where the image is 320x240.
OBJECTS = [
    (0, 0.90, (40, 60, 75, 100)),
    (2, 0.80, (150, 90, 270, 230)),
    (1, 0.70, (0, 40, 320, 280)),
    (0, 0.60, (44, 62, 79, 102)),  # overlaps the first, same class: suppressed
    (1, 0.50, (44, 62, 79, 102)),  # overlaps the first, another class: kept
]


def planted():
    """Three float outputs, sigmoid applied, that report OBJECTS and a background of 0.02."""
    step = 5 + len(LABELS)
    outputs = [np.full((1, 3 * step, n, n), 0.02, np.float32) for n in (40, 20, 10)]
    for class_id, score, (x1, y1, x2, y2) in OBJECTS:
        extent = np.array([x2 - x1, y2 - y1])
        misfit = np.abs(np.log(np.array(YOLOV5_ANCHORS) / extent)).max(axis=2)
        for best in misfit.argsort(axis=None):  # the next anchor where one is taken
            scale, k = divmod(int(best), 3)
            centre = np.array([x1 + x2, y1 + y2]) / 2 / (8 << scale)
            x, y = cell = centre.astype(int)
            values = outputs[scale][0, k * step : (k + 1) * step, y, x]
            if values[4] < 0.1:
                break
        values[:2] = (centre - cell + 0.5) / 2
        values[2:4] = np.sqrt(extent / YOLOV5_ANCHORS[scale][k]) / 2
        assert ((values[:4] >= 0) & (values[:4] <= 1)).all()
        values[4], values[5 + class_id] = 0.98, score / 0.98
    return outputs


@pytest.fixture
def model(soc, tmp_path):
    outputs = planted()
    attrs = [
        describe_output(f"out{i}", x.shape, soc=soc, index=i, zero_point=-128, scale=1 / 255)
        for i, x in enumerate(outputs)
    ]
    image = describe_input("images", (1, 3, 320, 320), soc=soc, zero_point=-128, scale=1 / 255)
    path = tmp_path / "yolov5.bundle"
    path.write_bytes(
        bundle_from_arrays(
            [image],
            attrs,
            [Record(outputs)],
            soc=soc,
            custom_string=json.dumps({"labels": LABELS}),
        )
    )
    return path


def run(name, model, image, monkeypatch, capsys, *options):
    """Run an example; return its output as (label, box, confidence)."""
    argv = [name, str(model), str(image), "--library", "sim", *map(str, options)]
    monkeypatch.setattr("sys.argv", argv)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    pattern = re.compile(r"(\w+) @ \((-?\d+) (-?\d+) (-?\d+) (-?\d+)\) (\d\.\d{3})")
    found = [pattern.fullmatch(line).groups() for line in lines]
    return [(label, tuple(map(int, box)), float(score)) for label, *box, score in found]


@pytest.fixture
def image(save_image):
    return save_image(640, 480)


@pytest.mark.parametrize(
    ("name", "soc"),
    [
        ("yolov5_general_api.py", "rk3588"),
        ("yolov5_zero_copy.py", "rk3588"),
        ("yolov5_zero_copy.py", "rv1106"),
    ],
)
def test_finds_the_objects(name, model, image, tmp_path, monkeypatch, capsys):
    """Each example prints every object once, in pixels of the image, and draws it."""
    out = tmp_path / "out.png"
    found = run(name, model, image, monkeypatch, capsys, "--save", out)
    expected = [o for o in OBJECTS if o[1] != 0.60]
    assert [label for label, _, _ in found] == [LABELS[class_id] for class_id, _, _ in expected]
    for (_, box, confidence), (_, score, planted_box) in zip(found, expected):
        # 640x480 lies 40 rows below the top of the input, at half its size.
        x1, y1, x2, y2 = planted_box
        there = [2 * x1, 2 * (y1 - 40), 2 * x2, 2 * (y2 - 40)]
        there = np.clip(there, 0, [640, 480, 640, 480])
        assert np.abs(np.array(box) - there).max() <= 6  # a step of int8, squared, in pixels
        assert abs(confidence - score) < 0.01
    from PIL import Image

    with Image.open(out) as drawn:
        assert drawn.size == (640, 480) and len(drawn.getcolors(1 << 20)) > 3


@pytest.mark.parametrize("name", ["yolov5_general_api.py", "yolov5_zero_copy.py"])
def test_another_kind_of_model_is_refused(name, monkeypatch, capsys):
    """The error says which outputs the demo is for, and which these are."""
    model, image = EXAMPLES / "models" / "shapes_rk3588.rknn", EXAMPLES / "scenes" / "scene.png"
    with pytest.raises(SystemExit) as caught:
        run(name, model, image, monkeypatch, capsys)
    assert all(word in str(caught.value) for word in ("expected", "5 + classes", "10, 1, 2100"))
