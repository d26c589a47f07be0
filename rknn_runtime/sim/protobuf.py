"""Reads and writes the fields of protocol buffers, as ONNX files are some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

__all__ = ["Field", "field", "fields", "numbers", "parts"]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: A field's number, and its content: a number, or bytes, also those of a fixed width.
Field = tuple[int, Union[int, memoryview]]


def fields(data: memoryview) -> Iterator[Field]:
    """Number and content of every field.

    Raises:
        IndexError, ValueError: This is no protocol buffer.
    """
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = _number(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"with a field of type {kind}")
        if length > len(data) - at:
            raise ValueError("in the middle of a field")
        yield key >> 3, data[at : at + length]
        at += length


def parts(data: memoryview, number: int) -> Iterator[memoryview]:
    """Content of the fields of a number that are texts or buffers.

    Raises:
        IndexError, ValueError: This is no protocol buffer.
    """
    for found, content in fields(data):
        if found == number and isinstance(content, memoryview):
            yield content


def numbers(data: memoryview) -> Iterator[int]:
    """Numbers that lie packed in one field.

    Raises:
        IndexError, ValueError: There are none.
    """
    at = 0
    while at < len(data):
        value, at = _number(data, at)
        yield value


def field(number: int, content: int | bytes | memoryview) -> bytes:
    """Return a field that is a number, a text or a buffer."""
    if isinstance(content, int):
        return _written(number << 3 | _VARINT) + _written(content)
    return _written(number << 3 | _BYTES) + _written(len(content)) + bytes(content)


def _written(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(data: memoryview, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, and where it ends."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("with a number of more than 64 bits")
