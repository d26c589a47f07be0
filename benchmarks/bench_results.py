"""Reading the objects that were found, against plain ``tolist`` and ``zip``.

Microseconds per object, and the ratio to the baseline: 30 and 300 boxes with names, and 30 people
with 17 keypoints. All ways take turns in one run.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Callable

import numpy as np

from rknn_runtime import Detections


def made(n: int, has_keypoints: bool) -> Detections:
    dice = np.random.default_rng(n)
    return Detections(
        dice.random((n, 4), np.float32) * 640,
        dice.random(n, np.float32),
        dice.integers(0, 80, n, np.int32),
        keypoints=dice.random((n, 17, 3), np.float32) * 640 if has_keypoints else None,
        labels=[f"class {i}" for i in range(80)],
    )


def plain(found: Detections) -> list[dict[str, Any]]:
    columns = [found.class_id.tolist(), found.confidence.tolist(), found.xyxy.tolist()]
    rows = [{"class_id": i, "confidence": c, "xyxy": box} for i, c, box in zip(*columns)]
    if found.keypoints is not None:
        for row, points in zip(rows, found.keypoints.tolist()):
            row["keypoints"] = points
    return rows


WAYS: dict[str, Callable[[Detections], object]] = {
    "plain tolist, zip": plain,
    "list(found)": list,
    "to_dict": lambda found: found.to_dict(),
    "to_coco": lambda found: found.to_coco(1),
    "to_yolo": lambda found: found.to_yolo((640, 640)),
    "to_csv": lambda found: found.to_csv(),
    "plain, json.dumps": lambda found: json.dumps(plain(found)),
    "to_json": lambda found: found.to_json(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500, help="rounds of calls (default 500)")
    rounds = parser.parse_args().rounds
    for title, n, has_keypoints in (
        ("30 boxes", 30, False), ("300 boxes", 300, False), ("30 people, 17 keypoints", 30, True),
    ):  # fmt: skip
        found = made(n, has_keypoints)
        took: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(rounds):
            for name, way in WAYS.items():
                begin = time.perf_counter()
                way(found)
                took[name].append(time.perf_counter() - begin)
        each_us = {name: 1e6 * float(np.median(times)) / n for name, times in took.items()}
        print(f"\n{title:24}  us an object   x plain")
        for name, us in each_us.items():
            print(f"  {name:24}{us:12.2f}{us / each_us['plain tolist, zip']:10.2f}")


if __name__ == "__main__":
    main()
