"""The command line: what ``rknn-runtime info`` prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import handmade
import pytest
from paths import DATA, PROJECT

from rknn_runtime.cli import main
from rknn_runtime.cli.info import warnings_about
from rknn_runtime.conversion.health import Head, findings, guess_head
from rknn_runtime.modelfile import ModelInfo, reader

ROOT = PROJECT
MODELS = DATA / "models"

ATTR_KEYS = [
    "index", "name", "shape", "layout", "dtype", "qnt_type", "zero_point", "scale", "fl",
    "n_elems", "size", "size_with_stride", "w_stride", "h_stride",
]  # fmt: skip


def test_a_page_tells_what_a_model_wants_and_gives(capsys: pytest.CaptureFixture[str]) -> None:
    """Input with strides, output with padding, preprocessing, memory, a warning."""
    assert main(["info", str(MODELS / "ic3_w37_rv1106.rknn")]) == 0
    page = capsys.readouterr().out
    rows = [line.split() for line in page.splitlines()]
    image = next(row for row in rows if row[2:3] == ["logical"])
    assert " ".join(image) == "0 images logical NHWC 1x21x37x3 INT8 -128 0.00390619 48 2331 3024"
    native = next(row for row in rows if row[:2] == ["native", "NC1HWC2"])
    assert native[2:4] == ["1x2x1x780x16", "INT8"]
    assert native[-3:] == ["37", "24960", "24960"]
    assert "rv1106 (RKNPU t3), runs with librknnmrt.so" in page
    assert "rknn-toolkit2 2.3.2 from ONNX" in page
    taken = "images: give uint8 pixels; the NPU takes (value - mean) / std, mean 0, std 255"
    assert taken in page
    assert "the output lies in memory as NC1HWC2, with padding" in page
    assert "commands 4352 bytes, internal" in page


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (
            "ic5_rk3588",
            "images: give float32, which becomes int8, or int8 as it is; of float32 Model takes "
            "(value - mean) / std, mean 0, std 255",
        ),
        ("mi_img_vec_rv1106", "vec: give float32, which becomes int8, or int8 as it is"),
        ("fp16_ic1_w37_rk3588", "images: give uint8 pixels; the NPU takes (value - mean) / std"),
    ],
)
def test_a_page_tells_what_run_takes(
    capsys: pytest.CaptureFixture[str], model: str, line: str
) -> None:
    """Pixels for images, float32 for other quantized inputs."""
    assert main(["info", str(MODELS / f"{model}.rknn")]) == 0
    assert f"  {line}" in capsys.readouterr().out


def test_the_page_in_the_documentation_is_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to the dots."""
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "inspecting-models.md").read_text(encoding="utf-8")
    command, *shown = page.partition("$ rknn-runtime ")[2].partition("\n...")[0].splitlines()
    assert main(command.split()) == 0
    assert capsys.readouterr().out.splitlines()[: len(shown)] == shown
    assert len(shown) > 5


def test_a_page_of_a_batch_and_of_dynamic_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    """Both have a line."""
    assert main(["info", str(MODELS / "batch2_build_rk3588.rknn")]) == 0
    assert "2 images per run" in capsys.readouterr().out
    assert main(["info", str(MODELS / "dyn_in_rk3588.rknn")]) == 0
    page = capsys.readouterr().out
    assert "shapes of images" in page
    assert "1x48x40x3, 1x32x32x3" in page


def test_several_models_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each below the titles; a file that is none is told on stderr."""
    models = [MODELS / "ic5_rv1106.rknn", MODELS / "ic5.onnx", MODELS / "ic5_rk3588.rknn"]
    assert main(["info", *map(str, models)]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split()[:3] == ["file", "soc", "container"]
    assert lines[1].split()[:4] == [str(models[0]), "rv1106", "mini", "2.3.2"]
    assert lines[2].split()[:4] == [str(models[2]), "rk3588", "standard", "2.3.2"]
    assert len(lines) == 3
    text = "this is an ONNX model; convert the network first, on a PC: rknn-runtime convert"
    assert f"rknn-runtime: {models[1]}: {text}" in captured.err


def test_a_version_of_the_runtime_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It decides the sizes; a version that librknnmrt lacks is an error for its models alone."""
    paths = [str(MODELS / f"rank1_in_vec_{soc}.rknn") for soc in ("rk3588", "rv1106")]
    sizes = {}
    for option in ([], ["--runtime-version", "2.3.2"], ["--runtime-version", "1.5.2"]):
        status = main(["info", "--json", *option, *paths])
        printed = capsys.readouterr()
        found = [json.loads(line) for line in printed.out.splitlines()]
        assert status == 2 - len(found)
        assert ("for librknnmrt, got '1.5.2'" in printed.err) == (len(found) == 1)
        sizes[found[0]["runtime_version"]] = found[0]["outputs"][0]["native"]["size"]
    assert sizes == {"2.3.2": 64, "1.5.2": 8}
    assert main(["info", "--runtime-version", "1.5.2", paths[0]]) == 0
    assert "as librknnrt 1.5.2 does" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["info", "--runtime-version", "2.0.0", *paths])


