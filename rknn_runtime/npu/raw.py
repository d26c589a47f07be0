"""Single calls of the C API, checked, for everything that no class covers.

A model stands for its context, so that no handle and no pointer can be wrong. Calls that could
reach memory out of bounds are refused. Every call raises `ClosedError`, `ForkError`, `RuntimeError`
and `RknnStatusError` as the methods of a `Model` do.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, SupportsIndex

from rknn_runtime._arrays import Array, as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.loaded import LoadedModel
from rknn_runtime.npu.matmul import Matmul
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.model import Model
from rknn_runtime.npu.query import is_mini, sdk_version

__all__ = [
    "Flight",
    "functions",
    "inputs_set",
    "matmul_get_quant_params",
    "mem_sync",
    "outputs_get",
    "query",
    "run",
    "start",
    "wait",
]


#: Of the C API, by the name behind ``rknn_``.
_FUNCTIONS = (
    "create_mem", "create_mem2", "create_mem_from_fd", "create_mem_from_mb_blk",
    "create_mem_from_phys", "custom_op_get_op_attr", "destroy", "destroy_mem", "dup_context",
    "init", "inputs_set", "matmul_create", "matmul_create_dynamic_shape", "matmul_destroy",
    "matmul_get_quant_params", "matmul_run", "matmul_set_core_mask", "matmul_set_dynamic_shape",
    "matmul_set_io_mem", "matmul_set_quant_params", "mem_sync", "outputs_get", "outputs_release",
    "query", "register_custom_ops", "run", "set_batch_core_num", "set_core_mask",
    "set_input_shape", "set_input_shapes", "set_internal_mem", "set_io_mem", "set_weight_mem",
    "wait",
)  # fmt: skip
#: Bytes that a query fills; an attribute begins with its index.
_ATTR = ffi.sizeof("rknn_tensor_attr")
_SIZES = {
    lib.RKNN_QUERY_IN_OUT_NUM: ffi.sizeof("rknn_input_output_num"),
    lib.RKNN_QUERY_INPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_OUTPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_PERF_RUN: ffi.sizeof("rknn_perf_run"),
    lib.RKNN_QUERY_SDK_VERSION: ffi.sizeof("rknn_sdk_version"),
    lib.RKNN_QUERY_MEM_SIZE: ffi.sizeof("rknn_mem_size"),
    lib.RKNN_QUERY_CUSTOM_STRING: ffi.sizeof("rknn_custom_string"),
    lib.RKNN_QUERY_NATIVE_INPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_NATIVE_OUTPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_INPUT_DYNAMIC_RANGE: ffi.sizeof("rknn_input_range"),
    lib.RKNN_QUERY_CURRENT_INPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_CURRENT_OUTPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR: _ATTR,
    lib.RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR: _ATTR,
}
#: Bytes offered to queries whose struct is unknown.
_MOST_BYTES = 1 << 16
_INT32 = 2**31 - 1
#: The first runtime whose fences are known to work.
_FIRST_WITH_FENCES = (2, 3, 2)


def functions(library: Library) -> dict[str, bool]:
    """Return whether a library has each function of the C API, by name."""
    if not isinstance(library, Library):
        raise TypeError(f"library: expected a Library, got {type(library).__name__}")
    return {f"rknn_{name}": library.has(f"rknn_{name}") for name in _FUNCTIONS}


def query(
    model: LoadedModel,
    command: SupportsIndex,
    *,
    index: SupportsIndex = 0,
    size: SupportsIndex | None = None,
) -> bytes:
    """Call ``rknn_query``.

    Args:
        model: A `Model` or a `GeneralModel`.
        command: The number of the query; not 3, whose answer is a pointer: use
            ``model.perf_detail()``.
        index: Of the input or output, if the query is about one.
        size: Bytes of the struct, as told to the runtime; None: the known size, or 65536. The
            buffer has 65536 bytes in any case.

    Returns:
        The struct.

    Raises:
        ValueError: A number out of range, or the query 3.
    """
    number = as_int(command, "command", 0, _INT32)
    if number == lib.RKNN_QUERY_PERF_DETAIL:
        raise ValueError("command: expected no query for a pointer, got 3: call perf_detail")
    position = as_int(index, "index", 0, 2**32 - 1)
    told = _SIZES.get(number, _MOST_BYTES)
    if size is not None:
        told = as_int(size, "size", 4, _MOST_BYTES)
    info = ffi.new("uint8_t[]", _MOST_BYTES)
    ffi.cast("uint32_t *", info)[0] = position
    context = _context(model)
    status = context.query(number, info, told)
    context.check_status(status, f"rknn_query({number}, index {position}, {told} bytes)")
    return bytes(ffi.buffer(info, told))


def run(
    model: LoadedModel,
    *,
    frame_id: SupportsIndex = 0,
    timeout_ms: SupportsIndex = 0,
    non_block: bool = False,
    fence_fd: SupportsIndex | None = None,
) -> None:
    """Call ``rknn_run`` with ``rknn_run_extend``, on the present contents of the input memory.

    Args:
        model: A `Model`, whose memory is bound. Sync its inputs and outputs with
            ``sync_to_device`` and ``sync_from_device`` of their memories if needed.
        frame_id: Your number, for the runtime's log.
        timeout_ms: The longest time that the NPU may take; 0: no limit.
        non_block: True is refused: use `start`, whose result waits for the run.
        fence_fd: With ``FENCE_IN_OUTSIDE``, the descriptor of a fence (a ``sync_file``, as cameras
            and GPUs give them) that the NPU waits for; it stays yours. The driver waits for 6,000
            ticks of its clock, and then runs anyway.

    Raises:
        RknnStatusError: The runtime failed; `RknnTimeoutError` after the time.
        RuntimeError: Also if `set_input_shapes` is at work or has failed, or you have to bind a
            memory first.
        UnavailableError: ``non_block``, or a fence for a runtime whose fences are not known.
        ValueError: A number out of range; a fence without that flag, or the flag without one.
    """
    extend = _extend(frame_id, timeout_ms)
    context = _context(model)
    extend.fence_fd = checked_fence(model, fence_fd)
    if not isinstance(non_block, bool):
        raise TypeError(f"non_block: expected a bool, got {type(non_block).__name__}")
    if non_block:
        raise UnavailableError(
            "non_block: expected False, because rknn_wait needs a fence: use "
            "rknn_runtime.npu.raw.start"
        )
    with context.lock:
        model._check_ready()
        status = lib.rkr_run(context.handle, context.opened(), extend)
        context.check_run(status, f"rknn_run(timeout_ms={extend.timeout_ms})")


def wait(model: LoadedModel, *, frame_id: SupportsIndex = 0, timeout_ms: SupportsIndex = 0) -> None:
    """Call ``rknn_wait`` without a run in flight, which fails; `Flight.wait` waits for a run.

    Args:
        model: A `Model` or a `GeneralModel`.
        frame_id: Of the run.
        timeout_ms: The longest time to wait; 0: no limit.

    Raises:
        UnavailableError: The runtime has no such function.
    """
    extend = _extend(frame_id, timeout_ms)
    context = _context(model)
    with context.lock:
        status = lib.rkr_wait(context.handle, context.opened(), extend)
        context.check_status(status, "rknn_wait")


def checked_fence(model: LoadedModel, fence_fd: SupportsIndex | None) -> int:
    """Check a fence for the next run; return its descriptor, -1 for none."""
    takes_fence = bool(model._flags & InitFlag.FENCE_IN_OUTSIDE)
    if fence_fd is None and not takes_fence:
        return -1
    if not takes_fence:
        raise ValueError(
            "fence_fd: expected None, as the model was made without InitFlag.FENCE_IN_OUTSIDE, "
            f"got {fence_fd!r}"
        )
    if fence_fd is None:  # the runtime would take the last one, or none that the driver knows
        raise ValueError(
            "fence_fd: expected a descriptor, as the model was made with FENCE_IN_OUTSIDE, got None"
        )
    require_fences(model._context, "fence_fd")
    return as_int(fence_fd, "fence_fd", 0, _INT32)


def require_fences(context: Context, what: str) -> None:
    """Raise `UnavailableError` unless the runtime's fences are known to work."""
    version = sdk_version(context).api
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    known = match is not None and tuple(map(int, match.groups())) >= _FIRST_WITH_FENCES
    if not known or is_mini(context):
        raise UnavailableError(
            f"{what} needs librknnrt 2.3.2 or newer, as fences of others are not known, got "
            f"{version}; call run in a thread, the GIL is released meanwhile"
        )


