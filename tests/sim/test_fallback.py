"""Operators that are computed from their tensors, on files of the toolkit.

Each file of the archive is one small network, made with rknn-toolkit2 2.3.2, with stored inputs and
onnxruntime's outputs for the dequantized inputs, clipped to the output's range.
"""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from paths import DATA

from rknn_runtime import GeneralModel, Model
from rknn_runtime.modelfile import read, read_layers
from rknn_runtime.sim.emulator import Emulator, Verdict

ARCHIVE = zipfile.ZipFile(DATA / "fallback.zip")
FILES = sorted(name[:-5] for name in ARCHIVE.namelist() if name.endswith(".rknn"))
#: Largest error in steps of the output, or in thousandths of float16: several layers round each.
LIMITS = {
    "length_rk3588": 3, "root_mean_rv1103b": 2, "norm_map_rv1103b": 2, "selu_rk3566": 2,
    "lstm_int8_rk3576": 2,
}  # fmt: skip


def recorded(name: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the inputs and the expected outputs of a file."""
    arrays = np.load(io.BytesIO(ARCHIVE.read(f"{name}.npz")))
    return tuple(
        [arrays[key] for key in sorted(arrays.files) if key.startswith(kind)]
        for kind in ("input", "output")
    )


@pytest.mark.parametrize("name", FILES)
def test_equals_onnxruntime(name: str) -> None:
    """Formulas and attributes are read from the file, or the verdict names the assumption."""
    emulator = Emulator(ARCHIVE.read(f"{name}.rknn"))
    inputs, expected = recorded(name)
    for index, values in enumerate(inputs):
        emulator.set_input(index, values)
    emulator.run()
    assumed = [node.reason for node in emulator.nodes if node.verdict == Verdict.ASSUMED]
    assert all("largest" in reason for reason in assumed)
    assert len(assumed) == ("assumed" in name)  # mini containers lack TopK's attributes
    for output, want in zip(emulator.outputs, expected):
        found = emulator.read_float(output).reshape(want.shape)
        step = output.scale or np.abs(want).max() / 1000
        assert np.abs(found - want).max() <= LIMITS.get(name, 1.5) * step


@pytest.mark.parametrize("name", FILES)
def test_every_class_loads_and_describes_it(name: str) -> None:
    """Absent outputs, loops, inputs in the CPU's order and too little memory are no damage."""
    file = ARCHIVE.read(f"{name}.rknn")
    emulator = Emulator(file)
    assert len(read(file).outputs) == len(emulator.outputs)
    assert len(list(read_layers(file))) == len(emulator.nodes)
    with Model(file, library="sim") as model:
        assert model.emulation.is_runnable
    if "rv1" not in name:
        with GeneralModel(file, library="sim") as general:
            assert len(general.outputs) == len(emulator.outputs)


def test_a_mode_that_is_not_known_is_refused() -> None:
    """Windows have three modes; a fourth one is refused."""
    file = ARCHIVE.read("window_apart_rk3588.rknn")
    assert b"partition_num_first" in file
    nodes = Emulator(file.replace(b"partition_num_first", b"partition_num_fixed")).nodes
    (refused,) = (node for node in nodes if node.op == "exWindow")
    assert refused.verdict == Verdict.REFUSED


def test_memory_that_nothing_has_written_is_said() -> None:
    """Split moves 32 channels by one: a product with weights of 0, some of what lies behind."""
    nodes = Emulator(ARCHIVE.read("parts_rk3588.rknn")).nodes
    (split,) = (node for node in nodes if node.op == "Split")
    assert split.verdict == Verdict.DECODED
    assert "memory that nothing has written" in split.reason


def test_an_input_of_the_cpu_is_stored_in_its_order() -> None:
    """The runtime reports NHWC and keeps NCHW: `Model` reorders the values."""
    file = ARCHIVE.read("plain_input_rv1106.rknn")
    ((values,), (expected,)) = recorded("plain_input_rv1106")
    with Model(file, library="sim") as model:
        assert model.inputs[0].is_nhwc
        (found,) = model(np.ascontiguousarray(values.transpose(0, 2, 3, 1)))
    step = Emulator(file).outputs[0].scale
    np.testing.assert_allclose(found, expected, atol=step)
