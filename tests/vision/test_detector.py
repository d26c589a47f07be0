"""From an image to detections, on the trained example and the simulated NPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import Classifier, Detector, Model, TensorType
from rknn_runtime.errors import ClosedError, InvalidModelError

Image = pytest.importorskip("PIL.Image")

from rknn_runtime.sim import (  # noqa: E402
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
)
from rknn_runtime.vision import letterbox  # noqa: E402
from rknn_runtime.vision.heads import SingleOutputDecoder  # noqa: E402

EXAMPLES = PROJECT / "examples"
SCENES = [EXAMPLES / "scenes" / "scene.png", EXAMPLES / "scenes" / "wide.jpg"]


@pytest.fixture(params=["rk3588", "rv1106"])
def model(request):
    with Model(EXAMPLES / "models" / f"shapes_{request.param}.rknn", library="sim") as model:
        yield model


@pytest.mark.parametrize("scene", SCENES, ids=lambda path: path.name)
def test_finds_what_its_parts_find(model, scene):
    """The same as letterbox, run, decode and mapping back by hand."""
    detector = Detector(model)
    assert detector.head == "yolov8-single"
    assert detector.labels == ["circle", "square", "triangle", "star", "cross", "ring"]
    found = detector(scene)
    pixels, transform = letterbox(scene, (320, 320))
    model.run(pixels)
    by_hand = SingleOutputDecoder(model.outputs[0], (320, 320))(model.output_raw(0))
    assert len(found) >= 5
    assert found == transform.detections_to_image(by_hand)


@pytest.mark.parametrize("turned", [1, 6])
def test_objects_of_large_photos(model, tmp_path, turned):
    """Found in a JPEG decoded at half its size, in pixels of the whole upright photo."""
    path, exif = tmp_path / "photo.jpg", Image.Exif()
    exif[0x0112] = turned
    photo = Image.open(SCENES[1]).convert("RGB").resize((1285, 1283))
    (photo if turned == 1 else photo.transpose(Image.ROTATE_90)).save(path, exif=exif, quality=95)
    detector = Detector(model, conf_threshold=0.43)
    found, whole = detector(path), detector(np.asarray(photo))
    assert len(found) >= 4 and (found.class_id == whole.class_id).all()
    np.testing.assert_allclose(found.xyxy, whole.xyxy, atol=2 * 1285 / 320)
    frame, transform = letterbox(path, (320, 320))
    assert transform.image_size == (1283, 1285)
    assert found == transform.detections_to_image(detector(frame))


def test_doubts_about_the_head_are_logged(caplog):
    """18 float channels per scale are read as YOLOv5 of one class; the name of it confirms it."""
    grids = [(8, 8), (4, 4), (2, 2)]
    outputs = [
        describe_output(f"o{i}", (1, 18, *grid), index=i, dtype=TensorType.FLOAT16)
        for i, grid in enumerate(grids)
    ]
    records = [Record([np.zeros(each.shape, np.float32) for each in outputs])]
    made = bundle_from_arrays([describe_input("image", (1, 3, 64, 64))], outputs, records)
    with Model(made, library="sim") as model:
        assert Detector(model, head="yolov5").head == "yolov5"
        assert not caplog.records
        assert Detector(model).head == "yolov5"
    (record,) = caplog.records
    assert "'yolov5' of 1 classes is assumed, but 'yolox' of 13 classes" in record.message


def test_thresholds_and_options(model):
    """They reach the decoder."""
    everything = Detector(model, conf_threshold=0.05)(SCENES[0])
    few = Detector(model, conf_threshold=0.6)(SCENES[0])
    assert len(few) < len(everything)
    assert few == everything[: len(few)]
    assert Detector(model, max_detections=2)(SCENES[0]) == Detector(model)(SCENES[0])[:2]
    overlapping = Detector(model, iou_threshold=1.0)(SCENES[0])
    assert len(overlapping) > len(Detector(model)(SCENES[0]))


def test_own_labels(model):
    """Given names win over the file's; there must be as many as classes."""
    names = {i: f"shape {i}" for i in range(6)}
    detector = Detector(model, labels=names)
    assert detector.labels is names
    assert (
        detector(SCENES[0]).to_dict(detector.labels)["detections"][0]["label"].startswith("shape")
    )
    with pytest.raises(ValueError, match="3 labels, but the outputs make yolov8-single of 6"):
        Detector(model, labels=["a", "b", "c"])


