"""Compare `rknn-runtime predict` with the vendor's table of measured frames per second.

::

    python tools/judge_prediction.py FOLDER

FOLDER has ONNX files of detectors, with the names of the table and an input of 640 pixels; weights
do not matter. For each SoC it prints the median error, the count in the range, and the worst.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import NamedTuple

from rknn_runtime.conversion.expected_layers import expected_layers
from rknn_runtime.modelfile.prediction import predict

SOCS = ("rk3566", "rk3562", "rk3588", "rk3576")
#: Frames per second of int8 models on one core at its highest clock, in the order of SOCS, from the
#: vendor (README of airockchip/rknn_model_zoo 2.3.2).
MEASURED = """
yolov5n        39.7   47.4   82.5  112.7
yolov5s        19.3   23.6   48.4   57.5
yolov5m         8.6   10.8   20.9   23.7
yolov6n        48.8   56.4  106.4  109.1
yolov6s        15.2   17.3   36.4   35.0
yolov7-tiny    27.9   36.5   72.7   74.8
yolov7          4.6    5.9   11.4   13.0
yolov8n        34.0   40.9   73.5   90.2
yolov8s        15.1   18.4   38.0   40.8
yolov8m         6.5    8.2   16.2   16.7
yolov8n-obb    33.9   41.3   74.0   90.2
yolov10n       20.7   34.1   61.2   80.2
yolov10s       10.3   16.9   33.8   39.9
yolo11n        20.6   34.0   60.0   77.9
yolo11s        10.2   16.7   33.0   38.2
yolo11m         4.6    6.5   12.7   14.6
yolox_s        15.2   18.3   37.1   41.5
yolox_m         6.6    8.2   16.0   17.6
yolov8n-pose   22.6   31.0   55.9   66.8
yolov5n-seg    32.2   38.5   69.3   88.3
yolov5s-seg    15.0   18.1   36.8   41.6
yolov5m-seg     6.8    8.4   16.4   18.0
yolov8n-seg    27.8   33.0   60.8   71.1
yolov8s-seg    11.7   14.1   28.9   30.8
yolov8m-seg     5.2    6.4   12.6   12.7
"""


class Judged(NamedTuple):
    """One network on one SoC."""

    name: str
    #: Predicted time as a multiple of the measured one.
    ratio: float
    is_in_range: bool


def measured() -> dict[str, dict[str, float]]:
    """Return frames per second by network and SoC."""
    rows = (line.split() for line in MEASURED.strip().splitlines())
    return {name: dict(zip(SOCS, map(float, numbers))) for name, *numbers in rows}


def judge(folder: Path) -> dict[str, list[Judged]]:
    """Predict the networks of the table that are in a folder."""
    judged: dict[str, list[Judged]] = {soc: [] for soc in SOCS}
    for name, frames in measured().items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            continue
        layers = expected_layers(path)
        for soc, fps in frames.items():
            found, ms = predict(layers, soc), 1000 / fps
            is_in_range = found.fastest_ms <= ms <= found.slowest_ms
            judged[soc].append(Judged(name, found.ms / ms, is_in_range))
    return judged


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for soc, rows in judge(folder).items():
        if not rows:
            parser.error(
                f"{folder}: expected files such as {next(iter(measured()))}.onnx, got none"
            )
        median = statistics.median(abs(row.ratio - 1) for row in rows)
        inside = sum(row.is_in_range for row in rows)
        worst = max(rows, key=lambda row: abs(row.ratio - 1))
        print(
            f"{soc}: median error {median:.1%}, {inside} of {len(rows)} in the range, "
            f"worst {worst.name} {worst.ratio - 1:+.0%}"
        )


if __name__ == "__main__":
    main()
