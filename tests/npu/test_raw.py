"""Calls of the C API one by one."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from bundles import recorded
from forks import in_child

from rknn_runtime import GeneralModel, Matmul, MatmulType, Model, open_library
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import (
    ClosedError,
    ForkError,
    InvalidParameterError,
    OperationFailedError,
    RknnStatusError,
    RknnTimeoutError,
    UnavailableError,
)
from rknn_runtime.npu import raw


def test_which_functions_a_library_has():
    """The simulated runtime has all of the API."""
    found = raw.functions(open_library("sim"))
    assert len(found) == 34 and all(found.values())
    with pytest.raises(TypeError, match="library: expected a Library"):
        raw.functions("sim")


SDK_VERSION, IN_OUT_NUM, INPUT_ATTR = 5, 0, 1


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_queries_are_the_runtimes_own_bytes(control, soc):
    """As the structs of C; the index of an attribute goes in with it."""
    case = recorded(soc)
    with Model(case.data, library="sim") as model:
        assert struct.unpack("II", raw.query(model, IN_OUT_NUM)) == (1, 1)
        assert raw.query(model, SDK_VERSION).startswith(model.sdk_version.api.encode())
        attr = ffi.new("rknn_tensor_attr *")
        ffi.memmove(attr, raw.query(model, INPUT_ATTR, index=0), ffi.sizeof(attr[0]))
        assert ffi.string(attr.name).decode() == model.inputs[0].name
        with pytest.raises(InvalidParameterError, match=r"rknn_query\(1, index 7, 376 bytes\)"):
            raw.query(model, INPUT_ATTR, index=7)
        with pytest.raises(InvalidParameterError):
            raw.query(model, INPUT_ATTR, size=8)
        with pytest.raises(InvalidParameterError):
            raw.query(model, 1000)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((3,), {}, ValueError),
        ((-1,), {}, ValueError),
        ((2**31,), {}, ValueError),
        (("5",), {}, TypeError),
        ((5,), {"size": 3}, ValueError),
        ((5,), {"size": 2**17}, ValueError),
        ((1,), {"index": -1}, ValueError),
        ((1,), {"index": 1.5}, TypeError),
    ],
)
def test_wrong_queries(control, arguments, options, error):
    """A query whose answer is a pointer is none of them; the runtime is not called."""
    with Model(recorded().data, library="sim") as model:
        before = control.calls("rknn_query")
        with pytest.raises(error):
            raw.query(model, *arguments, **options)
        assert control.calls("rknn_query") == before


def test_a_run_takes_as_long_as_it_may(control):
    """With a timeout the NPU's failure to keep it is an exception; the next run is as ever."""
    case = recorded()
    with Model(case.data, library="sim") as model:
        model.input_view()[...] = 7
        raw.run(model, frame_id=2**64 - 1, timeout_ms=1000)
        control.set_latency(5000)
        with pytest.raises(RknnTimeoutError, match=r"rknn_run\(timeout_ms=1\)"):
            raw.run(model, timeout_ms=1)
        raw.run(model)
        assert np.array_equal(model.output_f32(), case.expected[0])


def test_a_run_that_nobody_can_wait_for_is_refused(control):
    """As no runtime has rknn_wait: 1.5.2 and 2.3.2 fail it."""
    with Model(recorded().data, library="sim") as model:
        with pytest.raises(UnavailableError, match="rknn_wait"):
            raw.run(model, non_block=True)
        with pytest.raises(OperationFailedError, match="rknn_wait"):
            raw.wait(model, timeout_ms=5)
        extend = ffi.new("rknn_run_extend *", {"non_block": 1})
        context = model._context
        assert lib.rkr_run(context.handle, context.opened(), extend) == 0
    assert "nobody knows when the outputs are there" in control.last_violation
    control.reset()


CALLS = {
    "query": lambda model: raw.query(model, SDK_VERSION),
    "run": lambda model: raw.run(model),
    "wait": lambda model: raw.wait(model),
}


