"""The vendor's general API: the runtime copies and converts inputs and outputs."""

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
from rknn_runtime.npu.binding import element_dtype
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.inputs import Intake, taken_shapes, to_logical, wrong_shape
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.loaded import SYNC_FLAGS, LoadedModel, check_outs, init_flags
from rknn_runtime.npu.outputs import ResultPool
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.spec import InputSpec, InputSpecs, Key, per_tensor, positions

#: The last librknnrt that was seen to do what `misreads_images` says.
_LAST_ASKED = (2, 3, 2)

#: librknnrt converts these to any element type of a model, as measured on 1.5.2 and 2.3.2. For
#: others it logs an error, returns success, and runs on old data.
_CONVERTED = (TensorType.UINT8, TensorType.FLOAT16, TensorType.FLOAT32)
#: Also accepted for models of element types that were not measured.
_NOT_MEASURED = (TensorType.INT8, TensorType.INT32, TensorType.INT64)


class CopiedInput:
    """Checks the arrays of one input, and fills in its ``rknn_input``."""

    def __init__(
        self,
        name: str,
        tensor: QueriedTensor,
        spec: InputSpec | None,
        struct: Any,
        library: Library,
        had_pixels: set[int],
    ) -> None:
        """Find out which arrays it takes."""
        attr = tensor.attr
        self._name, self._attr, self._struct = name, attr, struct
        struct.index, struct.fmt = attr.index, int(attr.layout)
        self._library, self._had_pixels = library, had_pixels
        self._keeps_pixels = attr.takes_pixels and tensor.native.type == TensorType.INT8
        is_batch = self._keeps_pixels and attr.shape[0] > 1
        self._takes_floats = not (is_batch and misreads_images(library))
        self._intake: Intake | None = None
        self._buffer: Array | None = None
        self._shapes, self._axes = taken_shapes(attr, spec), to_logical(attr, spec)
        self._types = _taken(tensor)
        if spec is None:
            return
        if spec.normalized:
            raise ValueError(
                f"{name}: expected normalized=False, as librknnrt normalises what it converts, got "
                "True: quantize it and say pass_through, or use Model"
            )
        if spec.pass_through:
            self._pass_through(tensor, spec)
            return
        if spec.dtype is not None:
            self._refuse_floats(spec.dtype.numpy, ValueError)
            self._types = {spec.dtype.numpy: spec.dtype}

    def _pass_through(self, tensor: QueriedTensor, spec: InputSpec) -> None:
        """Prepare for the model's own elements, in the layout of the runtime."""
        native = tensor.attr.stored
        self._intake = Intake(self._name, tensor.attr, spec, None)
        self._buffer = np.zeros(native.array_bytes, np.uint8)
        self._target: Array = np.ndarray(
            native.shape, native.dtype.numpy, self._buffer, strides=native.strides
        )
        self._struct.pass_through = 1
        self._struct.type, self._struct.fmt = int(native.dtype), int(native.layout)
        self._struct.size = native.array_bytes

    def fill(self, array: Array) -> object:
        """Point the struct at an array; return the object that keeps its memory alive."""
        struct = self._struct
        if self._intake is not None and self._buffer is not None:
            self._intake.store(array, self._target)
            struct.buf = pointer(self._buffer)
            return self._buffer
        array = source(array, self._name, self._types)
        if array.shape not in self._shapes:
            order = "NCHW" if self._axes else self._attr.layout.name
            raise ValueError(wrong_shape(self._name, self._shapes, order, array))
        if self._axes:  # librknnrt does not convert images in NCHW
            array = np.ascontiguousarray(array.reshape(self._shapes[0]).transpose(self._axes))
        self._refuse_floats(array.dtype, TypeError)
        if self._keeps_pixels:
            self._keep_to_pixels(array)
        kept = pointer(array)
        struct.buf, struct.size = kept, array.nbytes
        struct.type = int(self._types[array.dtype])
        return kept

    def _refuse_floats(self, dtype: np.dtype[Any], error: type[Exception]) -> None:
        """Raise an error for floats of a batch of images if the runtime misreads them."""
        if dtype.kind == "f" and not self._takes_floats:
            raise error(
                f"{self._name}: expected uint8 or int8, as librknnrt takes a batch of images as "
                f"floats wrongly or ends the process, got {dtype}: take Model"
            )

    def _keep_to_pixels(self, array: Array) -> None:
        """Raise TypeError for elements that the runtime would read as pixels."""
        index = self._attr.index
        if array.dtype == np.uint8:
            self._had_pixels.add(index)
        elif index in self._had_pixels and misreads_images(self._library):
            raise TypeError(
                f"{self._name}: expected dtype uint8, as before, got {array.dtype}: librknnrt "
                "would read it as pixels, too; load another GeneralModel for it"
            )


