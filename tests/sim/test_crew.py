"""Several threads for one run of the emulator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, PROJECT
from test_generated import INDEX, MEMBERS

from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

MODELS = [
    PROJECT / "examples/models/shapes_rk3588.rknn",
    PROJECT / "examples/models/shapes_rv1106.rknn",
    DATA / "emulator/machine_fp16_rk3588.rknn",
    DATA / "emulator/compressed_rk3562.rknn",
    DATA / "nets/shapes_yolov10_rk3588.rknn",
]


def run(model: Path | bytes) -> list[bytes]:
    emulator = Emulator(model)
    random = np.random.default_rng(3)
    for index, tensor in enumerate(emulator.inputs):
        shape = tensor.shape
        if tensor.is_image and tensor.dtype == np.int8:
            shape = tuple(shape[at] for at in (0, 2, 3, 1))
            emulator.set_input(index, random.integers(0, 256, shape).astype(np.uint8))
        else:
            scale = 1 if tensor.dtype.kind == "f" else 50
            values = random.standard_normal(shape) * scale
            emulator.set_input(index, values.astype(tensor.dtype))
    emulator.run()
    return [emulator.read(output).tobytes() for output in emulator.outputs]


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_bits_do_not_depend_on_threads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three do not divide the rows evenly; 16 are more than a layer has parts."""
    answers = []
    for threads in ("1", "2", "3", "16"):
        monkeypatch.setenv("RKNN_SIM_THREADS", threads)
        answers.append(run(path))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("pair", sorted({entry["pair"] for entry in INDEX}))
def test_any_task_may_be_shared(pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of all families, however small, in two and in more parts than they have rows."""
    networks = [entry["name"] for entry in INDEX if entry["pair"] == pair]
    for name in networks:
        monkeypatch.setenv("RKNN_SIM_THREADS", "1")
        model = MEMBERS[f"{name}.rknn"]
        if any(node.verdict is Verdict.REFUSED for node in Emulator(model).nodes):
            continue
        expected = run(model)
        monkeypatch.setenv("RKR_EMU_SHARE", "all")
        for threads in ("2", "5"):
            monkeypatch.setenv("RKNN_SIM_THREADS", threads)
            assert run(model) == expected, name
        monkeypatch.delenv("RKR_EMU_SHARE")


def test_runs_at_once_share_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins and ends while others run, so the number of parts changes from task to task."""
    expected = [run(path) for path in MODELS]
    monkeypatch.setenv("RKNN_SIM_THREADS", "3")
    monkeypatch.setenv("RKR_EMU_SHARE", "all")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(run, MODELS * 3))
    assert answers == expected * 3


def test_threads_do_not_outlive_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNN_SIM_THREADS", "4")
    before = set(Path("/proc/self/task").iterdir())
    run(MODELS[0])
    assert set(Path("/proc/self/task").iterdir()) <= before


@pytest.mark.parametrize("text", ["0", "17", "-1", "two", "1.5", " "])
def test_bad_number_of_threads(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNN_SIM_THREADS", text)
    with pytest.raises(EmulatorError, match=f"RKNN_SIM_THREADS: expected 1 to 16, got '{text}'"):
        Emulator(MODELS[0])
