"""Why models do not run here: what this machine shows, and the rules that say what is wrong."""

from __future__ import annotations

from rknn_runtime.tools.doctor.diagnosis import Diagnosis, doctor
from rknn_runtime.tools.doctor.facts import Surroundings
from rknn_runtime.tools.doctor.rule import Observation

__all__ = ["Diagnosis", "Observation", "Surroundings", "doctor"]