def _extend(frame_id: SupportsIndex, timeout_ms: SupportsIndex) -> Any:
    extend = ffi.new("rknn_run_extend *")
    extend.frame_id = as_int(frame_id, "frame_id", 0, 2**64 - 1)
    extend.timeout_ms = as_int(timeout_ms, "timeout_ms", 0, _INT32)
    extend.fence_fd = -1
    return extend


def _context(model: LoadedModel) -> Context:
    if not isinstance(model, LoadedModel):
        raise TypeError(f"model: expected a Model or a GeneralModel, got {type(model).__name__}")
    return model._context


class Flight:
    """A run that `start` began. Not for direct use.

    Until `wait` has returned, the model refuses everything except `Model.close`, which waits. If
    you drop this object, the next call of the model waits instead.
    """

    def __init__(self, model: Model) -> None:
        self._model = model  # kept alive, because its memory is in use
        self._context: Context = model._context

    def __repr__(self) -> str:
        return f"<Flight {'over' if self.is_over else 'not waited for'}>"

    @property
    def is_over(self) -> bool:
        """Whether `wait` has returned. No runtime reports whether the NPU is still at work."""
        flight = self._context.flight
        return flight is None or flight() is not self

    def wait(self) -> None:
        """Wait until the outputs are there; does nothing if the run is over.

        Then call ``sync_from_device`` of the outputs' memories if needed. The GIL is released
        meanwhile; like a run itself, it cannot be interrupted.

        Raises:
            RknnStatusError: The run failed; `RknnTimeoutError` if it was not over after a
                minute. Closing the model then releases nothing.
        """
        context = self._context
        with context.lock:
            if not self.is_over:
                context.check_run(context.land(), "rknn_wait")


