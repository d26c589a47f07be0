"""What the examples share: the files that they take, and how they end."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rknn_runtime import Detections, RknnError
from rknn_runtime.errors import LibraryLoadError

if TYPE_CHECKING:
    from PIL.Image import Image


def run(main: Callable[[], None]) -> None:
    """Run a program; an error that the user can mend, or Ctrl-C, ends it without a traceback."""
    try:
        main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)  # as a shell says it: 128 and the number of the signal
    except BrokenPipeError:
        # The reader, such as `head`, has enough; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (RknnError, OSError, ValueError, ImportError) as error:
        advice = ""
        if isinstance(error, ModuleNotFoundError) and error.name == "PIL":
            advice = ", which is Pillow: pip install Pillow"
        elif isinstance(error, LibraryLoadError):
            advice = (
                "\nThis program takes the library as --library; the simulated NPU: --library sim"
            )
        sys.exit(f"{Path(sys.argv[0]).name}: {error}{advice}")


def read_labels(path: str) -> list[str]:
    """Read the names of classes, for ``add_argument(type=read_labels)``.

    The file has one name per line, in the order of the classes, or is JSON: ``["a", "b"]``,
    ``{"0": "a", "1": "b"}``, or ``{"labels": ...}`` with one of these.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from None
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, (dict, list)):
        said = text.rstrip().splitlines()
    if isinstance(said, dict) and "labels" in said:
        said = said["labels"]
    if isinstance(said, dict):
        said = [said.get(str(number)) for number in range(len(said))]
    if not isinstance(said, list) or not said or not all(isinstance(name, str) for name in said):
        raise argparse.ArgumentTypeError(
            f'{path}: expected the names as lines, ["a", "b"], {{"0": "a", "1": "b"}} or '
            '{"labels": ...}'
        )
    return said


def image_file(path: str) -> Path:
    """Check that an image can be written there, for ``add_argument(type=image_file)``.

    Now, and not when the work is done and lost.
    """
    from PIL import Image

    target = Path(path)
    try:
        kind = Image.registered_extensions()[target.suffix.lower()]
        Image.new("RGB", (1, 1)).save(io.BytesIO(), kind)
    except (KeyError, OSError, ValueError):
        raise argparse.ArgumentTypeError(
            f"{path}: expected the name of an image, such as out.png or out.jpg"
        ) from None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path}: nothing can be written there")
    return target


def demo_arguments(text: str) -> argparse.Namespace:
    """Read the command line of the two programs that are as the vendor's YOLOv5 demo."""
    parser = argparse.ArgumentParser(description=text.split("\n")[0])
    parser.add_argument("model", help=".rknn file, three outputs as in the vendor's model zoo")
    parser.add_argument("image")
    parser.add_argument("--library", help='runtime library, or "sim" for the simulated NPU')
    parser.add_argument("--conf", type=float, default=0.25, help="confidence threshold")
    parser.add_argument("--iou", type=float, default=0.45, help="threshold of the suppression")
    parser.add_argument("--save", type=image_file, help="write the annotated image here")
    return parser.parse_args()


def show(
    detections: Detections, args: argparse.Namespace, image: Image, custom_string: str
) -> None:
    """Print a line an object, as that demo does, and draw them where ``--save`` says."""
    labels = json.loads(custom_string or "{}").get("labels")
    for one in detections:
        name = labels[one.class_id] if labels else f"class {one.class_id}"
        left, top, right, bottom = one.xyxy
        print(f"{name} @ ({left:.0f} {top:.0f} {right:.0f} {bottom:.0f}) {one.confidence:.3f}")
    if args.save:
        detections.draw(image, labels).save(args.save)