def misreads_images(library: Library) -> bool:
    """Tell whether ``rknn_inputs_set`` of a runtime silently misreads images, in two ways.

    Models in int8 alone were asked. Given a batch in floats, librknnrt 1.5.2 and 1.6.0 end the
    process, and 2.3.2 returns other outputs at every call. Once the model had uint8 pixels, in
    this context or in its original, the NPU goes on converting pixels: all three then read int8,
    and also float16 and float32 in padded rows, as pixels. ``rknn_set_io_mem`` does neither.
    """
    if library.is_simulated or library.is_open:  # both answer as librknnrt 2.3.2
        return True
    runtime = library.runtime
    return runtime is not None and runtime.version <= _LAST_ASKED


def _taken(tensor: QueriedTensor) -> dict[np.dtype[Any], TensorType]:
    """Return the types that the runtime takes for an input, by NumPy dtype."""
    kinds: tuple[TensorType, ...] = _NOT_MEASURED
    native = tensor.native.type
    if native == TensorType.INT8:
        kinds = (TensorType.INT8,)
    elif native in (TensorType.FLOAT16, TensorType.INT16):
        kinds = ()
    return {kind.numpy: kind for kind in (*_CONVERTED, *kinds)}


#: These leave work to the caller that the runtime does in this flow.
_ZERO_COPY_FLAGS = (
    SYNC_FLAGS
    | InitFlag.MEM_ALLOC_OUTSIDE
    | InitFlag.INTERNAL_ALLOC_OUTSIDE
    | InitFlag.MODEL_BUFFER_ZERO_COPY
)
_FLOAT32 = np.dtype("float32")
_ZERO_COPY_ONLY = (
    "librknnmrt (RV1103, RV1106) always refuses this call: it has only the zero-copy flow; use "
    "rknn_runtime.Model"
)


class GeneralModel(LoadedModel):
    """A model on the NPU, run by ``rknn_inputs_set``, ``rknn_run`` and ``rknn_outputs_get``.

    Use it to port a program that was written for the vendor's general API. `Model` saves these
    copies and is faster.
    Numbers mean the same to both. Only librknnrt has these calls. Like `Model` it is thread-safe
    and a context manager, and every call raises what `LoadedModel` lists for closed models, forks
    and signal handlers.
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
            inputs: As for `Model`.
            share_weights_with: As for `Model`.

        Raises:
            UnavailableError: The runtime does not have the general API, or no
                ``rknn_set_core_mask``.
            ValueError: Flags that leave memory, caches or timing to the caller, or specs that
                do not fit the model. All other exceptions are those of `Model`.
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
        """
        twin = GeneralModel.__new__(GeneralModel)
        twin._specs = self._specs
        twin._had_pixels = set()
        twin._duplicate(self, core_mask)
        # Not before: a thread may have run this model with pixels meanwhile.
        twin._had_pixels |= self._had_pixels
        return twin

    @classmethod
    def adopt(cls, context: int, library: Library) -> GeneralModel:
        """Return a model around an ``rknn_context`` that foreign code made with the same library.

        `close` destroys the context.

        Args:
            context: The ``rknn_context``. Any other number may end the process.
            library: The runtime that made it.
        """
        model = cls.__new__(cls)
        model._specs, model._had_pixels = None, set()
        model._library, model._flags = library, InitFlag(0)
        model._needs, model._simulation = None, None
        model._context = Context(library)
        model._context.adopt(context)
        model._finish(None)
        return model

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
            # librknnrt 1.5.2 computes wrong sizes for types unknown to it, such as int16: those
            # outputs are copied from its own memory.
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
                uint8, float16 or float32. They hold real numbers: the runtime normalises
                inputs of rank 4 with the mean and std of the conversion, quantizes, and clamps to
                the range of the model's type. A model in int8 also takes int8: its own elements,
                normalised and quantized. After uint8 an image input takes only uint8, because
                librknnrt would read everything else as pixels. A batch of images for a model in
                int8 is uint8 or int8.
            float_outputs: True: float32, dequantized by the runtime. False: the dtype of
                ``model.outputs[i]``, the model's own elements (float32 if an old toolkit, 1.1,
                wrote the file so).
            out: One array per output to write to, C-contiguous, of the output's shape and
                dtype; None in the place of an array makes a new one. They overlap neither each
                other nor an input.
            only: The outputs that you want, by name or position; the runtime neither converts nor
                copies the others. None: all of them.

        Returns:
            One array per output that you want, in its logical shape (NCHW for rank 4):
            ``out``'s, or new ones. They are copies. Without ``out`` and ``only``, their memory is
            reused when nobody has any of them, as with `Model`.

        Raises:
            RknnError: The runtime returned another number of bytes than an output has.
            RknnStatusError: The runtime failed; librknnmrt always does.
            ValueError: Another shape, not C-contiguous, or ``out`` is not writable, overlaps, or
                has another number of arrays than the outputs.
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
        # `kept` lives until the runtime has copied the arrays.
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
    """Return the dtype of an output in the model's own elements."""
    attr = tensor.attr
    name = f"output {index} {attr.name!r}"
    if math.prod(attr.shape) != attr.n_elems:
        raise RknnError(f"{name}: shape {attr.shape} with {attr.n_elems} elements")
    return element_dtype(name, attr)
