"""Model: inputs arrive at the NPU, its outputs come back, nothing else happens."""

from __future__ import annotations

import numpy as np
import pytest
import stub
from bundles import PROFILES, image, output, real, recorded, some_image, values
from paths import DATA

from rknn_runtime import GeneralModel, Model
from rknn_runtime.enums import CoreMask, InitFlag, Layout, TensorType
from rknn_runtime.errors import (
    AllocationError,
    ClosedError,
    InvalidModelError,
    InvalidParameterError,
    OperationFailedError,
    RknnError,
    UnavailableError,
)
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.modelfile.reader import read
from rknn_runtime.npu.inputs import normalisation
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input
from rknn_runtime.sim.bundle import Bundle, RawRecord

MODELS = DATA / "models"

pytestmark = pytest.mark.usefixtures("control")


def same(result, expected):
    assert result.dtype == np.float32
    assert result.flags.c_contiguous
    assert result.flags.writeable
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


# Outputs


@pytest.mark.parametrize("soc", PROFILES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 5, 4, 6),  # padding channels
        (1, 33, 7, 7),  # padded plane, reported as one row
        (1, 16, 1, 1),  # a single position
        (1, 84, 2100, 1),  # W of 1
        (1, 64, 20, 20),  # no padding at all
        (1, 10),
        (10,),
        (1, 33, 210),
        (1, 3, 5, 4, 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["INT8", "INT16", "FLOAT16"])
def test_outputs_come_back_in_logical_order(soc, shape, dtype):
    """float32 results equal the recorded values for every rank, padding, dtype and SoC."""
    case = recorded(soc, outputs=[output("y", shape, soc, dtype=TensorType[dtype])])
    with Model(case.data, library="sim") as model:
        (result,) = model(some_image(model.inputs[0]))
        same(result, case.expected[0])


@pytest.mark.parametrize("shape", [(1, 1, 4, 6), (1, 30)], ids=str)
@pytest.mark.parametrize("dtype", ["INT32", "INT64", "FLOAT32", "BOOL", "UINT8"])
def test_outputs_of_other_types_are_converted(shape, dtype):
    """Values that are not quantized become the nearest float32."""
    case = recorded(outputs=[output("y", shape, dtype=TensorType[dtype], zero_point=0, scale=1.0)])
    with Model(case.data, library="sim") as model:
        (result,) = model(some_image(model.inputs[0]))
        same(result, case.arrays[0].astype(np.float32))


def test_several_inputs_and_outputs_keep_their_order():
    """Each input reaches its tensor and each output comes from its own."""
    inputs = [
        image(name="a"),
        describe_input("b", (1, 8), index=1, zero_point=3, scale=0.5),
        describe_input("c", (1, 6, 5, 5), index=2, zero_point=0, scale=0.25),
    ]
    outputs = [output("x", (1, 4), index=0), output("y", (1, 20, 6, 6), index=1, scale=2.0)]
    frame = some_image(inputs[0])
    vector = np.arange(-4, 4, dtype=np.float32)[None]
    features = (np.arange(150, dtype=np.float32).reshape(1, 5, 5, 6) - 75) / 4
    case = recorded(inputs=inputs, outputs=outputs, input_arrays=[frame, vector, features])
    with Model(case.data, library="sim") as model:
        assert [attr.name for attr in model.inputs] == ["a", "b", "c"]
        assert [attr.name for attr in model.outputs] == ["x", "y"]
        for result, expected in zip(model(frame, vector, features), case.expected):
            same(result, expected)
        with pytest.raises(OperationFailedError):
            model(frame, -vector, features)


