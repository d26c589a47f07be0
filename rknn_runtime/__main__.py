"""The program ``rknn-runtime``, also as ``python -m rknn_runtime``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the program; Ctrl-C and a lack of memory end it in one line, also during its imports."""
    try:
        from rknn_runtime.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("rknn-runtime: stopped", file=sys.stderr)
        return 130
    except (ImportError, MemoryError) as error:
        first = error.__cause__ or error.__context__ or error  # numpy's own is a page long
        print(f"rknn-runtime: {str(first) or 'out of memory'}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
