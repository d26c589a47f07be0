"""Snippets that need more than the checkout: commands, and models of readers."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import WHOLE, image, one_object
from paths import PROJECT
from planting import keypoints, text

from rknn_runtime import Detections, Detector
from rknn_runtime.cli.main import COMMANDS
from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_output

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
program = importlib.import_module("rknn_runtime.cli.main")


def shown(page: Path) -> list[str]:
    """The command lines of rknn-runtime in the blocks of a page, without the program's name."""
    text = "\n".join(body for language, body in BLOCK.findall(page.read_text("utf-8"))
                     if language not in ("python", "py", "text"))  # fmt: skip
    lines = text.replace("\\\n", " ").splitlines()
    found = [re.search(r"(?:^|[\s/(])rknn-runtime ([a-z][^|)]*)", line) for line in lines]
    commands = [match[1].partition("#")[0].strip(' "') for match in found if match]
    return [each for each in commands if each.split()[0] in COMMANDS]


LINES = [(page.name, line) for page in PAGES for line in shown(page)]


def needs_nothing(line: str) -> bool:
    """It runs in a checkout, without a board, a network, or a file of the reader's."""
    words = shlex.split(line)
    files = [word for word in words[1:] if re.search(r"\.\w+$|/", word)]
    own = [word for word in files if not word.startswith(("examples/", "tests/", "found"))]
    if words[0] in ("demo", "sim-library", "completion", "record"):
        return True
    return words[0] in ("info", "predict", "detect", "bench", "verify") and not own and (
        "--sim" in words or words[0] in ("info", "predict")
    )  # fmt: skip


@pytest.mark.parametrize(("page", "line"), LINES)
def test_every_command_line_is_right(page: str, line: str) -> None:
    """The program takes it: no page names an option that is no longer there."""
    words = shlex.split(line)
    program.make_parser(words).parse_args(words)


def test_there_are_lines_of_both_kinds() -> None:
    """Nor does the search for them find none."""
    assert len(LINES) > 25
    assert sum(needs_nothing(line) for _, line in LINES) >= 10


