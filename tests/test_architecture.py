"""Who may import whom: arrows between the modules of the package never go back."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from pathlib import Path

from paths import PROJECT

PACKAGE = PROJECT / "rknn_runtime"

#: Rooms from the ground up, one floor a line. A module imports its own room and rooms of lower
#: floors. `root` is the modules beside the folders; `images` is the part of `vision` that knows
#: a `Model`: all other modules of `vision` take arrays and `TensorAttr`, so that a decoder can be
#: tested and timed without a model.
FLOORS = (
    {"root"},
    {"kernels", "modelfile"},
    {"npu", "vision"},
    {"vision.heads"},
    {"images"},
    {"streams", "rknnlite", "sim"},
    {"conversion"},
    {"sklearn", "tools"},
    {"cli"},
)
IMAGES = {
    "vision",
    "vision.image_model",
    "vision.nv12",
    "vision.detector",
    "vision.classifier",
    "vision.segmenter",
    "vision.embedder",
    "vision.pose_estimator",
    "vision.tasks",
    "vision.text",
}
#: The only imports that go up, each inside the one function that needs it: the simulated runtime
#: is started by name, and `Detector.stream` is a pool's. `npu.loaded` names two types.
UPWARD = {"npu.source": "sim", "npu.loaded": "sim", "vision.image_model": "streams"}


def name_of(path: Path) -> str:
    """Dotted name of a module below the package; "" is the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def room_of(module: str) -> str:
    if module in IMAGES:
        return "images"
    if module == "__main__":
        return "cli"
    if module.startswith("vision.heads"):
        return "vision.heads"
    room = module.partition(".")[0]
    return room if (PACKAGE / room).is_dir() and room else "root"


def floor_of(room: str) -> int:
    return next(floor for floor, rooms in enumerate(FLOORS) if room in rooms)


@functools.cache
def imported(module: str) -> set[str]:
    """Modules of the package that one imports, wherever in the file the import stands."""
    found = set()
    for node in ast.walk(tree_of(module)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "rknn_runtime":
                below = name.partition(".")[2]
                found.add(below if below in MODULES else below.rpartition(".")[0])
    return found


def modules_with(text: str) -> list[str]:
    return [name for name, path in MODULES.items() if text in path.read_text("utf-8")]


def test_every_room_has_a_floor() -> None:
    """A new folder is added to ``FLOORS``, with a reason; an empty room goes."""
    assert {room_of(module) for module in MODULES} == set().union(*FLOORS)


def test_the_house_stays_small() -> None:
    """At most 9 floors, 16 folders, and 7 modules at the root, without ``__main__``."""
    folders = {path.parent for path in MODULES.values()} - {PACKAGE}
    assert len(FLOORS) <= 9
    assert len(folders) <= 16
    assert len([path for path in PACKAGE.glob("*.py") if path.stem != "__main__"]) <= 7


def test_imports_go_down() -> None:
    """A module imports only its own room and lower floors; the package root stands above all."""
    for module in filter(None, MODULES):
        room = room_of(module)
        others = {other: room_of(other) for other in imported(module) if other}
        wrong = {
            name
            for name, other in others.items()
            if other != room and floor_of(other) >= floor_of(room) and other != UPWARD.get(module)
        }
        assert wrong == set(), module


def test_no_module_imports_itself_through_others() -> None:
    """Also within a room the arrows go one way."""
    arrows = {
        module: {n for n in imported(module) if room_of(n) != UPWARD.get(module)} - {module}
        for module in MODULES
        if module
    }
    while arrows:
        free = [module for module, others in arrows.items() if not others & arrows.keys()]
        assert free, f"a circle among {sorted(arrows)}"
        for module in free:
            del arrows[module]


def test_who_imports_by_name() -> None:
    """Three modules import by name: names and commands when they are used, and onnxruntime."""
    assert modules_with("import_module(") == ["", "cli.main", "sim.graph"]


def test_only_one_module_imports_the_extension() -> None:
    """``_ffi`` is the only door to the compiled code."""
    assert modules_with("rknn_runtime._rkr") == ["_ffi"]


def test_only_type_checkers_import_the_types_of_numpy() -> None:
    """NumPy 1.19 has no ``numpy.typing``: a module that runs the import cannot be loaded there."""
    for name in modules_with("numpy.typing"):
        for node in tree_of(name).body:
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
    for module in MODULES:
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
