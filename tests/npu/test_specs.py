"""InputSpec and OutputSpec: arrays as people have them arrive, and nothing else is taken."""

from __future__ import annotations

import numpy as np
import pytest
import stub
from bundles import PROFILES, detecting, image, output, recorded, some_image

from rknn_runtime import (
    Detector,
    GeneralModel,
    InputSpec,
    Layout,
    Model,
    OutputSpec,
    TensorType,
)
from rknn_runtime.errors import OperationFailedError
from rknn_runtime.modelfile.info import Preprocessing
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input

pytestmark = pytest.mark.usefixtures("control")

FLOAT32, FLOAT16, UINT8, INT8 = (
    TensorType.FLOAT32, TensorType.FLOAT16, TensorType.UINT8, TensorType.INT8,
)  # fmt: skip
NCHW, NHWC, NC1HWC2 = Layout.NCHW, Layout.NHWC, Layout.NC1HWC2
#: A spec, and how a frame of uint8 (N, H, W, C) is said by it.
FORMS = [
    (None, lambda x: x),
    (InputSpec(), lambda x: x),
    (InputSpec(dtype=UINT8), lambda x: x),
    (InputSpec(layout=NHWC), lambda x: x),
    (InputSpec(layout=NCHW), lambda x: x.transpose(0, 3, 1, 2)),
    (InputSpec(dtype=FLOAT32), lambda x: x.astype(np.float32)),
    (InputSpec(dtype=FLOAT16), lambda x: x.astype(np.float16)),
    (
        InputSpec(dtype=FLOAT32, layout=NCHW),
        lambda x: np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.float32),
    ),
    (InputSpec(normalized=True), lambda x: x.astype(np.float32) / 256),
    (
        InputSpec(normalized=True, layout=NCHW, dtype=FLOAT16),
        lambda x: (x.astype(np.float32) / 256).astype(np.float16).transpose(0, 3, 1, 2),
    ),
    (InputSpec(pass_through=True), lambda x: (x.astype(np.int16) - 128).astype(np.int8)),
    (
        InputSpec(pass_through=True, dtype=INT8, layout=NCHW),
        lambda x: (x.astype(np.int16) - 128).astype(np.int8).transpose(0, 3, 1, 2),
    ),
]


# Inputs


@pytest.mark.parametrize("soc", PROFILES)
@pytest.mark.parametrize(
    "shape",
    [(1, 3, 6, 37), (1, 1, 40, 21), (1, 4, 3, 17), (1, 2, 5, 6), (2, 3, 8, 32)],
    ids=["padded rows", "spectrogram", "four channels", "two channels", "batch"],
)
def test_an_image_arrives_however_it_is_said(soc, shape):
    """Pixels, floats, own elements, NHWC or NCHW: the NPU gets the same, and only the same."""
    attr = image(shape, soc)
    case = recorded(soc, inputs=[attr], input_arrays=[some_image(attr)])
    for spec, say in FORMS:
        frame = some_image(attr)
        with Model(case.data, library="sim", inputs=[spec]) as model:
            np.testing.assert_array_equal(model(say(frame))[0], case.expected[0])
            if shape[0] == 1:
                np.testing.assert_array_equal(model(say(frame)[0])[0], case.expected[0])
            frame[0, 0, 0, 0] ^= 1
            with pytest.raises(OperationFailedError):
                model.run(say(frame))


