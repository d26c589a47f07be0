"""RKNNLite answers as the vendor's package does, call by call, on the simulated NPU.

The expected answers were measured on rknn-toolkit-lite2 2.5.0, with the simulated runtime as its
librknnrt.
"""

from __future__ import annotations

import copy
import logging
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from bundles import image, output, recorded
from paths import PROJECT
from threads import in_threads

from rknn_runtime import InputSpec, Model
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import RknnError, UnavailableError
from rknn_runtime.modelfile import read_header
from rknn_runtime.rknnlite import RKNNLite
from rknn_runtime.rknnlite.arguments import chosen_cores
from rknn_runtime.sim import describe_input

MODELS = PROJECT / "tests" / "data" / "models"
RK3588 = MODELS / "ic3_w37_rk3588.rknn"
RV1106 = MODELS / "ic3_w37_rv1106.rknn"
SHAPE = (1, 8, 20, 3)


def frame(dtype=np.uint8, seed=0):
    return np.random.default_rng(seed).integers(0, 100, SHAPE).astype(dtype)


@pytest.fixture
def answers():
    """One image to one map, the map depending on the image: three images are known."""
    known = [frame(seed=seed) for seed in range(3)]
    attr = output("map", (1, 5, 4, 6))
    bundles = [recorded(outputs=[attr], input_arrays=[array]) for array in known]
    return known, bundles


@pytest.fixture
def path(tmp_path):
    """A model that answers whatever comes."""
    made = recorded()
    file = tmp_path / "model.rknn"
    file.write_bytes(made.data)
    return file


@pytest.fixture
def lite(path, control):
    """A model that is ready to run; failures are returned."""
    model = RKNNLite(library="sim")
    assert model.load_rknn(str(path)) == 0
    assert model.init_runtime() == 0
    yield model
    model.release()


def opened(path):
    """A model that is ready to run and raises its failures."""
    model = RKNNLite(library="sim", strict=True)
    model.load_rknn(path)
    model.init_runtime()
    return model


def loaded(tmp_path, made):
    """Load a recorded model."""
    file = tmp_path / "other.rknn"
    file.write_bytes(made.data)
    return opened(file)


def test_an_inference_gives_float32_in_the_logical_shape(lite):
    """A list of new arrays, dequantized, NCHW."""
    first = lite.inference([frame()])
    assert isinstance(first, list)
    assert [(array.shape, array.dtype.name) for array in first] == [((1, 5, 4, 6), "float32")]
    assert (first[0] == recorded().expected[0]).all()
    second = lite.inference(inputs=[frame()])
    assert not np.shares_memory(first[0], second[0])


def test_nchw_is_turned_for_the_model(tmp_path, control, answers):
    """The model sees the same image, whether data_format is a name or a list."""
    array, made = answers[0][0], answers[1][0]
    model = loaded(tmp_path, made)
    turned = array.transpose(0, 3, 1, 2)
    for data_format in ("nchw", ["nchw"]):
        (result,) = model.inference([np.ascontiguousarray(turned)], data_format=data_format)
        assert (result == made.expected[0]).all()
        (result,) = model.inference([turned], data_format=data_format)
        assert (result == made.expected[0]).all()
    for data_format in ("nhwc", "NHWC"):
        (result,) = model.inference([array], data_format=data_format)
        assert (result == made.expected[0]).all()
    (result,) = model.inference([array[0]])  # as the toolkit takes it
    assert (result == made.expected[0]).all()
    (result,) = model.inference([turned[0]], data_format="NCHW")
    assert (result == made.expected[0]).all()
    with pytest.raises(RknnError):  # the record knows no image of these numbers
        model.inference([answers[0][1]])
    model.release()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_every_dtype_of_the_same_numbers_gives_the_same(tmp_path, control, answers, dtype):
    """The runtime normalises and quantizes them alike; data_type agrees with the array."""
    model = loaded(tmp_path, answers[1][0])
    array = answers[0][0].astype(dtype)
    for data_type in (None, dtype, [dtype]):
        (result,) = model.inference([array], data_type=data_type)
        assert (result == answers[1][0].expected[0]).all()
    model.release()


