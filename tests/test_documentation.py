"""Every Python snippet of the README and of docs/ runs as printed, with the shown output."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from public_api import broken, listed

from rknn_runtime import open_library
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.npu import raw

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)|src=\"([^\"]+)\"")
IMAGES = sorted((ROOT / "docs" / "images").iterdir())


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the checkout's folder by links; files written there are temporary."""
    for entry in ROOT.iterdir():
        if entry.name not in ("out", "detections.png"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def run(*command: str, folder: Path) -> str:
    """Run a command in a folder, without our variables; return its output."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RKNN_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"  # an active environment
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_shown(printed: str, shown: str) -> None:
    """The same words, and numbers up to the rounding of another CPU."""
    printed_lines, shown_lines = printed.splitlines(), shown.splitlines()
    assert len(shown_lines) >= 5
    for line, expected in zip(printed_lines, shown_lines):
        parts = [re.findall(r"[a-z]+|-?\d+\.?\d*", each) for each in (line, expected)]
        assert len(parts[0]) == len(parts[1]), line
        for part, other in zip(*parts):
            if other[-1].isalpha():
                assert part == other, line
            else:
                assert abs(float(part) - float(other)) <= (0.03 if float(other) < 1 else 3), line
    assert len(printed_lines) >= len(shown_lines)


#: Which text of a page is what its first snippet prints.
PRINTED = {"README.md": 1, "accuracy.md": 0}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: str(page.name)
)
def test_snippets_run(page: Path, checkout: Path) -> None:
    """The snippets of one page run one after the other, as a reader types them in the checkout.

    And print what is shown; the README's leaves the image that it saves.
    """
    pytest.importorskip("onnxruntime")
    program = "\n".join(blocks(page, "python"))
    printed = run(sys.executable, "-W", "error", "-c", program, folder=checkout)
    if page.name in PRINTED:
        assert_shown(printed, blocks(page, "text")[PRINTED[page.name]])
    assert (checkout / "detections.png").exists() or page != README


def test_the_readme_shows_what_the_demo_prints(checkout: Path) -> None:
    """The objects that the Makefile's own command finds."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    (command,) = re.findall(r"^\t\$\(BIN\)/python (examples/.*)$", makefile, re.MULTILINE)
    printed = run(sys.executable, *shlex.split(command), folder=checkout)
    shown = blocks(README, "text")[0]
    assert_shown(printed, shown)
    assert f"\n{len(shown.splitlines())} objects in " in printed
    assert (checkout / "out" / "detections.png").exists()


def test_the_commands_of_the_readme_run(checkout: Path) -> None:
    """``rknn-runtime`` runs on the example model and images, as printed."""
    commands = "\n".join(blocks(README, "sh")).splitlines()
    info, detect = (line for line in commands if re.match("rknn-runtime (info|detect) ", line))
    assert shutil.which("rknn-runtime", path=str(Path(sys.executable).parent))
    assert "yolov8-single, 6 classes" in run(*info.split(), folder=checkout)
    assert "wide.jpg: 6 objects" in run(*detect.split(), folder=checkout)


def test_the_package_is_found_in_the_checkout_and_elsewhere(tmp_path: Path) -> None:
    """By a Python that is started there."""
    code = "import rknn_runtime; print(rknn_runtime.Layout.NHWC.name)"
    for folder in (ROOT, tmp_path):
        if folder is ROOT and not list(ROOT.glob("rknn_runtime/_rkr.*")):
            continue  # an installation of a wheel; test_package has what is said then
        assert run(sys.executable, "-c", code, folder=folder) == "NHWC\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_snippets_name_the_simulated_npu(page: Path) -> None:
    """Where a snippet loads a model, its text says which library: a PC has no other."""
    for snippet in blocks(page, "python"):
        calls = re.findall(r"\b(?:General)?Model\((.*?)\) as", snippet)
        assert [call for call in calls if 'library="sim"' not in call] == []


def test_nobody_is_sent_to_an_index_that_lacks_the_package() -> None:
    """Extras are named with a source of the package, or by the packages that they install."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for folder in ("rknn_runtime", "examples"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            texts[path] = path.read_text(encoding="utf-8")
    found = {
        path: re.findall(r"(?<!--find-links dist ')rknn[-_]runtime\[[a-z,]+\](?! @)", text)
        for path, text in texts.items()
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_the_readme_names_every_soc() -> None:
    """Those that the package knows, in the table of hardware."""
    table = README.read_text(encoding="utf-8").partition("## Hardware")[2].partition("##")[0]
    named = re.findall(r"R[KV]\d{4}B?", "".join(re.findall(r"^\|[^|]*\|", table, re.MULTILINE)))
    assert sorted(name.lower() for name in named) == sorted(SOCS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file of the repository, and a section that this has."""
    for link, section, source in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target = page.parent / (link or source) if link or source else page
        assert target.exists(), link
        if section:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
            assert section in anchors, f"{link}#{section}"


def test_the_images_are_small_and_shown() -> None:
    """Every image of docs/images is on a page, and none weighs more than 150 kB."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert len(IMAGES) >= 4
    for image in IMAGES:
        assert f"images/{image.name}" in text
        assert image.stat().st_size < 150_000


def test_the_images_can_be_drawn_anew(tmp_path: Path) -> None:
    """The commands that two pages name draw images of the same names and sizes."""
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("onnxruntime")
    for page in ("tasks.md", "wrong-detections.md"):
        text = (ROOT / "docs" / page).read_text("utf-8")
        (command,) = re.findall(r"`python (tools/\S+\.py)` drew them", text)
        run(sys.executable, str(ROOT / command), str(tmp_path), folder=ROOT)
    assert sorted(path.name for path in tmp_path.iterdir()) == [image.name for image in IMAGES]
    for image in IMAGES:
        with pillow.open(image) as old, pillow.open(tmp_path / image.name) as new:
            assert old.size == new.size


def test_the_guide_for_builders_names_what_there_is() -> None:
    """Every file in CONTRIBUTING.md, and every target; and none of the Makefile is missing."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = ("rknn_runtime", "csrc", "tests", "tools", "examples", "benchmarks", "docs")
    there = {
        "/" + path.relative_to(ROOT).as_posix() for f in folders for path in (ROOT / f).rglob("*")
    }
    named = re.findall(r"`([\w/.-]+\.(?:py|c|h|npz|md))`", text)
    missing = [n for n in named if not any(path.endswith(f"/{n}") for path in there)]
    assert [n for n in missing if n not in ("rknn_api.h", "vendor-run-2.3.2.npz")] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile.replace("\\\n", ""), re.MULTILINE)
    told = set(re.findall(r"`make ([a-z][a-z0-9-]*)", text))
    assert told <= set(phony.split())
    assert set(phony.split()) - told <= {"clean", "wheel-static"}