@pytest.mark.parametrize("form", [f for f in FORMS if not (f[0] and f[0].normalized)])
@pytest.mark.parametrize("shape", [(1, 3, 6, 37), (1, 1, 40, 21)], ids=str)
def test_a_general_model_takes_the_same(form, shape):
    """A spec means the same in both flows."""
    attr = image(shape)
    frame = some_image(attr)
    case = recorded(inputs=[attr], input_arrays=[frame])
    spec, say = form
    with GeneralModel(case.data, library="sim", inputs={"image": spec or InputSpec()}) as model:
        array = np.ascontiguousarray(say(frame))
        np.testing.assert_array_equal(model.run(array)[0], case.expected[0])
        np.testing.assert_array_equal(model.run(array[0])[0], case.expected[0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("shape", [(1, 5, 6, 7), (1, 3, 6, 7), (1, 12)], ids=str)
def test_the_same_array_means_the_same_to_both_flows(dtype, shape):
    """Feature maps, images and vectors: the elements that reach the NPU are equal."""
    attr = describe_input("x", shape, zero_point=3, scale=0.25)
    array = np.random.default_rng(2).integers(0, 9, attr.shape).astype(dtype)
    given = Preprocessing((2.0,), (0.5,), rgb2bgr=False)
    seen = np.clip(np.rint((array.astype(np.float32) - 2) / 0.5 / 0.25) + 3, -128, 127)
    answer = np.zeros((1, 5, 4, 6), np.int8)
    data = bundle_from_arrays(
        [attr], [output("y", answer.shape)], [Record([answer], [seen.astype(np.int8)])],
        preprocessing=[given],
    ) if not attr.takes_pixels else recorded(inputs=[attr]).data  # fmt: skip
    spec = InputSpec(dtype=TensorType[dtype.upper()])
    with (
        Model(data, library="sim", inputs=[spec]) as zero_copy,
        GeneralModel(data, library="sim", inputs=[spec]) as general,
    ):
        zero_copy.run(array)
        general.run(array)


@pytest.mark.parametrize("soc", PROFILES)
def test_packed_elements_pass_in_their_own_layout(soc):
    """NC1HWC2 arrays of a feature map go through without packing."""
    attr = describe_input("x", (1, 17, 3, 5), soc=soc, zero_point=5, scale=0.25)
    values = np.random.default_rng(1).integers(-128, 128, attr.shape).astype(np.int8)
    case = recorded(soc, inputs=[attr], input_arrays=[values])
    with Model(case.data, library="sim") as model:
        model.run(values)
        packed = model.input_view().copy()
    spec = InputSpec(pass_through=True, layout=NC1HWC2)
    with Model(case.data, library="sim", inputs=[spec]) as model:
        np.testing.assert_array_equal(model(packed)[0], case.expected[0])
        with pytest.raises(ValueError, match=r"input 0 'x': expected shape .*NC1HWC2"):
            model.run(values)
    if soc == "rk3588":
        with GeneralModel(case.data, library="sim", inputs=[spec]) as model:
            np.testing.assert_array_equal(model.run(packed)[0], case.expected[0])


def test_float_images_without_known_mean_need_a_word(tmp_path):
    """Where no file says mean and std, float32 is taken normalised, or not at all."""
    library = stub.build(tmp_path)
    with pytest.raises(ValueError, match=r"InputSpec\(normalized=True\)"):
        Model(b"x", library=library, check=False, inputs=[InputSpec(dtype=FLOAT32)])


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"dtype": "float32"}, TypeError, "dtype: expected a TensorType or None, got 'float32'"),
        ({"layout": 0}, TypeError, "layout: expected a Layout or None, got 0"),
        ({"normalized": 1}, TypeError, "normalized: expected a bool, got 1"),
        ({"pass_through": None}, TypeError, "pass_through: expected a bool, got None"),
        ({"normalized": True, "pass_through": True}, ValueError, "expected at most one"),
        ({"normalized": True, "dtype": UINT8}, ValueError, "dtype: expected a float"),
        ({"dtype": INT8}, ValueError, "pass_through=True"),
        ({"layout": NC1HWC2}, ValueError, "layout: expected NHWC or NCHW, got NC1HWC2"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(fields, error, message):
    """When it is made, not when a frame comes."""
    with pytest.raises(error, match=message):
        InputSpec(**fields)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], ValueError, "inputs: expected 1 of InputSpec or None, got 0"),
        ([None, None], ValueError, "inputs: expected 1 of InputSpec"),
        ("image", TypeError, "inputs: expected a list or a dict of InputSpec, got str"),
        (3, TypeError, "inputs: expected a list or a dict"),
        ([OutputSpec()], TypeError, "inputs: expected InputSpec for 'image', got OutputSpec"),
        ({"map": InputSpec()}, ValueError, r"names or positions of \['image'\], got 'map'"),
        ({1: InputSpec()}, ValueError, "got 1"),
        ({-1: InputSpec()}, ValueError, "got -1"),
        ({True: InputSpec()}, ValueError, "got True"),
        ([InputSpec(pass_through=True, dtype=FLOAT32)], ValueError, "expected dtype INT8 with"),
        (
            [InputSpec(pass_through=True, layout=NC1HWC2)],
            ValueError,
            r"another layout, as .*NC1HWC2",
        ),
        ([InputSpec(layout=Layout.UNDEFINED)], ValueError, "layout"),
    ],
)
@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_specs_that_do_not_fit_are_refused(control, kind, inputs, error, message):
    """Before anything runs, and all is released."""
    with pytest.raises(error, match=message):
        kind(recorded().data, library="sim", inputs=inputs)
    assert control.live.contexts == 0


