"""Calls of the C API one by one, checked, for what no class here covers.

A model stands for its context, so that no handle and no pointer can be wrong; what could reach
memory that is not there is refused before the call.
"""

from __future__ import annotations

import re
from typing import Any, SupportsIndex

from rknn_runtime._arrays import as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import InitFlag
from rknn_runtime.errors import UnavailableError
from rknn_runtime.npu.base import LoadedModel
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.query import is_mini, sdk_version

__all__ = ["functions", "query", "run", "wait"]

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
#: Bytes that a query fills; those of attributes begin with the index.
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
#: Offered to queries whose struct is not known; none comes near.
_MOST_BYTES = 1 << 16
_INT32 = 2**31 - 1
#: The runtime of which it is known what it does with fences.
_FIRST_WITH_FENCES = (2, 3, 2)


def functions(library: Library) -> dict[str, bool]:
    """Tell which functions of the C API a library has.

    Args:
        library: Of `rknn_runtime.open_library`.

    Returns:
        Name -> whether it is there.

    Raises:
        TypeError: No `Library`.
    """
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
        command: The number of the query; not 3, whose answer is a pointer: that is
            ``model.perf_detail()``.
        index: Of the input or output, where the query is about one.
        size: Bytes of the struct, as the runtime is told; None: as this package knows it, or
            65536 where it does not. The runtime gets 65536 bytes to write to all the same.

    Returns:
        The struct.

    Raises:
        ClosedError: The model is closed.
        ForkError: This process was forked after the model was loaded.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, as by a signal handler.
        TypeError: An argument of another type.
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
    """Call ``rknn_run`` with what extends it, on what is in the model's input memory.

    Args:
        model: A `Model`, whose memory is bound; its inputs and outputs are synced by
            ``sync_to_device`` and ``sync_from_device`` of their memories, as the caller needs it.
        frame_id: A number of the caller's, for the runtime's log.
        timeout_ms: The longest time that the NPU may take; 0: as long as it takes.
        non_block: Refused when true: `start` does that, and gives what waits for the run.
        fence_fd: With ``FENCE_IN_OUTSIDE``, the descriptor of a fence (a ``sync_file``, as cameras
            and GPUs give them) that the NPU waits for; it stays yours. The driver waits for 6,000
            ticks of its clock, and then runs all the same.

    Raises:
        ClosedError: The model is closed.
        ForkError: This process was forked after the model was loaded.
        RknnStatusError: The runtime failed; `RknnTimeoutError` after the time.
        RuntimeError: Called in the middle of another call, as by a signal handler,
            `set_input_shapes` is at work or has failed, or memory is missing that you have to
            bind.
        TypeError: An argument of another type.
        UnavailableError: ``non_block``, or a fence for a runtime of which nobody knows what it
            does with one.
        ValueError: A number out of range; a fence without that flag, or the flag without one.
    """
    extend = _extend(frame_id, timeout_ms)
    context = _context(model)
    extend.fence_fd = checked_fence(model, fence_fd)
    if not isinstance(non_block, bool):
        raise TypeError(f"non_block: expected a bool, got {type(non_block).__name__}")
    if non_block:
        raise UnavailableError(
            "non_block: expected False, as nobody could wait for such a run (rknn_wait): see "
            "rknn_runtime.npu.raw.start"
        )
    with context.lock:
        model._check_ready()
        status = lib.rkr_run(context.handle, context.opened(), extend)
        context.check_run(status, f"rknn_run(timeout_ms={extend.timeout_ms})")


def wait(model: LoadedModel, *, frame_id: SupportsIndex = 0, timeout_ms: SupportsIndex = 0) -> None:
    """Call ``rknn_wait`` where no run is in flight, which fails; `Flight.wait` waits for one.

    Args:
        model: A `Model` or a `GeneralModel`.
        frame_id: Of the run.
        timeout_ms: The longest time to wait; 0: as long as it takes.

    Raises:
        UnavailableError: The runtime has no such function.
        ValueError: A number out of range; all other exceptions as of `query`.
    """
    extend = _extend(frame_id, timeout_ms)
    context = _context(model)
    with context.lock:
        status = lib.rkr_wait(context.handle, context.opened(), extend)
        context.check_status(status, "rknn_wait")


def checked_fence(model: LoadedModel, fence_fd: SupportsIndex | None) -> int:
    """Check a fence for the next run; return its descriptor, -1 for none.

    Raises:
        TypeError: No integer.
        UnavailableError: Of the runtime nobody knows what it does with one.
        ValueError: One without ``FENCE_IN_OUTSIDE``, that flag without one, or out of range.
    """
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
    """Check that it is known what a runtime does with fences.

    Raises:
        UnavailableError: It is not.
    """
    version = sdk_version(context).api
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    known = match is not None and tuple(map(int, match.groups())) >= _FIRST_WITH_FENCES
    if not known or is_mini(context):
        raise UnavailableError(
            f"{what} needs librknnrt 2.3.2 or newer: of others nobody knows what they do with "
            f"fences, and this is {version}; call run in a thread, the GIL is released meanwhile"
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
