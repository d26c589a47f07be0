"""What an emulated model shows that no board does: verdicts, inner tensors, a comparison."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stub
from bundles import recorded
from paths import DATA, PROJECT

from rknn_runtime import GeneralModel, Model
from rknn_runtime.errors import (
    ClosedError,
    InvalidModelError,
    OperationFailedError,
    RknnError,
    UnavailableError,
)
from rknn_runtime.sim.emulator import Emulator, Verdict

MODELS, MACHINES = DATA / "models", DATA / "emulator"
MACHINE = MACHINES / "machine_rk3588.rknn"
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
FRAME = np.random.default_rng(31).integers(0, 256, (1, 16, 32, 3)).astype(np.uint8)


# ---- verdicts


def test_a_model_tells_what_is_known_of_its_nodes() -> None:
    """The model has the emulator's verdicts, and the summary counts them."""
    with Model(MODELS / "fc1000_softmax_rv1106.rknn", library="sim") as model:
        assert model.emulation is not None
        assert model.emulation.nodes == Emulator(MODELS / "fc1000_softmax_rv1106.rknn").nodes
        assert str(model.emulation) == "emulated rv1106: 5 exact, 2 float, 0 refused"
        assert model.emulation.is_runnable
        reasons = [n.reason for n in model.emulation.nodes if n.verdict is Verdict.FLOAT]
        assert all(reasons)


def test_loading_writes_the_verdicts_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log has a summary, then each inexact node with its reason."""
    with caplog.at_level("INFO", "rknn_runtime"):
        Model(MODELS / "fc1000_softmax_rv1106.rknn", library="sim").close()
    summary, *nodes = (each.message for each in caplog.records)
    assert summary == "emulated rv1106: 5 exact, 2 float, 0 refused"
    assert len(nodes) == 2
    assert all(each.startswith("float: ") and each[-1] != " " for each in nodes)


def test_a_model_that_does_not_run_tells_why_before_it_is_run() -> None:
    """The reason has the register and its unknown value."""
    with Model(MODELS / "i16_ic1_w37_rv1106.rknn", library="sim") as model:
        assert model.emulation is not None
        assert not model.emulation.is_runnable
        assert model.emulation.count(Verdict.REFUSED) == 2
        assert "0x" in next(n.reason for n in model.emulation.nodes if n.reason)


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_repr_says_what_computes(kind: Any) -> None:
    """The emulator, records; nothing is said of an NPU."""
    with kind(MACHINE, library="sim") as model:
        assert repr(model).endswith(", computed by emulator>")
    with kind(recorded().data, library="sim") as model:
        assert repr(model).endswith(", computed by records>")
        assert model.emulation is None


# ---- tensors


def test_every_tensor_is_what_it_is_after_its_node() -> None:
    """By name and in order, equal to the emulator's when it is stopped behind the node."""
    emulator = Emulator(MACHINE)
    emulator.set_input(0, FRAME)
    with Model(MACHINE, library="sim") as model:
        model.run(FRAME)
        before = model.output_f32(0)
        raw, real = model.tensors(dequantize=False), model.tensors()
        np.testing.assert_array_equal(model.output_f32(0), before)
        assert list(raw) == list(real)
        assert {attr.name for attr in model.outputs} <= set(real)
    for node in emulator.nodes:
        for index in node.outputs if node.verdict is not Verdict.NOTHING else ():
            tensor = emulator.tensors[index]
            emulator.run(node.index + 1)
            np.testing.assert_array_equal(raw[tensor.name], emulator.read(tensor))
            np.testing.assert_array_equal(real[tensor.name], emulator.read_float(tensor))
            assert real[tensor.name].dtype == np.float32


def test_tensors_are_those_of_the_last_run() -> None:
    """Memory that was written since then is ignored."""
    with Model(MACHINE, library="sim") as model:
        model.run(FRAME)
        first = model.tensors()
        model.input_view()[...] = 0
        assert all((model.tensors()[name] == first[name]).all() for name in first)
        model.run()
        assert any((model.tensors()[name] != first[name]).any() for name in first)


def test_duplicates_have_tensors_of_their_own() -> None:
    """They share an emulator: each shows its run, in any order."""
    with Model(MACHINE, library="sim") as model, model.duplicate() as twin:
        model.run(FRAME)
        expected = model.tensors()
        twin.run(FRAME[:, ::-1].copy())
        others = twin.tensors()
        found = model.tensors()
        assert all((found[name] == expected[name]).all() for name in expected)
        assert any((others[name] != expected[name]).any() for name in expected)


def test_tensors_without_a_run_are_refused() -> None:
    """Nothing is made up."""
    with Model(MACHINE, library="sim") as model, pytest.raises(RknnError, match="has no values"):
        model.tensors()


