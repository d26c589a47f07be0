"""Models of several input shapes: chosen from a list, and everything follows the choice."""

from __future__ import annotations

import numpy as np
import pytest
from bundles import image, output
from paths import DATA

from rknn_runtime import (
    Detector,
    GeneralModel,
    InputSpec,
    Layout,
    Model,
    OutputSpec,
    TensorMemory,
    TensorType,
)
from rknn_runtime.modelfile.info import Preprocessing, ShapeVariant
from rknn_runtime.modelfile.reader import read
from rknn_runtime.sim.bundle import Bundle, RawRecord

INFO = read(DATA / "models" / "dyn_in_rk3588.rknn")
BIG, SMALL = ((1, 48, 40, 3),), ((1, 32, 32, 3),)
ANSWERS = [
    np.random.default_rng(seed).integers(-128, 128, variant.outputs[0].shape).astype(np.int8)
    for seed, variant in enumerate(INFO.variants)
]
DATA_BYTES = bytes(
    Bundle(
        soc="rk3588",
        variants=INFO.variants,
        preprocessing=INFO.preprocessing,
        records=tuple(RawRecord((answer,), None, i) for i, answer in enumerate(ANSWERS)),
    )
)
both = pytest.mark.parametrize("kind", [Model, GeneralModel])


def frame(model):
    return np.zeros(model.inputs[0].shape, np.uint8)


def result(model):
    """The model's own elements of a run."""
    if isinstance(model, Model):
        model.run(frame(model))
        return model.output_raw().copy()
    return model.run(frame(model), float_outputs=False)[0]


@both
def test_every_shape_is_chosen_and_runs(control, kind):
    """Attributes, buffers and results follow, forth and back."""
    with kind(DATA_BYTES, library="sim") as model:
        assert model.dynamic_shapes == (BIG, SMALL)
        for shapes, answer in [(BIG, 0), (SMALL, 1), (BIG, 0), (SMALL, 1), (SMALL, 1)]:
            model.set_input_shapes([list(shape) for shape in shapes])
            assert model.inputs[0].shape == shapes[0]
            assert model.outputs[0].shape == ANSWERS[answer].shape
            np.testing.assert_array_equal(result(model), ANSWERS[answer])
            with pytest.raises(ValueError, match="expected shape"):
                model.run(np.zeros((1, 8, 8, 3), np.uint8))
        assert control.live.memories == (2 if kind is Model else 0)


@both
@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ([(1, 64, 64, 3)], ValueError, r"\(1, 48, 40, 3\); \(1, 32, 32, 3\)\), got \(1, 64, 64"),
        ([], ValueError, "built for"),
        ([*BIG, *BIG], ValueError, "built for"),
        ([(1, 3, 48, 40)], ValueError, "built for"),
        ([(1, 48.0, 40, 3)], TypeError, "shapes: expected an integer, got 48.0"),
        ([(1, -1, 40, 3)], ValueError, "shapes: expected 0 to"),
        ((1, 48, 40, 3), TypeError, r"shapes: expected a shape per input, such as \[\(1, 48"),
        ("big", TypeError, "shapes: expected a shape per input"),
        (None, TypeError, "shapes: expected a shape per input"),
    ],
)
def test_a_shape_outside_the_list_is_answered_with_it(control, kind, shapes, error, message):
    """Before the runtime is called, which only says -1."""
    with kind(DATA_BYTES, library="sim") as model:
        before = control.calls("rknn_set_input_shapes")
        with pytest.raises(error, match=message):
            model.set_input_shapes(shapes)
        assert control.calls("rknn_set_input_shapes") == before
        np.testing.assert_array_equal(result(model), ANSWERS[0])


def test_views_forbid_another_shape(control):
    """They would show something else then."""
    with Model(DATA_BYTES, library="sim") as model:
        view = model.input_view()
        with pytest.raises(BufferError, match="input 0 'images'"):
            model.set_input_shapes(SMALL)
        assert view.shape == model.inputs[0].shape == BIG[0]
        del view
        model.set_input_shapes(SMALL)
        assert model.input_view().shape == SMALL[0]