def answering(custom_string, channels=3):
    """A split head of 64 x 64 pixels and two classes: per scale two boxes that overlap by half."""
    tensors = []
    for side in (8, 4, 2):
        score = np.zeros((1, 2, side, side), np.float32)
        score[0, 0, 1, :2] = 0.8
        tensors += [np.full((1, 4, side, side), 1.5, np.float32), score]
    scale = {"zero_point": -128, "scale": 0.01}
    return bundle_from_arrays(
        [describe_input("image", (1, channels, 64, 64), zero_point=-128, scale=1 / 255)],
        [describe_output(f"o{i}", x.shape, index=i, **scale) for i, x in enumerate(tensors)],
        [Record(tensors)],
        custom_string=custom_string,
    )


@pytest.mark.parametrize(
    ("said", "head", "labels", "color"),
    [
        ("", "yolov6-split", None, "RGB"),
        ("not JSON", "yolov6-split", None, "RGB"),
        ("[" * 1000, "yolov6-split", None, "RGB"),
        ("[1]", "yolov6-split", None, "RGB"),
        ({"head": "yolov10"}, "yolov10-split", None, "RGB"),
        ({"head": "yolo26", "labels": ["a", "b"]}, "yolov10-split", ["a", "b"], "RGB"),
        ({"head": "auto", "labels": {"0": "a", "1": "b"}}, "yolov6-split", {0: "a", 1: "b"}, "RGB"),
        ({"input": {"color": "BGR"}}, "yolov6-split", None, "BGR"),
        ({"head": 7, "labels": [1, 2], "input": "BGR"}, "yolov6-split", None, "RGB"),
        ({"labels": {"person": 0}, "input": {"color": "CMYK"}}, "yolov6-split", None, "RGB"),
    ],
)
def test_what_the_custom_string_says_counts(said, head, labels, color):
    """Labels, head and channel order are taken; other keys are ignored."""
    text = said if isinstance(said, str) else json.dumps(said)
    with Model(answering(text), library="sim") as model:
        detector = Detector(model)
        assert (detector.head, detector.labels, detector.input_color) == (head, labels, color)
        assert Detector(model, head="yolov6", input_color="RGB").head == "yolov6-split"
        assert len(detector(np.zeros((64, 64, 3), np.uint8))) == (6 if "10" in head else 3)


def test_an_unknown_head_in_the_custom_string():
    """The message says where the name comes from, and a given head goes before it."""
    with Model(answering('{"head": "yolo10"}'), library="sim") as model:
        with pytest.raises(ValueError, match=r"yolov10.*, got 'yolo10' from the model's custom"):
            Detector(model)
        assert Detector(model, head="yolov10").head == "yolov10-split"


def test_gray_models():
    """An input of one channel gets the luma of the image."""
    with Model(answering("", channels=1), library="sim") as model:
        detector = Detector(model)
        detector(np.full((64, 64, 3), (255, 0, 0), np.uint8))
        assert detector.input_color == "GRAY"
        assert np.unique(model.input_view()).tolist() == [76]


def test_refusals(model):
    """No model, an unknown head, an unknown option."""
    with pytest.raises(TypeError, match="expected a Model, got str"):
        Detector("model.rknn")
    with pytest.raises(ValueError, match="head: expected 'auto'"):
        Detector(model, head="yolo")
    with pytest.raises(TypeError, match="anchor"):
        Detector(model, anchor=3)
    with pytest.raises(ValueError, match="no yolov5 head has these"):
        Detector(model, head="yolov5")
    with pytest.raises(TypeError):
        Detector(model)(None)
    with pytest.raises(ValueError, match='labels: expected "coco" or a'):
        Detector(model, labels="circle")
    with pytest.raises(ValueError, match="input_color: expected"):
        Detector(model, input_color="GBR")


