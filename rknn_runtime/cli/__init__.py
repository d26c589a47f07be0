"""The command line: ``rknn-runtime COMMAND``, one module per command."""

from rknn_runtime.cli.main import main

__all__ = ["main"]
