"""GeneralModel: the runtime's own copies and conversions, with nothing left behind."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import stub
from bundles import WHOLE, image, output, recorded, some_image

from rknn_runtime import GeneralModel
from rknn_runtime.enums import InitFlag, TensorType
from rknn_runtime.errors import (
    InvalidParameterError,
    OperationFailedError,
    RknnError,
    UnavailableError,
)
from rknn_runtime.sim import Live, Record, bundle_from_arrays, describe_input
from rknn_runtime.sim.recorded import input_values

pytestmark = pytest.mark.usefixtures("control")

NOTHING = Live(0, 0, 0)
FRAME = np.zeros((1, 8, 20, 3), np.uint8)


def as_told(attr):
    """Describe an output like librknnrt 1.5.2, which lacks int16 and says INT4."""
    if attr.dtype is not TensorType.INT16:
        return attr
    size = 2**32 - attr.n_elems
    return replace(attr, dtype=TensorType.INT4, size=size, size_with_stride=size)


def answering(*outputs):
    """A model with these outputs, for any image."""
    case = recorded(outputs=outputs)
    told = [as_told(attr) for attr in outputs]
    records = [Record(case.arrays)]
    data = bundle_from_arrays(case.inputs, told, records, preprocessing=[WHOLE])
    return replace(case, data=data)


# What comes out


@pytest.mark.parametrize(
    "shape",
    [(1, 5, 4, 6), (1, 33, 7, 7), (1, 16, 1, 1), (1, 84, 210, 1), (1, 10), (10,), (1, 3, 5, 4, 4)],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["INT8", "INT16", "FLOAT16"])
def test_outputs_come_in_logical_order(shape, dtype):
    """Both forms, whatever the NPU's layout: real numbers, and the model's own elements."""
    case = answering(output("y", shape, dtype=TensorType[dtype]))
    with GeneralModel(case.data, library="sim") as model:
        (floats,) = model.run(FRAME)
        (raw,) = model.run(FRAME, float_outputs=False)
    assert (floats.dtype, raw.dtype) == (np.float32, TensorType[dtype].numpy)
    np.testing.assert_array_equal(raw, case.arrays[0])
    # The vendor's float results may differ from this in the last bit.
    np.testing.assert_allclose(floats, case.expected[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["INT32", "INT64", "FLOAT32", "BOOL", "UINT8"])
def test_other_element_types_come_as_they_are(dtype):
    """Outputs that are not quantized, such as ArgMax's indices, keep their type."""
    case = recorded(outputs=[output("y", (1, 30), dtype=TensorType[dtype], zero_point=0, scale=1)])
    with GeneralModel(case.data, library="sim") as model:
        (raw,) = model.run(FRAME, float_outputs=False)
    assert raw.dtype == case.arrays[0].dtype
    np.testing.assert_array_equal(raw, case.arrays[0])


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_out_is_written_to(control, dtype):
    """The arrays that are given are filled and returned, those that are None are made."""
    kind = TensorType[dtype]
    outputs = [output(name, (1, 5, 4, 6), index=i, dtype=kind) for i, name in enumerate("yz")]
    case = answering(*outputs)
    with GeneralModel(case.data, library="sim") as model:
        for floats in (True, False):
            given = np.zeros((1, 5, 4, 6), np.float32 if floats else kind.numpy)
            first, second = model.run(FRAME, float_outputs=floats, out=[given, None])
            assert first is given
            expected = case.expected if floats else case.arrays
            np.testing.assert_allclose(first, expected[0], rtol=1e-6)
            np.testing.assert_allclose(second, expected[1], rtol=1e-6)
        assert control.live.outputs == 0


def test_a_frame_with_out_allocates_no_arrays():
    """Python's own count of a hundred frames stays below the size of one output."""
    case = recorded(outputs=[output("y", (1, 64, 40, 40))])
    out = [np.empty((1, 64, 40, 40), np.float32)]
    with GeneralModel(case.data, library="sim") as model:
        model.run(FRAME, out=out)
        tracemalloc.start()
        try:
            for _ in range(100):
                model.run(FRAME, out=out)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < out[0].nbytes // 4


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([], ValueError, "out: expected 1 arrays, got 0"),
        ([None, None], ValueError, "out: expected 1 arrays, got 2"),
        ([np.zeros((1, 5, 4, 6), np.int8)], TypeError, "out: expected dtype float32, got int8"),
        ([np.zeros((1, 5, 4, 7), np.float32)], ValueError, "out: expected shape"),
        ([np.zeros((1, 5, 6, 4), np.float32).swapaxes(2, 3)], ValueError, "C-contiguous"),
        ([[0.0]], TypeError, "out: expected a numpy.ndarray"),
    ],
)
def test_a_wrong_out_is_refused(control, out, error, message):
    """Before anything is set or run."""
    with GeneralModel(recorded().data, library="sim") as model:
        with pytest.raises(error, match=message):
            model.run(FRAME, out=out)
        assert control.calls("rknn_inputs_set") == 0