def test_several_inputs_in_their_order(tmp_path, control):
    """An image and a vector work; data_format of other inputs than images is ignored."""
    attrs = [
        image(),
        describe_input("vector", (1, 8), soc="rk3588", index=1, zero_point=0, scale=1.0),
    ]
    vector = np.arange(8, dtype=np.float32)[None]
    made = recorded(inputs=attrs, input_arrays=[frame(), vector])
    model = loaded(tmp_path, made)
    nchw = frame().transpose(0, 3, 1, 2)
    for data_format in ("nchw", ["nchw", "nhwc"]):
        (result,) = model.inference([nchw, vector], data_format=data_format)
        assert (result == made.expected[0]).all()
    types = ["uint8", "float32"]
    (result,) = model.inference([frame(), vector], data_type=types, inputs_pass_through=[0, 0])
    assert (result == made.expected[0]).all()
    with pytest.raises(TypeError, match=r"inputs\[1\]: expected uint8 as data_type says"):
        model.inference([frame(), vector], data_type="uint8")
    with pytest.raises(ValueError, match=r"inputs: expected 2 \(image .*vector .*\), got 1"):
        model.inference([frame()])
    model.release()


def test_frame_ids_are_appended_twice(lite):
    """Numbers of runs, of outputs and of inputs: a run waits for its own outputs."""
    assert lite.inference([frame()], get_frame_id=True)[1:] == [1, 1]
    assert lite.inference([frame()], get_frame_id=True)[1:] == [2, 2]


def test_outputs_are_reused_on_request(lite):
    """The same memory every time, and only then."""
    first = lite.inference([frame()], reuse_outputs=True)[0]
    second = lite.inference([frame()], reuse_outputs=True)[0]
    other = lite.inference([frame()])[0]
    assert np.shares_memory(first, second)
    assert not np.shares_memory(first, other)


