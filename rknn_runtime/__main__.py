"""The program ``rknn-runtime``, also as ``python -m rknn_runtime``."""

from __future__ import annotations

import sys

from rknn_runtime.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
