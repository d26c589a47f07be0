"""Every command: JSON, examples, exit status, documented options, a clean end."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from paths import PROJECT
from processes import python

from rknn_runtime.cli import main
from rknn_runtime.cli.main import COMMANDS, declare

MODEL = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
SCENE = PROJECT / "examples" / "scenes" / "scene.png"
main_module = importlib.import_module("rknn_runtime.cli.main")


class Row(NamedTuple):
    """Words behind the command; in ``{folder}`` lie the files that `folder` makes."""

    good: str
    #: A wrong command line.
    wrong: str
    #: Right, but it cannot be done, mostly for the model; None: it cannot fail.
    failing: str | None
    #: A key of each JSON object that it prints; empty: it prints none.
    key: str


ROWS = {
    "demo": Row("-o {folder}/found.png", "-o", "-o {folder}/nowhere/found.png", "detections"),
    "info": Row("{model}", "--graph x.png {model}", "{torn}", "inputs"),
    "convert": Row("{folder}/net.onnx --for rk3588", "{model}", "{torn} --for rk3588", "target"),
    "detect": Row("{model} {photos} --sim", "{model}", "{torn} {photos} --sim", "detections"),
    "serve": Row("{model} {photos} --sim --listen 127.0.0.1:0", "{model}",
                 "{torn} {photos} --sim --listen 127.0.0.1:0", "url"),
    "bench": Row("{model} --sim --frames 2 --warm-up 0", "", "{torn} --sim", "timings"),
    "doctor": Row("{model} --sim", "--sim --library x", "{torn} --sim", "observations"),
    "predict": Row("{model}", "--for rk9999 {model}", "{torn}", "predictions"),
    "accuracy": Row("{model} {model} --images {photos}", "", "{torn} {model} --images {photos}",
                    "outputs"),
    "record": Row("{model} {folder}/sample.npy -o {folder}/made", "{model}",
                  "{torn} {folder}/sample.npy -o {folder}/made", "bundle"),
    "sim-library": Row("{folder}", "--name x {folder}", "{torn}", "library"),
    "as-board": Row("rk3588 -- true", "", "rk9999 -- true", ""),
    "rknnlite": Row("--wheel {folder}", "--wheel", "--wheel {torn}", "wheels"),
    "verify": Row("--sim", "--soc rk9999", "--library {torn}", "findings"),
    "completion": Row("bash", "tcsh", None, ""),
}  # fmt: skip


@pytest.fixture
def words(tmp_path, monkeypatch):
    """Split a row's words, with the files in place; the toolkit's part of `convert` is left out."""
    photos = tmp_path / "photos"
    photos.mkdir()
    shutil.copy(SCENE, photos)
    torn = tmp_path / "torn.rknn"
    torn.write_bytes(MODEL.read_bytes()[:1000])
    (tmp_path / "net.onnx").write_bytes(b"")
    np.save(tmp_path / "sample.npy", np.zeros((1, 320, 320, 3), np.uint8))
    conversion = importlib.import_module("rknn_runtime.conversion.convert")
    convert = conversion.convert

    def converted(model, soc, *arguments, **options):
        if Path(model).name != "net.onnx":
            return convert(model, soc, *arguments, **options)
        return conversion.Conversion(Path("net.rknn"), soc, (), None, (), None, "")

    monkeypatch.setattr(conversion, "convert", converted)
    monkeypatch.setenv("RKNN_SERVE_TOKEN", "")
    places = {"folder": tmp_path, "photos": photos, "torn": torn, "model": MODEL}
    return lambda name, text: [name, *shlex.split(text.format(**places))]


def parser_of(name: str) -> ArgumentParser:
    parser = ArgumentParser(prog=name)
    declare(name, parser)
    return parser


def test_every_command_has_a_row() -> None:
    """A new command is held to all of this."""
    assert list(ROWS) == list(COMMANDS)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.key])
def test_json(name, words, capsys) -> None:
    """With --json it prints JSON objects alone, also on standard error, and ends with 0."""
    assert main([*words(name, ROWS[name].good), "--json"]) == 0
    captured = capsys.readouterr()
    if ROWS[name].failing is not None:
        assert main([*words(name, ROWS[name].failing), "--json"]) == 1
    for line in (captured.err + capsys.readouterr().err).splitlines():
        assert set(json.loads(line)) == {"level", "message"}
    assert "\x1b" not in captured.out + captured.err
    decoder, left = json.JSONDecoder(), captured.out.strip()
    assert left
    while left:
        printed, end = decoder.raw_decode(left)
        assert ROWS[name].key in printed
        left = left[end:].strip()


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_status(name, words, capsys) -> None:
    """A wrong command line is 2, with the usage; a failure is 1, with the reason."""
    with pytest.raises(SystemExit) as caught:
        main(words(name, ROWS[name].wrong))
    assert caught.value.code == 2
    assert f"usage: rknn-runtime {name}" in capsys.readouterr().err
    failing = ROWS[name].failing
    if failing is not None:
        assert main(words(name, failing)) == 1
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        assert "rknn-runtime: " in captured.err or "problem" in captured.out


@pytest.mark.parametrize("name", ["doctor", "predict"])
def test_no_color(name, words, capsys, monkeypatch) -> None:
    """On a terminal where NO_COLOR is set, nothing is coloured; without it, `doctor` alone is."""
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    for no_color in ("1", ""):
        monkeypatch.setenv("NO_COLOR", no_color)
        main(words(name, ROWS[name].good))
        captured = capsys.readouterr()
        is_coloured = re.search(r"\x1b\[[\d;]*m", captured.out + captured.err) is not None
        assert is_coloured == (name == "doctor" and not no_color)


@pytest.mark.parametrize("closed", ["2", "0 1 2"])
def test_closed_streams(closed: str, tmp_path) -> None:
    """No command fails because the shell closed a stream with `>&-`."""
    code = (
        f"import os; [os.close(int(word)) for word in {closed!r}.split()]\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'rknn_runtime', 'predict', "
        f"{str(MODEL)!r}])"
    )
    done = python(code, cwd=PROJECT)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("rk3588" in done.stdout) == (closed == "2")


def test_pages_name_options_that_a_command_has() -> None:
    """In command lines, and in the command's own section."""
    docs = PROJECT / "docs"
    pages = "\n".join(p.read_text("utf-8") for p in (PROJECT / "README.md", *docs.glob("*.md")))
    pages = pages.replace("\\\n", " ")
    page = re.sub(r"```.*?```", "", (docs / "command-line.md").read_text("utf-8"), flags=re.DOTALL)
    count = 0
    for name in COMMANDS:
        told = re.findall(rf"rknn-runtime {name}((?: [^\n`#|]*)?)(?: -- |[\n`#|])", pages)
        words = set(re.findall(r"(?<!\S)--[a-z-]+", " ".join(told)))
        (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.M | re.S) or [""]
        words |= set(re.findall(r"`(?:bench )?(--[a-z-]+)", section))
        known = {option for action in parser_of(name)._actions for option in action.option_strings}
        assert words <= known, name
        count += len(words)
    assert count > 40


