"""Floats as the shortest decimal numbers that give the same float32 again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rknn_runtime.vision.decimals import Cell, Table, Texts, doubles

GERMAN = Path("/usr/share/i18n/locales/de_DE")
DICE = np.random.default_rng(7)
FLOATS = np.concatenate(
    [
        DICE.random(5000, np.float32),
        DICE.random(5000, np.float32) * 4000,
        DICE.integers(0, 2**32, 20000, np.uint32).view(np.float32),
        np.float32(
            [
                0,
                -0.0,
                0.5,
                1e-4,
                9.999e-5,
                999999.94,
                1e6,
                1000000.25,
                8388607.5,
                1e7,
                16777216,
                1e9,
                9.9e15,
                1e16,
            ]
        ),
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


def test_texts_are_what_python_shows():
    """As `str` of the double."""
    shown = Table([Cell("", (1, 1))], "\n").text(len(FLOATS), [FLOATS]).splitlines()
    assert shown == [str(value) for value in doubles(FLOATS).tolist()]


@pytest.mark.slow
def test_texts_have_a_point_in_every_locale(tmp_path):
    """Also where C's functions write a comma."""
    if shutil.which("localedef") is None or not GERMAN.exists():
        pytest.skip("needs the sources of locales (apt install locales), as `make slow` installs")
    name = str(tmp_path / "de_DE.UTF-8")
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", name], check=True)
    program = (
        "import locale, numpy as np\n"
        "from rknn_runtime.vision.decimals import Cell, Table\n"
        "locale.setlocale(locale.LC_NUMERIC, 'de_DE.UTF-8')\n"
        "text = Table([Cell('', (1, 1))], '').text(1, [np.float32([1.5])])\n"
        "print(locale.localeconv()['decimal_point'], text)\n"
    )
    environment = {**os.environ, "LOCPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    assert done.stdout.split() == [b",", b"1.5"]


def test_a_table():
    """Integers of every size, names, rows and their separators, and what follows an object."""
    numbers = np.array([-(2**31), 7, 0, 2**31 - 1], np.int32)
    values = np.arange(16, dtype=np.float32).reshape(4, 2, 2)
    names = Texts({7: "\u00e9\0\ud800", -(2**31): ""}, b"class ")
    cells = [
        Cell("#"), Cell(" ", None, names), Cell("", None, Texts({})), Cell(": ", (2, 1)),
        Cell("; ", (1, 2), None, (2, 4)), Cell(".", (0, 2)), Cell("", (1, 4), None, (10, 1), True),
    ]  # fmt: skip
    columns = [values[:, :, ::2], values[:, 0], values[:, :0], values.reshape(4, 4)]
    assert Table(cells, "!\n", ",", "|").text(4, [numbers] * 3 + columns) == (
        "#-2147483648 : 0.0|2.0; 0.0,0.25.0.1,2.0,0.2,2.0!\n"
        "#7 \u00e9\0\ud800: 4.0|6.0; 2.0,1.25.0.5,6.0,0.2,2.0!\n"
        "#0 class 0: 8.0|10.0; 4.0,2.25.0.9,10.0,0.2,2.0!\n"
        "#2147483647 class 2147483647: 12.0|14.0; 6.0,3.25.1.3,14.0,0.2,2.0!\n"
    )
    assert Table([Cell("", (1, 4))], "\n").text(0, [np.empty((0, 4), np.float32)]) == ""


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_table_of_finite_numbers(bad):
    """No text of one that is not, if all have to be."""
    table, values = Table([Cell("", (1, 1))], ";"), np.array([0.5, bad, -2], np.float32)
    assert table.text(3, [values]) == f"0.5;{bad};-2.0;"
    assert table.text(3, [values], are_finite=True) is None
    assert table.text(1, [values], are_finite=True) == "0.5;"
