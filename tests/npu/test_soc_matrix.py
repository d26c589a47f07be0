"""The answers of each SoC: a table of calls and SoCs, of the C functions and of the classes here.

The answers were measured on librknnrt and librknnmrt 2.3.2, or come from the vendor's guide. A call
that a class refuses must not reach the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bundles import changed, recorded
from sim_api import Api
from soc_answers import ANSWERS_IN_C, ANSWERS_IN_PYTHON

from rknn_runtime import (
    CoreMask,
    GeneralModel,
    InitFlag,
    Matmul,
    MatmulType,
    MemoryFlag,
    Model,
    TensorMemory,
    open_library,
)
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.errors import RknnStatusError, UnavailableError
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.npu import raw
from rknn_runtime.sim import Control

FRAME = np.zeros((1, 8, 20, 3), np.uint8)


def data(soc: str, shapes: int = 1) -> bytes:
    """A small image to a small map, in so many shapes."""
    return changed(recorded(soc).data, shapes, weight_bytes=64, internal_bytes=64)


# ---- in C ------------------------------------------------------------------------------


def init(flags: int) -> Callable[[str], int]:
    """The status of rknn_init."""

    def call(soc: str) -> int:
        api = Api(data(soc), flags)
        if api.context:
            api.destroy()
        return api.status

    return call


def share_weights(soc: str) -> int:
    with Api(data(soc)) as api:
        extend = ffi.new("rknn_init_extend *", {"ctx": api.context})
        content, context = data(soc), ffi.new("rknn_context *")
        model, flag = ffi.from_buffer(content), lib.RKNN_FLAG_SHARE_WEIGHT_MEM
        status = lib.rkr_init(api.handle, context, model, len(content), flag, extend)
        if status == 0:
            lib.rkr_destroy(api.handle, context[0])
        return int(status)


def duplicate(soc: str) -> int:
    with Api(data(soc)) as api:
        first, second = (ffi.new("rknn_context *", value) for value in (api.context, 0))
        status = lib.rkr_dup_context(api.handle, first, second)
        if status == 0:
            lib.rkr_destroy(api.handle, second[0])
        return int(status)


def asked(call: Callable[[Api], int], shapes: int = 1, flags: int = 0) -> Callable[[str], int]:
    """The status of a call of a model that is there."""

    def work(soc: str) -> int:
        with Api(data(soc, shapes), flags) as api:
            return int(call(api))

    return work


def core_mask(mask: int) -> Callable[[str], int]:
    return asked(lambda api: lib.rkr_set_core_mask(api.handle, api.context, mask))


def batch_cores(number: int) -> Callable[[str], int]:
    return asked(lambda api: lib.rkr_set_batch_core_num(api.handle, api.context, number))


def query(command: int, kind: str, shapes: int = 1) -> Callable[[str], int]:
    return asked(lambda api: api.query(command, ffi.new(kind + " *")), shapes)


def set_shapes(api: Api) -> int:
    attr = api.good_attr("in", "logical")
    return int(lib.rkr_set_input_shapes(api.handle, api.context, 1, attr))


def set_inputs(api: Api) -> int:
    given = {"index": 0, "buf": ffi.from_buffer(FRAME), "size": FRAME.nbytes, "type": 3, "fmt": 1}
    return api.inputs_set([given])


def get_outputs(api: Api) -> int:
    outputs = ffi.new("rknn_output[]", [{"want_float": 1}])
    status = api.outputs_get(outputs)
    if status == 0:
        api.outputs_release(outputs)
    return status


def inner(call: Any) -> Callable[[Api], int]:
    def work(api: Api) -> int:
        mem = api.create_mem(64)
        status = int(call(api.handle, api.context, mem))
        api.destroy_mem(mem)
        return status

    return work


def register(api: Api) -> int:
    op = ffi.new("rknn_custom_op *", {"version": 1, "target": 1, "op_type": b"cstOne"})
    op.compute = lib.rkr_custom_op_compute
    return int(lib.rkr_register_custom_ops(api.handle, api.context, op, 1))


def on(work: Callable[[], Any]) -> Callable[[str], Any]:
    """Do something where matrices are multiplied by a SoC."""

    def call(soc: str) -> Any:
        control = Control()
        before = control.soc
        control.set_soc(soc)
        try:
            return work()
        finally:
            control.set_soc(before)

    return call


def matmul(kind: MatmulType) -> Callable[[str], int]:
    def work() -> int:
        handle = open_library("sim").handle
        info = ffi.new("rknn_matmul_info *", {"M": 4, "K": 64, "N": 64, "type": int(kind)})
        attr, context = ffi.new("rknn_matmul_io_attr *"), ffi.new("rknn_context *")
        status = lib.rkr_matmul_create(handle, context, info, attr)
        if status == 0:
            lib.rkr_matmul_destroy(handle, context[0])
        return int(status)

    return on(work)


#: Each flag by its name, also in Pythons that iterate over the single bits alone.
FLAGS = {
    name: flag
    for name, flag in InitFlag.__members__.items()
    if flag not in (InitFlag.SHARE_WEIGHT_MEM, InitFlag.MODEL_BUFFER_ZERO_COPY)
}
IN_C: dict[str, Callable[[str], int]] = {
    **{f"core mask {mask:#x}": core_mask(mask) for mask in (0, 1, 2, 3, 4, 5, 6, 7, 64, 0xFFFF)},
    **{f"batch cores {number}": batch_cores(number) for number in (0, 1, 2, 3, 4)},
    **{f"init {name}": init(int(flag)) for name, flag in FLAGS.items()},
    "init SHARE_WEIGHT_MEM": share_weights,
    "dup_context": duplicate,
    "set_input_shapes of one": asked(set_shapes),
    "set_input_shapes of two": asked(set_shapes, 2),
    "dynamic range of one": query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, "rknn_input_range"),
    "dynamic range of two": query(lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE, "rknn_input_range", 2),
    "inputs_set": asked(set_inputs),
    "outputs_get": asked(get_outputs),
    "outputs_release": asked(lambda api: api.outputs_release(ffi.new("rknn_output[1]"))),
    "perf_detail": query(lib.RKNN_QUERY_PERF_DETAIL, "rknn_perf_detail"),
    "perf_run": query(lib.RKNN_QUERY_PERF_RUN, "rknn_perf_run"),
    "device_memory": query(lib.RKNN_QUERY_DEVICE_MEM_INFO, "rknn_mem_size"),
    "set_internal_mem": asked(inner(lib.rkr_set_internal_mem)),
    "set_internal_mem, outside": asked(inner(lib.rkr_set_internal_mem), flags=0x10),
    "set_weight_mem, outside": asked(inner(lib.rkr_set_weight_mem), flags=0x10),
    "run": asked(lambda api: api.run()),
    "wait": asked(lambda api: lib.rkr_wait(api.handle, api.context, ffi.NULL)),
    "register_custom_ops": asked(register),
    **{f"matmul {kind.name}": matmul(kind) for kind in MatmulType},
}

# ---- in Python -------------------------------------------------------------------------


def made(flags: InitFlag, cls: Any = Model) -> Callable[[str], object]:
    return lambda soc: cls(data(soc), library="sim", flags=flags).close()


def of(use: Callable[[Any], object], cls: Any = Model, shapes: int = 1, flags: Any = 0) -> Any:
    """The answer of a model of the SoC."""

    def call(soc: str) -> None:
        with cls(data(soc, shapes), library="sim", flags=flags) as model:
            use(model)

    return call


def shared(soc: str) -> None:
    with Model(data(soc), library="sim") as first:
        Model(data(soc), library="sim", share_weights_with=first).close()


def product(kind: MatmulType) -> Callable[[str], object]:
    return on(lambda: Matmul(4, 64, 64, kind, library="sim").close())


def run_and(ask: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda model: (model.run(FRAME), ask(model))


def nothing(*_: object) -> None:
    pass


OUTSIDE = InitFlag.MEM_ALLOC_OUTSIDE
#: The call, and the runtime's function for it.
IN_PYTHON: dict[str, tuple[str, Callable[[str], object]]] = {
    **{
        f"set_core_mask {name}": ("set_core_mask", of(lambda m, mask=mask: m.set_core_mask(mask)))
        for name, mask in CoreMask.__members__.items()
    },
    **{
        f"set_batch_core_num {n}": (
            "set_batch_core_num",
            of(lambda m, n=n: m.set_batch_core_num(n)),
        )
        for n in (1, 2, 3)
    },
    **{
        f"{cls.__name__} {name}": ("init", made(flag, cls))
        for cls in (Model, GeneralModel)
        for name, flag in FLAGS.items()
    },
    "share_weights_with": ("set_weight_mem", shared),
    "duplicate": ("dup_context", of(lambda m: m.duplicate().close())),
    "duplicate of a GeneralModel": (
        "dup_context",
        of(lambda m: m.duplicate().close(), GeneralModel),
    ),
    "set_input_shapes of one": (
        "set_input_shapes",
        of(lambda m: m.set_input_shapes([FRAME.shape])),
    ),
    "Model.run": ("run", of(lambda m: m.run(FRAME))),
    "GeneralModel.run": ("inputs_set", of(lambda m: m.run(FRAME), GeneralModel)),
    "perf_detail": ("query", of(run_and(lambda m: m.perf_detail()))),
    "last_run_us": ("query", of(run_and(lambda m: m.last_run_us))),
    "device_memory": ("query", of(lambda m: m.device_memory())),
    "register_custom_op": (
        "register_custom_ops",
        of(lambda m: m.register_custom_op("cstA", nothing)),
    ),
    "set_internal_memory": (
        "set_internal_mem",
        of(lambda m: m.set_internal_memory(TensorMemory(m, 64))),
    ),
    "set_internal_memory, outside": (
        "set_internal_mem",
        of(lambda m: m.set_internal_memory(TensorMemory(m, 64)), flags=OUTSIDE),
    ),
    "set_weight_memory, outside": (
        "set_weight_mem",
        of(lambda m: m.set_weight_memory(TensorMemory(m, 64)), flags=OUTSIDE),
    ),
    "sync_to_device": ("mem_sync", of(lambda m: m.input_memory().sync_to_device())),
    "TensorMemory flags": (
        "create_mem2",
        of(lambda m: TensorMemory(m, 64, flags=MemoryFlag.CACHEABLE)),
    ),
    "raw.start": ("wait", of(lambda m: raw.start(m).wait(), flags=InitFlag.FENCE_OUT_OUTSIDE)),
    "raw.wait": ("wait", of(raw.wait)),
    **{f"Matmul {kind.name}": ("matmul_create", product(kind)) for kind in MatmulType},
}

STATUSES = {0: ".", -1: "1", -5: "5", -6: "6"}
LETTERS = {
    "UnavailableError": "U",
    "ValueError": "V",
    "OperationFailedError": "F",
    "InvalidParameterError": "P",
}


@pytest.mark.parametrize("soc", SOCS)
def test_what_the_c_functions_answer(control, soc):
    """As the runtime of each SoC; nothing is left of any call."""
    column = list(SOCS).index(soc)
    expected = {name: row[column] for name, row in ANSWERS_IN_C.items()}
    assert {name: STATUSES.get(call(soc), "?") for name, call in IN_C.items()} == expected
    assert control.live == (0, 0, 0)
    control.reset()  # some are violations


@pytest.mark.parametrize("soc", SOCS)
def test_what_python_answers(control, soc):
    """Refused calls never reach the runtime, and no call leaves anything."""
    column = list(SOCS).index(soc)
    expected = {name: row[column] for name, row in ANSWERS_IN_PYTHON.items()}
    found = {}
    for name, (function, call) in IN_PYTHON.items():
        control.reset()
        found[name] = "."
        try:
            call(soc)
        except (RknnStatusError, ValueError, UnavailableError) as error:
            found[name] = LETTERS.get(type(error).__name__, "?")
            if not isinstance(error, RknnStatusError):
                assert control.calls(f"rknn_{function}") == 0, name
    assert found == expected
    assert control.live == (0, 0, 0)
