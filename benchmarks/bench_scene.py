"""Time the classes of pixels from int8 scores; C, NumPy and OpenCV, as the zoo's, are baselines.

From native buffers (int8, NC1HWC2) to a class map in the size of the image. The baselines unpack
and dequantize everything. The zoo's Python then resizes all scores of deeplabv3 to the image with
OpenCV and takes their argmax; its C++ interpolates them to the size of the input (with OpenCL; here
the same sums are worked out in C). Of ppseg both take the argmax of scores, which have the size of
the input, and resize the classes by the nearest.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile

import numpy as np
from _timing import Case, Report, arguments, compiled, cv2
from bench_decode import Tensor
from native_tensors import deliver
from reference import scene as reference

from rknn_runtime.vision.heads.scene import SceneDecoder
from rknn_runtime.vision.letterbox import LetterboxTransform

if cv2 is None:
    sys.exit("OpenCV is needed for the baseline: pip install opencv-python-headless")


def scores(classes: int, height: int, width: int) -> np.ndarray:
    """Smooth scores, as networks make them."""
    coarse = np.random.default_rng(0).normal(0, 3, (classes, 6, 8))
    mapping = [(6 / height, 0), (8 / width, 0)]
    return reference.interpolated(coarse, (height, width), mapping).astype(np.float32)[None]


def real_nchw(raw: np.ndarray, attr, shape) -> np.ndarray:
    """Unpack and dequantize, as `rknn.inference` does."""
    _, channels, height, width = shape
    plain = raw.transpose(0, 1, 4, 2, 3).reshape(1, -1, height, width)[:, :channels]
    return (plain.astype(np.float32) - attr.zero_point) * np.float32(attr.scale)


def deeplab(raw, attr, shape, image):
    real = real_nchw(raw, attr, shape)[0].transpose(1, 2, 0)
    parts = [real[..., i : i + 4] for i in range(0, shape[1], 4)]  # OpenCV's most channels
    resized = np.concatenate(
        [np.atleast_3d(cv2.resize(part, image[::-1])) for part in parts], axis=2
    )
    return resized.argmax(axis=2).astype(np.uint8)


def ppseg(raw, attr, shape, image):
    classes = real_nchw(raw, attr, shape)[0].argmax(axis=0).astype(np.uint8)
    return cv2.resize(classes, image[::-1], interpolation=cv2.INTER_NEAREST)


CASES = [
    (
        "deeplabv3: 65x65, 21 classes, to 720x1280",
        (1, 21, 65, 65),
        (513, 513),
        (720, 1280),
        deeplab,
    ),
    ("ppseg: 512x512, 19 classes, to 720x1280", (1, 19, 512, 512), (512, 512), (720, 1280), ppseg),
]


def fill(tensor, raw, planar, attr, channels, height, width) -> None:
    """Describe an output for the baseline in C."""
    tensor.packed, tensor.planar = raw.ctypes.data, planar.ctypes.data
    tensor.zero_point, tensor.scale, tensor.c2 = attr.zero_point, attr.scale, raw.shape[-1]
    tensor.channels, tensor.height, tensor.width = channels, height, width


def compare(report, native, title, shape, size, image, baseline) -> None:
    attr, raw, _ = deliver(scores(*shape[1:]), "int8", "c2=16")
    decoder = SceneDecoder([attr], size)
    transform = LetterboxTransform(image, size, size, (0, 0))
    ours, theirs = decoder(raw, transform), baseline(raw, attr.stored, shape, image)
    agreement = (ours == theirs).mean()
    assert agreement > 0.98, agreement
    tensor = Tensor()
    planar, floats = np.empty(shape[1:], np.int8), np.empty(shape[1:], np.float32)
    labels, mapped = np.empty(size, np.uint8), np.empty(image, np.uint8)
    fill(tensor, raw, planar, attr.stored, *shape[1:])
    pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (floats, labels, mapped)]

    def in_c():
        native.baseline_scene(ctypes.byref(tensor), *pointers[:2], *size, *image, pointers[2])

    in_c()
    assert (mapped == ours).mean() > 0.9  # nearest cells have ragged edges
    cases = [
        Case("SceneDecoder", lambda: decoder(raw, transform)),
        Case("C, as the zoo's", in_c),
        Case("zoo's Python", lambda: baseline(raw, attr.stored, shape, image)),
    ]
    report.compare(f"{title}, {agreement:.2%} equal", ours.nbytes, cases, ["SceneDecoder"])


def main() -> None:
    report = Report(arguments(__doc__.split("\n")[0]))
    with tempfile.TemporaryDirectory() as folder:
        native = ctypes.CDLL(compiled("decode_baseline.c", folder))
        for row in CASES:
            compare(report, native, *row)
    report.finish()


if __name__ == "__main__":
    main()
