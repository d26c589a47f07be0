"""Files of toolkits 1.1 to 1.5.0, and Pad nodes, which they have: written by hand from our own."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import Vector, u8, u32
from paths import DATA
from rewritten import Numbers, Old

from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

MODELS = [
    DATA / "models" / "ic5_rk3588.rknn",
    DATA / "models" / "sp7x7_c33_rk3588.rknn",
    DATA / "emulator" / "machine_rk3588.rknn",
    DATA / "emulator" / "machine_fp16_rk3588.rknn",
]


def outputs_of(model: bytes) -> list[np.ndarray]:
    emulator, random = Emulator(model), np.random.default_rng(5)
    for index, tensor in enumerate(emulator.inputs):
        values = random.integers(-128, 128, tensor.shape)
        scaled = values if tensor.dtype == np.int8 else values / 128
        emulator.set_input(index, scaled.astype(tensor.dtype))
    emulator.run()
    return [emulator.read(output) for output in emulator.outputs]


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_old_containers_give_the_same_bits(path, version) -> None:
    """Blobs, tasks per node, commands without targets, relocations by tensor: the same run."""
    data = path.read_bytes()
    for old, new in zip(outputs_of(Old(data).write(version)), outputs_of(data)):
        np.testing.assert_array_equal(old, new)
        assert old.any()


def test_tasks_of_other_cores_are_not_run() -> None:
    """Core mask 1 alone is for a core that works alone: without such tasks nothing is executed."""
    old = Old(MODELS[0].read_bytes())
    for node in old.nodes:
        node[6] = [task for task in node.get(6, []) if task[7] != u32(1)]
    refused = [n for n in Emulator(old.write()).nodes if n.verdict == Verdict.REFUSED]
    assert {node.op for node in refused} == {"ConvRelu", "Conv"}


def test_what_no_old_file_holds_is_refused() -> None:
    """A missing command tensor, commands without a blob, and versions in between are refused."""
    for tensor in (9999, 0):
        old = Old(MODELS[0].read_bytes())
        next(node for node in old.nodes if 6 in node)[6][0][0] = u32(tensor)
        with pytest.raises(EmulatorError, match="the commands of a task"):
            Emulator(old.write())
    for version in (0, 3):
        with pytest.raises(EmulatorError, match=f"container version {version}"):
            Emulator(Old(MODELS[0].read_bytes()).write(version))


def shared(what: str) -> bytes:
    """A file of 40 to 120 kB in which many tables share a vector, or one has 3,000 relocations."""
    old, many = Old(MODELS[0].read_bytes()), 3000
    if what == "tensors":
        indices = Vector("I", *([0] * many))
        old.nodes = [{1: "Conv", 2: "Conv:0", 3: u8(0), 4: indices, 5: indices}] * 300
    elif what == "names":
        old.nodes = [{1: "x", 2: "x" * many, 3: u8(0)}] * 250
    else:
        node = next(node for node in old.nodes if 6 in node)
        task = node[6][0]
        task[0] = u32(old.constant(bytes(8 * many), 7))
        if what == "commands":
            node[6] = [task] * many
        else:
            task[5] = Numbers([bytes(24)] * many)
    return old.write()


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("tensors", "beyond what such a file has"),
        ("names", "beyond what such a file has"),
        ("commands", "the commands of a task"),
        ("relocations", "the commands of a task"),
    ],
)
def test_a_small_file_is_not_read_without_end(what: str, reason: str) -> None:
    """Tables may share vectors, but at most 16 times the file's bytes are read."""
    with pytest.raises(EmulatorError, match=reason):
        Emulator(shared(what))


# ---- channels that do not exist


def test_weights_of_channels_that_do_not_exist_have_no_effect() -> None:
    """Toolkits up to 1.4 write 0 there, to which an offset of the kernel is added."""
    data = MODELS[0].read_bytes()
    old, random = Old(data), np.random.default_rng(6)
    (weights,) = (tensor for tensor in old.tensors if tensor[5] == "w0")  # 3 x 3, 5 of 16 channels
    blob = int.from_bytes(weights[18], "little")
    values = np.frombuffer(old.blobs[blob], np.int8).reshape(-1, 16).copy()
    values[:, 5:] = random.integers(-128, 128, (len(values), 11))
    old.blobs[blob] = values.tobytes()
    np.testing.assert_array_equal(outputs_of(old.write())[0], outputs_of(data)[0])
    values[:, 4] = -values[:, 4]
    old.blobs[blob] = values.tobytes()
    assert (outputs_of(old.write())[0] != outputs_of(data)[0]).any()


