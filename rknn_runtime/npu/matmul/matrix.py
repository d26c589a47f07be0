"""One matrix of a product: its memory, and how values come into it and out of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, plain, result, source
from rknn_runtime._ffi import ffi
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.kernels import layout, matrices
from rknn_runtime.npu.matmul.enums import MatrixLayout

__all__ = ["BITS", "Matrix", "MatrixB", "values_dtype"]

BITS = {
    TensorType.FLOAT32: 32, TensorType.INT32: 32, TensorType.FLOAT16: 16, TensorType.INT16: 16,
    TensorType.BFLOAT16: 16, TensorType.INT8: 8, TensorType.INT4: 4,
}  # fmt: skip


def values_dtype(dtype: TensorType) -> np.dtype[Any]:
    """Return what elements are as a NumPy array: int4 is int8, bfloat16 is float32."""
    if dtype is TensorType.INT4:
        return np.dtype("int8")
    return np.dtype("float32") if dtype is TensorType.BFLOAT16 else dtype.numpy


class Matrix:
    """Matrix A or C of a product, for one number of rows.

    Attributes:
        name: As the runtime calls it.
        shape: Rows and columns.
        stored_shape: The dimensions in memory.
        dtype: Of the elements.
        size_bytes: In memory.
    """

    def __init__(self, info: Any, shape: tuple[int, int], dtype: TensorType, kind: MatrixLayout):
        """Read what the runtime says, of which nothing is taken for granted.

        Args:
            info: The ``rknn_matmul_tensor_attr``.
            shape: Rows and columns.
            dtype: Of the elements.
            kind: The layout that was asked for.

        Raises:
            RknnError: The runtime says something else.
        """
        self.name = str(ffi.string(info.name).decode("utf-8", "backslashreplace"))
        self.shape, self.dtype = shape, dtype
        n_dims = min(int(info.n_dims), len(info.dims))
        self.stored_shape = tuple(int(each) for each in info.dims[0:n_dims])
        self._is_native = kind is MatrixLayout.NATIVE
        bits = math.prod(shape) * BITS[dtype]
        self.size_bytes = max(bits // 8, int(info.size))
        fits = math.prod(self.stored_shape) == math.prod(shape) and bits % 8 == 0
        if int(info.type) != dtype or not fits or not self._holds():
            raise RknnError(
                f"the runtime says that {self.name} of {shape} {dtype.name} is {self.stored_shape} "
                f"of type {int(info.type)}, {int(info.size)} bytes"
            )
        self._values = values_dtype(dtype)
        self._stored = np.dtype("uint8") if dtype is TensorType.INT4 else self._values
        if dtype is TensorType.BFLOAT16:
            self._stored = np.dtype("uint16")

    def _holds(self) -> bool:
        """Whether the dimensions in memory are those that the functions below expect."""
        rows, columns = self.shape
        stored = self.stored_shape
        if not self._is_native:
            return stored == self.shape
        return len(stored) == 3 and stored[1] == rows and stored[0] * stored[2] == columns

    def checked(self, array: object) -> Array:
        """Check values that are to be stored.

        Raises:
            TypeError: Not an ndarray, or of another dtype.
            ValueError: Of another shape.
        """
        values = plain(array, self.name)
        if values.dtype != self._values:
            raise TypeError(
                f"{self.name}: expected dtype {self._values} ({self.dtype.name} elements), got "
                f"{values.dtype}"
            )
        if values.shape != self.shape:
            raise ValueError(f"{self.name}: expected shape {self.shape}, got {values.shape}")
        return np.ascontiguousarray(values)

    def packed(self, array: object) -> Array:
        """Return values as they lie in memory, as bytes in one dimension.

        Raises:
            TypeError: Not an ndarray, or of another dtype.
            ValueError: Of another shape, or beyond what an int4 holds.
        """
        values = self._arranged(self.checked(array))
        if self.dtype is TensorType.INT4:
            values = matrices.pack_int4(values.reshape(-1))
        return values.reshape(-1).view(np.uint8)

    def _arranged(self, values: Array) -> Array:
        if not self._is_native:
            return values
        rows, columns = self.shape
        return layout.nhwc_to_nc1hwc2(values.reshape(1, rows, 1, columns), self.stored_shape[2])

    def result(self, out: Array | None) -> Array:
        """Check an array to `unpack` to, or make one."""
        if out is not None:
            source(out, "out", (self._values,), shape="M, N")
        return result(out, self.shape, self._values)

    def unpack(self, data: Array, out: Array) -> Array:
        """Read values from memory.

        Args:
            data: uint8, at least `size_bytes`.
            out: Of `result`.
        """
        rows, columns = self.shape
        bits = rows * columns * BITS[self.dtype]
        stored = data[: bits // 8].view(self._stored).reshape(self.stored_shape)
        if self._is_native:
            groups, _, group = self.stored_shape
            stored = layout.nc1hwc2_to_nhwc(stored.reshape(1, groups, rows, 1, group), columns)
            stored = stored.reshape(self.shape)
        if self.dtype is TensorType.BFLOAT16:
            stored = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        np.copyto(out, stored)
        return out


class MatrixB(Matrix):
    """Matrix B."""

    def __init__(
        self,
        info: Any,
        shape: tuple[int, int],
        dtype: TensorType,
        kind: MatrixLayout,
        segment_k: int | None,
    ):
        """As `Matrix`.

        Args:
            info: The ``rknn_matmul_tensor_attr``.
            shape: Rows and columns.
            dtype: Of the elements.
            kind: The layout that was asked for.
            segment_k: Rows of a segment of the native layout; None: all.
        """
        self._is_transposed = kind is MatrixLayout.TRANSPOSED
        self._segment_k = segment_k
        super().__init__(info, shape, dtype, kind)

    def _holds(self) -> bool:
        k, n = self.shape
        stored = self.stored_shape
        if self._is_transposed:
            return stored == (n, k)
        if not self._is_native:
            return stored == self.shape
        return (
            len(stored) == 4
            and stored[0] * stored[2] == n
            and stored[1] * stored[3] == k
            and (self._segment_k or k) % stored[3] == 0
        )

    def _arranged(self, values: Array) -> Array:
        if self._is_transposed:
            return np.ascontiguousarray(values.T)
        if not self._is_native:
            return values
        _, _, tile_n, tile_k = self.stored_shape
        return matrices.b_to_native(values, tile_k, tile_n, self._segment_k)
