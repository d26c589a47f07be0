"""Why models do not run here: what this machine shows, and the rules that say what is wrong."""

from __future__ import annotations

from rknn_runtime.doctor.diagnosis import Diagnosis, Observation, doctor
from rknn_runtime.doctor.facts import Surroundings

__all__ = ["Diagnosis", "Observation", "Surroundings", "doctor"]
