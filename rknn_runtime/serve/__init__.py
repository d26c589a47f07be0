"""A live picture with what is seen in it, for browsers."""

from __future__ import annotations

from rknn_runtime.serve.server import Server
from rknn_runtime.serve.view import LiveView

__all__ = ["LiveView", "Server"]