@pytest.mark.parametrize("soc", PROFILES)
def test_output_raw_is_a_view_in_native_layout(soc):
    """The raw array has the native attribute's shape and dtype and shows each new run."""
    case = recorded(soc, outputs=[output("y", (1, 33, 7, 7), soc)])
    with Model(case.data, library="sim") as model:
        native = model.outputs[0].native
        raw = model.output_raw(0)
        raw[...] = 0
        model.run(some_image(model.inputs[0]))
        assert (raw.shape, raw.dtype) == (native.shape, native.dtype.numpy)
        assert native.layout is Layout.NC1HWC2
        n, c1, rows, columns, c2 = raw.shape
        flat = raw.reshape(n, c1, rows * columns, c2).transpose(0, 1, 3, 2)
        flat = flat.reshape(n, c1 * c2, rows * columns)[:, :33, :49]
        np.testing.assert_array_equal(flat.reshape(1, 33, 7, 7), case.arrays[0])
        del raw, flat


def test_output_f32_writes_to_out():
    """``out`` is filled and returned; nothing is allocated for the caller."""
    case = recorded()
    with Model(case.data, library="sim") as model:
        model.run(some_image(model.inputs[0]))
        out = np.full(model.outputs[0].shape, np.nan, np.float32)
        assert model.output_f32(0, out) is out
        np.testing.assert_array_equal(out, case.expected[0])
        out[...] = np.nan
        (result,) = model(some_image(model.inputs[0]), out=[out])
        assert result is out
        np.testing.assert_array_equal(out, case.expected[0])


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.empty((1, 5, 4, 6), np.float64), TypeError),
        (np.empty((1, 5, 4, 7), np.float32), ValueError),
        (np.empty((1, 5, 6, 4), np.float32).transpose(0, 1, 3, 2), ValueError),
        ([0.0] * 120, TypeError),
    ],
)
@pytest.mark.parametrize("dtype", ["INT8", "INT32"])
def test_a_wrong_out_is_refused(out, error, dtype):
    """Another dtype, shape or order is an error that names the expected one."""
    case = recorded(outputs=[output("y", (1, 5, 4, 6), dtype=TensorType[dtype])])
    with Model(case.data, library="sim") as model:
        model.run(some_image(model.inputs[0]))
        with pytest.raises(error, match=r"^out"):
            model.output_f32(0, out)


# Image inputs


@pytest.mark.parametrize("soc", PROFILES)
@pytest.mark.parametrize("shape", [(1, 3, 6, 37), (1, 1, 5, 4), (1, 4, 3, 17), (1, 3, 8, 32)])
def test_pixels_arrive_in_padded_rows(soc, shape):
    """An image reaches the NPU pixel for pixel where rows are padded to w_stride, too."""
    attr = image(shape, soc)
    frame = some_image(attr)
    case = recorded(soc, inputs=[attr], input_arrays=[frame])
    with Model(case.data, library="sim") as model:
        attr = model.inputs[0]
        view = model.input_view(0)
        assert view.strides[1] == max(attr.w_stride, shape[3]) * shape[1]
        del view
        same(model(frame)[0], case.expected[0])
        same(model(frame[0])[0], case.expected[0])
        other = frame.copy()
        other[0, -1, -1, -1] ^= 1
        with pytest.raises(OperationFailedError):
            model.run(other)


def test_a_frame_of_any_strides_is_taken():
    """A reversed channel order or a crop is copied by its strides."""
    attr = image((1, 3, 8, 20))
    frame = some_image(attr)
    case = recorded(inputs=[attr], input_arrays=[frame])
    with Model(case.data, library="sim") as model:
        bgr = np.ascontiguousarray(frame[..., ::-1])
        same(model(bgr[..., ::-1])[0], case.expected[0])
        large = np.zeros((30, 50, 3), np.uint8)
        large[5:13, 7:27] = frame[0]
        same(model(large[5:13, 7:27])[0], case.expected[0])


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_a_batch_is_one_array(kind):
    """N > 1: the frames of a batch come in one array; a single frame is refused."""
    attr = image((2, 3, 8, 20))
    frames = some_image(attr)
    case = recorded(inputs=[attr], outputs=[output("y", (2, 5, 4, 6))], input_arrays=[frames])
    with kind(case.data, library="sim") as model:
        (result,) = model(frames) if kind is Model else model.run(frames)
        np.testing.assert_allclose(result, case.expected[0], rtol=0 if kind is Model else 1e-6)
        with pytest.raises(ValueError, match=r"expected shape \(2, 8, 20, 3\)"):
            model.run(frames[0])


