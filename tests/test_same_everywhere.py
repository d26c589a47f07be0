"""Every CPU gives the same detections, to the last bit.

The outputs are recorded or made of integers that are the same everywhere; the expected results were
written on x86-64, by running this file: ``python tests/test_same_everywhere.py``, with onnxruntime
installed. The suite runs on emulated ARM CPUs, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from native_tensors import attribute

from rknn_runtime import Detector, Model
from rknn_runtime.vision.heads.find import find_head

PROJECT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data" / "same_everywhere"
EXPECTED = DATA / "detections.json"
BUNDLE = DATA / "shapes_rk3588.bundle"
IMAGE = PROJECT / "examples" / "scenes" / "scene.png"
SIZE = (64, 96)
GRIDS = [(8, 12), (4, 6), (2, 3)]
FORMS = {
    "yolov5": [(24, h, w) for h, w in GRIDS],
    "yolov6-split": [(channels, h, w) for h, w in GRIDS for channels in (4, 3)],
    "yolov8-split": [(channels, h, w) for h, w in GRIDS for channels in (64, 3)],
    "yolov8-single": [(7, 126, 1)],
    "yolov8-obb-single": [(8, 126, 1)],
    "yolox": [(8, h, w) for h, w in GRIDS],
    "end-to-end": [(300, 6)],
    "yolov8-seg-single": [(15, 126, 1), (8, 16, 24)],
    "yolov8-pose-single": [(20, 126, 1)],
}
DTYPES = {"yolov8-pose-single": "float16"}


def made(form: str):
    """Decode random numbers, whose stream NumPy keeps for ever, packed where there are planes."""
    random = np.random.RandomState(sum(form.encode()))
    dtype, attrs, raw = DTYPES.get(form, "int8"), [], []
    c2 = 16 // np.dtype(dtype).itemsize
    for index, (channels, *plane) in enumerate(FORMS[form]):
        shape = (1, channels, *plane)
        native = (1, -(-channels // c2), *plane, c2) if len(plane) == 2 else None
        numbers = random.randint(-128, 128, native or shape)
        raw.append((numbers if dtype == "int8" else (numbers + 128) / 256).astype(dtype))
        attrs.append(attribute(shape, dtype, -128, 1 / 255, native=native, index=index))
    options = {"conf_threshold": 0.7, "max_detections": 20}
    if form != "end-to-end":
        options["iou_threshold"] = 0.3
    return find_head(attrs, SIZE, form).make(**options)(raw)


HASHES = """
import sys
from hashlib import sha256
from pathlib import Path
import numpy as np
from rknn_runtime import Model
for path in map(Path, sys.argv[1:]):
    with Model(path, library="sim") as model:
        frames = [np.random.RandomState(0).randint(0, 256, a.shape) for a in model.inputs]
        model.run(*(x.astype(np.uint8 if a.takes_pixels else np.float32)
                    for x, a in zip(frames, model.inputs)))
        raw = [model.output_raw(i).tobytes() for i in range(len(model.outputs))]
    print(path.name, sha256(b"".join(raw)).hexdigest())
"""


def test_what_memory_held_before_is_in_no_result():
    """The emulator's results never depend on it, even where padded channels are multiplied by 0.

    The C library fills new memory with other bytes.
    """
    folder = PROJECT / "tests" / "data" / "emulator"
    models = [*sorted(folder.glob("*.rknn")), PROJECT / "examples/models/shapes_rk3588.rknn"]
    said = {
        subprocess.run(
            [sys.executable, "-c", HASHES, *models],
            env={**os.environ, "MALLOC_PERTURB_": str(fill)},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for fill in (0, 85, 170)
    }
    assert len(said) == 1
    assert len(said.pop().splitlines()) == len(models) > 10


def recorded(form: str = "recorded"):
    """Run the demo's detector on its scene, with the outputs that onnxruntime gave."""
    image = pytest.importorskip("PIL.Image")
    with Model(BUNDLE, library="sim") as model:
        return Detector(model)(np.asarray(image.open(IMAGE).convert("RGB")))


CASES = {"recorded": recorded, **dict.fromkeys(FORMS, made)}


def as_text(detections) -> dict:
    """Write the arrays in full: hexadecimal floats lose nothing."""
    corners = detections.xyxyxyxy
    boxes = detections.xyxy if corners is None else corners.reshape(-1, 8)
    found = {
        "class_id": detections.class_id.tolist(),
        "confidence": [float(value).hex() for value in detections.confidence],
        "boxes": [[float(value).hex() for value in box] for box in boxes],
    }
    if detections.keypoints is not None:
        found["keypoints"] = [float(value).hex() for value in detections.keypoints.flat]
    if detections.mask is not None:
        found["mask"] = sha256(np.packbits(detections.mask).tobytes()).hexdigest()
    return found


@pytest.mark.parametrize("form", CASES)
def test_detections_are_the_same_everywhere(form):
    """Not a bit differs from what x86-64 found."""
    found = as_text(CASES[form](form))
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))[form]
    assert len(expected["class_id"]) > 2
    assert found == expected


def main() -> None:
    from PIL import Image

    from rknn_runtime.sim import record
    from rknn_runtime.vision import letterbox

    models = PROJECT / "examples" / "models"
    frame, _ = letterbox(np.asarray(Image.open(IMAGE).convert("RGB")), (320, 320))
    DATA.mkdir(parents=True, exist_ok=True)
    BUNDLE.write_bytes(record(models / "shapes_rk3588.rknn", [frame[np.newaxis]]))
    found = {form: as_text(detect(form)) for form, detect in CASES.items()}
    EXPECTED.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
