"""Frozen dataclasses that cost little to import.

`dataclasses.dataclass` writes source code for every class and compiles it: 2 to 7 million
instructions each, which was half of what ``from rknn_runtime import Detector`` cost. The decorator
here gives all classes the same methods, which are compiled once. Checkers take it for the other,
and so do `dataclasses.fields`, `dataclasses.replace` and `inspect.signature`: what they ask a class
for is made when they ask.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass, replace
    from typing import Any

    _Class = Any

__all__ = ["dataclass", "replace"]

_set = object.__setattr__


class _Made:
    """An attribute of a class, taken from the dataclass that Python would have made of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: _Class) -> Any:
        if self._name == "__signature__" and owner.__init__ is not _init:
            raise AttributeError(self._name)
        return getattr(_python_dataclass(owner), self._name)


@cache
def _python_dataclass(cls: Any) -> Any:
    import dataclasses
    import inspect

    kinds: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        kinds.update(vars(base).get("__annotations__", {}))
    defaults = cls.__frozen_defaults__
    made = dataclasses.make_dataclass(
        cls.__name__,
        [
            (name, kinds[name], dataclasses.field(default=defaults.get(name, dataclasses.MISSING)))
            for name in cls.__match_args__
        ],
        frozen=True,
    )
    made.__signature__ = inspect.signature(made)  # type: ignore[attr-defined]
    return made


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__match_args__])


def _init(self: Any, *values: Any, **named: Any) -> None:
    names = self.__match_args__
    if len(values) > len(names):
        raise TypeError(
            f"{type(self).__name__}: expected at most {len(names)} fields, got {len(values)}"
        )
    for name, value in zip(names, values):
        _set(self, name, value)
    later = names[len(values) :]
    for name in later:
        if name in named:
            _set(self, name, named[name])
        elif name in self.__frozen_defaults__:
            _set(self, name, self.__frozen_defaults__[name])
        else:
            raise TypeError(f"{name}: expected a value for {type(self).__name__}, got none")
    for name in named:
        if name not in later:
            given = "it twice" if name in names else f"{name!r}"
            expected = "it once" if name in names else f"fields of {type(self).__name__}"
            raise TypeError(f"{name}: expected {expected}, got {given}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _repr(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({fields})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _reduce(self: Any) -> tuple[Any, ...]:
    """Make it anew from its fields: by itself Python sets them, which a frozen class refuses."""
    return type(self), _values(self)


def _refuse(self: Any, name: str, *value: object) -> None:
    from dataclasses import FrozenInstanceError

    # A subclass may have attributes of its own.
    if name not in self.__match_args__ and "__match_args__" not in vars(type(self)):
        return object.__setattr__(self, name, *value) if value else object.__delattr__(self, name)
    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


if not TYPE_CHECKING:

    def replace(record: Any, /, **changes: Any) -> Any:
        """Return the same record with other values of some fields, as `dataclasses.replace`."""
        values = {name: getattr(record, name) for name in record.__match_args__}
        return type(record)(**{**values, **changes})

    def dataclass(*, frozen: bool, eq: bool = True) -> Callable[[_Class], _Class]:
        """Make a frozen dataclass of a class, as `dataclasses.dataclass`.

        The fields are what is annotated, with those of its base first. A method that the class
        has itself stays. It may have ``__slots__``, and can be copied and pickled even so.
        """
        if not frozen:
            raise TypeError("frozen: expected True, got False")
        methods = {
            "__init__": _init,
            "__repr__": _repr,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__reduce__": _reduce,
            "__replace__": replace,  # copy.replace, from Python 3.13 on
            "__dataclass_fields__": _Made("__dataclass_fields__"),
            "__dataclass_params__": _Made("__dataclass_params__"),
            "__signature__": _Made("__signature__"),
        }
        if eq:
            methods.update(__eq__=_eq, __hash__=_hash)

        def decorate(cls: _Class) -> _Class:
            own = vars(cls)
            names, slots = tuple(own.get("__annotations__", ())), own.get("__slots__", ())
            defaults = {name: own[name] for name in names if name in own and name not in slots}
            cls.__frozen_defaults__ = {**getattr(cls, "__frozen_defaults__", {}), **defaults}
            cls.__match_args__ = (*getattr(cls, "__match_args__", ()), *names)
            for name, method in methods.items():
                if name not in own:
                    setattr(cls, name, method)
            return cls

        return decorate