class Tensor:
    """Something like a torch tensor."""

    dtype = np.dtype("uint8")
    shape = (1, 8, 20, 3)

    def __array__(self, *_):
        return np.zeros(self.shape, self.dtype)


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (np.zeros((1, 8, 20, 3), np.float32), TypeError, "pixels of dtype uint8, got float32"),
        (np.zeros((1, 8, 20, 3), np.int8), TypeError, "pixels of dtype uint8, got int8"),
        (np.zeros((1, 3, 8, 20), np.uint8), ValueError, r"\(1, 8, 20, 3\) \(NHWC\), got \(1, 3"),
        (np.zeros((1, 20, 8, 3), np.uint8), ValueError, "expected shape"),
        (np.zeros((8, 20), np.uint8), ValueError, "expected shape"),
        (np.zeros((1, 1, 8, 20, 3), np.uint8), ValueError, "expected shape"),
        (np.zeros(480, np.uint8), ValueError, "expected shape"),
        (np.zeros((1, 8, 20, 4), np.uint8), ValueError, "expected shape"),
        (np.zeros(0, np.uint8), ValueError, "expected shape"),
        (bytes(480), TypeError, "expected a numpy.ndarray, got bytes"),
        ([[0]], TypeError, "expected a numpy.ndarray, got list"),
        (None, TypeError, "expected a numpy.ndarray, got NoneType"),
        (Tensor(), TypeError, "expected a numpy.ndarray, got Tensor"),
    ],
)
def test_a_wrong_frame_is_refused(control, frame, error, message):
    """Another size, dtype or type never runs, and the message names the input."""
    with Model(recorded().data, library="sim") as model:
        before = control.calls("rknn_run")
        with pytest.raises(error, match=message) as caught:
            model.run(frame)
        assert str(caught.value).startswith("input 0 'image'")
        assert control.calls("rknn_run") == before


@pytest.mark.parametrize("count", [2, 5])
def test_a_wrong_number_of_inputs_is_refused(count):
    """The message names the inputs."""
    with Model(recorded().data, library="sim") as model:
        frames = [some_image(model.inputs[0])] * count
        with pytest.raises(TypeError, match=rf"expected 1 input \(input 0 'image'\), got {count}"):
            model.run(*frames)


# Other inputs


@pytest.mark.parametrize(
    ("soc", "dtype"),
    [
        (soc, dtype)
        for soc in PROFILES
        for dtype in ("INT8", "INT16", "FLOAT16")
        if (soc, dtype) != ("rv1106", "FLOAT16")  # which it does not have
    ],
)
@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (1, 16, 4, 4), (1, 17, 3, 5), (1, 12, 1, 40)])
def test_many_channels_are_quantized_and_packed(soc, shape, dtype):
    """float32 NHWC of 5 and more channels reaches the NPU in its own type and layout."""
    kind = TensorType[dtype]
    zero_point, scale = (None, None) if dtype == "FLOAT16" else (5, 0.25)
    attr = describe_input("x", shape, soc=soc, dtype=kind, zero_point=zero_point, scale=scale)
    rng = np.random.default_rng(1)
    features = (rng.integers(-20, 20, attr.shape) / 4).astype(np.float32)
    case = recorded(soc, inputs=[attr], input_arrays=[features])
    own = features.astype(np.float16) if dtype == "FLOAT16" else (features * 4 + 5)
    own = own.astype(kind.numpy)
    with Model(case.data, library="sim") as model:
        same(model(features)[0], case.expected[0])
        same(model(own)[0], case.expected[0])
        same(model(np.asfortranarray(features))[0], case.expected[0])
        features[0, 0, 0, 4] += 1
        with pytest.raises(OperationFailedError):
            model.run(features)


