"""Custom operators: Python functions, and shared libraries, in the middle of a model."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref

import numpy as np
import pytest
import stub
from bundles import recorded
from custom_models import CUSTOM, CUSTOM_SOFTMAX, FRAME, SOFTMAX, STOCK, renamed, softmax
from paths import DATA, PROJECT

from rknn_runtime import GeneralModel, Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import (
    ClosedError,
    LibraryLoadError,
    OperationFailedError,
    RknnError,
    UnavailableError,
)
from rknn_runtime.npu import operators
from rknn_runtime.npu.operators import CustomOpTensor

CLASSES = [Model, GeneralModel]


@pytest.fixture
def model(control):
    with Model(CUSTOM_SOFTMAX, library="sim") as loaded:
        yield loaded


def run(model):
    return np.array(model(FRAME)[0] if isinstance(model, Model) else model.run(FRAME)[0])


@pytest.mark.parametrize("cls", CLASSES)
def test_a_function_computes_a_node(control, cls):
    """Its results go to the next node: the outputs equal the model's own softmax."""
    with cls(SOFTMAX, library="sim") as model:
        expected = run(model)
    with cls(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(CUSTOM, softmax)
        assert np.array_equal(run(model), expected)
        assert np.array_equal(run(model), expected)


@pytest.mark.parametrize("cls", CLASSES)
def test_without_a_function_the_model_does_not_run(control, cls):
    """As librknnrt 2.3.2: it loads, and fails in the run; a function may still come."""
    with cls(CUSTOM_SOFTMAX, library="sim") as model:
        with pytest.raises(OperationFailedError, match=CUSTOM):
            run(model)
        model.register_custom_op(CUSTOM, softmax)
        run(model)


def test_an_operator_of_the_runtime_can_be_replaced(control):
    """By the type that the file has, as on librknnrt 2.3.2."""

    def sevens(node, inputs, outputs):
        outputs[0][...] = 7

    with Model(SOFTMAX, library="sim") as model:
        model.register_custom_op(STOCK, sevens)
        assert set(run(model).ravel()) == {7}


def test_what_a_node_is_told(model):
    """Shapes, types and attributes as librknnrt 2.3.2 gave them for this file."""
    seen = []

    def look(node):
        seen.append((node, node.attribute("axis"), node.attribute("name"), node.attribute("no")))
        node.data = node.attribute("no", 5)

    model.register_custom_op(CUSTOM, softmax, init=look)
    ((node, axis, name, missing),) = seen
    assert axis.dtype == np.int64 and axis.tolist() == [1]
    assert name == f"{CUSTOM}:Softmax_5"
    assert missing is None and node.data == 5
    float32 = np.dtype(np.float32)
    assert node.outputs == (CustomOpTensor("output0-rs_cst_temp", (1, 1000, 1, 1), float32),)
    assert [tensor.name for tensor in node.inputs] == [
        "gemm_9_mm__float16_cst_temp",
        "gemm_9_mm__float16_exSecondary_cst_temp",
        "gemm_9_mm__float16_rs_weight_cst_temp",
    ]
    assert repr(node).startswith(f"<CustomOpNode {CUSTOM} ")


def test_text_of_an_attribute(control):
    """Without the quotes of JSON in which toolkits write it."""
    seen = []

    def copy(node, inputs, outputs):
        seen.append((node.attribute("i_dtype"), node.attribute("o_dtype")))
        outputs[0][...] = inputs[0]

    with Model(SOFTMAX, library="sim") as model:
        model.register_custom_op("exDataConvert", copy)
        run(model)
    assert seen == [("int8", "float16")]


def test_attributes_elsewhere(model):
    """Outside of its functions, and on other threads, a node answers nothing."""
    nodes, said = [], []

    def elsewhere(node):
        try:
            node.attribute("axis")
        except RuntimeError as error:
            said.append(str(error))

    def init(node):
        nodes.append(node)
        thread = threading.Thread(target=elsewhere, args=(node,))
        thread.start()
        thread.join()

    model.register_custom_op(CUSTOM, softmax, init=init)
    elsewhere(nodes[0])
    assert len(said) == 2 and all("inside init or compute" in text for text in said)
    with pytest.raises(RuntimeError):
        nodes[0].attribute("axis")


@pytest.mark.parametrize(
    ("name", "error"), [(5, TypeError), (None, TypeError), ("", ValueError), ("a\0", ValueError)]
)
def test_names_of_attributes(model, name, error):
    """A name that C cannot take raises in the function, and from there in the run."""

    def compute(node, inputs, outputs):
        node.attribute(name)

    model.register_custom_op(CUSTOM, compute)
    with pytest.raises(error, match="name: expected"):
        run(model)


class Stop(BaseException):
    """Nothing that `except Exception` takes."""


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("raised", [ValueError("x"), Stop(), KeyboardInterrupt(), MemoryError()])
def test_what_a_function_raises_the_run_raises(control, cls, raised):
    """The very object, with the failed run as its cause; the next run is as ever."""
    fails = [True]

    def compute(node, inputs, outputs):
        if fails.pop() if fails else False:
            raise raised
        softmax(node, inputs, outputs)

    with cls(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(CUSTOM, compute)
        with pytest.raises(type(raised)) as caught:
            run(model)
        assert caught.value is raised
        assert isinstance(caught.value.__cause__, OperationFailedError)
        run(model)


def test_ctrl_c_in_a_function(model):
    """A signal that arrives while it computes interrupts it, and so the run."""

    def compute(node, inputs, outputs):
        signal.raise_signal(signal.SIGINT)

    model.register_custom_op(CUSTOM, compute)
    with pytest.raises(KeyboardInterrupt):
        run(model)
    with pytest.raises(KeyboardInterrupt):
        model.run(FRAME)


def test_a_function_that_returns_something(model):
    """Functions write in place, so a return value, which would be lost, is refused."""
    model.register_custom_op(CUSTOM, lambda node, inputs, outputs: inputs[0])
    with pytest.raises(TypeError, match=r"expected None.*got ndarray"):
        run(model)


def test_what_is_not_written_is_zero(model):
    """Elements that a function leaves out are 0, not values of the last run."""
    written = [True]

    def compute(node, inputs, outputs):
        assert not outputs[0].any()
        if written.pop() if written else False:
            outputs[0][...] = 3

    model.register_custom_op(CUSTOM, compute)
    assert set(run(model).ravel()) == {3}
    assert not run(model).any()


def test_arrays_outlive_the_call(model):
    """Kept ones can be read and written after the run and the model; no run changes them."""
    kept = []

    def compute(node, inputs, outputs):
        softmax(node, inputs, outputs)
        kept.append((inputs, outputs))

    model.register_custom_op(CUSTOM, compute)
    first = run(model)
    copies = [array.copy() for array in (*kept[0][0], *kept[0][1])]
    model.run(np.zeros_like(FRAME))
    model.close()
    gc.collect()
    for array, copy in zip((*kept[0][0], *kept[0][1]), copies):
        assert array.tobytes() == copy.tobytes()
        array[...] = 1
    assert first.any()


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.run(FRAME),
        lambda model: model.input_memory().array(),
        lambda model: model.register_custom_op("other", softmax),
        lambda model: model.close(),
        lambda model: model.sdk_version,
        lambda model: model.output_f32(),
    ],
)
def test_a_function_cannot_use_its_model(model, use):
    """Neither on the thread of the run nor, where a runtime computes elsewhere, on another."""

    def compute(node, inputs, outputs):
        with pytest.raises(RuntimeError, match="reentrant"):
            use(model)
        softmax(node, inputs, outputs)

    model.register_custom_op(CUSTOM, compute)
    run(model)