def test_a_node_that_is_not_understood_ends_the_walk() -> None:
    """With node, register and value."""
    with Model(MODELS / "i16_ic1_w37_rv1106.rknn", library="sim") as model:
        with pytest.raises(OperationFailedError):
            model.run(np.zeros(model.inputs[0].shape, np.uint8))
        with pytest.raises(RknnError, match=r"node 1, ConvRelu .*3010"):
            model.tensors()


@pytest.mark.parametrize("ask", ["tensors", "compare"])
def test_what_is_not_emulated_has_no_inner_tensors(ask: str, tmp_path: Path) -> None:
    """Neither a board, nor a bundle, nor a model that is closed."""
    arguments = () if ask == "tensors" else (MACHINES / "machine.onnx", FRAME)
    with Model(recorded().data, library="sim") as model:
        frame = np.zeros(model.inputs[0].shape, np.uint8)
        with pytest.raises(UnavailableError, match="not emulated, but computed by records"):
            getattr(model, ask)(*arguments[:1], *[frame] * len(arguments[1:]))
    with Model(MODELS / "ic5_rv1106.rknn", library=stub.build(tmp_path), check=False) as model:
        assert model.emulation is None
        with pytest.raises(UnavailableError, match="an NPU shows no inner tensors"):
            getattr(model, ask)(*arguments)
    with pytest.raises(ClosedError):
        getattr(closed(), ask)(*arguments)


def closed() -> Model:
    with Model(MACHINE, library="sim") as model:
        pass
    return model


# ---- comparison


def test_a_comparison_walks_the_graph() -> None:
    """Near 1 for a healthy network, in the order of the nodes, with the worst channels."""
    pytest.importorskip("onnxruntime")
    with Model(MACHINE, library="sim") as model:
        found = model.compare(MACHINES / "machine.onnx", FRAME)
        names = list(model.tensors())
    assert [tensor.name for tensor in found.tensors] == [
        name for name in names if name not in found.missing
    ]
    assert {"features", "scores", "upper"} <= {tensor.name for tensor in found.tensors}
    assert all(tensor.cosine > 0.995 for tensor in found.tensors)
    assert all(tensor.error < 20 * tensor.step for tensor in found.tensors if tensor.step)
    worst = found.worst(1)[0]
    assert worst.cosine == min(tensor.cosine for tensor in found.tensors)
    channels = [cosine for _, cosine in worst.worst_channels]
    assert channels == sorted(channels)
    assert str(found).splitlines()[0].split() == ["cosine", "error", "step", "clipped", "tensor"]
    assert len(str(found).splitlines()) == len(found.tensors) + 1 + bool(found.missing)


def test_a_comparison_shows_what_is_clipped() -> None:
    """Another std makes the input larger than the ranges were calibrated for."""
    pytest.importorskip("onnxruntime")
    data = bytearray(MACHINE.read_bytes())
    std = data.find(struct.pack("<I4f", 4, 255, 255, 255, 255))
    assert std > 0
    data[std + 4 : std + 16] = struct.pack("<3f", 50, 50, 50)
    with Model(bytes(data), library="sim") as model:
        found = model.compare((MACHINES / "machine.onnx").read_bytes(), FRAME)
    assert max(tensor.saturated for tensor in found.tensors) > 0.1
    assert min(tensor.cosine for tensor in found.tensors) < 0.99


def test_float32_is_compared_as_it_is_given() -> None:
    """An input of many channels, normalised with the mean and std of the file."""
    pytest.importorskip("onnxruntime")
    frame = np.random.default_rng(32).uniform(0, 255, (1, 32, 32, 5)).astype(np.float32)
    for kind in (Model, GeneralModel):
        with kind(MODELS / "ic5_rk3588.rknn", library="sim") as model:
            found = model.compare(MODELS / "ic5.onnx", frame)
            assert found.tensors
            assert all(tensor.cosine > 0.999 for tensor in found.tensors)


def test_another_file_is_not_compared(tmp_path: Path) -> None:
    """Other files, a cut one, another model's and a missing one are refused."""
    pytest.importorskip("onnxruntime")
    whole = (MACHINES / "machine.onnx").read_bytes()
    with Model(MACHINE, library="sim") as model:
        with pytest.raises(InvalidModelError, match="onnx"):
            model.compare(b"\xff" * 40, FRAME)
        for end in (1, 100, len(whole) // 2, len(whole) - 1):
            with pytest.raises(InvalidModelError, match=r"(?i)onnx"):
                model.compare(whole[:end], FRAME)
        with pytest.raises(FileNotFoundError):
            model.compare(tmp_path / "none.onnx", FRAME)
        with pytest.raises(TypeError, match="expected 1 input"):
            model.compare(whole)
        with pytest.raises(ValueError, match="expected shape"):
            model.compare(whole, FRAME[:, :8])
    with Model(MODELS / "rank1_in_vec_rk3588.rknn", library="sim") as model:
        vector = np.zeros(model.inputs[0].shape, np.float32)
        with pytest.raises(InvalidModelError, match="onnx: expected the inputs vec, got images"):
            model.compare(whole, vector)
