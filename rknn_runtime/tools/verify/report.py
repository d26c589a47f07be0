"""Put the questions to an NPU, and say which answers it gives."""

from __future__ import annotations

import base64
import os
import platform
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.errors import RknnError
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.model import Model
from rknn_runtime.tools.verify.questions import Question, fingerprint

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
    #: Runs a model, given by its bytes, on pixels.
    Run = Callable[[bytes, Array], Sequence[Array]]

__all__ = ["Finding", "about", "ask", "page", "run_model"]

#: Characters per line of the text to paste.
LINE = 100


@dataclass(frozen=True)
class Finding:
    """What came out for one question."""

    question: Question
    #: Empty when the NPU gave none of the expected answers.
    answer: str
    outputs: tuple[Array, ...]
    #: Why the model did not run; else empty.
    failure: str

    @property
    def is_assumed(self) -> bool:
        """Whether the emulator gives the same."""
        return self.answer == self.question.assumed

    def row(self) -> tuple[str, str, str]:
        """The question, what was found, and whether that was assumed."""
        known = self.question.assumed
        if self.failure:
            return self.question.asks, f"did not run: {self.failure}", f"not known: {known}?"
        found = self.answer or f"none of {len(self.question.answers)} that are known"
        return self.question.asks, found, "as assumed" if self.is_assumed else f"assumed: {known}"

    def as_json(self) -> dict[str, Any]:
        """The same with stable keys; ``answer`` is None where it is none of the expected ones."""
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

    Raises:
        RknnError: It does not load, or does not run.
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
        One finding per question; a model that does not run is one as well.
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
    """One line on what was asked: SoC, runtime, driver, machine."""
    try:
        with Model(question.model, library=library) as model:
            name = Path(model.library.path).name
            versions = model.sdk_version
    except (RknnError, OSError):
        return f"{soc}, {platform.machine()}"
    return f"{soc}, {name} {versions.api}, driver {versions.driver}, {platform.machine()}"


def page(title: str, findings: Sequence[Finding]) -> list[str]:
    """Return the lines to paste: a table, then the outputs that no expected answer gives."""
    rows = [finding.row() for finding in findings]
    widths = [max(map(len, column)) for column in zip(*rows)]
    agreed = sum(finding.is_assumed for finding in findings)
    lines = [title]
    lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
    lines.append(f"{agreed} of {len(findings)} as the emulator assumes")
    for finding in findings:
        if not finding.answer and not finding.failure:
            lines += _unknown(finding)
    return lines


def _unknown(finding: Finding) -> list[str]:
    """Return these outputs in full, so that their rule can be found."""
    data = zlib.compress(b"".join(output.tobytes() for output in finding.outputs), 9)
    text = base64.b64encode(data).decode()
    return [
        f"{finding.question.name} {fingerprint(finding.outputs)}:",
        *(text[at : at + LINE] for at in range(0, len(text), LINE)),
    ]
