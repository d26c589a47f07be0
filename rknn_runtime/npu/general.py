"""The vendor's general API: the runtime copies and converts what goes in and comes out."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, pointer, refuse_overlaps, result, source
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask, InitFlag, TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.base import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool

__all__ = ["GeneralModel"]


#: What librknnrt converts to any element type of a model, as measured on 1.5.2 and 2.3.2. Of
#: others it says in its log that it does not, returns success, and runs on old data.
_CONVERTED = (TensorType.UINT8, TensorType.FLOAT16, TensorType.FLOAT32)
#: What is taken besides by models of other element types than those that were measured.
_NOT_MEASURED = (TensorType.INT8, TensorType.INT32, TensorType.INT64)
_FLOAT32 = np.dtype("float32")
_ZERO_COPY_ONLY = (
    "librknnmrt (RV1103, RV1106) refuses this call always: it has only the zero-copy flow, which "
    "is rknn_runtime.Model"
)


class GeneralModel(LoadedModel):
    """A model on the NPU, run by ``rknn_inputs_set``, ``rknn_run`` and ``rknn_outputs_get``.

    As programs written for the vendor's general API run it: to port them, or to compare the
    runtime's own conversions with those of `Model`, which saves these copies and is faster.
    Only librknnrt has these calls. Thread-safe, and a context manager, as `Model`.
    """

    _is_zero_copy = False

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview,
        *,
        library: str | os.PathLike[str] | Library | None = None,
        flags: InitFlag = InitFlag.PRIOR_HIGH,
        core_mask: CoreMask | None = None,
        check: bool = True,
    ) -> None:
        """Load a model.

        Args:
            model: as for `Model`.
            library: the runtime library; see `rknn_runtime.open_library`.
            flags: of ``rknn_init``: priority and SRAM flags.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            check: look at the file first and explain what is wrong with it.

        Raises:
            InvalidModelError: the file is no model, or one that this runtime refuses.
            LibraryLoadError: no runtime library could be loaded.
            OSError: the file cannot be read.
            RknnError: the runtime describes the model in terms that make no sense.
            RknnStatusError: the runtime refused a call.
            TypeError: an argument of another type.
            UnavailableError: the runtime does not have the general API, or no
                ``rknn_set_core_mask``.
            ValueError: flags that leave memory, caches or timing to the caller.
        """
        library = open_library(library)
        for function in ("rknn_inputs_set", "rknn_outputs_get", "rknn_outputs_release"):
            library.require(function)
        if init_flags(flags) & SYNC_FLAGS:
            raise ValueError(
                f"flags: expected none that leave caches to the caller, got {flags!r}: with a "
                "GeneralModel the runtime copies and syncs"
            )
        super().__init__(model, library, flags, core_mask, check)

    def _bind(self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]) -> None:
        self._input_structs = ffi.new("rknn_input[]", len(inputs))
        self._output_structs = ffi.new("rknn_output[]", len(outputs))
        for i, (tensor, struct) in enumerate(zip(inputs, self._input_structs)):
            struct.index = i
            struct.fmt = int(tensor.attr.layout)
        self._types = [_taken(tensor) for tensor in inputs]
        self._raw_dtypes = [_element(i, tensor) for i, tensor in enumerate(outputs)]
        shapes = [attr.shape for attr in self.outputs]
        self._float_results = ResultPool(shapes)
        self._raw_results = ResultPool(shapes, self._raw_dtypes)
        # Of an element type that it does not know, as int16, librknnrt 1.5.2 computes the size
        # wrongly: then it is not given memory to write to, but asked for its own.
        self._is_known = [tensor.logical.type == int(tensor.attr.dtype) for tensor in outputs]

    def run(
        self,
        *inputs: Array,
        float_outputs: bool = True,
        out: Sequence[Array | None] | None = None,
    ) -> list[Array]:
        """Have the runtime convert the inputs, run, and convert the outputs.

        Args:
            *inputs: one C-contiguous array per input, in the order and the shapes of
                ``model.inputs`` (``(N, H, W, C)`` for images, ``(H, W, C)`` where N is 1), of
                uint8, float16 or float32. The numbers are real ones: the runtime normalises
                inputs of rank 4 with the mean and std of the conversion, quantizes, and clamps
                what the model's type cannot hold. A model in int8 also takes int8, its own
                elements, normalised and quantized, which the runtime takes as they are.
            float_outputs: float32 outputs, dequantized by the runtime. False: of the dtype of
                ``model.outputs[i]``: the model's own elements, but float32 all the same where
                the conversion by an old toolkit (1.1) says so.
            out: one array per output to write to, C-contiguous, of the output's shape and
                dtype; None in the place of an array makes a new one. They overlap neither each
                other nor an input.

        Returns:
            One array per output in its logical shape (NCHW for rank 4): ``out``'s, or new
            ones. Copies: the runtime's own buffers are released. Without ``out``, their memory
            is used again when nobody has any of them, as `Model` does when it is called.

        Raises:
            ClosedError: the model is closed.
            ForkError: this process was forked after the model was loaded.
            InvalidParameterError: also on librknnmrt, which has only the zero-copy flow.
            RknnError: the runtime returned another number of bytes than an output has.
            RknnStatusError: the runtime failed.
            RuntimeError: called in the middle of another call, as by a signal handler.
            TypeError: not an ndarray, another number of inputs, or another dtype.
            ValueError: another shape, not C-contiguous, or ``out`` is not writable or overlaps.
        """
        with self._context.lock:
            handle = self._context.opened()
            self._check_count(inputs)
            arrays = self._output_arrays(float_outputs, out)
            if out is not None:
                refuse_overlaps(arrays, inputs)
            self._set(handle, inputs)
            status = lib.rkr_run(self._context.handle, handle, ffi.NULL)
            self._context.check_run(status, "rknn_run")
            self._get(handle, float_outputs, arrays)
        return arrays

    def _let_go(self) -> None:
        self._float_results.clear()
        self._raw_results.clear()

    def _output_arrays(
        self, float_outputs: bool, out: Sequence[Array | None] | None
    ) -> list[Array]:
        """Check what outputs are written to, or make it."""
        if out is None:
            return (self._float_results if float_outputs else self._raw_results).arrays()
        check_outs(out, len(self.outputs))
        dtypes = [_FLOAT32] * len(out) if float_outputs else self._raw_dtypes
        return [
            result(array, attr.shape, dtype)
            for array, attr, dtype in zip(out, self.outputs, dtypes)
        ]

    def _set(self, handle: int, inputs: Sequence[Array]) -> None:
        """Hand the inputs to the runtime, which copies them."""
        kept = []
        for i, (array, attr, struct) in enumerate(zip(inputs, self.inputs, self._input_structs)):
            name = f"input {i} {attr.name!r}"
            array = source(array, name, self._types[i])
            is_one_image = len(attr.shape) == 4 and attr.shape[0] == 1
            if array.shape != attr.shape and not (is_one_image and array.shape == attr.shape[1:]):
                raise ValueError(
                    f"{name}: expected shape {attr.shape} ({attr.layout.name}), got {array.shape}"
                )
            kept.append(pointer(array))
            struct.buf, struct.size = kept[-1], array.nbytes
            struct.type = int(self._types[i][array.dtype])
        status = lib.rkr_inputs_set(self._context.handle, handle, len(inputs), self._input_structs)
        self._check_general(status, "rknn_inputs_set")

    def _get(self, handle: int, float_outputs: bool, arrays: Sequence[Array]) -> None:
        """Have the outputs converted into arrays."""
        structs, pointers = self._output_structs, [pointer(array) for array in arrays]
        for i, (array, struct) in enumerate(zip(arrays, structs)):
            struct.index = i
            struct.want_float = bool(float_outputs)
            struct.is_prealloc = self._is_known[i]
            struct.buf = pointers[i] if self._is_known[i] else ffi.NULL
            struct.size = array.nbytes if self._is_known[i] else 0
        step, index = ffi.new("int *"), ffi.new("size_t *")
        status = lib.rkr_outputs_copy(
            self._context.handle,
            handle,
            len(arrays),
            structs,
            ffi.new("void *[]", pointers),
            ffi.new("uint32_t[]", [array.nbytes for array in arrays]),
            step,
            index,
        )
        if status == lib.RKR_ERR_SHAPE:
            i = index[0]
            raise RknnError(
                f"rknn_outputs_get: output {i} {self.outputs[i].name!r} has {structs[i].size} "
                f"bytes, expected {arrays[i].nbytes}"
            )
        if status and step[0] == lib.RKR_STEP_OUTPUTS_RELEASE:
            self._context.check_status(status, "rknn_outputs_release")
        self._check_general(status, "rknn_outputs_get")

    def _check_general(self, status: int, call: str) -> None:
        detail = _ZERO_COPY_ONLY if status == lib.RKNN_ERR_PARAM_INVALID else ""
        self._context.check_status(status, call, detail)


def _taken(tensor: QueriedTensor) -> dict[np.dtype[Any], TensorType]:
    """Return what the runtime takes for an input, by NumPy dtype."""
    kinds: tuple[TensorType, ...] = _NOT_MEASURED
    native = tensor.native.type
    if native == TensorType.INT8:
        kinds = (TensorType.INT8,)
    elif native in (TensorType.FLOAT16, TensorType.INT16):
        kinds = ()
    return {kind.numpy: kind for kind in (*_CONVERTED, *kinds)}


def _element(index: int, tensor: QueriedTensor) -> np.dtype[Any]:
    """Return the dtype of an output that the runtime does not dequantize.

    Raises:
        RknnError: NumPy has none, or the count of elements contradicts the shape.
    """
    attr = tensor.attr
    name = f"output {index} {attr.name!r}"
    if math.prod(attr.shape) != attr.n_elems:
        raise RknnError(f"{name}: shape {attr.shape} with {attr.n_elems} elements")
    try:
        return attr.dtype.numpy
    except TypeError as error:
        raise RknnError(f"{name}: {error}") from None