def test_a_function_on_a_thread_of_the_runtime(model):
    """It computes, cannot call its model, and its exception reaches the run's thread."""
    said = []

    def compute(node, inputs, outputs):
        try:
            model.run()
        except RuntimeError as error:
            said.append(str(error))
        outputs[0][...] = inputs[0]
        raise KeyError("from the thread")

    model.register_custom_op(CUSTOM, compute)
    node = model._context.custom.by_type[CUSTOM].nodes[0]
    values = np.arange(4, dtype=np.float32)
    inputs, outputs = tensors(values), tensors(np.zeros_like(values))
    number = number_of(node)
    seen = {}

    def runtime():
        op_ctx = ffi.new("rknn_custom_op_context *", {"priv_data": ffi.cast("void *", number)})
        seen["status"] = lib.rkr_custom_op_compute(op_ctx, inputs[0], 1, outputs[0], 1)

    with model._context.lock:
        thread = threading.Thread(target=runtime)
        thread.start()
        thread.join()
        with pytest.raises(KeyError, match="from the thread"):
            model._context.check_run(-1, "rknn_run")
    assert seen["status"] == lib.RKNN_ERR_FAIL
    assert len(said) == 1 and "reentrant" in said[0]


def number_of(node):
    """The number that a runtime keeps in priv_data."""
    return next(key for key, value in operators._nodes.items() if value is node)


