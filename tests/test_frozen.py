"""Frozen dataclasses of the house behave as those of Python."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing

import pytest

from rknn_runtime._frozen import dataclass, replace


@dataclass(frozen=True)
class Point:
    """Two numbers, of which one may be left out."""

    x: int
    y: int = 2

    def __post_init__(self) -> None:
        if self.x == 13:
            raise ValueError("x: expected another number than 13, got 13")


@dataclass(frozen=True)
class Named(Point):
    """With a field more."""

    name: str = "none"


@dataclass(frozen=True)
class Slotted:
    """Without a dict."""

    __slots__ = ("b", "a")  # noqa: RUF023 - the order of the fields is another

    a: int
    b: object


@dataclass(frozen=True, eq=False)
class Compared:
    """Compared as an object, and printed in its own way."""

    a: int

    def __repr__(self) -> str:
        return "mine"


class Loose(Point):
    """A subclass that is no dataclass itself."""


def of_python(cls: type) -> type:
    """Make the same dataclass by Python itself."""
    made = dataclasses.make_dataclass(cls.__name__, dataclass_fields(cls), frozen=True)
    made.__qualname__ = cls.__qualname__
    return made


def dataclass_fields(cls: type) -> list[tuple[str, typing.Any, typing.Any]]:
    missing = dataclasses.MISSING
    defaults = {"y": 2, "name": "none"}
    return [
        (name, kind, dataclasses.field(default=defaults.get(name, missing)))
        for base in reversed(cls.__mro__)
        for name, kind in vars(base).get("__annotations__", {}).items()
    ]


@pytest.mark.parametrize("cls", [Point, Named, Slotted])
@pytest.mark.parametrize("values", [(1, 3), (4, "five")])
def test_it_is_what_python_would_make(cls: type, values: tuple[object, ...]) -> None:
    """Fields, signature, text, equality and hash are those of `dataclasses.dataclass`."""
    other = of_python(cls)
    one, same = cls(*values), other(*values)
    assert repr(one) == repr(same)
    assert hash(one) == hash(same)
    assert dataclasses.astuple(one) == dataclasses.astuple(same)
    assert dataclasses.asdict(one) == dataclasses.asdict(same)
    assert cls.__match_args__ == tuple(field.name for field in dataclasses.fields(other))
    assert inspect.signature(cls) == inspect.signature(other)
    assert one == cls(*values)
    assert one != cls(7, *values[1:])
    assert one != same
    assert dataclasses.is_dataclass(cls)


@pytest.mark.parametrize(
    "change", [replace, dataclasses.replace, getattr(copy, "replace", replace)]
)
def test_fields_are_replaced_in_a_new_one(change: typing.Any) -> None:
    """By the house's own function, and by those of Python; the new one is checked, too."""
    assert change(Named(1, 3, "a"), y=5) == Named(1, 5, "a")
    assert change(Slotted(1, "b"), b=0) == Slotted(1, 0)
    with pytest.raises(ValueError, match="expected another number than 13"):
        change(Point(1), x=13)
    with pytest.raises(TypeError, match="misspelt"):
        change(Point(1), misspelt=1)


@pytest.mark.parametrize(
    ("values", "named", "complaint"),
    [
        ((1, 2, 3), {}, "Point: expected at most 2 fields, got 3"),
        ((), {}, "x: expected a value for Point, got none"),
        ((1,), {"x": 1}, "x: expected it once, got it twice"),
        ((1,), {"z": 1}, "z: expected fields of Point, got 'z'"),
    ],
)
def test_wrong_arguments_are_refused(values: typing.Any, named: typing.Any, complaint: str) -> None:
    """As every function does, in the words of the house."""
    with pytest.raises(TypeError) as caught:
        Point(*values, **named)
    assert str(caught.value) == complaint


@pytest.mark.parametrize("one", [Point(1), Slotted(1, [2]), Named(1)])
def test_nothing_of_it_can_be_set_or_deleted(one: typing.Any) -> None:
    """No field, and no other attribute."""
    for name in (*one.__match_args__, "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(one, name, 0)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"delete field '{name}'"):
            delattr(one, name)


def test_a_subclass_has_attributes_of_its_own() -> None:
    """The fields stay frozen."""
    one: typing.Any = Loose(1)
    one.other = 3
    assert one.other == 3
    del one.other
    assert not hasattr(one, "other")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.x = 3


def test_a_real_dataclass_can_be_derived() -> None:
    """Python takes the base for one of its own: its fields come first."""
    derived = dataclasses.make_dataclass("Derived", [("z", int, 3)], bases=(Point,), frozen=True)
    assert repr(derived(1)) == "Derived(x=1, y=2, z=3)"


@pytest.mark.parametrize("one", [Point(1), Named(1, 3, "a"), Slotted(1, (2, 3))])
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_it_is_copied_and_pickled(one: object, way: typing.Any) -> None:
    """With slots as without."""
    assert way(one) == one
    assert type(way(one)) is type(one)


def test_what_a_class_has_itself_stays() -> None:
    """Its text, and with ``eq=False`` the comparison of objects."""
    assert repr(Compared(1)) == "mine"
    assert Compared(1) != Compared(1)
    assert len({Compared(1), Compared(1)}) == 2


def test_others_are_refused() -> None:
    """It makes frozen ones only."""
    with pytest.raises(TypeError, match="frozen: expected True, got False"):
        dataclass(frozen=False)