def test_json_has_stable_keys(capsys: pytest.CaptureFixture[str]) -> None:
    """One object per line; the keys are the names of the Python attributes."""
    models = [MODELS / "mi_img_vec_rk3588.rknn", MODELS / "custom_string_rv1106.rknn"]
    assert main(["info", "--json", *map(str, models)]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert list(first) == list(second) == [
        "file", "file_bytes", "soc", "npu", "runtime", "runtime_version", "container",
        "container_version", "toolkit_version", "compiler_version", "framework", "custom_string",
        "batch",
        "dynamic_shapes", "weight_bytes", "internal_bytes", "command_bytes", "input_bytes",
        "output_bytes", "operators", "inputs", "outputs", "head", "task", "warnings",
    ]  # fmt: skip
    assert list(first["outputs"][0]) == [*ATTR_KEYS, "native", "nhwc"]
    assert list(first["inputs"][1]) == [*ATTR_KEYS, "native", "nhwc", "preprocessing"]
    assert list(first["inputs"][0]["native"]) == ATTR_KEYS
    assert first["head"] == {"name": "vector", "classes": None}
    assert second["custom_string"] == '{"classes": ["a","b"], "note": "hello 世界"}'
    assert second["runtime"] == "librknnmrt"
    assert second["inputs"][0]["preprocessing"] == {
        "mean": [0, 0, 0], "std": [255, 255, 255], "rgb2bgr": False,
    }  # fmt: skip


IMAGE = handmade.tensor("images", (1, 3, 640, 640), (1, 1, 640, 640, 3), pixel=True)


def described(*shapes: tuple[int, ...], scale: float = 0.5) -> ModelInfo:
    """A model with a 640 x 640 image input and outputs of these shapes."""
    outputs = []
    for index, shape in enumerate(shapes):
        native, layout, zero_point = shape, 0, 3
        if len(shape) == 4:
            native, layout = (shape[0], -(-shape[1] // 16), *shape[2:], 16), 0x40
            zero_point = -128  # as of scores and their sums
        outputs.append(
            handmade.tensor(
                f"o{index}", shape, native, layout=layout, scale=scale, zero_point=zero_point
            )
        )
    return reader.read(handmade.standard_model([IMAGE], outputs))


def scales(*channels: int) -> list[tuple[int, ...]]:
    """Outputs of these channels at strides 8, 16 and 32."""
    return [(1, c, side, side) for side in (80, 40, 20) for c in channels]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (scales(255), Head("yolov5", 80)),
        (scales(64, 80, 1), Head("yolov8-split", 80)),
        (scales(85), Head("yolox", 80, shares_scale=True)),
        ([(1, 84, 8400)], Head("yolov8-single", 80, shares_scale=True)),
        ([(1, 300, 6)], Head("end-to-end", None, shares_scale=True)),
        ([(1, 1000)], Head("classifier", 1000)),
        ([(1, 1001, 1, 1)], Head("classifier", 1001)),
        ([(1, 512)], Head("vector", None, 512)),
        ([(1, 1)], None),
        ([(1, 24, 80, 80)], None),
        ([*scales(64, 80)[:5], (1, 81, 20, 20)], None),
        ([(1, 10)] * 3, None),
    ],
)
def test_the_head_is_guessed_from_shapes(
    shapes: list[tuple[int, ...]], expected: Head | None
) -> None:
    """As the detector would take it, or as a classifier."""
    info = described(*shapes)
    assert guess_head(info) == expected


def test_feature_maps_of_a_part_are_no_head() -> None:
    """Three scales of 16 channels of a network whose input is itself a feature map."""
    taken = handmade.tensor("x", (1, 16, 640, 640), (1, 1, 640, 640, 16))
    shapes = scales(16)
    outputs = [handmade.tensor(f"o{i}", s, (1, 1, *s[2:], 16)) for i, s in enumerate(shapes)]
    assert guess_head(described(*shapes)) == Head("yolox", 11, shares_scale=True)
    assert guess_head(reader.read(handmade.standard_model([taken], outputs))) is None


def test_doubts_about_the_head_are_shown() -> None:
    """One class with anchors, or 13 without."""
    info = described(*scales(18))
    told = {"zero_point": 0, "scale": 1 / 32, "native": None}
    info = replace(info, outputs=tuple(replace(each, **told) for each in info.outputs))
    assert str(guess_head(info)) == "yolov5, 1 class; or 'yolox' of 13 classes"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fc1000_softmax_rv1106", "classifier, 1000 classes"),
        ("mi_img_vec_rk3588", "one vector of 12 numbers"),
        ("rank1_in_vec_rv1106", "one vector of 8 numbers"),
    ],
)
def test_a_vector_is_no_classifier(name: str, expected: str) -> None:
    """Not where `Classifier` refuses the model: another input than one image."""
    assert str(guess_head(reader.read(MODELS / f"{name}.rknn"))) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "one vector of 512 numbers"),
        ({"operators": {"Conv": 9, "exSoftmax13": 1}}, "classifier, 512 classes"),
        ({"operators": {"MatMul": 24, "Softmax": 12}}, "one vector of 512 numbers"),
        ({"custom_string": json.dumps({"labels": ["x"] * 512})}, "classifier, 512 classes"),
        ({"custom_string": json.dumps({"labels": ["x"] * 9})}, "one vector of 512 numbers"),
    ],
)
def test_scores_are_told_from_an_embedding(change: dict[str, object], expected: str) -> None:
    """By one softmax or as many labels; the softmaxes of a transformer's layers say nothing."""
    info = ModelInfo(**{**vars(described((1, 512))), **change})
    assert str(guess_head(info)) == expected


