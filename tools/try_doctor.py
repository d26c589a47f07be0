"""Plant twelve mistakes in detectors, and count those that ``rknn-runtime doctor`` names first.

::

    python tools/try_doctor.py                                      # the example networks
    python tools/try_doctor.py NET.onnx PHOTO... --labels FILE --color BGR --std 1

Each network is converted rightly and wrongly with the vendor's toolkit. Needs onnxruntime and
Pillow. Returns 1 if a network has more than two mistakes not named, or if a right file is called
wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from rknn_runtime import convert
from rknn_runtime.conversion.readings import NORMALIZATIONS, Readings, Way, try_readings
from rknn_runtime.vision.labels import read_labels

ROOT = Path(__file__).resolve().parent.parent
SCENES = ROOT / "examples" / "scenes"
NETS = ROOT / "tests" / "data" / "nets"
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")


@dataclass(frozen=True)
class Subject:
    """A network and how it is used rightly."""

    path: Path
    photos: tuple[Path, ...]
    labels: tuple[str, ...]
    color: str = "RGB"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (255.0,)
    #: How the outputs are to be read; ``"auto"``: as `convert` finds.
    head: str = "auto"
    #: As for `convert`.
    keep_graph: bool = False
    load: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mistake:
    """A mistake in making a file, and one in using it."""

    name: str
    cause: str
    made: dict[str, Any] = field(default_factory=dict)
    used: dict[str, Any] = field(default_factory=dict)
    is_squashed: bool = False


def mistakes(subject: Subject, right: Way) -> Iterator[Mistake]:
    """Yield the twelve mistakes with a network."""
    head = right.head if subject.head == "auto" else subject.head
    others = [name for name in ("yolov5", "yolov7", "yolox", "yolov8") if not head.startswith(name)]
    for name in others[:3]:
        yield Mistake(f"head {name}", "head", used={"head": name})
    other = "RGB" if subject.color == "BGR" else "BGR"
    yield Mistake(f"color {other}", "color", made={"color": other})
    means = {**NORMALIZATIONS, "ImageNet's means alone": (NORMALIZATIONS["ImageNet's"][0], (1.0,))}
    for name, (mean, std) in means.items():
        if (mean, std) != (subject.mean, subject.std):
            yield Mistake(name, "normalization", made={"mean": three(mean), "std": three(std)})
    for name, value in right.options:
        if name in ("logits", "normalized"):
            yield Mistake(f"{name}={not value}", "scale", used={"head": head, name: not value})
    yield Mistake("letterboxed", "letterbox", is_squashed=True)
    names = list(SHAPES) if len(subject.labels) == 80 else read_labels("coco")
    yield Mistake("another's labels", "labels", used={"labels": names})
    yield Mistake("a class too few", "labels", used={"labels": list(subject.labels[:-1])})


def tried(subject: Subject, socs: list[str], folder: Path) -> tuple[int, int, int]:
    """Print a row for each file.

    Returns:
        How many mistakes were planted, how many were named, and how many confident errors.
    """
    planted = named = errors = 0
    right: dict[str, Any] = {
        "color": subject.color, "mean": three(subject.mean), "std": three(subject.std),
        "labels": list(subject.labels), "load": subject.load, "keep_graph": subject.keep_graph,
    }  # fmt: skip
    photos = [folder / f"{i}.png" for i in range(len(subject.photos))]
    for path, photo in zip(photos, subject.photos):
        Image.open(photo).convert("RGB").save(path)
    squashed = folder / "squashed.png"
    with Image.open(photos[0]) as image:
        image.resize((image.width * 2, image.height)).save(squashed)
    (folder / "photos.txt").write_text("".join(f"{path}\n" for path in photos))

    def read(mistake: Mistake, soc: str) -> Readings:
        path = folder / f"{mistake.name if mistake.made else 'right'}_{soc}.rknn".replace(" ", "-")
        if not path.exists():
            options = {**right, **mistake.made}
            convert(
                subject.path, soc, path, calibrate=folder / "photos.txt", report=False,
                **{name: each for name, each in options.items() if each},
            )  # fmt: skip
        used = {"head": subject.head, **mistake.used}
        return try_readings(path, [squashed] if mistake.is_squashed else photos, **used)

    for soc in reversed(socs):
        found = read(Mistake("right", ""), soc)
        is_wrong = found.is_sure and bool(found.causes)
        errors += is_wrong
        _row(subject, f"right, {soc}", "WRONG" if is_wrong else "right", found)
    best = next(each for each in found.tried if each.way == found.used)
    other_color = [
        each.quality for each in found.tried if [*best.way.changes(each.way)] == ["color"]
    ]
    for each in mistakes(subject, best.way):
        if each.cause == "color" and max(other_color) > 0.9 * best.quality:
            continue  # this network finds as much in the other order
        found = read(each, socs[0])
        is_named = found.causes[:1] == (each.cause,)
        is_wrong = found.is_sure and bool(found.causes) and not is_named
        planted, named, errors = planted + 1, named + is_named, errors + is_wrong
        _row(subject, each.name, "named" if is_named else "WRONG" if is_wrong else "-", found)
    return planted, named, errors


def _row(subject: Subject, name: str, word: str, found: Readings) -> None:
    sure = "sure" if found.is_sure else ""
    print(f"{subject.path.stem[:16]:16} {name:22} {word:6} {sure:5} {found.text}", flush=True)


def examples() -> Iterator[Subject]:
    """Yield the example networks."""
    photos = tuple(sorted(SCENES.iterdir()))
    yield Subject(ROOT / "examples" / "models" / "shapes.onnx", photos, SHAPES)
    for head in ("yolov5", "yolov8", "yolov10"):
        yield Subject(NETS / f"shapes_{head}.onnx", photos, SHAPES, head=head, keep_graph=True)


def three(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return a value for each channel."""
    return (values * 3)[:3]


