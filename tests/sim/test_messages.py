"""Every call that fails on the simulated NPU says why, in its log and in Python's exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bundles import recorded
from sim_api import Api, computed_bundle

from rknn_runtime import GeneralModel, Model
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import RknnStatusError
from rknn_runtime.sim import Control, describe_input, describe_output

NULL = ffi.NULL
FRAME = np.zeros((1, 8, 20, 3), np.uint8)

pytestmark = pytest.mark.usefixtures("control")


@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_a_failed_run_says_what_the_simulated_npu_said(kind: type[Any]) -> None:
    """Not that there is no reason."""
    case = recorded(input_arrays=[FRAME])
    with kind(case.data, library="sim") as model:
        model.run(FRAME)
        with pytest.raises(RknnStatusError, match="none of the 1 recorded inputs") as caught:
            model.run(~FRAME)
    assert "no reason" not in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        "rknn_init", "rknn_query", "rknn_create_mem", "rknn_set_io_mem", "rknn_mem_sync",
        "rknn_run", "rknn_destroy_mem", "rknn_destroy", "rknn_set_core_mask",
        "rknn_inputs_set", "rknn_outputs_get", "rknn_outputs_release",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Model, GeneralModel])
def test_the_exception_of_any_call_has_the_reason(
    kind: type[Any], function: str, control: Control
) -> None:
    """Also of those that load and close a model."""
    case = recorded()
    control.fail(function, nth=0, code=-1)
    try:
        with kind(case.data, library="sim", core_mask=1) as model:
            model.run(FRAME)
    except RknnStatusError as error:
        assert f"{function} fails with -1 on demand" in str(error)
    else:
        assert control.calls(function) == 0
    control.reset()
    assert control.live == (0, 0, 0)


def attr(index: int = 0) -> Any:
    return ffi.new("rknn_tensor_attr *", {"index": index})


#: What fails, on both runtimes or on one, and a part of the reason.
FAILURES: list[tuple[str, Callable[[Api], int], str]] = [
    ("both", lambda api: api.query(lib.RKNN_QUERY_INPUT_ATTR, attr(7)), "index 7, the model has"),
    ("both", lambda api: api.query(99, attr()), "command 99"),
    ("both", lambda api: api.query(lib.RKNN_QUERY_SDK_VERSION, attr(), 3), "into 3 bytes"),
    ("both", lambda api: api.query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, ffi.new(
        "rknn_input_range *")), "does not answer command 13"),
    ("rk3588", lambda api: api.query(lib.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR, attr()),
     "no shape was set"),
    ("rk3588", lambda api: api.query(lib.RKNN_QUERY_DEVICE_MEM_INFO, attr()), "command 12"),
    ("rv1106", lambda api: api.query(lib.RKNN_QUERY_PERF_RUN, ffi.new("rknn_perf_run *")),
     "does not answer command 4"),
    ("both", lambda api: api.set_io_mem(NULL, attr()), "is NULL"),
    ("both", lambda api: api.sync(NULL, 1), "is NULL"),
    ("rv1106", lambda api: api.inputs_set([{}]), "only the zero-copy flow"),
    ("rk3588", lambda api: api.inputs_set([{"index": 5}]), "input 5 of 1"),
    ("rk3588", lambda api: api.inputs_set([{}, {}]), "2 tensors"),
    ("rk3588", lambda api: api.outputs_get(ffi.new("rknn_output[1]")), "nothing was run"),
    ("rv1106", lambda api: api.outputs_get(ffi.new("rknn_output[1]")), "only the zero-copy flow"),
    ("rk3588", lambda api: lib.rkr_set_batch_core_num(api.handle, api.context, 9), "9 cores on"),
    ("rk3588", lambda api: lib.rkr_set_core_mask(api.handle, api.context, 64), "mask 64"),
    ("rk3588", lambda api: lib.rkr_set_input_shapes(api.handle, api.context, 1, attr()),
     "one shape only"),
    ("rv1106", lambda api: lib.rkr_set_input_shapes(api.handle, api.context, 1, attr()),
     "no dynamic shapes"),
    ("rv1106", lambda api: lib.rkr_dup_context(api.handle, ffi.new(
        "rknn_context *", api.context), ffi.new("rknn_context *")), "does not implement it"),
    ("both", lambda api: api.run(), "nobody gave it an executor"),
]  # fmt: skip


@pytest.mark.parametrize("soc", ["rk3588", "rv1106"])
def test_a_call_that_fails_logs_its_own_reason(soc: str, control: Control) -> None:
    """The reason never belongs to an earlier call."""
    bundle = computed_bundle(
        [describe_input("x", (1, 4), soc=soc)], [describe_output("y", (1, 4), soc=soc)], soc
    )
    with Api(bundle) as api:
        mem = api.bind("in", pass_through=int(soc == "rk3588"))
        for where, call, reason in FAILURES:
            if where in (soc, "both"):
                control.reset()
                assert call(api) < 0, reason
                assert reason in control.last_message
                assert control.last_message.startswith("rknn_")
        api.set_executor(lambda *_: -3)
        assert api.run() == -3
        assert control.last_message == "rknn_run: the executor returned -3"
        assert api.destroy_mem(mem) == 0
