"""Memory from ``/dev/dma_heap``, which cameras, RGA, encoders and the NPU share by descriptor.

Numbers and structs come from the Linux kernel's ``uapi/linux/dma-heap.h`` and ``dma-buf.h``.
"""

from __future__ import annotations

import os
import struct
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from rknn_runtime._arrays import as_int
from rknn_runtime._files import read_file
from rknn_runtime.npu.context import Closing

#: ``struct dma_heap_allocation_data``: length, descriptor, its flags, flags of the heap.
_ALLOCATION = struct.Struct("=QIIQ")
_ALLOCATE = 0xC0184800  # DMA_HEAP_IOCTL_ALLOC
_SYNC = 0x40086200  # DMA_BUF_IOCTL_SYNC
_READ_WRITE, _END = 3, 4  # DMA_BUF_SYNC_RW, DMA_BUF_SYNC_END
_HEAPS = "/dev/dma_heap"
#: The largest size of a model that a runtime takes.
_MOST_FILE_BYTES = 2**31 - 1


def allocate(size_bytes: int, heap: str = "system") -> int:
    """Allocate a DMA-BUF.

    Args:
        size_bytes: At least 1; the kernel rounds up to whole pages.
        heap: A name in ``/dev/dma_heap``, or a path. ``"system"`` is cached and scattered over
            pages, which NPUs behind an IOMMU take (RK35xx); RV1103 and RV1106 need ``"cma"``
            (or ``"rk-dma-heap-cma"``), which is contiguous.

    Returns:
        The file descriptor, yours to close. It is not inherited by programs that you start.

    Raises:
        OSError: There is no such heap, you may not use it, or it has no memory left.
        ValueError: The size is not from 1 to 2**32 - 1.
    """
    import fcntl  # here, as nothing else needs it

    size_bytes = as_int(size_bytes, "size_bytes", 1, 2**32 - 1)
    if not isinstance(heap, str):
        raise TypeError(f"heap: expected a str, got {type(heap).__name__}")
    path = heap if "/" in heap else f"{_HEAPS}/{heap}"
    device = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    data = bytearray(_ALLOCATION.pack(size_bytes, 0, os.O_RDWR | os.O_CLOEXEC, 0))
    try:
        fcntl.ioctl(device, _ALLOCATE, data)
        fd: int = _ALLOCATION.unpack(data)[1]
    except OSError as error:
        reason = f"{error.strerror}: {size_bytes} bytes from {path}"
        raise OSError(error.errno, reason) from None
    except BaseException:
        fd = _ALLOCATION.unpack(data)[1]
        if fd:  # a signal came between the allocation and here
            os.close(fd)
        raise
    finally:
        os.close(device)
    return fd


class DmaBuffer(Closing):
    """A DMA-BUF of this process, mapped for the CPU: holds a model file that is not copied.

    ``Model(buffer, flags=InitFlag.MODEL_BUFFER_ZERO_COPY)`` leaves weights and commands where they
    are. For inputs and outputs see `TensorMemory.from_dma_heap`.

    Attributes:
        fd: The descriptor, closed by `close`.
        size_bytes: Of the data, which is what was asked for.
    """

    def __init__(self, size_bytes: int, heap: str = "system") -> None:
        """Allocate and map; for arguments and exceptions see `allocate`."""
        import mmap

        self.size_bytes = as_int(size_bytes, "size_bytes", 1, 2**32 - 1)
        self.fd = allocate(self.size_bytes, heap)
        self._close_fd = weakref.finalize(self, os.close, self.fd)
        try:
            self._map = mmap.mmap(self.fd, self.size_bytes)
        except BaseException:
            self._close_fd()
            raise

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], heap: str = "system") -> DmaBuffer:
        """Read a file into a new buffer.

        Raises:
            OSError: The file cannot be read, is no regular file, or is larger than 2 GiB; or as
                in `allocate`.
        """
        data = read_file(path, _MOST_FILE_BYTES)
        buffer = cls(max(len(data), 1), heap)
        try:
            with buffer.writing():
                buffer.data()[: len(data)] = data
        except BaseException:
            buffer.close()
            raise
        return buffer

    @property
    def is_closed(self) -> bool:
        """Whether `close` has run."""
        return self._map.closed

    def data(self) -> memoryview:
        """Return the bytes, a writable view; while it is alive the buffer cannot be closed.

        Raises:
            ValueError: The buffer is closed.
        """
        return memoryview(self._map)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Return a ``with`` block in which the CPU may use the bytes; caches are synced around it.

        Raises:
            OSError: The kernel refuses; raised by the block.
        """
        _sync(self.fd, _READ_WRITE)
        try:
            yield
        finally:
            _sync(self.fd, _READ_WRITE | _END)

    def close(self) -> None:
        """Unmap and close; a closed one is left alone.

        Raises:
            BufferError: A view is alive, or a model uses the buffer.
        """
        self._map.close()
        self._close_fd()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DmaBuffer owns a file descriptor: it can be neither copied nor pickled")

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"{self.size_bytes} bytes, fd {self.fd}"
        return f"<DmaBuffer {state}>"


def _sync(fd: int, flags: int) -> None:
    import fcntl

    fcntl.ioctl(fd, _SYNC, struct.pack("=Q", flags))
