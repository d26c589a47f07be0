"""Where the tests find the project and their data."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
PROJECT = TESTS.parent
DATA = TESTS / "data"
