"""The vendor's general API: the runtime copies and converts what goes in and comes out."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import Array, pointer, refuse_overlaps, result
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask, InitFlag
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.base import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.copied import CopiedInput
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool
from rknn_runtime.npu.spec import InputSpec, per_tensor, positions

if TYPE_CHECKING:
    from rknn_runtime.npu.spec import InputSpecs, Key

__all__ = ["GeneralModel"]


#: What leaves something to the caller that the runtime does in this flow.
_ZERO_COPY_FLAGS = (
    SYNC_FLAGS
    | InitFlag.MEM_ALLOC_OUTSIDE
    | InitFlag.INTERNAL_ALLOC_OUTSIDE
    | InitFlag.MODEL_BUFFER_ZERO_COPY
)
_FLOAT32 = np.dtype("float32")
_ZERO_COPY_ONLY = (
    "librknnmrt (RV1103, RV1106) refuses this call always: it has only the zero-copy flow, which "
    "is rknn_runtime.Model"
)


class GeneralModel(LoadedModel):
    """A model on the NPU, run by ``rknn_inputs_set``, ``rknn_run`` and ``rknn_outputs_get``.

    As programs written for the vendor's general API run it: to port them, or to compare the
    runtime's own conversions with those of `Model`, which saves these copies and is faster.
    Numbers mean the same to both. Only librknnrt has these calls. Thread-safe, and a context
    manager, as `Model`; every call raises what `LoadedModel` says of closed models, forks and
    signal handlers.
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
        inputs: InputSpecs = None,
        share_weights_with: LoadedModel | None = None,
    ) -> None:
        """Load a model.

        Args:
            model: As for `Model`.
            library: The runtime library; see `rknn_runtime.open_library`.
            flags: Of ``rknn_init``: priority and SRAM flags.
            core_mask: NPU cores to run on; None leaves the choice to the runtime.
            check: Look at the file first and explain what is wrong with it.
            inputs: What arrays the inputs take, where that is not what `run` says: a list with
                an `InputSpec` or None per input, or a dict by name or position.
            share_weights_with: As for `Model`.

        Raises:
            UnavailableError: The runtime does not have the general API, or no
                ``rknn_set_core_mask``.
            ValueError: Flags that leave memory, caches or timing to the caller, or specs that
                do not fit the model; all other exceptions as of `Model`.
        """
        library = open_library(library)
        for function in ("rknn_inputs_set", "rknn_outputs_get", "rknn_outputs_release"):
            library.require(function)
        if init_flags(flags) & _ZERO_COPY_FLAGS:
            raise ValueError(
                "flags: expected none that leave memory or caches to you, as the runtime copies "
                f"and syncs for a GeneralModel, got {flags!r}"
            )
        self._specs = inputs
        self._had_pixels: set[int] = set()
        super().__init__(model, library, flags, core_mask, check, share_weights_with)

    def duplicate(self, *, core_mask: CoreMask | None = None) -> GeneralModel:
        """Return a model with the same weights in memory; see `Model.duplicate`.

        Args:
            core_mask: NPU cores for the duplicate.

        Raises:
            UnavailableError: librknnmrt has no duplicates.
        """
        twin = GeneralModel.__new__(GeneralModel)
        twin._specs = self._specs
        twin._had_pixels = set()
        twin._duplicate(self, core_mask)
        # Not before: a thread may have run this model with pixels meanwhile.
        twin._had_pixels |= self._had_pixels
        return twin

    def _bind(
        self, inputs: Sequence[QueriedTensor], outputs: Sequence[QueriedTensor]
    ) -> tuple[Sequence[QueriedTensor], Sequence[QueriedTensor]]:
        structs = ffi.new("rknn_input[]", len(inputs))
        specs = per_tensor(self._specs, [tensor.attr for tensor in inputs], InputSpec, "inputs")
        takers = [
            CopiedInput(
                f"input {i} {tensor.attr.name!r}",
                tensor,
                spec,
                struct,
                self._context.library,
                self._had_pixels,
            )
            for i, (tensor, spec, struct) in enumerate(zip(inputs, specs, structs))
        ]
        dtypes = [_element(i, tensor) for i, tensor in enumerate(outputs)]
        shapes = [tensor.attr.shape for tensor in outputs]
        with self._context.lock:
            self._takers, self._input_structs = takers, structs
            self._output_structs = ffi.new("rknn_output[]", len(outputs))
            self._raw_dtypes = dtypes
            self._float_results = ResultPool(shapes)
            self._raw_results = ResultPool(shapes, dtypes)
            # Of an element type that it does not know, as int16, librknnrt 1.5.2 computes the size
            # wrongly: then it is not given memory to write to, but asked for its own.
            self._is_known = [tensor.logical.type == int(tensor.attr.dtype) for tensor in outputs]
        return inputs, outputs

    def run(
        self,
        *inputs: Array,
        float_outputs: bool = True,
        out: Sequence[Array | None] | None = None,
        only: Sequence[Key] | None = None,
    ) -> list[Array]:
        """Have the runtime convert the inputs, run, and convert the outputs.

        Args:
            *inputs: One C-contiguous array per input, in the order and the shapes of
                ``model.inputs`` (``(N, H, W, C)`` for images, ``(H, W, C)`` where N is 1), of
                uint8, float16 or float32. The numbers are real ones: the runtime normalises
                inputs of rank 4 with the mean and std of the conversion, quantizes, and clamps
                what the model's type cannot hold. A model in int8 also takes int8, its own
                elements, normalised and quantized, which the runtime takes as they are. Its
                images stay uint8 once they were, as librknnrt would take all else for pixels, and
                a batch of images is uint8 or int8.
            float_outputs: float32 outputs, dequantized by the runtime. False: of the dtype of
                ``model.outputs[i]``: the model's own elements, but float32 all the same where
                the conversion by an old toolkit (1.1) says so.
            out: One array per output to write to, C-contiguous, of the output's shape and
                dtype; None in the place of an array makes a new one. They overlap neither each
                other nor an input.
            only: The outputs that you want, by name or position; the runtime neither converts nor
                copies the others. None: all of them.

        Returns:
            One array per output that you want, in its logical shape (NCHW for rank 4):
            ``out``'s, or new ones. Copies: the runtime's own buffers are released. Without ``out``
            and ``only``, their memory is used again when nobody has any of them, as `Model` does
            when it is called.

        Raises:
            IndexError: ``only`` has a position that no output has.
            InvalidParameterError: Also on librknnmrt, which has only the zero-copy flow.
            RknnError: The runtime returned another number of bytes than an output has.
            RknnStatusError: The runtime failed.
            TypeError: Not an ndarray, another number of inputs, or another dtype; or ``only`` is no
                sequence.
            ValueError: Another shape, not C-contiguous, or ``out`` is not writable or overlaps, or
                not as many as the outputs; or ``only`` names one that the model does not have.
        """
        with self._context.lock:
            self._context.check_chosen()
            handle = self._context.opened()
            self._check_count(inputs)
            places = range(len(self.outputs)) if only is None else positions(self.outputs, only)
            arrays = self._output_arrays(float_outputs, out, places)
            if out is not None:
                refuse_overlaps(arrays, inputs)
            self._set(handle, inputs)
            status = lib.rkr_run(self._context.handle, handle, ffi.NULL)
            self._context.check_run(status, "rknn_run")
            wanted = dict(zip(places, arrays))
            self._get(handle, float_outputs, wanted)
        for i, array in zip(places, arrays):
            if wanted[i] is not array:  # asked for twice
                np.copyto(array, wanted[i])
        return arrays

    def _let_go(self) -> None:
        self._float_results.clear()
        self._raw_results.clear()

    def _output_arrays(
        self, float_outputs: bool, out: Sequence[Array | None] | None, places: Sequence[int]
    ) -> list[Array]:
        """Check what outputs are written to, or make it."""
        if out is None and isinstance(places, range):  # of all outputs
            return (self._float_results if float_outputs else self._raw_results).arrays()
        if out is None:
            out = [None] * len(places)
        check_outs(out, len(places))
        return [
            result(array, self.outputs[i].shape, _FLOAT32 if float_outputs else self._raw_dtypes[i])
            for array, i in zip(out, places)
        ]

    def _set(self, handle: int, inputs: Sequence[Array]) -> None:
        """Hand the inputs to the runtime, which copies them."""
        # What is pointed to lives until the runtime has copied it.
        kept = [taker.fill(array) for taker, array in zip(self._takers, inputs)]
        status = lib.rkr_inputs_set(self._context.handle, handle, len(inputs), self._input_structs)
        del kept
        self._check_general(status, "rknn_inputs_set")

    def _get(self, handle: int, float_outputs: bool, wanted: dict[int, Array]) -> None:
        """Have the outputs converted into arrays; the runtime gives all of them or none."""
        structs, count = self._output_structs, len(self.outputs)
        pointers, sizes = [ffi.NULL] * count, [0] * count
        for i, struct in enumerate(structs):
            array = wanted.get(i)
            struct.index = i
            struct.want_float = array is not None and bool(float_outputs)
            struct.is_prealloc = array is not None and self._is_known[i]
            struct.buf, struct.size = ffi.NULL, 0
            if array is not None:
                pointers[i], sizes[i] = pointer(array), array.nbytes
            if struct.is_prealloc:
                struct.buf, struct.size = pointers[i], sizes[i]
        step, index = ffi.new("int *"), ffi.new("size_t *")
        status = lib.rkr_outputs_copy(
            self._context.handle,
            handle,
            count,
            structs,
            ffi.new("void *[]", pointers),
            ffi.new("uint32_t[]", sizes),
            step,
            index,
        )
        if status == lib.RKR_ERR_SHAPE:
            i = index[0]
            raise RknnError(
                f"rknn_outputs_get: output {i} {self.outputs[i].name!r} has {structs[i].size} "
                f"bytes, expected {sizes[i]}"
            )
        if status and step[0] == lib.RKR_STEP_OUTPUTS_RELEASE:
            self._context.check_status(status, "rknn_outputs_release")
        self._check_general(status, "rknn_outputs_get")

    def _check_general(self, status: int, call: str) -> None:
        detail = _ZERO_COPY_ONLY if status == lib.RKNN_ERR_PARAM_INVALID else ""
        self._context.check_status(status, call, detail)


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