@pytest.mark.parametrize("soc", PROFILES)
@pytest.mark.parametrize("shape", [(1, 784), (8,), (1, 3, 40)])
def test_vectors_are_quantized(soc, shape):
    """float32 of other ranks is quantized: rounded half to even, and clamped."""
    attr = describe_input("v", shape, soc=soc, zero_point=-4, scale=0.5)
    vector = np.zeros(shape, np.float32)
    vector.flat[:4] = [0.25, 0.75, 1e9, -1e9]
    stored = np.full(shape, -4, np.int8)
    stored.flat[:4] = [-4, -2, 127, -128]
    case = recorded(soc, inputs=[attr], input_arrays=[stored])
    with Model(case.data, library="sim") as model:
        same(model(vector)[0], case.expected[0])
        same(model(stored)[0], case.expected[0])
        assert (model.input_view() == stored).all()
        assert model.input_view().dtype == np.int8


@pytest.mark.parametrize("shape", [(1, 6, 5, 5), (1, 8)])
def test_a_wrong_tensor_is_refused(shape):
    """Dtypes, shapes and values that an input cannot hold."""
    attr = describe_input("v", shape, zero_point=3, scale=0.5)
    with Model(recorded(inputs=[attr]).data, library="sim") as model:
        good = np.zeros(attr.shape, np.float32)
        with pytest.raises(
            TypeError, match="input 0 'v': expected dtype float32 or int8, got float64"
        ):
            model.run(good.astype(np.float64))
        with pytest.raises(TypeError, match="got uint8"):
            model.run(good.astype(np.uint8))
        with pytest.raises(ValueError, match="expected shape"):
            model.run(good[..., :-1])
        with pytest.raises(TypeError, match=r"expected a numpy\.ndarray"):
            model.run(good.tolist())
        good.flat[3] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            model.run(good)


def test_integers_that_are_not_quantized_take_their_own_dtype_only():
    """An index input of int64 refuses floats."""
    attr = describe_input("ids", (1, 8), dtype=TensorType.INT64, zero_point=None, scale=None)
    ids = np.arange(8, dtype=np.int64)[None] << 40
    case = recorded(inputs=[attr], input_arrays=[ids])
    with Model(case.data, library="sim") as model:
        same(model(ids)[0], case.expected[0])
        with pytest.raises(TypeError, match="expected dtype int64, got float32"):
            model.run(ids.astype(np.float32))


def test_the_mini_runtime_takes_no_float16():
    """Librknnmrt 2.3.2 refuses to pass it through; the simulated one does, too."""
    attr = describe_input(
        "x", (1, 8), soc="rv1106", dtype=TensorType.FLOAT16, zero_point=None, scale=None
    )
    case = recorded("rv1106", inputs=[attr], input_arrays=[np.zeros((1, 8), np.float16)])
    with pytest.raises(
        InvalidParameterError, match="begin the network with a layer that runs in int8"
    ):
        Model(case.data, library="sim")


# Attributes and queries


@pytest.mark.parametrize("soc", PROFILES)
def test_attributes_are_what_the_runtime_answers(soc):
    """Logical, native and NHWC attributes come through the C API field by field."""
    case = recorded(soc, outputs=[output("y", (1, 33, 7, 7), soc), output("z", (1, 9), soc, 1)])
    with Model(case.data, library="sim") as model:
        assert model.inputs == tuple(case.inputs)
        assert model.outputs == tuple(case.outputs)
        assert model.outputs[0].native.native is None


def test_versions_memory_and_text_are_asked_for():
    """SDK version, memory size and custom string are returned; the simulated NPU names itself."""
    case = recorded(custom_string="grüße, 世界")
    with Model(case.data, library="sim") as model:
        assert model.custom_string == "grüße, 世界"
        api, driver = model.sdk_version
        assert "simulated" in api
        assert "simulated" in driver
        assert model.memory_size.weight_bytes >= 0
        assert model.library.is_simulated
        assert repr(model) == "<Model image (1, 8, 20, 3) -> map (1, 5, 4, 6), computed by records>"
        assert "<td>input 0</td><td>image</td><td>NHWC</td>" in model._repr_html_()
        assert "<td>output 0</td><td>map</td>" in model._repr_html_()
    assert repr(model) == "<Model closed>"