def tensors(values):
    """One tensor as a runtime gives it, and its memory."""
    memory = ffi.new("char[]", values.tobytes())
    found = ffi.new("rknn_custom_op_tensor[1]")
    found[0].attr.n_dims, found[0].attr.dims[0] = 1, values.size
    found[0].mem.virt_addr, found[0].mem.size = memory, values.nbytes
    return found, memory


@pytest.mark.parametrize(
    "change",
    [
        lambda t: setattr(t.attr, "n_dims", 17),
        lambda t: setattr(t.attr, "type", 10),
        lambda t: setattr(t.attr, "type", 12),
        lambda t: setattr(t.mem, "virt_addr", ffi.NULL),
        lambda t: setattr(t.mem, "offset", -1),
        lambda t: setattr(t.mem, "size", 15),
        lambda t: t.attr.dims.__setitem__(0, 2**32 - 1),
        lambda t: t.attr.dims.__setitem__(0, 0),
    ],
)
def test_a_tensor_that_makes_no_sense(model, change):
    """Is refused before anything of it is read; the function is not called."""
    called = []
    model.register_custom_op(CUSTOM, lambda *given: called.append(given))
    node = model._context.custom.by_type[CUSTOM].nodes[0]
    number = number_of(node)
    found, _memory = tensors(np.zeros(4, np.float32))
    change(found[0])
    op_ctx = ffi.new("rknn_custom_op_context *", {"priv_data": ffi.cast("void *", number)})
    assert lib.rkr_custom_op_compute(op_ctx, found, 1, found, 1) == lib.RKNN_ERR_FAIL
    with pytest.raises(RknnError):
        model._context.check_run(-1, "rknn_run")
    assert not called


def test_numbers_of_no_node(control):
    """A runtime that lost priv_data, or calls init when nothing is registered: both fail."""
    found, _memory = tensors(np.zeros(4, np.float32))
    for number in (0, 1 << 20, (1 << (8 * ffi.sizeof("void *"))) - 1):
        op_ctx = ffi.new("rknn_custom_op_context *", {"priv_data": ffi.cast("void *", number)})
        assert lib.rkr_custom_op_compute(op_ctx, found, 1, found, 1) == lib.RKNN_ERR_FAIL
        assert lib.rkr_custom_op_init(op_ctx, found, 1, found, 1) == lib.RKNN_ERR_FAIL


def test_init_and_destroy(control):
    """Once each per node: at once, and when the model was closed; data stay with the node."""
    events = []

    def init(node):
        node.data = "mine"
        events.append("init")

    def destroy(node):
        assert model.is_closed
        events.append(("destroy", node.data))

    with Model(CUSTOM_SOFTMAX, library="sim") as model:
        model.register_custom_op(CUSTOM, softmax, init=init, destroy=destroy)
        assert events == ["init"]
        run(model)
        run(model)
        assert events == ["init"]
    assert events == ["init", ("destroy", "mine")]
    model.close()
    assert len(events) == 2


def test_every_node_of_a_type_has_its_own(control):
    """Three MaxPools are told once each, compute each, and end."""
    begun, run_by, ended = [], [], []

    def pool(node, inputs, outputs):
        run_by.append(node)

    shapes = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
    with Model(shapes, library="sim") as model:
        model.register_custom_op("MaxPool", pool, init=begun.append, destroy=ended.append)
        model.run(np.zeros((320, 320, 3), np.uint8))
        assert len(begun) == 3 == len(set(map(id, begun)))
        assert run_by == begun
    assert sorted(map(id, ended)) == sorted(map(id, begun))