@pytest.mark.parametrize(
    ("zero_point", "scale", "expected"),
    [
        (-128, 1 / 256, "classifier, 512 classes"),
        (-128, 6 / 255, "one vector of 512 numbers"),
        (0, 1 / 128, "one vector of 512 numbers"),
    ],
)
def test_integers_that_stand_for_0_to_1_are_scores(
    zero_point: int, scale: float, expected: str
) -> None:
    """As behind a softmax or sigmoid; not so a ReLU's 0 to 6, or -1 to 1."""
    output = handmade.tensor("o", (1, 512), (1, 512), layout=0, scale=scale, zero_point=zero_point)
    info = reader.read(handmade.standard_model([IMAGE], [output]))
    assert str(guess_head(info)) == expected


def test_the_head_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its classes, in the page and in the row."""
    outputs = [
        handmade.tensor(f"o{i}", shape, (1, -(-shape[1] // 16), *shape[2:], 16))
        for i, shape in enumerate(scales(64, 1))
    ]
    model = tmp_path / "m.rknn"
    model.write_bytes(handmade.standard_model([IMAGE], outputs))
    for count in (1, 2):
        assert main(["info", *[str(model)] * count]) == 0
        printed = capsys.readouterr().out
        assert "yolov8-split, 1 class" in printed
        assert "1 classes" not in printed


def test_a_shared_scale_is_warned_of() -> None:
    """With the step between confidences, and what to do where that is coarse."""
    info = described((1, 84, 8400), scale=2.5)
    (warning,) = warnings_about(info, guess_head(info))
    assert [warning] == [str(symptom) for symptom in findings(info, {})]
    assert "boxes and scores in one scale" in warning
    info = described((1, 84, 8400), scale=0.004)
    assert warnings_about(info, guess_head(info)) == []
    info = described(*scales(64, 80, 1))
    (warning,) = warnings_about(info, guess_head(info))
    assert warning.startswith("9 of 9 outputs lie in memory as NC1HWC2, 3 with padding")


def test_operators_that_the_mini_runtime_refuses_are_warned_of() -> None:
    """Most of them only in mini containers: the full runtime has these operators."""
    info = reader.read(MODELS / "ic5_rv1106.rknn")
    assert len(warnings_about(info, None)) == 1
    fields = {**vars(info), "operators": {"Conv": 1, "TopK": 1, "ArgMax": 1}}
    found = warnings_about(ModelInfo(**fields), None)[1:]
    assert [text.partition(":")[0] for text in found] == ["operator TopK", "operator ArgMax"]
    standard = warnings_about(ModelInfo(**{**fields, "container": "standard"}), None)
    assert standard[1].startswith("librknnrt up to 1.6.0 ends the process on the operator TopK")
    assert "standard container for rv1106" in standard[2]
    assert len(standard) == 3


def test_a_container_of_the_other_runtime_is_warned_of() -> None:
    """The toolkit makes both, and the SoC's own runtime loads neither."""
    info = reader.read(MODELS / "dyn_in_rv1106.rknn")
    assert info.runtime == "librknnrt"
    assert "dynamic_input" in warnings_about(info, None)[-1]
    mini = reader.read(MODELS / "ic5_rv1106.rknn")
    info = ModelInfo(**{**vars(mini), "soc": "rk3588"})
    assert info.runtime == "librknnmrt"
    assert "whose librknnrt reads only the other kind" in warnings_about(info, None)[-1]
    assert "mini_rknn" in warnings_about(info, None)[-1]


