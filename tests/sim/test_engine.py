"""A ``.rknn`` file on the simulated runtime: its commands are executed, as the binding wants."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paths import DATA, PROJECT
from reference.npu import Machine, rne
from sim_api import Api, bytes_of
from threads import in_threads

from rknn_runtime import GeneralModel, Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask, Layout, TensorType
from rknn_runtime.errors import InvalidModelError, OperationFailedError
from rknn_runtime.sim import Control
from rknn_runtime.sim.emulator import Emulator

MODELS = DATA / "models"
#: 37 pixels wide: rows of its memory have 48.
WIDE = MODELS / "ic3_w37_rk3588.rknn"
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
MEAN, STD = (10.0, 20.0, 30.0), (100.0, 120.0, 140.0)


def normalised() -> bytes:
    """`WIDE` with another mean and std per channel where the runtimes look for them."""
    data = bytearray(WIDE.read_bytes())
    std = data.find(struct.pack("<I4f", 4, 255, 255, 255, 255))
    mean = data.find(struct.pack("<I4f", 4, 0, 0, 0, 0), std - 64)
    assert 0 < abs(mean - std) < 64
    for at, values in ((mean, MEAN), (std, STD)):
        data[at + 4 : at + 16] = struct.pack("<3f", *values)
    return bytes(data)


def expected(model: bytes, values: np.ndarray, fill: Any) -> np.ndarray:
    """The oracle's result for int8 values (H, W, C) with rows filled up like this."""
    machine = Machine(model)
    tensor = machine.tensors[machine.inputs[0]]
    machine.write(machine.inputs[0], values.transpose(2, 0, 1)[None])
    rows = machine.memory[tensor.address :][: 21 * 48 * 3].reshape(21, 48, 3)
    rows[:, 37:] = np.asarray(fill, np.int8)
    machine.run()
    return machine.read(machine.outputs[0])


def output(api: Api) -> np.ndarray:
    """The first output, int8, in the framework's order."""
    outputs = ffi.new("rknn_output[]", [{"want_float": 0, "index": 0}])
    assert api.outputs_get(outputs) == 0, api.control.last_message
    data = np.frombuffer(ffi.buffer(outputs[0].buf, outputs[0].size), np.int8).copy()
    assert api.outputs_release(outputs) == 0
    return data.reshape(tuple(api.good_attr("out", "logical").dims[0:4]))


def give(api: Api, data: np.ndarray, *, passes: bool, copies: bool) -> Any:
    """Bind or set the input, an image; return the memory."""
    dtype = {"uint8": TensorType.UINT8, "int8": TensorType.INT8, "float32": TensorType.FLOAT32}
    kind = dtype[data.dtype.name]
    if passes or not copies:
        rows = np.zeros((21, 48, 3), data.dtype)
        rows[:, 37:] = 99  # what is there is not what the NPU gets
        rows[:, :37] = data
        data = rows
    if copies:
        buffer = ffi.from_buffer(data)
        given = {"index": 0, "buf": buffer, "size": data.nbytes, "pass_through": passes}
        assert api.inputs_set([{**given, "type": kind, "fmt": Layout.NHWC}]) == 0
        return buffer
    mem = api.bind("in", type=kind, fmt=Layout.NHWC, pass_through=passes)
    bytes_of(mem)[: data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)
    return mem


