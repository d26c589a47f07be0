"""Planted mistakes are named with their cure, and right readings are not doubted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA, PROJECT
from recorded import FOLDERS

Image = pytest.importorskip("PIL.Image")

from rknn_runtime.cli.main import main  # noqa: E402
from rknn_runtime.conversion import conventions, readings  # noqa: E402
from rknn_runtime.conversion.readings import try_readings  # noqa: E402

EXAMPLES = PROJECT / "examples"
SHAPES = EXAMPLES / "models" / "shapes_rk3588.rknn"
SCENE = EXAMPLES / "scenes" / "scene.png"
NETS = DATA / "nets"
YOLOX = FOLDERS[-1]
ZOO = pytest.mark.skipif(
    not (YOLOX / "yolox_nano_rk3588.rknn").exists(),
    reason="needs yolox_nano_rk3588.rknn, .onnx and bus.jpg: `make test-models MODELS=folder`",
)


@pytest.mark.parametrize(
    ("given", "cause", "cure"),
    [
        ({"head": "yolox-single"}, "head", "head='yolov8-single'"),
        ({"normalized": False}, "scale", "normalized=True"),
        ({"labels": "coco"}, "labels", "head='yolov8-single'"),
        ({"labels": list("abcde")}, "labels", "head='yolov8-single'"),
        ({}, None, ""),
    ],
)
def test_mistakes_in_the_call(given: dict[str, Any], cause: str | None, cure: str) -> None:
    """A head, a unit, labels of another network, and a number of classes."""
    found = try_readings(SHAPES, [SCENE], **given)
    assert found.causes[:1] == ((cause,) if cause else ())
    assert cure in found.cure
    assert (cause is not None) or found.is_sure
    assert json.loads(json.dumps(found.to_dict()))["text"] == found.text


@pytest.mark.parametrize(
    ("given", "causes", "is_sure", "cure"),
    [
        # Its sum of scores makes it look like a pose network of one class.
        ({"head": "yolov5"}, ("head",), True, "head='yolov8-split'"),
        ({"labels": list("abcde")}, ("labels", "head"), True, "head='yolov8-split'"),
        # Twice a sigmoid keeps the order of the scores, so that as much is found.
        ({"head": "yolov8-split", "logits": True}, ("scale",), False, "logits=False"),
    ],
)
def test_what_the_file_tells_comes_first(
    given: dict[str, Any], causes: tuple[str, ...], is_sure: bool, cure: str
) -> None:
    """Labels and ranges of the file, and its usual head, before readings that find more."""
    found = try_readings(NETS / "shapes_yolov8_rk3588.rknn", [SCENE], **given)
    assert (found.causes[:1], found.is_sure) == (causes[:1], is_sure)
    assert cure in found.cure


def test_heads_with_means_of_their_own_are_not_told_to_take_0_to_1():
    """What `convert` subtracts for a family is not doubted afterwards."""
    for head, family in conventions._OF_HEADS.items():
        takes_bytes = (family.mean, family.std) == ((0.0,) * 3, (1.0,) * 3)
        assert readings._usual_normalization(head) == ("0 to 255" if takes_bytes else "")


@pytest.mark.parametrize(
    ("divisor", "height", "causes"),
    [
        (b"1.000", 640, ("normalization",)),
        (b"1.000", 240, ("normalization", "letterbox")),
        (b"127.5", 640, ("normalization",)),
    ],
)
def test_an_unusual_normalization_is_doubted(
    divisor: bytes, height: int, causes: tuple[str, ...], tmp_path: Path
) -> None:
    """It is doubted if the usual one cannot be tried, or finds as much."""
    data, usual = SHAPES.read_bytes(), b"'std': [255.0, 255.0, 255.0]"
    assert data.count(usual) == 1
    path = tmp_path / "unusual.rknn"
    path.write_bytes(data.replace(usual, usual.replace(b"255.0", divisor)))
    photo = tmp_path / "photo.png"
    with Image.open(SCENE) as image:
        image.convert("RGB").resize((640, height)).save(photo)
    found = try_readings(path, [photo])
    assert (found.causes, found.is_sure) == (causes, False)
    assert "usually take 0 to 1" in found.text
    assert found.cure.endswith("--mean 0,0,0 --std 255,255,255")


def test_another_head_does_not_hide_an_unusual_normalization(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong head that finds something, where the right one finds nothing, is not called sure."""
    usual = b"'std': [255.0, 255.0, 255.0]"
    path = tmp_path / "unusual.rknn"
    data = SHAPES.read_bytes().replace(usual, usual.replace(b"255.0", b"1.000"))
    path.write_bytes(data.replace(b'"labels"', b'"nobody"'))  # more than one head fits then
    test = readings._Trials.test

    def tried(trials: Any, way: Any) -> Any:
        found = test(trials, way)
        quality = 0.8 if way.head == "yolox-grid" else 0.0
        if found is not None:
            trials.tried[way] = found = replace(found, quality=quality)
        return found

    monkeypatch.setattr(readings._Trials, "test", tried)
    found = try_readings(path, [SCENE])
    assert (found.causes, found.is_sure) == (("normalization", "head"), False)
    assert "or the head: with the head yolox-grid" in found.text
    assert found.cure.endswith("--mean 0,0,0 --std 255,255,255")


