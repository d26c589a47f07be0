"""Checks of arguments, and conversion between arrays and pointers."""

from __future__ import annotations

import io
import math
import operator
import os
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, TypeVar

import numpy as np

from rknn_runtime._ffi import ffi, lib
from rknn_runtime._files import read_file
from rknn_runtime.errors import status_error

_E = TypeVar("_E", bound=Enum)

if TYPE_CHECKING:  # NumPy before 1.22 has no subscript at run time.
    from numpy.typing import NDArray as NDArray

    Array = np.ndarray[Any, Any]
else:
    Array = NDArray = np.ndarray

_TYPES = {
    np.dtype(name): ffi.typeof(f"{element}[]")
    for name, element in {
        "bool": "uint8_t",
        "int8": "int8_t",
        "uint8": "uint8_t",
        "int16": "int16_t",
        "uint16": "uint16_t",
        "float16": "uint16_t",
        "int32": "int32_t",
        "uint32": "uint32_t",
        "float32": "float",
        "int64": "int64_t",
        "uint64": "uint64_t",
        "float64": "double",
    }.items()
}

# Looked up once: these are on the path of every frame.
_ndarray, _index, _from_buffer, _cast = np.ndarray, operator.index, ffi.from_buffer, ffi.cast
_BYTE_POINTER = ffi.typeof("uint8_t *")

#: The largest dimension in the vendor's 32-bit structs.
MAX_DIMENSION = 2**31 - 1
#: Range of a quantization's scale: the smallest normal and the largest float32.
SCALE_RANGE = (2.0**-126, (2 - 2.0**-23) * 2.0**127)


def pointer(array: Array) -> Any:
    """View a checked array as a typed C array, which keeps the array alive."""
    return _from_buffer(_TYPES[array.dtype], array)


#: View a checked array as C bytes, for a ``void *``; takes half the time of `pointer`.
untyped = ffi.from_buffer


def check_status(status: int, call: str, detail: str = "", printed: str = "") -> None:
    """Raise the exception for a status other than success; see `status_error`."""
    if status != lib.RKR_OK:
        raise status_error(status, call, detail, printed)


def exact_int(value: object, name: str, expected: str, kind: type[Enum] | None = None) -> int:
    """Take an integer; a bool or a member of another enum is a `TypeError`."""
    if type(value) is int:
        return value
    is_foreign = isinstance(value, Enum) and (kind is None or not isinstance(value, kind))
    if not is_foreign and not isinstance(value, (bool, np.bool_)) and hasattr(value, "__index__"):
        return int(_index(value))
    raise TypeError(f"{name}: expected {expected}, got {value!r}")


def as_int(value: SupportsIndex, name: str, lowest: int, highest: int) -> int:
    """Take an integer from ``lowest`` to ``highest``; see `exact_int`."""
    number = exact_int(value, name, "an integer")
    if not lowest <= number <= highest:
        raise ValueError(f"{name}: expected {lowest} to {highest}, got {number}")
    return number


def as_member(value: object, name: str, kind: type[_E], highest: int = 2**31 - 1) -> _E:
    """Take a member of an enum or a combination of flags, or its number; see `exact_int`."""
    example = f"a {kind.__name__} such as {kind.__name__}.{next(iter(kind)).name}"
    number = exact_int(value, name, example, kind)
    if not 0 <= number <= highest:
        raise ValueError(f"{name}: expected 0 to {highest}, got {number}")
    try:
        return kind(number)
    except ValueError:
        raise ValueError(f"{name}: expected a {kind.__name__}, got {value!r}") from None


def as_float(value: SupportsFloat, name: str) -> float:
    """Take a number; one that float cannot hold becomes infinity."""
    try:
        # Not float(value), which would also read text.
        return value.__float__()
    except (AttributeError, TypeError):
        raise TypeError(f"{name}: expected a number, got {value!r}") from None
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def as_list(given: Any, name: str, expected: str) -> list[Any]:
    """Take the elements of a sequence; an iterator, a mapping or text is a `TypeError`."""
    is_sequence = hasattr(given, "__len__") and hasattr(given, "__getitem__")
    if not is_sequence or isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"{name}: expected {expected}, got {type(given).__name__}")
    try:
        return list(given)
    except NotImplementedError as error:
        raise TypeError(f"{name}: expected {expected}, got a memoryview: {error}") from None


