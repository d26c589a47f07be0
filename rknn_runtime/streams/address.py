"""Addresses of sources without the secrets in them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from rknn_runtime.vision.images import IMAGE_SUFFIXES

#: ``user:password@``. An unescaped password may hold characters that end it, so everything up to
#: the last ``@`` is hidden, unless it is a port number.
_PASSWORD = re.compile(r"(://[^\s/?#@:]*:)(?!\d+/)\S*@")
#: A secret in a query or a path, as for some cameras, or in a pipeline of GStreamer.
_WORD = re.compile(
    r"(?i)((?<![a-z])(?:pass|passwd|password|pwd|pw|secret|token|auth|key|apikey)=)"
    r'(?:"[^"]*"|.+?)(?=[&#/\s]|_[a-z]+=|$)'
)


def shown(source: str) -> str:
    """Return the address of a source with ``***`` instead of passwords and tokens."""
    if "://" not in source:
        return source
    return _WORD.sub(r"\1***", _PASSWORD.sub(r"\1***@", source))


def path_of(source: str) -> PurePosixPath:
    """Return the path in an address, or its host if it has no path; other sources unchanged."""
    if "://" not in source:
        return PurePosixPath(source)
    try:
        parts = urlsplit(source)
        return PurePosixPath(parts.path.strip("/") or parts.hostname or "stream")
    except ValueError:  # a malformed address
        return PurePosixPath("stream")


def is_image(source: str) -> bool:
    """Whether a path or an address has the ending of an image file."""
    return path_of(source).suffix.lower() in IMAGE_SUFFIXES
