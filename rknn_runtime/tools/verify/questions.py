"""The questions: a tiny model each, its image, and the answers that are thought possible.

All lie in ``questions.tar.xz``: ``SOC/NAME.rknn``, and ``questions.json`` with the rest, which is
the same for all SoCs that have the model. They are made by ``tools/make_verify_models.py``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import as_int, as_list, plain
from rknn_runtime.errors import RknnError, UnavailableError

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

__all__ = ["Question", "fingerprint", "pattern", "questions_for"]

ARCHIVE = Path(__file__).with_name("questions.tar.xz")
INDEX = "questions.json"
#: Hexadecimal digits of a fingerprint.
DIGITS = 16
#: Of an image, in each direction.
MAX_SIZE = 1024


@dataclass(frozen=True)
class Question:
    """One question to the NPU."""

    name: str
    #: In a few words.
    asks: str
    #: Bytes of the ``.rknn`` file.
    model: bytes
    #: Of the image: height, width, channels.
    shape: tuple[int, int, int]
    #: Largest pixel of each channel.
    largest: tuple[int, ...]
    #: Fingerprint of the outputs by answer.
    answers: Mapping[str, str]
    #: The answer that the emulator gives.
    assumed: str

    def __post_init__(self) -> None:
        """Check the fields that nothing else looks at.

        Raises:
            TypeError: One has another type.
        """
        for name in ("name", "asks", "assumed"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name}: expected a str, got {getattr(self, name)!r}")
        if not isinstance(self.answers, Mapping):
            raise TypeError(f"answers: expected a mapping, got {type(self.answers).__name__}")

    def image(self) -> Array:
        """Return the pixels to run it on: ``(H, W, C) uint8``."""
        return pattern(self.shape, self.largest)

    def answer(self, outputs: Sequence[Array]) -> str:
        """Return the answer that gives these outputs; empty if none does."""
        found = fingerprint(outputs)
        return next((name for name, known in self.answers.items() if known == found), "")


def pattern(shape: Sequence[int], largest: Sequence[int]) -> Array:
    """Return pixels that look random, the same on every machine.

    Args:
        shape: Height, width, channels.
        largest: Largest pixel of each channel.

    Returns:
        ``shape`` uint8. In the left half channel 1 is equal to channel 0.

    Raises:
        TypeError: A number is no integer.
        ValueError: A number out of range, or too many or too few of them.
    """
    shape = as_list(shape, "shape", "height, width, channels")
    sizes = tuple(as_int(size, "shape", 1, MAX_SIZE) for size in shape)
    if len(sizes) != 3:
        raise ValueError(f"shape: expected height, width, channels, got {sizes}")
    largest = as_list(largest, "largest", "0..255 for each channel")
    levels = [as_int(level, "largest", 0, 255) for level in largest]
    if len(levels) != sizes[2]:
        raise ValueError(f"largest: expected {sizes[2]}, one per channel, got {len(levels)}")
    count = math.prod(sizes)
    blocks = (hashlib.sha256(b"%d" % i).digest() for i in range(count // 32 + 1))
    values = np.frombuffer(b"".join(blocks)[:count], np.uint8).reshape(sizes)
    scaled = (values.astype(np.uint32) * (np.array(levels, np.uint32) + 1) // 256).astype(np.uint8)
    if len(levels) > 1 and levels[0] == levels[1]:
        half = sizes[1] // 2
        scaled[:, :half, 1] = scaled[:, :half, 0]
    return scaled


def fingerprint(outputs: Sequence[Array]) -> str:
    """Return digits that tell outputs apart: int8 or float16, logical order.

    Raises:
        TypeError: No list of arrays.
    """
    digest = hashlib.sha256()
    for output in as_list(outputs, "outputs", "a list of arrays"):
        digest.update(np.ascontiguousarray(plain(output, "outputs")).tobytes())
    return digest.hexdigest()[:DIGITS]


def questions_for(npu: str, archive: str | os.PathLike[str] | None = None) -> list[Question]:
    """Read the questions for one NPU.

    Args:
        npu: ``"rk3588"``, ``"rv1106"``, ``"rk3566"``, ``"rk3562"`` or ``"rk3576"``, as the
            folders in the archive are called.
        archive: Another archive than the one that came with the package.

    Raises:
        OSError: The archive cannot be read.
        RknnError: It is no such archive.
        UnavailableError: This Python was built without lzma.
    """
    members = _members(ARCHIVE if archive is None else archive)
    if INDEX not in members:
        raise RknnError(f"archive: expected {INDEX} in it, got {sorted(members)[:5]}")
    models = ((entry, f"{npu}/{entry['name']}.rknn") for entry in json.loads(members[INDEX]))
    return [
        Question(
            entry["name"],
            entry["asks"],
            members[model],
            tuple(entry["shape"]),
            tuple(entry["largest"]),
            entry["answers"],
            entry["assumed"],
        )
        for entry, model in models
        if model in members
    ]


def _members(archive: str | os.PathLike[str]) -> dict[str, bytes]:
    import tarfile  # here, as it is only for this

    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:xz") as file:
            for member in file:
                content = file.extractfile(member)
                found[member.name] = content.read() if content else b""
    except tarfile.CompressionError as error:
        raise UnavailableError(f"the questions are compressed, and {error}") from None
    except tarfile.TarError as error:
        raise RknnError(f"{os.fspath(archive)}: not an archive of questions: {error}") from None
    return found