@pytest.mark.parametrize("index", [1, -1, 2**70])
@pytest.mark.parametrize(
    "method", ["input_view", "output_raw", "output_f32", "input_memory", "output_memory"]
)
def test_an_index_outside_is_refused(method, index):
    """Like a list, but negative numbers do not count from the end."""
    with Model(recorded().data, library="sim") as model:
        with pytest.raises(IndexError, match=f"put: expected a position from 0 to 0, got {index}"):
            getattr(model, method)(index)
        with pytest.raises(TypeError, match="put: expected a position or a name, got None"):
            getattr(model, method)(None)
        with pytest.raises(ValueError, match=r"put: expected '(image|map)', got 'other'"):
            getattr(model, method)("other")


# Loading


def test_core_masks_go_to_the_runtime(control):
    """Set on loading and later; a mask that the NPU does not have is refused."""
    case = recorded("rk3588")
    with Model(case.data, library="sim", core_mask=CoreMask.CORE_0_1_2) as model:
        assert control.calls("rknn_set_core_mask") == 1
        model.set_core_mask(CoreMask.CORE_1)
        with pytest.raises(ValueError, match=r"3 cores of rk3588, got.*64"):
            model.set_core_mask(64)
    with pytest.raises(UnavailableError, match="rk3566 has one core"):
        Model(recorded("rk3566").data, library="sim", core_mask=CoreMask.CORE_2)


@pytest.fixture
def real_library(tmp_path):
    """A library that is not simulated."""
    folder = tmp_path / "library"
    folder.mkdir()
    return stub.build(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "got 0 bytes"),
        (b"RKNN" + bytes(4) + b"\x06" + bytes(7) + b"\xff\xff" + bytes(80), "truncated"),
        (b"hello, this is text", "not an RKNN model"),
    ],
)
def test_what_is_no_model_is_named_before_a_real_runtime_sees_it(
    real_library, tmp_path, content, message
):
    """Empty, truncated, foreign: an `InvalidModelError` names the kind and the file."""
    path = tmp_path / "model.rknn"
    path.write_bytes(content)
    with pytest.raises(InvalidModelError, match=message) as caught:
        Model(path, library=real_library)
    assert str(path) in str(caught.value)
    with pytest.raises(InvalidModelError, match=message):
        Model(content, library=real_library)


@pytest.mark.parametrize("library", ["sim", "real"])
def test_a_path_that_is_no_file_is_an_error(real_library, tmp_path, library):
    """A missing file is FileNotFoundError, a directory is named so."""
    chosen = "sim" if library == "sim" else real_library
    with pytest.raises(FileNotFoundError):
        Model(tmp_path / "none.rknn", library=chosen)
    with pytest.raises((InvalidModelError, IsADirectoryError), match="directory"):
        Model(tmp_path, library=chosen)


# Runtimes that differ


def stub_counts(model):
    from rknn_runtime._ffi import ffi

    return [
        ffi.cast("int(*)(void)", model.library.symbol(name))()
        for name in ("stub_contexts", "stub_memories")
    ]


def test_an_old_runtime_with_372_byte_attributes_works(tmp_path):
    """A runtime without h_stride refuses 376 bytes; then 372 is asked for."""
    library = stub.build(tmp_path, "ATTR_BYTES=372")
    with Model(b"anything", library=library, check=False) as model:
        assert model.inputs[0].shape == (1, 4, 4, 3)
        assert model.inputs[0].h_stride == 0
        assert model.inputs[0].nhwc is None
        model.run(np.zeros((4, 4, 3), np.uint8))
        assert model.output_f32().tolist() == [[1.0] * 8]
        assert stub_counts(model) == [1, 2]
    assert stub_counts(model) == [0, 0]


