"""Frames from folders, videos and cameras, and streams that break off."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from bundles import one_object
from rtsp import RtspServer
from threads import in_threads
from videos import write_video
from web import serving

from rknn_runtime import Detector, Model, Pool
from rknn_runtime.errors import ClosedError
from rknn_runtime.sim.control import Control
from rknn_runtime.streams import FrameSource, source

Image = pytest.importorskip("PIL.Image")


class Camera:
    """Stands in for ``cv2.VideoCapture``: each connection gives some frames, then breaks off."""

    #: Frames of each connection to come; None: it cannot be opened.
    connections: list[int | None]
    opened = 0

    def __init__(self, name: object, reader: int = 1900) -> None:
        if reader != 1900:  # a second way to open the same
            self.left, self.is_open = 0, False
            return
        Camera.opened += 1
        left = Camera.connections.pop(0) if Camera.connections else None
        self.left, self.is_open = left or 0, left is not None

    def isOpened(self) -> bool:
        return self.is_open

    def get(self, key: int) -> float:
        return 0.0

    def read(self) -> tuple[bool, object]:
        self.left -= 1
        return (True, np.zeros((4, 6, 3), np.uint8)) if self.left >= 0 else (False, None)

    def release(self) -> None:
        self.is_open = False


@pytest.fixture
def camera(monkeypatch):
    """A stand-in for OpenCV, and pauses that take no time; returns the pauses."""
    cv2 = type(sys)("cv2")
    cv2.VideoCapture = Camera
    monkeypatch.setitem(sys.modules, "cv2", cv2)
    Camera.opened, Camera.connections = 0, []
    now = [0.0]
    monkeypatch.setattr(source, "monotonic", lambda: now[0])
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        now[0] += seconds
        return False

    def patched(frames: FrameSource) -> FrameSource:
        frames._is_closed.wait = wait
        return frames

    return patched, pauses


def test_a_folder_of_images_in_the_order_of_names(tmp_path):
    """Grey and transparent ones, too, as BGR; other files are left alone."""
    Image.new("RGB", (5, 3), (255, 0, 0)).save(tmp_path / "b.png")
    Image.new("L", (5, 3), 7).save(tmp_path / "a.png")
    Image.new("RGBA", (5, 3), (0, 0, 255, 128)).save(tmp_path / "c.PNG")
    (tmp_path / "notes.txt").write_text("no image", "ascii")
    frames = list(FrameSource(tmp_path))
    assert [frame.name for frame in frames] == [
        str(tmp_path / name) for name in ("a.png", "b.png", "c.PNG")
    ]
    assert [frame.index for frame in frames] == [0, 1, 2]
    assert [frame.image.shape for frame in frames] == [(3, 5, 3)] * 3
    assert [frame.image[0, 0].tolist() for frame in frames[:2]] == [[7, 7, 7], [0, 0, 255]]
    assert [frame.index for frame in FrameSource(tmp_path, start=2)] == [2]
    assert len(list(FrameSource(tmp_path / "a.png"))) == 1


def test_a_video(tmp_path):
    """Numbers and times of its frames, from any one on."""
    path = tmp_path / "video.avi"
    write_video(path, [np.full((48, 64, 3), 20 * n, np.uint8) for n in range(10)], 25)
    frames = list(FrameSource(path))
    assert [frame.index for frame in frames] == list(range(10))
    assert [frame.time_s for frame in frames] == [n / 25 for n in range(10)]
    for frame, later in zip(frames[4:], FrameSource(path, start=4)):
        assert frame.index == later.index
        np.testing.assert_array_equal(frame.image, later.image)
    with FrameSource(path) as reading:
        next(reading)
        reading.close()
        assert list(reading) == []
    with pytest.raises(OSError, match="cannot go to frame 99"):
        next(FrameSource(path, start=99))


@pytest.fixture
def web(tmp_path):
    """The address of a server of the files in `tmp_path`."""
    with serving(tmp_path) as host:
        yield f"http://user:secret@{host}"


@pytest.mark.parametrize("name", ["video.avi", "video.mp4"])
def test_a_video_of_a_server_is_a_file(web, tmp_path, name):
    """It has an end, where it ends; its frames have numbers and times, from any one on."""
    write_video(tmp_path / name, [np.full((48, 64, 3), 20 * n, np.uint8) for n in range(8)], 10)
    with FrameSource(f"{web}/{name}") as frames:
        assert (frames.is_live, frames.fps) == (False, 10)
        assert [(frame.index, frame.time_s) for frame in frames] == [(n, n / 10) for n in range(8)]
    with FrameSource(f"{web}/{name}", start=5) as frames:
        assert [frame.index for frame in frames] == [5, 6, 7]


def test_a_stream_that_breaks_off_is_opened_again(camera, caplog):
    """Pauses double, start small each time, and are reported; then it ends."""
    patched, pauses = camera
    Camera.connections = [2, None, None, 3, 1]
    frames = list(patched(FrameSource("rtsp://user:secret@camera", reconnect_s=4)))
    assert [record.getMessage() for record in caplog.records[:5]] == [
        "rtsp://user:***@camera: broke off; opening it again in 0.5 s (attempt 1 of 4 s)",
        "rtsp://user:***@camera: broke off; opening it again in 1 s (attempt 2 of 4 s)",
        "rtsp://user:***@camera: broke off; opening it again in 2 s (attempt 3 of 4 s)",
        "rtsp://user:***@camera: back after 3.5 s",
        "rtsp://user:***@camera: broke off; opening it again in 0.5 s (attempt 1 of 4 s)",
    ]
    assert "secret" not in caplog.text
    assert [frame.index for frame in frames] == list(range(6))
    assert Camera.opened > 5
    assert pauses[:4] == [0.5, 1.0, 2.0, 0.5]
    assert sum(pauses[4:]) <= 4


def test_a_closed_camera_is_free_for_others(camera, monkeypatch):
    """Let go at once, or as soon as the frame is there that was being read."""
    released = []
    monkeypatch.setattr(Camera, "release", lambda self: released.append(self))
    Camera.connections = [9, 9]
    frames = FrameSource(0)
    next(frames)
    frames.close()
    assert len(released) == 1
    assert list(frames) == []

    frames = FrameSource(0)
    read = Camera.read

    def closing(self: Camera) -> tuple[bool, object]:
        frames.close()
        assert len(released) == 1
        return read(self)

    monkeypatch.setattr(Camera, "read", closing)
    assert next(frames).index == 0
    assert len(released) == 2
    assert list(frames) == []


def test_threads_share_the_frames_of_a_source(camera):
    """Each frame goes to one of them, and all end when one closes it."""
    Camera.connections = [2000]
    frames = FrameSource(0, reconnect_s=0)
    taken: list[list[int]] = [[], [], []]

    def take(mine: list[int]) -> None:
        for frame in frames:
            mine.append(frame.index)
            if frame.index == 1500:
                frames.close()

    in_threads(take, ((mine,) for mine in taken))
    assert all(mine == sorted(mine) for mine in taken)
    indices = sorted(index for mine in taken for index in mine)
    assert indices == list(range(len(indices))) and 1501 <= len(indices) < 2000
    assert next(frames, None) is None


def test_the_jpeg_of_a_camera_is_kept(monkeypatch):
    """Where it is asked for it and does so; damaged frames are left out."""
    cv2 = pytest.importorskip("cv2")
    sent = [cv2.imencode(".jpg", np.full((24, 32, 3), n, np.uint8))[1].tobytes() for n in range(3)]

    class Encoding(Camera):
        settings: dict[int, float]

        def __init__(self, name: object) -> None:
            super().__init__(name)
            self.settings = {cv2.CAP_PROP_CONVERT_RGB: 1}

        def set(self, key: int, value: float) -> bool:
            self.settings[key] = value
            return True

        def get(self, key: int) -> float:
            return self.settings.get(key, 0)

        def read(self) -> tuple[bool, object]:
            is_read, image = super().read()
            if self.settings[cv2.CAP_PROP_CONVERT_RGB]:
                return is_read, image
            data = [*sent, b"\xff\xd8 cut"][self.left % 4]
            return is_read, np.frombuffer(data, np.uint8)[None]

    monkeypatch.setattr(cv2, "VideoCapture", Encoding)
    Camera.connections = [4, 4]
    frames = list(FrameSource(0, reconnect_s=0, keep_jpeg=True))
    assert [frame.jpeg for frame in frames] == sent[::-1]
    assert [frame.index for frame in frames] == [0, 1, 2]
    assert all(frame.image.shape == (24, 32, 3) for frame in frames)
    frames = list(FrameSource(0, reconnect_s=0))
    assert [(frame.jpeg, frame.image.shape) for frame in frames] == [(b"", (4, 6, 3))] * 4
    with pytest.raises(TypeError, match="keep_jpeg: expected a bool, got 1"):
        FrameSource(0, keep_jpeg=1)


def test_what_cannot_be_read_is_told_at_once(tmp_path, camera, monkeypatch):
    """When the source is made, not with its first frame."""
    with pytest.raises(OSError, match="cannot open"):
        FrameSource("/dev/video99")
    with pytest.raises(OSError, match="cannot open"):
        FrameSource(tmp_path / "none.mp4")
    with pytest.raises(ValueError, match="got none"):
        FrameSource(tmp_path)
    with pytest.raises(ValueError, match="start"):
        FrameSource(tmp_path, start=-1)
    with pytest.raises(ValueError, match="reconnect_s"):
        FrameSource(0, reconnect_s=-1)
    for wrong in (None, True, 1.5, [tmp_path]):
        with pytest.raises(TypeError, match="source"):
            FrameSource(wrong)
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match="opencv-python-headless"):
        FrameSource(0)


def test_a_pool_runs_on_a_source(tmp_path, camera):
    """Files: every frame in order. Cameras: the newest, until they end."""
    for n in range(12):
        Image.new("RGB", (32 + n, 24)).save(tmp_path / f"{n:02}.png")
    with Pool(one_object(), library="sim") as pool:
        seen = [
            (frame.index, frame.image.shape[1], len(found))
            for frame, found in pool.stream(tmp_path)
        ]
        assert seen == [(n, 32 + n, 1) for n in range(12)]
        Camera.connections = [30]
        results = pool.stream(0, reconnect_s=0)
        indices = [frame.index for frame, _ in results]
        assert indices == sorted(set(indices))
        assert indices[-1] == 29
        assert len(indices) + results.dropped == 30
        Camera.connections = [30]
        assert len(list(pool.stream(0, reconnect_s=0, drop=None))) == 30
        with pytest.raises(ValueError, match="drop"):
            pool.stream(tmp_path, drop="some")
        with pytest.raises(TypeError, match="no_such_option"):
            list(pool.stream(tmp_path, no_such_option=1))


def test_a_detector_streams_on_all_cores(tmp_path, camera):
    """With its options, and with the thresholds that it has now."""
    for n in range(12):
        Image.new("RGB", (32 + n, 24)).save(tmp_path / f"{n:02}.png")
    with Model(one_object(), library="sim") as model:
        detector = Detector(model, ["a", "b"], 0.95, max_detections=1)
        assert [len(found) for _, found in detector.stream(tmp_path)] == [0] * 12
        detector.decoder.conf_threshold = 0.5
        before = Control().live
        with detector.stream(tmp_path) as results:
            frame, found = next(results)
            assert (frame.index, found.class_id.tolist()) == (0, [1])
            assert Control().live.contexts == before.contexts + 6
            assert len(detector(np.zeros((4, 6, 3), np.uint8))) == 1  # it stays free
        assert Control().live == before  # left early
        assert len(list(results)) == 0
        results = detector.stream(tmp_path)
        assert [frame.index for frame, _ in results] == list(range(12))
        assert Control().live == before  # at the end
        Camera.connections = [30]
        assert [frame.index for frame, _ in detector.stream(0, reconnect_s=0)][-1] == 29
        with pytest.raises(OSError, match="cannot open"):
            detector.stream(0)
        with pytest.raises(ValueError, match="drop"):
            detector.stream(tmp_path, drop="some")
        with (
            detector.stream(tmp_path, no_such_option=1) as results,
            pytest.raises(TypeError, match="no_such_option"),
        ):
            list(results)
        assert Control().live == before
    with pytest.raises(ClosedError):
        detector.stream(tmp_path)


def test_a_camera_that_was_away_is_read_again(caplog):
    """By OpenCV's own reader of RTSP: frames of before and after, in one iteration."""
    pytest.importorskip("cv2")
    before, after = ([np.full((48, 64, 3), value, np.uint8)] * 3 for value in (40, 200))
    with RtspServer(before) as camera:
        frames = FrameSource(camera.url, reconnect_s=60)
        assert next(frames).image.mean() == pytest.approx(40, abs=4)
    port = int(camera.url.split(":")[2].split("/")[0])
    with RtspServer(after, port=port, is_endless=True), frames:  # which hangs up first
        assert any(frame.image.mean() > 150 for frame in frames)
    assert "broke off; opening it again" in caplog.text
    assert "back after" in caplog.text