REFUSED = {
    "2 dimensions": ({"inputs": [frame()[0, 0]]}, r"expected 4 dimensions as in .*, got \(20, 3\)"),
    "5 dimensions": ({"inputs": [frame()[None]]}, r"expected 4 dimensions as in"),
    "no list": ({"inputs": None}, "inputs: expected a list of arrays, got NoneType"),
    "empty": ({"inputs": []}, r"inputs: expected 1 \(image .*\), got 0"),
    "two": ({"inputs": [frame(), frame()]}, r"inputs: expected 1 .*, got 2"),
    "nested list": ({"inputs": [frame().tolist()]}, r"inputs\[0\]: expected a numpy.ndarray"),
    "float64": ({"inputs": [frame(np.float64)]}, "expected a dtype of .*float64; convert it"),
    "uint64": ({"inputs": [frame(np.uint64)]}, "expected a dtype of .*uint64; convert it"),
    "big endian": ({"inputs": [frame(">f4")]}, "expected a dtype of .*>f4; convert it"),
    "object": ({"inputs": [frame(object)]}, "expected a dtype of .*object; convert it"),
    "not converted": ({"inputs": [frame(np.int64)]}, "expected dtype .*, got int64"),
    "small": ({"inputs": [frame()[:, :4]]}, r"expected shape \(1, 8, 20, 3\), got"),
    "no elements": ({"inputs": [frame()[:, :0]]}, r"expected shape \(1, 8, 20, 3\), got"),
    "data_type": ({"data_type": "float32"}, "expected float32 as data_type says, got uint8"),
    "unknown data_type": ({"data_type": "float64"}, "data_type: expected one of .*'float64'"),
    "dtype": ({"data_type": np.uint8}, "data_type: expected one of "),
    "two data_types": ({"data_type": ["uint8"] * 2}, "data_type: expected one entry for each"),
    "NC1HWC2": ({"data_format": "NC1HWC2"}, "data_format: expected one of nhwc, nchw, got 'NC1"),
    "no format": ({"data_format": [None]}, "data_format: expected one of nhwc, nchw, got None"),
    "two formats": ({"data_format": ["nhwc"] * 2}, "data_format: expected one entry for each"),
    "pass": ({"inputs_pass_through": 1}, "inputs_pass_through: expected a list of 0 and 1"),
    "two passes": ({"inputs_pass_through": [0, 0]}, "inputs_pass_through: expected one entry"),
    "pass 2": ({"inputs_pass_through": [2]}, "inputs_pass_through: expected 0 or 1, got 2"),
    "pass text": ({"inputs_pass_through": ["1"]}, "expected a list of 0 and 1, got str in it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_none_and_logged_or_raised(lite, caplog, name):
    """With the same words, and the next inference works."""
    arguments, words = REFUSED[name]
    arguments = {"inputs": [frame()], **arguments}
    assert lite.inference(**arguments) is None
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert record.name == "rknn_runtime.rknnlite"
    lite.strict = True
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        lite.inference(**arguments)
    assert record.getMessage() == f"inference: {caught.value}"
    assert lite.inference([frame()]) is not None


MISTAKEN = {
    "no list": (lambda: frame(), "expected a list of arrays, got an array"),
    "NCHW unsaid": (lambda: [frame().reshape(1, 3, 8, 20)], "taking all elements in their order"),
    "too big": (lambda: [np.repeat(frame(), 2, axis=0)], "taking the first 480 elements"),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_what_the_vendor_takes_by_mistake_is_taken_with_a_warning(lite, caplog, name):
    """As scripts have it; strict refuses it."""
    given, words = MISTAKEN[name]
    assert lite.inference(given()) is not None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert words in caplog.records[0].getMessage()
    lite.strict = True
    with pytest.raises(ValueError, match=words):
        lite.inference(given())


def test_calls_in_a_wrong_order_fail(path, control, caplog):
    """None or -1; release is idempotent, and the runtime can be initialised again after it."""
    model = RKNNLite(library="sim")
    assert model.init_runtime() == -1
    for call in (model.get_sdk_version, model.eval_perf, model.eval_memory):
        assert call() is None
    assert model.inference([frame()]) is None
    assert model.query("inputs") is None
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "init_runtime: no model is loaded: call load_rknn first"
    assert all("call init_runtime first" in text for text in messages[1:])
    assert model.load_rknn(path) == 0
    assert model.init_runtime() == 0
    assert model.init_runtime() == 0  # anew
    assert control.live.contexts == 1
    assert model.release() is None
    assert model.release() is None
    assert model.inference([frame()]) is None
    assert model.init_runtime() == 0
    assert model.inference([frame()]) is not None
    model.release()


@pytest.mark.parametrize("wrong", ["missing.rknn", "", None, 3, b"abc"])
def test_a_model_that_cannot_be_read_is_refused_at_once(tmp_path, wrong):
    """-1, or the reason with strict; a folder, too."""
    assert RKNNLite(library="sim").load_rknn(wrong) == -1
    with pytest.raises((OSError, TypeError, ValueError)):
        RKNNLite(library="sim", strict=True).load_rknn(wrong)
    assert RKNNLite().load_rknn(tmp_path) == -1
    os.mkfifo(tmp_path / "fifo")
    assert RKNNLite().load_rknn(tmp_path / "fifo") == -1


def test_keys_and_devices_are_refused(path):
    """Nothing else than this machine and models that are not encrypted."""
    model = RKNNLite(library="sim", strict=True)
    with pytest.raises(UnavailableError, match="key_path: expected None"):
        model.load_rknn(path, "key.bin")
    model.load_rknn(path)
    with pytest.raises(ValueError, match="device_id: expected None"):
        model.init_runtime(device_id="1a2b")
    with pytest.raises(ValueError, match='fallback_prior_device: expected "cpu" or "gpu"'):
        model.init_runtime(fallback_prior_device="tpu")
    assert model.list_devices() == ([], [])


@pytest.mark.parametrize("path", [RK3588, RV1106], ids=lambda path: path.stem)
def test_elements_are_passed_through(path, control):
    """As `Model` passes them, also in NCHW; and afterwards the next call is as ever."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (1, 21, 37, 3), np.uint8)
    elements = random.integers(-128, 128, (1, 21, 37, 3), np.int8)
    with Model(path, library="sim", inputs=[InputSpec(pass_through=True)]) as other:
        (passed,) = other(elements)
    model = opened(path)
    (expected,) = model.inference([pixels])
    for array, form in ((elements, "nhwc"), (elements.transpose(0, 3, 1, 2), "nchw")):
        (found,) = model.inference([array], data_format=form, inputs_pass_through=[1])
        np.testing.assert_allclose(found, passed, atol=1e-6)
    assert model.inference([pixels], get_frame_id=True)[1:] == [4, 4]
    np.testing.assert_array_equal(model.inference([pixels])[0], expected)
    np.testing.assert_array_equal(model.inference([pixels], None, None, [0])[0], expected)
    with pytest.raises(TypeError, match="int8"):
        model.inference([pixels], inputs_pass_through=[1])
    np.testing.assert_array_equal(model.inference([pixels])[0], expected)
    model.release()


def test_async_mode_is_not_what_its_name_says(path, control, caplog):
    """It is warned of, and refused where failures are raised; nothing is open then."""
    model = RKNNLite(library="sim")
    model.load_rknn(path)
    with caplog.at_level(logging.WARNING, "rknn_runtime.rknnlite"):
        assert model.init_runtime(async_mode=True) == 0
    assert "returns the outputs of its own inputs" in caplog.text
    assert model.inference([frame()], get_frame_id=True)[1:] == [1, 1]
    model.release()
    model.strict = True
    with pytest.raises(UnavailableError, match="async_mode: expected False, got True"):
        model.init_runtime(async_mode=True)


@pytest.mark.parametrize("target", [None, "rk3588", "RK3588", "rk3588s"])
def test_the_target_may_be_the_models_own(target, control):
    """There it is for boards on a cable; here it must name the SoC of the model."""
    pytest.importorskip("onnxruntime")
    model = RKNNLite(library="sim", strict=True)
    model.load_rknn(RK3588)
    assert model.init_runtime(target=target) == 0
    model.release()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("rk3566", "target: expected None or 'rk3588'"),
        ("foo", "target: expected one of rk3562, .*'foo'"),
        ("", "target: expected one of"),
        (3588, "target: expected a SoC's name or None, got int"),
    ],
)
def test_another_target_is_refused(target, words):
    """Before anything is loaded."""
    model = RKNNLite(library="sim", strict=True)
    model.load_rknn(RK3588)
    with pytest.raises((TypeError, ValueError), match=words):
        model.init_runtime(target)


def test_core_masks_are_those_of_the_vendor(path, control):
    """Their numbers, and nothing else; True is 1 there, too."""
    names = ("AUTO", "0", "1", "2", "0_1", "0_1_2", "ALL")
    values = [getattr(RKNNLite, f"NPU_CORE_{name}") for name in names]
    assert values == [0, 1, 2, 4, 3, 7, 0xFFFF]
    model = RKNNLite(library="sim")
    model.load_rknn(path)
    for mask in (*values, True, np.int64(1)):
        assert model.init_runtime(core_mask=mask) == 0
    assert control.calls("rknn_set_core_mask") == len(values) + 1  # not for AUTO
    assert model.init_runtime(None, None, False, 1) == 0
    for mask in (-1, 5, 6, 2**70, None, "0", 1.0):
        assert model.init_runtime(core_mask=mask) == -1
    model.release()


def test_cores_that_a_soc_lacks():
    """RK3576 has two and takes others for those; SoCs with one refuse the choice."""
    header = read_header(RK3588)
    said = []
    two = replace(header, soc="rk3576")
    assert chosen_cores(4, two, said.append) is CoreMask.CORE_0
    assert chosen_cores(7, two, said.append) is CoreMask.CORE_0_1
    assert len(said) == 2
    assert chosen_cores(0xFFFF, two, said.append) is CoreMask.CORE_0_1
    assert chosen_cores(0xFFFF, header, said.append) is CoreMask.CORE_0_1_2
    assert chosen_cores(2, two, said.append) is CoreMask.CORE_1
    assert len(said) == 2
    one = replace(header, soc="rk3566")
    assert chosen_cores(0, one, said.append) is None
    with pytest.raises(ValueError, match="core_mask: expected NPU_CORE_AUTO, as rk3566 has one"):
        chosen_cores(1, one, said.append)


def test_times_and_memory_are_printed_and_returned(lite, capsys):
    """On request, as the toolkit does."""
    text = lite.eval_perf()
    assert text.startswith("Total Time(us): ")
    assert "FPS: " in text
    assert capsys.readouterr().out == text + "\n"
    lite.inference([frame()])
    assert lite.eval_perf(is_print=False)
    memory = lite.eval_memory(is_print=False)
    assert capsys.readouterr().out == ""
    parts = ("weight_memory", "internal_memory", "other_memory")
    assert list(memory) == [*parts, "total_memory"]
    assert memory["total_memory"] == sum(memory[name] for name in parts)
    lite.eval_memory()
    assert "total_memory" in capsys.readouterr().out


def test_platforms_are_printed(capsys):
    """All platforms, or a model's, are printed and returned as a dict."""
    model = RKNNLite()
    assert model.list_support_target_platform() is None
    assert "chip family 2: RK3566,RK3568\n" in capsys.readouterr().out
    expected = {"filled_target_platform": ["rk3588"], "support_target_platform": ["RK3588"]}
    assert model.list_support_target_platform(RK3588) == expected
    assert "Target platforms supported by this RKNN model: ['RK3588']" in capsys.readouterr().out
    assert model.list_support_target_platform("missing.rknn") is None
    assert model.list_support_target_platform(3) is None


def test_a_failing_runtime_is_reported(lite, control, caplog):
    """Each call fails once, and the context stays usable."""
    for function in ("rknn_inputs_set", "rknn_run", "rknn_outputs_get"):
        control.fail(function, nth=1, code=-1)
        assert lite.inference([frame()]) is None
        assert function in caplog.records[-1].getMessage()
        assert lite.inference([frame()]) is not None
    control.fail("rknn_init", nth=1, code=-6)
    assert lite.init_runtime() == -1
    assert lite.inference([frame()]) is None
    assert lite.init_runtime() == 0


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_object_is_neither_copied_nor_pickled(lite, use):
    """A model is loaded once, so copying and pickling raise."""
    for each in (lite, RKNNLite()):
        with pytest.raises(TypeError, match="can be neither copied nor pickled"):
            use(each)


def test_the_root_logger_is_left_alone(path, tmp_path):
    """Neither handlers nor levels of others change, whatever is asked for."""
    root, ours = logging.getLogger(), logging.getLogger("rknn_runtime")
    before = [(list(each.handlers), each.level) for each in (root, ours)]
    file = tmp_path / "log.txt"
    first = RKNNLite(verbose=True, verbose_file=str(file), library="sim")
    quiet = RKNNLite(library="sim")
    assert [(list(each.handlers), each.level) for each in (root, ours)] == before
    first.load_rknn(path)
    first.init_runtime()
    first.load_rknn("missing.rknn")
    quiet.load_rknn("elsewhere.rknn")
    first.release()
    text = file.read_text("utf-8")
    assert "init_runtime" in text
    assert "missing.rknn" in text
    assert "elsewhere.rknn" not in text


def test_a_log_file_that_cannot_be_written_is_complained_about(tmp_path, caplog):
    """And the object is made, as there."""
    RKNNLite(verbose_file=tmp_path / "missing" / "log.txt")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "verbose_file: " in caplog.records[0].getMessage()


def test_threads_share_one_model(lite):
    """Inferences take turns; a release meanwhile ends them with None."""
    results = []

    def work():
        results.extend(lite.inference([frame()]) is not None for _ in range(20))

    in_threads(work, [()] * 4)
    assert results == [True] * 80


@pytest.mark.parametrize("file", [RK3588, RV1106], ids=lambda path: path.stem)
def test_both_runtimes(file, control):
    """Librknnmrt has no general API: there the zero-copy flow gives the same."""
    pytest.importorskip("onnxruntime")
    model = opened(file)
    array = np.random.default_rng(1).integers(0, 256, (1, 21, 37, 3)).astype(np.uint8)
    (first,) = model.inference([array])
    assert first.shape == (1, 24, 21, 37)
    assert first.dtype == np.float32
    (turned,) = model.inference([array.transpose(0, 3, 1, 2)], data_format="nchw")
    assert (first == turned).all()
    (reused,) = model.inference([array], reuse_outputs=True)
    (again,) = model.inference([array], reuse_outputs=True)
    assert np.shares_memory(reused, again)
    assert (again == first).all()
    assert model.eval_perf(is_print=False)
    model.release()


def test_a_dynamic_model_runs_in_the_shape_of_its_inputs(control):
    """Outputs are as big as the inputs make them; other shapes are refused with the list."""
    pytest.importorskip("onnxruntime")
    model = opened(MODELS / "dyn_in_rk3588.rknn")
    random = np.random.default_rng(0)
    for height, width in ((48, 40), (32, 32), (48, 40)):
        array = random.integers(0, 256, (1, height, width, 3)).astype(np.uint8)
        (result,) = model.inference([array], reuse_outputs=True)
        assert result.shape == (1, 24, height, width)
        turned = array.transpose(0, 3, 1, 2)
        (again,) = model.inference([turned], data_format="nchw", reuse_outputs=True)
        assert np.shares_memory(result, again)
        (other,) = model.inference([turned], data_format="nchw")
        assert (other == again).all()
        assert model.eval_perf(is_print=False)
    with pytest.raises(ValueError, match="expected what the model was built for"):
        model.inference([np.zeros((1, 16, 16, 3), np.uint8)])
    (other,) = model.inference([array])
    assert (other == result).all()
    model.release()


@pytest.mark.parametrize("file", [RK3588, RV1106])
def test_the_object_inside_tells_of_the_tensors(control, file):
    """By the C API's names and numbers, as scripts read them that find the input's size so."""
    lite = RKNNLite(library="sim", strict=True)
    assert lite.rknn_runtime is None
    lite.load_rknn(file)
    lite.init_runtime()
    inner = lite.rknn_runtime
    assert inner.get_in_out_num() == (1, 1)
    with Model(file, library="sim") as model:
        for index, is_output, attr in ((0, False, model.inputs[0]), (0, True, model.outputs[0])):
            told = inner.get_tensor_attr(index, is_output=is_output)
            assert len(told.dims) == 16 and not any(told.dims[told.n_dims :])
            assert tuple(told.dims[: told.n_dims]) == attr.shape
            assert told.name == attr.name.encode()
            assert (told.type, told.fmt) == (attr.dtype, attr.layout)
            assert (told.zp, told.scale, told.fl) == (attr.zero_point, attr.scale, attr.fl)
            assert (told.size, told.n_elems) == (attr.size, attr.n_elems)
            assert (told.qnt_type, told.index, told.pass_through) == (attr.qnt_type, index, 0)
            assert (told.w_stride, told.h_stride) == (attr.w_stride, attr.h_stride)
            assert told.size_with_stride == attr.size_with_stride
    with pytest.raises(ValueError, match="index: expected 0 to 0, got 1"):
        inner.get_tensor_attr(1)
    with pytest.raises(TypeError, match="index: expected an integer"):
        inner.get_tensor_attr("x")
    lite.release()
    assert lite.rknn_runtime is None
