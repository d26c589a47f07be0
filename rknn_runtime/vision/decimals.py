"""Floats as the decimal numbers with the fewest digits that give the same float32 again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rknn_runtime._ffi import ffi, lib

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INT32, _FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)
#: Memory that is written before it is read.
_new = ffi.new_allocator(should_clear_after_alloc=False)


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


def are_finite(values: NDArray[Any]) -> bool:
    """Tell whether no number is NaN or infinite."""
    floats = np.ascontiguousarray(values, np.float32)
    return not floats.size or bool(
        lib.rkr_are_finite(ffi.from_buffer("float[]", floats), floats.size)
    )


class Texts:
    """The texts for integers in a `table`.

    Args:
        texts: The text for each integer.
        missing: For another integer: what precedes the integer itself; None: it has no text.
    """

    def __init__(self, texts: Mapping[int, str], missing: bytes | None = None) -> None:
        keys = sorted(texts)
        encoded = [texts[key].encode("utf-8", "surrogatepass") for key in keys]
        lengths = list(map(len, encoded))
        self.count = len(keys)
        self.arrays = (
            ffi.new("int32_t[]", keys),
            ffi.from_buffer("char[]", b"".join(encoded)),
            ffi.new("uint32_t[]", list(accumulate(lengths))),
        )
        self.missing = ffi.NULL if missing is None else ffi.new("char[]", missing)
        self.longest = max([*lengths, lib.RKR_INTEGER_BYTES + len(missing or b"")])


class Cell(NamedTuple):
    """One part of the text of each object; see `table`."""

    #: What precedes it.
    before: str
    #: ``(n,)``, ``(n, k)`` or ``(n, k, m)`` numbers; those of a shape ``(n,)`` of int32 are
    #: integers.
    values: NDArray[Any]
    #: Written instead of integers.
    texts: Texts | None = None


def table(
    n: int, cells: Sequence[Cell], end: str, between: str = ", ", between_rows: str = ", "
) -> str:
    """Return the text of `n` objects, with numbers as `str` writes them, in one native call.

    Args:
        n: Number of objects.
        cells: What an object consists of.
        end: What follows each object.
        between: What separates the numbers of a row, at most 8 bytes.
        between_rows: What separates the ``k`` rows of ``(n, k, m)``, at most 8 bytes.
    """
    native = ffi.new("rkr_cell[]", len(cells))
    kept: list[Any] = []  # C has only their addresses
    size = len(end)
    for to, (before, values, texts) in zip(native, cells):
        start = ffi.new("char[]", before.encode())
        to.before = start
        size += len(start)
        if values.dtype.kind not in "iu":
            data = ffi.from_buffer("float[]", np.ascontiguousarray(values, _FLOAT32))
            to.floats = data  # the kind is RKR_CELL_FLOATS, 0
            rows, to.columns = (1, 1, *values.shape[1:])[-2:]
            to.rows = rows
            size += lib.RKR_DECIMAL_BYTES * rows * to.columns
            kept += (start, data)
            continue
        data = ffi.from_buffer("int32_t[]", np.ascontiguousarray(values, _INT32))
        to.integers = data
        kept += (start, data)
        if texts is None:
            to.kind = lib.RKR_CELL_INTEGERS
            size += lib.RKR_INTEGER_BYTES
            continue
        to.kind, to.n_keys, to.missing = lib.RKR_CELL_TEXTS, texts.count, texts.missing
        to.keys, to.texts, to.ends = texts.arrays
        size += texts.longest
    out = _new("char[]", n * size + 1)
    separators = (between.encode(), between_rows.encode(), end.encode())
    written = lib.rkr_table_text(native, len(cells), n, *separators, out)
    return str(ffi.buffer(out, written), "utf-8", "surrogatepass")
