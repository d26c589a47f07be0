"""Fixtures of the tests of scikit-learn's estimators."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture
def printed_by():
    """Run Python code in a folder, in a separate process."""

    def run(code, folder):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
