"""Memory for the results of a call, used again when nobody has them any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array, Span

__all__ = ["ResultPool"]

_FLOAT32 = np.dtype("float32")
#: From so many bytes on C libraries give freed memory back to the system, or take it from there
#: for each allocation: then every page of a new result costs a page fault.
_LEAST_BYTES = 128 * 1024
#: In ``y = model(x)`` the last result is still alive while the next one is made.
_MOST_BLOCKS = 2
#: Every array begins at a cache line.
_LINE = 64


class ResultPool:
    """Makes arrays of given shapes, all in one block of memory.

    A block belongs to whoever has an array of it, and outlives the pool; it is used again once
    nobody has one. Small results are allocated one by one. Not thread-safe.

    Args:
        shapes: Of the arrays.
        dtypes: Of the arrays; None: all float32.
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
