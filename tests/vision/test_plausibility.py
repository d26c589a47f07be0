"""Impossible objects are reported, in the same words everywhere; possible ones are not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest
from paths import PROJECT

from rknn_runtime import Detections, Detector, Model
from rknn_runtime.vision.plausibility import Judge, signs, tell

SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
SCENE = PROJECT / "examples" / "scenes" / "scene.png"
SIZE = (480, 640)


@pytest.fixture(autouse=True)
def nothing_was_told() -> Iterator[None]:
    """Each text is logged once in a process."""
    tell.cache_clear()
    yield
    tell.cache_clear()


def objects(boxes: np.ndarray, confidence: float | np.ndarray = 0.7) -> Detections:
    count = len(boxes)
    scores = np.broadcast_to(np.float32(confidence), count).astype(np.float32)
    return Detections(boxes.astype(np.float32), scores, np.zeros(count, np.int32))


def scattered(count: int, side: float = 30) -> np.ndarray:
    corners = np.random.default_rng(1).uniform(0, 440, (count, 2))
    return np.concatenate([corners, corners + side], axis=1)


SPREAD = np.linspace(0.3, 0.95, 300)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (objects(scattered(300), SPREAD), ["too-many"]),
        (objects(scattered(300), SPREAD - 0.29), []),  # somebody asked for these
        (objects(scattered(299), SPREAD[:299]), []),
        (objects(scattered(9, side=0.4), SPREAD[:9]), ["no-area"]),
        (objects(scattered(30), 1.0), ["saturated"]),
        (objects(scattered(30), 0.5), ["equal-scores"]),
        (objects(scattered(30), np.r_[np.full(28, 0.5), 0.6, 0.7]), ["double-sigmoid"]),
        (objects(scattered(30), np.r_[np.full(20, 0.5), np.full(10, 0.4)]), []),
        (objects(scattered(4), 1.0), []),  # four certain objects are usual
        (objects(np.array([[0.1, 0.2, 9, 8]] * 3)), ["corner"]),
        (objects(np.array([[600, 1, 640, 9]] * 3)), []),
        (objects(np.array([[620, 460, 640, 480]] * 3)), ["corner"]),
        (Detections.empty(), []),
    ],
)
def test_signs(found: Detections, expected: list[str]) -> None:
    """The cap, boxes without area, saturated or equal scores, and one corner."""
    assert list(signs(found, SIZE, 300)) == expected


def test_one_odd_image_proves_nothing() -> None:
    """At least half of the images must show a sign; no objects at all is one."""
    judge = Judge()
    judge.add(objects(scattered(9, side=0.4)), SIZE)
    assert [symptom.kind for symptom in judge.symptoms()] == ["no-area"]
    for _ in range(2):
        judge.add(objects(scattered(9)), SIZE)
    assert judge.symptoms() == ()
    empty = Judge()
    assert empty.symptoms() == ()
    empty.add(Detections.empty(), SIZE)
    assert [symptom.kind for symptom in empty.symptoms()] == ["nothing"]
    assert "rknn-runtime doctor" in str(empty.symptoms()[0])


def test_the_first_frames_are_judged(caplog: pytest.LogCaptureFixture) -> None:
    """A detector whose boxes are read in the wrong unit says so once; a right one says nothing."""
    with Model(SHAPES, library="sim") as model:
        wrong = [Detector(model, normalized=False) for _ in range(2)]
        with caplog.at_level(logging.WARNING, "rknn_runtime"):
            right = Detector(model)
            for _ in range(10):
                right(SCENE)
            assert (right.symptoms, caplog.records) == ((), [])
            for detector in wrong:
                detector(SCENE)
                detector(SCENE)
        assert [symptom.kind for symptom in wrong[0].symptoms] == ["no-area"]
        (record,) = caplog.records  # of two detectors
        assert record.getMessage() == str(wrong[0].symptoms[0])


def test_frames_without_objects(caplog: pytest.LogCaptureFixture) -> None:
    """After a hundred of them it is worth a word, not after the first."""
    with Model(SHAPES, library="sim") as model:
        detector = Detector(model)
        for _ in range(99):
            detector(np.zeros((320, 320, 3), np.uint8))
        assert detector.symptoms == ()
        detector(np.zeros((320, 320, 3), np.uint8))
    assert [symptom.kind for symptom in detector.symptoms] == ["nothing"]
    assert len(caplog.records) == 1


def test_the_channel_order_of_the_file_is_used() -> None:
    """Calibrated with swapped channels: BGR, unless told otherwise, and the detector says so."""
    said = b',"color":"RGB"'  # in the custom string, which would count for more
    data = SHAPES.read_bytes().replace(said, b" " * len(said))
    swapped = data.replace(b"'rgb2bgr': False", b"'rgb2bgr': True ")
    assert swapped != data
    found = {}
    for name, model, color in (
        ("file", swapped, None), ("BGR", data, "BGR"), ("RGB", swapped, "RGB"), ("none", data, None)
    ):  # fmt: skip
        with Model(model, library="sim") as opened:
            detector = Detector(opened, input_color=color)
            found[name] = detector.input_color, "BGR" in repr(detector), detector(SCENE).to_dict()
    assert found["file"] == found["BGR"]
    assert found["RGB"] == found["none"]
    assert found["file"][:2] == ("BGR", True)
    assert found["none"][:2] == ("RGB", False)
    assert found["file"][2] != found["none"][2]


def test_a_camera_frame_without_its_format_is_refused() -> None:
    """An array in the shape of an NV12 frame is refused as a grey image."""
    with Model(SHAPES, library="sim") as model:
        detector = Detector(model)
        for shape in ((720, 640), (1620, 1920), (480, 320)):
            with pytest.raises(ValueError, match=r'color: expected "NV12".*if it is grey'):
                detector(np.zeros(shape, np.uint8))
            detector(np.zeros((*shape, 1), np.uint8))
        for shape in ((480, 640), (320, 320), (720, 1280), (1080, 1920)):
            detector(np.zeros(shape, np.uint8))
