"""Run scripts that were written for the vendor's ``rknnlite`` package, without it."""

from rknn_runtime.rknnlite.lite import RKNNLite as RKNNLite

__all__ = ["RKNNLite"]
