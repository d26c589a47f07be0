"""Seeded damage to model files."""

from __future__ import annotations

import random
import struct

INTERESTING = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def mutate(model: bytes, other: bytes, rng: random.Random) -> bytes:
    """Damage a model in one to four places, most of them where its description lies.

    Args:
        model: A readable model.
        other: Another model, of which pieces are spliced in.
        rng: Decides everything.
    """
    is_mini = model[9] == 0x10
    end = 64 + struct.unpack_from("<Q", model, 16)[0]
    start = end - struct.unpack_from("<I", model, 64)[0] if is_mini else 64
    described = range(start, min(end, start + 16384))
    data = bytearray(model)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            break
        area = rng.choice((described, described, range(128), range(len(data))))
        place = min(rng.choice(area), len(data) - 1)
        damage(data, place, other, rng)
    return bytes(data)


def damage(data: bytearray, place: int, other: bytes, rng: random.Random) -> None:
    """Change the data at or behind one place."""
    kind = rng.randrange(8)
    length = rng.randrange(1, 64)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[place] = rng.randrange(256)
    elif kind == 2:
        word = struct.pack("<I", rng.choice((*INTERESTING, len(data), rng.getrandbits(32))))
        data[place : place + 4] = word[: len(data) - place]
    elif kind == 3:
        aligned = place & ~3
        if aligned + 4 <= len(data):
            value = struct.unpack_from("<I", data, aligned)[0] + rng.randrange(-64, 64)
            struct.pack_into("<I", data, aligned, value & 0xFFFFFFFF)
    elif kind == 4:
        del data[place : place + length]
    elif kind == 5:
        data[place:place] = data[place : place + length]
    elif kind == 6:
        source = rng.randrange(len(other))
        piece = other[source : source + length]
        data[place : place + len(piece)] = piece
    else:
        del data[place:]