@pytest.mark.parametrize("net", ["shapes", "shapes_yolov8"])
def test_a_network_of_stretched_photos(net: str, tmp_path: Path) -> None:
    """A squashed scene is right again if it is stretched."""
    path = tmp_path / "squashed.png"
    Image.open(SCENE).convert("RGB").resize((640, 260)).save(path)
    model = next(each / f"{net}_rk3588.rknn" for each in (SHAPES.parent, NETS)
                 if (each / f"{net}_rk3588.rknn").exists())  # fmt: skip
    found = try_readings(model, [path])
    assert (found.causes, found.is_sure) == (("letterbox",), True)
    assert found.cure == "Detector(model, stretch=True)"


@pytest.mark.parametrize(
    ("mean", "std", "normal"),
    [((0,), (1,), False), ((0,), (255,), True), ((123.675, 116.28, 103.53), (1, 1, 1), False)],
)
def test_normalizations_of_a_float_network(mean: Any, std: Any, normal: bool) -> None:
    """It takes 0 to 1; anything else is told by the command that converts it rightly."""
    pytest.importorskip("onnxruntime")
    path = SHAPES.with_name("shapes.onnx")
    found = try_readings(path, [SCENE], mean=mean, std=std, keep_graph=True, normalized=True)
    assert (found.causes == ()) == normal
    if not normal:
        assert found.causes == ("normalization",)
        assert found.cure.endswith("--mean 0,0,0 --std 255,255,255")


@pytest.mark.parametrize("path", sorted(NETS.glob("*.rknn")), ids=lambda path: path.stem)
def test_nothing_is_said_against_right_files(path: Path) -> None:
    """Whatever the head: perhaps not sure, never a wrong cause."""
    assert try_readings(path, [SCENE]).causes == ()


def test_a_network_in_float_does_not_say_how_its_boxes_are_scaled() -> None:
    """Nothing is reported for it: only the ranges of a converted file show it."""
    pytest.importorskip("onnxruntime")
    found = try_readings(SHAPES.with_name("shapes.onnx"), [SCENE])
    assert found.causes == ()


@ZOO
@pytest.mark.parametrize(
    ("given", "cause"),
    [({"color": "RGB"}, "color"), ({}, None), ({"labels": "coco"}, None)],
)
def test_colours(given: dict[str, Any], cause: str | None) -> None:
    """The file says BGR; RGB finds less."""
    found = try_readings(YOLOX / "yolox_nano_rk3588.rknn", [YOLOX / "bus.jpg"], **given)
    assert found.is_sure
    assert found.causes == ((cause,) if cause else ())
    if cause:
        assert found.cure == "Detector(model, input_color='BGR')"


@ZOO
def test_normalization_of_the_zoo() -> None:
    """YOLOX takes 0 to 255: with the usual 0 to 1 the float network finds nothing."""
    pytest.importorskip("onnxruntime")
    path = YOLOX / "yolox_nano_rk3588.onnx"
    found = try_readings(path, [YOLOX / "bus.jpg"], color="BGR", labels="coco")
    assert (found.causes, found.is_sure) == (("normalization",), True)
    assert found.cure.endswith("--for SOC --color BGR --mean 0,0,0 --std 1,1,1")


def test_networks_of_numbers_have_no_reading(tmp_path: Path) -> None:
    """Photos say nothing of them, nor of images of five channels."""
    helper = pytest.importorskip("onnx").helper
    ends = [helper.make_tensor_value_info(each, 1, [1, 8]) for each in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ends[:1], ends[1:])
    network = tmp_path / "x.onnx"
    network.write_bytes(helper.make_model(graph).SerializeToString())
    models = [DATA / "models" / f"{name}_rk3588.rknn" for name in ("ic5", "rank1_in_vec")]
    for path in (network, *models):
        with pytest.raises(ValueError, match="that takes one image, got another"):
            try_readings(path, [SCENE])


def test_no_photo_is_no_reading() -> None:
    """An empty list is refused, as it would confirm everything."""
    with pytest.raises(ValueError, match="photos: expected at least one"):
        try_readings(SHAPES, [])


def test_photos_that_show_nothing(tmp_path: Path) -> None:
    """Not sure is an answer."""
    path = tmp_path / "grey.png"
    Image.fromarray(np.full((200, 300, 3), 90, np.uint8)).save(path)
    found = try_readings(SHAPES, [path])
    assert (found.causes, found.is_sure) == ((), False)
    assert found.text.startswith("not sure")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the cause and the cure, and writes the pictures of all readings."""
    page = tmp_path / "readings.html"
    command = ["doctor", str(SHAPES), str(SCENE), "--html", str(page)]
    assert main(command) == 0
    text = page.read_text("utf-8")
    assert len(re.findall(r"<figcaption>[\d.]+: as it is used: yolov8-single", text)) == 1
    assert main([*command, "--head", "yolox-single"]) == 1
    assert "Detector(model, head='yolov8-single')" in capsys.readouterr().out
    text = page.read_text("utf-8")
    assert len(re.findall(r"<figcaption>[\d.]+: proposed: yolov8-single", text)) == 1
    assert text.count("<figure>") >= 3 and text.count('class="pair"') == 1
    assert "Detector(model, head=" in text
    assert main(["doctor", str(SHAPES), "--head", "yolov5"]) == 1
    assert "--head: expected photos, got none" in capsys.readouterr().err
