"""Models that answer with planted objects, and the comparison of what programs find in them."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rknn_runtime.enums import TensorType
from rknn_runtime.sim import Record, bundle_from_arrays, describe_input, describe_output

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "models" / "shapes_rk3588.rknn"
MACHINE = ROOT / "tests" / "data" / "emulator" / "machine_rk3588.rknn"
TOKENS = ROOT / "tests" / "data" / "tokens"
SIDE = 640
STRIDES = (8, 16, 32)
#: Anchors of YOLOv5 and YOLOv7, as files of the zoo have them.
ANCHORS = {
    "yolov5": [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326],
    "yolov7": [12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401],
}


class Int64(tuple):
    """The shape of an input of int64, such as tokens."""


def answering(
    path: Path,
    inputs: Sequence[tuple[int, ...]],
    outputs: Sequence[tuple[int, ...] | np.ndarray],
    soc: str = "rk3588",
) -> Path:
    """Write a model that answers every input with the same float16 outputs, random ones for shapes.

    Inputs of one or three channels are pixels, others float16.
    """
    random = np.random.default_rng(11)
    arrays = [
        each if isinstance(each, np.ndarray) else random.standard_normal(each) for each in outputs
    ]
    plain: dict[str, Any] = {"dtype": TensorType.FLOAT16, "zero_point": None, "scale": None}
    numbers = {**plain, "dtype": TensorType.INT64}
    pixels = {"zero_point": -128, "scale": 1 / 255}
    ins = [
        describe_input(f"in{i}", tuple(shape), index=i, soc=soc, **kind)
        for i, (shape, kind) in enumerate(
            (shape, numbers if isinstance(shape, Int64) else pixels if _is_image(shape) else plain)
            for shape in inputs
        )
    ]
    outs = [
        describe_output(f"out{i}", array.shape, index=i, soc=soc, **plain)
        for i, array in enumerate(arrays)
    ]
    record = Record([array.astype(np.float16) for array in arrays])
    path.write_bytes(bundle_from_arrays(ins, outs, [record], soc=soc))
    return path


def _is_image(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[1] == 3


def stand_in(folder: Path, outputs: Sequence[np.ndarray], side: int = SIDE) -> Path:
    """Write a model for images that answers with the same outputs."""
    return answering(folder / "model.rknn", [(1, 3, side, side)], outputs)


def ran(words: Sequence[Any], folder: Path, **variables: str) -> str:
    """Run a program in a folder and return what it printed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def photo(folder: Path, height: int = 480, width: int = SIDE) -> Path:
    """Write a picture of noise."""
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    path = folder / "photos" / "photo.png"
    path.parent.mkdir()
    cv2.imwrite(str(path), pixels)
    return path


def assert_same_boxes(
    theirs: Sequence[Sequence[float]], ours: Any, pixels: float, *, fewer: bool = False
) -> str:
    """Compare rows of class, confidence and box with `Detections`, and describe the match.

    With `fewer`, the program may miss some of our boxes.
    """
    rows = [
        (c, s, *box)
        for c, s, box in zip(ours.class_id.tolist(), ours.confidence.tolist(), ours.xyxy.tolist())
    ]
    assert theirs, "nothing was found there"
    assert fewer or len(rows) == len(theirs), f"{len(theirs)} objects there, {len(rows)} here"
    left = list(rows)
    for row in theirs:
        near = [
            one
            for one in left
            if one[0] == row[0]
            and abs(one[1] - row[1]) <= 0.006
            and np.allclose(one[2:], row[2:], atol=pixels)
        ]
        assert near, f"{row} is not among {left}"
        left.remove(near[0])
    return f"{len(theirs)} of {len(rows)} boxes within {pixels:g} px"


def recipe(name: str) -> types.ModuleType:
    """Run a program of docs/immich-frigate.md."""
    page = (ROOT / "docs" / "immich-frigate.md").read_text("utf-8")
    texts = dict(re.findall(r"<!-- recipe: (\S+) -->\n```py\n(.*?)^```", page, re.S | re.M))
    module = types.ModuleType(name)
    exec(compile(texts[name], name, "exec"), vars(module))
    return module


def cpu_ms(function: Callable[[], Any], calls: int = 30) -> float:
    """Return the least CPU time of a call, of this process with all its threads."""
    times = []
    for _ in range(calls):
        begin = time.process_time()
        function()
        times.append(1000 * (time.process_time() - begin))
    return min(times)


@contextlib.contextmanager
def imported(*folders: Path, **modules: dict[str, Any]) -> Iterator[None]:
    """Import from folders, and give a program modules in place of those that it cannot have."""
    sys.path[:0] = [str(folder) for folder in folders]
    for name, content in modules.items():
        module = types.ModuleType(name.replace("__", "."))
        vars(module).update(content)
        sys.modules[module.__name__] = module
    yield