@pytest.mark.parametrize(("existing", "message"), [(16, None), (17, "1024"), (64, "1024")])
def test_more_channels_than_are_stored_are_refused(existing, message) -> None:
    """The first convolution stores 16 channels: it cannot have more."""
    old = Old(MODELS[0].read_bytes())
    node = next(i for i, n in enumerate(old.nodes) if n[1].startswith("Conv"))
    commands = old.tensors[int.from_bytes(old.nodes[node][6][0][0], "little")]
    blob = int.from_bytes(commands[18], "little")
    words = np.frombuffer(
        old.blobs[blob], [("none", "<u2"), ("at", "<u2"), ("value", "<u4")]
    ).copy()
    (place,) = np.flatnonzero(words["at"] == 0x1024)
    words["value"][place] = 16 | existing - 1 << 16
    old.blobs[blob] = words.tobytes()
    found = Emulator(old.write()).nodes[node]
    assert found.verdict == (Verdict.REFUSED if message else Verdict.EXACT)
    assert (message or "") in found.reason


# ---- Pad


def padded(pads: tuple[int, ...], fill: float | None, mode: str = "", kept: bool = True) -> bytes:
    """`ic5`, followed by a Pad of its output, 1 x 24 x 32 x 32."""
    old = Old(MODELS[0].read_bytes())
    shape = [n + pads[i] + pads[i + 4] for i, n in enumerate((1, 24, 32, 32))]
    inputs = [old.numbers(*pads)]
    if fill is not None:
        one = Vector("i", 1)
        inputs.append(old.constant(np.float32(fill).tobytes(), 5, s0=u8(1), s3=one, s4=one))
    scale = None if kept else 2 * Emulator(MODELS[0]).outputs[0].scale
    old.append("Pad", shape, inputs, {7: u8(30), 8: {0: mode}} if mode else {}, scale)
    return old.write()


@pytest.mark.parametrize("mode", ["", "constant"])
@pytest.mark.parametrize("fill", [None, 0.0, 0.5, -1e9])
@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 3, 4), (0, 3, 0, 0, 0, 0, 0, 1), (0,) * 8])
def test_pad_puts_a_number_around(pads, fill, mode) -> None:
    """Spatially and in channels, 0 or a given number, which is quantized and clipped."""
    emulator = Emulator(padded(pads, fill, mode))
    pad = emulator.nodes[-1]
    assert (pad.op, pad.verdict, pad.tasks) == ("Pad", Verdict.EXACT, 0)
    (ours,), (inner,) = outputs_of(padded(pads, fill, mode)), outputs_of(MODELS[0].read_bytes())
    tensor = emulator.outputs[0]
    around = np.clip(np.rint((fill or 0.0) / tensor.scale) + tensor.zero_point, -128, 127)
    width = tuple(zip(pads[:4], pads[4:]))
    np.testing.assert_array_equal(ours, np.pad(inner, width, constant_values=int(around)))


def test_pad_into_another_scale_says_that_it_is_not_exact() -> None:
    """Its values are requantized in float."""
    emulator = Emulator(padded((0, 0, 1, 1, 0, 0, 1, 1), None, kept=False))
    assert emulator.nodes[-1].verdict == Verdict.FLOAT


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_pads_with_values_of_the_input(mode: str) -> None:
    """Pads equal NumPy's: the value at the edge, or mirrored values."""
    pads = (0, 1, 2, 0, 0, 0, 3, 4)
    (ours,), (inner,) = outputs_of(padded(pads, None, mode)), outputs_of(MODELS[0].read_bytes())
    np.testing.assert_array_equal(ours, np.pad(inner, tuple(zip(pads[:4], pads[4:])), mode))


def test_a_mirrored_border_is_smaller_than_the_input() -> None:
    """There is nothing to mirror behind its last value."""
    assert Emulator(padded((0, 0, 31, 0, 0, 0, 0, 0), None, "reflect")).is_runnable
    assert not Emulator(padded((0, 0, 32, 0, 0, 0, 0, 0), None, "reflect")).is_runnable


def test_another_way_to_pad_is_refused() -> None:
    """No file that was seen repeats the whole input."""
    emulator = Emulator(padded((0, 0, 1, 1, 0, 0, 1, 1), None, "wrap"))
    assert emulator.nodes[-1].verdict == Verdict.REFUSED
    assert "not understood" in emulator.nodes[-1].reason
