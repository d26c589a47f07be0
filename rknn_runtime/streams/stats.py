"""How long frames take in a pool, and where."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from rknn_runtime.enums import CoreMask

__all__ = ["ContextStats", "PhaseStats", "PoolStats", "Times"]

#: Percentiles are those of so many of the last frames.
_KEPT = 1000


@dataclass(frozen=True)
class PhaseStats:
    """How long one phase of a frame took, of the last 1000 frames of a context."""

    #: ``"wait"`` for a free context, ``"write"`` (the image is read, scaled and in the input's
    #: memory), ``"run"`` (syncs and NPU), and ``"decode"``, or ``"read"`` of a `Model`. What else
    #: than `Detector`, `Classifier` and `Model` works in a pool has ``"wait"`` and ``"call"``.
    name: str
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class ContextStats:
    """What one context of a pool has done."""

    #: The cores that it runs on; None: the runtime chooses for each run.
    core_mask: CoreMask | None
    #: Frames done, with those that failed.
    frames: int
    failed: int
    #: Time spent on frames, seconds.
    busy_s: float
    phases: tuple[PhaseStats, ...]


@dataclass(frozen=True)
class PoolStats:
    """What a pool has done so far; it prints as a table."""

    contexts: tuple[ContextStats, ...]
    #: Frames that wait for a context.
    waiting: int
    #: Frames that were dropped for newer ones.
    dropped: int
    #: Since the pool was made, seconds.
    elapsed_s: float

    @property
    def frames(self) -> int:
        """Frames that all contexts have done."""
        return sum(context.frames for context in self.contexts)

    def __str__(self) -> str:
        lines = [f"{self.frames} frames, {self.dropped} dropped, {self.waiting} waiting"]
        for i, context in enumerate(self.contexts):
            mask = "AUTO" if context.core_mask is None else CoreMask(context.core_mask).name
            busy = 100 * context.busy_s / self.elapsed_s if self.elapsed_s else 0.0
            phases = ", ".join(f"{p.name} {p.p50_ms:.2f}/{p.p99_ms:.2f}" for p in context.phases)
            failed = f", {context.failed} failed" if context.failed else ""
            lines.append(
                f"context {i} on {mask}: {context.frames} frames{failed}, busy {busy:.0f} %, "
                f"ms p50/p99: {phases or '-'}"
            )
        return "\n".join(lines)


class Times:
    """The times of one context's frames; written by its thread, read by any.

    Attributes:
        sums: Frames done, those of them that raised, and seconds spent on them: always of the
            same frames, as they are replaced at once.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        #: Durations of the phases of the last frames, seconds. Appending is atomic.
        self._rows: deque[tuple[float, ...]] = deque(maxlen=_KEPT)
        self.sums = 0, 0, 0.0

    def add(self, marks: list[float], failed: bool) -> None:
        """Note a frame.

        Args:
            marks: When it was submitted, when taken, and when each phase ended, seconds.
            failed: It raised, somewhere; its phases are not counted.
        """
        frames, failures, busy_s = self.sums
        self.sums = frames + 1, failures + failed, busy_s + marks[-1] - marks[1]
        if len(marks) == len(self._names) + 1:
            self._rows.append(tuple(b - a for a, b in zip(marks, marks[1:])))

    def phases(self) -> tuple[PhaseStats, ...]:
        """Return the percentiles of each phase; none before a frame is done."""
        rows = list(self._rows)
        if not rows:
            return ()
        p50, p99 = 1e3 * np.percentile(np.array(rows), (50, 99), axis=0)
        return tuple(PhaseStats(*row) for row in zip(self._names, p50.tolist(), p99.tolist()))
