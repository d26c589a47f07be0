"""Outputs of a `Model`: how the runtime writes them, and how they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, Span, result
from rknn_runtime._ffi import ffi
from rknn_runtime.enums import Layout, QuantType, TensorType
from rknn_runtime.kernels import layout, quantization
from rknn_runtime.npu.binding import Binding, check_layouts
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.query import QueriedTensor
from rknn_runtime.npu.spec import OutputSpec

_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
#: Types that the kernels dequantize.
_QUANTIZED = frozenset(map(np.dtype, ("int8", "uint8", "int16")))
#: From this size on C libraries return freed memory to the system, so that every page of a new
#: result costs a page fault.
_LEAST_BYTES = 128 * 1024
#: In ``y = model(x)`` the last result is still alive while the next one is made.
_MOST_BLOCKS = 2
#: Every array begins at a cache line.
_LINE = 64


class ResultPool:
    """Makes arrays of given shapes, all in one block of memory; without dtypes they are float32.

    A block lives as long as an array of it, even longer than the pool, and is reused when no array
    is left. Small results are allocated one by one. Not thread-safe.
    """

    __slots__ = ("_block_bytes", "_blocks", "_places")

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]] | None = None
    ) -> None:
        self._places: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
        self._block_bytes = 0
        for shape, dtype in zip(shapes, dtypes or [_FLOAT32] * len(shapes)):
            self._places.append((shape, dtype, self._block_bytes))
            n_bytes = math.prod(shape) * dtype.itemsize
            self._block_bytes += -(-n_bytes // _LINE) * _LINE
        #: The blocks, and who views each.
        self._blocks: list[tuple[Array, Span]] = []

    def arrays(self) -> list[Array]:
        """Return new arrays, whose elements are anything."""
        if self._block_bytes < _LEAST_BYTES:
            return [np.empty(shape, dtype) for shape, dtype, _ in self._places]
        block, span = self._free_block()
        data = span.export(block)
        return [np.ndarray(shape, dtype, data, offset) for shape, dtype, offset in self._places]

    def clear(self) -> None:
        """Keep no memory."""
        self._blocks.clear()

    def _free_block(self) -> tuple[Array, Span]:
        for pair in self._blocks:
            if not pair[1].is_exported:
                return pair
        block = np.empty(self._block_bytes, np.uint8)
        pair = block, Span(block.__array_interface__["data"][0], self._block_bytes)
        self._blocks = [*self._blocks[1 - _MOST_BLOCKS :], pair]
        return pair


def written_as(queried: QueriedTensor, spec: OutputSpec, *, is_mini: bool) -> QueriedTensor:
    """Describe an output as the runtime writes it for an `OutputSpec`, by its native attribute."""
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
        """Prepare the native attribute."""
        attr = queried.attr
        check_layouts(name, attr)
        self._results = ResultPool([attr.shape])
        super().__init__(context, name, attr, attr.stored, queried.native, reserved_bytes)
        self._is_packed, self._is_quantized = attr.is_packed, attr.affine is not None
        self._zero_point, self._scale = attr.affine or (0, 1.0)
        self._unpack = layout.nc1hwc2_to_nhwc if attr.is_nhwc else layout.nc1hwc2_to_nchw
        if self._is_packed:
            _, self._channels, self._height, self._width = attr.nchw_shape
        #: Writes the native array as float32; made by the first `read`.
        self._dequantize: Callable[[Array], Array] | None = None
        #: From the order in memory to the logical one.
        self._axes = (0, 3, 1, 2) if attr.stored.is_nhwc and not attr.is_nhwc else None

    def checked(self, out: Array | None) -> Array:
        """Check an array to `read` to, or make one; see ``Model.output_f32``."""
        if out is None:
            return self._results.arrays()[0]
        return result(out, self.attr.shape, _FLOAT32)

    def _drop(self) -> None:
        super()._drop()
        self._dequantize = None

    def forget(self) -> None:
        """Drop the private array, and the memory for results."""
        super().forget()
        self._results.clear()

    def read(self, out: Array) -> Array:
        """Write the output as float32 in the logical shape to a `checked` array; return that.

        It is checked before, so that no exception of a kernel holds the private array.
        """
        if self._dequantize is not None:
            return self._dequantize(out)
        array = self.private()
        if not self._is_packed:
            if self._axes is not None:
                array = np.ascontiguousarray(array.transpose(self._axes))
            return self._real(array, out)
        if (self._is_quantized and self.dtype in _QUANTIZED) or self.dtype == _FLOAT16:
            _, self._dequantize = quantization.unpacking(
                array,
                self._channels,
                self._zero_point,
                self._scale,
                self._height,
                self._width,
                self.attr.layout,
            )
            return self._dequantize(out)
        values = self._unpack(array, self._channels, height=self._height, width=self._width)
        return self._real(values, out)

    def _real(self, values: Array, out: Array) -> Array:
        if self.dtype == _FLOAT16:
            return quantization.float16_to_float32(values, out)
        if self._is_quantized and self.dtype in _QUANTIZED:
            return quantization.dequantize_affine(values, self._zero_point, self._scale, out)
        np.copyto(out, values, casting="same_kind")
        if self._is_quantized:
            out[...] = (values.astype(np.float64) - self._zero_point) * self._scale
        return out
