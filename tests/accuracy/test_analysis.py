"""The text file of the toolkit's accuracy analysis becomes rows, a table and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rknn_runtime.cli.main import main
from rknn_runtime.conversion.accuracy import LayerError, parse_analysis, read_analysis
from rknn_runtime.errors import InvalidModelError

#: Written by hand in the form of rknn-toolkit2 2.3.2: groups of columns, a pair in each; a layer
#: that became a part of another one has none.
SIMULATED = """\
# a comment of the toolkit
#   and another one

layer_name                   simulator_error
                                 entire              single
                              cos      euc        cos      euc
--------------------------------------------------------------------------
[Input] images              1.00000 | 0.0       1.00000 | 0.0
[exDataConvert] images_int8 0.99996 | 0.3995    0.99996 | 0.3995
[Conv] /model.0/conv/Conv_output_0
[Relu] act<0>               0.91400 | 12.462    0.98000 | 1.462
[Conv] output0                                  0.99500 | 0.25
"""
#: With a connected board there are two groups.
CONNECTED = """\
layer_name            simulator_error                       runtime_error
                     entire              single             entire          single_sim
                  cos      euc        cos      euc        cos      euc       cos      euc
------------------------------------------------------------------------------------------
[Input] images  1.00000 | 0.0       1.00000 | 0.0       1.00000 | 0.0      1.00000 | 0.0
[Conv] output0  0.99000 | 1.5       0.99500 | 0.5       nan | inf          0.50000 | 9.0
"""


def test_rows_of_the_simulator() -> None:
    """Both pairs, one, or none, by the place where they stand."""
    rows = parse_analysis(SIMULATED).rows
    assert [(row.op, row.name) for row in rows] == [
        ("Input", "images"),
        ("exDataConvert", "images_int8"),
        ("Conv", "/model.0/conv/Conv_output_0"),
        ("Relu", "act<0>"),
        ("Conv", "output0"),
    ]
    assert rows[1].simulator_entire == rows[1].simulator_single == LayerError(0.99996, 0.3995)
    assert (rows[2].simulator_entire, rows[2].simulator_single) == (None, None)
    assert rows[3].simulator_entire == LayerError(0.914, 12.462)
    assert rows[3].simulator_single == LayerError(0.98, 1.462)
    assert (rows[4].simulator_entire, rows[4].simulator_single) == (None, LayerError(0.995, 0.25))
    assert rows[0].runtime_entire is None


def test_rows_of_a_board() -> None:
    """They come with the simulator's numbers; fields without a number are None."""
    analysis = parse_analysis(CONNECTED)
    row = analysis.rows[1]
    assert row.simulator_single == LayerError(0.995, 0.5)
    assert row.runtime_single == LayerError(0.5, 9.0)
    assert row.runtime_entire is not None
    assert row.runtime_entire.cosine != row.runtime_entire.cosine
    assert row.runtime_entire.euclidean == float("inf")
    assert "board entire" in str(analysis)


def test_the_worst_layers_are_those_of_their_own_error() -> None:
    """Errors of earlier layers do not count."""
    analysis = parse_analysis(SIMULATED)
    assert [row.name for row in analysis.worst(2)] == ["act<0>", "output0"]
    assert len(analysis.worst(99)) == 4


def test_the_table_and_json() -> None:
    """A line a layer, a dash where nothing is said."""
    analysis = parse_analysis(SIMULATED)
    title, *lines = str(analysis).splitlines()
    assert title.split() == ["entire", "single", "layer"]
    assert lines[2].split() == ["-", "-", "/model.0/conv/Conv_output_0", "(Conv)"]
    assert lines[3].split() == ["0.91400", "12.46", "0.98000", "1.462", "act<0>", "(Relu)"]
    rows = json.loads(analysis.to_json())["rows"]
    assert rows[3]["simulator_single"] == {"cosine": 0.98, "euclidean": 1.462}
    assert rows[2]["simulator_single"] is None


def test_the_plot_is_svg() -> None:
    """Well-formed, a name a layer, a longer bar for a larger error."""
    root = ElementTree.fromstring(parse_analysis(SIMULATED).to_svg())
    space = "{http://www.w3.org/2000/svg}"
    texts = [text.text for text in root.iter(f"{space}text")]
    assert "act<0>" in texts
    bars = [(float(bar.get("width", "0")), bar.get("fill")) for bar in root.iter(f"{space}rect")][
        1:
    ]
    assert len(bars) == 7
    light = [width for width, fill in bars if fill == "#9cc3e6"]
    assert light == sorted(light)
    assert ElementTree.fromstring(parse_analysis(CONNECTED).to_svg()) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the table of an accuracy analysis, got none"),
        ("[Conv] x 1.0 | 2.0\n", "expected the table of an accuracy analysis, got none"),
        (SIMULATED.partition("[Input]")[0], "expected the table"),
        (SIMULATED.replace("12.462", "12.x"), "expected two numbers, got '0.91400 | 12.x'"),
        (CONNECTED.replace("runtime_error", ""), "expected two columns for each of 1 errors"),
    ],
)
def test_what_is_no_analysis_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """As text, and as a file with its name."""
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        parse_analysis(text)
    path = tmp_path / "a.txt"
    path.write_text(text or "\n", "utf-8")
    with pytest.raises(InvalidModelError, match=r"a\.txt: expected"):
        read_analysis(path)


def test_the_command_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As table or JSON, and writes the plot; one side of a comparison alone is refused."""
    path, plot = tmp_path / "error_analysis.txt", tmp_path / "plot.svg"
    path.write_text(SIMULATED, "utf-8")
    assert main(["accuracy", str(path), "--plot", str(plot)]) == 0
    assert capsys.readouterr().out == f"{parse_analysis(SIMULATED)}\n"
    assert plot.read_text("utf-8").startswith("<svg ")
    assert main(["accuracy", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 5
    for name in ("a.rknn", "b.rknn"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert main(["accuracy", "a.rknn"]) == 1
    assert "OTHER: expected a second side beside a.rknn, got none" in capsys.readouterr().err
    assert main(["accuracy", "a.rknn", "b.rknn"]) == 1
    assert "--images: expected a folder" in capsys.readouterr().err


OF_TOOLKIT = (
    "--judge x", "--keep-graph", "--quantized-algorithm normal", "--device",
    "--toolkit 2.3.2", "--environment .",
)  # fmt: skip


OF_SIDES = ("--images .", "--detect", "--labels .", "--names coco", "--head auto")


ONE, TWO, TEXT = "net.onnx --for rk3588 --calibrate .", "a.rknn b.rknn --images .", "analysis.txt"
REFUSED = {
    ONE: OF_SIDES,
    TWO: (*OF_TOOLKIT, "--for rk3588", "--calibrate .", "--plot x", "--names coco", "--head auto",
          "--mean 0", "--std 1"),
    TEXT: (*OF_SIDES, *OF_TOOLKIT, "--for rk3588", "--calibrate .", "--limit 1", "--color RGB",
           "--mean 0", "--std 1"),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_options_of_another_form(form, tmp_path, capsys, monkeypatch):
    """One that would change nothing is refused, by its name, also where it says the default."""
    monkeypatch.chdir(tmp_path)
    for name in ("net.onnx", "a.rknn", "b.rknn", "analysis.txt", "x"):
        (tmp_path / name).touch()
    for option in REFUSED[form]:
        assert main(["accuracy", *form.split(), *option.split()]) == 1
        assert f"rknn-runtime: {option.split()[0]}: expected " in capsys.readouterr().err