def plain(array: object, name: str, expected: str = "a numpy.ndarray") -> Array:
    """View an array without its subclass, whose methods may behave differently."""
    if type(array) is _ndarray:
        return array
    if not isinstance(array, _ndarray):
        raise TypeError(f"{name}: expected {expected}, got {type(array).__name__}")
    return _ndarray.view(array, _ndarray)


def byte_array(array: object, name: str) -> Array:
    """View an array of uint8 without its subclass."""
    found = plain(array, name, "an array of uint8")
    if found.dtype != np.uint8:
        raise TypeError(f"{name}: expected an array of uint8, got {found.dtype}")
    return found


def check_target(pixels: Array, name: str = "out", channels: str = "channels") -> None:
    """Check that C can write to ``(H, W, C)``; see `has_pixel_rows`."""
    if not pixels.flags.writeable:
        raise ValueError(f"{name}: expected a writable array, got a read-only one")
    if not has_pixel_rows(pixels):
        raise ValueError(
            f"{name}: expected rows of contiguous pixels (strides (any, {channels}, 1)), "
            f"got strides {pixels.strides}"
        )


def source(
    array: Array,
    name: str,
    dtypes: Collection[np.dtype[Any]] = _TYPES,
    shape: str = "",
) -> Array:
    """Check an array that C reads: aligned, C-contiguous, without subclass.

    Args:
        array: The caller's.
        name: Of the argument, for messages.
        dtypes: Accepted dtypes, in this machine's byte order.
        shape: The dimensions it must have, as ``"N, C, H, W"``; "" for any.
    """
    if type(array) is not _ndarray:
        array = plain(array, name)
    if array.dtype not in dtypes:
        expected, found = ", ".join(dtype.name for dtype in dtypes), array.dtype
        got = found.name if found.isnative else f"{found.str} ({found.name} of foreign byte order)"
        raise TypeError(f"{name}: expected dtype {expected}, got {got}")
    if shape and array.ndim != shape.count(",") + 1:
        raise ValueError(f"{name}: expected dimensions ({shape}), got shape {array.shape}")
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        expected = "a C-contiguous array" if flags.aligned else "an array aligned to its elements"
        raise ValueError(
            f"{name}: expected {expected}, got one that is not; its .copy(order='C') is"
        )
    return array