def test_emulate_tells_what_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The page lists the inexact nodes, the table has one word, JSON everything."""
    floats, refused = MODELS / "fc1000_softmax_rv1106.rknn", MODELS / "i16_ic1_w37_rv1106.rknn"
    other = tmp_path / "old.rknn"
    other.write_bytes(handmade.standard_model([IMAGE], [IMAGE], target="rk2118"))
    assert main(["info", "--emulate", str(floats)]) == 0
    page = capsys.readouterr().out
    assert "emulated rv1106: 5 exact, 2 float, 0 refused; not yet compared with a board" in page
    assert "float: exSoftmax13 Softmax_5: task 6: " in page
    assert main(["info", "--emulate", str(other)]) == 0
    assert "refused: the SoC 'rk2118' is not understood" in capsys.readouterr().out
    assert main(["info", "--emulate", str(floats), str(refused), str(other)]) == 0
    lines = capsys.readouterr().out.splitlines()
    ends = ["emulated", "runs", "2 nodes refused", "refused"]
    assert [line.endswith(end) for line, end in zip(lines, ends)] == [True] * 4
    assert main(["info", "--emulate", "--json", str(refused), str(other)]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["emulation"]["refused"] is None
    assert {node["verdict"] for node in first["emulation"]["nodes"]} == {"NOTHING", "REFUSED"}
    assert second["emulation"] == {"refused": "the SoC 'rk2118' is not understood", "nodes": []}


def test_layers_stand_in_a_table_with_sums(capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each operator, with 0 or a dash for missing tasks or multiplications."""
    model = str(MODELS / "ic3_w37_rv1106.rknn")
    assert main(["info", "--layers", model]) == 0
    page = capsys.readouterr().out.partition("\nlayers\n")[2]
    rows = [line.split() for line in page.splitlines()]
    assert len(rows) == 6
    assert " ".join(rows[2]) == (
        "1 ConvRelu Conv_0 NPU 1 1x3x21x37 1x16x21x37 335664 704 2331 12432"
    )
    assert rows[1][3:5] == ["-", "0"]
    assert rows[-1][0] == "sum" and rows[-1][2] == str(16 * 777 * 27 + 24 * 777 * 16)


def test_layers_as_json_and_in_a_table_of_models(capsys: pytest.CaptureFixture[str]) -> None:
    """Stable keys; several models have a column with the sums."""
    models = [str(MODELS / f"ic3_w37_{soc}.rknn") for soc in ("rv1106", "rk3588")]
    assert main(["info", "--layers", "--json", *models]) == 0
    entry = json.loads(capsys.readouterr().out.splitlines()[0])
    layer = entry["layers"][1]
    assert (layer["operator"], layer["device"], layer["tasks"]) == ("ConvRelu", "NPU", 1)
    assert entry["layers"][0]["device"] is None
    assert layer["outputs"] == [
        {"name": "relu_1", "shape": [1, 16, 21, 37], "dtype": "INT8", "stored_bytes": 12432}
    ]
    assert main(["info", "--layers", *models]) == 0
    titles, *rows = capsys.readouterr().out.splitlines()
    assert titles.endswith("layers")
    assert all(row.endswith("634 kMACs") for row in rows)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PROJECT / "examples" / "models" / "shapes_rk3588.rknn", "Detector"),
        (MODELS / "fc1000_softmax_rv1106.rknn", "Classifier"),
        (
            MODELS / "ic3_w37_rk3588.rknn",
            "perhaps Segmenter or PoseEstimator: the outputs do not tell",
        ),
        (MODELS / "mi_img_vec_rk3588.rknn", "Model"),
        (PROJECT / "tests/data/sklearn/disc.rknn", "a class of rknn_runtime.sklearn"),
    ],
)
def test_the_class_that_reads_a_model(
    path: Path, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or those that might, where only its maker knows."""
    assert main(["info", str(path)]) == 0
    (line,) = [row for row in capsys.readouterr().out.splitlines() if "read by" in row]
    assert line.split(maxsplit=2)[2] == expected
