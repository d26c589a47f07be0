"""The camera example: overlap of decoding and running, sources, and what it prints."""

from __future__ import annotations

import json
import runpy
import sys
import threading

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import Detections, Detector, Model
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

pytest.importorskip("PIL")
EXAMPLE = PROJECT / "examples" / "camera.py"


@pytest.fixture
def camera():
    return runpy.run_path(str(EXAMPLE), run_name="camera")


@pytest.fixture
def bundle():
    """A detector of 64x64 that always sees a star in the middle."""
    output = np.zeros((1, 6, 84, 1), np.float32)
    output[0, :, 3, 0] = 0.5, 0.5, 0.25, 0.25, 0.0, 0.9
    values = {"zero_point": -128, "scale": 1 / 255}
    return bundle_from_arrays(
        [describe_input("images", (1, 3, 64, 64), **values)],
        [describe_output("output0", output.shape, **values)],
        [Record([output])],
        custom_string=json.dumps({"labels": ["disc", "star"]}),
    )


def frames(n):
    return [np.full((48, 64, 3), i, np.uint8) for i in range(n)]


def test_frames_come_in_order_with_their_detections(camera, bundle):
    """Every frame comes once, in order, and its detections are in its own pixels."""
    with Model(bundle, library="sim") as model:
        results = list(camera["detect"](Detector(model), frames(5)))
    assert [int(frame[0, 0, 0]) for frame, _ in results] == [0, 1, 2, 3, 4]
    for _, found in results:
        assert found.class_id.tolist() == [1]
        np.testing.assert_allclose(found.xyxy, [[24, 16, 40, 32]], atol=0.6)


@pytest.mark.parametrize("n", [0, 1])
def test_short_videos(camera, bundle, n):
    """A video of no frame or of one frame is no special case."""
    with Model(bundle, library="sim") as model:
        assert len(list(camera["detect"](Detector(model), frames(n)))) == n


class PatientModel:
    """A model, and detector, whose every run but the first waits for the last one's decoding."""

    input_size, input_color = (64, 64), "RGB"

    def __init__(self, model):
        self.outputs, self.output_raw = model.outputs, model.output_raw
        self.npu, self.model = model, self
        self.runs, self.decoding = 0, threading.Semaphore(0)

    def run(self, pixels):
        self.runs += 1
        if self.runs > 1 and not self.decoding.acquire(timeout=30):
            raise TimeoutError("decoding waited for the run")
        self.npu.run(pixels)

    def decoder(self, raw, transform):
        self.decoding.release()
        return Detections.empty()


def test_decoding_overlaps_the_next_run(camera, bundle):
    """A run that waits for the decoding of the frame before does not wait for ever."""
    with Model(bundle, library="sim") as model:
        patient = PatientModel(model)
        assert len(list(camera["detect"](patient, frames(4)))) == 4
    assert patient.runs == 4


def test_an_error_of_the_npu_comes_through(camera, bundle):
    """A failing run ends the loop with its exception."""
    with Model(bundle, library="sim") as model, pytest.raises(ValueError, match="shape"):
        broken = PatientModel(model)
        broken.run = lambda pixels: model.run(pixels[:1])
        list(camera["detect"](broken, frames(2)))


def test_stopping_early_leaves_the_model_closable(camera, bundle):
    """Whoever stops in the middle can close the model at once."""
    with Model(bundle, library="sim") as model:
        results = camera["detect"](Detector(model), frames(100))
        next(results)
        results.close()


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [EXAMPLE.name, *map(str, arguments), "--library", "sim"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")


@pytest.fixture
def model(tmp_path, bundle):
    path = tmp_path / "model.rknn"
    path.write_bytes(bundle)
    return path


def test_pans_over_a_picture(model, tmp_path, monkeypatch, capsys):
    """A picture is a source that needs no OpenCV; the last frame is saved annotated."""
    from PIL import Image

    Image.new("RGB", (64, 48), (10, 20, 30)).save(tmp_path / "scene.png")
    monkeypatch.setitem(sys.modules, "cv2", None)
    saved = tmp_path / "last.png"
    run(monkeypatch, model, tmp_path / "scene.png", "--frames", "3", "--save", saved)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["frame 1: star", "frame 2: star", "frame 3: star"]
    assert lines[3].startswith("3 frames, ") and lines[3].endswith(" FPS") and len(lines) == 4
    with Image.open(saved) as drawn:
        assert drawn.size == (64, 48) and drawn.getpixel((0, 47)) == (10, 20, 30)
        assert len(drawn.getcolors()) > 1


def test_a_video_is_read_through_opencv(model, tmp_path, monkeypatch, capsys):
    """Every frame of a video file is run."""
    cv2 = pytest.importorskip("cv2")
    path = tmp_path / "video.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (64, 48))
    for frame in frames(4):
        writer.write(frame)
    writer.release()
    run(monkeypatch, model, path)
    assert "4 frames, " in capsys.readouterr().out


def test_every_head_that_the_detector_knows(tmp_path, monkeypatch, capsys):
    """The trained net with DFL boxes, on the real pictures of a panned scene."""
    pytest.importorskip("onnxruntime")
    scene = EXAMPLE.parent / "scenes" / "scene.png"
    net = EXAMPLE.parent.parent / "tests" / "data" / "nets" / "shapes_yolov10_rk3588.rknn"
    run(monkeypatch, net, scene, "--frames", "2", "--head", "yolov10")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("circle" in line for line in lines[:2])


def test_missing_opencv_is_said(model, monkeypatch):
    """A camera without OpenCV ends with the extra's name."""
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(SystemExit, match=r"rknn-runtime\[opencv\]"):
        run(monkeypatch, model, "0")


def test_a_source_that_cannot_be_opened_is_said(model, monkeypatch):
    """A file that is not there ends with its name."""
    pytest.importorskip("cv2")
    with pytest.raises(SystemExit, match=r"cannot open none\.mp4"):
        run(monkeypatch, model, "none.mp4")
