"""The only importer of the compiled extension."""

from __future__ import annotations

from rknn_runtime._rkr import ffi, lib

__all__ = ["ffi", "lib"]
