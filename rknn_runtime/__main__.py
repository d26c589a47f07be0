"""The program ``rknn-runtime``, also as ``python -m rknn_runtime``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line and return its status: 1 where the tools are not installed."""
    try:
        from rknn_runtime.cli import main as run_command
    except ModuleNotFoundError as error:
        if error.name != "rknn_runtime.cli":
            raise
        from rknn_runtime._lazy import TOOLS_MISSING

        print("rknn-runtime: error:", TOOLS_MISSING.format("the command line"), file=sys.stderr)
        return 1
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
