"""Multiply matrices on the NPU, without a model: the vendor's ``rknn_matmul_*``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import SCALE_RANGE, Array, as_int, as_member, refuse_overlaps, source
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import CoreMask
from rknn_runtime.npu.closing import ContextOwner
from rknn_runtime.npu.context import Context
from rknn_runtime.npu.library import Library, open_library
from rknn_runtime.npu.matmul import rules
from rknn_runtime.npu.matmul.arguments import FLOAT32, MOST, one_scale, rows_of
from rknn_runtime.npu.matmul.enums import MatmulType, MatrixLayout, MatrixScales
from rknn_runtime.npu.matmul.matrix import Matrix, MatrixB
from rknn_runtime.npu.memory import TensorMemory

__all__ = ["Matmul"]


class _MatmulContext(Context):
    """The context of a product, closed by ``rknn_matmul_destroy``."""

    what = "product"

    def __init__(self, library: Library, info: Any, shapes: Any, attrs: Any) -> None:
        self._prepare(library)
        count = len(shapes)
        status = lib.rkr_session_init_matmul(self._session, info, count, shapes, attrs)
        name = "rknn_matmul_create" + ("_dynamic_shape" if count > 1 else "")
        rows = ", ".join(str(shape.M) for shape in shapes)
        call = f"{name}({rows} x {shapes[0].K} x {shapes[0].N}, type {int(info.type)})"
        self.check_status(status, call)


class Matmul(ContextOwner):
    """A product ``C = A * B`` of matrices of fixed sizes, computed by the NPU.

    B stays in NPU memory, as weights do: `write_b` once, then call with each A. Thread-safe: one
    run at a time, and the GIL is released meanwhile. Close it, use it as a context manager, or
    let it be collected. RK3562, RK3566, RK3568, RK3576 and RK3588 have it, each with its own
    types; see ``docs/matmul.md``.

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
            b_layout: How B lies in NPU memory. ``NATIVE`` is the fastest to run; `write_b` takes
                B as it is and does what the layout needs.
            ac_layout: How A and C lie in NPU memory, ``NORMAL`` or ``NATIVE``; likewise.
            b_scales: How many scales B has; see `set_scales`.
            group_size: Rows of a group, for ``PER_GROUP``; divides k.
            core_mask: NPU cores to run on (RK3588, RK3576); None leaves the choice to the runtime.
            iommu_domain: Of the NPU's address spaces of 4 GB the one to be in, 0 to 15.

        Raises:
            AllocationError: The runtime has no memory left.
            LibraryLoadError: No runtime library could be loaded.
            RknnError: The runtime describes the matrices in terms that make no sense.
            RknnStatusError: The runtime refused a call.
            TypeError: An argument of another type.
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
        self._context = _MatmulContext(self._library, info, shapes, self._attrs)
        try:
            self._describe(segment_k)
            self._allocate()
            self.set_m(self.sizes_of_m[0])
            if mask is not None:
                self.set_core_mask(mask)
        except BaseException:
            self._give_up()
            raise

    def _describe(self, segment_k: int | None) -> None:
        """Read what the runtime says of the matrices, of every m."""
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

    @property
    def m(self) -> int:
        """The current number of rows of A and C."""
        return self._a.shape[0]

    @property
    def a_memory(self) -> TensorMemory:
        """The memory of A, for who writes it in the NPU's layout."""
        return self._memories["A"]

    @property
    def b_memory(self) -> TensorMemory:
        """The memory of B, likewise."""
        return self._memories["B"]

    @property
    def c_memory(self) -> TensorMemory:
        """The memory of C, for who reads it in the NPU's layout."""
        return self._memories["C"]

    @property
    def stored_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Dimensions of A, B and C in memory, elements; those of int4 are half a byte."""
        return self._a.stored_shape, self._b.stored_shape, self._c.stored_shape

    def set_m(self, m: SupportsIndex) -> None:
        """Choose the number of rows of A and C, one of `sizes_of_m`; when it fails, choose again.

        Raises:
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime refused.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: Not an integer.
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
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime refused: librknnrt 2.3.2 takes single cores and AUTO.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: No core mask.
            UnavailableError: The runtime has no such function.
        """
        mask = as_member(core_mask, "core_mask", CoreMask)
        with self._context.lock:
            handle, context = self._context.handle, self._context.opened()
            status = lib.rkr_matmul_set_core_mask(handle, context, int(mask))
            self._context.check_status(status, f"rknn_matmul_set_core_mask({mask!r})")

    def set_scales(self, matrix: str, scales: float | Array) -> None:
        """Say what the integers of a matrix stand for: ``real = integer * scale``.

        Without, every scale is 1. What C of real numbers becomes is the product of the real A and
        B; C of int8 that divided by its own scale; C of other integers the sum of the integers,
        whatever the scales.

        Args:
            matrix: ``"A"``, ``"B"`` or ``"C"``.
            scales: Above 0: one, or for B float32 ``(n,)`` with ``PER_COLUMN``, and
                ``(k / group_size * n,)`` in the runtime's own order with ``PER_GROUP``.

        Raises:
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime refused.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: No numbers.
            UnavailableError: The runtime has no such function.
            ValueError: No such matrix, another number of scales, or one out of range.
        """
        if not isinstance(matrix, str) or matrix not in self._names:
            raise ValueError(f"matrix: expected 'A', 'B' or 'C', got {matrix!r}")
        array = scales if isinstance(scales, np.ndarray) else one_scale(scales)
        array = source(array, "scales", (FLOAT32,), shape="N")
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
        """Write matrix B, in whatever layout the NPU wants it.

        Args:
            b: ``(k, n)`` of B's element type; int8 from -8 to 7 for int4. Any strides.

        Raises:
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime refused a sync.
            RuntimeError: Called in the middle of another call, as by a signal handler.
            TypeError: Not an ndarray, or of another dtype.
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
        """Multiply what is in the memories, whoever wrote it and synced it there.

        Raises:
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime failed.
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
            ClosedError: It is closed.
            ForkError: This process was forked after it was made.
            RknnStatusError: The runtime failed.
            RuntimeError: Called in the middle of another call, as by a signal handler,
                before `write_b`, or `set_m` has failed.
            TypeError: Not an ndarray, or of another dtype.
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
