"""Many frames: several contexts of one model at work, results in the order of the frames."""

from __future__ import annotations

from rknn_runtime.streams.ordered import Results
from rknn_runtime.streams.pool import Pool
from rknn_runtime.streams.source import Frame, FrameSource
from rknn_runtime.streams.stats import ContextStats, PhaseStats, PoolStats

__all__ = ["ContextStats", "Frame", "FrameSource", "PhaseStats", "Pool", "PoolStats", "Results"]