@pytest.mark.parametrize("name", COMMANDS)
def test_examples(name) -> None:
    """The help has examples, and each is a right command line."""
    said = importlib.import_module(f"rknn_runtime.cli.{name.replace('-', '_')}").__doc__
    assert said is not None
    examples = re.findall(rf"rknn-runtime ({name}\b[^#&|)\n]*)", said.partition("Examples:")[2])
    assert examples
    for example in examples:
        main_module.make_parser(shlex.split(example)).parse_args(shlex.split(example))


def test_progress(words, capsys, monkeypatch) -> None:
    """On a terminal a line counts the work and disappears at the end; --quiet shows none."""
    monkeypatch.setattr("rknn_runtime.cli.options.shows_progress", lambda given: not given.quiet)
    assert main(words("record", ROWS["record"].good)) == 0
    assert capsys.readouterr().err == "\r\x1b[K1 of 1 samples\r\x1b[K"
    assert main([*words("record", ROWS["record"].good), "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_narrow_terminal(words, capsys, monkeypatch):
    """A line of progress is no longer than the terminal is wide: else it could not be cleared."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")
    assert main(words("predict", "{folder}/net.onnx")) == 1
    shown = capsys.readouterr().err.rpartition("rknn-runtime: ")[0].split("\r\x1b[K")
    assert "reading /" in [line[:9] for line in shown]
    assert all(len(line) < 12 for line in shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_dumb_terminal(name, words, capsys, monkeypatch):
    """It gets no escape sequence from any command, also not about a torn model."""
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for row in (ROWS[name].good, ROWS[name].failing):
        if row is not None:
            main(words(name, row))
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("onnx", "convert {onnx} --for rk3588 -o {folder}/made.rknn"),
        ("onnxruntime", "accuracy {onnx} {model} --images {scenes}"),
        ("PIL", "detect {model} {scene} --sim"),
        (
            "matplotlib.figure",
            "bench {model} --sim --frames 1 --warm-up 0 --quiet --plot {folder}/plot.png",
        ),
    ],
)
def test_a_missing_package_is_one_line_with_what_to_install(
    package: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 1 and the pip command, whichever package a command lacks."""
    monkeypatch.setitem(sys.modules, package, None)
    if package == "PIL":
        monkeypatch.setitem(sys.modules, "PIL.Image", None)
    onnx = MODEL.with_name("shapes.onnx")
    given = words.format(onnx=onnx, model=MODEL, scene=SCENE, scenes=SCENE.parent, folder=tmp_path)
    assert main(shlex.split(given)) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert re.match(r"rknn-runtime: .*: pip install \S", line), line
