"""Names of a package that are imported when they are first used (PEP 562).

On a board every module costs start-up time: a package that imports all that it offers makes
programs pay for what they do not use.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

TYPE_CHECKING = False  # typing's own would cost more than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["import_name", "lazily"]


def import_name(package: dict[str, Any], homes: Mapping[str, tuple[str, ...]], name: str) -> object:
    """Import a name of a package, for its ``__getattr__``, and keep it there.

    Args:
        package: Its ``globals()``, with ``__all__``.
        homes: Module of the package -> the names that come from it. Of ``__all__``, what is in
            none of them is a module.
        name: The name.

    Raises:
        AttributeError: The package has no such name.
    """
    path = package["__name__"]
    home = next((home for home, names in homes.items() if name in names), None)
    if home is None and name not in homes and name not in package["__all__"]:
        raise AttributeError(f"module {path!r} has no attribute {name!r}")
    module = import_module(f"{path}.{home or name}")
    found = module if home is None else getattr(module, name)
    package[name] = found
    return found


def lazily(
    package: dict[str, Any], homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package; see `import_name`."""
    return partial(import_name, package, homes), lambda: sorted({*package, *package["__all__"]})
