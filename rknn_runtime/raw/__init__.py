"""Calls of the C API one by one, checked, for what no class here covers."""

from rknn_runtime.raw.calls import functions, query, run, wait
from rknn_runtime.raw.flight import Flight, start

__all__ = ["Flight", "functions", "query", "run", "start", "wait"]
