"""Floats as the decimal numbers with the fewest digits that give the same float32 again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._ffi import ffi, lib

if TYPE_CHECKING:
    from numpy.typing import NDArray


def doubles(values: Any) -> NDArray[np.float64]:
    """Return the numbers as float64 in the same shape, so that 0.9 is written as 0.9."""
    floats = np.ascontiguousarray(values, np.float32)
    out = np.empty(floats.shape)
    if out.size:
        lib.rkr_decimal_doubles(
            ffi.from_buffer("float[]", floats),
            floats.size,
            ffi.from_buffer("double[]", out, require_writable=True),
        )
    return out


def texts(values: NDArray[Any], between: bytes = b" ", between_rows: bytes = b" ") -> list[str]:
    """Return one text per object of ``(n, k)`` or ``(n, k, m)`` numbers, as `str` writes them.

    Args:
        values: The numbers, with at least one per object.
        between: What separates the numbers of a row, at most 8 bytes.
        between_rows: What separates the ``k`` rows of ``(n, k, m)``, at most 8 bytes.
    """
    floats = np.ascontiguousarray(values, np.float32)
    n, *rows, columns = floats.shape
    if not floats.size:
        return [""] * n
    out = ffi.new("char[]", lib.RKR_DECIMAL_BYTES * floats.size)
    numbers = ffi.from_buffer("float[]", floats)
    size = lib.rkr_decimal_text(numbers, n, *(rows or (1,)), columns, between, between_rows, out)
    text = bytes(ffi.buffer(out, size)).decode("ascii").split("\n")
    text.pop()
    return text
