"""Lists that have no end, hold themselves, or lie about their length.

In the place of every list that the calls of test_hostile_calls.py and test_hostile_tools.py take,
and of every list in those.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import test_hostile_calls
import test_hostile_tools
from test_hostile_calls import DOCUMENTED

from rknn_runtime._arrays import as_list

CALLS = {
    **test_hostile_calls.CALLS,
    **{name: (*call, {}) for name, call in test_hostile_tools.CALLS.items()},
}
#: These take iterators, one element after another, for as long as there are some.
STREAMS = {("calibrate", 0), ("compare", 2), ("Pool", 5)}


class Lying(list):
    """A list that says another length."""

    def __init__(self, elements, length):
        super().__init__(elements)
        self.length = length

    def __len__(self):
        return self.length


class Mirror(Sequence):
    """Every element is the sequence itself, and there is no last one."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self


class Circle:
    """An iterator that yields itself."""

    def __iter__(self):
        return self

    def __next__(self):
        return self


class OfTheCallerError(Exception):
    """What a generator of the caller raises comes out of the call."""


def raising(elements):
    yield from elements[:1]
    raise OfTheCallerError


def holding_itself():
    found = []
    found.append(found)
    return found


KINDS = {
    "endless": lambda elements: itertools.cycle(elements or [0]),
    "circle": lambda elements: Circle(),
    "itself": lambda elements: holding_itself(),
    "mirror": lambda elements: Mirror(),
    "longer": lambda elements: Lying(elements, len(elements) + 3),
    "huge": lambda elements: Lying(elements, sys.maxsize),
    "empty": lambda elements: Lying(elements, 0),
    "negative": lambda elements: Lying(elements, -1),
    "raising": raising,
}


def lists_in(arguments, keywords):
    """Yield what to put into the place of each list, and of each list in it, as a function."""
    for place, value in [*enumerate(arguments), *keywords.items()]:
        for inner in [None, *range(len(value))] if type(value) in (list, tuple) else []:
            elements = value if inner is None else value[inner]
            if type(elements) in (list, tuple):
                yield place, inner, elements


def replaced(arguments, keywords, place, inner, new):
    changed = {**dict(enumerate(arguments)), **keywords}
    if inner is not None:
        outer = [*changed[place]]
        outer[inner] = new
        new = type(changed[place])(outer)
    changed[place] = new
    return [changed[i] for i in range(len(arguments))], {name: changed[name] for name in keywords}


def use_all(name):
    function, arguments, keywords = CALLS[name]
    for place, inner, elements in lists_in(arguments, keywords):
        for kind, make in KINDS.items():
            if kind == "endless" and (name, place) in STREAMS:
                continue
            given, named = replaced(arguments, keywords, place, inner, make(elements))
            try:
                function(*given, **named)
            except MemoryError:
                raise AssertionError(f"{name}, {place}, {inner}: {kind} filled memory") from None
            except (OfTheCallerError, *DOCUMENTED):
                pass


def test_a_memoryview_of_two_dimensions_is_no_list():
    """It cannot be gone through, and says so by NotImplementedError."""
    grid = memoryview(bytes(4)).cast("B", (2, 2))
    with pytest.raises(TypeError, match="frames: expected a list, got a memoryview: multi-dim"):
        as_list(grid, "frames", "a list")


def data_bytes():
    """What the limit counts: tests before this one may have filled much."""
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * int(status.partition("VmData:")[2].split()[0])


@pytest.mark.parametrize("name", [name for name in CALLS if [*lists_in(*CALLS[name][1:])]])
def test_lists_that_are_none(name, capfd):
    """A result, or a documented exception: at once, and without filling memory.

    In a process of its own, which would be ended.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(120)
            most = data_bytes() + (1 << 30)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))
            use_all(name)
            status = 0
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, capfd.readouterr().err
