"""Ask an NPU how it computes, in the points that the emulator can only assume.

Each question is a tiny model with an image and the possible answers. All lie in
``questions.tar.xz``: ``SOC/NAME.rknn``, and ``questions.json`` with the rest, which is the same for
every SoC. ``tools/make_verify_models.py`` makes them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime._arrays import as_int
from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError, UnavailableError
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.model import Model

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
    #: Runs a model, given by its bytes, on pixels.
    Run = Callable[[bytes, Array], Sequence[Array]]

ARCHIVE = Path(__file__).with_name("questions.tar.xz")
INDEX = "questions.json"
#: Hexadecimal digits of a fingerprint.
DIGITS = 16
#: Largest width and height of an image.
MAX_SIZE = 1024


@dataclass(frozen=True)
class Question:
    """One question to the NPU."""

    name: str
    #: The question in a few words.
    asks: str
    #: Bytes of the ``.rknn`` file.
    model: bytes
    #: Height, width and channels of the image.
    shape: tuple[int, int, int]
    #: Largest pixel of each channel.
    largest: tuple[int, ...]
    #: Fingerprints of the outputs by answer.
    answers: Mapping[str, str]
    #: The answer that the emulator gives.
    assumed: str

    def image(self) -> Array:
        """Return the pixels to run it on: ``(H, W, C) uint8``."""
        return pattern(self.shape, self.largest)

    def answer(self, outputs: Sequence[Array]) -> str:
        """Return the answer that gives these outputs; empty if none does."""
        found = fingerprint(outputs)
        return next((name for name, known in self.answers.items() if known == found), "")


def pattern(shape: Sequence[int], largest: Sequence[int]) -> Array:
    """Return pixels that look random, the same on every machine.

    Returns:
        ``shape`` uint8. In the left half channel 1 is equal to channel 0.
    """
    sizes = tuple(as_int(size, "shape", 1, MAX_SIZE) for size in shape)
    if len(sizes) != 3:
        raise ValueError(f"shape: expected height, width, channels, got {sizes}")
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
    """Return digits that tell outputs apart: int8 or float16, logical order."""
    digest = hashlib.sha256()
    for output in outputs:
        digest.update(np.ascontiguousarray(output).tobytes())
    return digest.hexdigest()[:DIGITS]


def questions_for(npu: str, archive: str | os.PathLike[str] | None = None) -> list[Question]:
    """Read the questions for one NPU.

    Args:
        npu: ``"rk3588"``, ``"rv1106"``, ``"rk3566"``, ``"rk3562"`` or ``"rk3576"``, as the
            folders in the archive are called.
        archive: None for the one that came with the package.
    """
    members = _members(ARCHIVE if archive is None else archive)
    if INDEX not in members:
        raise RknnError(f"archive: expected {INDEX} in it, got {sorted(members)[:5]}")
    found = []
    for entry in json.loads(members[INDEX]):
        model = members.get(f"{npu}/{entry['name']}.rknn")
        if model is not None:
            sizes = {name: tuple(entry[name]) for name in ("shape", "largest")}
            found.append(Question(model=model, **{**entry, **sizes}))
    return found


def _members(archive: str | os.PathLike[str]) -> dict[str, bytes]:
    import tarfile

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


#: Characters per line of the text to paste.
LINE = 100


@dataclass(frozen=True)
class Finding:
    """The NPU's answer to one question."""

    question: Question
    #: Empty if the NPU gave none of the expected answers.
    answer: str
    outputs: tuple[Array, ...]
    #: Why the model did not run; empty if it ran.
    failure: str

    @property
    def is_assumed(self) -> bool:
        """Whether the emulator gives the same answer."""
        return self.answer == self.question.assumed

    def row(self) -> tuple[str, str, str]:
        """Return the question, the answer, and whether the emulator assumes it."""
        known = self.question.assumed
        if self.failure:
            return self.question.asks, f"did not run: {self.failure}", f"not known: {known}?"
        found = self.answer or f"none of {len(self.question.answers)} that are known"
        return self.question.asks, found, "as assumed" if self.is_assumed else f"assumed: {known}"

    def as_json(self) -> dict[str, Any]:
        """Return the same with stable keys; ``answer`` is None if it is not an expected one."""
        return {
            "name": self.question.name,
            "asks": self.question.asks,
            "assumed": self.question.assumed,
            "answer": self.answer or None,
            "fingerprint": fingerprint(self.outputs) if self.outputs else None,
            "failure": self.failure or None,
        }


