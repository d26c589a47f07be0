"""How far two runs of a model lie apart: float, the simulated NPU, a board, or recorded.

Nothing of it is loaded by ``import rknn_runtime``.
"""

from rknn_runtime.accuracy.average_precision import AveragePrecision, average_precision
from rknn_runtime.accuracy.compare import compare
from rknn_runtime.accuracy.report import AccuracyReport, DetectionRow, Match, OutputRow

__all__ = [
    "AccuracyReport",
    "AveragePrecision",
    "DetectionRow",
    "Match",
    "OutputRow",
    "average_precision",
    "compare",
]
