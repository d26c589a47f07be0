"""Calls of the C API one by one, checked, for what no class here covers."""

from rknn_runtime.raw.calls import functions, query, run, wait

__all__ = ["functions", "query", "run", "wait"]
