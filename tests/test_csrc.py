"""Who may know whom in the C sources, by their includes and by their calls."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"
#: Room -> the rooms below it, whose headers it may include and whose functions it may call.
ROOMS = {
    "kernels": set(),
    "decode": {"kernels"},
    "runtime": {"kernels", "decode"},
    "modelfile": set(),
    "emulator": {"modelfile"},
    "drivers": set(),
    "api": {"emulator", "modelfile"},
    "sim": {"api", "drivers", "emulator", "modelfile"},
    "open": {"api", "drivers", "emulator", "modelfile"},
}
#: Where `csrc/rkr.h`, the headers of declarations and of the CPU belong: below all rooms.
GROUND = {"rkr.h", "decl", "x86.h"}

if not CSRC.exists():
    pytest.skip("needs the C sources of the checkout", allow_module_level=True)


def code(path: Path) -> str:
    """Return a file without comments and texts."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'/\*.*?\*/|//[^\n]*|(?<!#include )"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def included(path: Path) -> list[Path]:
    """Return the headers of ``csrc`` that a file includes."""
    names = re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
    return [next(p for p in (path.parent / n, CSRC / n) if p.exists()) for n in names]


def room_of(path: Path) -> str:
    return path.relative_to(CSRC).parts[0]


def with_templates(path: Path) -> str:
    """Return the code of a file and of the templates that it includes."""
    templates = [header for header in included(path) if header.name.endswith("_tmpl.h")]
    return "\n".join([code(path), *map(with_templates, templates)])


#: All sources and headers but the declarations, which include nothing.
FILES = sorted(p for p in CSRC.rglob("*.[ch]") if room_of(p) != "decl")
#: Source -> its code. `csrc/runtime/link` is what other libraries are linked with.
CODE = {p: with_templates(p) for p in FILES if p.suffix == ".c" and p.parent.name != "link"}

#: The beginning of a function or table that other files can use.
DEFINITION = re.compile(
    r"^(?!static\b|typedef\b|extern\b|#)[A-Za-z_][\w \t*]*?\b((?:rkr|rknn|emu|api|sim|open)_\w+)"
    r"(?:\([^;{}]*\)\s*\{|(?:\[[^\]]*\])*\s*=)",
    re.MULTILINE,
)


#: A function or table that a header declares.
DECLARATION = re.compile(
    r"^(?!static\b|typedef\b|#)\w[\w *]*?\b((?:api|sim|open)_\w+)(?:\(|;|\[)", re.MULTILINE
)


def calls() -> dict[Path, set[Path]]:
    """Return, for each source, the sources whose functions or tables it uses.

    What ``csrc/api`` declares and leaves to the library above it has no home: it is handed down.
    """
    handed_down = {
        name
        for header in FILES
        if header.suffix == ".h" and room_of(header) == "api"
        for name in DECLARATION.findall(code(header))
    }
    home = {
        name: path
        for path, text in CODE.items()
        for name in DEFINITION.findall(text)
        if room_of(path) == "api" or name not in handed_down
    }
    return {
        path: {home[name] for name in set(re.findall(r"\w+", text)) & home.keys()} - {path}
        for path, text in CODE.items()
    }


CALLS = calls()


def test_the_parser_finds_what_is_there():
    """A door of each room is found where it is defined, with a call of it from another file."""
    users = defaultdict(set)
    for path, used in CALLS.items():
        for other in used:
            users[str(other.relative_to(CSRC))].add(str(path.relative_to(CSRC)))
    assert "api/machine.c" in users["emulator/emulator.c"]
    assert "sim/pages.c" in users["sim/control.c"]
    assert "emulator/decode.c" in users["emulator/map_rk3588.c"]
    assert "decode/split.c" in users["decode/candidates.c"]
    assert len(CALLS) > 80


def test_a_room_uses_only_what_lies_below_it():
    """No kernel knows a decoder, no reader the emulator, no emulator the simulated runtime."""
    for path in FILES:
        rooms = {room_of(other) for other in [*included(path), *CALLS.get(path, ())]}
        if path.name not in GROUND:
            room = room_of(path)
            assert rooms <= {room, *ROOMS[room], *GROUND}, path


def refuse_circle(graph: dict[Path, set[Path]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(path.name for path in reversed(error.args[1]))
        raise AssertionError(f"files that need each other: {circle}") from None


def test_no_files_include_each_other():
    refuse_circle({path: set(included(path)) - {path} for path in FILES})


def test_no_files_call_each_other():
    """A file can be read after those that it uses, in all of ``csrc``."""
    refuse_circle(CALLS)


def test_the_declarations_are_included_by_one_file():
    """csrc/rkr.h includes csrc/decl, whose files have no include guards.

    And the emulator and the reader of model files their own declarations alone: they know nothing
    of the vendor's API.
    """
    includers = {p.name for p in FILES if any(room_of(h) == "decl" for h in included(p))}
    assert includers == {"rkr.h", "emulator.h", "modelfile.h"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_header_is_guarded_unless_it_is_a_template(room):
    """A template is included many times and undefines its macros; other headers are guarded."""
    for path in (p for p in FILES if p.suffix == ".h" and room_of(p) == room):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("_tmpl.h"):
            defined = set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
            gone = set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
            handed_on = any(header.name.endswith("_tmpl.h") for header in included(path))
            assert gone, path
            assert handed_on or defined <= gone, path
        else:
            assert re.search(r"^#pragma once$", text, re.MULTILINE), path


@pytest.mark.parametrize("room", ["api", "sim", "open"])
def test_functions_stand_behind_their_header(room):
    """What ``x.h`` declares is defined in ``x.c``, or by the library above ``csrc/api``."""
    defined = {
        path: set(DEFINITION.findall(text))
        for path, text in CODE.items()
        if room_of(path) != "kernels"
    }
    for header in (p for p in FILES if p.suffix == ".h" and room_of(p) == room):
        for name in set(DECLARATION.findall(code(header))) & set().union(*defined.values()):
            homes = [path for path, names in defined.items() if name in names]
            own = header.with_suffix(".c")
            assert homes == [own] or room == "api" not in map(room_of, homes), name
