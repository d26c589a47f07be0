"""Floats as the decimal numbers with the fewest digits that give the same float32 again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import NDArray
from rknn_runtime._ffi import ffi, lib

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
            ffi.from_buffer("double[]", out),
        )
    return out


class Texts:
    """The texts for integers in a `Table`.

    Another integer is written itself after `missing`, or has no text for None.
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
    """One part of the text of each object; its values are given to the `Table`."""

    #: What precedes it.
    before: str
    #: Rows and columns of an object's float32; or None: it is one int32.
    shape: tuple[int, int] | None = None
    #: Written instead of an int32.
    texts: Texts | None = None
    #: What each column is divided by, at most four.
    divisors: tuple[float, ...] = ()
    #: Whether left, top, right and bottom are written as centre, width and height.
    is_centre: bool = False


class Table:
    """Writes objects as text, with numbers as `str` writes them, in one native call.

    An object consists of `cells` and is followed by `end`. The texts between numbers of a row and
    between rows have at most 8 bytes.
    """

    def __init__(
        self, cells: Sequence[Cell], end: str, between: str = ", ", between_rows: str = ", "
    ) -> None:
        self._cells = ffi.new("rkr_cell[]", len(cells))
        self._kept: list[Any] = []  # C has only their addresses
        self._separators = (between.encode(), between_rows.encode(), end.encode())
        self._bytes = len(end)
        for to, (before, shape, texts, divisors, is_centre) in zip(self._cells, cells):
            data = before.encode()
            start = ffi.new("char[]", data)
            self._kept += (start, texts)
            to.before, to.before_bytes = start, len(data)
            to.divisors[0 : len(divisors)] = divisors
            self._bytes += len(data)
            if shape is not None:
                to.kind = lib.RKR_CELL_CENTRES if is_centre else lib.RKR_CELL_FLOATS
                to.rows, to.columns = shape
                self._bytes += lib.RKR_DECIMAL_BYTES * to.rows * to.columns
            elif texts is None:
                to.kind = lib.RKR_CELL_INTEGERS
                self._bytes += lib.RKR_INTEGER_BYTES
            else:
                to.kind, to.n_keys, to.missing = lib.RKR_CELL_TEXTS, texts.count, texts.missing
                to.keys, to.texts, to.ends = texts.arrays
                self._bytes += texts.longest

    def text(self, n: int, values: Sequence[NDArray[Any]], are_finite: bool = False) -> str | None:
        """Return the text of `n` objects, or None if a float is infinite or NaN and must be finite.

        `values` are an array of float32 or int32 for each cell.
        """
        data = [ffi.from_buffer(np.ascontiguousarray(each)) for each in values]
        out = _new("char[]", n * self._bytes + 1)
        written = lib.rkr_table_text(
            self._cells, len(data), data, n, *self._separators, are_finite, out
        )
        return str(ffi.buffer(out, written), "utf-8", "surrogatepass") if written or not n else None
