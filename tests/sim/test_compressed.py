"""Weights that the toolkit compressed are unpacked when a model is opened.

Other tests show that they are the network's: ``test_accumulators.py`` by the sums of its
convolutions, ``test_emulator.py`` by every bit of the machine in NumPy.
"""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from reference.npu import Machine

from rknn_runtime.sim.emulator import Emulator, Verdict

MODELS = DATA / "emulator"
SOCS = ("rk3588", "rk3566", "rk3562", "rv1106")


def model_of(soc: str) -> Path:
    return MODELS / f"compressed_{soc}.rknn"


def results(path: Path) -> np.ndarray:
    emulator = Emulator(path)
    values = np.random.default_rng(0).integers(-128, 128, emulator.inputs[0].shape)
    emulator.set_input(0, values.astype(np.int8))
    emulator.run()
    return emulator.read(emulator.outputs[0])


def reasons(model: bytes) -> list[str]:
    return [n.reason for n in Emulator(model).nodes if n.verdict == Verdict.REFUSED]


def first_stream(model: bytes) -> int:
    """Where the first compressed weights of a RK3588 file lie in it."""
    machine = Machine(model)
    registers = next(r for _, _, r, _ in machine.tasks if r.get(0x1100))
    weights = machine.memory[registers[0x1110] :][:64].tobytes()
    assert model.count(weights) == 1
    return model.index(weights)


def changed(at: int, value: bytes) -> bytes:
    """The RK3588 file with other bytes in the header of the first stream."""
    model = model_of("rk3588").read_bytes()
    start = first_stream(model) + at
    return model[:start] + value + model[start + len(value) :]


@pytest.mark.parametrize("soc", SOCS[1:])
def test_all_packings_hold_the_same_weights(soc: str) -> None:
    """16, 8 and 2 streams, two kinds of codes: the bits of RK3588."""
    np.testing.assert_array_equal(results(model_of(soc)), results(model_of("rk3588")))


@pytest.mark.parametrize("soc", SOCS)
def test_tasks_find_unpacked_weights_in_the_buffer(soc: str) -> None:
    """A layer of several tasks names its streams once; all of them are exact."""
    nodes = Emulator(model_of(soc)).nodes
    assert all(node.verdict in (Verdict.EXACT, Verdict.NOTHING) for node in nodes)
    assert max(node.tasks for node in nodes if node.op == "Conv") > 1


def test_streams_have_runs_and_have_none() -> None:
    """The model has both kinds of headers, so that both are compared with its network."""
    machine = Machine(model_of("rk3588").read_bytes())
    kinds = set()
    for _, _, registers, _ in machine.tasks:
        if registers.get(0x1100):
            kinds.add(int(machine.memory[registers[0x1110]]) & 0xF)
    assert kinds == {0, 1}


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\xf1"),  # runs of more bits than a header holds
        (0, b"\x10"),  # runs, and none
        (3, b"\x01"),  # a byte that is always 0
        (4, b"\x11\x11\x11\x11"),  # one class for all codes
        (4, b"\x9f\x30\x54\x16"),  # classes that do not exist
        (8, bytes(8)),  # runs of no weights
        (8, b"\xff" * 8),  # runs of more weights than there are
    ],
)
def test_damaged_streams_are_refused(at: int, value: bytes) -> None:
    """Named with register and value, never run."""
    found = reasons(changed(at, value))
    assert found
    assert all("streams are damaged: register 1100 = 0x00000001" in reason for reason in found)


def test_more_weights_than_a_file_can_mean_are_refused() -> None:
    """A stream of few bytes could claim to hold gigabytes of one value."""
    model = model_of("rk3588").read_bytes()
    registers = next(r for _, _, r, _ in Machine(model).tasks if r.get(0x1100))
    word = struct.pack("<HIH", 0x1030, registers[0x1030], 0x0201)
    assert word in model
    huge = struct.pack("<HIH", 0x1030, 0x40000000, 0x0201)
    found = reasons(model.replace(word, huge))
    assert any("compressed weights of 1073741824 bytes, 1 layers" in reason for reason in found)


def test_other_modes_are_refused() -> None:
    """2 is no mode of any SoC; 5 is the mode of float16, and these weights are int8."""
    model = model_of("rk3588").read_bytes()
    word = struct.pack("<HIH", 0x1100, 1, 0x0201)
    assert word in model
    for mode in (2, 5):
        found = reasons(model.replace(word, struct.pack("<HIH", 0x1100, mode, 0x0201)))
        assert found
        assert all(f"1100 = 0x0000000{mode}" in reason for reason in found)


def wide_model(kind: str) -> bytes:
    """Weights of 16 bits; some 6 times smaller in the repository than the file is."""
    return lzma.decompress((MODELS / f"compressed_{kind}.rknn.xz").read_bytes())


@pytest.mark.parametrize("soc", ["rk3588", "rk3566", "rk3576"])
def test_float16_weights_are_those_of_the_network(soc: str) -> None:
    """Two kinds of streams: of words, and one of low and one of high bytes."""
    model = wide_model(f"fp16_{soc}")
    assert {r.get(0x1100, 0) for _, _, r, _ in Machine(model).tasks} - {0} == {5}
    emulator = Emulator(model)
    values = np.random.default_rng(0).uniform(-1, 1, (1, 24, 8, 8)).astype(np.float16)
    emulator.set_input(0, values)
    emulator.run()
    weights = wide_weights().astype(np.float16).astype(np.float64)
    expected = convolution(values[0].astype(np.float64), weights)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(emulator.read(emulator.outputs[0])[0], expected, 1e-3, 1e-3)


def test_int16_weights_are_those_without_compression() -> None:
    """The file of the same network with and without it."""
    packed, plain = wide_model("int16_rk3588"), wide_model("int16_plain_rk3588")
    assert {r.get(0x1100, 0) for _, _, r, _ in Machine(packed).tasks} - {0} == {3}
    found = []
    for emulator in (Emulator(packed), Emulator(plain)):
        values = np.random.default_rng(0).integers(-32768, 32768, (1, 24, 8, 8))
        emulator.set_input(0, values.astype(np.int16))
        emulator.run()
        found.append(emulator.read(emulator.outputs[0]))
    assert len(np.unique(found[0])) > 100
    np.testing.assert_array_equal(found[0], found[1])


def wide_weights() -> np.ndarray:
    """Those of ``tools/make_emulator_models.py``."""
    random, shape = np.random.RandomState(0), (40, 24, 3, 3)
    return (random.normal(size=shape) * (random.uniform(size=shape) < 0.05)).astype(np.float32)


def convolution(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """3x3, of float64 ``(C, H, W)``, a zero around it."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    _, height, width = x.shape
    parts = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.tensordot(weights.reshape(*weights.shape[:2], 9), np.stack(parts, 1), 2)
