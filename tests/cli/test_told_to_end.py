"""SIGTERM and SIGHUP end a command like Ctrl-C: with whole files, and their own status."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from bundles import one_object
from paths import PROJECT
from videos import write_video

from rknn_runtime import Detections
from rknn_runtime.cli import main
from rknn_runtime.cli.main import ended_by_signals
from rknn_runtime.cli.reports import Coco
from rknn_runtime.cli.sources import Item
from rknn_runtime.tools.bench import load

HANDLED = (signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_at_the_start_of_a_program():
    """Also where the tests themselves run under `nohup`."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.rknn"
    path.write_bytes(one_object())
    return path


def started(*words_, **options):
    """Start the command on a simulated NPU that takes 100 ms a frame."""
    return subprocess.Popen(
        [sys.executable, "-m", "rknn_runtime", *map(str, words_), "--sim"],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=options.pop("stderr", subprocess.PIPE),
        text=True,
        cwd=PROJECT,
        env={**os.environ, "RKNN_SIM_LATENCY_US": "100000"},
        **options,
    )


def wait_for_output(folder, process):
    """Wait until there is something in a file of a folder."""
    while not any(path.stat().st_size for path in folder.iterdir()):
        assert process.poll() is None


def test_a_video_is_whole(model, tmp_path):
    """The drawn one can be played, the results can be read, and have the same frames."""
    cv2 = pytest.importorskip("cv2")
    (tmp_path / "out").mkdir()
    source, results = tmp_path / "video.avi", tmp_path / "out" / "results.json"
    write_video(source, [np.full((48, 64, 3), i % 256, np.uint8) for i in range(1000)], 25)
    drawn = tmp_path / "drawn" / "video.mp4"
    places = ("--save", drawn.parent, "--format", "coco", "--output", results)
    with started("detect", model, source, *places) as process:
        wait_for_output(results.parent, process)  # the first frame is done
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)  # as a terminal that is closed does
        _, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert "stopped after" in err and "Traceback" not in err
    rows = json.loads(results.read_text("utf-8"))
    capture = cv2.VideoCapture(str(drawn))
    count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
    capture.release()
    assert 1 <= count <= len(rows) <= count + 1 < 1000


def test_a_report_is_whole_wherever_the_signal_comes():
    """The report is whole even if the signal comes between writing an object and counting it."""

    class Interrupted(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            count = super().write(text)
            self.writes += 1
            if self.writes == last:
                raise KeyboardInterrupt
            return count

    image = Item("a.png", None, 0.0, np.zeros((64, 64, 3), np.uint8))
    ones = np.ones(2, np.float32)
    found = Detections(np.ones((2, 4), np.float32), ones, np.zeros(2, np.int32))
    for last in (2, 3):
        out = Interrupted()
        report = Coco(out, None)
        with pytest.raises(KeyboardInterrupt):
            report.add(image, found)
        report.end()
        assert len(json.loads(out.getvalue())) == last - 1


def test_a_measurement_is_kept(tmp_path, monkeypatch, capsys):
    """The frames until then are written and marked as interrupted."""

    def stop(self, name, done):
        if done == 5 and "warm-up" not in name:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("rknn_runtime.cli.bench._Progress.__call__", stop)
    monkeypatch.setattr("rknn_runtime.cli.options.shows_progress", lambda arguments: True)
    model, report = PROJECT / "examples" / "models" / "shapes_rk3588.rknn", tmp_path / "a.json"
    assert main(["bench", str(model), "--sim", "--warm-up", "1", "-o", str(report)]) == 143
    assert load(report.read_text("utf-8")).about["interrupted"] is True
    assert capsys.readouterr().err.endswith("rknn-runtime: stopped\n")


@pytest.mark.parametrize("number", (signal.SIGINT, *HANDLED))
def test_a_command(number, capsys, monkeypatch):
    """There is no traceback, and the status tells the signal; signals are then as before."""
    monkeypatch.setattr(
        "rknn_runtime.cli.predict.run", lambda arguments: os.kill(os.getpid(), number)
    )
    assert main(["predict", "model.rknn"]) == 128 + number
    assert capsys.readouterr().err == "rknn-runtime: stopped\n"
    assert all(signal.getsignal(each) is signal.SIG_DFL for each in HANDLED)


def test_signals_that_others_handle_are_left_to_them(monkeypatch):
    """Signals that `nohup` ignores or another program handles stay so, also in other threads."""

    def theirs(number, frame):
        pass

    before = signal.signal(signal.SIGTERM, theirs), signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            assert signal.getsignal(signal.SIGTERM) is theirs
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is theirs
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])
    seen = []

    def elsewhere():
        with ended_by_signals():
            seen.append([signal.getsignal(each) for each in HANDLED])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [[signal.SIG_DFL] * 2]