def run_model(
    model: bytes, image: Array, library: str | os.PathLike[str] | Library | None = None
) -> list[Array]:
    """Run a model on pixels.

    Args:
        model: Bytes of a ``.rknn`` file with one image as its input.
        image: ``(H, W, C)`` uint8.
        library: See `rknn_runtime.open_library`.

    Returns:
        The outputs as they are stored, int8 or float16, in logical shape and order.
    """
    with Model(model, library=library) as loaded:
        outputs = loaded(image)
        found = []
        for attr, values in zip(loaded.outputs, outputs):
            if attr.dtype == TensorType.INT8:
                q = np.rint(values.astype(np.float64) / attr.scale) + attr.zero_point
                found.append(q.astype(np.int8))
            else:
                found.append(values.astype(np.float16))
    return found


def ask(questions: Iterable[Question], run: Run) -> list[Finding]:
    """Run the model of each question.

    Args:
        questions: See `rknn_runtime.tools.verify.questions_for`.
        run: Runs a model, given by its bytes, on pixels ``(H, W, C) uint8``, and returns the
            outputs as `run_model` does.

    Returns:
        One finding per question, also for a model that does not run.
    """
    found = []
    for question in questions:
        try:
            outputs = tuple(run(question.model, question.image()))
        except (RknnError, OSError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            found.append(Finding(question, "", (), text))
        else:
            found.append(Finding(question, question.answer(outputs), outputs, ""))
    return found


def about(soc: str, library: str | os.PathLike[str] | Library | None, question: Question) -> str:
    """Return one line about the NPU: SoC, runtime, driver, machine."""
    try:
        with Model(question.model, library=library) as model:
            name = Path(model.library.path).name
            versions = model.sdk_version
    except (RknnError, OSError):
        return f"{soc}, {platform.machine()}"
    return f"{soc}, {name} {versions.api}, driver {versions.driver}, {platform.machine()}"


@dataclass(frozen=True)
class Kind:
    """A kind of task, as the open runtime asked this kernel and NPU about it."""

    #: The operator that it was met in.
    operator: str
    #: Tells kinds apart.
    digest: str
    #: Why the CPU runs it; empty if the NPU does.
    why: str

    def row(self) -> tuple[str, str, str]:
        """Return the operator, the digest, and who runs it."""
        return self.operator, self.digest, f"{self.why}: the CPU runs it" if self.why else "runs"


def kept_kinds(driver: str) -> list[Kind]:
    """Return the results of the open runtime's tests of a driver on this kernel, by operator.

    ``csrc/open/ask.c`` keeps lines ``good DIGEST OP`` and ``bad DIGEST OP: why``; the last one of a
    kind counts.
    """
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache if cache.startswith("/") else Path.home() / ".cache", "rknn-runtime")
    found: dict[str, Kind] = {}
    for path in sorted(folder.glob(f"npu-{driver}-*-{platform.release()}.txt")):
        for line in path.read_text("utf-8", "replace").splitlines():
            _, digest, text = f"{line}  ".split(" ", 2)
            operator, _, why = text.strip().partition(": ")
            found[digest] = Kind(operator, digest, why)
    return sorted(found.values(), key=lambda kind: (kind.operator, kind.digest))


def kinds_page(kinds: Sequence[Kind], driver: str) -> list[str]:
    """Return the lines to paste: a table of kinds of task, and a line that counts them."""
    runs = sum(not kind.why for kind in kinds)
    lines = ["", f"kinds of task with {driver} on Linux {platform.release()}"]
    lines += _table([kind.row() for kind in kinds])
    return [*lines, f"{runs} of {len(kinds)} run on the NPU"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]


def page(title: str, findings: Sequence[Finding]) -> list[str]:
    """Return the lines to paste: a table, then the outputs without an expected answer."""
    agreed = sum(finding.is_assumed for finding in findings)
    lines = [title, *_table([finding.row() for finding in findings])]
    lines.append(f"{agreed} of {len(findings)} as the emulator assumes")
    for finding in findings:
        if not finding.answer and not finding.failure:
            lines += _unknown(finding)
    return lines


def _unknown(finding: Finding) -> list[str]:
    """Return these outputs in full, to find their rule."""
    data = zlib.compress(b"".join(output.tobytes() for output in finding.outputs), 9)
    text = base64.b64encode(data).decode()
    return [
        f"{finding.question.name} {fingerprint(finding.outputs)}:",
        *(text[at : at + LINE] for at in range(0, len(text), LINE)),
    ]
