"""Images that rknn_inputs_set of librknnrt 1.5.2, 1.6.0 and 2.3.2 misreads silently.

Measured on these, emulated: floats of a batch end the process or give other outputs at every call;
after uint8 the NPU goes on converting pixels, and reads the next inputs as pixels.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from paths import DATA
from sim_api import Api

from rknn_runtime import GeneralModel, InputSpec
from rknn_runtime._ffi import ffi
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile.compatibility import runtime_in
from rknn_runtime.npu import general
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

MODELS = DATA / "models"
BATCH = MODELS / "batch2_build_rk3588.rknn"
PADDED = MODELS / "ic3_w37_rk3588.rknn"
FEATURES = MODELS / "ic5_rk3588.rknn"
FLOATS = [InputSpec(dtype=TensorType.FLOAT32)]
TYPES = {"uint8": TensorType.UINT8, "int8": TensorType.INT8, "float32": TensorType.FLOAT32}


def is_newer(monkeypatch):
    monkeypatch.setattr(general, "misreads_images", lambda _: False)


@pytest.mark.parametrize(
    ("said", "misreads"),
    [
        ("librknnrt version: 1.5.2 (c6b7b351a@2023)", True),
        ("librknnrt version: 1.6.0 (9a7b5d24c@2023)", True),
        ("librknnrt version: 2.3.2 (429f97ae6b@2025)", True),
        ("librknnrt version: 2.3.3 (", False),
        ("librknnrt of tomorrow", False),
    ],
)
def test_only_runtimes_that_were_asked_are_held_to_it(tmp_path, said, misreads):
    """Newer ones may do better, and others are unknown."""
    path = tmp_path / "librknnrt.so"
    path.write_bytes(b"\x7fELF" + said.encode())
    library = SimpleNamespace(runtime=runtime_in(path), is_simulated=False, is_open=False)
    assert general.misreads_images(library) is misreads


def test_floats_of_a_batch():
    """They are refused before the runtime sees them, by `run` and as a spec; int8 is taken."""
    with GeneralModel(BATCH, library="sim") as general:
        shape = general.inputs[0].shape
        for dtype in (np.float32, np.float16):
            with pytest.raises(TypeError, match=r"expected uint8 or int8.*got float"):
                general.run(np.zeros(shape, dtype))
        general.run(np.zeros(shape, np.int8))
    with pytest.raises(ValueError, match=r"batch of images as floats wrongly .*: take Model"):
        GeneralModel(BATCH, library="sim", inputs=FLOATS)


def test_a_batch_for_a_model_in_float16(tmp_path):
    """Floats are taken: the memory of the vendor's Zipformer between two chunks is of this kind."""
    plain = {"dtype": TensorType.FLOAT16, "zero_point": None, "scale": None}
    inputs = [describe_input("cached", (2, 1, 8, 6), **plain)]
    outputs = [describe_output("out", (1, 2), **plain)]
    path = tmp_path / "memory.rknn"
    path.write_bytes(bundle_from_arrays(inputs, outputs, [Record([np.float16([[1, 2]])])]))
    with GeneralModel(path, library="sim") as model:
        assert model.inputs[0].takes_pixels
        assert model.run(np.ones((2, 8, 6, 1), np.float32))[0].tolist() == [[1, 2]]


@pytest.mark.parametrize("path", [BATCH, PADDED])
def test_a_newer_runtime_takes_floats(monkeypatch, path):
    """Of a batch, and after uint8; and of one image every runtime takes them first."""
    if path is BATCH:
        is_newer(monkeypatch)
    GeneralModel(path, library="sim", inputs=FLOATS).close()
    is_newer(monkeypatch)
    with GeneralModel(PADDED, library="sim") as model:
        shape = model.inputs[0].shape
        model.run(np.zeros(shape, np.uint8))
        model.run(np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_images_stay_pixels_once_they_were(dtype):
    """Of a model and of its duplicate, which begins where the first one was; uint8 goes on."""
    with GeneralModel(PADDED, library="sim") as model:
        shape = model.inputs[0].shape
        other, pixels = np.zeros(shape, dtype), np.zeros(shape, np.uint8)
        model.run(other)
        with model.duplicate() as before:
            expected = model.run(pixels)
            before.run(other)
        with model.duplicate() as after:
            for general in (model, after):
                with pytest.raises(TypeError, match="expected dtype uint8, as before, got"):
                    general.run(other)
                np.testing.assert_array_equal(general.run(pixels), expected)


def test_features_change_their_type():
    """The CPU converts inputs that are no images at each call, as measured."""
    with GeneralModel(FEATURES, library="sim") as model:
        values = np.random.default_rng(1).integers(0, 100, model.inputs[0].shape)
        expected = model.run(values.astype(np.uint8))
        np.testing.assert_array_equal(model.run(values.astype(np.float32)), expected)


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        (PADDED, "uint8 float32 uint8", "takes it for pixels"),
        (PADDED, "uint8 int8", "takes it for pixels"),
        (PADDED, "float32 int8 uint8 uint8", ""),
        (BATCH, "uint8 int8", "takes it for pixels"),
        (BATCH, "float32", "mixes up a batch"),
        (FEATURES, "uint8 float32 int8", ""),
    ],
)
def test_the_simulated_runtime_says_so_to_programs_in_c(path, given, said):
    """It counts a violation, once for each such call."""
    with Api(path.read_bytes()) as api:
        native = api.good_attr("in", "logical")
        before = api.control.violations
        for name in given.split():
            data = np.zeros(tuple(native.dims[0 : native.n_dims]), name)
            struct = {"buf": ffi.from_buffer(data), "size": data.nbytes, "type": TYPES[name]}
            assert api.inputs_set([{**struct, "fmt": native.fmt}]) == 0
        assert api.control.violations - before == (1 if said else 0)
        assert said in (api.control.last_violation if said else "")
