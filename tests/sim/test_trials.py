"""The emulator tries the commands of a node on random values, against its operator's definition."""

from __future__ import annotations

import lzma
import struct

import numpy as np
import pytest
from paths import DATA

from rknn_runtime.sim.emulator import Emulator, Verdict
from rknn_runtime.sim.faults import toolkit_faults


def change_words(model: bytes, register: int, change: int) -> bytes:
    """Flip bits of every command that writes a register: 16 bits of it, 32 of value, 16 of unit."""
    units = (0x0201,) if register < 0x2000 else (0x1001, 0x2001)
    changed = bytearray(model)
    for at in range(0, len(model) - 8, 4):
        number, value, target = struct.unpack_from("<HIH", model, at)
        if number == register and target in units:
            struct.pack_into("<HIH", changed, at, number, value ^ change, target)
    return bytes(changed)


def tried(model: bytes) -> dict[str, str]:
    """Return operators that failed, and their texts."""
    nodes = Emulator(model).nodes
    return {node.op: node.reason for node in nodes if node.reason.startswith("tried on random")}


@pytest.mark.parametrize("path", sorted((DATA / "layers").glob("*.rknn")), ids=lambda p: p.stem)
def test_a_trial_leaves_the_values_of_a_run(path) -> None:
    """Between the inputs and the run, and after it."""
    random, outputs = np.random.default_rng(3), []
    for asks in (False, True):
        machine = Emulator(path)
        random = np.random.default_rng(3)
        for index, tensor in enumerate(machine.inputs):
            values = random.integers(-100, 101, tensor.shape)
            is_float = tensor.dtype.kind == "f"
            machine.set_input(index, (values / 50 if is_float else values).astype(tensor.dtype))
        machine._check_status(machine._function("run")(machine._handle, 1))
        before = [machine.read(tensor) for tensor in machine.inputs]
        assert not asks or machine.nodes
        for tensor, values in zip(machine.inputs, before):
            np.testing.assert_array_equal(machine.read(tensor), values)
        machine.run()
        assert not asks or machine.emulation
        outputs.append([machine.read(tensor) for tensor in machine.outputs])
    for plain, asked in zip(*outputs):
        np.testing.assert_array_equal(plain, asked)


@pytest.mark.parametrize(
    ("name", "register", "change", "op"),
    [
        ("reused_memory_rk3588", 0x4104, 0x2000, "Sigmoid"),  # entries of its table
        ("reused_memory_rk3588", 0x4084, 0x2000, "Relu"),  # by what results are multiplied
        ("float_net_rk3566", 0x4104, 0x2000, "exSwish"),
        ("half_batch_rv1106", 0x4078, 0x10000, "Add"),  # by what the second operand is
    ],
)
def test_other_commands_give_other_results(name, register, change, op) -> None:
    """The node whose changed commands give another result than its operator is named."""
    model = (DATA / "layers" / f"{name}.rknn").read_bytes()
    assert op not in tried(model)
    changed = change_words(model, register, change)
    assert changed != model
    (reason,) = (text for failed, text in tried(changed).items() if failed == op)
    assert "steps off" in reason
    nodes = [node for node in Emulator(changed).nodes if node.op == op]
    assert {node.verdict for node in nodes} == {Verdict.DECODED}
    assert any(op in fault for fault in toolkit_faults(changed))


def test_a_layer_that_is_too_large_to_try_is_not_called_wrong() -> None:
    """10 billion multiplications would take too long; nothing is said of them."""
    model = lzma.decompress((DATA / "emulator" / "large_rk3588.rknn.xz").read_bytes())
    assert tried(model) == {}
    assert {node.verdict for node in Emulator(model).nodes} == {Verdict.NOTHING, Verdict.EXACT}


@pytest.mark.parametrize(
    ("model", "register", "change", "ops"),
    [
        ("machine_rk3588", 0x1014, 0x10000, {"Conv", "ConvRelu"}),  # dilation
        ("machine_rk3588", 0x1068, 1, {"Conv", "ConvRelu"}),  # pads
        ("machine_rk3566", 0x107C, 1, {"Conv", "ConvAdd", "ConvLeakyRelu"}),  # lines of inputs
        ("machine_rk3576", 0x1014, 0x10000, {"Conv", "ConvRelu", "ConvReluAdd"}),
        ("machine_rv1106", 0x1110, 0x10, {"ConvAdd", "ConvRelu"}),  # where weights begin
    ],
)
def test_other_convolutions_give_other_sums(model, register, change, ops) -> None:
    """A convolution is named if its commands read other values than its file describes.

    Mini containers do not have the attributes of a convolution.
    """
    file = (DATA / "emulator" / f"{model}.rknn").read_bytes()
    assert not tried(file)
    changed = change_words(file, register, change)
    failed = tried(changed)
    assert set(failed) == ops
    assert {fault.partition(" ")[0] for fault in toolkit_faults(changed)} == ops
    assert all("other sums than" in reason for reason in failed.values())


def test_only_memory_that_decides_is_blamed() -> None:
    """Sums of int8 that all end at one bound say nothing about the memory."""
    file = (DATA / "layers" / "batch_rk3588.rknn").read_bytes()
    reason = tried(change_words(file, 0x4080, 0x10000))["Conv"]
    assert "is far off" in reason and "memory" not in reason


def test_every_machine_passes_its_trial() -> None:
    """Whatever the SoC, type and container."""
    for path in sorted((DATA / "emulator").glob("*.rknn")):
        assert tried(path.read_bytes()) == {}, path.name
