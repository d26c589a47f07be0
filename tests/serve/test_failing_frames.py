"""``serve`` goes on when a frame fails, says so, and gives up when nothing else comes."""

from __future__ import annotations

import json
import logging
import sys
import threading
import warnings

import numpy as np
import pytest
from bundles import one_object

from rknn_runtime import Detections, Detector, Pool
from rknn_runtime.cli import main, serve, sources
from rknn_runtime.errors import RknnError
from rknn_runtime.tools.serve import LiveView, _metric_lines

cv2 = pytest.importorskip("cv2")
PIXELS = np.zeros((48, 64, 3), np.uint8)
JPEG = np.frombuffer(cv2.imencode(".jpg", PIXELS)[1].tobytes(), np.uint8)[None]
#: A cut JPEG, and the empty buffer of a waking camera.
TORN, NOTHING = JPEG[:, :40], JPEG[:, :0]


class Camera:
    """Stands in for ``cv2.VideoCapture``: gives these images, then breaks off for ever.

    If it is `paced`, the next image comes when the result of the last one was taken.
    """

    images: list[np.ndarray]
    paced: threading.Semaphore | None = None

    def __init__(self, *_: object) -> None:
        pass

    def isOpened(self) -> bool:
        return bool(Camera.images)

    def get(self, key: int) -> float:
        return {cv2.CAP_PROP_FOURCC: float(int.from_bytes(b"MJPG", "little"))}.get(key, 0.0)

    def set(self, key: int, value: float) -> bool:
        return True

    def read(self) -> tuple[bool, object]:
        if Camera.paced is not None:
            Camera.paced.acquire()
        return (True, Camera.images.pop()) if Camera.images else (False, None)

    def release(self) -> None:
        pass


class Failures(serve._Failures):
    """Lets a paced camera go on."""

    def add(self, error: Exception) -> None:
        super().add(error)
        self._go_on()

    def end_row(self) -> None:
        super().end_row()
        self._go_on()

    def _go_on(self) -> None:
        if Camera.paced is not None:
            Camera.paced.release()


@pytest.fixture
def feed(monkeypatch, caplog):
    """Feed a view from a camera that gives these images; return the counts."""
    monkeypatch.setattr(cv2, "VideoCapture", Camera)
    monkeypatch.setattr(sources, "RECONNECT_S", 0.0)
    monkeypatch.setattr(serve, "_IMAGE_SECONDS", 0.0)
    caplog.set_level(logging.WARNING)

    def fed(images, task, source="0", is_tracked=False):
        Camera.images = list(images)
        view, failures = LiveView(), Failures()
        with Pool(one_object(), lambda model: task, library="sim", contexts=1) as pool:
            raised = None
            try:
                serve._feed(
                    pool, view, failures, str(source), serve._opened(str(source)), is_tracked
                )
            except (OSError, RknnError) as error:
                raised = error
            status = serve._status(view, pool, failures, serve._Load())
        return raised, view, status

    return fed


def every(nth):
    """A task of which each n-th frame fails."""
    seen = [0]

    def task(frame, **options):
        seen[0] += 1
        if seen[0] % nth == 0:
            raise RknnError(f"planted {seen[0]}")
        return Detections.empty()

    return task


def test_frames_that_fail_are_left_out(feed, caplog, monkeypatch):
    """They are counted and told: the panel has the last reason, the log one line of them all."""
    monkeypatch.setattr(Camera, "paced", threading.Semaphore(1))
    raised, view, status = feed([PIXELS] * 100, every(2))
    assert "it broke off" in str(raised)
    assert (view.snapshot().number, status["failed"], status["dropped"]) == (50, 50, 0)
    assert status["last failure"] == "planted 100"
    lines = "".join(_metric_lines(status))
    assert "rknn_failed 50\n" in lines and "planted" not in lines
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "frames that failed and were skipped: 1, the last: planted 2"


def test_objects_are_numbered(feed, monkeypatch):
    """The viewer's JSON has the number of the track, from the second frame on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its own imports are none of ours
        pytest.importorskip("trackers")
    box = np.array([[10, 10, 30, 30]], np.float32)
    one = Detections(box, np.array([0.9], np.float32), np.array([0], np.int32))
    for is_tracked in (False, True):
        monkeypatch.setattr(Camera, "paced", threading.Semaphore(1))
        images = [JPEG] * 3
        _, view, _ = feed(images, lambda frame, **options: one, is_tracked=is_tracked)
        (found,) = json.loads(view.snapshot().found)["detections"]
        assert found.get("tracker_id") == (0 if is_tracked else None)


def test_only_a_row_of_failures_ends_it(feed, monkeypatch):
    """The error has their number and the cause; failures outside of the NPU count, too."""
    monkeypatch.setattr(sources, "MOST_FAILURES", 3)
    for task in (every(1), lambda frame, **options: "nothing that can be shown"):
        raised, view, status = feed([PIXELS] * 10**6, task)
        assert type(raised) is RknnError and view.snapshot().number == 0
        assert str(raised).startswith("3 frames in a row failed: ")
        assert status["failed"] == 3
    assert "expected the result of a task, got str" in str(raised)


def test_damaged_images_are_left_out(feed, caplog):
    """Of a camera's own JPEG: those without content, too."""
    images = [JPEG, TORN, JPEG, NOTHING, JPEG, TORN] * 50
    raised, view, status = feed(images, every(10**6))
    assert "it broke off" in str(raised)
    assert status["failed"] == 150
    assert view.snapshot().number + status["dropped"] == 150
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "0: a JPEG that cannot be decoded; such images are left out"


def test_detect_gives_up_a_camera_of_which_every_frame_fails(tmp_path, monkeypatch, capsys):
    """Each is told until then, and its number at last."""

    def failing(self, *_, **options):
        raise RknnError("planted")

    monkeypatch.setattr(sys.modules["cv2"], "VideoCapture", Camera)
    monkeypatch.setattr(sources, "RECONNECT_S", 0.0)
    monkeypatch.setattr(sources, "MOST_FAILURES", 3)
    monkeypatch.setattr(Detector, "__call__", failing)
    Camera.images = [PIXELS] * 50
    model = tmp_path / "model.rknn"
    model.write_bytes(one_object())
    assert main(["detect", str(model), "0", "--sim", "--json", "--every-frame"]) == 1
    captured = capsys.readouterr()
    told = [json.loads(line)["error"] for line in captured.out.splitlines()]
    assert told == ["planted"] * 3 + ["given up after 3 failures in a row"]
    assert captured.err.count("\n") == 4
