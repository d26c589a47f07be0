"""Time text from int8 and float16 outputs; PaddleOCR's Python and C are baselines.

From native buffers to the characters of a line, and to boxes. The baselines unpack and dequantize
everything first. Lines: argmax and a loop over the steps, as in PaddleOCR's CTCLabelDecode. Boxes:
PaddleOCR's DBPostProcess with OpenCV, whose growth of boxes is worked out instead of pyclipper's.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile

import numpy as np
from _timing import Case, Report, arguments, compiled, cv2
from native_tensors import deliver

from rknn_runtime.vision.heads.text import TextBoxDecoder, TextLineDecoder

if cv2 is None:
    sys.exit("OpenCV is needed for the baseline: pip install opencv-python-headless")

STEPS, CLASSES, SIDE = 40, 6625, 480


def line() -> tuple[np.ndarray, list[str]]:
    """Probabilities of 40 steps, half of them blanks."""
    rng = np.random.default_rng(0)
    scores = rng.uniform(0, 1e-4, (STEPS, CLASSES)).astype(np.float32)
    scores[np.arange(STEPS), rng.integers(1, CLASSES, STEPS) * (np.arange(STEPS) % 2)] = 0.9
    scores /= scores.sum(axis=1, keepdims=True)
    return scores, [chr(0x4E00 + i) for i in range(CLASSES - 1)]


def numpy_line(real: np.ndarray, characters: list[str]) -> tuple[str, float]:
    best, highest = real.argmax(axis=1), real.max(axis=1)
    texts, chances = [], []
    for i in range(len(best)):
        if best[i] == 0 or (i > 0 and best[i - 1] == best[i]):
            continue
        texts.append(characters[int(best[i]) - 1])
        chances.append(highest[i])
    return "".join(texts), float(np.mean(chances))


def page() -> np.ndarray:
    """A map with 30 words."""
    values = np.random.default_rng(1).uniform(0, 0.05, (SIDE, SIDE)).astype(np.float32)
    for i in range(30):
        y, x = 10 + i // 3 * 45, 20 + i % 3 * 150
        values[y : y + 12, x : x + 100] = 0.9
    return values[None, None]


def numpy_boxes(raw: np.ndarray, attr) -> list[np.ndarray]:
    plain = raw.transpose(0, 1, 4, 2, 3).reshape(1, -1, SIDE, SIDE)[0, 0]
    real = (plain.astype(np.float32) - attr.zero_point) * np.float32(attr.scale)
    contours, _ = cv2.findContours(
        (real > 0.3).astype(np.uint8) * 255, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE
    )
    boxes = []
    for contour in contours:
        centre, sides, angle = cv2.minAreaRect(contour)
        if min(sides) < 3:
            continue
        points = cv2.boxPoints((centre, sides, angle))
        low = np.clip(np.floor(points.min(axis=0)).astype(int), 0, SIDE - 1)
        high = np.clip(np.ceil(points.max(axis=0)).astype(int), 0, SIDE - 1)
        mask = np.zeros((high[1] - low[1] + 1, high[0] - low[0] + 1), np.uint8)
        cv2.fillPoly(mask, [(points - low).reshape(1, -1, 2).astype(np.int32)], 1)
        if cv2.mean(real[low[1] : high[1] + 1, low[0] : high[0] + 1], mask)[0] < 0.6:
            continue
        grow = sides[0] * sides[1] * 1.5 / (sides[0] + sides[1])
        sides = sides[0] + grow, sides[1] + grow
        if min(sides) >= 5:
            boxes.append(cv2.boxPoints((centre, sides, angle)))
    return boxes


def main() -> None:
    report = Report(arguments(__doc__.split("\n")[0]))
    scores, characters = line()
    attr, raw, real = deliver(
        np.ascontiguousarray(scores.T)[None, :, :, None], "float16", "transposed"
    )
    decoder = TextLineDecoder(attr, characters)
    floats = np.ascontiguousarray(real[0, :, :, 0].T)
    assert decoder(raw)[0] == numpy_line(floats, characters)[0]
    indices, chances = np.empty(STEPS, np.int32), np.empty(STEPS, np.float32)
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (floats, indices, chances)]
    with tempfile.TemporaryDirectory() as folder:
        native = ctypes.CDLL(compiled("decode_baseline.c", folder))

    def in_c():  # from floats, which the runtime makes of the outputs
        return native.baseline_line(pointers[0], STEPS, CLASSES, *pointers[1:])

    assert "".join(characters[i - 1] for i in indices[: in_c()]) == decoder(raw)[0]
    cases = [
        Case("TextLineDecoder", lambda: decoder(raw)),
        Case("C, as the zoo's", in_c),
        Case("PaddleOCR's Python", lambda: numpy_line(raw[0].astype(np.float32), characters)),
    ]
    report.compare("40 steps, 6625 characters", raw.nbytes, cases, ["TextLineDecoder"], "in")
    map_attr, map_raw, _ = deliver(page(), "int8", "c2=16")
    boxes = TextBoxDecoder([map_attr], (SIDE, SIDE))
    assert len(boxes(map_raw)) == len(numpy_boxes(map_raw, map_attr.stored)) == 30
    cases = [
        Case("TextBoxDecoder", lambda: boxes(map_raw)),
        Case("PaddleOCR's Python", lambda: numpy_boxes(map_raw, map_attr.stored)),
    ]
    report.compare("480x480, 30 words", map_raw.nbytes, cases, ["TextBoxDecoder"], "in")
    report.finish()


if __name__ == "__main__":
    main()
