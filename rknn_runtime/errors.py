"""Exceptions: one root, and beside it the built-in class that a caller would expect."""

from __future__ import annotations

__all__ = ["ClosedError", "InvalidModelError", "RknnError", "UnavailableError"]


class RknnError(Exception):
    """Root of every exception that this package defines."""


class ClosedError(RknnError, ValueError):
    """Use of a model or a memory after ``close()``."""


class InvalidModelError(RknnError, ValueError):
    """The bytes are not a model that can be loaded; the message says what they are."""


class UnavailableError(RknnError, NotImplementedError):
    """The loaded vendor library does not have this function."""
