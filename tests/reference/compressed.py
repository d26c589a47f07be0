"""Compressed weights of RK3588 and RV1106 in NumPy: ``csrc/emulator/compressed.c`` says how.

Each stream becomes a text of its bits, and its codes are looked up: slow and short.
"""

from __future__ import annotations

import numpy as np

CODES = ("00", "10", "111", "110", "011", "0101", "01001", "01000")


class Bits:
    """Bits of a stream, from the lowest of each byte on; zeros behind the end."""

    def __init__(self, data):
        self.text = "".join(map(str, np.unpackbits(data, bitorder="little"))) + "0" * 64
        self.at = 0

    def take(self, count):
        self.at += count
        return int(self.text[self.at - count : self.at][::-1] or "0", 2)

    def find(self, classes):
        for code, found in zip(CODES, classes):
            if self.text.startswith(code, self.at):
                self.at += len(code)
                return found
        raise ValueError("no code")


def classes_of(header):
    return [int(byte) >> shift & 15 for byte in header[4:8] for shift in (0, 4)]


def stream_of_codes(data, header_bytes, count):
    """RK3588: runs of a base, and differences from it."""
    base, n = int(data[1:3].view("<i2")[0]), int(data[0]) >> 4
    lengths = data[8 : 12 + (2 << n)].view("<u2").tolist()
    bits, values = Bits(data[header_bytes : header_bytes + 4 * count]), []
    while len(values) < count:
        found = bits.find(classes_of(data))
        if n and found in (0, 8):
            index = bits.take(1) if found == 0 else 2 + bits.take(n)
            values += [base] * lengths[index]
            continue
        sign = bits.take(1)
        if n and found == 7:
            d = bits.take(7)
            values.append(base + (-(d or 128) if sign else d))
            continue
        d = (1 << (found - 1)) + bits.take(found - 1) if found else 0
        values.append(base + (d if not sign else -d if n else ~d))
    return values


def stream_of_eights(data, header_bytes, count):
    """RV1106: eight weights of one width."""
    base = int(data[:4].view("<i4")[0])
    bits, values = Bits(data[header_bytes : header_bytes + 4 * count]), []
    while len(values) < count:
        width = bits.find(classes_of(data))
        signs = [bits.take(1) for _ in range(8)]
        widths = [bits.take(width) for _ in range(8)]
        values += [(~d if sign else d) - base for sign, d in zip(signs, widths)]
    return values


def unpacked(data, r, count, word, stream):
    """The bytes of all streams, a word of each in turn."""
    each, at, streams = r(0x1030) // count, 0, []
    for k in range(count):
        header_bytes = 16 * (r(0x1104) >> 2 * k & 3)
        streams.append(stream(data[at:], header_bytes, each)[:each])
        at += (16 * r(0x1140 + 4 * k) + 16 + 63) // 64 * 64
    words = np.array(streams).astype(np.int8).reshape(count, -1, word)
    return words.transpose(1, 0, 2).ravel()


def unpacked_by_codes(data, r):
    return unpacked(data, r, 16, 4, stream_of_codes)


def unpacked_by_eights(data, r):
    return unpacked(data, r, 2, 1, stream_of_eights)