def test_specs_hold_in_every_shape(control):
    """Floats in NCHW, and float32 outputs by the runtime."""
    options = {
        "inputs": [InputSpec(dtype=TensorType.FLOAT32, layout=Layout.NCHW)],
        "outputs": [OutputSpec(dtype=TensorType.FLOAT32)],
    }
    with Model(DATA_BYTES, library="sim", **options) as model:
        for shapes, answer in [(BIG, 0), (SMALL, 1), (BIG, 0)]:
            model.set_input_shapes(shapes)
            model.run(np.zeros(model.inputs[0].nchw_shape, np.float32))
            attr = INFO.variants[answer].outputs[0]
            real = (ANSWERS[answer].astype(np.float32) - attr.zero_point) * np.float32(attr.scale)
            np.testing.assert_array_equal(model.output_raw(), real)


def test_memory_that_was_bound_stays_if_it_is_large_enough(control):
    """Memory that is too small is released, and the model names the missing one."""
    with Model(DATA_BYTES, library="sim") as model:
        model.set_input_shapes(SMALL)
        large, small = TensorMemory(model, 1 << 16), TensorMemory(model, 32 * 32 * 3)
        model.bind_input(0, small, sync=False)
        model.bind_output(0, TensorMemory(model, 1 << 20))
        model.set_input_shapes(BIG)
        assert model.output_memory().size_bytes == 1 << 20
        with pytest.raises(RuntimeError, match="memory is missing for input 0 'images'"):
            model.run()
        with pytest.raises(RuntimeError, match="input 0 'images' has no memory yet"):
            model.run(frame(model))
        small.close()
        model.bind_input(0, large)
        np.testing.assert_array_equal(result(model), ANSWERS[0])
        model.set_input_shapes(SMALL)
        np.testing.assert_array_equal(result(model), ANSWERS[1])
        assert model.input_memory() is large


def test_a_detector_refuses_another_shape(control):
    """It was made for one; in that it stays right."""
    sizes = [(96, 64), (64, 64)]
    variants, records = [], []
    for number, (height, width) in enumerate(sizes):
        outputs, arrays = [], []
        for stride in (8, 16, 32):
            for channels in (4, 2):
                shape = (1, channels, height // stride, width // stride)
                value = 22 if channels == 4 else -128
                arrays.append(np.full(shape, value, np.int8))
                index = len(outputs)
                outputs.append(output(f"o{index}", shape, index=index, zero_point=-128, scale=0.01))
        arrays[1][0, 1, 3, 3] = -128 + 80
        variants.append(ShapeVariant((image((1, 3, height, width)),), tuple(outputs)))
        records.append(RawRecord(tuple(arrays), None, number))
    given = (Preprocessing((0.0,), (256.0,), rgb2bgr=False),)
    data = bytes(Bundle("rk3588", tuple(variants), given, tuple(records)))
    some_image = np.zeros((96, 64, 3), np.uint8)
    with Model(data, library="sim") as model:
        detector = Detector(model)
        first = detector(some_image)
        assert len(first) == 1
        model.set_input_shapes([(1, 64, 64, 3)])
        with pytest.raises(RuntimeError, match=r"shapes were changed .*\(96, 64\): make another"):
            detector(some_image)
        with pytest.raises(RuntimeError, match="shapes were changed"):
            detector(model.input_memory())
        other = Detector(model)
        assert other.input_size == (64, 64)
        assert len(other(some_image)) == 1
        model.set_input_shapes([(1, 96, 64, 3)])
        np.testing.assert_array_equal(detector(some_image).xyxy, first.xyxy)
        with pytest.raises(RuntimeError, match="shapes were changed"):
            other(some_image)