def convert(values: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """uint8 pixels as the commands say that the runtime writes: 15 bits and a shift."""
    out = np.empty(values.shape, np.int8)
    for c in range(3):
        factor = 1 / (np.float64(np.float32(STD[c])) * scale)
        shift = 15 - int(np.frexp(factor)[1])
        whole = int(np.rint(factor * 2**shift))
        offset = int(np.rint(zero_point - MEAN[c] * factor))
        pixels = values[..., c].astype(int)
        out[..., c] = np.clip(rne(pixels * whole, shift) + offset, -128, 127)
    return out


@pytest.mark.parametrize("copies", [False, True], ids=["set_io_mem", "inputs_set"])
@pytest.mark.parametrize("kind", ["uint8", "float32", "int8", "int8 passed"])
def test_a_binding_decides_what_stands_behind_the_rows(kind: str, copies: bool) -> None:
    """RK3588, 37 pixels wide: values and the columns up to 48 as librknnrt 2.3.2 leaves them."""
    model, random = normalised(), np.random.default_rng(21)
    with Api(model) as api:
        attr = api.good_attr("in", "native")
        scale, zero_point = attr.scale, attr.zp
        pixels = random.integers(0, 256, (21, 37, 3)).astype(np.uint8)
        if kind == "uint8":
            values = convert(pixels, scale, zero_point)
            fill = convert(np.rint(MEAN).astype(np.uint8), scale, zero_point)
        elif kind == "float32":
            pixels = pixels.astype(np.float32) + np.float32(0.3)
            step = np.array(STD) * scale
            offset = np.rint(zero_point - np.array(MEAN) / step)
            fraction, exponent = np.frexp(1 / step)
            factor = np.ldexp(np.rint(fraction * 2**15), exponent - 15)
            sums = (pixels * factor + offset).astype(np.float32)
            values = np.clip(np.rint(sums), -128, 127).astype(np.int8)
            fill = zero_point
        else:
            pixels = values = pixels.view(np.int8)
            fill = np.rint(MEAN) if kind == "int8 passed" and not copies else 0
        held = give(api, pixels, passes=kind == "int8 passed", copies=copies)
        assert api.run() == 0, api.control.last_message
        np.testing.assert_array_equal(output(api), expected(model, values, fill))
        if not copies:
            assert api.destroy_mem(held) == 0


def test_the_fill_matters_at_the_right_border_alone() -> None:
    """Int8 values with and without pass_through: other results in the last column only."""
    values = np.random.default_rng(22).integers(-128, 128, (21, 37, 3)).astype(np.int8)
    a, b = (expected(normalised(), values, fill) for fill in (0, MEAN))
    assert (a[..., :-3] == b[..., :-3]).all()
    assert (a[..., -1] != b[..., -1]).any()


@pytest.mark.parametrize("mask", list(CoreMask)[:7], ids=lambda mask: mask.name)
def test_every_core_mask_gives_the_same_bits(mask: CoreMask) -> None:
    """The task list of one core is executed; other masks give equal results."""
    values = np.random.default_rng(23).integers(-128, 128, (21, 37, 3)).astype(np.int8)
    with Api(WIDE.read_bytes()) as api:
        assert lib.rkr_set_core_mask(api.handle, api.context, mask) == 0
        give(api, values, passes=False, copies=True)
        assert api.run() == 0
        np.testing.assert_array_equal(output(api), expected(WIDE.read_bytes(), values, 0))


def test_a_model_built_for_a_batch_runs_once_per_image() -> None:
    """Each image has the result that it has alone."""
    path = MODELS / "batch2_build_rk3588.rknn"
    emulator = Emulator(path)
    with GeneralModel(path, library="sim") as model:
        frames = np.random.default_rng(24).integers(0, 256, model.inputs[0].shape, np.uint8)
        (results,) = model.run(frames, float_outputs=False)
    assert len(frames) == 2
    for frame, result in zip(frames, results):
        emulator.set_input(0, frame[None])
        emulator.run()
        np.testing.assert_array_equal(emulator.read(emulator.outputs[0])[0], result)


def test_a_dynamic_model_runs_the_chosen_graph() -> None:
    """The shapes one after the other, and back: each as its graph alone."""
    path = MODELS / "dyn_in_rk3588.rknn"
    with Api(path.read_bytes()) as api:
        for graph, (height, width) in ((0, (48, 40)), (1, (32, 32)), (0, (48, 40))):
            shape = ffi.new("rknn_tensor_attr *", {"index": 0, "n_dims": 4, "fmt": Layout.NHWC})
            shape.dims[0:4] = [1, height, width, 3]
            assert lib.rkr_set_input_shapes(api.handle, api.context, 1, shape) == 0
            pixels = np.random.default_rng(graph).integers(0, 256, (height, width, 3), np.uint8)
            buffer = ffi.from_buffer(pixels)
            given = {"index": 0, "buf": buffer, "size": pixels.nbytes, "fmt": Layout.NHWC}
            assert api.inputs_set([{**given, "type": TensorType.UINT8}]) == 0
            assert api.run() == 0, api.control.last_message
            emulator = Emulator(path, graph=graph)
            emulator.set_input(0, pixels[None])
            emulator.run()
            outputs = ffi.new("rknn_output[]", [{"want_float": 0}])
            assert api.outputs_get(outputs) == 0
            found = np.frombuffer(ffi.buffer(outputs[0].buf, outputs[0].size), np.int8)
            np.testing.assert_array_equal(found, emulator.read(emulator.outputs[0]).ravel())
            assert api.outputs_release(outputs) == 0


def test_duplicates_share_a_machine_and_not_their_values() -> None:
    """Two contexts of one model in two threads each get the outputs for their inputs."""
    model = WIDE.read_bytes()
    with Api(model) as api:
        other = ffi.new("rknn_context *")
        own = ffi.new("rknn_context *", api.context)
        assert lib.rkr_dup_context(api.handle, own, other) == 0
        twin = object.__new__(Api)
        twin.__dict__.update(vars(api), context=int(other[0]))

        def work(context: Api, seed: int) -> None:
            values = np.random.default_rng(seed).integers(-128, 128, (21, 37, 3)).astype(np.int8)
            right = expected(model, values, 0)
            for _ in range(20):
                give(context, values, passes=False, copies=True)
                assert context.run() == 0
                assert (output(context) == right).all()

        in_threads(work, [(api, 1), (twin, 2)])
        assert twin.destroy() == 0
    assert Control().live == (0, 0, 0)


# ---- which engine


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model alone in a folder, without onnxruntime."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    return Path(shutil.copy(SHAPES, tmp_path / "alone.rknn"))


def test_a_rknn_file_needs_nothing_beside_it(alone: Path) -> None:
    """By path and as bytes, its outputs equal the emulator's, bit by bit."""
    pixels = np.random.default_rng(25).integers(0, 256, (1, 320, 320, 3)).astype(np.uint8)
    emulator = Emulator(alone)
    emulator.set_input(0, pixels)
    emulator.run()
    for source in (alone, alone.read_bytes()):
        with Model(source, library="sim") as model:
            model.run(pixels)
            for index, tensor in enumerate(emulator.outputs):
                np.testing.assert_array_equal(model.output_f32(index), emulator.read_float(tensor))


def test_a_program_of_its_own_loads_the_file_by_its_path() -> None:
    """``rknn_init`` with size 0, as C programs call it: no Python decides anything."""
    with Api(WIDE.read_bytes()) as api:
        context = ffi.new("rknn_context *")
        path = ffi.new("char[]", str(WIDE).encode())
        assert lib.rkr_init(api.handle, context, path, 0, 0, ffi.NULL) == 0
        assert lib.rkr_destroy(api.handle, context[0]) == 0


def test_what_is_not_understood_answers_and_does_not_run() -> None:
    """int16: every query is answered, a run fails with node, register and value."""
    with Model(MODELS / "i16_ic1_w37_rv1106.rknn", library="sim") as model:
        assert model.inputs[0].native.dtype is TensorType.INT16
        with pytest.raises(OperationFailedError, match=r"node 1, ConvRelu .*3010 = 0x00000101"):
            model.run(np.zeros(model.inputs[0].shape, np.uint8))


@pytest.mark.parametrize(
    ("data", "what"),
    [(b"RKCE", "needs a key"), (b"RKNX", "RKNN3"), (b"CYPTRKNN", "encrypted"), (b"x", "no model")],
)
def test_bytes_of_another_kind_are_named(data: bytes, what: str) -> None:
    """The error names the kind, as for a file."""
    with pytest.raises(InvalidModelError, match=what):
        Model(data + bytes(100), library="sim")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (b"rk3588", b"rk3999"),
            "the model is for rk3999, .* the emulated NPU does not run such models",
        ),
        ((b"RKNN\0\0\0\0\6", b"RKNN\0\0\0\0\3"), "container version 3 of an old toolkit"),
    ],
)
def test_a_file_that_is_not_understood_is_refused(
    change: tuple[bytes, bytes], words: str, tmp_path: Path
) -> None:
    """By the library itself, which says why."""
    path = tmp_path / "m.rknn"
    path.write_bytes(WIDE.read_bytes().replace(*change))
    with pytest.raises(InvalidModelError, match=words):
        Model(path, library="sim")
    assert Control().live == (0, 0, 0)


@pytest.mark.parametrize("size", [0, 8, 63, 64, 500, 20_000])
def test_a_cut_file_is_refused(size: int) -> None:
    """Wherever it ends, with the runtime's code for a bad model."""
    cut = WIDE.read_bytes()[:size] or b"RKNN"
    api = Api(cut)
    assert api.status == lib.RKNN_ERR_MODEL_INVALID
    assert "does not run this model: truncated: " in api.control.last_message
