"""Reading the objects that were found, against plain ``tolist`` and ``zip``.

Median and least microseconds per object, and the ratio of the least to the baseline's, for 30 and
300 boxes with names, 30 people with 17 keypoints, and the runs of 30 masks, which NumPy computes
too. All ways take turns in one run.
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


def runs_by_numpy(found: Detections) -> list[list[int]]:
    runs = []
    for mask in found.mask:
        flat = np.concatenate([[False], mask.ravel(order="F")])
        ends = np.append(np.flatnonzero(flat[1:] != flat[:-1]), mask.size)
        runs.append(np.diff(ends, prepend=0).tolist())
    return runs


def masked(n: int, side: int) -> Detections:
    rows, columns = np.mgrid[:side, :side]
    masks = [(rows - 200 - 3 * i) ** 2 + (columns - 250 - 3 * i) ** 2 < 8100 for i in range(n)]
    boxes = made(n, False)
    return Detections(boxes.xyxy, boxes.confidence, boxes.class_id, mask=np.stack(masks))


MASK_WAYS: dict[str, Callable[[Detections], object]] = {
    "NumPy's runs": runs_by_numpy,
    "to_dict": lambda found: found.to_dict(),
    "to_coco": lambda found: found.to_coco(1),
    "to_json": lambda found: found.to_json(),
}


def report(
    title: str, found: Detections, ways: dict[str, Callable[[Detections], object]], rounds: int
) -> None:
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(found)
            took[name].append(1e6 * (time.perf_counter() - begin) / len(found))
    print(f"\n{title:26}{'us an object':>12}{'least':>10}{'x':>8}")
    first = min(next(iter(took.values())))
    for name, times in took.items():
        print(f"  {name:24}{np.median(times):12.2f}{min(times):10.2f}{min(times) / first:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=500, help="rounds of calls (default 500)")
    rounds = parser.parse_args().rounds
    for title, n, has_keypoints in (
        ("30 boxes", 30, False), ("300 boxes", 300, False), ("30 people, 17 keypoints", 30, True),
    ):  # fmt: skip
        report(title, made(n, has_keypoints), WAYS, rounds)
    masks = masked(30, 640)
    assert [one["mask"]["counts"] for one in masks.to_dict()["detections"]] == runs_by_numpy(masks)
    report("30 masks of 640 x 640", masks, MASK_WAYS, max(1, rounds // 25))


if __name__ == "__main__":
    main()