@pytest.mark.parametrize("color", ["NV12", "YUYV"])
def test_camera_frames(model, color):
    """A camera frame goes through letterbox's own conversion, with its options."""
    detector = Detector(model)
    rgb = np.asarray(Image.open(SCENES[0]).convert("RGB"))
    rgb = rgb[: rgb.shape[0] // 2 * 2, : rgb.shape[1] // 2 * 2].astype(float)
    y = 0.2126 * rgb[..., 0] + 0.7152 * rgb[..., 1] + 0.0722 * rgb[..., 2]
    u, v = (rgb[..., 2] - y) / 1.8556 + 128, (rgb[..., 0] - y) / 1.5748 + 128
    y, u, v = (np.clip(plane + 0.5, 0, 255).astype(np.uint8) for plane in (y, u, v))
    if color == "NV12":
        frame = (y, np.stack([u[::2, ::2], v[::2, ::2]], axis=2))
    else:
        frame = np.stack([y, u], axis=2)
        frame[:, 1::2, 1] = v[:, ::2]
    found = detector(frame, color=color, matrix="bt709", full_range=True)
    pixels, transform = letterbox(frame, (320, 320), color=color, matrix="bt709", full_range=True)
    model.run(pixels)
    assert found == detector.decoder(model.output_raw(0), transform)
    expected = detector(SCENES[0])
    assert sorted(found.class_id) == sorted(expected.class_id) and len(found) > 4


def test_objects_have_the_names_of_the_file(model):
    """They have the file's names, or the given ones; also in views and a pool's results."""
    assert "circle" in Detector(model)(SCENES[0]).names
    assert "disc" in Detector(model, ["disc", *"abcde"])(SCENES[0])[:3].names


def test_a_color_that_is_none_lists_those_that_are(model):
    """The list has the formats of cameras, too, in capitals."""
    wanted = r"color: expected one of RGB, BGR, NV12, .*, got 'nv12'"
    for image in (SCENES[0], np.zeros((96, 64, 3), np.uint8), np.zeros((480, 320), np.uint8)):
        with pytest.raises(ValueError, match=wanted):
            Detector(model)(image, color="nv12")


# Opening a model by its path, or the folder of an export


MODELS = PROJECT / "examples" / "models"
SHAPES = MODELS / "shapes_rk3588.rknn"
SCENE = np.random.default_rng(1).integers(0, 256, (240, 320, 3), np.uint8)
METADATA = "task: {task}\nimgsz: [{size}, {size}]\nnames: [{names}]\n"


def export(folder: Path, model: Path, task: str = "detect", size: int = 320, names: int = 6):
    """A folder as the export leaves it."""
    listed = ", ".join(f"class {i}" for i in range(names))
    text = METADATA.format(task=task, size=size, names=listed)
    folder.mkdir()
    (folder / "metadata.yaml").write_text(text, "utf-8")
    shutil.copy(model, folder)
    return folder


def test_a_folder_gives_the_labels(tmp_path: Path) -> None:
    """And the same detections as its model; leaving the block closes the model."""
    folder = export(tmp_path / "best_rknn_model", SHAPES)
    with Detector.open(folder, library="sim", conf_threshold=0.01) as detector:
        assert detector.labels == [f"class {i}" for i in range(6)]
        found = detector(SCENE)
    with pytest.raises(ClosedError):
        detector(SCENE)
    with Model(SHAPES, library="sim") as model:
        assert Detector(model, conf_threshold=0.01)(SCENE) == found


def test_a_file_is_opened_likewise(tmp_path: Path) -> None:
    """With labels of a file, or none."""
    names = tmp_path / "shapes.names"
    names.write_text("\n".join("abcdef"), "utf-8")
    with Detector.open(SHAPES, names, library="sim") as detector:
        assert detector.labels == list("abcdef")
    detector.close()  # again
    opened = Detector.open(str(SHAPES), library="sim")
    assert opened.labels is not None
    opened.close()
    with pytest.raises(ClosedError):
        opened.model.run(np.zeros((1, 320, 320, 3), np.uint8))


def test_folders_of_another_model_are_refused(tmp_path: Path, control: object) -> None:
    """Another size, another number of classes, another task; and nothing stays open."""
    size = export(tmp_path / "size", SHAPES, size=640)
    with pytest.raises(ValueError, match=r"imgsz \(640, 640\), got a model of \(320, 320\)"):
        Detector.open(size, library="sim")
    classes = export(tmp_path / "classes", SHAPES, names=5)
    with pytest.raises(ValueError, match="expected a head of the task detect, got yolov8-obb"):
        Detector.open(classes, library="sim")
    with pytest.raises(ValueError, match="make yolov8-obb-single of 5 classes"):
        Detector.open(export(tmp_path / "obb", SHAPES, "obb"), library="sim")
    wrong = export(tmp_path / "classify", SHAPES, "classify")
    with pytest.raises(ValueError, match="task detect or segment or pose or obb for a Detector"):
        Detector.open(wrong, library="sim")
    with pytest.raises(ValueError, match="task classify for a Classifier, got 'detect'"):
        Classifier.open(export(tmp_path / "detect", SHAPES), library="sim")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """As `Model` does; a folder without metadata is named."""
    broken = tmp_path / "a.rknn"
    broken.write_bytes(b"RKNN")
    with pytest.raises(InvalidModelError):
        Detector.open(broken, library="sim")
    with pytest.raises(FileNotFoundError, match=r"metadata\.yaml"):
        Detector.open(tmp_path, library="sim")
    with pytest.raises(TypeError):
        Detector.open(3, library="sim")  # type: ignore[arg-type]
