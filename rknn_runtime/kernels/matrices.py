"""Matrices as the NPU multiplies them: matrix B in tiles, and 4-bit integers.

An NPU reads ``B`` of a product ``C = A * B`` in tiles of ``tile_n`` columns and ``tile_k`` rows,
each column after column; of more than ``segment_k`` rows it takes one segment after another.
`rknn_runtime.Matmul` knows these numbers of each SoC.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np

from rknn_runtime._arrays import (
    MAX_DIMENSION,
    Array,
    as_int,
    check_status,
    pointer,
    result,
    source,
    untyped,
)
from rknn_runtime._ffi import lib

__all__ = ["b_to_native", "native_to_b", "pack_int4", "unpack_int4"]

_INT8, _UINT8 = np.dtype("int8"), np.dtype("uint8")
_OF_TILES = tuple(map(np.dtype, ("int8", "uint8", "int16", "uint16", "float16")))


def b_to_native(
    b: Array,
    tile_k: SupportsIndex,
    tile_n: SupportsIndex,
    segment_k: SupportsIndex | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Cut matrix B into the tiles of the NPU.

    Args:
        b: ``(K, N)``, elements of 1 or 2 bytes, C-contiguous. 4-bit integers as int8.
        tile_k: Rows of a tile; divides K.
        tile_n: Columns of a tile; divides N.
        segment_k: Rows of a segment, a multiple of ``tile_k``; None: all.
        out: ``(K * N,)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: a copy. Without segments its order is that of
        ``(N / tile_n, K / tile_k, tile_n, tile_k)``.
    """
    b = source(b, "b", _OF_TILES, shape="K, N")
    k, n = b.shape
    sizes = _sizes(k, n, tile_k, tile_n, segment_k)
    out = result(out, (k * n,), b.dtype)
    status = lib.rkr_tile_b(untyped(b), b.size, untyped(out), out.size, b.itemsize, *sizes)
    check_status(status, "b_to_native")
    return out


def native_to_b(
    native: Array,
    k: SupportsIndex,
    n: SupportsIndex,
    tile_k: SupportsIndex,
    tile_n: SupportsIndex,
    segment_k: SupportsIndex | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Put the tiles of `b_to_native` together again.

    Args:
        native: ``(K * N,)``, elements of 1 or 2 bytes.
        k: Rows of B.
        n: Columns of B.
        tile_k: Rows of a tile.
        tile_n: Columns of a tile.
        segment_k: Rows of a segment; None: all.
        out: ``(K, N)`` of the same dtype to write to.

    Returns:
        ``out``, or a new array: a copy.
    """
    native = source(native, "native", _OF_TILES, shape="K * N")
    sizes = _sizes(k, n, tile_k, tile_n, segment_k)
    out = result(out, sizes[:2], native.dtype)
    status = lib.rkr_untile_b(
        untyped(native), native.size, untyped(out), out.size, native.itemsize, *sizes
    )
    check_status(status, "native_to_b")
    return out


def pack_int4(values: Array, *, out: Array | None = None) -> Array:
    """Pack 4-bit integers, two a byte: the first of two neighbours into the low half.

    Args:
        values: int8 from -8 to 7, an even number of them in the last dimension, C-contiguous.
        out: uint8 of half as many to write to.

    Returns:
        ``out``, or a new array: a copy.
    """
    values = source(values, "values", (_INT8,))
    if values.ndim == 0 or values.shape[-1] % 2:
        raise ValueError(f"values: expected an even number in a row, got shape {values.shape}")
    out = result(out, (*values.shape[:-1], values.shape[-1] // 2), _UINT8)
    status = lib.rkr_pack_int4(pointer(values), values.size, pointer(out), out.size)
    if status == lib.RKR_ERR_ARGUMENT:
        raise ValueError(f"values: expected -8 to 7 for int4, got {values.min()} to {values.max()}")
    check_status(status, "pack_int4")
    return out


def unpack_int4(packed: Array, *, out: Array | None = None) -> Array:
    """Unpack the bytes of `pack_int4`, uint8, to int8, twice as many in the last dimension."""
    packed = source(packed, "packed", (_UINT8,))
    if packed.ndim == 0:
        raise ValueError("packed: expected a dimension, got shape ()")
    out = result(out, (*packed.shape[:-1], packed.shape[-1] * 2), _INT8)
    status = lib.rkr_unpack_int4(pointer(packed), packed.size, pointer(out), out.size)
    check_status(status, "unpack_int4")
    return out


def _sizes(k: Any, n: Any, tile_k: Any, tile_n: Any, segment_k: Any) -> tuple[int, ...]:
    k = as_int(k, "k", 1, MAX_DIMENSION)
    n = as_int(n, "n", 1, MAX_DIMENSION)
    tile_k = as_int(tile_k, "tile_k", 1, MAX_DIMENSION)
    tile_n = as_int(tile_n, "tile_n", 1, MAX_DIMENSION)
    segment_k = k if segment_k is None else as_int(segment_k, "segment_k", 1, MAX_DIMENSION)
    for what, whole_of, part in (("tile_k", k, tile_k), ("tile_n", n, tile_n)):
        if whole_of % part:
            raise ValueError(f"{what}: expected a divisor of {whole_of}, got {part}")
    if segment_k % tile_k:
        raise ValueError(f"segment_k: expected a multiple of tile_k, {tile_k}, got {segment_k}")
    return k, n, tile_k, tile_n, segment_k
