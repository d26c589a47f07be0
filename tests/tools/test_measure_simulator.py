"""The comparison with the toolkit's simulator, on dumps as the toolkit writes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime.sim.emulator import Emulator

MODEL = DATA / "emulator" / "machine_rk3588.rknn"


def dump(folder: Path, change: int) -> None:
    """Write every tensor of a run as real numbers; one value of one output `change` steps off."""
    npy, emulator = folder / "simulator" / "npy", Emulator(MODEL)
    npy.mkdir(parents=True)
    values = np.random.default_rng(1).integers(-128, 128, emulator.inputs[0].shape)
    emulator.set_input(0, values.astype(np.int8))
    tensors = {"images": emulator.inputs[0]}
    arrays = {"images_int8": (values - tensors["images"].zero_point) * tensors["images"].scale}
    for node in emulator.walk():
        for index in node.outputs if node.op != "InputOperator" else ():
            tensor = emulator.tensors[index]
            arrays[tensor.name] = emulator.read_float(index).astype(np.float64)
            if node.op == "MaxPool":
                at = np.unravel_index(arrays[tensor.name].argmin(), tensor.shape)
                arrays[tensor.name][at] += change * tensor.scale
    lines = ["layer_name file_name", "-----"]
    for number, (name, array) in enumerate(arrays.items()):
        np.save(npy / f"{number}.npy", array.astype(np.float32))
        lines.append(f"{name}   {number}.txt")
    (folder / "map_name_to_file.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = PROJECT / "tools" / "measure_simulator.py"
    spec = importlib.util.spec_from_file_location("measure_simulator", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def rows(tool, monkeypatch, capsys):
    """Run the tool on dumps and return its table."""

    def run(folder: Path, *options: str) -> dict[str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["measure_simulator", str(MODEL), str(folder), *options])
        tool.main()
        lines = capsys.readouterr().out.splitlines()
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
        return {name: rest for name, *rest in cells}

    return run


def test_a_simulator_that_agrees_differs_in_nothing(tmp_path: Path, rows) -> None:
    """Every kind of node is compared, on the dumped inputs."""
    dump(tmp_path, 0)
    found = rows(tmp_path)
    assert {"Conv", "ConvRelu", "ConvSigmoid", "ConvAdd", "Add", "MaxPool", "Resize"} <= set(found)
    for name, (size, one, more, missing) in found.items():
        assert (one, more, missing) == ("0.000%", "0", "0"), name
        assert int(size) > 0


def test_sums_with_factors_in_float(tmp_path: Path, rows) -> None:
    """The file's factors and roundings change few values of convolutions, by one step."""
    pytest.importorskip("onnx")
    dump(tmp_path, 0)
    found = rows(tmp_path, "--onnx", str(DATA / "emulator" / "machine.onnx"))
    size, one, more, _ = found["ConvRelu in float"]
    assert size == found["ConvRelu"][0]
    assert 0 < float(one.rstrip("%")) < 0.5
    assert more == "0"
    assert "Conv in float" in found
    assert "ConvSigmoid in float" not in found
    # The dump is not the simulator's: most differences have neither of its reasons.
    (line,) = (name for name in found if name.startswith("in float: "))
    ties, weights, unexplained = (int(word) for word in line.split() if word.isdigit())
    assert ties + weights < unexplained


@pytest.mark.parametrize(
    ("value", "step", "counts"),
    [(86.500004, 3.2, (1, 0, 0)), (47.523, 3.499999, (0, 1, 0)), (47.523, 3.2, (0, 0, 1))],
)
def test_a_difference_has_one_reason(
    value: float, step: float, counts: tuple[int, int, int], tool
) -> None:
    """A tie of float32, a weight at a tie, or none."""
    exact = tool.Exact(None, None)
    factors = np.full((1, 1, 1), 0.002)
    exact.explain(np.full((1, 1, 1), value), np.ones((1, 1, 1), bool), np.array([[step]]), factors)
    assert (exact.by_tie, exact.by_weight, exact.unexplained) == counts