@pytest.mark.parametrize("call", CALLS)
def test_misuse(control, call):
    """No model, a closed one, one of another process."""
    for wrong in (None, 5, object(), b""):
        with pytest.raises(TypeError, match="model: expected a Model"):
            CALLS[call](wrong)
    with Model(recorded().data, library="sim") as model:

        def refused():
            with pytest.raises(ForkError):
                CALLS[call](model)

        in_child(refused)
    with pytest.raises(ClosedError):
        CALLS[call](model)


def test_the_copying_flow_in_three_calls(control):
    """As in one: once set, a model runs and is read as often as wanted."""
    case = recorded()
    frame = np.zeros((1, 8, 20, 3), np.uint8)
    with GeneralModel(case.data, library="sim") as model:
        raw.inputs_set(model, frame)
        for _ in range(3):
            raw.run(model)
            (output,) = raw.outputs_get(model)
            assert np.array_equal(output, case.expected[0])
        (elements,) = raw.outputs_get(model, float_outputs=False)
        assert np.array_equal(elements, case.arrays[0])
        with pytest.raises(TypeError, match="inputs: expected 1 input"):
            raw.inputs_set(model)
        with pytest.raises(ValueError, match="input 0"):
            raw.inputs_set(model, frame[:, :4])
        with pytest.raises(TypeError):
            raw.inputs_set(model, None)
        for call, name in ((raw.outputs_get, "get"), (lambda m: raw.inputs_set(m, frame), "set")):
            for code in (*range(-16, 0), -999):
                control.fail(f"rknn_{'outputs' if name == 'get' else 'inputs'}_{name}", 1, code)
                with pytest.raises(RknnStatusError) as caught:
                    call(model)
                assert caught.value.code == code
    for call in (raw.outputs_get, lambda m: raw.inputs_set(m, frame)):
        with pytest.raises(ClosedError):
            call(model)
        with pytest.raises(TypeError, match="model: expected a GeneralModel"):
            call(None)


@pytest.mark.parametrize("mode", [1, 2, 3])
def test_syncs_in_every_direction(control, mode):
    """One call of the runtime each; a closed memory and other modes are refused before it."""
    with Model(recorded().data, library="sim") as model:
        memory = model.input_memory()
        before = control.calls("rknn_mem_sync")
        raw.mem_sync(memory, mode)
        assert control.calls("rknn_mem_sync") == before + 1
        for wrong, error in (
            (0, ValueError),
            (4, ValueError),
            (2**40, ValueError),
            ("1", TypeError),
        ):
            with pytest.raises(error, match="mode: expected"):
                raw.mem_sync(memory, wrong)
        with pytest.raises(TypeError, match="memory: expected a TensorMemory"):
            raw.mem_sync(model, mode)
        assert control.calls("rknn_mem_sync") == before + 1
    with pytest.raises(ClosedError):
        raw.mem_sync(memory, mode)


def test_the_scale_that_a_runtime_tells(control):
    """0, on librknnrt 2.3.2; of no other matrix and no other object."""
    with Matmul(4, 64, 64, MatmulType.INT8_MM_INT8_TO_INT32, library="sim") as matmul:
        assert [raw.matmul_get_quant_params(matmul, name) for name in "ABC"] == [0, 0, 0]
        for wrong in ("D", "", None, 5):
            with pytest.raises(ValueError, match="matrix: expected"):
                raw.matmul_get_quant_params(matmul, wrong)
        with pytest.raises(TypeError, match="matmul: expected a Matmul"):
            raw.matmul_get_quant_params(None, "A")
        control.fail("rknn_matmul_get_quant_params", 1, -5)
        with pytest.raises(InvalidParameterError):
            raw.matmul_get_quant_params(matmul, "A")
    with pytest.raises(ClosedError):
        raw.matmul_get_quant_params(matmul, "A")
