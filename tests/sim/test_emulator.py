"""The emulator executes the commands of a ``.rknn`` file."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import stub
from paths import DATA, PROJECT, TESTS
from reference.npu import Flat, Machine, rne
from reference.windows import sliding_windows

from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.library import open_library
from rknn_runtime.sim.emulator import Emulator, EmulatorError, Verdict

MODELS, MACHINES, NETS = (DATA / name for name in ("models", "emulator", "nets"))
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
EVERY = sorted(path for folder in (MODELS, MACHINES, NETS) for path in folder.glob("*.rknn"))


def fill(emulator: Emulator, seed: int = 0) -> list[np.ndarray]:
    """Give every input random values of the tensor's type."""
    random, given = np.random.default_rng(seed), []
    for index, tensor in enumerate(emulator.inputs):
        if tensor.dtype == np.int8:
            values = random.integers(-128, 128, tensor.shape).astype(np.int8)
        else:
            values = random.uniform(-1, 1, tensor.shape).astype(tensor.dtype)
        emulator.set_input(index, values)
        given.append(values)
    return given


def results(model: Path | bytes, seed: int = 0) -> list[np.ndarray]:
    emulator = Emulator(model)
    fill(emulator, seed)
    emulator.run()
    return [emulator.read(output) for output in emulator.outputs]


def is_for_oracle(path: Path) -> bool:
    """Whether all that the oracle knows is in the model: int8 tasks of two SoCs, rank 4."""
    emulator = Emulator(path)
    done = (Verdict.EXACT, Verdict.NOTHING)
    return (
        emulator.soc in ("rk3588", "rv1106")
        and all(node.verdict in done for node in emulator.nodes)
        and all(node.tasks for node in emulator.nodes if node.verdict == Verdict.EXACT)
        and all(len(tensor.shape) == 4 for tensor in (*emulator.inputs, *emulator.outputs))
    )


def replace_register(model: bytes, number: int, value: int) -> bytes:
    """Write another value wherever a command of the model writes a register."""
    targets = {1: 0x0201, 3: 0x0801, 4: 0x1001, 5: 0x2001}
    data, target = bytearray(model), targets[number >> 12]
    pattern = struct.pack("<H", number), struct.pack("<H", target)
    at = data.find(pattern[0])
    found = 0
    while at >= 0:
        if data[at + 6 : at + 8] == pattern[1]:
            data[at + 2 : at + 6] = struct.pack("<I", value)
            found += 1
        at = data.find(pattern[0], at + 1)
    assert found
    return bytes(data)


# ---- results


def assert_every_bit_is_the_oracles(model: bytes) -> None:
    emulator, machine = Emulator(model), Machine(model)
    for index, values in enumerate(fill(emulator)):
        machine.write(machine.inputs[index], values)
    emulator.run()
    machine.run()
    assert [output.index for output in emulator.outputs] == machine.outputs
    for output in emulator.outputs:
        np.testing.assert_array_equal(emulator.read(output), machine.read(output.index))


def test_every_bit_is_the_oracles() -> None:
    """All outputs equal the NumPy machine's, which shares no code with the emulator."""
    known = [path for path in EVERY if is_for_oracle(path)]
    assert len(known) > 15
    for path in known:
        print(path.stem)  # shown if it fails
        assert_every_bit_is_the_oracles(path.read_bytes())


@pytest.mark.parametrize(
    ("width", "height", "channels"), [(31, 27, 3), (1, 1, 4), (2, 3, 5), (32, 31, 5), (29, 32, 3)]
)
def test_every_bit_is_the_oracles_in_other_sizes(width: int, height: int, channels: int) -> None:
    """3 x 3 and 1 x 1 of few channels; results that are no whole number of tiles of 4 x 4."""
    model = (MODELS / "ic5_rk3588.rknn").read_bytes()
    sizes = {0x1028: width, 0x102C: width * height, 0x3014: height - 1 << 16 | width - 1}
    sizes |= {0x4030: width - 1, 0x4034: height - 1, 0x500C: width - 1, 0x5010: height - 1}
    sizes[0x405C] = height - 1 << 16 | width - 1
    for number, value in {**sizes, 0x1024: channels - 1 << 16 | 16}.items():
        model = replace_register(model, number, value)
    assert_every_bit_is_the_oracles(model)