@pytest.mark.parametrize(("page", "line"), [row for row in LINES if needs_nothing(row[1])])
def test_what_needs_no_board_runs_as_printed(
    page: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a checkout, as a reader types it."""
    for entry in PROJECT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    np.save(tmp_path / "frame.npy", np.zeros((1, 320, 320, 3), np.uint8))
    for name in (name for name in os.environ if name.startswith("RKNN_")):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert program.main(shlex.split(line)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


def seen(*outputs: np.ndarray[Any, Any]) -> bytes:
    """A model of 64 x 64 pixels that gives the same whatever it is shown."""
    described = [
        describe_output(f"output{i}", output.shape, index=i, dtype=TensorType.FLOAT32)
        for i, output in enumerate(outputs)
    ]
    record = Record([output.astype(np.float32) for output in outputs])
    return bundle_from_arrays([image((1, 3, 64, 64))], described, [record], preprocessing=[WHOLE])


def one_cell(channels: int, *values: float) -> np.ndarray[Any, Any]:
    """What Ultralytics exports: channels by cells, with one object, centre and size in pixels."""
    cells = np.zeros((1, channels, 84))
    cells[0, : 4 + len(values), 40] = 32, 32, 16, 16, *values
    return cells


#: Of a section of docs/tasks.md, a model, and its labels.
MODELS = {
    "Masks": (lambda: seen(one_cell(4 + 2 + 32, 0, 0.9, *[1.0] * 32), np.ones((1, 32, 16, 16))), 2),
    "Oriented boxes": (lambda: seen(one_cell(4 + 2 + 1, 0.9, 0, 0.5)), 2),
    "Keypoints": (lambda: seen(one_cell(4 + 1 + 51, 0.9, *[30.0, 30.0, 0.8] * 17)), 1),
}


def sections(page: str) -> dict[str, str]:
    """The ``py`` block below each title."""
    text = (PROJECT / "docs" / page).read_text("utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    found = {title: dict(BLOCK.findall(body)) for title, body in zip(parts[::2], parts[1::2])}
    return {title: blocks["py"] for title, blocks in found.items() if "py" in blocks}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files of the reader's names lie, and the simulated NPU is every model's."""
    pillow = pytest.importorskip("PIL.Image")
    labels = json.dumps({"labels": ["disc", "star"]})
    scores = np.array([[0, 0.2, 0.8]])
    for name, model in {
        "detector": one_object(labels), "best_rk3588": one_object(labels),
        "classifier": seen(scores), "mobilenet": seen(scores),
    }.items():  # fmt: skip
        (tmp_path / f"{name}.rknn").write_bytes(model)
    (tmp_path / "imagenet.txt").write_text("cat\ndog\nsnake\n")
    for name in ("cat.jpg", "photo.jpg"):
        pillow.new("RGB", (96, 64), (10, 20, 30)).save(tmp_path / name)
    monkeypatch.setenv("RKNN_RUNTIME_LIBRARY", "sim")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("title", MODELS)
def test_tasks(title: str, folder: Path) -> None:
    """The lines that the gallery shows for each task run."""
    make, count = MODELS[title]
    path = folder / "model.rknn"
    path.write_bytes(make())
    pixels = np.zeros((64, 64, 3), np.uint8)
    with Detector.open(path, [f"class {i}" for i in range(count)]) as detector:
        names: dict[str, Any] = {"detector": detector, "image": pixels}
        exec(sections("tasks.md")[title], names)
        found = names["found"]
    assert len(found) == 1
    assert sum(part is not None for part in (found.mask, found.keypoints, found.xyxyxyxy)) == 1


def test_scenes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both programs of the page, on maps of 16 x 16 cells."""
    scores = np.zeros((1, 3, 16, 16))
    scores[0, 1, 8:] = 1
    Path("scene.rknn").write_bytes(seen(scores))
    Path("depth.rknn").write_bytes(seen(scores[:, 1:2]))
    for block in sections("scenes.md").values():
        exec(block, {})
    assert "road" in capsys.readouterr().out
    assert Path("drawn.png").exists() and Path("depth.png").exists()


def test_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three programs of the page, with a reader of three letters."""
    Path("detector.rknn").write_bytes(text.detector())
    Path("recognizer.rknn").write_bytes(text.recognizer())
    Path("ppocr_keys_v1.txt").write_text("a\nb\nc\n")
    images = [np.zeros((64, 64, 3), np.uint8) for _ in range(2)]
    for program in programs_of("text.md"):
        exec(program, {"images": images})
    assert capsys.readouterr().out.count("cab") == 3 + 3 + 2 * 3
    assert Path("read.png").exists()


def programs_of(page: str) -> list[str]:
    """The ``py`` blocks of a page."""
    body = (PROJECT / "docs" / page).read_text("utf-8")
    return [block for language, block in BLOCK.findall(body) if language == "py"]


@contextlib.contextmanager
def one_face() -> Iterator[Any]:
    """A stand-in for a detector of faces, which finds one."""
    points = [[20, 20], [40, 20], [30, 30], [22, 40], [38, 40]]
    found = Detections(
        np.array([[10, 10, 50, 50]], np.float32), np.ones(1, np.float32), np.zeros(1, np.int32),
        keypoints=np.array([[[*point, 1] for point in points]], np.float32),
    )  # fmt: skip
    yield lambda image: found


def test_embeddings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both programs, one of them with a face that is always found."""
    Path("arcface.rknn").write_bytes(keypoints.embedding(np.ones(8, np.float32)))
    for name in ("ann.jpg", "bob.jpg"):
        Path(name).write_bytes(Path("photo.jpg").read_bytes())
    for program in programs_of("embeddings.md"):
        exec(program.replace('Detector.open("faces.rknn")', "one_face()"), {"one_face": one_face})
    cosine, shape = capsys.readouterr().out.splitlines()
    assert float(cosine) == pytest.approx(1) and shape == "(1, 1)"


def test_poses(folder: Path) -> None:
    """A detector's box gets its keypoints."""
    Path("persons.rknn").write_bytes(one_object("{}"))
    Path("rtmpose.rknn").write_bytes(keypoints.simcc())
    (program,) = programs_of("poses.md")
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["found"].keypoints.shape[1] == keypoints.COUNT and Path("poses.png").exists()


def test_classes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a classifier's names."""
    exec("from rknn_runtime import Classifier\n" + sections("tasks.md")["Classes"], {})
    assert "snake" in capsys.readouterr().out


def test_two_models_in_a_chain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The objects of one pool go to another, in one call."""
    (block,) = sections("throughput.md").values()
    names: dict[str, Any] = {
        "images": [np.zeros((64, 64, 3), np.uint8) for _ in range(2)],
    }
    exec("from rknn_runtime import Classifier, Pool\n" + block, names)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_readme_on_a_board(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a model and a photo of the reader's."""
    (block,) = [body for kind, body in BLOCK.findall(PAGES[0].read_text("utf-8")) if kind == "py"]
    exec(block, {})
    assert "star" in capsys.readouterr().out
