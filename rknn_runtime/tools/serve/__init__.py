"""The live image and what the model finds in it, for browsers."""

from __future__ import annotations

from rknn_runtime.tools.serve.server import Server
from rknn_runtime.tools.serve.view import LiveView

__all__ = ["LiveView", "Server"]
