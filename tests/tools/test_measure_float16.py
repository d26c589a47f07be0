"""The comparison of layers in float16, with a simulator that is one value off."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime.sim.emulator import Emulator

MODEL = DATA / "models" / "fp16_ic1_w37_rk3588.rknn"


@pytest.fixture
def compare():
    """The comparison of tools/measure_float16.py."""
    path = PROJECT / "tools" / "measure_float16.py"
    spec = importlib.util.spec_from_file_location("measure_float16", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare


def test_values_that_differ_are_counted(compare, tmp_path: Path, capsys) -> None:
    """One of a hundred values or so, by how much, and in which range."""
    emulator = Emulator(MODEL)
    values = np.random.default_rng(2).random(emulator.inputs[0].shape).astype(np.float16)
    emulator.set_input(0, values)
    emulator.run()
    simulated = emulator.read_float(emulator.outputs[0])
    simulated.flat[7] += 2 * np.abs(simulated).max()
    shutil.copy(MODEL, tmp_path / "layer.rknn")
    np.savez(tmp_path / "layer.npz", x=values, y=simulated)
    compare(tmp_path)
    row = capsys.readouterr().out.splitlines()[-1]
    name, size, equal, largest, extent = [cell.strip() for cell in row.strip("|").split("|")]
    assert (name, int(size)) == ("layer", simulated.size)
    assert equal == f"{1 - 1 / simulated.size:.2%}" != "100.00%"
    assert 0 < float(largest) < float(extent)


def test_an_empty_folder_is_refused(compare, tmp_path: Path) -> None:
    """And the message says how to fill it."""
    with pytest.raises(ValueError, match="--make"):
        compare(tmp_path)
