"""Convert small detectors of every family with the real toolkit, and check the files.

``make test-convert`` runs it. The first run installs rknn-toolkit2 into the user's cache, or into a
given folder, and needs a network. Each file must tell `Detector` its head, and its outputs on the
simulated NPU must be close to those in float.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "conversion")]

from nets import CLASSES, anchor_free, anchored, pp_yoloe, yolox  # noqa: E402

from rknn_runtime import Detector, Model, convert  # noqa: E402

NETS = {
    "YOLOv8": (anchor_free, {}, "detect"),
    "YOLOv10": (anchor_free, {"prefix": "one2one_", "channels_last": True}, "detect"),
    "YOLO26": (anchor_free, {"bins": 1}, "detect"),
    "YOLOv8-seg": (anchor_free, {"extra": 32, "prototypes": True}, "segment"),
    "YOLOv8-obb": (anchor_free, {"extra": 1}, "obb"),
    "YOLOv8-pose": (anchor_free, {"extra": 51}, "pose"),
    "YOLOv5": (anchored, {}, "detect"),
    "YOLOv7": (anchored, {"style": "v7"}, "detect"),
    "YOLOv5-seg": (anchored, {"masks": 6}, "segment"),
    "YOLOX": (yolox, {}, "detect"),
    "PP-YOLOE": (pp_yoloe, {}, "detect"),
}


def main() -> int:
    """Convert all detectors for the given SoCs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--environment", help="where the toolkit is installed")
    parser.add_argument("--toolkit", default="2.3.2")
    parser.add_argument("--targets", nargs="+", default=["rk3588", "rv1106"])
    arguments = parser.parse_args()
    names = str({i: f"thing {i}" for i in range(CLASSES)})
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, options, task) in NETS.items():
            path = Path(folder, f"{name}.onnx")
            path.write_bytes(make(**options).model(names=names, task=task))
            for target in arguments.targets:
                failures += not tried(path, target, arguments.environment, arguments.toolkit)
    return int(failures > 0)


def tried(path: Path, target: str, environment: str | None, toolkit: str) -> bool:
    """Convert a detector, print a row, and tell whether it is right."""
    begin = time.monotonic()
    made = convert(
        path,
        target,
        calibrate=ROOT / "examples" / "scenes",
        environment=environment,
        toolkit=toolkit,
        progress=lambda line: print(f"... {line}", file=sys.stderr),
    )
    seconds = time.monotonic() - begin
    with Model(made.path, library="sim") as model:
        head = Detector(model).head
    found = None if made.report is None else made.report.accuracy
    outputs = () if found is None else found.outputs
    worst = min((row.cosine for row in outputs), default=0.0)
    good = head == made.head and worst > 0.98
    verdict = "right" if good else "WRONG"
    print(f"{path.stem:12} {target:8} {head:18} cosine {worst:.4f} {seconds:5.1f} s  {verdict}")
    for note in made.notes:
        print(f"    {note}")
    return good


if __name__ == "__main__":
    sys.exit(main())
