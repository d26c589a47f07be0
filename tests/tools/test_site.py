"""The site of the documentation: its contents, without building it."""

from __future__ import annotations

import importlib.util
import re
import sys
from argparse import SUPPRESS
from pathlib import Path
from types import ModuleType

import pytest
from paths import PROJECT

from rknn_runtime import errors
from rknn_runtime.cli.main import COMMANDS
from rknn_runtime.cli.verify import ASKED
from rknn_runtime.tools.verify import questions_for


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PROJECT / "tools" / "site" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


api_pages = load("api_pages")
hooks = load("hooks")
drawings = load("drawings")
from_package = load("from_package")


def homes() -> dict[str, str]:
    """Every name that the reference shows, with the module or class that it was found as."""
    shown = [name for _, _, names in api_pages.PAGES.values() for name in names]
    assert len(shown) == len(set(shown))
    return {name.rpartition(".")[2]: name for name in shown}


def test_every_public_name_is_documented() -> None:
    """In the reference, by itself or with the module that has it, or as code on a page."""
    shown = homes()
    modules = {*shown.values(), "rknn_runtime.errors"}
    pages = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    code = "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", text, re.MULTILINE | re.DOTALL))
    told = {*shown, *re.findall(r"\w+", code)}
    missing, count = [], 0
    for path in sorted((PROJECT / "rknn_runtime").rglob("__init__.py")):
        room = importlib.import_module(".".join(path.relative_to(PROJECT).parent.parts))
        for name in getattr(room, "__all__", ()):
            home = getattr(getattr(room, name), "__module__", room.__name__)
            count += 1
            if name not in told and not {home, room.__name__} & modules:
                missing.append(f"{room.__name__}.{name}")
    assert missing == [] and count > 150


def test_the_reference_names_what_there_is() -> None:
    """Each name is a module, or something that a module has."""
    for name in homes().values():
        module, _, last = name.rpartition(".")
        if importlib.util.find_spec(module) is None:
            pytest.fail(f"{name}: no module {module}")
        parent = importlib.import_module(module)
        if not hasattr(parent, last):
            assert importlib.util.find_spec(name) is not None, name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_reference(command: str) -> None:
    """With its meaning, in the section of its command."""
    (section,) = re.findall(
        rf"^## {command}\n(.*?)(?=^## |\Z)", from_package.options(), re.M | re.S
    )
    rows = dict(re.findall(r"^\| `(.+?)` \| (.{5,}) \|$", section, re.MULTILINE))
    told = {word for cell in rows for word in re.findall(r"--[a-z-]+", cell)}
    for action in from_package.parser_of(command)._actions:
        names = [option for option in action.option_strings if option.startswith("--")]
        assert action.help == SUPPRESS or told | {"--help"} >= set(names)
    assert "Examples" not in section and f"\nrknn-runtime {command}" in section


def test_every_exception_is_in_the_reference() -> None:
    """Once, with its bases and status, and with more than its name."""
    shown = from_package.exceptions()
    rows = re.findall(r"^\| `(\w+)`<br>(`.+?`)(?:, (-\d+))? \| .{20,} \|$", shown, re.MULTILINE)
    elsewhere = ["EmulatorError", "ToolkitEnvironmentError", "ToolkitError"]
    assert sorted(name for name, *_ in rows) == sorted([*errors.__all__, *elsewhere])
    assert {int(code) for *_, code in rows if code} == set(range(-16, 0))


def test_every_question_to_boards_is_in_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the emulator's answer, the alternatives, and the answers of boards."""
    answers = tmp_path / "answers.csv"
    answers.write_text('question,soc,answer,source\n"ties, int32 to int8",rk3588,cut off,me\n')
    monkeypatch.setattr(from_package, "ANSWERS", answers)
    rows = [line.split(" | ") for line in from_package.questions().splitlines()]
    told = {cells[0].strip("| "): cells for cells in rows if len(cells) == 4}
    for soc in ASKED:
        for question in questions_for(soc):
            _, assumed, others, answered = told[question.asks]
            assert assumed == question.assumed
            assert set(question.answers) <= {question.assumed, *others.split("; ")}
            is_asked = question.asks == "ties, int32 to int8"
            assert answered.strip("| ") == ("rk3588: cut off (me)" if is_asked else "")


def test_every_page_has_its_place() -> None:
    """The navigation names the pages of docs/ and no others."""
    navigation = (PROJECT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"[\w-]+\.md", navigation)
    assert sorted(named) == sorted(p.name for p in (PROJECT / "docs").glob("*.md"))


def test_links_out_of_the_pages_stay_inside_of_the_site() -> None:
    """A file of the repository keeps its name and loses its link."""
    docs = PROJECT / "docs"
    text = (
        "[a](errors.md#x) ![c](images/pose.jpg) [d](#x) [`f.py`](../tools/f.py) [g](https://a.org)"
    )
    turned = hooks.inside(text, docs, docs)
    assert turned == "[a](errors.md#x) ![c](images/pose.jpg) [d](#x) `f.py` [g](https://a.org)"


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.org/a.js">',
        '<link rel="stylesheet" href="//example.org/a.css">',
        "<img alt='' src='http://example.org/a.png'>",
        "a { background: url(https://example.org/a.png) }",
        '@import "https://example.org/a.css";',
    ],
)
def test_what_comes_from_elsewhere_is_found(text: str) -> None:
    """Scripts, styles, images and fonts of other servers."""
    assert hooks.FOREIGN.search(text)


def test_the_drawings_are_those_of_their_script(tmp_path: Path) -> None:
    """``tools/site/drawings.py`` writes the files of docs/drawings, byte by byte; each is small."""
    drawings.draw(tmp_path)
    folder = PROJECT / "docs" / "drawings"
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in folder.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
        assert path.stat().st_size < 20_000
        used = [page for page in (PROJECT / "docs").glob("*.md") if path.name in page.read_text()]
        assert used, path.name