def test_a_dynamic_model_runs_in_its_biggest_shape(control):
    """It is chosen before anything is bound: librknnrt ends the process otherwise."""
    info = read(MODELS / "dyn_in_rk3588.rknn")
    rng = np.random.default_rng(0)
    answer = rng.integers(-128, 128, info.outputs[0].shape).astype(np.int8)
    bundle = Bundle(
        soc="rk3588",
        variants=info.variants,
        preprocessing=info.preprocessing,
        records=(RawRecord((answer,)),),
    )
    for cls in (Model, GeneralModel):
        control.reset()
        with cls(bytes(bundle), library="sim") as model:
            assert model.inputs[0].shape == max(info.dynamic_shapes["images"])
            model.run(some_image(model.inputs[0]))
            assert control.calls("rknn_set_input_shapes") == 1
            native = model.outputs[0].native
            assert (native.layout, native.shape) == (Layout.NCHW, answer.shape)
            if cls is Model:
                assert (model.output_raw() == answer).all()
                same(model.output_f32(), real(answer, info.outputs[0]))
    assert control.violations == 0
    control.fail("rknn_set_input_shapes", 1, -3)
    with pytest.raises(OSError, match=r"rknn_set_input_shapes\(the biggest\) failed"):
        Model(bytes(bundle), library="sim")


def test_a_dynamic_model_needs_a_runtime_that_chooses_shapes(real_library):
    """The file says that it is dynamic, so the runtime is not asked."""
    with pytest.raises(UnavailableError, match="rknn_set_input_shapes"):
        Model(MODELS / "dyn_in_rk3588.rknn", library=real_library)


def test_a_buffer_is_as_large_as_the_file_says(real_library):
    """Librknnmrt before 2.2.0 says less of some outputs, and checks nothing."""
    path = MODELS / "rank1_in_vec_rv1106.rknn"
    with Model(path, library=real_library, check=False) as model:
        assert model.outputs[0].native.size_with_stride == 8
        assert model.output_memory().size_bytes == 64
        model.run(np.zeros((4, 4, 3), np.uint8))
        assert model.output_raw().tolist() == [[1] * 8]


def test_an_input_that_has_but_the_native_layout_is_taken_in_it(tmp_path):
    """Librknnmrt 1.6.0 describes inputs of many channels as NC1HWC2 in every view."""
    patch = "attr.n_dims=5;attr.dims[1]=1;attr.dims[2]=2;attr.dims[3]=6;attr.dims[4]=4;attr.fmt=2"
    library = stub.build(tmp_path, f"PATCH={patch}", "PATCH_COMMAND=cmd && input && cmd")
    with Model(b"anything", library=library, check=False) as model:
        assert model.inputs[0].layout is Layout.NC1HWC2
        packed = np.arange(48, dtype=np.uint8).reshape(1, 1, 2, 6, 4)
        model.run(packed)
        assert model.output_raw().tolist() == [list(range(1, 9))]
        with pytest.raises(ValueError, match=r"expected shape \(1, 1, 2, 6, 4\) \(NC1HWC2\)"):
            model.run(packed[0])


@pytest.mark.parametrize("wrong", [{0: None}, {None}, 5, iter([None])])
def test_out_is_a_sequence(wrong):
    """A dict, a set and an iterator are none."""
    kinds = (Model, GeneralModel)
    for kind in kinds:
        with kind(recorded().data, library="sim") as model:
            frame = np.zeros(model.inputs[0].shape, np.uint8)
            run = model if kind is Model else model.run
            with pytest.raises(TypeError, match=r"^out: expected a list of 1 arrays, got "):
                run(frame, out=wrong)


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_float32_of_many_channels_is_normalised_as_the_runtime_does(soc):
    """The conversion's mean and std are applied; int8 counts as normalised."""
    path = DATA / "models" / f"ic5_{soc}.rknn"
    frame = np.random.default_rng(5).uniform(0, 255, (1, 32, 32, 5)).astype(np.float32)
    with Model(path, library="sim") as model:
        (result,) = model(frame)
        native = model.inputs[0].native
        real = frame / np.float32(255)
        own = np.clip(np.rint(real / np.float32(native.scale)) + native.zero_point, -128, 127)
        (same,) = model(own.astype(np.int8))
    np.testing.assert_array_equal(result, same)
    if soc == "rk3588":
        with GeneralModel(path, library="sim") as general:  # whose runtime fuses multiply and add
            np.testing.assert_allclose(general.run(frame)[0], result, rtol=1e-6, atol=1e-6)


