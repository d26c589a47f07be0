"""Opening a model by its path, or the folder of an export, as a detector or a classifier."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import Classifier, Detector, Model
from rknn_runtime.errors import ClosedError, InvalidModelError

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
