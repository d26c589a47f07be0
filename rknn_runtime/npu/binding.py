"""How each input and output of a model is tied to NPU memory, written and read.

What both vendor runtimes accept decides: an image input takes pixels, which the NPU
normalises and quantizes itself; any other input takes the NPU's own element type and
layout, so it is quantized and packed here; an output is bound in the NPU's own layout,
which alone works for every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import Array, plain, result
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.kernels import layout, quantization
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.memory import TensorMemory
from rknn_runtime.npu.normalisation import normalisation
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool
from rknn_runtime.tensor import TensorAttr

__all__ = [
    "Binding",
    "Frame",
    "InputBinding",
    "OutputBinding",
    "PixelInput",
    "TensorInput",
    "bind_input",
]

if TYPE_CHECKING:
    from rknn_runtime.modelfile.info import Preprocessing

# Looked up once: these are on the path of every frame.
_run_synced, _run_image, _from_buffer = lib.rkr_run_synced, lib.rkr_run_image, ffi.from_buffer
_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
#: What the kernels quantize; the runtimes quantize to nothing else.
_QUANTIZED = frozenset(map(np.dtype, ("int8", "uint8", "int16")))
_NO_INT64 = (
    "librknnmrt takes no int64 that it is not to convert (2.3.2 was seen to refuse it): export the "
    "network with this input as int32 or float32, with a Cast behind it where it must be int64"
)
_UNKNOWN = (
    "normalised and quantized: no file says the mean and std that float32 would have to be "
    "normalised with; librknnrt knows them, for a GeneralModel"
)


class Binding:
    """One input or output: its memory, and the array in it that only this package sees."""

    def __init__(
        self,
        context: Context,
        name: str,
        attr: TensorAttr,
        bound: TensorAttr,
        info: Any,
        least_bytes: int = 0,
    ) -> None:
        """Allocate and bind.

        Args:
            context: of the model.
            name: such as ``input 0 'images'``, for messages.
            attr: the logical attribute.
            bound: the attribute that the memory has.
            info: the same as ``rknn_tensor_attr *`` for the runtime.
            least_bytes: of memory, when the attributes want less.
        """
        self.name = name
        self.attr = attr
        self.shape = bound.shape
        try:
            self.dtype = bound.dtype.numpy
        except TypeError as error:
            raise RknnError(f"{name}: {error}") from None
        self._strides = bound.strides
        # The runtimes do not check the size.
        needs = max(least_bytes, bound.array_bytes, attr.buffer_bytes)
        if not 0 < needs < 2**32:
            raise RknnError(f"{name}: the runtime's attributes make {needs} bytes of it")
        self.memory = TensorMemory(context, needs)
        with context.lock:
            mem = self.memory.pointer
            status = lib.rkr_set_io_mem(context.handle, context.opened(), mem, info)
        is_refused_int64 = status == lib.RKNN_ERR_PARAM_INVALID and bound.dtype is TensorType.INT64
        context.check_status(
            status, f"rknn_set_io_mem({name})", _NO_INT64 if is_refused_int64 else ""
        )
        self.memory.bind(name)
        self.remember()

    def _view_of(self, data: Array) -> Array:
        return np.ndarray(self.shape, self.dtype, data, strides=self._strides)

    def view(self) -> Array:
        """Return the array in NPU memory as a view for the caller."""
        return self._view_of(self.memory.array())

    def remember(self) -> None:
        """Take the private array, over the private bytes."""
        self._bytes = self.memory._span.private()
        self._array = self._view_of(self._bytes)

    @property
    def is_held(self) -> bool:
        """Whether the private array is alive; after `forget`, in a traceback."""
        return self.memory._span.is_private

    @property
    def span(self) -> tuple[int, int, str]:
        """Begin and end of the memory, and whose it is."""
        begin = self.memory._span.address
        return begin, begin + self.memory.size_bytes, f"the memory of {self.name}"

    def forget(self) -> None:
        """Drop the private arrays, before the memory is released."""
        self._bytes = self._array = np.empty(0, self.dtype)


class InputBinding(Binding):
    """An input."""

    def write(self, array: Array) -> None:
        """Copy a frame into NPU memory.

        Raises:
            TypeError: not an ndarray, or of another dtype than the input takes.
            ValueError: of another shape, or with values that the input cannot hold.
        """
        raise NotImplementedError


class PixelInput(InputBinding):
    """An image that the NPU normalises: ``(N, H, W, C) uint8``, rows padded to ``w_stride``."""

    def __init__(self, context: Context, name: str, queried: QueriedTensor) -> None:
        """Bind as uint8 NHWC without pass-through."""
        attr = queried.attr
        native = attr.stored
        pixels = native.is_nhwc
        if pixels:
            _check_layouts(name, attr)
        info = ffi.new("rknn_tensor_attr *", (queried.native if pixels else queried.logical)[0])
        info.type = lib.RKNN_TENSOR_UINT8
        info.fmt = lib.RKNN_TENSOR_NHWC
        info.pass_through = 0
        bound = native if pixels else attr
        super().__init__(context, name, attr, replace(bound, dtype=TensorType.UINT8), info)

    def write(self, array: Array) -> None:
        """Copy pixels; any strides, and ``(H, W, C)`` where the batch is 1."""
        # In this order and inline: this is the path of every frame.
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.shape != self.shape:
            array = self._checked(array)
        rows = self._rows
        if rows is not None and array.flags.c_contiguous:
            rows[...] = np.ndarray(rows.shape, rows.dtype, array)
        else:
            self._array[...] = array

    def remember(self) -> None:
        """Take the private array; padded rows of one image also as elements of a row each.

        NumPy moves an element whole, which takes less time than a row of pixels.
        """
        super().remember()
        self._rows: Array | None = None
        batch, height, width, channels = self.shape
        row_bytes = width * channels
        if batch == 1 and self._strides[1] != row_bytes:
            row = np.dtype((np.void, row_bytes))
            self._rows = np.ndarray((height,), row, self._bytes, strides=self._strides[1:2])

    def forget(self) -> None:
        """Drop the private arrays."""
        super().forget()
        self._rows = None

    def _checked(self, array: Array) -> Array:
        array = plain(array, self.name)
        if array.dtype != self.dtype:
            raise TypeError(
                f"{self.name}: expected pixels of dtype uint8, got {array.dtype}; the NPU "
                "normalises them itself, with the mean and std that the model was converted with"
            )
        if array.shape == self.shape or (self.shape[0] == 1 and array.shape == self.shape[1:]):
            return array
        raise ValueError(f"{self.name}: expected shape {self.shape} (NHWC), got {array.shape}")


class TensorInput(InputBinding):
    """Any other input, in the NPU's own element type and layout."""

    def __init__(
        self,
        context: Context,
        name: str,
        queried: QueriedTensor,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        """Bind the native attribute with pass-through.

        Args:
            context: of the model.
            name: such as ``input 0 'images'``, for messages.
            queried: the input.
            preprocessing: its mean and std; None: unknown.
        """
        attr = queried.attr
        _check_layouts(name, attr)
        info = ffi.new("rknn_tensor_attr *", queried.native[0])
        info.pass_through = 1
        super().__init__(context, name, attr, attr.stored, info)
        self._is_packed, self._is_quantized = attr.is_packed, attr.affine is not None
        self._zero_point, self._scale = attr.affine or (0, 1.0)
        self._takes = {self.dtype}
        self._normalisation = normalisation(name, attr, preprocessing)
        # The toolkit normalises what is of rank 4 as it normalises images.
        self._is_unknown = preprocessing is None and len(attr.shape) == 4 and attr.is_packed
        if self._is_unknown:
            return
        if (self._is_quantized and self.dtype in _QUANTIZED) or self.dtype == _FLOAT16:
            self._takes.add(_FLOAT32)

    def write(self, array: Array) -> None:
        """Normalise and quantize float32, or take the model's own elements as they are; pack."""
        values = np.ascontiguousarray(self._checked(array))
        if self._normalisation is not None and values.dtype == _FLOAT32:
            mean, std = self._normalisation
            values = (values - mean) / std
        if values.dtype != self.dtype and self._is_quantized:
            values = quantization.quantize_affine(values, self._zero_point, self._scale, self.dtype)
        elif values.dtype != self.dtype:
            values = quantization.float32_to_float16(values)
        if not self._is_packed:
            np.copyto(self._array, values)
            return
        pack = layout.nhwc_to_nc1hwc2 if self.attr.is_nhwc else layout.nchw_to_nc1hwc2
        _, c1, height, width, c2 = self.shape
        pack(
            values,
            c2,
            c1=c1,
            plane=None if self.attr.nchw_shape[2:] == (height, width) else height * width,
            pad_value=self._zero_point,
            out=self._array,
        )

    def _checked(self, array: Array) -> Array:
        array = plain(array, self.name)
        if array.dtype not in self._takes:
            names = " or ".join(sorted(dtype.name for dtype in self._takes))
            if self._is_unknown:
                names += f" ({_UNKNOWN})"
            raise TypeError(f"{self.name}: expected dtype {names}, got {array.dtype}")
        if array.shape != self.attr.shape:
            raise ValueError(
                f"{self.name}: expected shape {self.attr.shape} ({self.attr.layout.name}), "
                f"got {array.shape}"
            )
        return array


class OutputBinding(Binding):
    """An output, in the NPU's own element type and layout."""

    def __init__(
        self, context: Context, name: str, queried: QueriedTensor, reserved_bytes: int = 0
    ) -> None:
        """Bind the native attribute.

        Args:
            context: of the model.
            name: such as ``output 0 'boxes'``, for messages.
            queried: the output.
            reserved_bytes: what the model file sets aside for it; 0: unknown.
        """
        attr = queried.attr
        _check_layouts(name, attr)
        super().__init__(context, name, attr, attr.stored, queried.native, reserved_bytes)
        self._is_packed, self._is_quantized = attr.is_packed, attr.affine is not None
        self._zero_point, self._scale = attr.affine or (0, 1.0)
        self._unpack = layout.nc1hwc2_to_nhwc if attr.is_nhwc else layout.nc1hwc2_to_nchw
        if self._is_packed:
            _, self._channels, self._height, self._width = attr.nchw_shape
        self._results = ResultPool([attr.shape])

    def checked(self, out: Array | None) -> Array:
        """Check an array to `read` to, or make one; see ``Model.output_f32``."""
        if out is None:
            return self._results.arrays()[0]
        return result(out, self.attr.shape, _FLOAT32)

    def forget(self) -> None:
        """Drop the private array, and the memory for results."""
        super().forget()
        self._results.clear()

    def read(self, out: Array) -> Array:
        """Write the output as float32 in the logical shape to a `checked` array; return that.

        Checked before: the traceback of a kernel's exception would hold the private array.
        """
        if not self._is_packed:
            return self._real(self._array, out)
        if (self._is_quantized and self.dtype in _QUANTIZED) or self.dtype == _FLOAT16:
            return quantization.dequantize_nc1hwc2(
                self._array,
                self._channels,
                self._zero_point,
                self._scale,
                height=self._height,
                width=self._width,
                layout=self.attr.layout,
                out=out,
            )
        values = self._unpack(self._array, self._channels, height=self._height, width=self._width)
        return self._real(values, out)

    def _real(self, values: Array, out: Array) -> Array:
        """Turn values in logical order into float32."""
        if self.dtype == _FLOAT16:
            return quantization.float16_to_float32(values, out)
        if self._is_quantized and self.dtype in _QUANTIZED:
            return quantization.dequantize_affine(values, self._zero_point, self._scale, out)
        np.copyto(out, values, casting="same_kind")
        if self._is_quantized:
            out[...] = (values.astype(np.float64) - self._zero_point) * self._scale
        return out


class Frame:
    """All inputs and outputs of a model, synced and run in one call.

    Also the way in for who binds to a model once and then holds ``context.lock`` from the input's
    bytes to the outputs', as `rknn_runtime.Detector` does.

    Attributes:
        context: of the model.
    """

    def __init__(
        self, context: Context, inputs: Sequence[Binding], outputs: Sequence[Binding]
    ) -> None:
        """Collect the pointers, once."""
        self.context, self._inputs, self._outputs = context, inputs, outputs
        self._failed = ffi.new("int *")
        self._failed_index = ffi.new("size_t *")
        with context.lock:
            self._arguments = (
                context.handle,
                context.opened(),
                ffi.new("rknn_tensor_mem *[]", [binding.memory.pointer for binding in inputs]),
                len(inputs),
                ffi.new("rknn_tensor_mem *[]", [binding.memory.pointer for binding in outputs]),
                len(outputs),
                self._failed,
                self._failed_index,
            )

    def arrays(self) -> tuple[list[Array], list[Array]]:
        """Return the arrays of the inputs and of the outputs, inside ``with context.lock``.

        These are the private ones: `Model.close` refuses while somebody has one. Their addresses
        stay as long as the model is open.
        """
        return [b._array for b in self._inputs], [b._array for b in self._outputs]

    def run(self) -> None:
        """Sync to the device, run, sync from it, inside ``with context.lock``.

        Raises:
            RknnStatusError: a step failed; the call in the message says which.
        """
        status = _run_synced(*self._arguments)
        if status:
            self._raise(status)

    def run_image(self, letterbox: Any, image: Array) -> bool:
        """Do as `run`, after an image was scaled into the input, in one native call.

        Args:
            letterbox: ``rkr_letterbox *``, whose frame is the input.
            image: an array as the letterbox says.

        Returns:
            False where the image cannot be scaled so, such as one in the input itself: nothing
            was written then, and nothing has run.

        Raises:
            RknnStatusError: a step of the run failed.
        """
        status = _run_image(letterbox, _from_buffer(image), *self._arguments)
        if status:
            if self._failed[0] == lib.RKR_STEP_IMAGE:
                return False
            self._raise(status)
        return True

    def _raise(self, status: int) -> None:
        step, index = self._failed[0], self._failed_index[0]
        call = "rknn_run"
        if step == lib.RKR_STEP_SYNC_INPUT:
            call = f"rknn_mem_sync({self._inputs[index].name}, to device)"
        elif step == lib.RKR_STEP_SYNC_OUTPUT:
            call = f"rknn_mem_sync({self._outputs[index].name}, from device)"
        self.context.check_run(status, call)


def bind_input(
    context: Context, name: str, queried: QueriedTensor, preprocessing: Preprocessing | None
) -> InputBinding:
    """Bind an input in the way that its rank and channels ask for."""
    if queried.attr.takes_pixels:
        return PixelInput(context, name, queried)
    return TensorInput(context, name, queried, preprocessing)


def _check_layouts(name: str, attr: TensorAttr) -> None:
    """Check that the native array can hold the logical tensor: a view of it is trusted."""
    native = attr.stored
    fits = native.shape == attr.shape
    if attr.is_packed:
        fits = len(native.shape) == 5 and len(attr.shape) == 4
        if fits:
            native_n, c1, rows, columns, c2 = native.shape
            n, channels, height, width = attr.nchw_shape
            fits = (
                native_n == n
                and c1 * c2 >= channels
                and (
                    (rows, columns) == (height, width) or (rows == 1 and columns >= height * width)
                )
            )
    if not fits:
        raise RknnError(
            f"{name}: the runtime's native layout {native.layout.name} {native.shape} does not "
            f"hold {attr.layout.name} {attr.shape}"
        )