def numbers(text: str) -> tuple[float, ...]:
    """Return numbers between commas; equal ones once."""
    values = tuple(float(each) for each in text.split(","))
    return values[:1] if len(set(values)) == 1 else values


def main() -> int:
    """Try networks and print how many mistakes were named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("network", nargs="?", type=Path)
    parser.add_argument("photos", nargs="*", type=Path)
    parser.add_argument("--labels", default="coco", help="names of the classes: file or names")
    parser.add_argument("--color", default="RGB")
    parser.add_argument("--mean", type=numbers, default=(0.0,))
    parser.add_argument("--std", type=numbers, default=(255.0,))
    parser.add_argument("--head", default="auto")
    parser.add_argument("--imgsz", type=int, help="of a network with open shapes")
    parser.add_argument("--input", default="images", help="its input")
    parser.add_argument("--socs", nargs="+", default=["rk3588", "rk3566", "rv1106"])
    parser.add_argument("--keep", metavar="FOLDER", help="keep the files, and take those in it")
    given = parser.parse_args()
    subjects = list(examples())
    if given.network:
        shape = [[1, 3, given.imgsz, given.imgsz]]
        load = {"inputs": [given.input], "input_size_list": shape} if given.imgsz else {}
        labels = tuple(given.labels.split(",") if "," in given.labels else
                       read_labels(given.labels))  # fmt: skip
        subjects = [
            Subject(given.network, tuple(given.photos), labels, given.color, given.mean,
                    given.std, given.head, load=load)
        ]  # fmt: skip
    failures = 0
    for subject in subjects:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(given.keep or temporary, subject.path.stem)
            folder.mkdir(parents=True, exist_ok=True)
            planted, named, errors = tried(subject, given.socs, folder)
        print(f"{subject.path.stem}: {named} of {planted} named first, {errors} confident errors")
        failures += named < planted - 2 or errors > 0
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
