"""Calls of the C API on objects that have more to offer, one at a time."""

from __future__ import annotations

from typing import SupportsIndex

from rknn_runtime._arrays import Array, as_int
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.npu.general import GeneralModel
from rknn_runtime.npu.matmul.matmul import Matmul
from rknn_runtime.npu.memory import TensorMemory

__all__ = ["inputs_set", "matmul_get_quant_params", "mem_sync", "outputs_get"]

_MODES = (
    lib.RKNN_MEMORY_SYNC_TO_DEVICE,
    lib.RKNN_MEMORY_SYNC_FROM_DEVICE,
    lib.RKNN_MEMORY_SYNC_BIDIRECTIONAL,
)


def inputs_set(model: GeneralModel, *inputs: Array) -> None:
    """Call ``rknn_inputs_set``; `run` and `outputs_get` follow, one or several times.

    Args:
        model: The model.
        *inputs: As for `GeneralModel.run`; the runtime copies them.

    Raises:
        ClosedError: The model is closed.
        ForkError: This process was forked after the model was loaded.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, as by a signal handler; or
            `set_input_shapes` is at work or has failed.
        TypeError: No `GeneralModel`, no ndarray, another number of inputs, or another dtype.
        ValueError: Another shape, or not C-contiguous.
    """
    context = _general(model)._context
    with context.lock:
        model._check_ready()
        handle = context.opened()
        model._check_count(inputs)
        model._set(handle, inputs)


def outputs_get(model: GeneralModel, *, float_outputs: bool = True) -> list[Array]:
    """Call ``rknn_outputs_get``, copy what it gave, and call ``rknn_outputs_release``.

    Args:
        model: The model, after a run.
        float_outputs: As for `GeneralModel.run`.

    Returns:
        One array per output, as `GeneralModel.run` returns them: copies.

    Raises:
        ClosedError: The model is closed.
        ForkError: This process was forked after the model was loaded.
        RknnError: The runtime returned another number of bytes than an output has.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, as by a signal handler; or
            `set_input_shapes` is at work or has failed.
        TypeError: No `GeneralModel`.
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
        memory: Of a model or of the caller's.
        mode: 1 to the device, 2 from it, 3 both, as `TensorMemory` has no method for.

    Raises:
        ClosedError: The memory or its model is closed.
        ForkError: This process was forked after it was made.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, as by a signal handler.
        TypeError: No memory, or no integer.
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
        The scale that the runtime gives for the whole matrix; librknnrt 2.3.2 gave 0.

    Raises:
        ClosedError: It is closed.
        ForkError: This process was forked after it was made.
        RknnStatusError: The runtime refused.
        RuntimeError: Called in the middle of another call, as by a signal handler.
        TypeError: No `Matmul`.
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
    # Should a runtime write there, as many as there can be.
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
