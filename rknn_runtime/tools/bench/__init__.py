"""How fast a model runs here: each phase of a frame, each choice of cores, the board's state."""

from __future__ import annotations

from rknn_runtime.tools.bench.compare import compare
from rknn_runtime.tools.bench.measure import Settings, measure
from rknn_runtime.tools.bench.result import Result, Timing

__all__ = ["Result", "Settings", "Timing", "compare", "measure"]