# What goes in


def test_int8_is_taken_as_it_is():
    """The elements of an int8 model: quantized already, and not normalised again."""
    attr = image()
    frame = some_image(attr)
    case = recorded(inputs=[attr], input_arrays=[frame])
    elements = input_values(attr, WHOLE, frame).transpose(0, 2, 3, 1).copy()
    with GeneralModel(case.data, library="sim") as model:
        np.testing.assert_allclose(model.run(elements)[0], case.expected[0], rtol=1e-6)
        elements[0, 0, 0, 0] ^= 1
        with pytest.raises(OperationFailedError):
            model.run(elements)


@pytest.mark.parametrize("kind", ["INT8", "INT16", "FLOAT16"])
def test_what_the_runtime_does_not_convert_is_refused(kind):
    """The runtime would log an error, report success, and run on the data before."""
    attr = describe_input("images", (1, 3, 6, 37), dtype=TensorType[kind])
    case = recorded(inputs=[attr])
    with GeneralModel(case.data, library="sim") as model:
        for dtype in ("int8", "int16", "int32", "int64", "bool"):
            if (kind, dtype) == ("INT8", "int8"):
                continue
            with pytest.raises(TypeError, match="expected dtype uint8, float16, float32"):
                model.run(np.ones(attr.shape, dtype))


@pytest.mark.parametrize("kind", ["INT8", "INT16", "FLOAT16"])
def test_several_inputs_are_quantized_by_the_runtime(kind):
    """float32 for vectors and feature maps, in the logical shape; int16 models, too."""
    inputs = [
        image(name="a"),
        describe_input("b", (1, 8), index=1, dtype=TensorType[kind], zero_point=0, scale=0.5),
        describe_input("c", (1, 6, 5, 5), index=2, zero_point=3, scale=0.25),
    ]
    if kind == "FLOAT16":
        inputs[1] = describe_input("b", (1, 8), index=1, dtype=TensorType.FLOAT16)
    frame = some_image(inputs[0])
    vector = np.arange(-4, 4, dtype=np.float32)[None]
    features = (np.arange(150, dtype=np.float32).reshape(1, 5, 5, 6) - 75) / 4
    case = recorded(inputs=inputs, input_arrays=[frame, vector, features])
    with GeneralModel(case.data, library="sim") as model:
        (result,) = model.run(frame, vector, features)
        np.testing.assert_allclose(result, case.expected[0], rtol=1e-6)
        with pytest.raises(OperationFailedError):
            model.run(frame, -vector, features)


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], TypeError, r"expected 1 input \(input 0 'image'\), got 0"),
        ([FRAME, FRAME], TypeError, "expected 1 input .*got 2"),
        ([FRAME.tolist()], TypeError, "input 0 'image': expected a numpy.ndarray, got list"),
        ([None], TypeError, "expected a numpy.ndarray, got NoneType"),
        ([FRAME.astype(np.float64)], TypeError, "expected dtype uint8, .*got float64"),
        ([FRAME.astype(np.int16)], TypeError, "got int16"),
        ([FRAME.astype(">f4")], TypeError, "foreign byte order"),
        ([FRAME[..., ::-1]], ValueError, "C-contiguous"),
        ([FRAME.reshape(1, 20, 8, 3)], ValueError, r"expected shape \(1, 8, 20, 3\) \(NHWC\), got"),
        ([np.zeros((1, 3, 8, 20), np.uint8)], ValueError, "expected shape"),
        ([np.zeros((1, 8, 20, 4), np.uint8)], ValueError, "expected shape"),
        ([np.zeros(0, np.uint8)], ValueError, "expected shape"),
        ([np.array(1, np.uint8)], ValueError, "expected shape"),
    ],
)
def test_a_wrong_input_is_refused(control, inputs, error, message):
    """Nothing is converted on the way to the runtime, and nothing is set."""
    with GeneralModel(recorded().data, library="sim") as model:
        with pytest.raises(error, match=message):
            model.run(*inputs)
        assert control.calls("rknn_inputs_set") == 0
        model.run(FRAME)


# Runtimes that cannot


def test_rv1106_names_the_flow_that_works(control):
    """Librknnmrt has the functions and refuses them."""
    with GeneralModel(recorded("rv1106").data, library="sim") as model:
        with pytest.raises(InvalidParameterError, match="only the zero-copy flow") as caught:
            model.run(FRAME)
        assert caught.value.code == -5
    assert control.live == NOTHING


def test_a_runtime_without_these_functions_is_refused(tmp_path):
    """Before the model is loaded."""
    with pytest.raises(UnavailableError, match="rknn_inputs_set does not exist in"):
        GeneralModel(b"anything", library=stub.build(tmp_path), check=False)


