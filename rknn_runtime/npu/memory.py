"""Memory that both the CPU and the NPU see."""

from __future__ import annotations

import os
import weakref
from typing import Any

from rknn_runtime._arrays import Array, as_int, as_member, plain
from rknn_runtime._ffi import ffi, lib
from rknn_runtime._locks import ExclusiveLock
from rknn_runtime.enums import MemoryFlag
from rknn_runtime.npu.block import Block
from rknn_runtime.npu.context import Context, HasContext

__all__ = ["TensorMemory", "turns_of"]

_MOST_BYTES = 2**32 - 1
_MOST_FLAGS = sum(MemoryFlag)
#: Locks of the DMA-BUFs in which models run, by device and inode of the descriptor.
_turns: weakref.WeakValueDictionary[tuple[int, int], ExclusiveLock] = weakref.WeakValueDictionary()
#: Held where one is looked up: ``setdefault`` of a weak dictionary is two steps.
_turns_lock = ExclusiveLock()


class TensorMemory(Block):
    """A block of NPU memory, released on `close`, on leaving a ``with`` block, or when collected.

    A model makes one per input and output (``model.input_memory(i)``,
    ``model.output_memory(i)``). Others come from the runtime (this class itself), from a camera
    or another device (`from_fd`, `from_physical`), from ``/dev/dma_heap`` (`from_dma_heap`), or
    from another model (`shared_with`), and are bound with ``model.bind_input`` and its like. What
    is bound is released with the model and cannot be closed alone. Each belongs to one model.

    Every method raises `ClosedError` when the memory or its model was closed, `ForkError` in a
    process that was forked after it was made, and `RuntimeError` in the middle of another call,
    as in a signal handler.

    Attributes:
        size_bytes: Its size.
        fd: The DMA-BUF file descriptor, for other hardware such as the RGA or a camera; owned
            by the memory, or yours where you gave it. -1 where the runtime gives none.
        offset: Where the memory begins in the DMA-BUF, bytes.
        physical_address: Its bus address, 0 where the runtime gives none.
    """

    def __init__(
        self,
        model: HasContext | Context,
        size_bytes: int,
        *,
        flags: MemoryFlag = MemoryFlag.DEFAULT,
    ) -> None:
        """Have the runtime allocate.

        Args:
            model: What the memory is for.
            size_bytes: At least 1.
            flags: Where and how, for ``rknn_create_mem2``. The default is ``rknn_create_mem``,
                which every runtime has.

        Raises:
            AllocationError: The runtime has no memory left.
            RknnError: The runtime gave a memory that cannot be used.
            TypeError: No model, or no integer.
            UnavailableError: Flags, and a runtime without ``rknn_create_mem2`` (before 2.0).
            ValueError: The size is not from 1 to 2**32 - 1, or unknown flags.
        """
        size_bytes = as_int(size_bytes, "size_bytes", 1, _MOST_BYTES)
        flags = as_member(flags, "flags", MemoryFlag, _MOST_FLAGS)
        self._of(_context_of(model), size_bytes)
        call = f"rknn_create_mem({size_bytes} bytes)"
        if flags:
            call = f"rknn_create_mem2({size_bytes} bytes, {flags!r})"
        self._make(
            call,
            lambda session, number: lib.rkr_session_create_mem(
                session, size_bytes, int(flags), number
            ),
        )

    @classmethod
    def from_fd(
        cls,
        model: HasContext | Context,
        fd: int,
        size_bytes: int,
        offset: int = 0,
        *,
        owned: bool = False,
        mapped: bool = True,
    ) -> TensorMemory:
        """Take memory of another device by its DMA-BUF, as from V4L2, DRM or GStreamer.

        The pages stay as long as the memory lives, whoever closes descriptors of them.

        Args:
            model: What the memory is for.
            fd: File descriptor of a DMA-BUF.
            size_bytes: Of the part that is used.
            offset: Where that begins, bytes.
            owned: Close ``fd`` with the memory; when this call raises, it stays yours. False:
                borrowed, and to be kept open as long as the memory lives.
            mapped: Map it for the CPU: `array` and everything that copies need that. False:
                the CPU never sees the bytes, and no time or address space is spent on that.

        Raises:
            AllocationError: The runtime does not take the descriptor.
            OSError: It is none, or it cannot be mapped.
            TypeError: No model, no integer, or no bool.
            UnavailableError: The runtime has no ``rknn_create_mem_from_fd``.
            ValueError: A number out of range, or a file that is shorter.
        """
        fd = as_int(fd, "fd", 0, 2**31 - 1)
        size_bytes = as_int(size_bytes, "size_bytes", 1, _MOST_BYTES)
        offset = as_int(offset, "offset", 0, 2**31 - 1)
        flags = 0
        for name, value, flag in (
            ("owned", owned, lib.RKR_IMPORT_OWN),
            ("mapped", mapped, lib.RKR_IMPORT_MAP),
        ):
            if not isinstance(value, bool):
                raise TypeError(f"{name}: expected a bool, got {value!r}")
            flags |= flag if value else 0
        memory = cls.__new__(cls)
        memory._of(_context_of(model), size_bytes)
        call = f"rknn_create_mem_from_fd(fd {fd}, {size_bytes} bytes at {offset})"

        def create(session: Any, number: Any) -> int:
            status: int = lib.rkr_session_import_fd(session, fd, size_bytes, offset, flags, number)
            if status == lib.RKR_ERR_LOAD:
                raise OSError(ffi.errno, f"{call}: {os.strerror(ffi.errno)}")
            if status == lib.RKR_ERR_SHAPE:
                raise ValueError(f"{call}: the file has {os.fstat(fd).st_size} bytes")
            return status

        memory._make(call, create, is_seen=mapped)
        # Of a runtime that does not repeat them.
        memory.fd, memory.offset = fd, offset
        return memory

    @classmethod
    def from_physical(
        cls,
        model: HasContext | Context,
        address: int,
        size_bytes: int,
        array: Array | None = None,
    ) -> TensorMemory:
        """Take memory by its bus address, as from Rockchip's MPI or CMA, on SoCs without IOMMU.

        The NPU reads and writes there, whatever it is: nothing checks the address.

        Args:
            model: What the memory is for.
            address: As the NPU sees it; the memory is contiguous from there on.
            size_bytes: Of it.
            array: The same bytes as the CPU sees them, ``(size_bytes,) uint8``, which this
                memory keeps alive. None: the CPU does not see them.

        Raises:
            AllocationError: The runtime does not take the address.
            TypeError: No model, no integer, or no array of uint8.
            UnavailableError: The runtime has no ``rknn_create_mem_from_phys``.
            ValueError: A number out of range, or an array of another size, or one that is
                read-only or not C-contiguous.
        """
        address = as_int(address, "address", 0, 2**64 - 1)
        size_bytes = as_int(size_bytes, "size_bytes", 1, _MOST_BYTES)
        pointer = ffi.NULL
        if array is not None:
            array = plain(array, "array")
            if array.dtype.name != "uint8":
                raise TypeError(f"array: expected dtype uint8, got {array.dtype}")
            if array.shape != (size_bytes,) or not array.flags.carray:
                raise ValueError(
                    f"array: expected shape ({size_bytes},), C-contiguous and writable, got "
                    f"{array.shape}"
                )
            pointer = ffi.from_buffer(array)
        memory = cls.__new__(cls)
        memory._of(_context_of(model), size_bytes)
        memory._kept = array
        memory._make(
            f"rknn_create_mem_from_phys({address:#x}, {size_bytes} bytes)",
            lambda session, number: lib.rkr_session_import_phys(
                session, address, pointer, size_bytes, number
            ),
            is_seen=array is not None,
        )
        memory.physical_address = address
        return memory

    @classmethod
    def from_dma_heap(
        cls,
        model: HasContext | Context,
        size_bytes: int,
        heap: str = "system",
        *,
        mapped: bool = True,
    ) -> TensorMemory:
        """Allocate from ``/dev/dma_heap``: memory that no runtime owns, for others to share.

        Args:
            model: What the memory is for.
            size_bytes: At least 1.
            heap: Which; see `rknn_runtime.npu.dma_heap.allocate`.
            mapped: As in `from_fd`.

        Raises:
            OSError: The heap does not exist, may not be used, or is exhausted.
            ValueError: As in `from_fd`, and so all other exceptions.
        """
        from rknn_runtime.npu.dma_heap import allocate

        context = _context_of(model)
        fd = allocate(size_bytes, heap)
        try:
            return cls.from_fd(context, fd, size_bytes, owned=True, mapped=mapped)
        except BaseException:
            os.close(fd)
            raise

    def shared_with(self, model: HasContext | Context) -> TensorMemory:
        """Return the same bytes as a memory of another model.

        The two are closed apart, in any order: the bytes stay as long as either lives.

        Raises:
            OSError: The process has no descriptor left; and as in `from_fd`.
            ValueError: The runtime gives no file descriptor of this memory.
        """
        with self._context.lock:
            self._context.check_open()
            self.pointer  # noqa: B018 - raises when closed
            if self.fd < 0:
                raise ValueError(f"the runtime gives no file descriptor of {self!r} to share")
            fd = os.dup(self.fd)
        try:
            return type(self).from_fd(
                model, fd, self.size_bytes, self.offset, owned=True, mapped=self._span is not None
            )
        except BaseException:
            os.close(fd)
            raise


def turns_of(memory: TensorMemory) -> ExclusiveLock:
    """Return the lock of the DMA-BUF that a memory lies in, the same for all memories there.

    Models that compute in it run one after the other. Kernels before 5.3 do not tell one DMA-BUF
    from another; there, all that have such a lock take turns.
    """
    if memory.fd < 0:
        return ExclusiveLock()
    info = os.fstat(memory.fd)
    with _turns_lock.held():
        return _turns.setdefault((info.st_dev, info.st_ino), ExclusiveLock())


def _context_of(model: object) -> Context:
    context = model._context if isinstance(model, HasContext) else model
    if not isinstance(context, Context):
        raise TypeError(f"model: expected a Model, got {type(model).__name__}")
    return context