def test_an_init_that_raises(model):
    """The call raises it, which librknnrt would not hear; then another function may come."""

    def init(node):
        raise KeyError("no")

    with pytest.raises(KeyError, match="no"):
        model.register_custom_op(CUSTOM, softmax, init=init)
    with pytest.raises(OperationFailedError):
        run(model)
    model.register_custom_op(CUSTOM, softmax)
    run(model)


def test_a_destroy_that_raises(control):
    """The model is closed all the same, and close raises it."""

    def destroy(node):
        raise KeyError("no")

    model = Model(CUSTOM_SOFTMAX, library="sim")
    model.register_custom_op(CUSTOM, softmax, destroy=destroy)
    with pytest.raises(KeyError, match="no"):
        model.close()
    assert model.is_closed
    model.close()


def test_a_type_that_no_node_has(model):
    """Is no error, on librknnrt 2.3.2 neither; a second function for one type is."""
    model.register_custom_op("cstOther", softmax)
    model.register_custom_op(CUSTOM, softmax)
    with pytest.raises(ValueError, match=rf"op_type: expected .* got '{CUSTOM}' again"):
        model.register_custom_op(CUSTOM, softmax)
    run(model)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((5, softmax), {}, TypeError),
        ((b"x", softmax), {}, TypeError),
        (("", softmax), {}, ValueError),
        (("a\0b", softmax), {}, ValueError),
        (("x" * 256, softmax), {}, ValueError),
        (("x", None), {}, TypeError),
        (("x", 5), {}, TypeError),
        (("x", softmax), {"init": 5}, TypeError),
        (("x", softmax), {"destroy": "x"}, TypeError),
    ],
)
def test_wrong_arguments(control, model, arguments, options, error):
    """Refused before the runtime is asked."""
    with pytest.raises(error, match="expected"):
        model.register_custom_op(*arguments, **options)
    assert control.calls("rknn_register_custom_ops") == 0


def test_names_of_all_lengths(model):
    """255 bytes fit, with the NUL at their end; a surrogate of a file's bytes goes through."""
    model.register_custom_op("x" * 255, softmax)
    model.register_custom_op("\udcff", softmax)


def test_who_takes_none(control):
    """On librknnmrt there is no such function; duplicates neither have nor take operators."""
    with Model(recorded("rv1106").data, library="sim") as model, pytest.raises(UnavailableError):
        model.register_custom_op("x", softmax)
    with Model(CUSTOM_SOFTMAX, library="sim") as model:
        with model.duplicate() as twin, pytest.raises(UnavailableError, match="duplicate"):
            twin.register_custom_op(CUSTOM, softmax)
        model.register_custom_op(CUSTOM, softmax)
        with pytest.raises(UnavailableError, match="duplicates"):
            model.duplicate()
        run(model)
    with pytest.raises(ClosedError):
        model.register_custom_op(CUSTOM, softmax)


def test_a_function_that_knows_its_model(control):
    """The cycle is collected with everything in it; a dropped model calls no destroy."""
    called = []
    model = Model(CUSTOM_SOFTMAX, library="sim")
    model.register_custom_op(
        CUSTOM, lambda *given, me=model: softmax(*given), destroy=called.append
    )
    run(model)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None and not called


PLUGIN = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "decl/rknn_types.h"
#include "decl/rknn_custom_op.h"
static rknn_custom_op op;
extern void rknn_custom_op_get_op_attr(rknn_custom_op_context *, const char *,
                                       rknn_custom_op_attr *);
