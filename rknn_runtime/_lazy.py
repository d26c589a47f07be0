"""Names of a package that are imported when they are first used (PEP 562).

On a board every module costs start-up time: a package that imports all that it offers makes
programs pay for what they do not use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["lazily"]


def lazily(
    package: dict[str, Any], homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its ``globals()``, with ``__all__``.
        homes: Module of the package -> the names that come from it. Of ``__all__``, what is in
            none of them is a module.
    """
    path = package["__name__"]
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name in home_of:
            found = getattr(import_module(f"{path}.{home_of[name]}"), name)
        elif name in homes or name in package["__all__"]:
            found = import_module(f"{path}.{name}")
        else:
            raise AttributeError(f"module {path!r} has no attribute {name!r}")
        package[name] = found
        return found

    def names() -> list[str]:
        return sorted({*package, *package["__all__"]})

    return find, names
