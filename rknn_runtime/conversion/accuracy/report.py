"""What a comparison found: rows, a table, JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from rknn_runtime._files import printable_lines
from rknn_runtime.conversion.accuracy.average_precision import AveragePrecision

__all__ = ["AccuracyReport", "DetectionRow", "Match", "OutputRow"]


@dataclass(frozen=True)
class OutputRow:
    """One output of both, over all frames."""

    name: str
    #: Of one frame, in the exporting framework's order.
    shape: tuple[int, ...]
    #: Of all values of all frames as two vectors: 1.0 is the same direction.
    cosine: float
    #: The smallest cosine of a frame, and which frame it is, counted from 0.
    worst_cosine: float
    worst_frame: int
    #: Largest and mean absolute difference, in the output's own unit.
    max_error: float
    mean_error: float
    #: Signal to noise, ``10 log10(sum(a**2) / sum((a - b)**2))`` in decibels; infinite where the
    #: two are equal.
    snr_db: float


@dataclass(frozen=True)
class Match:
    """A detection that both have, in pixels of the image."""

    frame: int
    class_id: int
    iou: float
    #: As the reference and as the other has it.
    confidence: float
    other_confidence: float


@dataclass(frozen=True)
class DetectionRow:
    """The detections of both, over all frames."""

    #: How many the reference has, and how many the other.
    count: int
    other_count: int
    matches: tuple[Match, ...]
    #: ``(frame, class, confidence)`` of those that only the reference has.
    missed: tuple[tuple[int, int, float], ...]
    #: Likewise of those that only the other has.
    extra: tuple[tuple[int, int, float], ...]

    @property
    def mean_iou(self) -> float:
        """Of the matches; NaN without one."""
        return _mean([match.iou for match in self.matches])

    @property
    def mean_confidence_difference(self) -> float:
        """Of the matches, without sign; NaN without one."""
        return _mean([abs(m.other_confidence - m.confidence) for m in self.matches])

    @property
    def max_confidence_difference(self) -> float:
        """Of the matches, without sign; NaN without one."""
        found = [abs(m.other_confidence - m.confidence) for m in self.matches]
        return max(found, default=math.nan)


@dataclass(frozen=True)
class AccuracyReport:
    """Two runs side by side; ``str()`` is a table, the worst output first."""

    #: What was compared: the reference, and the other.
    reference: str
    other: str
    frames: int
    #: In the order of the reference's outputs; none where the two have other outputs.
    outputs: tuple[OutputRow, ...]
    #: None where no detections were asked for.
    detections: DetectionRow | None = None
    #: Of the reference and of the other, where the ground truth was given.
    average_precision: tuple[AveragePrecision, AveragePrecision] | None = None

    def worst(self, count: int = 5) -> tuple[OutputRow, ...]:
        """Return the outputs with the smallest cosines, smallest first."""
        return tuple(sorted(self.outputs, key=lambda row: row.cosine)[:count])

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values, ready for JSON: what is not finite is None."""
        said = asdict(self)
        if self.detections is not None:
            for name in ("mean_iou", "mean_confidence_difference", "max_confidence_difference"):
                said["detections"][name] = getattr(self.detections, name)
        plain: dict[str, Any] = _plain(said)
        return plain

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def __str__(self) -> str:
        frames = "1 frame" if self.frames == 1 else f"{self.frames} frames"
        lines = [f"{self.reference} beside {self.other}, {frames}"]
        if self.outputs:
            lines.append("   cosine     worst  max error mean error  SNR dB  output")
        for row in self.worst(len(self.outputs)):
            lines.append(
                f"{row.cosine:9.6f} {row.worst_cosine:9.6f} {row.max_error:10.4g} "
                f"{row.mean_error:10.4g} {row.snr_db:7.2f}  {row.name}"
            )
        if self.detections is not None:
            lines += _words(self.detections)
        if self.average_precision is not None:
            for name, found in zip((self.reference, self.other), self.average_precision):
                lines.append(f"{found}  {name}")
        return printable_lines(lines)


def _words(row: DetectionRow) -> list[str]:
    lines = [
        f"detections: {row.count} and {row.other_count}, {len(row.matches)} in both, "
        f"{len(row.missed)} missed, {len(row.extra)} extra"
    ]
    if row.matches:
        lines.append(
            f"in both: IoU {row.mean_iou:.4f} on average, {min(m.iou for m in row.matches):.4f} "
            f"at least; confidence {row.mean_confidence_difference:.4f} apart on average, "
            f"{row.max_confidence_difference:.4f} at most"
        )
    return lines


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
