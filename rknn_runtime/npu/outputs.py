"""Outputs of a `Model`: in what form the runtime writes them, and what is read of that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rknn_runtime._arrays import Array, result
from rknn_runtime._ffi import ffi
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.kernels import layout, quantization
from rknn_runtime.npu.binding import Binding, check_layouts
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.results import ResultPool
from rknn_runtime.npu.spec import OutputSpec

__all__ = ["OutputBinding", "written_as"]

_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
#: What the kernels dequantize.
_QUANTIZED = frozenset(map(np.dtype, ("int8", "uint8", "int16")))


def written_as(queried: QueriedTensor, spec: OutputSpec, *, is_mini: bool) -> QueriedTensor:
    """Describe an output as the runtime writes it at the caller's wish.

    Args:
        queried: The output.
        spec: The wish.
        is_mini: The runtime is librknnmrt.

    Returns:
        The output, whose native attribute is what will be in memory.

    Raises:
        ValueError: This runtime cannot write it so, or it is no dtype of this output.
    """
    attr = queried.attr
    own = attr.stored.dtype
    if spec.layout is None and spec.dtype in (None, own):
        return queried
    name = f"outputs: {attr.name!r}"
    if spec.dtype not in (None, own, TensorType.FLOAT32):
        raise ValueError(f"{name}: expected dtype FLOAT32 or {own.name}, got {spec.dtype!r}")
    dtype = own if spec.dtype is None else spec.dtype
    order = Layout.NCHW if spec.layout is None else spec.layout
    is_image = len(attr.shape) == 4
    if is_mini and (not is_image or not attr.is_packed):
        raise ValueError(
            f"{name}: expected no layout and no dtype, as librknnmrt writes an output of shape "
            f"{attr.shape} in its native form only, got {spec}"
        )
    if is_mini and order is Layout.NHWC and dtype is not own:
        raise ValueError(
            f"{name}: expected NCHW for {dtype.name}, as librknnmrt does not convert in NHWC, got "
            f"{spec}"
        )
    if not is_image and order is Layout.NHWC:
        raise ValueError(f"{name}: expected NCHW or None for shape {attr.shape}, got {spec}")
    if not is_image and dtype is own:
        return queried  # which is in that order
    described = max(view.size_with_stride for view in (attr, attr.stored, attr.nhwc or attr))
    shape = attr.nchw_shape
    if order is Layout.NHWC:
        n, channels, height, width = shape
        shape = (n, height, width, channels)
    n_bytes = attr.n_elems * dtype.numpy.itemsize
    written = replace(
        attr.stored,
        shape=shape,
        layout=order if is_image else attr.layout,
        dtype=dtype,
        n_elems=attr.n_elems,
        size=n_bytes,
        size_with_stride=max(n_bytes, described if dtype is own else 0),
        w_stride=0,
        h_stride=0,
    )
    if dtype is not own:
        written = replace(written, qnt_type=QuantType.NONE, zero_point=0, scale=1.0, fl=0)
    info = ffi.new("rknn_tensor_attr *", queried.logical[0])
    info.type, info.fmt = int(written.dtype), int(written.layout)
    info.dims[0 : len(shape)] = shape
    info.size, info.size_with_stride = n_bytes, written.size_with_stride
    return QueriedTensor(replace(attr, native=written), queried.logical, info)


class OutputBinding(Binding):
    """An output, in the form that its native attribute has."""

    def __init__(
        self, context: Context, name: str, queried: QueriedTensor, reserved_bytes: int = 0
    ) -> None:
        """Prepare the native attribute.

        Args:
            context: Of the model.
            name: Such as ``output 0 'boxes'``, for messages.
            queried: The output.
            reserved_bytes: What the model file sets aside for it; 0: unknown.
        """
        attr = queried.attr
        check_layouts(name, attr)
        self._results = ResultPool([attr.shape])
        super().__init__(context, name, attr, attr.stored, queried.native, reserved_bytes)
        self._is_packed, self._is_quantized = attr.is_packed, attr.affine is not None
        self._zero_point, self._scale = attr.affine or (0, 1.0)
        self._unpack = layout.nc1hwc2_to_nhwc if attr.is_nhwc else layout.nc1hwc2_to_nchw
        if self._is_packed:
            _, self._channels, self._height, self._width = attr.nchw_shape
        #: From the order in memory to the logical one.
        self._axes = (0, 3, 1, 2) if attr.stored.is_nhwc and not attr.is_nhwc else None

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
        array = self._array if self._array is not None else self.private()
        if not self._is_packed:
            if self._axes is not None:
                array = np.ascontiguousarray(array.transpose(self._axes))
            return self._real(array, out)
        if (self._is_quantized and self.dtype in _QUANTIZED) or self.dtype == _FLOAT16:
            return quantization.dequantize_nc1hwc2(
                array,
                self._channels,
                self._zero_point,
                self._scale,
                height=self._height,
                width=self._width,
                layout=self.attr.layout,
                out=out,
            )
        values = self._unpack(array, self._channels, height=self._height, width=self._width)
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
