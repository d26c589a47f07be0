"""The bounded reader of literals agrees with Python's and JSON's own."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rknn_runtime.modelfile.literal import LIMIT_BYTES, parse_literal

text = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12)
number = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | number | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_python_literals_survive(value: object) -> None:
    """What ``repr`` writes is read back."""
    assert parse_literal(repr(value).encode()) == value == ast.literal_eval(repr(value))


@given(st.binary(max_size=40) | st.text("[]{}(),:'\"\\xu019ae+-. None").map(str.encode))
def test_anything_else_is_a_value_error(data: bytes) -> None:
    """Any bytes give a plain value or a ValueError."""
    try:
        value = parse_literal(data)
    except ValueError:
        return
    written = json.dumps(value)
    assert json.dumps(parse_literal(written.encode())) == written


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1, 2",
        b"[1 2]",
        b"{1: 2}",
        b"{'a' 1}",
        b"{'a': 1} x",
        b"'abc",
        b"'\\q'",
        b"'\\ud800'",
        b"'\\U00110000'",
        b"'\xff'",
        b"__import__('os')",
        b"1" * 100,
        b"[" * 100_000,
        b"-" * 100_000 + b"1",
        b" " * (LIMIT_BYTES + 1),
    ],
)
def test_broken_deep_and_huge_literals_are_refused(data: bytes) -> None:
    """Each is a ValueError, at once."""
    with pytest.raises(ValueError, match=r".") as caught:
        parse_literal(data)
    assert not isinstance(caught.value, RecursionError)