def test_a_general_model_normalises_itself():
    """Elements that are normalised already are refused with what to do."""
    with pytest.raises(ValueError, match=r"expected normalized=False.*pass_through"):
        GeneralModel(recorded().data, library="sim", inputs=[InputSpec(normalized=True)])


@pytest.mark.parametrize("spec", [InputSpec(dtype=FLOAT32), InputSpec(normalized=True)])
def test_what_a_spec_does_not_say_is_refused(spec):
    """Another dtype or shape, and a NaN."""
    with Model(recorded().data, library="sim", inputs=[spec]) as model:
        with pytest.raises(TypeError, match="expected dtype float32, got uint8"):
            model.run(np.zeros((1, 8, 20, 3), np.uint8))
        with pytest.raises(ValueError, match=r"expected shape \(1, 8, 20, 3\) \(NHWC\)"):
            model.run(np.zeros((1, 3, 8, 20), np.float32))
        with pytest.raises(ValueError, match="NaN"):
            model.run(np.full((1, 8, 20, 3), np.nan, np.float32))


def test_nchw_pixels_are_not_taken_for_nhwc():
    """Also where both have the same shape."""
    attr = image((1, 3, 3, 3))
    frame = some_image(attr)
    case = recorded(inputs=[attr], input_arrays=[frame])
    with Model(case.data, library="sim", inputs=[InputSpec(layout=NCHW)]) as model:
        np.testing.assert_array_equal(model(frame.transpose(0, 3, 1, 2))[0], case.expected[0])
        with pytest.raises(OperationFailedError):
            model.run(frame)


def test_an_integer_input_takes_no_floats():
    """There is no scale to quantize them with."""
    ids = describe_input("ids", (1, 8), dtype=TensorType.INT64, zero_point=None, scale=None)
    data = recorded(inputs=[ids]).data
    with pytest.raises(ValueError, match=r"expected pass_through=True.*INT64"):
        Model(data, library="sim", inputs=[InputSpec(dtype=FLOAT32)])


def test_a_detector_needs_some_image():
    """One that was told of floats cannot be written by it."""
    with (
        Model(recorded().data, library="sim", inputs=[InputSpec(dtype=FLOAT32)]) as model,
        pytest.raises(ValueError, match="inputs: expected a model that takes uint8 pixels"),
    ):
        Detector(model)


# Outputs

#: (layout, dtype) -> the runtimes that do it for outputs of rank 4, and for others.
WAYS = {
    (None, None): ("both", "both"),
    (NCHW, None): ("both", "full"),
    (None, FLOAT32): ("both", "full"),
    (NCHW, FLOAT32): ("both", "full"),
    (NHWC, None): ("both", "none"),
    (NHWC, INT8): ("both", "none"),
    (NHWC, FLOAT32): ("full", "none"),
}


