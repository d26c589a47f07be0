"""Floats as the shortest decimal numbers that give the same float32 again."""

from __future__ import annotations

import locale

import numpy as np
import pytest

from rknn_runtime.vision.decimals import doubles, texts

DICE = np.random.default_rng(7)
FLOATS = np.concatenate(
    [
        DICE.random(5000, np.float32),
        DICE.random(5000, np.float32) * 4000,
        DICE.integers(0, 2**32, 20000, np.uint32).view(np.float32),
        np.float32([0, -0.0, 0.5, 1e-4, 9.999e-5, 999999.94, 1e6, 16777216, 1e9, 9.9e15, 1e16]),
        np.float32([1e-45, 1.17549435e-38, 3.4028235e38, np.inf, -np.inf, np.nan, 0.12695312]),
    ]
)


def test_doubles_are_those_that_numpy_shows():
    """Any float, with its sign, and its shape."""
    expected = FLOATS.astype(str).astype(np.float64)
    np.testing.assert_array_equal(doubles(FLOATS), expected)
    is_number = ~np.isnan(FLOATS)
    assert np.array_equal(np.signbit(doubles(FLOATS))[is_number], np.signbit(FLOATS)[is_number])
    assert doubles(FLOATS[:6].reshape(2, 3)).shape == (2, 3)
    assert doubles(np.empty((0, 4), np.float32)).shape == (0, 4)


@pytest.mark.parametrize("name", ["C", "de_DE.UTF-8"])
def test_texts_are_what_python_shows(name):
    """As `str` of the double, whatever the locale's decimal point is."""
    try:
        locale.setlocale(locale.LC_NUMERIC, name)
    except locale.Error:
        pytest.skip(f"needs the locale {name}")
    try:
        assert texts(FLOATS[:, None]) == [str(value) for value in doubles(FLOATS).tolist()]
    finally:
        locale.setlocale(locale.LC_NUMERIC, "C")


def test_rows():
    """One text per object, with separators between its numbers and its rows."""
    values = np.arange(12, dtype=np.float32)
    assert texts(values.reshape(3, 4)[::2], b", ") == ["0.0, 1.0, 2.0, 3.0", "8.0, 9.0, 10.0, 11.0"]
    assert texts(values.reshape(2, 2, 3), b",", b"|") == [
        "0.0,1.0,2.0|3.0,4.0,5.0", "6.0,7.0,8.0|9.0,10.0,11.0",
    ]  # fmt: skip
    assert texts(np.empty((0, 4), np.float32)) == []
    assert texts(np.empty((2, 0, 3), np.float32)) == ["", ""]
