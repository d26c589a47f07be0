"""The check that stands before the import of the extension."""

from __future__ import annotations

import struct

import pytest

from rknn_runtime._ffi import _has_neon

PAGE_SIZE = (6, 4096)
END = (0, 0)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(16, 0x1FB8D7), PAGE_SIZE, END], True),
        ([PAGE_SIZE, (16, 1 << 12), END], True),
        ([(16, 0x8A8D7), PAGE_SIZE, END], False),
        ([(26, 1 << 12), (1 << 12, 16), END], False),
        ([END], False),
        ([], False),
    ],
)
def test_neon_is_bit_12_of_hwcap(pairs: list[tuple[int, int]], expected: bool) -> None:
    """Only bit 12 of the word that follows AT_HWCAP counts."""
    assert _has_neon(b"".join(struct.pack("=II", *pair) for pair in pairs)) is expected
