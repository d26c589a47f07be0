"""Several threads for one run of the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime.sim.emulator import Emulator, EmulatorError

MODELS = [
    PROJECT / "examples/models/shapes_rk3588.rknn",
    PROJECT / "examples/models/shapes_rv1106.rknn",
    DATA / "emulator/machine_fp16_rk3588.rknn",
    DATA / "emulator/compressed_rk3562.rknn",
    DATA / "nets/shapes_yolov10_rk3588.rknn",
]


def run(path: Path) -> list[bytes]:
    emulator = Emulator(path)
    (tensor,) = emulator.inputs
    n, c, h, w = tensor.shape
    random = np.random.default_rng(3)
    if tensor.dtype == np.int8:
        emulator.set_input(0, random.integers(0, 256, (n, h, w, c)).astype(np.uint8))
    else:
        emulator.set_input(0, random.standard_normal(tensor.shape).astype(tensor.dtype))
    emulator.run()
    return [emulator.read(output).tobytes() for output in emulator.outputs]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_bits_do_not_depend_on_threads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three do not divide the rows evenly; 16 are more than a layer has parts."""
    answers = []
    for threads in ("1", "3", "16"):
        monkeypatch.setenv("RKNN_SIM_THREADS", threads)
        answers.append(run(path))
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]


def test_threads_do_not_outlive_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNN_SIM_THREADS", "4")
    before = len(list(Path("/proc/self/task").iterdir()))
    run(MODELS[0])
    assert len(list(Path("/proc/self/task").iterdir())) == before


@pytest.mark.parametrize("text", ["0", "17", "-1", "two", "1.5", " "])
def test_bad_number_of_threads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNN_SIM_THREADS", text)
    with pytest.raises(EmulatorError, match=f"RKNN_SIM_THREADS: expected 1 to 16, got '{text}'"):
        Emulator(MODELS[0])
