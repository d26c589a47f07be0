"""Who may import whom: arrows between the modules of the package never go back."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from paths import PROJECT

PACKAGE = PROJECT / "rknn_runtime"

#: Rooms, lowest first, and the rooms that each may import. A room is a folder; ``root`` are the
#: few words that everybody needs, ``models of images`` joins models and heads.
ROOMS: dict[str, set[str]] = {
    "root": set(),
    "kernels": {"root"},
    "modelfile": {"root"},
    "npu": {"root", "kernels", "modelfile"},
    "vision": {"root", "kernels"},
    "vision.heads": {"root", "vision"},
    "models of images": {"root", "kernels", "modelfile", "npu", "vision", "vision.heads"},
    "quantization": {"root"},
    "sim": {"root", "modelfile", "npu", "quantization"},
    "accuracy": {"root", "modelfile", "npu", "vision", "vision.heads", "sim"},
    "health": {"root", "modelfile", "vision.heads"},
    "conversion": {
        "root",
        "modelfile",
        "npu",
        "vision",
        "vision.heads",
        "models of images",
        "sim",
        "accuracy",
    },
    "streams": {"root", "npu", "vision", "models of images"},
    "dask": {"root", "streams"},
    "rknnlite": {"root", "modelfile", "npu"},
    "sklearn": {"root", "modelfile", "npu", "conversion"},
    "matmul": {"root", "kernels", "modelfile", "npu"},
    "raw": {"root", "npu", "matmul"},
    "verify": {"root", "npu"},
    "bench": {"root", "modelfile", "npu", "vision", "models of images", "streams"},
    "serve": {"root", "vision"},
    "doctor": {"root", "modelfile", "npu", "bench"},
    "cli": {
        "doctor",
        "serve",
        "bench",
        "root",
        "modelfile",
        "npu",
        "vision",
        "health",
        "sim",
        "accuracy",
        "conversion",
        "verify",
        "vision.heads",
        "models of images",
        "streams",
    },
}
#: Modules of `vision` that know a `Model`; all others of it take arrays and `TensorAttr`, so that
#: a decoder can be tested and timed without a model.
OF_IMAGES = {
    "vision",
    "vision.image_model",
    "vision.nv12",
    "vision.detector",
    "vision.classifier",
}
#: The arrows that go back, each imported inside the one function that is asked for it: the
#: simulation stands above all that calls a runtime, and a detector's stream is a pool's.
NAILS = {"npu.source": "sim", "vision.image_model": "streams"}


def name_of(path: Path) -> str:
    """Dotted name of a module below the package; "" is the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


#: Without the examples, which lie beside the package and are brought with it as a part of it.
MODULES = {
    name_of(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "examples" not in path.relative_to(PACKAGE).parts
}


def room_of(module: str) -> str:
    if module in OF_IMAGES:
        return "models of images"
    if module == "__main__":
        return "cli"
    rooms = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(rooms, key=len, default="root")


def imported(path: Path) -> set[str]:
    """Modules of the package that a file imports, wherever in the file the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "rknn_runtime":
                below = name.partition(".")[2]
                found.add(below if below in MODULES else below.rpartition(".")[0])
    return found


def modules_with(text: str) -> list[str]:
    return [name for name, path in MODULES.items() if text in path.read_text("utf-8")]


def test_every_module_has_a_room() -> None:
    """A new folder is added to ``ROOMS``, with a reason."""
    folders = {name.rpartition(".")[0] for name in MODULES} - {"", "vision"}
    assert folders == set(ROOMS) - {"root", "vision", "models of images"}


@pytest.mark.parametrize("module", MODULES, ids=lambda name: name or "__init__")
def test_imports_follow_the_arrows(module: str) -> None:
    """A module imports only what stands below its room; the package root stands above all."""
    if not module:
        return
    room = room_of(module)
    wrong = {
        other
        for other in imported(MODULES[module])
        if room_of(other) not in ROOMS[room] | {room} and room_of(other) != NAILS.get(module)
    }
    assert wrong == set()


def test_no_module_imports_itself_through_others() -> None:
    """Also within a room the arrows go one way."""
    arrows = {
        module: {name for name in imported(path) if room_of(name) != NAILS.get(module)} - {module}
        for module, path in MODULES.items()
        if module
    }
    while arrows:
        free = [module for module, others in arrows.items() if not others & arrows.keys()]
        assert free, f"a circle among {sorted(arrows)}"
        for module in free:
            del arrows[module]


def test_every_arrow_is_used() -> None:
    """The list is what is, not what might be."""
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, path in MODULES.items():
        if module:
            used[room_of(module)].update(map(room_of, imported(path)))
    for room, others in ROOMS.items():
        assert others <= used[room], room


def test_nothing_of_the_simulation_is_imported_unasked() -> None:
    """Importing all that a board needs does not import it."""
    code = (
        "import sys; from rknn_runtime import Model, GeneralModel, Detector;"
        "print([name for name in sys.modules if name.startswith('rknn_runtime.sim')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_who_imports_by_name() -> None:
    """What no parser sees: names and commands that are imported when used, and onnxruntime."""
    by_name = [
        name for name, path in MODULES.items() if "import_module(" in path.read_text("utf-8")
    ]
    assert by_name == ["_lazy", "cli.commands", "sim.executor"]


def test_only_one_module_imports_the_extension() -> None:
    """``_ffi`` is the only door to the compiled code."""
    users = [
        name for name, path in MODULES.items() if "rknn_runtime._rkr" in path.read_text("utf-8")
    ]
    assert users == ["_ffi"]


def test_the_wheel_of_a_platform_does_without_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into a second wheel (tools/wheels/split.py), no other room may import."""
    monkeypatch.syspath_prepend(str(PROJECT / "tools" / "wheels"))
    from split import TOOLS

    rooms = set(TOOLS) - {"examples"}
    assert rooms <= set(ROOMS)
    for room in set(ROOMS) - rooms:
        assert ROOMS[room] & rooms == set(), room


def test_only_type_checkers_import_the_types_of_numpy() -> None:
    """NumPy 1.19 has no ``numpy.typing``: a module that runs the import cannot be loaded there."""
    for name, path in MODULES.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            assert "numpy.typing" not in ast.unparse(node), name


def test_no_file_of_tests_has_the_name_of_another() -> None:
    """The rooms of tests are no packages: of two such files pytest collects one, and stops."""
    names = Counter(path.name for path in (PROJECT / "tests").glob("**/test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_class_has_the_name_of_another() -> None:
    """One word for one thing; names that start with _ are their module's own."""
    homes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
