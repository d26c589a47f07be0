"""Code that the examples share: how they end, and their arguments."""

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
    """Run a program; errors that the user can fix, and Ctrl-C, end it without a traceback."""
    try:
        main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)  # as in a shell: 128 + the number of the signal
    except BrokenPipeError:
        # The reader, such as `head`, has ended; without this Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (RknnError, OSError, ValueError, ImportError) as error:
        advice = ""
        if isinstance(error, ModuleNotFoundError) and error.name == "PIL":
            advice = ", which is Pillow: pip install Pillow"
        elif isinstance(error, LibraryLoadError):
            advice = (
                "\nGive this program the library as --library; the simulated NPU: --library sim"
            )
        sys.exit(f"{Path(sys.argv[0]).name}: {error}{advice}")


def image_file(path: str) -> Path:
    """Check that an image can be written, for ``add_argument(type=image_file)``."""
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
    """Read the command line of the two programs that follow the vendor's YOLOv5 demo."""
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
    """Print a line per object, as that demo does, and save the annotated image for ``--save``."""
    labels = json.loads(custom_string or "{}").get("labels")
    for one in detections:
        name = labels[one.class_id] if labels else f"class {one.class_id}"
        left, top, right, bottom = one.xyxy
        print(f"{name} @ ({left:.0f} {top:.0f} {right:.0f} {bottom:.0f}) {one.confidence:.3f}")
    if args.save:
        detections.draw(image, labels).save(args.save)
