"""Multiply matrices on the NPU, without a model: the vendor's ``rknn_matmul_*``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    SCALE_RANGE,
    Array,
    as_int,
    as_member,
    plain,
    refuse_overlaps,
    result,
    source,
)
from rknn_runtime._ffi import decoded, ffi, lib
from rknn_runtime.enums import CoreMask, TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.kernels import layout, matrices
from rknn_runtime.npu import matmul_kinds as rules
from rknn_runtime.npu.context import Closing, Context
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.matmul_kinds import MatmulType, MatrixLayout, MatrixScales
from rknn_runtime.npu.memory import TensorMemory

#: Bits of an element, its dtype as a NumPy array, and the dtype of the bytes in memory.
_ELEMENTS = {
    TensorType.FLOAT32: (32, "float32", "float32"),
    TensorType.INT32: (32, "int32", "int32"),
    TensorType.FLOAT16: (16, "float16", "float16"),
    TensorType.INT16: (16, "int16", "int16"),
    TensorType.BFLOAT16: (16, "float32", "uint16"),
    TensorType.INT8: (8, "int8", "int8"),
    TensorType.INT4: (4, "int8", "uint8"),
}


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
        """Read the runtime's description; raise `RknnError` if it says something else."""
        self.name = decoded(info.name)
        self.shape, self.dtype = shape, dtype
        n_dims = min(int(info.n_dims), len(info.dims))
        self.stored_shape = tuple(int(each) for each in info.dims[0:n_dims])
        self._is_native = kind is MatrixLayout.NATIVE
        element_bits, values, in_memory = _ELEMENTS[dtype]
        self._values, self._stored = np.dtype(values), np.dtype(in_memory)
        bits = self._bits = math.prod(shape) * element_bits
        self.size_bytes = max(bits // 8, int(info.size))
        fits = math.prod(self.stored_shape) == math.prod(shape) and bits % 8 == 0
        if int(info.type) != dtype or not fits or not self._holds():
            raise RknnError(
                f"the runtime says that {self.name} of {shape} {dtype.name} is {self.stored_shape} "
                f"of type {int(info.type)}, {int(info.size)} bytes"
            )

    def _holds(self) -> bool:
        rows, columns = self.shape
        stored = self.stored_shape
        if not self._is_native:
            return stored == self.shape
        return len(stored) == 3 and stored[1] == rows and stored[0] * stored[2] == columns

    def checked(self, array: object) -> Array:
        """Check values to store."""
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
        """Return values as they lie in memory, as bytes in one dimension."""
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
        """Read values from memory."""
        rows, columns = self.shape
        stored = data[: self._bits // 8].view(self._stored).reshape(self.stored_shape)
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
        """As `Matrix`."""
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


#: Of one dimension, and of shapes.
MOST = 2**31 - 1
_MOST_SHAPES = 1024
FLOAT32 = np.dtype("float32")


def rows_of(m: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Read one number of rows, or several."""
    if not isinstance(m, Sequence):
        return (as_int(m, "m", 1, MOST),)
    rows = tuple(as_int(each, "m", 1, MOST) for each in m)
    if not rows or len(rows) > _MOST_SHAPES or len(set(rows)) < len(rows):
        raise ValueError(f"m: expected 1 to {_MOST_SHAPES} different numbers, got {m!r}")
    return rows


class Matmul(Closing):
    """A product ``C = A * B`` of matrices of fixed sizes, computed by the NPU.

    B stays in NPU memory like weights: call `write_b` once, then the product with each A. It is
    thread-safe: one run at a time, and the GIL is released meanwhile. Close it, use it as a
    context manager, or let it be collected. Like a model it raises `ClosedError` once it is
    closed, `ForkError` in a forked process, `RuntimeError` in the middle of another call, and
    `RknnStatusError` if the runtime refuses. RK3562, RK3566, RK3568, RK3576 and RK3588 have it,
    each with its own types; see ``docs/matmul.md``.

    Attributes:
        dtype: Elements of A, B and C.
        k: Columns of A, rows of B.
        n: Columns of B and C.
        sizes_of_m: The numbers of rows that A and C may have.
    """

    def __init__(
        self,
        m: SupportsIndex | Sequence[SupportsIndex],
        k: SupportsIndex,
        n: SupportsIndex,
        dtype: MatmulType,
        *,
        library: Any = None,
        b_layout: MatrixLayout = MatrixLayout.NORMAL,
        ac_layout: MatrixLayout = MatrixLayout.NORMAL,
        b_scales: MatrixScales = MatrixScales.ONE,
        group_size: SupportsIndex = 0,
        core_mask: CoreMask | None = None,
        iommu_domain: SupportsIndex = 0,
    ) -> None:
        """Prepare a product.

        Args:
            m: Rows of A and C; several, to choose from with `set_m`.
            k: Columns of A and rows of B.
            n: Columns of B and C.
            dtype: Elements of A, B and C.
            library: The runtime library; see `rknn_runtime.open_library`.
            b_layout: Layout of B in NPU memory. ``NATIVE`` is the fastest to run; `write_b`
                converts.
            ac_layout: Layout of A and C in NPU memory, ``NORMAL`` or ``NATIVE``.
            b_scales: How many scales B has; see `set_scales`.
            group_size: Rows of a group, for ``PER_GROUP``; divides k.
            core_mask: NPU cores to run on (RK3588, RK3576); None leaves the choice to the runtime.
            iommu_domain: Which of the NPU's address spaces of 4 GB to use, 0 to 15.

        Raises:
            AllocationError: The runtime has no memory left.
            LibraryLoadError: No runtime library could be loaded.
            RknnError: The runtime's description of the matrices contradicts itself.
            UnavailableError: The runtime does not multiply matrices, or the SoC not these.
            ValueError: Sizes that do not suit the NPU.
        """
        self._kind = rules.MatmulKind(
            as_member(dtype, "dtype", MatmulType),
            as_member(b_layout, "b_layout", MatrixLayout),
            as_member(ac_layout, "ac_layout", MatrixLayout),
            as_member(b_scales, "b_scales", MatrixScales),
        )
        if self._kind.ac_layout is MatrixLayout.TRANSPOSED:
            raise ValueError("ac_layout: expected NORMAL or NATIVE, got TRANSPOSED")
        self.dtype = self._kind.dtype
        self.k, self.n = as_int(k, "k", 1, MOST), as_int(n, "n", 1, MOST)
        self.sizes_of_m = rows_of(m)
        self._group_size = as_int(group_size, "group_size", 0, 2**15 - 1)
        is_grouped = self._kind.b_scales is MatrixScales.PER_GROUP
        if is_grouped != bool(self._group_size) or (is_grouped and self.k % self._group_size):
            raise ValueError(
                f"group_size: expected a divisor of k, {self.k}, with scales PER_GROUP, else 0, "
                f"got {self._group_size}"
            )
        domain = as_int(iommu_domain, "iommu_domain", 0, 15)
        mask = None if core_mask is None else as_member(core_mask, "core_mask", CoreMask)
        self._library = open_library(library)
        segment_k = rules.suit(self._library, self.sizes_of_m, self.k, self.n, self._kind)
        info = ffi.new("rknn_matmul_info *")
        info.iommu_domain_id, info.group_size = domain, self._group_size
        info.type, info.B_layout, info.AC_layout, info.B_quant_type = map(int, self._kind)
        shapes = ffi.new("rknn_matmul_shape[]", [(m, self.k, self.n) for m in self.sizes_of_m])
        self._attrs = ffi.new("rknn_matmul_io_attr[]", len(shapes))
        self._context = Context(self._library, what="product")
        self._context.initialise_matmul(info, shapes, self._attrs)
        try:
            self._describe(segment_k)
            self._allocate()
            self.set_m(self.sizes_of_m[0])
            if mask is not None:
                self.set_core_mask(mask)
        except BaseException:
            self._context.give_up()
            raise

    def _describe(self, segment_k: int | None) -> None:
        a, b, c = self.dtype.elements
        b_layout, ac_layout = self._kind.b_layout, self._kind.ac_layout
        self._of_m: dict[int, tuple[Matrix, Matrix, int]] = {}
        for i, m in enumerate(self.sizes_of_m):
            attrs = self._attrs[i]
            self._of_m[m] = (
                Matrix(attrs.A, (m, self.k), a, ac_layout),
                Matrix(attrs.C, (m, self.n), c, ac_layout),
                i,
            )
        self._b = MatrixB(self._attrs[0].B, (self.k, self.n), b, b_layout, segment_k)
        self._names = {"A": self._attrs[0].A, "B": self._attrs[0].B, "C": self._attrs[0].C}

    def _allocate(self) -> None:
        pairs = list(self._of_m.values())
        self._memories: dict[str, TensorMemory] = {}
        for name, size_bytes in (
            ("A", max(a.size_bytes for a, _, _ in pairs)),
            ("B", self._b.size_bytes),
            ("C", max(c.size_bytes for _, c, _ in pairs)),
        ):
            self._memories[name] = TensorMemory(self._context, size_bytes)
            self._memories[name].bind(f"matrix {name}")
        self._has_b = False

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.m} x {self.k} x {self.n}"
        return f"<Matmul {state} {self.dtype.name}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Matmul can be neither copied nor pickled: it owns an NPU context. Make it where it "
            "is needed"
        )

    @property
    def library(self) -> Library:
        """The runtime library; ``library.is_simulated`` tells the simulated NPU."""
        return self._library

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._context.is_closed

    def close(self) -> None:
        """Release memory and context; idempotent. In a forked child nothing is released.

        Raises:
            BufferError: An array that views its memory is alive; nothing was released.
        """
        self._context.close_for(lambda: None)

    @property
    def m(self) -> int:
        """The current number of rows of A and C."""
        return self._a.shape[0]

    @property
    def a_memory(self) -> TensorMemory:
        """The memory of A, to write in the NPU's layout."""
        return self._memories["A"]

    @property
    def b_memory(self) -> TensorMemory:
        """The memory of B, to write in the NPU's layout."""
        return self._memories["B"]

    @property
    def c_memory(self) -> TensorMemory:
        """The memory of C, to read in the NPU's layout."""
        return self._memories["C"]

    @property
    def stored_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Dimensions of A, B and C in memory, in elements; an int4 has half a byte."""
        return self._a.stored_shape, self._b.stored_shape, self._c.stored_shape

    def set_m(self, m: SupportsIndex) -> None:
        """Choose the number of rows of A and C, one of `sizes_of_m`; if it fails, choose again.

        Raises:
            ValueError: None of them.
        """
        m = as_int(m, "m", 1, MOST)
        if m not in self._of_m:
            raise ValueError(f"m: expected one of {', '.join(map(str, self.sizes_of_m))}, got {m}")
        a, c, index = self._of_m[m]
        with self._context.lock:
            handle, context = self._context.handle, self._context.opened()
            # Until all is said, the runtime may have one m, A and C another.
            self._context.paused = "set_m has not succeeded: choose m again"
            if len(self.sizes_of_m) > 1:
                shape = ffi.new("rknn_matmul_shape *", (m, self.k, self.n))
                status = lib.rkr_matmul_set_dynamic_shape(handle, context, shape)
                self._context.check_status(status, f"rknn_matmul_set_dynamic_shape(m={m})")
            attrs = self._attrs[index]
            for name, attr in (("A", attrs.A), ("B", attrs.B), ("C", attrs.C)):
                memory = self._memories[name].pointer
                status = lib.rkr_matmul_set_io_mem(handle, context, memory, ffi.addressof(attr))
                self._context.check_status(status, f"rknn_matmul_set_io_mem({name})")
            self._a, self._c = a, c
            self._context.paused = ""

    def set_core_mask(self, core_mask: CoreMask) -> None:
        """Choose the NPU cores to run on; RK3588 and RK3576 have several.

        Raises:
            RknnStatusError: The runtime refused: librknnrt 2.3.2 takes single cores and AUTO.
            UnavailableError: The runtime has no such function.
        """
        mask = as_member(core_mask, "core_mask", CoreMask)
        with self._context.lock:
            handle, context = self._context.handle, self._context.opened()
            status = lib.rkr_matmul_set_core_mask(handle, context, int(mask))
            self._context.check_status(status, f"rknn_matmul_set_core_mask({mask!r})")

    def set_scales(self, matrix: str, scales: float | Array) -> None:
        """Set the scales of a matrix of integers: ``real = integer * scale``.

        By default every scale is 1. A float C is the product of the real A and B. C of int8 is
        that product divided by its own scale. C of other integers is the sum of the integers and
        ignores all scales.

        Args:
            matrix: ``"A"``, ``"B"`` or ``"C"``.
            scales: Above 0: one, or for B float32 ``(n,)`` with ``PER_COLUMN``, and
                ``(k / group_size * n,)`` in the runtime's own order with ``PER_GROUP``.

        Raises:
            UnavailableError: The runtime has no such function.
            ValueError: No such matrix, another number of scales, or one out of range.
        """
        if not isinstance(matrix, str) or matrix not in self._names:
            raise ValueError(f"matrix: expected 'A', 'B' or 'C', got {matrix!r}")
        if not isinstance(scales, np.ndarray):
            if isinstance(scales, (str, bytes)) or not hasattr(scales, "__float__"):
                raise TypeError(f"scales: expected a number or an array of float32, got {scales!r}")
            number = float(scales)
            scales = np.array([number if math.isfinite(number) else math.inf], FLOAT32)
        array = source(scales, "scales", (FLOAT32,), shape="N")
        count = 1
        if matrix == "B" and self._kind.b_scales is not MatrixScales.ONE:
            groups = self.k // self._group_size if self._group_size else 1
            count = groups * self.n
        if array.size != count:
            raise ValueError(f"scales: expected {count} for {matrix}, got {array.size}")
        low, high = SCALE_RANGE
        if not (np.isfinite(array).all() and (array >= low).all() and (array <= high).all()):
            raise ValueError(
                f"scales: expected {low} to {high}, got {array.min()} to {array.max()}"
            )
        params = ffi.new("rknn_quant_params *")
        name = bytes(ffi.buffer(self._names[matrix].name))
        ffi.memmove(params.name, name, len(name))
        values = ffi.new("float[]", array.tolist())
        zeros = ffi.new("int32_t[]", count)
        params.scale, params.scale_len, params.zp, params.zp_len = values, count, zeros, count
        with self._context.lock:
            handle, context = self._context.handle, self._context.opened()
            status = lib.rkr_matmul_set_quant_params(handle, context, params)
            self._context.check_status(status, f"rknn_matmul_set_quant_params({matrix})")

    def write_b(self, b: Array) -> None:
        """Write matrix B, in the layout that the NPU needs.

        Args:
            b: ``(k, n)`` of B's element type; int8 from -8 to 7 for int4. Any strides.

        Raises:
            ValueError: Of another shape, or beyond what an int4 holds.
        """
        data = self._b.packed(b)
        with self._context.lock:
            self._context.check_open()
            self._write("B", data)
            self._has_b = True

    def _write(self, name: str, data: Array) -> None:
        """Copy bytes to a memory, inside ``with context.lock``."""
        memory = self._memories[name]
        memory.span.private()[: data.size] = data
        self._sync(name, lib.RKNN_MEMORY_SYNC_TO_DEVICE)

    def _sync(self, name: str, mode: int) -> None:
        if self._library.has("rknn_mem_sync"):
            context, memory = self._context.opened(), self._memories[name].pointer
            status = lib.rkr_mem_sync(self._context.handle, context, memory, mode)
            self._context.check_status(status, f"rknn_mem_sync({name}, mode={mode})")

    def run(self) -> None:
        """Multiply the present contents of the memories, which you wrote and synced.

        Raises:
            RuntimeError: Called in the middle of another call, as by a signal handler, or `set_m`
                has failed.
        """
        with self._context.lock:
            self._context.check_chosen()
            self._run()

    def _run(self) -> None:
        status = lib.rkr_matmul_run(self._context.handle, self._context.opened())
        self._context.check_status(status, "rknn_matmul_run")
        self._sync("C", lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def __call__(self, a: Array, *, out: Array | None = None) -> Array:
        """Multiply a matrix with B.

        Args:
            a: ``(m, k)`` of A's element type; int8 from -8 to 7 for int4. Any strides.
            out: ``(m, n)``, C-contiguous, of the dtype below, to write to.

        Returns:
            ``out``, or a new array, a copy: ``(m, n)`` of C's element type; float32 for bfloat16.

        Raises:
            RuntimeError: Called in the middle of another call, as by a signal handler,
                before `write_b`, or `set_m` has failed.
            ValueError: Of another shape, beyond what an int4 holds, or ``out`` overlaps ``a`` or
                NPU memory, or is not writable.
        """
        with self._context.lock:
            self._context.check_chosen()
            if not self._has_b:
                raise RuntimeError("matrix B was never written: call write_b first")
            data = self._a.packed(a)
            result = self._c.result(out)
            if out is not None:
                refuse_overlaps([result], [a], self._spans())
            self._write("A", data)
            self._run()
            return self._c.unpack(self._memories["C"].span.private(), result)

    def _spans(self) -> list[tuple[int, int, str]]:
        return [
            (memory.span.address, memory.span.address + memory.size_bytes, f"matrix {name}")
            for name, memory in self._memories.items()
        ]