def result(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Check ``out``, or allocate it if it is None."""
    if out is None:
        return np.empty(shape, dtype)
    # A suitable array passes this one test; the code below finds the fault of any other.
    if type(out) is _ndarray and out.dtype is dtype and out.shape == shape and out.flags.carray:
        return out
    out = source(out, "out", (dtype,))
    if out.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError("out: expected a writable array, got a read-only one")
    return out


def refuse_overlaps(
    outs: Sequence[Array], inputs: Sequence[object], taken: Iterable[tuple[int, int, str]] = ()
) -> None:
    """Raise `ValueError` if an array of ``out`` shares memory with anything else.

    `taken` is other memory as begin, end and name; no two of them overlap.
    """
    spans = [*taken]
    for i, array in enumerate(outs):
        spans.append((*_span(array), f"out[{i}]"))
        for k, source in enumerate(inputs):
            if (
                isinstance(source, _ndarray)
                and np.may_share_memory(array, source)
                and np.shares_memory(array, source)
            ):
                raise ValueError(f"out[{i}]: expected memory of its own, got that of input {k}")
    spans.sort()
    for (_, end, name), (begin, _, other) in zip(spans, spans[1:]):
        if begin < end:
            out, owner = (other, name) if other.startswith("out[") else (name, other)
            raise ValueError(f"{out}: expected memory of its own, got that of {owner}")


def are_same(known: Sequence[weakref.ref[Array]], arrays: Sequence[Array]) -> bool:
    """Tell whether the arrays are those that are known."""
    if len(known) != len(arrays):
        return False
    return all(map(operator.is_, [ref() for ref in known], arrays))


def _span(array: Array) -> tuple[int, int]:
    begin = int(_cast("uintptr_t", _from_buffer(array)))
    return begin, begin + array.nbytes


def has_pixel_rows(image: Array) -> bool:
    """Tell whether an ``(H, W, C) uint8`` array has rows of contiguous pixels, one after another.

    The rows may be apart, as in a crop; C takes such an array without a copy.
    """
    height, width, channels = image.shape
    row, pixel, channel = image.strides
    return (
        (channels == 1 or channel == 1)
        and (width == 1 or pixel == channels)
        and (height == 1 or row >= width * channels)
    )


def pixel_rows(image: Array) -> tuple[Any, int, int, int, int, int]:
    """View an array that `has_pixel_rows`, no side of it 0, as the image kernels take it.

    Returns:
        Pointer (the caller keeps the array alive), bytes up to the end of the last row,
        height, width, bytes from row to row, channels.
    """
    height, width, channels = image.shape
    row_bytes = width * channels
    stride = image.strides[0] if height > 1 else row_bytes
    return (
        address(image),
        (height - 1) * stride + row_bytes,
        height,
        width,
        stride,
        channels,
    )


def address(rows: Array) -> Any:
    """Return the address of an array whose first row is contiguous, as ``uint8_t *``.

    The caller keeps the array alive. The array interface would take four times as long.
    """
    return _cast(_BYTE_POINTER, _from_buffer(rows if rows.flags.c_contiguous else rows[0]))


class _Exporter:
    """Gives NumPy the address of a span; NumPy keeps it alive as long as it uses the address."""

    __slots__ = ("__array_interface__", "__weakref__", "_owner")

    def __init__(self, address: int, size_bytes: int, owner: object) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
        }


class Span:
    """Bytes outside of NumPy, with a record of the arrays that view them. Not thread-safe."""

    __slots__ = ("_exported", "_private", "_size_bytes", "address")

    def __init__(self, address: int, size_bytes: int) -> None:
        self.address = address
        self._size_bytes = size_bytes
        self._exported: weakref.ref[_Exporter] | None = None
        self._private: weakref.ref[_Exporter] | None = None

    @property
    def is_exported(self) -> bool:
        """Whether an array of `export`, or a view of one, is alive."""
        return self._exported is not None and self._exported() is not None

    @property
    def is_private(self) -> bool:
        """Whether the array of `private` is alive, perhaps in an exception's traceback."""
        return self._private is not None and self._private() is not None

    def export(self, owner: object) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """View the bytes in an array that keeps ``owner`` alive."""
        exporter = self._exported() if self._exported is not None else None
        if exporter is None:
            exporter = _Exporter(self.address, self._size_bytes, owner)
            self._exported = weakref.ref(exporter)
        return np.asarray(exporter)

    def private(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """View the bytes for the one user who drops the array before they are released.

        The array keeps nothing alive. Otherwise a cycle through a model and its memory would leak,
        because the garbage collector cannot look into arrays.
        """
        exporter = _Exporter(self.address, self._size_bytes, None)
        self._private = weakref.ref(exporter)
        return np.asarray(exporter)


#: Of a file of arrays, also unpacked.
_MOST_ARRAY_BYTES = 1 << 31


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read an ``.npy`` file, as the array "", or all arrays of an ``.npz`` file, by their content.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file, is damaged, or unpacks to more than 2 GiB.
    """
    wanted = f"{os.fsdecode(path)}: expected an .npy or .npz file"
    data = read_file(path, _MOST_ARRAY_BYTES)
    if not data.startswith((b"\x93NUMPY", b"PK")):
        raise ValueError(f"{wanted}, got something else")
    try:
        if data.startswith(b"PK"):
            from zipfile import ZipFile

            with ZipFile(io.BytesIO(data)) as archive:  # and NumPy 1.19 stumbles over a cut one
                size = sum(each.file_size for each in archive.infolist())
            if size > _MOST_ARRAY_BYTES:
                raise ValueError(f"it unpacks to {size} bytes, more than {_MOST_ARRAY_BYTES}")
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            if loaded.files:
                return {name: loaded[name] for name in loaded.files}
        raise ValueError("it holds no array")
    except Exception as error:  # NumPy's, zipfile's, zlib's and MemoryError have no common name
        raise ValueError(f"{wanted}: {error}") from None
