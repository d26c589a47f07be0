"""Copying and pickling of frozen dataclasses that have slots."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

__all__ = ["Frozen"]


class Frozen:
    """The base of a frozen dataclass with ``__slots__``: makes it anew from its fields.

    What Python does by itself is to set the slots one by one, which a frozen class refuses.
    """

    __slots__ = ()

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))
