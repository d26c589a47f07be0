"""``python -m rknn_runtime``: the command line, where its program is not on the path."""

from __future__ import annotations

import sys

from rknn_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
