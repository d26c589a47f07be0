"""Inputs of a `GeneralModel`, which the runtime copies, and converts as far as it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, pointer, source
from rknn_runtime.enums import TensorType
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.inputs import Intake, taken_shapes, to_logical, wrong_shape
from rknn_runtime.npu.query import QueriedTensor, sdk_version
from rknn_runtime.npu.spec import InputSpec

__all__ = ["CopiedInput", "refuses_floats"]

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
        no_floats: bool = False,
    ) -> None:
        """Work out what is taken.

        Args:
            name: such as ``input 0 'images'``, for messages.
            tensor: the input.
            spec: what the caller says of its arrays.
            struct: ``rknn_input``, of which all is filled in that does not change.
            no_floats: see `refuses_floats`.

        Raises:
            RknnError: the runtime's attributes make no sense.
            ValueError: the runtime cannot do that, or it does not fit the input.
        """
        attr = tensor.attr
        self._name, self._attr, self._struct = name, attr, struct
        struct.index, struct.fmt = attr.index, int(attr.layout)
        self._intake: Intake | None = None
        self._buffer: Array | None = None
        self._shapes, self._axes = taken_shapes(attr, spec), to_logical(attr, spec)
        self._types = _taken(tensor)
        if no_floats:
            self._types = {dtype: kind for dtype, kind in self._types.items() if dtype.kind != "f"}
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
            if no_floats and spec.dtype.numpy.kind == "f":
                raise ValueError(
                    f"{name}: expected uint8 or int8, as this librknnrt ends the process on a "
                    f"batch of images as floats, got {spec.dtype.name}: install librknnrt 2.3.2"
                )
            self._types = {spec.dtype.numpy: spec.dtype}

    def _pass_through(self, tensor: QueriedTensor, spec: InputSpec) -> None:
        """Take the model's own elements, which the runtime wants in its own layout."""
        native = tensor.attr.stored
        self._intake = Intake(self._name, tensor.attr, spec)
        self._buffer = np.zeros(native.array_bytes, np.uint8)
        self._target = np.ndarray(
            native.shape, native.dtype.numpy, self._buffer, strides=native.strides
        )
        self._struct.pass_through = 1
        self._struct.type, self._struct.fmt = int(native.dtype), int(native.layout)
        self._struct.size = native.array_bytes

    def fill(self, array: Array) -> object:
        """Point the struct at an array; return what must live as long as that is used.

        Raises:
            TypeError: not an ndarray, or of another dtype.
            ValueError: of another shape, or not C-contiguous.
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
        kept = pointer(array)
        struct.buf, struct.size = kept, array.nbytes
        struct.type = int(self._types[array.dtype])
        return kept


def refuses_floats(context: Context, tensor: QueriedTensor) -> bool:
    """Tell whether a runtime would end the process on floats for an input.

    librknnrt 1.5.2 and 1.6.0 do, in ``rknn_inputs_set``, for a batch of images whose rows are
    padded; 2.3.2 converts them, and all take them as uint8 and int8, and one image as floats.
    """
    attr = tensor.attr
    if not attr.takes_pixels or attr.shape[0] == 1 or attr.stored.w_stride <= attr.shape[2]:
        return False
    version = sdk_version(context).api.split(" ")[0]
    numbers = version.split(".")
    return all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) <= (1, 6, 0)


def _taken(tensor: QueriedTensor) -> dict[np.dtype[Any], TensorType]:
    """Return what the runtime takes for an input, by NumPy dtype."""
    kinds: tuple[TensorType, ...] = _NOT_MEASURED
    native = tensor.native.type
    if native == TensorType.INT8:
        kinds = (TensorType.INT8,)
    elif native in (TensorType.FLOAT16, TensorType.INT16):
        kinds = ()
    return {kind.numpy: kind for kind in (*_CONVERTED, *kinds)}
