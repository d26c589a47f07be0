"""How long frames take in a pool, and where."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from rknn_runtime.enums import CoreMask

#: How many of the last frames the percentiles are of.
_KEPT = 1000


@dataclass(frozen=True)
class PhaseStats:
    """Percentiles of the time of one phase, over the last 1000 frames of a context."""

    #: ``"wait"`` for a free context, ``"write"`` (read, scale and write the image to the input),
    #: ``"run"`` (syncs and NPU), and ``"decode"``, or ``"read"`` for a `Model`. Tasks other than
    #: `Detector`, `Classifier` and `Model` have ``"wait"`` and ``"call"``.
    name: str
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class ContextStats:
    """The frames and times of one context of a pool."""

    #: Cores that it began on, and runs on if others are no better; None: the runtime chooses.
    core_mask: CoreMask | None
    #: Frames done, including failed ones.
    frames: int
    failed: int
    #: Time spent on frames, seconds.
    busy_s: float
    phases: tuple[PhaseStats, ...]


@dataclass(frozen=True)
class PoolStats:
    """The frames and times of a pool so far; prints as a table."""

    contexts: tuple[ContextStats, ...]
    #: Frames waiting for a context.
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
    """The times of one context's frames; its thread writes, any thread reads.

    Attributes:
        sums: Frames done, frames that raised, and seconds spent. They are replaced together, so
            they always belong to the same frames.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        #: The marks of the last frames. Appending is atomic.
        self._rows: deque[tuple[float, ...]] = deque(maxlen=_KEPT)
        self.sums = 0, 0, 0.0

    def add(self, marks: list[float], failed: bool) -> None:
        """Note a frame.

        Args:
            marks: When it was submitted, when taken, and when each phase ended, seconds.
            failed: Whether it raised; then its phases are not counted.
        """
        frames, failures, busy_s = self.sums
        self.sums = frames + 1, failures + failed, busy_s + marks[-1] - marks[1]
        if len(marks) == len(self._names) + 1:
            self._rows.append(tuple(marks))

    def phases(self) -> tuple[PhaseStats, ...]:
        """Return the percentiles of each phase; none before a frame is done."""
        rows = list(self._rows)
        if not rows:
            return ()
        p50, p99 = 1e3 * np.percentile(np.diff(rows), (50, 99), axis=0)
        return tuple(PhaseStats(*row) for row in zip(self._names, p50.tolist(), p99.tolist()))
