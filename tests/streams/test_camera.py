"""A camera of this machine, through OpenCV's own V4L2; camera.c answers as its driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from bundles import one_object
from paths import PROJECT
from stub import build

cv2 = pytest.importorskip("cv2")

#: Left half red, right half blue, BGR.
PICTURE = np.zeros((48, 64, 3), np.uint8)
PICTURE[:, :32, 2] = PICTURE[:, 32:, 0] = 255
#: Waits for a camera that has gone for less than a minute.
IMPATIENT = """
import sys
from rknn_runtime.cli import main, sources
sources.RECONNECT_S = 0.6
sys.exit(main(sys.argv[1:]))
"""


def yuyv(bgr: np.ndarray) -> bytes:
    """Two pixels share U and V, BT.601."""
    blue, green, red = np.moveaxis(bgr.astype(float), 2, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    packed = np.empty((*luma.shape, 2), np.uint8)
    packed[..., 0] = np.rint(16 + luma * 219 / 255)
    packed[:, 0::2, 1] = np.rint(128 + (blue - luma) * 224 / 255 / 1.772)[:, 0::2]
    packed[:, 1::2, 1] = np.rint(128 + (red - luma) * 224 / 255 / 1.402)[:, 0::2]
    return packed.tobytes()


JPEG = cv2.imencode(".jpg", PICTURE)[1].tobytes()


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """The stand-in for the kernel's driver."""
    text = Path(__file__).with_name("camera.c").read_text("utf-8")
    return build(tmp_path_factory.mktemp("camera"), source=text)


@pytest.fixture
def started(library, tmp_path):
    """Start a command on a detector of 64x64, with a camera that sends such frames."""
    model = tmp_path / "model.rknn"
    model.write_bytes(one_object(json.dumps({"labels": ["disc", "star"]})))
    processes = []

    def start(command, *arguments, frame=JPEG, trouble="", program=("-m", "rknn_runtime")):
        (tmp_path / "frame").write_bytes(frame)
        loaded = [os.environ.get("LD_PRELOAD", ""), str(library)]
        process = subprocess.Popen(
            [sys.executable, *program, command, str(model), *map(str, arguments), "--sim"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env={
                **os.environ,
                "LD_PRELOAD": ":".join(filter(None, loaded)),
                "CAMERA_FRAME": str(tmp_path / "frame"),
                "CAMERA_TROUBLE": trouble,
                "OPENCV_LOG_LEVEL": "SILENT",
            },
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("frame", [yuyv(PICTURE), JPEG], ids=["YUYV", "JPEG"])
@pytest.mark.parametrize("source", ["9", "/dev/video9"])
def test_frames_of_a_camera(started, tmp_path, source, frame):
    """By its number or its path; each has its objects, and is drawn in its colours."""
    drawn = tmp_path / "drawn"
    arguments = (source, "--json", "--frames", "5", "--save", drawn, "--conf", "0.99")
    out, err = started("detect", *arguments, frame=frame).communicate()
    rows = [json.loads(line) for line in out.splitlines()]
    assert (len(rows), err) == (5, "")
    assert [(row["source"], row["width"], row["height"]) for row in rows] == [(source, 64, 48)] * 5
    assert len({row["frame"] for row in rows}) == 5
    assert sorted(row["time_s"] for row in rows) == [row["time_s"] for row in rows]
    (path,) = drawn.iterdir()
    video = cv2.VideoCapture(str(path))
    assert video.get(cv2.CAP_PROP_FPS) == 50  # as the camera says
    is_read, image = video.read()
    video.release()
    assert is_read and np.abs(image[:, [10, 50]].astype(int) - PICTURE[:, [10, 50]]).max() < 16


def test_a_camera_that_is_unplugged(started):
    """Its results are kept; each attempt to open it again is reported, and the end."""
    process = started(
        "detect", "9", "--json", "--every-frame", trouble="4", program=("-c", IMPATIENT)
    )
    out, err = process.communicate()
    *rows, last = map(json.loads, out.splitlines())
    assert [row["frame"] for row in rows] == list(range(len(rows)))
    assert len(rows) in (3, 4)  # newer OpenCV takes one for itself
    assert "did not come back" in last["error"]
    assert [json.loads(line)["message"] for line in err.splitlines()] == [
        "9: broke off; opening it again in 0.5 s (attempt 1 of 0.6 s)",
        f"9: {last['error']}",
    ]
    assert process.returncode == 1


TOLD = {
    "no permission": "no permission: sudo usermod -aG video $USER",
    "busy": "another program uses it: fuser -v /dev/video9",
    "no pictures": "this node gives no pictures; a camera has several",
    "absent": "no such camera; on this machine: ",
}


@pytest.mark.parametrize("trouble", TOLD)
@pytest.mark.parametrize("folder", ["", "/dev/video"])
def test_a_camera_that_cannot_be_opened(started, folder, trouble):
    """Why, and what to do, in one line."""
    source = f"{folder}{99 if trouble == 'absent' else 9}"
    process = started("detect", source, trouble=trouble)
    out, err = process.communicate()
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"rknn-runtime: source: OpenCV cannot open '{source}': {TOLD[trouble]}")


def test_what_is_no_camera(tmp_path):
    """As a file that somebody put among the devices."""
    from rknn_runtime.streams.capture import why_not

    path = tmp_path / "video0"
    path.write_bytes(b"no device")
    assert why_not(str(path)) == "this is not a camera"
    assert why_not(str(tmp_path)) == os.strerror(21)  # a folder


def test_the_jpeg_of_a_camera_goes_to_the_viewers_as_it_came(started):
    """The same bytes, by the command that serves it."""
    process = started("serve", "9", "--listen", "127.0.0.1:0")
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{address}events", timeout=60) as events:
        while not events.readline().startswith(b'data: {"number"'):
            pass
    with urllib.request.urlopen(f"{address}snapshot.jpg", timeout=60) as answer:
        assert answer.read() == JPEG
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "rknn-runtime: stopped\n")
