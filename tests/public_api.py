"""The public names with their parameters, as text.

``python tests/public_api.py > tests/data/public_api.txt`` writes the list that a test holds, for
each release at least. A name that goes is a change for users, and needs an entry in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import rknn_runtime

PACKAGE = "rknn_runtime"


def rooms() -> list[str]:
    """Return the package and its folders that export names."""
    root = Path(rknn_runtime.__file__).parent
    folders = [path.parent for path in sorted(root.rglob("__init__.py"))]
    names = [".".join([PACKAGE, *folder.relative_to(root).parts]) for folder in folders]
    modules = [importlib.import_module(name) for name in names]
    return [module.__name__ for module in modules if getattr(module, "__all__", None)]


def parameters(called: Any) -> str:
    """Return the names of the parameters, with ``=`` where one may be left out."""
    try:
        given = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    words = []
    has_star = False
    for each in given:
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not has_star:
            words.append("*")
        has_star = has_star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        words.append(f"{stars}{each.name}{'' if each.default is each.empty else '='}")
    return f"({', '.join(words)})"


def _is_constructed(value: Any) -> bool:
    """Tell whether users make objects of a class: its constructor is not Python's own."""
    if not inspect.isclass(value) or issubclass(value, Enum):
        return False
    ours = [vars(base) for base in value.__mro__ if base.__module__.startswith(PACKAGE)]
    return any("__init__" in each or "__new__" in each for each in ours)


def members(kind: type) -> Iterator[str]:
    """Yield the public attributes that this package gives to a class."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith(PACKAGE):
            found.update(dict.fromkeys(getattr(base, "__annotations__", ())))
            found.update(vars(base))
    for name in sorted(found):
        if name == "__call__" or not name.startswith("_"):
            value = inspect.getattr_static(kind, name, None)
            function = getattr(value, "__func__", value)
            yield name + (parameters(function) if inspect.isfunction(function) else "")


def listed() -> Iterator[str]:
    """Yield a line for each public name and each of its members."""
    seen = set()
    for room in rooms():
        module = importlib.import_module(room)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            is_new = id(value) not in seen
            seen.add(id(value))
            is_called = inspect.isroutine(value) or _is_constructed(value)
            yield f"{room}.{name}{parameters(value) if is_called and is_new else ''}"
            if inspect.isclass(value) and is_new:
                yield from (f"    .{member}" for member in members(value))


def broken(before: Iterable[str], now: Iterable[str]) -> list[str]:
    """Return the names that are gone, lost a parameter, or need a new one."""
    then, left = _by_name(before), _by_name(now)
    wrong = []
    for name, old in then.items():
        new = left.get(name)
        if new is None:
            wrong.append(name)
        elif any(each not in new and f"{each}=" not in new for each in old) or any(
            each.isidentifier() and each not in old for each in new
        ):
            wrong.append(f"{name}({', '.join(old)}) is ({', '.join(new)})")
    return wrong


def _by_name(lines: Iterable[str]) -> dict[str, list[str]]:
    found, parent = {}, ""
    for line in lines:
        name, _, rest = line.strip().partition("(")
        if line.startswith(" "):
            name = parent + name
        else:
            parent = name
        found[name] = [each for each in rest.rstrip(")").split(", ") if each not in ("", "*")]
    return found


if __name__ == "__main__":
    print(*listed(), sep="\n")
