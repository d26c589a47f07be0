"""Who may import whom: arrows between the modules of the package never go back."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "rknn_runtime"

#: A part (a module or a sub-package) may import those listed for it, and whatever these may.
ALLOWED: dict[str, set[str]] = {
    "_ffi": set(),
    "enums": {"_ffi"},
    "errors": {"_ffi"},
    "_arrays": {"errors"},
    "_exclusive": set(),
    "tensor": {"enums"},
    "library": {"errors", "_elf"},
    "soc": set(),
    "_flatbuffer": set(),
    "_literal": set(),
    "_container": {"_flatbuffer", "errors"},
    "attributes": {"tensor", "soc"},
    "inspect": {"attributes", "_container", "_literal"},
    "layout": {"_arrays", "tensor"},
    "quantization": {"_arrays", "enums"},
    "_elf": set(),
    "context": {"_arrays", "_exclusive", "library"},
    "memory": {"context"},
    "query": {"context", "tensor"},
    "binding": {"layout", "quantization", "memory", "query"},
    "compatibility": {"inspect"},
    "source": {"library", "compatibility"},
    "loading": {"memory", "query", "source"},
    "model": {"binding", "loading"},
    "general": {"loading"},
    "images": set(),
    "drawing": {"images"},
    "detections": {"drawing"},
    "resize": {"_arrays"},
    "yolo": {"detections", "resize", "images", "tensor", "_exclusive"},
    "_facts": set(),
    "_picture": {"model", "yolo", "_facts"},
    "detector": {"_picture"},
    "classifier": {"_picture"},
    "sim": {"inspect", "library", "_arrays"},
    "cli": {"compatibility", "yolo", "_facts"},
}


#: The one arrow that goes back: the simulation stands above all that calls a runtime, and is
#: imported inside the function that is asked for it.
NAIL = ("source", "sim")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    name = path.relative_to(PACKAGE).parts[0]
    return name[: -len(".py")] if name.endswith(".py") else name


def imported_parts(path: Path) -> set[str]:
    """Parts of the package that a file imports, wherever in the file the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            words = name.split(".")
            if words[0] == "rknn_runtime" and len(words) > 1:
                found.add(words[1])
    return found


def reachable(part: str) -> set[str]:
    """Everything that a part may import, directly or through what it may import."""
    seen: set[str] = set()
    todo = [part]
    while todo:
        for other in ALLOWED[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    """A module imports only what stands below it; the package root stands above all."""
    part = part_of(path)
    if part == "__init__":
        return
    assert part in ALLOWED, f"{part} has no place yet: add it to ALLOWED and say why"
    nailed = {NAIL[1]} if part == NAIL[0] else set()
    assert imported_parts(path) - {part, "_rkr"} - nailed <= reachable(part)


def test_nothing_of_the_simulation_is_imported_unasked() -> None:
    """Importing all that a board needs does not import it."""
    code = (
        "import sys, rknn_runtime; from rknn_runtime import Model, GeneralModel, Detector;"
        "print([name for name in sys.modules if name.startswith('rknn_runtime.sim')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_arrows_have_no_cycle() -> None:
    """No part can reach itself."""
    assert [part for part in ALLOWED if part in reachable(part)] == []


def test_every_arrow_is_used() -> None:
    """The list is what is, not what might be."""
    imported: dict[str, set[str]] = {part: set() for part in ALLOWED}
    for path in modules():
        imported.setdefault(part_of(path), set()).update(imported_parts(path))
    assert {part: ALLOWED[part] - imported[part] for part in ALLOWED} == {
        part: set() for part in ALLOWED
    }


def test_who_imports_by_name() -> None:
    """What no parser sees: the package root, and onnxruntime."""
    by_name = [path.name for path in modules() if "import_module(" in path.read_text("utf-8")]
    assert by_name == ["__init__.py", "executor.py"]


def test_only_one_module_imports_the_extension() -> None:
    """``_ffi`` is the only door to the compiled code."""
    assert [path.name for path in modules() if "_rkr" in imported_parts(path)] == ["_ffi.py"]
