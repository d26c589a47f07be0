"""Memory that both the CPU and the NPU see."""

from __future__ import annotations

import os
import weakref
from typing import Any, NoReturn

import numpy as np

from rknn_runtime._arrays import Array, Span, as_int, as_member, plain
from rknn_runtime._ffi import ffi, lib
from rknn_runtime.enums import MemoryFlag
from rknn_runtime.errors import ClosedError
from rknn_runtime.npu.context import Closing, Context
from rknn_runtime.npu.loaded import LoadedModel
from rknn_runtime.npu.locks import ExclusiveLock

_MOST_BYTES = 2**32 - 1
_MOST_FLAGS = sum(MemoryFlag)
#: Locks of the DMA-BUFs in which models run, by device and inode of the descriptor.
_turns: weakref.WeakValueDictionary[tuple[int, int], ExclusiveLock] = weakref.WeakValueDictionary()
#: Held where one is looked up: ``setdefault`` of a weak dictionary is two steps.
_turns_lock = ExclusiveLock()


class TensorMemory(Closing):
    """A block of NPU memory, released on `close`, on leaving a ``with`` block, or when collected.

    A model makes one per input and output (``model.input_memory(i)``,
    ``model.output_memory(i)``). Others come from the runtime (this class itself), from a camera
    or another device (`from_fd`, `from_physical`), from ``/dev/dma_heap`` (`from_dma_heap`), or
    from another model (`shared_with`); bind them with ``model.bind_input`` and similar methods.
    A bound memory is released with its model and cannot be closed alone. Each belongs to one
    model.

    Every method raises `ClosedError` if the memory or its model was closed, `ForkError` in a
    process that was forked after it was made, `RuntimeError` in the middle of another call, as
    in a signal handler, and `RknnStatusError` if the runtime refuses.

    Attributes:
        size_bytes: Its size.
        fd: The DMA-BUF file descriptor, for other hardware such as the RGA or a camera; owned
            by the memory, or yours if you passed it. -1 if the runtime gives none.
        offset: Where the memory begins in the DMA-BUF, bytes.
        physical_address: Its bus address, 0 if the runtime gives none.
    """

    def __init__(
        self,
        model: LoadedModel | Context,
        size_bytes: int,
        *,
        flags: MemoryFlag = MemoryFlag.DEFAULT,
    ) -> None:
        """Have the runtime allocate.

        Args:
            model: The model that will use it.
            size_bytes: At least 1.
            flags: Where and how, for ``rknn_create_mem2``. The default is ``rknn_create_mem``,
                which every runtime has.

        Raises:
            AllocationError: The runtime has no memory left.
            RknnError: The runtime gave a memory that cannot be used.
            UnavailableError: Flags, and a runtime without ``rknn_create_mem2`` (before 2.0).
            ValueError: The size is not from 1 to 2**32 - 1, or unknown flags.
        """
        size_bytes = as_int(size_bytes, "size_bytes", 1, _MOST_BYTES)
        flags = as_member(flags, "flags", MemoryFlag, _MOST_FLAGS)
        call = f"rknn_create_mem({size_bytes} bytes)"
        if flags:
            call = f"rknn_create_mem2({size_bytes} bytes, {flags!r})"
        self._make(
            model,
            size_bytes,
            call,
            lambda session, number: lib.rkr_session_create_mem(
                session, size_bytes, int(flags), number
            ),
        )

    @classmethod
    def from_fd(
        cls,
        model: LoadedModel | Context,
        fd: int,
        size_bytes: int,
        offset: int = 0,
        *,
        owned: bool = False,
        mapped: bool = True,
    ) -> TensorMemory:
        """Take memory of another device by its DMA-BUF, as from V4L2, DRM or GStreamer.

        The pages stay as long as the memory lives, even if their descriptors are closed.

        Args:
            model: The model that will use it.
            fd: File descriptor of a DMA-BUF.
            size_bytes: Size of the part to use.
            offset: Where that part begins, bytes.
            owned: Close ``fd`` with the memory; if this call raises, it stays yours. False: keep
                it open yourself as long as the memory lives.
            mapped: Map it for the CPU: `array` and everything that copies need that. False:
                the CPU never sees the bytes, and no time or address space is spent on that.

        Raises:
            AllocationError: The runtime does not take the descriptor.
            OSError: It is no descriptor, or cannot be mapped.
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
        call = f"rknn_create_mem_from_fd(fd {fd}, {size_bytes} bytes at {offset})"

        def create(session: Any, number: Any) -> int:
            status: int = lib.rkr_session_import_fd(session, fd, size_bytes, offset, flags, number)
            if status == lib.RKR_ERR_LOAD:
                raise OSError(ffi.errno, f"{call}: {os.strerror(ffi.errno)}")
            if status == lib.RKR_ERR_SHAPE:
                raise ValueError(f"{call}: the file has {os.fstat(fd).st_size} bytes")
            return status

        memory = cls.__new__(cls)
        memory._make(model, size_bytes, call, create, is_seen=mapped)
        # Set here, because not every runtime reports them.
        memory.fd, memory.offset = fd, offset
        return memory

    @classmethod
    def from_physical(
        cls,
        model: LoadedModel | Context,
        address: int,
        size_bytes: int,
        array: Array | None = None,
    ) -> TensorMemory:
        """Take memory by its bus address, as from Rockchip's MPI or CMA, on SoCs without IOMMU.

        The NPU reads and writes there: nothing checks the address.

        Args:
            model: The model that will use it.
            address: As the NPU sees it; the memory is contiguous from there on.
            size_bytes: Its size.
            array: The same bytes as the CPU sees them, ``(size_bytes,) uint8``, which this
                memory keeps alive. None: the CPU does not see them.

        Raises:
            AllocationError: The runtime does not take the address.
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
        memory._make(
            model,
            size_bytes,
            f"rknn_create_mem_from_phys({address:#x}, {size_bytes} bytes)",
            lambda session, number: lib.rkr_session_import_phys(
                session, address, pointer, size_bytes, number
            ),
            is_seen=array is not None,
        )
        memory.physical_address, memory._kept = address, array
        return memory

    @classmethod
    def from_dma_heap(
        cls,
        model: LoadedModel | Context,
        size_bytes: int,
        heap: str = "system",
        *,
        mapped: bool = True,
    ) -> TensorMemory:
        """Allocate from ``/dev/dma_heap``: memory that no runtime owns, for others to share.

        Args:
            model: The model that will use it.
            size_bytes: At least 1.
            heap: Its name; see `rknn_runtime.npu.dma_heap.allocate`.
            mapped: As in `from_fd`.

        Raises:
            OSError: The heap does not exist, may not be used, or is exhausted.
            ValueError: As in `from_fd`, like all other exceptions.
        """
        from rknn_runtime.npu.dma_heap import allocate

        context = _context_of(model)
        fd = allocate(size_bytes, heap)
        try:
            return cls.from_fd(context, fd, size_bytes, owned=True, mapped=mapped)
        except BaseException:
            os.close(fd)
            raise

    def shared_with(self, model: LoadedModel | Context) -> TensorMemory:
        """Return the same bytes as a memory of another model.

        Close the two separately, in any order: the bytes stay as long as either lives.

        Raises:
            OSError: The process has no free descriptor; and as in `from_fd`.
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

    def _make(
        self, model: object, size_bytes: int, call: str, create: Any, *, is_seen: bool = True
    ) -> None:
        """Have the runtime make the memory; see `Context.create_memory`."""
        self._context, self.size_bytes = _context_of(model), size_bytes
        self._bound_to: str | None = None
        self._kept: Array | None = None
        self._number, pointer, self._span, self._finalizer = self._context.create_memory(
            self, self.size_bytes, call, create, is_seen=is_seen
        )
        self.fd = int(pointer.fd)
        self.offset = int(pointer.offset)
        self.physical_address = int(pointer.phys_addr)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.size_bytes} bytes"
        return f"<TensorMemory {state}>"

    def __reduce__(self) -> NoReturn:
        # A copy would not keep the memory, yet its arrays would seem to.
        raise TypeError("a TensorMemory owns NPU memory: it can be neither copied nor pickled")

    @property
    def is_closed(self) -> bool:
        """Whether it was released, by itself or with its context."""
        return not self._finalizer.alive or self._context.is_closed

    @property
    def has_views(self) -> bool:
        """Whether an array that views the memory is alive."""
        return self._span is not None and self._span.is_exported

    @property
    def is_held(self) -> bool:
        """Whether a private array of the package is alive, perhaps in a traceback."""
        return self._span is not None and self._span.is_private

    @property
    def is_mapped(self) -> bool:
        """Whether the CPU sees it."""
        return self._span is not None

    @property
    def span(self) -> Span:
        """Who views it, for the package alone.

        Raises:
            BufferError: The CPU does not see it.
        """
        if self._span is None:
            raise BufferError(f"{self!r}: the CPU does not see it, as it was made unmapped")
        return self._span

    def usable(self, context: Context, name: str, least_bytes: int) -> Any:
        """Check that a model can use the memory; return its `pointer`.

        The caller is inside ``with context.lock``.

        Args:
            context: Of the model.
            name: What for, such as ``input 0 'images'``.
            least_bytes: Of it.

        Raises:
            ValueError: It is too small, of another model, or bound to something else.
        """
        if self._context is not context:
            raise ValueError(
                f"memory: expected one of this model for {name}, got one of another: see "
                "TensorMemory.shared_with"
            )
        pointer = self.pointer
        if self.size_bytes < least_bytes:
            raise ValueError(
                f"memory: expected at least {least_bytes} bytes for {name}, got {self.size_bytes}"
            )
        if self._bound_to not in (None, name):
            raise ValueError(
                f"memory: expected one that nothing uses for {name}, got that of {self._bound_to}"
            )
        return pointer

    @property
    def pointer(self) -> Any:
        """The ``rknn_tensor_mem *``, for calls to the C shim inside ``with context.lock``."""
        mem = self._context.memory(self._number)
        if mem == ffi.NULL:
            raise ClosedError("the memory is closed")
        return mem

    def array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the memory as bytes.

        Returns:
            ``(size_bytes,) uint8``, a writable view of NPU memory. While it or anything
            made from it without a copy is alive, the memory cannot be closed.

        Raises:
            BufferError: The CPU does not see it: ``mapped=False``, or no ``array`` was given.
        """
        with self._context.lock:
            self._context.opened()
            return self.locked_array()

    def locked_array(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Do as `array`, inside ``with context.lock``."""
        self.pointer  # noqa: B018 - raises when closed
        return self.span.export(self)

    def sync_to_device(self) -> None:
        """Make writes of the CPU visible to the NPU, unless caches are coherent."""
        self._sync(lib.RKNN_MEMORY_SYNC_TO_DEVICE)

    def sync_from_device(self) -> None:
        """Make writes of the NPU visible to the CPU, unless caches are coherent."""
        self._sync(lib.RKNN_MEMORY_SYNC_FROM_DEVICE)

    def _sync(self, mode: int) -> None:
        with self._context.lock:
            context, mem = self._context.opened(), self.pointer
            # Without this function the runtime keeps caches coherent by itself.
            if self._context.library.has("rknn_mem_sync"):
                status = lib.rkr_mem_sync(self._context.handle, context, mem, mode)
                self._context.check_status(status, f"rknn_mem_sync(mode={mode})")

    def bind(self, name: str | None) -> str | None:
        """Note the model's use of the memory, which then cannot be closed alone; None: unused.

        Returns:
            The note before.
        """
        before, self._bound_to = self._bound_to, name
        return before

    def close(self) -> None:
        """Release the memory; does nothing if it is closed, or belongs to a parent process.

        Raises:
            BufferError: An array that views it is alive, or a model uses it.
        """
        if self.is_closed:
            return
        if self._context.is_foreign:
            self._finalizer.detach()
            return
        with self._context.lock:
            if self._bound_to is not None:
                raise BufferError(
                    f"the memory is {self._bound_to} of a model: close the model, or bind another"
                )
            if self.has_views or self.is_held:
                raise BufferError("an array that views the memory is alive: drop or copy it first")
            # Detached first: after an interrupt the model still releases it.
            if self._finalizer.detach() is not None:
                self._context.destroy_memory(self._number)


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
    context = model._context if isinstance(model, LoadedModel) else model
    if not isinstance(context, Context):
        raise TypeError(f"model: expected a Model, got {type(model).__name__}")
    return context
