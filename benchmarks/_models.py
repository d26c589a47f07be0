"""Models for the simulated NPU that several benchmarks run."""

from __future__ import annotations

import sys
from pathlib import Path

# The models of the tests, described there.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from bundles import one_object

__all__ = ["one_object"]