def test_public_names_and_their_parameters_stay() -> None:
    """What users call goes only on purpose; `public_api` tells how to write the list again."""
    before = (ROOT / "tests/data/public_api.txt").read_text("utf-8").splitlines()
    now = list(listed())
    assert len(before) > 500
    assert broken(before, now) == []
    without = [line for line in now if ".draw(" not in line]
    assert "rknn_runtime.Detections.draw" in broken(before, without)
    other = [line.replace("draw(image, ", "draw(image, paint, ") for line in now]
    assert any("draw(image" in text for text in broken(before, other))


def test_bundled_files_have_a_source() -> None:
    """Every file that is no text lies in a place that CONTRIBUTING.md explains."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Bundled files")[2].partition("\n## ")[0]
    places = [
        ROOT / place
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for place in re.findall(r"`(.*?)`", row)
    ]
    kinds = {".bundle", ".jpg", ".npz", ".onnx", ".png", ".rknn", ".svg", ".ttf", ".xz", ".zip"}
    bundled = [
        path
        for folder in ("docs", "examples", "rknn_runtime", "tests", "tools")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in kinds and path.is_file()
    ]
    assert len(bundled) > 100
    assert [str(path) for path in bundled if not {path, *path.parents} & set(places)] == []


def test_every_call_of_the_api_is_listed() -> None:
    """Each function that the shim forwards stands in the table of its page, once."""
    table = (ROOT / "docs/c-api.md").read_text(encoding="utf-8").partition("### Every call")[2]
    listed = [
        name.strip("` ")
        for line in table.splitlines()
        if line.startswith("| `rknn_")
        for name in line.split("|")[1].split(",")
        if name.strip().startswith("`rknn_")
    ]
    assert sorted(listed) == sorted(raw.functions(open_library("sim")))
