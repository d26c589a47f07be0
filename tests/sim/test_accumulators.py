"""The sums of convolutions equal the ONNX file's: weights, padding, strides, and groups.

Nothing of a ``.rknn`` file is used for them but scale and zero point of a node's input. The
sums are seen in the machine in NumPy, whose stored values are compared with the emulator's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from paths import DATA, PROJECT

from rknn_runtime.sim.emulator import Emulator

pytest.importorskip("onnx")

from reference.accumulators import Layers, Listening, convolved, quantized


def pairs() -> list[tuple[Path, Path]]:
    """Return int8 models for the SoCs of the machine in NumPy, with their ONNX files."""
    found = []
    for folder in (DATA / "models", DATA / "emulator", DATA / "nets", PROJECT / "examples/models"):
        for path in sorted(folder.glob("*.rknn")):
            name, _, soc = path.stem.rpartition("_")
            source = folder / f"{name}.onnx"
            if soc in ("rk3588", "rv1106") and source.exists() and name[:3] not in ("i16", "fp1"):
                found.append((path, source))
    return found


PAIRS = pairs()


@pytest.mark.parametrize(("path", "source"), PAIRS, ids=lambda path: path.stem)
def test_sums_are_those_of_the_onnx_file(path: Path, source: Path) -> None:
    """0 sums differ, and 0 stored values between the emulator and the machine in NumPy."""
    emulator, random = Emulator(path), np.random.default_rng(3)
    for index, tensor in enumerate(emulator.inputs):
        emulator.set_input(index, random.integers(-128, 128, tensor.shape).astype(np.int8))
    machine = Listening(path.read_bytes(), Layers(source).by_weights)
    machine.follow(emulator)
    assert machine.compared
    assert machine.sums[0] > 0
    assert machine.outputs[0] >= machine.sums[0]
    assert machine.sums[1] == machine.outputs[1] == 0


def test_every_layer_of_the_nets_is_compared() -> None:
    """Nothing but the compiler's own convolutions is left out: as many as the ONNX has."""
    for path, source in PAIRS:
        if path.parent.name != "nets":
            continue
        layers = Layers(source).by_weights
        machine = Listening(path.read_bytes(), layers)
        names = {t.name for t in machine.tensors}
        assert len(layers) > 50
        assert layers.keys() <= names


def test_another_weight_is_seen() -> None:
    """One quantized weight by one step: the sums of its kernel differ."""
    path, source = next(pair for pair in PAIRS if pair[0].stem == "ic5_rk3588")
    layers = Layers(source).by_weights
    weights = layers["w0"][0].copy()
    kernel = weights[0].ravel()
    step = (max(kernel.max(), 0) - min(kernel.min(), 0)) / 255
    kernel[np.abs(kernel).argmin()] += step
    layers["w0"] = (weights, *layers["w0"][1:])
    machine, emulator = Listening(path.read_bytes(), layers), Emulator(path)
    emulator.set_input(0, np.random.default_rng(1).integers(-128, 128, (1, 5, 32, 32), np.int8))
    machine.follow(emulator)
    assert 0 < machine.sums[1] <= 32 * 32
    assert machine.outputs[1] == 0


def test_weights_are_quantized_over_a_range_that_holds_zero() -> None:
    """Per kernel: 255 steps from the least to the largest weight, or from or to 0."""
    weights = np.array([[0.1, 1.0], [-1.0, 0.5], [-0.5, -2.0], [0.0, 0.0]], np.float32)
    q = quantized(weights.reshape(4, 2, 1, 1)).reshape(4, 2)
    np.testing.assert_array_equal(q, [[26, 255], [-170, 85], [-64, -255], [0, 0]])


def test_convolution_of_integers() -> None:
    """Strides, padding of one side, dilation and groups equal sums written out."""
    x = np.arange(2 * 4 * 5).reshape(2, 4, 5)
    w = np.arange(1, 9).reshape(2, 1, 2, 2)
    out = convolved(x, w, [2, 1], [1, 0, 0, 1], [1, 2], 2)
    padded = np.pad(x, ((0, 0), (1, 0), (0, 1)))
    assert out.shape == (2, 2, 4)
    for k, y, z in np.ndindex(2, 2, 4):
        window = padded[k, 2 * y : 2 * y + 2, z : z + 3 : 2]
        assert out[k, y, z] == (window * w[k, 0]).sum()
