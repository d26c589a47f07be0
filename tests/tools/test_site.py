"""The site of the documentation: its contents, without building it."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from paths import PROJECT

import rknn_runtime


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


def homes() -> dict[str, str]:
    """Every name that the reference shows, with the module or class that it was found as."""
    shown = [name for _, _, names in api_pages.PAGES.values() for name in names]
    assert len(shown) == len(set(shown))
    return {name.rpartition(".")[2]: name for name in shown}


def test_every_public_name_is_in_the_reference() -> None:
    """A name of the package's front is on a page, by itself or with the module that has it."""
    shown = homes()
    modules = set(shown.values())
    missing = []
    for name in rknn_runtime.__all__:
        one = getattr(rknn_runtime, name)
        if isinstance(one, ModuleType):
            found = any(f"{each}.".startswith(f"{one.__name__}.") for each in modules)
        else:
            found = name in shown or one.__module__ in modules
        if not found and name != "RknnError":  # of errors, which is a page
            missing.append(name)
    assert missing == []


def test_the_reference_names_what_there_is() -> None:
    """Each name is a module, or something that a module has."""
    for name in homes().values():
        module, _, last = name.rpartition(".")
        if importlib.util.find_spec(module) is None:
            pytest.fail(f"{name}: no module {module}")
        parent = importlib.import_module(module)
        if not hasattr(parent, last):
            assert importlib.util.find_spec(name) is not None, name


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
