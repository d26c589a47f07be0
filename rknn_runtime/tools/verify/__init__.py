"""Ask an NPU how it computes, in the points that the emulator can only assume."""

from rknn_runtime.tools.verify.questions import Question, fingerprint, pattern, questions_for
from rknn_runtime.tools.verify.report import Finding, about, ask, page, run_model

__all__ = [
    "Finding",
    "Question",
    "about",
    "ask",
    "fingerprint",
    "page",
    "pattern",
    "questions_for",
    "run_model",
]
