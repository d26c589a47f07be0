"""Wrong commands of rknn-toolkit2 2.3.2 are found in files, and said where people look.

The files are small networks of the generator, converted with 2.3.2, whose results differ from
onnxruntime ("faulty") or not ("sound": the same networks as the advice changes them, or on SoCs
without the fault). The files of "doubted" differ, too, but no change is known to help.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from paths import DATA

from rknn_runtime.cli.main import main
from rknn_runtime.sim.emulator import Emulator, Verdict
from rknn_runtime.sim.faults import toolkit_faults
from rknn_runtime.tools.doctor import doctor

with zipfile.ZipFile(DATA / "toolkit_faults.zip") as archive:
    FILES = {name: archive.read(name) for name in archive.namelist()}
#: What each sentence says.
SAID = {
    "bn": "height * width is a multiple of 4",
    "cat": "height * width is a multiple of 4",
    "maxpool2": "only the first image",
    "avgpool2": "only the first image",
    "near": "ignores nearest_mode",
    "prelu3": "rank 4",
    "ceil": "in the padding alone",
    "clipn": "Max and Min",
    "clipp": "Max and Min",
    "average": "of an int16 average",
    "elu": "alpha * exp(x) - 1",
    "operand": "the shift of a convolution's sums",
    "shared": "has weights that another layer packs otherwise: 'c1'",
    "norm": "reads memory of none of the tensors of 't5_BatchNormalizationRelu'",
    "sums": "reads sums that no task wrote there, of 't3'",
}


@pytest.mark.parametrize("name", FILES)
def test_faults_are_told_from_sound_layers(name: str) -> None:
    """Each fault is one sentence with the layer and the remedy, and its node is never exact."""
    found = toolkit_faults(FILES[name])
    folder, _, file = name.partition("/")
    nodes = Emulator(FILES[name]).nodes
    said = SAID.get(file.partition("_")[0], "")
    if folder != "faulty":
        assert found == ()
        doubts = [node.reason for node in nodes if node.verdict is Verdict.DECODED]
        assert folder == "sound" or (doubts and all(said in doubt for doubt in doubts))
        return
    (sentence,) = found
    assert said in sentence
    (faulty,) = (node for node in nodes if node.is_faulty)
    assert sentence.startswith(f"{faulty.op} {faulty.name}: ")
    assert faulty.verdict not in (Verdict.EXACT, Verdict.FLOAT)


def test_info_and_doctor_warn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both commands print the sentence; doctor still calls the machine healthy."""
    path = tmp_path / "pool.rknn"
    path.write_bytes(FILES["faulty/maxpool2_rk3576.rknn"])
    assert main(["info", str(path)]) == 0
    assert "it pools only the first image of the batch" in capsys.readouterr().out
    found = doctor(path, library="sim")
    assert [each.rule for each in found.observations if each.rule] == ["toolkit-fault"]
    assert found.healthy


@pytest.mark.parametrize(("pads", "count"), [([1, 1, 1, 1], 1), ([0, 0, 0, 0], 0)])
def test_padded_average_of_everything_is_noted_before_converting(
    tmp_path: Path, pads: list[int], count: int
) -> None:
    """The network shows the padding; its file lacks it."""
    helper = pytest.importorskip("onnx.helper")
    from rknn_runtime.conversion.plan import plan_of

    kind = 1
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[7, 7], pads=pads)
    size = 9 - 7 + 1 if count else 1
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", kind, [1, 8, 7, 7])],
        [helper.make_tensor_value_info("y", kind, [1, 8, size, size])],
    )  # fmt: skip
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    notes = plan_of(path, {}, True, "auto", None, "RGB").notes
    assert sum("forgets the padding" in note for note in notes) == count


def test_faults_are_what_the_emulator_computes() -> None:
    """The second image of a batch keeps the zeros of the memory."""
    machine = Emulator(FILES["faulty/maxpool2_rk3576.rknn"])
    machine.set_input(0, np.full(machine.inputs[0].shape, 50, np.int8))
    machine.run()
    first, second = machine.read(machine.outputs[0])
    assert (first == 50).all()
    assert (second == 0).all()


def test_info_and_doctor_know_images_that_are_no_pixels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """RV1103B stores images of two channels otherwise: `Model` takes float32 for them."""
    path = DATA / "layers" / "two_channels_rv1103b.rknn"
    assert main(["info", str(path)]) == 0
    assert "x0: give float32" in capsys.readouterr().out
    assert doctor(path, library="sim").healthy
