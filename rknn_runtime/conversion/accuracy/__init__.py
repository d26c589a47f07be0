"""How far two runs of a model lie apart: float, the simulated NPU, a board, or recorded.

Nothing of it is loaded by ``import rknn_runtime``.
"""

from rknn_runtime.conversion.accuracy.analysis import (
    Analysis,
    AnalysisRow,
    LayerError,
    parse_analysis,
    read_analysis,
)
from rknn_runtime.conversion.accuracy.average_precision import AveragePrecision, average_precision
from rknn_runtime.conversion.accuracy.compare import compare
from rknn_runtime.conversion.accuracy.report import AccuracyReport, DetectionRow, Match, OutputRow

__all__ = [
    "AccuracyReport",
    "Analysis",
    "AnalysisRow",
    "AveragePrecision",
    "DetectionRow",
    "LayerError",
    "Match",
    "OutputRow",
    "average_precision",
    "compare",
    "parse_analysis",
    "read_analysis",
]