def start(
    model: Model, *, frame_id: SupportsIndex = 0, fence_fd: SupportsIndex | None = None
) -> Flight:
    """Call ``rknn_run`` with ``non_block``, on the present contents of the input memory.

    librknnrt 2.3.2 was seen under emulation to do this: with ``FENCE_OUT_OUTSIDE`` the NPU's
    driver gives a fence, which the runtime keeps and ``rknn_wait`` waits for, once. Without that
    flag ``rknn_wait`` fails. No board has run this yet.

    Args:
        model: Made with ``flags=InitFlag.FENCE_OUT_OUTSIDE``. Sync its inputs with
            ``sync_to_device`` if needed. Do not write to views of its memory while it runs.
        frame_id: Your number, for the runtime's log.
        fence_fd: As in `run`; the run waits for that fence.

    Returns:
        An object that waits for the run.

    Raises:
        RuntimeError: Also if a run is in flight, or you have to bind a memory first.
        UnavailableError: A runtime whose ``rknn_wait`` is not known to wait.
        ValueError: A model without that flag, a number out of range, or a fence as in `run`.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model: expected a Model, got {type(model).__name__}")
    number = as_int(frame_id, "frame_id", 0, 2**64 - 1)
    context = model._context
    if not model._flags & InitFlag.FENCE_OUT_OUTSIDE:
        raise ValueError(
            "model: expected one with flags=InitFlag.FENCE_OUT_OUTSIDE, without which nobody can "
            f"wait for a run, got {model._flags!r}"
        )
    _refuse_operators(context)
    require_fences(context, "non_block")
    fence = checked_fence(model, fence_fd)
    flight = Flight(model)
    with context.lock:
        context.check_open()
        _refuse_operators(context)  # again, because another thread may have registered one
        model._frame.check_ready()
        # Set before the call, so that a signal cannot leave an unnoted run in flight.
        context.flight = weakref.ref(flight)
        status = context.start(number, fence)
        if status:
            context.flight = None
        context.check_run(status, "rknn_run(non_block)")
    return flight


def _refuse_operators(context: Context) -> None:
    if context.custom is not None:
        raise ValueError(
            "model: expected one without custom operators, as they compute within a call of run, "
            "got one that has some"
        )


_MODES = (
    lib.RKNN_MEMORY_SYNC_TO_DEVICE,
    lib.RKNN_MEMORY_SYNC_FROM_DEVICE,
    lib.RKNN_MEMORY_SYNC_BIDIRECTIONAL,
)


def inputs_set(model: GeneralModel, *inputs: Array) -> None:
    """Call ``rknn_inputs_set``; then call `run` and `outputs_get`, once or several times.

    Args:
        model: The model.
        *inputs: As for `GeneralModel.run`; the runtime copies them.

    Raises:
        RuntimeError: Also if `set_input_shapes` is at work or has failed.
        ValueError: Another shape, or not C-contiguous.
    """
    context = _general(model)._context
    with context.lock:
        model._check_ready()
        handle = context.opened()
        model._check_count(inputs)
        model._set(handle, inputs)


def outputs_get(model: GeneralModel, *, float_outputs: bool = True) -> list[Array]:
    """Call ``rknn_outputs_get``, copy the outputs, and call ``rknn_outputs_release``.

    Args:
        model: The model, after a run.
        float_outputs: As for `GeneralModel.run`.

    Returns:
        One array per output, as `GeneralModel.run` returns them: copies.

    Raises:
        RknnError: The runtime returned another number of bytes than an output has.
        RuntimeError: Also if `set_input_shapes` is at work or has failed.
    """
    context = _general(model)._context
    with context.lock:
        model._check_ready()
        handle = context.opened()
        places = range(len(model.outputs))
        arrays = model._output_arrays(bool(float_outputs), None, places)
        model._get(handle, bool(float_outputs), dict(zip(places, arrays)))
    return arrays


def mem_sync(memory: TensorMemory, mode: SupportsIndex) -> None:
    """Call ``rknn_mem_sync``.

    Args:
        memory: A memory of a model, or your own.
        mode: 1 to the device, 2 from it, 3 both.

    Raises:
        UnavailableError: The runtime has no such function: its caches are coherent.
        ValueError: Another mode.
    """
    if not isinstance(memory, TensorMemory):
        raise TypeError(f"memory: expected a TensorMemory, got {type(memory).__name__}")
    number = as_int(mode, "mode", min(_MODES), max(_MODES))
    memory._context.library.require("rknn_mem_sync")
    memory._sync(number)


def matmul_get_quant_params(matmul: Matmul, matrix: str) -> float:
    """Call ``rknn_matmul_get_quant_params``.

    Args:
        matmul: The product.
        matrix: ``"A"``, ``"B"`` or ``"C"``.

    Returns:
        The runtime's scale for the whole matrix; librknnrt 2.3.2 gave 0.

    Raises:
        UnavailableError: The runtime has no such function.
        ValueError: No such matrix.
    """
    if not isinstance(matmul, Matmul):
        raise TypeError(f"matmul: expected a Matmul, got {type(matmul).__name__}")
    if not isinstance(matrix, str) or matrix not in matmul._names:
        raise ValueError(f"matrix: expected 'A', 'B' or 'C', got {matrix!r}")
    params, scale = ffi.new("rknn_quant_params *"), ffi.new("float *")
    name = bytes(ffi.buffer(matmul._names[matrix].name))
    ffi.memmove(params.name, name, len(name))
    # Room for the most values that a runtime could write.
    most = matmul.k * matmul.n
    values, zeros = ffi.new("float[]", most), ffi.new("int32_t[]", most)
    params.scale, params.scale_len, params.zp, params.zp_len = values, most, zeros, most
    context = matmul._context
    with context.lock:
        status = lib.rkr_matmul_get_quant_params(context.handle, context.opened(), params, scale)
        context.check_status(status, f"rknn_matmul_get_quant_params({matrix})")
    return float(scale[0])


def _general(model: GeneralModel) -> GeneralModel:
    if not isinstance(model, GeneralModel):
        raise TypeError(f"model: expected a GeneralModel, got {type(model).__name__}")
    return model
