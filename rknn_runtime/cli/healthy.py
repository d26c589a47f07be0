"""What ``rknn-runtime info --health`` adds: what is likely wrong, and the cure."""

from __future__ import annotations

from typing import Any

from rknn_runtime.conversion.health.check import Symptom, check

__all__ = ["as_json", "health", "lines", "summary"]


def health(model: str) -> tuple[Symptom, ...]:
    """Check a file that was read without an error."""
    return check(model)


def summary(found: tuple[Symptom, ...]) -> str:
    """A few words for a table."""
    return ", ".join(dict.fromkeys(finding.kind for finding in found)) or "healthy"


def lines(found: tuple[Symptom, ...]) -> list[list[str]]:
    """The rows for one model."""
    return [[f"- {finding.kind}: {finding}"] for finding in found] or [["nothing found"]]


def as_json(found: tuple[Symptom, ...]) -> list[dict[str, Any]]:
    """The same with stable keys."""
    return [
        {
            "kind": finding.kind,
            "tensors": finding.tensors,
            "text": finding.text,
            "cure": finding.cure,
        }
        for finding in found
    ]