def test_every_channel_has_its_own_mean_and_std():
    """As librknnrt normalises, here for librknnmrt, too, which has no call for it."""
    mean, std = (0.0, 10.0, 20.0, 30.0, 40.0), (1.0, 2.0, 3.0, 4.0, 5.0)
    attr = describe_input("x", (1, 5, 4, 6), dtype=TensorType.INT8, zero_point=3, scale=0.5)
    case = [output("y", (1, 5))]
    frame = np.random.default_rng(6).uniform(0, 60, (1, 4, 6, 5)).astype(np.float32)
    answers = [Record([values(case[0])], [frame])]
    given = [Preprocessing(mean, std, rgb2bgr=False)]
    bundle = bundle_from_arrays([attr], case, answers, preprocessing=given)
    with Model(bundle, library="sim") as model:
        model.run(frame)  # the record is of these numbers, and of no others
        stored = model.input_view()[0, 0, :, :, :5].astype(np.float32)
        expected = np.clip(np.rint((frame[0] - mean) / std / np.float32(0.5)) + 3, -128, 127)
        np.testing.assert_array_equal(stored, expected)
    with GeneralModel(bundle, library="sim") as model:
        model.run(frame)


def test_float32_is_refused_where_nobody_knows_the_mean_and_std(tmp_path):
    """Of an encrypted model, or one of an old toolkit; int8 is taken, and vectors are."""
    patch = (
        "attr.type = RKNN_TENSOR_INT8; attr.scale = 0.5f; attr.qnt_type = 2; "
        "attr.fmt = cmd == 8 ? 2 : 1; attr.n_dims = cmd == 8 ? 5 : 4; "
        "attr.dims[1] = cmd == 8 ? 1 : 2; attr.dims[2] = 2; "
        "attr.dims[3] = cmd == 8 ? 2 : 5; attr.dims[4] = 16; attr.n_elems = cmd == 8 ? 64 : 20; "
        "attr.size = attr.size_with_stride = attr.n_elems"
    )
    library = stub.build(tmp_path, f"PATCH={patch}", "PATCH_COMMAND=cmd && input && cmd")
    with Model(b"anything", library=library, check=False) as model:
        assert model.inputs[0].native.shape == (1, 1, 2, 2, 16)
        with pytest.raises(
            TypeError, match=r"expected dtype int8 \(normalised and quantized, as no file"
        ):
            model.run(np.zeros((1, 2, 2, 5), np.float32))
        model.run(np.zeros((1, 2, 2, 5), np.int8))


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        ((0.0, 1.0), (1.0,), r"mean or std \(0.0, 1.0\) for 5 channels"),
        ((0.0,), (0.0,), r"std \(0.0,\) has a 0"),
        ((float("inf"),), (1.0,), "mean or std"),
    ],
)
def test_a_mean_or_std_that_cannot_be_is_refused(mean, std, message):
    """A damaged file, when it is loaded."""
    attr = describe_input("x", (1, 5, 4, 6), dtype=TensorType.INT8, zero_point=3, scale=0.5)
    with pytest.raises(RknnError, match=message):
        normalisation("input 0 'x'", attr, Preprocessing(mean, std, rgb2bgr=False))


def test_functions_that_a_runtime_lacks_are_named_at_the_call(real_library):
    """Without set_core_mask, cache flags or mem_sync the model runs; asking for them raises."""
    with pytest.raises(UnavailableError, match="rknn_set_core_mask"):
        Model(b"x", library=real_library, check=False, core_mask=CoreMask.CORE_0)
    with pytest.raises(UnavailableError, match="rknn_mem_sync"):
        Model(b"x", library=real_library, check=False, flags=InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE)
    with Model(b"x", library=real_library, check=False) as model:
        with pytest.raises(UnavailableError, match=r"rknn_set_core_mask.*libstub\.so"):
            model.set_core_mask(CoreMask.CORE_0)
        model.input_memory().sync_to_device()
        assert stub_counts(model) == [1, 2]
    assert stub_counts(model) == [0, 0]


