"""What is likely wrong with a converted model, read from its file alone, and the cure."""

from rknn_runtime.conversion.health.check import Symptom, check

__all__ = ["Symptom", "check"]