@pytest.mark.parametrize(
    ("soc", "other"),
    [("rk3566", "rk3588"), ("rk3562", "rk3588"), ("rv1106", "rk3588"), ("rv1126b", "rk3576")],
)
def test_socs_give_the_same_bits(soc: str, other: str) -> None:
    """One network has other registers and packings for each SoC, and the same results.

    RV1126B has the registers of RK3576, whose compiler fuses differently from RK3588's.
    """
    pair = [results(MACHINES / f"machine_{each}.rknn") for each in (soc, other)]
    for ours, theirs in zip(*pair):
        np.testing.assert_array_equal(ours, theirs)


def test_rv1103b_differs_only_where_nothing_is_fused() -> None:
    """Its sigmoid is a separate task and rounds once more; the rest equals RK3588."""
    ours = results(MACHINES / "machine_rv1103b.rknn")
    theirs = results(MACHINES / "machine_rk3588.rknn")
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[2], theirs[2])
    assert np.abs(ours[1].astype(int) - theirs[1]).max() <= 2


@pytest.mark.parametrize("soc", ["rk3566", "rk3562", "rk3576", "rv1106", "rv1126b", "rv1103b"])
def test_one_offset_for_all_weights(soc: str) -> None:
    """A convolution to one channel has it in a register, whose sign lies elsewhere on each SoC.

    RK3588 has it in memory, as of several channels: from 128, of positive weights, to -127.
    """
    expected = results(MACHINES / "single_rk3588.rknn")
    assert [len(np.unique(values)) > 20 for values in expected] == [True] * 3
    for ours, theirs in zip(results(MACHINES / f"single_{soc}.rknn"), expected):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "soc", "bits"),
    [("ic5", "rk3588", 3), ("ic3_w37", "rk3588", 31), ("ic3_w37", "rv1106", 0x63)],
)
def test_truncated_accumulators_are_the_oracles(name: str, soc: str, bits: int) -> None:
    """Shifted and rounded to even in front of all that the DPU does, by the file's bits."""
    model = (MODELS / f"{name}_{soc}.rknn").read_bytes()
    truncated = replace_register(model, 0x301C, bits)
    assert_every_bit_is_the_oracles(truncated)
    assert any((a != b).any() for a, b in zip(results(model), results(truncated)))


@pytest.mark.parametrize(
    ("soc", "number"),
    [("rk3566", 0x302C), ("rk3562", 0x3024), ("rk3576", 0x3024), ("rv1106", 0x301C)],
)
def test_truncated_accumulators_of_other_socs(soc: str, number: int) -> None:
    """The same bits as RK3588; all but RK3566 have the number twice."""
    bits = 2 if soc == "rk3566" else 2 << 5 | 2
    models = [(MACHINES / f"single_{each}.rknn").read_bytes() for each in (soc, "rk3588")]
    changed = replace_register(models[0], number, bits)
    expected = results(replace_register(models[1], 0x301C, 2))
    assert any((a != b).any() for a, b in zip(results(models[1]), expected))
    for ours, theirs in zip(results(changed), expected):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("soc", "scale", "shift"), [("rk3588", 0x4084, 0x4088), ("rk3562", 0x40B0, 0x40B4)]
)
def test_a_scale_that_no_factor_reaches(soc: str, scale: int, shift: int) -> None:
    """Toolkits write 0 and a shift below 0: the zero point, whatever the input; else refused."""
    model = (MACHINES / f"single_{soc}.rknn").read_bytes()
    negative = replace_register(model, shift, 0xFFE)
    assert not Emulator(negative).is_runnable
    for values in results(replace_register(negative, scale, 0)):
        assert len(np.unique(values)) == 1


