"""Who may include whom in the C sources: arrows between the rooms never go back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).resolve().parent.parent / "csrc"
#: A room may include its own headers, ``rkr.h``, and those of the rooms listed for it.
ALLOWED = {"kernels": set(), "decode": {"kernels"}, "runtime": set(), "modelfile": set()}

if not CSRC.exists():
    pytest.skip("needs the C sources of the checkout", allow_module_level=True)


def included(path: Path) -> list[str]:
    return re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)


def sources(room: str) -> list[Path]:
    found = sorted((CSRC / room).glob("*.[ch]"))
    assert found
    return found


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_includes_only_what_lies_below_it(room):
    """No kernel knows a decoder, no decoder the simulated runtime."""
    for path in sources(room):
        rooms = {name.split("/")[0] for name in included(path) if name != "rkr.h"} - {"decl"}
        assert rooms <= {room, *ALLOWED[room]}, path


def test_the_declarations_are_included_by_one_file():
    """csrc/rkr.h includes csrc/decl, whose files have no include guards.

    And the emulator and the reader of model files their own declarations alone: they know nothing
    of the vendor's API.
    """
    includers = {
        path.name
        for path in CSRC.rglob("*.[ch]")
        if any(name.startswith("decl/") for name in included(path))
    }
    assert includers == {"rkr.h", "emulator.h", "modelfile.h"}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_header_is_guarded_unless_it_is_a_template(room):
    """A template is included many times and undefines what it defines; all else once."""
    for path in sources(room):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith("_tmpl.h"):
            defined = set(re.findall(r"^#define (\w+)", text, re.MULTILINE))
            gone = set(re.findall(r"^#undef (\w+)", text, re.MULTILINE))
            handed_on = any(name.endswith("_tmpl.h") for name in included(path))
            assert gone, path
            assert handed_on or defined <= gone, path
        elif path.suffix == ".h":
            guard = f"RKR_{room.upper()}_{path.stem.upper()}_H"
            assert f"#ifndef {guard}\n#define {guard}\n" in text, path


#: Layers of the simulated runtime: each knows those before it. The exported functions, in
#: ``api_*.c``, know them all and have no header by which they could know each other.
SIMULATED_LAYERS = (
    "calls", "clock", "bus", "control", "machine", "operator_nodes", "model", "convert", "bundle",
    "attributes", "rknn", "handles", "cores", "blocks", "caches", "operators", "ports", "compute",
    "products",
)  # fmt: skip


@pytest.mark.parametrize(
    "path", sorted((CSRC / "sim").glob("*.[ch]")), ids=lambda path: str(path.name)
)
def test_files_of_the_simulated_runtime_include_lower_layers(path):
    """A header includes those of lower layers only; ``make warnings`` lets none be left out."""
    text = path.read_text(encoding="utf-8")
    names = set(re.findall(r'#include "(\w+)\.h"', text))
    if path.suffix == ".c" and path.stem.startswith("api_"):
        below = SIMULATED_LAYERS
    else:
        assert path.stem in SIMULATED_LAYERS, f"{path.stem} has no place yet"
        below = SIMULATED_LAYERS[: SIMULATED_LAYERS.index(path.stem) + (path.suffix == ".c")]
    assert names <= {*below, "rkr"}
    assert path.suffix == ".h" or "extern" not in text


@pytest.mark.parametrize("layer", SIMULATED_LAYERS[1:])
def test_functions_of_the_simulated_runtime_stand_behind_their_header(layer):
    """What ``x.h`` declares is defined in ``x.c``."""
    name = r"^(?!static)\w[\w *]*?\b(sim_\w+)\("
    header, source = (
        re.findall(name, (CSRC / "sim" / f"{layer}.{end}").read_text("utf-8"), re.MULTILINE)
        for end in "hc"
    )
    assert header
    assert sorted(header) == sorted(source)
