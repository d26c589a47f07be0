"""Addresses of sources as they may be shown: without what is secret in them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from rknn_runtime.vision.images import IMAGE_SUFFIXES

__all__ = ["is_image", "path_of", "shown"]

#: ``user:password@``. Unescaped, a password may hold what ends it by the rules of addresses: so
#: all up to the last ``@`` is hidden, unless the number of a port stands there.
_PASSWORD = re.compile(r"(://[^\s/?#@:]*:)(?!\d+/)\S*@")
#: In a query or a path, as some cameras take it; in a pipeline of GStreamer.
_WORD = re.compile(
    r"(?i)((?<![a-z])(?:pass|passwd|password|pwd|pw|secret|token|auth|key|apikey)=)"
    r'(?:"[^"]*"|.+?)(?=[&#/\s]|_[a-z]+=|$)'
)


def shown(source: str) -> str:
    """Return the address of a source for messages, names and results.

    Args:
        source: A path, a camera's number, or an address.

    Returns:
        It, with ``***`` in place of a password or token.
    """
    if "://" not in source:
        return source
    return _WORD.sub(r"\1***", _PASSWORD.sub(r"\1***@", source))


def path_of(source: str) -> PurePosixPath:
    """Return the path in an address, or its host where it has none; of anything else, itself."""
    if "://" not in source:
        return PurePosixPath(source)
    try:
        parts = urlsplit(source)
        return PurePosixPath(parts.path.strip("/") or parts.hostname or "stream")
    except ValueError:  # no address by the rules
        return PurePosixPath("stream")


def is_image(source: str) -> bool:
    """Whether a path or an address is that of an image, by its ending."""
    return path_of(source).suffix.lower() in IMAGE_SUFFIXES