@pytest.mark.parametrize(
    ("define", "error", "message"),
    [
        ("MEMORY_LOSS=1", RknnError, r"rknn_create_mem\(48 bytes\) gave 47 bytes"),
        ("NO_MEMORY", AllocationError, "rknn_create_mem.*NULL"),
        ("PATCH=attr.n_dims = 17", RknnError, "17 dimensions"),
        ("PATCH=attr.fmt = 9", RknnError, "unknown terms.*9"),
        ("PATCH=attr.type = 99", RknnError, "unknown terms.*99"),
        ("PATCH=attr.dims[1] = 9", RknnError, "does not hold"),
        ("PATCH=attr.dims[0] = 0", RknnError, r"reports shape \(0, 8\)"),
        ("PATCH=attr.type = RKNN_TENSOR_INT4", RknnError, "INT4"),
    ],
)
def test_nonsense_from_a_runtime_is_refused_and_all_released(tmp_path, define, error, message):
    """Memory too small, shapes, types and layouts that cannot be: an error, nothing alive."""
    library = stub.build(tmp_path, define, "PATCH_COMMAND=RKNN_QUERY_NATIVE_OUTPUT_ATTR")
    with pytest.raises(error, match=message):
        Model(b"anything", library=library, check=False)
    from rknn_runtime.npu.library import open_library

    class Loaded:
        pass

    Loaded.library = open_library(library)
    assert stub_counts(Loaded) == [0, 0]


def test_absurd_sizes_of_int16_models_are_repaired(tmp_path):
    """Librknnrt 1.5.2 calls int16 INT4 with a negative size: the native attribute is right."""
    patch = (
        "attr.type = cmd == RKNN_QUERY_OUTPUT_ATTR ? RKNN_TENSOR_INT4 : RKNN_TENSOR_INT16;"
        "attr.size = attr.size_with_stride = cmd == RKNN_QUERY_OUTPUT_ATTR ? -8u : 16u"
    )
    library = stub.build(tmp_path, f"PATCH={patch}", "PATCH_COMMAND=cmd && !input && cmd")
    with Model(b"anything", library=library, check=False) as model:
        attr = model.outputs[0]
        assert (attr.dtype, attr.size, attr.size_with_stride) == (TensorType.INT16, 16, 16)
        assert model.output_memory().size_bytes == 16
        assert model.output_raw().dtype == np.int16


# Failures and the end


@pytest.mark.parametrize(
    ("nth", "name"), [(1, "input 0 'image', to device"), (2, "output 0 'map', from device")]
)
def test_a_failing_sync_is_named(control, nth, name):
    """Which memory could not be synced, and in which direction."""
    with Model(recorded("rv1106").data, library="sim") as model:
        control.fail("rknn_mem_sync", nth, -3)
        with pytest.raises(OSError, match=name):
            model.run(some_image(model.inputs[0]))


def test_a_closed_model_refuses_every_use():
    """`ClosedError`, not a crash; its description stays readable."""
    model = Model(recorded().data, library="sim")
    frame = some_image(model.inputs[0])
    memory = model.input_memory()
    model.close()
    model.close()
    for use in (
        lambda: model.run(frame),
        lambda: model.run(),
        lambda: model(frame),
        lambda: model.input_view(),
        lambda: model.output_raw(),
        lambda: model.output_f32(),
        lambda: model.sdk_version,
        lambda: model.memory_size,
        lambda: model.custom_string,
        lambda: model.set_core_mask(CoreMask.AUTO),
        memory.array,
        memory.sync_to_device,
    ):
        with pytest.raises(ClosedError, match="closed"):
            use()
    assert model.is_closed
    assert memory.is_closed
    assert model.outputs[0].name == "map"
