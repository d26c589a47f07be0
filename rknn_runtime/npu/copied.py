"""Inputs of a `GeneralModel`, which the runtime copies, and converts as far as it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, pointer, source
from rknn_runtime.enums import TensorType
from rknn_runtime.modelfile import compatibility
from rknn_runtime.npu.inputs import Intake, taken_shapes, to_logical, wrong_shape
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.spec import InputSpec

__all__ = ["CopiedInput", "misreads_images"]

#: The last librknnrt that was seen to do what `misreads_images` says.
_LAST_ASKED = (2, 3, 2)

#: What librknnrt converts to any element type of a model, as measured on 1.5.2 and 2.3.2. Of
#: others it says in its log that it does not, returns success, and runs on old data.
_CONVERTED = (TensorType.UINT8, TensorType.FLOAT16, TensorType.FLOAT32)
#: What is taken besides by models of other element types than those that were measured.
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
        """Work out what is taken.

        Args:
            name: Such as ``input 0 'images'``, for messages.
            tensor: The input.
            spec: What the caller says of its arrays.
            struct: ``rknn_input``, of which all is filled in that does not change.
            library: The runtime, which may be one that `misreads_images`.
            had_pixels: Positions of the inputs that have had uint8, which `fill` notes.

        Raises:
            RknnError: The runtime's attributes make no sense.
            ValueError: The runtime cannot do that, or it does not fit the input.
        """
        attr = tensor.attr
        self._name, self._attr, self._struct = name, attr, struct
        struct.index, struct.fmt = attr.index, int(attr.layout)
        self._library, self._had_pixels = library, had_pixels
        is_batch = attr.takes_pixels and attr.shape[0] > 1
        self._takes_floats = not (is_batch and misreads_images(library))
        self._keeps_pixels = attr.takes_pixels and tensor.native.type == TensorType.INT8
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
        """Take the model's own elements, which the runtime wants in its own layout."""
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
        """Point the struct at an array; return what must live as long as that is used.

        Raises:
            TypeError: Not an ndarray, or of another dtype.
            ValueError: Of another shape, or not C-contiguous.
        """
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
        """Raise an error for floats of a batch of images, where the runtime misreads them."""
        if dtype.kind == "f" and not self._takes_floats:
            raise error(
                f"{self._name}: expected uint8 or int8, as librknnrt takes a batch of images as "
                f"floats wrongly or ends the process, got {dtype}: take Model"
            )

    def _keep_to_pixels(self, array: Array) -> None:
        """Refuse what the runtime would take for pixels.

        Raises:
            TypeError: Other elements, after uint8.
        """
        index = self._attr.index
        if array.dtype == np.uint8:
            self._had_pixels.add(index)
        elif index in self._had_pixels and misreads_images(self._library):
            raise TypeError(
                f"{self._name}: expected dtype uint8, as before, got {array.dtype}: librknnrt "
                "would take it for pixels, too; load another GeneralModel for it"
            )


def misreads_images(library: Library) -> bool:
    """Tell whether ``rknn_inputs_set`` of a runtime misreads images without a word, in two ways.

    Of a batch, librknnrt 1.5.2 and 1.6.0 end the process on floats, and 2.3.2 gives other outputs
    at every call. After uint8 for a model in int8, in the same context or in one that it was
    duplicated from, the NPU goes on converting pixels: all three then take int8, and of padded rows
    float16 and float32, for pixels. ``rknn_set_io_mem`` does nothing of that.
    """
    if library.is_simulated:
        return True
    runtime = compatibility.runtime_in(library.path)
    return runtime is not None and runtime.version <= _LAST_ASKED


def _taken(tensor: QueriedTensor) -> dict[np.dtype[Any], TensorType]:
    """Return what the runtime takes for an input, by NumPy dtype."""
    kinds: tuple[TensorType, ...] = _NOT_MEASURED
    native = tensor.native.type
    if native == TensorType.INT8:
        kinds = (TensorType.INT8,)
    elif native in (TensorType.FLOAT16, TensorType.INT16):
        kinds = ()
    return {kind.numpy: kind for kind in (*_CONVERTED, *kinds)}