@pytest.mark.parametrize(
    "path", sorted(MACHINES.glob("machine_*.rknn")), ids=lambda path: path.stem
)
def test_results_are_near_the_exported_network(path: Path) -> None:
    """Dequantized outputs correlate with onnxruntime's; float16 is within 0.01 of them."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(MACHINES / "machine.onnx"))
    emulator = Emulator(path)
    pixels = np.random.default_rng(1).integers(0, 256, (1, 16, 32, 3)).astype(np.uint8)
    emulator.set_input(0, pixels)
    emulator.run()
    image = (pixels / 255).astype(np.float32).transpose(0, 3, 1, 2)
    expected = session.run([output.name for output in emulator.outputs], {"images": image})
    for output, theirs in zip(emulator.outputs, expected):
        ours = emulator.read_float(output)
        cosine = (ours * theirs).sum() / np.linalg.norm(ours) / np.linalg.norm(theirs)
        assert cosine > 0.998
        if output.dtype == np.float16:
            assert np.abs(ours - theirs).max() < 0.01


def test_pixels_are_converted_as_the_runtime_writes_it() -> None:
    """uint8 on RK3588: ``rne(u8 * scale >> shift) + offset`` with 15 bits of 1 / (255 * scale)."""
    pixels = np.arange(16 * 32 * 3, dtype=np.uint32).reshape(1, 16, 32, 3).astype(np.uint8)
    ours, theirs = (Emulator(MACHINES / "machine_rk3588.rknn") for _ in range(2))
    tensor = ours.inputs[0]
    factor = 1 / (255 * tensor.scale)
    shift = 14 if factor >= 1 else 15
    scale = int(np.rint(factor * 2**shift))
    values = np.clip(rne(pixels.astype(int) * scale, shift) + tensor.zero_point, -128, 127)
    ours.set_input(0, pixels)
    theirs.set_input(0, np.ascontiguousarray(values.astype(np.int8).transpose(0, 3, 1, 2)))
    ours.run()
    theirs.run()
    for a, b in zip(ours.outputs, theirs.outputs):
        np.testing.assert_array_equal(ours.read(a), theirs.read(b))


def test_variants_give_the_same_bits() -> None:
    """Plain C has the results of this CPU's best, bit by bit.

    Also of weights around the limits of the shorter ways: 668, and a sum of 2^18 for a kernel,
    which 64 channels of 3 x 3 pass between offsets of 440 and 500.
    """
    code = "import sys; sys.path[:0] = sys.argv[1:]; import test_emulator; "
    code += "print(test_emulator.fingerprint())"
    environment = {**os.environ, "RKR_EMU_VARIANT": "plain"}
    command = [sys.executable, "-c", code, str(TESTS), str(TESTS / "sim")]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert run.stdout.split()[-1] == fingerprint()


def fingerprint() -> str:
    digest = hashlib.sha256()
    machines = [path for path in sorted(MACHINES.glob("*.rknn")) if "fp16" not in path.stem]
    offsets = (-100, -440, -500, -540, -541)
    for model in (*machines, NETS / "shapes_yolov8_rk3588.rknn", *map(with_offsets, offsets)):
        for output in results(model):
            digest.update(output.tobytes())
    return digest.hexdigest()


def with_offsets(offset: int) -> bytes:
    """Give all strides of a network 1, and the weights of one convolution an offset."""
    model = replace_register(SHAPES.read_bytes(), 0x1014, 0b001001)
    emulator = Emulator(model)
    (bias,) = (t.index for t in emulator.tensors if t.name == "net.features.to32.0.0.bias")
    block = native_bytes(emulator, bias)
    groups = np.frombuffer(block, np.int16).reshape(8, 32).copy()  # biases, offsets, factors
    groups[:, :16], groups[:, 16:24], groups[:, 24:] = 0, offset, 40
    assert model.count(block) == 1
    return model.replace(block, groups.tobytes())


# ---- verdicts


def test_nodes_tell_what_they_are() -> None:
    """Executed nodes are exact, the ends of the graph nothing, and tensors have their names."""
    emulator = Emulator(MACHINES / "machine_rk3588.rknn")
    verdicts = {node.op: node.verdict for node in emulator.nodes}
    assert verdicts["ConvRelu"] == Verdict.EXACT
    assert verdicts["InputOperator"] == verdicts["OutputOperator"] == Verdict.NOTHING
    assert emulator.is_runnable
    assert [tensor.name for tensor in emulator.outputs] == ["features", "scores", "upper"]
    assert emulator.inputs[0].is_image
    assert emulator.multiplications > 100_000


def test_kinds_of_tasks_say_what_the_commands_do() -> None:
    """A kind that left out a property would prove tasks that no network has had."""
    kinds = {kind for _, kind in Emulator(SHAPES).kinds()}
    assert {kind for kind in kinds if "convolution" in kind} == {
        "0x1d convolution int8 BS+c* to int8",
        "0x1d convolution int8 BS+c*c to int8",
        "0x1d convolution int8 BS+c*c BN+1^1 LUT to int8",
        "0x1d convolution int8 BS+c*c BN+^L to int8",
        "0x1d convolution int8 BS+c*c BN+^L EW+map of int8 to int8",
        "0x1d convolution of pixels int8 BS+c*c BN+^L to int8",
    }
    assert {kind for kind in kinds if "convolution" not in kind} == {
        "0x18 int8 to int8",
        "0x18 int8 repeated to int8",
        "0x18 int8 BS+1* to int8",
        "0x18 int8 BS+1*1 EW+map of int8 to int8",
        "0x60 max int8",
    }
    words: Counter[str] = Counter()
    for path in (*EVERY, *(DATA / "layers").glob("*.rknn")):
        words.update(word for _, kind in Emulator(path).kinds() for word in set(kind.split()))
    rare = ("depthwise", "transposed", "dilated", "folded", "pairs", "eights", "tails", "notch")
    assert [words[each] for each in rare] == [46, 3, 1, 2, 10, 1, 3, 10]


def test_softmax_is_computed_in_float_and_says_so() -> None:
    """Its tasks are unknown: the reason names the register, and the result sums to 1."""
    emulator = Emulator(MODELS / "fc1000_softmax_rv1106.rknn")
    node = next(node for node in emulator.nodes if node.op == "exSoftmax13")
    assert node.verdict == Verdict.FLOAT
    assert node.tasks == 0
    assert "400c" in node.reason
    fill(emulator)
    emulator.run()
    assert emulator.read(emulator.outputs[0]).astype(float).sum() == pytest.approx(1, abs=0.02)


def test_float16_is_executed_but_not_called_exact() -> None:
    """The order of float sums is not known."""
    emulator = Emulator(MACHINES / "machine_fp16_rk3588.rknn")
    convolutions = [node for node in emulator.nodes if node.op.startswith("Conv")]
    assert {node.verdict for node in convolutions} == {Verdict.FLOAT}
    assert all(node.tasks and "float16" in node.reason for node in convolutions)


def test_int16_of_rv1106_is_refused() -> None:
    """An unknown precision: the reason has register and value, and run fails."""
    emulator = Emulator(MODELS / "i16_ic1_w37_rv1106.rknn")
    assert not emulator.is_runnable
    refused = [node for node in emulator.nodes if node.verdict == Verdict.REFUSED]
    assert "3010 = 0x00000101" in refused[0].reason
    fill_int16 = np.zeros(emulator.inputs[0].shape, np.int16)
    emulator.set_input(0, fill_int16)
    with pytest.raises(EmulatorError, match=r"node 1, ConvRelu .*3010"):
        emulator.run()


@pytest.mark.parametrize(
    ("model", "number", "value"),
    [
        ("ic5_rk3588", 0x100C, 0x40000005),  # a mode
        ("ic5_rk3588", 0x4010, 7),  # a precision
        ("ic5_rk3588", 0x4060, 0x800),  # a bit
        ("ic5_rk3588", 0x1100, 1),  # weights that are compressed, and are not
        ("single_rv1106", 0x301C, 0x43),  # truncation: two numbers that differ, ...
        ("single_rk3562", 0x3024, 0x03),
        ("single_rv1106", 0x301C, 0x400),  # ... and a bit beyond them
        ("single_rv1106", 0x4054, 0x8000FF81),  # offsets whose signs are not repeated
        ("single_rv1106", 0x4054, 0x80010081),
        ("single_rk3566", 0x4054, 0x0000FF81),
        ("single_rk3566", 0x4054, 0xFFFF0081),
        ("single_rv1103b", 0x1078, 0x8100),  # an offset that is not repeated
        ("single_rv1103b", 0x1078, 0x0081),
    ],
)
def test_unknown_bits_are_refused_with_register_and_value(
    model: str, number: int, value: int
) -> None:
    """Every node whose commands have them is refused and names them; nothing is executed."""
    (path,) = (path for path in EVERY if path.stem == model)
    emulator = Emulator(replace_register(path.read_bytes(), number, value))
    reasons = [n.reason for n in emulator.nodes if n.verdict == Verdict.REFUSED]
    assert reasons
    assert all(f"{number:04x} = 0x{value:08x}" in reason for reason in reasons)


def test_a_file_without_its_weights_loads_and_does_not_run() -> None:
    """As ``remove_weight=True`` leaves it, for the weights of another: none are made up."""
    data = bytearray((MODELS / "ic3_w37_rk3588.rknn").read_bytes())
    flat = Flat(memoryview(data)[64:])
    root = flat.follow(0)
    (graph,), blobs = flat.tables(root, 2), flat.tables(root, 20)
    for tensor in flat.tables(graph, 0):
        if flat.scalar(tensor, 2, "B") in (4, 5, 8):  # weights and the like
            length = flat.follow(flat.slot(blobs[flat.scalar(tensor, 18)], 0))
            struct.pack_into("<I", data, 64 + length, 0)
    emulator = Emulator(bytes(data))
    assert not emulator.is_runnable
    fill(emulator)
    with pytest.raises(EmulatorError, match=r"node 1, ConvRelu .*: the file has no weights"):
        emulator.run()


def test_a_task_outside_of_memory_is_refused() -> None:
    """An input address beyond everything: the node is refused when the model is opened."""
    model = (MODELS / "ic5_rv1106.rknn").read_bytes()
    emulator = Emulator(replace_register(model, 0x1070, 0x7FFFFFF0))
    assert any("outside of memory" in node.reason for node in emulator.nodes)
    assert not emulator.is_runnable


def test_constants_are_never_written() -> None:
    """Results at address 0 would change commands and weights."""
    model = (MODELS / "ic5_rv1106.rknn").read_bytes()
    emulator = Emulator(replace_register(model, 0x4020, 0))
    assert any("outside of the tensors' memory" in node.reason for node in emulator.nodes)


# ---- use


def test_a_run_uses_up_its_inputs() -> None:
    """Inner tensors take their memory: the C function refuses another run without new ones."""
    emulator = Emulator(SHAPES)
    fill(emulator)
    emulator.run()
    for name in ("run", "run_node"):
        with pytest.raises(EmulatorError, match="input 0 has no values for this run"):
            emulator._check_status(emulator._function(name)(emulator._handle, 0))


def test_inner_tensors_are_read_after_their_node() -> None:
    """Running the first nodes only leaves their results in place, as numbers too."""
    emulator = Emulator(MACHINES / "machine_rk3588.rknn")
    fill(emulator)
    node = next(node for node in emulator.nodes if node.op == "MaxPool")
    before = emulator.tensors[node.inputs[0]]
    emulator.run(node.index + 1)
    source, pooled = emulator.read(before), emulator.read(node.outputs[0])
    padded = np.pad(source[0], ((0, 0), (1, 1), (1, 1)), constant_values=-128)
    windows = sliding_windows(padded, (3, 3), 1)
    np.testing.assert_array_equal(pooled[0], windows.max((3, 4)))
    real = (source.astype(np.float64) - before.zero_point) * before.scale
    np.testing.assert_allclose(emulator.read_float(before), real, rtol=1e-6)


def test_graphs_of_a_dynamic_model() -> None:
    """Each shape has its graph; the largest is the first."""
    path = MODELS / "dyn_in_rk3588.rknn"
    largest, other = Emulator(path), Emulator(path, graph=1)
    assert largest.graphs == 2
    assert largest.inputs[0].shape == (1, 3, 48, 40)
    assert other.inputs[0].shape == (1, 3, 32, 32)
    fill(other)
    other.run()
    assert other.read(other.outputs[0]).shape == (1, 24, 32, 32)
    with pytest.raises(EmulatorError, match="graph: expected 0 to 1, got 2"):
        Emulator(path, graph=2)


def test_all_shapes_of_a_dynamic_model_have_the_same_weights() -> None:
    """The file has them once: far from the edges, a smaller image gives the bits of the larger."""
    path = MODELS / "dyn_in_rk3588.rknn"
    pixels = np.random.default_rng(0).integers(0, 256, (1, 48, 40, 3), np.uint8)
    found = []
    for graph, image in enumerate((pixels, pixels[:, :32, :32])):
        emulator = Emulator(path, graph=graph)
        emulator.set_input(0, np.ascontiguousarray(image))
        emulator.run()
        found.append(emulator.read(emulator.outputs[0])[:, :, 4:28, 4:28])
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0].std() > 1


def test_wrong_inputs_are_refused() -> None:
    """Another shape or dtype, no values at all, or pixels for an input that is no image."""
    emulator = Emulator(MODELS / "ic5_rk3588.rknn")
    with pytest.raises(EmulatorError, match="input 0 has no values"):
        emulator.run()
    with pytest.raises(ValueError, match="values: expected"):
        emulator.set_input(0, np.zeros((1, 5, 32, 31), np.int8))
    with pytest.raises(ValueError, match="values: expected"):
        emulator.set_input(0, np.zeros((1, 32, 32, 5), np.uint8))


def test_nothing_is_allocated_for_a_tensor_that_cannot_be_read(monkeypatch) -> None:
    """A file may say any shape: its values would be gigabytes."""
    emulator = Emulator(MODELS / "ic5_rk3588.rknn")
    weights = next(tensor for tensor in emulator.tensors if len(tensor.native_shape) == 6)
    monkeypatch.setattr(np, "empty", None)
    for read in (emulator.read, emulator.read_float):
        with pytest.raises(EmulatorError, match="cannot be read"):
            read(weights)


@pytest.mark.parametrize("size", [0, 63, 200, 5000])
def test_cut_files_are_refused(size: int) -> None:
    """A file that ends too early is refused as unreadable."""
    for name in ("ic5_rk3588", "ic5_rv1106"):
        with pytest.raises(EmulatorError, match="not a readable model"):
            Emulator((MODELS / f"{name}.rknn").read_bytes()[:size])


def test_other_socs_and_containers_are_refused() -> None:
    """A SoC that is not known, and the containers of old toolkits."""
    model = (MODELS / "ic5_rk3588.rknn").read_bytes()
    with pytest.raises(EmulatorError, match="'rk3999' is not understood"):
        Emulator(model.replace(b"rk3588", b"rk3999"))
    with pytest.raises(EmulatorError, match="container version 3"):
        Emulator(model[:8] + b"\3" + model[9:])
    with pytest.raises(EmulatorError, match="encrypted"):
        Emulator(b"CYPTRKNN" + model[8:])


def test_only_the_simulated_runtime_has_an_emulator(tmp_path: Path) -> None:
    """Another library of the vendor's API is refused."""
    with pytest.raises(UnavailableError, match="it has no emulator"):
        Emulator(b"", library=open_library(stub.build(tmp_path)))


def test_weights_are_read_where_they_lie() -> None:
    """Constants of convolutions are the file's bytes, before and after a run."""
    emulator = Emulator(SHAPES)
    used = {i for node in emulator.nodes if node.op.startswith("Conv") for i in node.inputs}
    before = [native_bytes(emulator, i) for i in sorted(used)]
    file = SHAPES.read_bytes()
    weights = [data for data in before if len(data) >= 4096 and data in file]
    assert len(weights) > 10
    fill(emulator)
    emulator.run()
    after = [native_bytes(emulator, i) for i in sorted(used)]
    assert all(data in after for data in weights)


def native_bytes(emulator: Emulator, index: int) -> bytes:
    size = emulator.tensors[index].native_bytes
    data = ffi.new("uint8_t[]", size)
    read = emulator._function("read")
    status = read(emulator._handle, index, lib.RKR_EMU_READ_NATIVE, data, size)
    assert status == lib.RKR_OK
    return bytes(data)