static int compute(rknn_custom_op_context *op_ctx, rknn_custom_op_tensor *inputs,
                   uint32_t n_inputs, rknn_custom_op_tensor *outputs, uint32_t n_outputs) {
    rknn_custom_op_attr axis;
    rknn_custom_op_get_op_attr(op_ctx, "axis", &axis);
    float *out = (float *)((char *)outputs[0].mem.virt_addr + outputs[0].mem.offset);
    for (uint32_t i = 0; i < outputs[0].attr.n_elems; i++) {
        out[i] = (float)(n_inputs + n_outputs + ((int64_t *)axis.data)[0]);
    }
    return STATUS;
}
#ifndef NO_FUNCTION
rknn_custom_op *get_rknn_custom_op(void) {
    strcpy(op.op_type, NAME);
    op.version = 1;
    op.target = TARGET;
    op.compute = COMPUTE;
    return OPERATOR;
}
#endif
"""
GOOD = {
    "NAME": f'"{CUSTOM}"', "COMPUTE": "compute", "TARGET": "1", "OPERATOR": "&op", "STATUS": "0",
}  # fmt: skip


def plugin(folder, **changes):
    defines = [f"{name}={value}" for name, value in {**GOOD, **changes}.items()]
    return stub.build(folder, *defines, source=PLUGIN)


def test_an_operator_in_a_shared_library(model, tmp_path):
    """In the vendor's form, which needs to be linked against nothing: 3 inputs, 1 output, axis."""
    assert model.register_custom_op_library(plugin(tmp_path)) == CUSTOM
    assert set(run(model).ravel()) == {5}
    with pytest.raises(ValueError, match="again"):
        model.register_custom_op_library(plugin(tmp_path))


def test_a_shared_library_that_fails(model, tmp_path):
    """Its status ends the run."""
    model.register_custom_op_library(plugin(tmp_path, STATUS="-5"))
    with pytest.raises(OperationFailedError, match="returned -5"):
        run(model)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"NO_FUNCTION": "1"}, "no function get_rknn_custom_op"),
        ({"OPERATOR": "NULL"}, "gives no operator"),
        ({"NAME": '""'}, "has no name"),
        ({"COMPUTE": "NULL"}, "has no compute"),
        ({"TARGET": "7"}, "has no target"),
    ],
)
def test_shared_libraries_without_an_operator(model, tmp_path, changes, reason):
    """Each error names the missing part; nothing is registered."""
    with pytest.raises(LibraryLoadError, match=reason):
        model.register_custom_op_library(plugin(tmp_path, **changes))
    model.register_custom_op(CUSTOM, softmax)


def test_an_operator_for_the_gpu(model, tmp_path):
    """None is simulated."""
    with pytest.raises(OperationFailedError, match="the emulated NPU has no GPU"):
        model.register_custom_op_library(plugin(tmp_path, TARGET="2"))


def test_what_is_no_shared_library(model, tmp_path):
    """Missing, empty, a folder, text, a name without a folder: told with the linker's reason."""
    text = tmp_path / "text.so"
    text.write_text("no library")
    empty = tmp_path / "empty.so"
    empty.write_bytes(b"")
    for path in (tmp_path / "missing.so", text, empty, tmp_path, "nothing.so", os.fspath(text)):
        with pytest.raises(LibraryLoadError, match=r"custom operator cannot be loaded"):
            model.register_custom_op_library(path)
    for wrong in (5, None, object()):
        with pytest.raises(TypeError):
            model.register_custom_op_library(wrong)
    with pytest.raises(ValueError, match="null"):
        model.register_custom_op_library("a\0b")


def test_dynamic_models_are_not_simulated(control):
    """Which node is which in another shape is not known to the simulation: it says so."""
    path = DATA / "models" / "dyn_in_rk3588.rknn"
    with (
        Model(path, library="sim") as model,
        pytest.raises(OperationFailedError, match="several shapes"),
    ):
        model.register_custom_op("x", softmax)


def test_the_c_functions_by_themselves(control):
    """NULL, no operators, none with compute, and contexts that are none."""
    with Model(renamed(SOFTMAX, STOCK, CUSTOM), library="sim") as model:
        context = model._context
        op = ffi.new("rknn_custom_op *", {"target": 1, "op_type": CUSTOM.encode()})
        register = lib.rkr_register_custom_ops
        assert register(context.handle, context.opened(), ffi.NULL, 1) == -5
        assert register(context.handle, context.opened(), op, 0) == -5
        assert register(context.handle, 0, op, 1) == -7
        assert register(context.handle, context.opened(), op, 1) == -5
        attr = ffi.new("rknn_custom_op_attr *")
        op_ctx = ffi.new("rknn_custom_op_context *")
        assert lib.rkr_custom_op_get_op_attr(context.handle, op_ctx, b"axis", attr) == 0
        assert attr.n_elems == 0
    assert control.violations == 2
    control.reset()