#: The general API for the library of ``stub``; GIVEN_BYTES is the size that it reports.
GENERAL = (
    stub.SOURCE
    + r"""
static uint8_t frame[48];
static int handed_out;
int stub_outputs(void) { return handed_out; }
int rknn_inputs_set(rknn_context context, uint32_t n, rknn_input inputs[]) {
    (void)context; (void)n;
    memcpy(frame, inputs[0].buf, sizeof frame);
    return 0;
}
int rknn_outputs_get(rknn_context context, uint32_t n, rknn_output outputs[],
                     rknn_output_extend *extend) {
    (void)context; (void)n; (void)extend;
    if (!outputs[0].is_prealloc) {
        outputs[0].buf = calloc(1, 16);
        handed_out++;
    }
    for (int i = 0; i < 8; i++) { ((uint8_t *)outputs[0].buf)[i] = (uint8_t)(frame[i] + 1); }
    outputs[0].size = GIVEN_BYTES;
    return 0;
}
int rknn_outputs_release(rknn_context context, uint32_t n, rknn_output outputs[]) {
    (void)context; (void)n;
    if (!outputs[0].is_prealloc) {
        free(outputs[0].buf);
        handed_out--;
    }
    return 0;
}
"""
)
NO_RUN = "#define OMIT_run\n" + GENERAL + "int rknn_run(rknn_context c, rknn_run_extend *e) "
NO_RUN += "{ (void)c; (void)e; return 0; }\n"
LOGICAL_IS_INT4 = (
    "PATCH_COMMAND=RKNN_QUERY_OUTPUT_ATTR",
    "PATCH=attr.type = RKNN_TENSOR_INT4; attr.size = attr.size_with_stride = -8u",
)


def handed_out(model):
    from rknn_runtime._ffi import ffi

    return ffi.cast("int (*)(void)", model.library.symbol("stub_outputs"))()


@pytest.mark.parametrize("patch", [(), LOGICAL_IS_INT4], ids=["known type", "unknown type"])
@pytest.mark.parametrize("size", [8, 7, 9, 0])
def test_another_size_of_an_output_is_an_error(tmp_path, patch, size):
    """The size must be the tensor's, in either kind of buffer, and the buffer is released."""
    library = stub.build(tmp_path, f"GIVEN_BYTES={size}", *patch, source=NO_RUN)
    with GeneralModel(b"anything", library=library, check=False) as model:
        frame = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
        if size == 8:
            raw = np.zeros((1, 8), np.uint8)
            model.run(frame, float_outputs=False, out=[raw])
            np.testing.assert_array_equal(raw, [np.arange(1, 9)])
        else:
            with pytest.raises(RknnError, match=f"output 0 'out' has {size} bytes, expected 8"):
                model.run(frame, float_outputs=False)
        assert handed_out(model) == 0


def test_an_old_conversion_promises_float32(tmp_path):
    """Containers of version 1: the runtime gives the float32 of the logical attribute."""
    patch = "attr.type = RKNN_TENSOR_FLOAT32; attr.size = attr.size_with_stride = 32"
    source = NO_RUN.replace("calloc(1, 16)", "calloc(1, 32)").replace(
        "((uint8_t *)outputs[0].buf)[i] = (uint8_t)(frame[i] + 1)",
        "((float *)outputs[0].buf)[i] = frame[i] / 2.0f",
    )
    assert source.count("2.0f") == 1
    command = "PATCH_COMMAND=RKNN_QUERY_OUTPUT_ATTR"
    library = stub.build(tmp_path, "GIVEN_BYTES=32", command, f"PATCH={patch}", source=source)
    with GeneralModel(b"anything", library=library, check=False) as model:
        frame = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3)
        (output,) = model.run(frame, float_outputs=False)
        assert model.outputs[0].native.dtype is TensorType.UINT8
        assert output.dtype == np.float32
        np.testing.assert_array_equal(output, [np.arange(8) / 2])


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("attr.n_elems = 7", r"shape \(1, 8\) with 7 elements"),
        ("attr.dims[1] = 1 << 30", "elements"),
        ("attr.type = RKNN_TENSOR_INT4", "INT4"),
    ],
)
def test_nonsense_about_an_output_is_refused_at_once(tmp_path, patch, message):
    """What would let the runtime write beyond an array."""
    command = "PATCH_COMMAND=cmd && !input && cmd"
    library = stub.build(tmp_path, "GIVEN_BYTES=8", f"PATCH={patch}", command, source=NO_RUN)
    with pytest.raises(RknnError, match=message):
        GeneralModel(b"anything", library=library, check=False)


# Failures and the end


@pytest.mark.parametrize(
    "flags", [InitFlag.ASYNC, InitFlag.MEM_ALLOC_OUTSIDE, InitFlag.DISABLE_FLUSH_INPUT_MEM_CACHE]
)
def test_flags_that_leave_work_to_the_caller_are_refused(control, flags):
    """The flow could not do it."""
    with pytest.raises(ValueError, match=f"flags: expected none.* a GeneralModel.*{flags.name}"):
        GeneralModel(recorded().data, library="sim", flags=flags)
    assert control.calls("rknn_init") == 0
