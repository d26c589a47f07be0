"""Vectors that are divided by their length: what networks that tell faces apart end with."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import Vector, u8
from paths import DATA
from rewritten import Old

from rknn_runtime.sim.emulator import Emulator, Verdict

MODEL = DATA / "models" / "ic5_rk3588.rknn"


def normed(kind: str = "l2", axes: tuple[int, ...] = (1,), type_of: int = 87) -> bytes:
    """`ic5`, followed by a norm of its output, 1 x 24 x 32 x 32."""
    old = Old(MODEL.read_bytes())
    table = {0: kind, 1: np.float32(1e-12).tobytes(), 2: Vector("i", *axes)}
    old.append("exNorm", [1, 24, 32, 32], [], {7: u8(type_of), 8: table}, 1 / 100)
    return old.write()


def run(model: bytes) -> tuple[Emulator, np.ndarray]:
    emulator = Emulator(model)
    values = np.random.default_rng(2).integers(-128, 128, (1, 5, 32, 32)).astype(np.int8)
    emulator.set_input(0, values)
    emulator.run()
    return emulator, emulator.read_float(emulator.outputs[0])


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
@pytest.mark.parametrize("type_of", [87, 62])
def test_values_are_divided_by_the_length_of_their_vector(axis: int, type_of: int) -> None:
    """Along any axis, rounded to int8 in the end, and said to be computed in float."""
    (emulator, ours), (_, x) = run(normed(axes=(axis,), type_of=type_of)), run(MODEL.read_bytes())
    node, tensor = emulator.nodes[-1], emulator.outputs[0]
    assert (node.op, node.verdict) == ("exNorm", Verdict.FLOAT)
    length = np.sqrt((x.astype(np.float64) ** 2).sum(axis, keepdims=True))
    q = np.rint(x / np.where(length > 0, length, 1) / tensor.scale) + tensor.zero_point
    expected = (np.clip(q, -128, 127) - tensor.zero_point) * tensor.scale
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "axes", "type_of"),
    [("l1", (1,), 87), ("l2", (), 87), ("l2", (1, 3), 87), ("l2", (4,), 87), ("l2", (1,), 26)],
)
def test_other_norms_are_refused(kind: str, axes: tuple[int, ...], type_of: int) -> None:
    """Nobody has seen them."""
    node = Emulator(normed(kind, axes, type_of)).nodes[-1]
    assert node.verdict == Verdict.REFUSED
    assert "not understood" in node.reason
