"""Hostile arguments of calls that reach C, and files of another form or without an end.

test_hostile_calls.py has the attacks.
"""

from __future__ import annotations

import os
import random
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from paths import DATA, PROJECT
from test_hostile_calls import attack

from rknn_runtime import Classifier, Detector, Matmul, MatmulType, Model, Pool, kernels
from rknn_runtime.cli.main import main
from rknn_runtime.conversion import accuracy, health
from rknn_runtime.errors import RknnError
from rknn_runtime.rknnlite import RKNNLite
from rknn_runtime.streams import FrameSource
from rknn_runtime.tools import bench
from rknn_runtime.tools.bench import load
from rknn_runtime.tools.doctor import doctor

CALLS_PER_FUNCTION = 100
SHAPES = PROJECT / "examples" / "models" / "shapes_rk3588.rknn"
CLASSES = DATA / "models" / "fc1000_softmax_rv1106.rknn"
FILE = DATA / "models" / "ic3_w37_rk3588.rknn"
IMAGE = np.zeros((24, 32, 3), np.uint8)
ROWS = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
TIMING = bench.Timing("AUTO", 1, 10.0, {"run": [1.0, 2.0]}, 0)
MEASURED = bench.Result(
    {
        "model": "x",
        "runtime": "y",
        "memory": {"weight_bytes": 1, "internal_bytes": 2, "resident_kb": 3},
    },
    (TIMING,),
)


def use_detector(labels, confidence, iou, head, input_color, pad_value, image, color, matrix):
    with Model(SHAPES, library="sim") as model:
        detector = Detector(
            model, labels, confidence, iou, head, input_color=input_color, pad_value=pad_value
        )
        detector(image, color=color, matrix=matrix)


def use_classifier(labels, top_k, softmax, input_color, image, color, full_range):
    with Model(CLASSES, library="sim") as model:
        options = {"softmax": softmax, "input_color": input_color}
        classifier = Classifier(model, labels, top_k, **options)
        classifier(image, color=color, full_range=full_range).named(labels)


def use_frame(model):
    return lambda image, **options: model.run(image)


def use_matmul(m, k, n, dtype, group_size, a, b, set_m):
    with Matmul(m, k, n, dtype, library="sim", group_size=group_size) as product:
        product.write_b(b)
        product.a_memory.array()[...] = np.asarray(a).reshape(-1).view(np.uint8)
        product.run()
        product.set_m(set_m)


CALLS = {
    "pack_int4": (lambda *a: kernels.unpack_int4(kernels.pack_int4(*a)), (ROWS,)),
    "b_to_native": (kernels.b_to_native, (ROWS, 2, 2, 2)),
    "native_to_b": (kernels.native_to_b, (ROWS.reshape(-1), 4, 4, 2, 2, 2)),
    "Detector": (use_detector, (None, 0.25, 0.45, "auto", None, 114, IMAGE, "RGB", "bt601")),
    "Classifier": (use_classifier, (["a"] * 1000, 3, True, None, IMAGE, "RGB", False)),
    "Matmul": (
        use_matmul,
        (
            4,
            64,
            64,
            MatmulType.INT8_MM_INT8_TO_INT32,
            0,
            np.zeros((4, 64), np.int8),
            np.zeros((64, 64), np.int8),
            4,
        ),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_hostile_arguments_raise_what_is_documented(name):
    """Good arguments are taken; others give a result or a documented exception."""
    rng = random.Random(name)
    function, arguments = CALLS[name]
    function(*arguments)
    with np.errstate(all="ignore"):
        for _ in range(CALLS_PER_FUNCTION):
            attack(rng, function, arguments, {})


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "3",
        '{"form": 1, "about": 3, "timings": [3]}',
        MEASURED.to_json().replace("2.0", "NaN"),
        MEASURED.to_json().replace("2.0", "1" + "0" * 400),
        MEASURED.to_json().replace("[1.0, 2.0]", "[]"),
        MEASURED.to_json().replace('{"run"', '{"before": 1, "run"'),
    ],
)
def test_a_measurement_of_another_form_is_refused(text):
    """Of a file that somebody edited, nested without end, or with numbers that are none."""
    with pytest.raises(ValueError, match="expected JSON of `rknn-runtime bench`"):
        load(text)


def frames_of(path):
    with FrameSource(path) as source:
        next(source)


def load_as_lite(path):
    model = RKNNLite(library="sim", strict=True)
    try:
        model.load_rknn(path)
        model.init_runtime()
    finally:
        model.release()


READERS = {
    "doctor": doctor,
    "doctor log": lambda path: doctor(log=path),
    "doctor root": lambda path: doctor(root=path),
    "health": health.check,
    "compare": lambda path: accuracy.compare(path, FILE, [IMAGE]),
    "compare with": lambda path: accuracy.compare(FILE, path, [IMAGE]),
    "read_analysis": accuracy.read_analysis,
    "RKNNLite": load_as_lite,
    "FrameSource": frames_of,
    "Detector.open": lambda path: Detector.open(path, library="sim").close(),
    "labels": lambda path: Detector.open(SHAPES, path, library="sim").close(),
    "Pool": lambda path: Pool(path, use_frame, library="sim").close(),
    "bench compare": lambda path: main(["bench", "compare", str(path), str(path)]),
}


@pytest.fixture(scope="module")
def bad_files(tmp_path_factory):
    """Files of another kind, without an end, or that hang their reader."""
    folder = tmp_path_factory.mktemp("bad")
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    (folder / "empty").touch()
    (folder / "cut").write_bytes(FILE.read_bytes()[:3000])
    (folder / "text").write_text("[" * 100_000)
    with (folder / "huge").open("wb") as file:
        file.truncate(10 << 30)
    (folder / os.fsdecode(b"b\xff\xfe")).write_bytes(b"RKNN")
    yield [*sorted(folder.iterdir()), Path("/dev/zero"), folder, folder / ("x" * 5000)]
    (folder / "huge").unlink()


@pytest.mark.parametrize("name", READERS)
def test_files_that_are_none_are_refused(name, bad_files):
    """The calls raise, in a separate process that a hang, a crash or 4 GB would end."""
    for path in bad_files:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                devnull = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(devnull, stream)
                signal.alarm(120)
                size = 4 << 30
                resource.setrlimit(resource.RLIMIT_DATA, (size, size))
                READERS[name](path)
                status = 0
            except (OSError, ValueError, RknnError, ImportError):
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0, path
