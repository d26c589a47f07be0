"""Two measurements beside each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rknn_runtime.tools.bench.result import Result, Timing

__all__ = ["Ratio", "compare"]

#: Samples of the bootstrap that gives the spread of the ratio.
_DRAWS = 400


class Ratio(NamedTuple):
    """How long a phase takes in the second measurement, as a part of the first.

    Attributes:
        name: Of the choice of cores and contexts.
        phase: Of the frame.
        ratio: Of the medians; below 1 the second is faster.
        low: Lower end of the 95 % interval of the ratio, by the bootstrap: the medians of frames
            that are drawn at random, with replacement, from both measurements.
        high: Its upper end.
    """

    name: str
    phase: str
    ratio: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """In one word: ``"faster"``, ``"slower"`` or ``"same"``."""
        if self.low <= 1 <= self.high:
            return "same"
        return "faster" if self.high < 1 else "slower"


def compare(first: Result, second: Result) -> list[Ratio]:
    """Compare each phase of each choice that both have.

    Raises:
        TypeError: One is no `Result`.
        ValueError: They have none in common, or one is of a simulated NPU and the other is not.
    """
    for name, result in (("first", first), ("second", second)):
        if not isinstance(result, Result):
            raise TypeError(f"{name}: expected a Result, got {type(result).__name__}")
    if bool(first.about.get("simulated")) != bool(second.about.get("simulated")):
        raise ValueError("expected two boards or two simulations, got one of each")
    others = {timing.name: timing for timing in second.timings}
    ratios = [
        _ratio(timing, others[timing.name], phase)
        for timing in first.timings
        if timing.name in others
        for phase in timing.phases_ms
        if phase in others[timing.name].phases_ms
    ]
    if not ratios:
        raise ValueError("expected measurements of the same cores and contexts, got none in common")
    return ratios


def _ratio(first: Timing, second: Timing, phase: str) -> Ratio:
    a, b = np.asarray(first.phases_ms[phase]), np.asarray(second.phases_ms[phase])
    draw = np.random.default_rng(0)  # the same files give the same answer
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.median(b) / np.median(a)
        drawn = [
            np.median(draw.choice(b, len(b))) / np.median(draw.choice(a, len(a)))
            for _ in range(_DRAWS)
        ]
        low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return Ratio(first.name, phase, float(ratio), float(low), float(high))
