"""A Python that a test starts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def python(code: str, *words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program; its result has the status and both streams as text."""
    command = [sys.executable, "-c", code, *map(str, words)]
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 600}
    return subprocess.run(command, check=False, **pipes, **options)