@pytest.mark.parametrize("soc", PROFILES)
@pytest.mark.parametrize("shape", [(1, 33, 7, 7), (1, 5, 4, 6), (2, 16, 1, 1), (1, 33, 210)])
def test_the_runtime_writes_an_output_as_it_can(control, soc, shape):
    """Supported conversions are right however they are read; others are refused before the call."""
    case = recorded(
        soc, inputs=[image((shape[0], 3, 8, 20), soc)], outputs=[output("y", shape, soc)]
    )
    for (layout, dtype), able in WAYS.items():
        spec, able = OutputSpec(layout=layout, dtype=dtype), able[len(shape) != 4]
        control.reset()
        if able == "none" or (able == "full" and soc == "rv1106"):
            with pytest.raises(ValueError, match="outputs: 'y': expected"):
                Model(case.data, library="sim", outputs=[spec])
            assert control.calls("rknn_set_io_mem") == 0
            continue
        with Model(case.data, library="sim", outputs={"y": spec}) as model:
            model.run(some_image(model.inputs[0]))
            np.testing.assert_array_equal(model.output_f32("y"), case.expected[0])
            raw, stored = model.output_raw(), model.outputs[0].stored
            assert (raw.shape, raw.dtype) == (stored.shape, stored.dtype.numpy)
            wanted = case.expected[0] if dtype is FLOAT32 else case.arrays[0]
            if layout is NHWC:
                wanted = wanted.transpose(0, 2, 3, 1)
            if (layout, dtype) != (None, None):
                np.testing.assert_array_equal(raw, wanted)
            del raw


@pytest.mark.parametrize("soc", PROFILES)
def test_a_detector_reads_what_the_runtime_wrote(soc):
    """The same objects from native, NCHW, NHWC and float outputs."""
    data = detecting(soc=soc)
    frame = np.zeros((64, 64, 3), np.uint8)
    specs = [None, OutputSpec(layout=NCHW), OutputSpec(layout=NHWC), OutputSpec(dtype=FLOAT32)]
    found = []
    for spec in specs:
        with Model(data, library="sim", outputs=[spec] * 6) as model:
            found.append(Detector(model)(frame))
    assert [len(each) for each in found] == [1] * 4
    for each in found[1:]:
        np.testing.assert_array_equal(each.xyxy, found[0].xyxy)
        np.testing.assert_allclose(each.confidence, found[0].confidence, rtol=1e-6)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (OutputSpec(dtype=FLOAT16), "expected dtype FLOAT32 or INT8, got .*FLOAT16"),
        (OutputSpec(dtype=TensorType.INT16), "expected dtype FLOAT32 or INT8"),
    ],
)
def test_dtypes_that_are_no_ones_are_refused(spec, message):
    """Some runtimes would take them, and write something else."""
    with pytest.raises(ValueError, match=message):
        Model(recorded().data, library="sim", outputs=[spec])


def test_an_output_spec_is_checked():
    """When it is made."""
    with pytest.raises(ValueError, match="layout: expected NCHW, NHWC or None"):
        OutputSpec(layout=NC1HWC2)
    with pytest.raises(TypeError, match="dtype: expected a TensorType or None"):
        OutputSpec(dtype=np.float32)


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_a_subset_of_the_outputs_comes_by_name_or_position(control, kind):
    """In the order that was asked for, also into arrays of the caller."""
    outputs = [output("x", (1, 4)), output("y", (1, 20, 6, 6), index=1), output("z", (3,), index=2)]
    case = recorded(outputs=outputs)
    with kind(case.data, library="sim") as model:
        call = model if kind is Model else model.run
        frame = some_image(model.inputs[0])
        results = call(frame, only=["z", 0])
        assert len(results) == 2
        np.testing.assert_array_equal(results[0], case.expected[2])
        np.testing.assert_array_equal(results[1], case.expected[0])
        out = np.empty((1, 20, 6, 6), np.float32)
        assert call(frame, only=["y"], out=[out])[0] is out
        np.testing.assert_array_equal(out, case.expected[1])
        assert call(frame, only=[]) == []
        for twice in call(frame, only=["z", 2]):
            np.testing.assert_array_equal(twice, case.expected[2])
        with pytest.raises(ValueError, match="output: expected 'x', 'y', 'z', got 'w'"):
            call(frame, only=["w"])
        with pytest.raises(IndexError, match="from 0 to 2, got 3"):
            call(frame, only=[3])
        with pytest.raises(TypeError, match="only: expected a list of outputs, got str"):
            call(frame, only="y")
        with pytest.raises(ValueError, match="out: expected 1 arrays, got 3"):
            call(frame, only=["y"], out=[out] * 3)
