"""Arrays that end, or begin, where the memory does: one byte beyond is a crash."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_PROT_NONE = 0
_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def empty(shape, dtype, end=True):
    """Allocate an array between two pages that nobody may touch, against one of them."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    size = count * dtype.itemsize
    pages = max(1, -(-size // mmap.PAGESIZE))
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        if _mprotect(address + page * mmap.PAGESIZE, mmap.PAGESIZE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect failed")
    offset = (pages + 1) * mmap.PAGESIZE - size if end else mmap.PAGESIZE
    return np.frombuffer(memory, dtype, count, offset).reshape(shape)


def copy(array, end=True):
    """Copy an array to guarded memory."""
    guarded = empty(array.shape, array.dtype, end)
    guarded[...] = array
    return guarded
