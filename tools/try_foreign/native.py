"""Programs in C++ and Go, compiled as they are and linked with the simulated runtime.

The vendor's header comes with the checkout of its model zoo.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from planting import Scene, anchors

from rknn_runtime import Detector, GeneralModel
from rknn_runtime.sim import (
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
    install_library,
)
from try_foreign import networks
from try_foreign.shared import ANCHORS, EXAMPLE, SIDE, STRIDES, ran

OURS = Path(__file__).parent / "native"
#: What its pool needs. Debian 12's OpenCV 4.6 wants gocv 0.31.
MODULES = {
    "github.com/swdee/go-rknnlite": "swdee/go-rknnlite",
    "gocv.io/x/gocv": "hybridgroup/gocv",
}
HEADERS = "airockchip/rknn_model_zoo/3rdparty/rknpu2/include"


def headers(checkout: Path) -> Path:
    """Return the folder of the vendor's header, beside a checkout."""
    folder = checkout.parents[1] / HEADERS
    assert (folder / "rknn_api.h").is_file(), f"not there: {HEADERS}/rknn_api.h"
    return folder


def go_rknnlite(checkout: Path) -> str:
    """A pool of go-rknnlite from six goroutines: the hash of every frame's outputs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        install_library(folder)
        shutil.copy(OURS / "pool.go", folder / "main.go")
        lines = ["module ours", "go 1.21"]
        modules = {}  # what else they name is not there
        for name, repository in MODULES.items():
            source = checkout.parents[1] / repository
            assert source.is_dir(), f"not there: {repository}"
            lines += [f"require {name} v0.0.0", f"replace {name} => {source}"]
            modules[f"{source}/go.mod"] = str(folder / repository.replace("/", "."))
            Path(modules[f"{source}/go.mod"]).write_text(f"module {name}\n\ngo 1.21\n")
        (folder / "go.mod").write_text("\n".join(lines) + "\n")
        (folder / "overlay").write_text(json.dumps({"Replace": modules}))
        go = {
            "GOPROXY": "off", "GOFLAGS": f"-mod=mod -overlay={place}/overlay",
            "GOTOOLCHAIN": "local", "CGO_CFLAGS": f"-I{headers(checkout)}",
            "LIBRARY_PATH": place,  # not a flag, on which the cache of what is compiled depends
        }  # fmt: skip
        ran(["go", "build", "-o", "ours", "."], folder, **go)
        frames = np.random.default_rng(12).integers(0, 256, (24, 320, 320, 3), np.uint8)
        (folder / "frames").write_bytes(frames.tobytes())
        said = ran(["./ours", EXAMPLE, "frames", "320"], folder, LD_LIBRARY_PATH=place)
    theirs = [line for line in said.splitlines() if len(line) == 64]
    with GeneralModel(EXAMPLE) as model:
        ours = [
            hashlib.sha256(b"".join(out.tobytes() for out in model.run(frame[None]))).hexdigest()
            for frame in frames
        ]
    assert theirs == ours, f"{sum(a == b for a, b in zip(theirs, ours))} of {len(ours)} equal"
    assert len(set(ours)) == len(ours)
    return f"{len(theirs)} hashes from 6 goroutines and 3 cores equal"


def compiled(folder: Path, sources: list[Path], *options: Any) -> Path:
    """Compile a program and link it with the simulated runtime."""
    install_library(folder)
    program = folder / "program"
    ran(["g++", "-std=c++17", "-O1", "-w", *sources, *options, f"-L{folder}", "-lrknnrt",
         "-lpthread", "-o", program], folder)  # fmt: skip
    return program


def leafqycc(checkout: Path) -> str:
    """The pool of rknn-cpp-Multithreading: what it draws, and the order of the frames."""
    scene = Scene(5, (SIDE, SIDE), STRIDES, 80)
    sizes = [list(zip(r[::2], r[1::2])) for r in np.reshape(ANCHORS["yolov5"], (3, 6)).tolist()]
    tensors = [tensor[None] for tensor in anchors.planted(scene, sizes)]
    kind = {"zero_point": -128, "scale": 1 / 255}
    outputs = [
        describe_output(f"out{i}", tensor.shape, index=i, **kind)
        for i, tensor in enumerate(tensors)
    ]
    image = describe_input("images", (1, 3, SIDE, SIDE), **kind)
    frames = np.random.default_rng(6).integers(0, 200, (9, SIDE, SIDE, 3), np.uint8)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = folder / "model.rknn"
        model.write_bytes(bundle_from_arrays([image], outputs, [Record(tensors)]))
        include = checkout / "include"
        program = compiled(
            folder,
            [OURS / "pool.cc", OURS / "librga.cc", *(checkout / "src" / f"{name}.cc" for name in
                                 ("postprocess", "preprocess", "rkYolov5s"))],
            f"-I{include}", f"-I{include}/3rdparty", f"-I{include}/3rdparty/rga/RK3588/include",
            "-I/usr/include/opencv4", "-lopencv_core", "-lopencv_imgproc",
        )  # fmt: skip
        (folder / "model").symlink_to(checkout / "model")
        (folder / "frames").write_bytes(frames.tobytes())
        ran([program, model, "frames", "drawn", SIDE], folder, LD_LIBRARY_PATH=place)
        drawn = np.fromfile(folder / "drawn", np.uint8).reshape(frames.shape)
        with Detector.open(model, anchors=sizes, conf_threshold=0.25) as detector:
            found = detector(frames[0])
    changed = (drawn != frames).any(axis=3)
    assert len(found)
    for number, frame in enumerate(frames):
        untouched = ~changed[number]
        assert untouched.mean() > 0.5
        assert np.array_equal(drawn[number][untouched], frame[untouched])
        for box in np.clip(found.xyxy, 0, SIDE - 1).astype(int):
            for x, y in ((box[0], box[1]), (box[2], box[3])):
                near = drawn[number, max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
                assert (near == (255, 0, 0)).all(axis=2).any(), (number, box)
    return f"{len(frames)} frames of 3 threads in order, {len(found)} boxes drawn in each"


def sherpa(checkout: Path) -> str:
    """Silero VAD of sherpa-onnx: a probability for each window, with memory between them."""
    windows = np.random.default_rng(7).uniform(-1, 1, (20, 512)).astype(np.float32)
    said = "model_type=silero-vad-v4;sample_rate=16000;version=4;h_shape=2,1,64;c_shape=2,1,64"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = networks.converted(networks.memory_network(folder / "vad.onnx"), custom_string=said)
        # The configuration of other providers wants it.
        (folder / "onnxruntime_cxx_api.h").write_text("enum { OrtCudnnConvAlgoSearchHeuristic };\n")
        source = checkout / "sherpa-onnx" / "csrc"
        names = ("rknn/silero-vad-model-rknn", "rknn/utils", "file-utils", "text-utils",
                 "silero-vad-model-config", "ten-vad-model-config", "parse-options",
                 "vad-model-config")  # fmt: skip
        program = compiled(
            folder, [OURS / "silero.cc", *(source / f"{name}.cc" for name in names)],
            f"-I{checkout}", f"-I{headers(checkout)}", f"-I{folder}",
        )  # fmt: skip
        (folder / "sound").write_bytes(windows.tobytes())
        printed = ran([program, model, "sound"], folder, LD_LIBRARY_PATH=place)
        theirs = [float(word) for word in printed.split()[-len(windows) :]]
        state = [np.zeros((2, 1, 64), np.float32)] * 2
        ours = []
        with GeneralModel(model) as here:
            for window in windows:
                probability, *state = here.run(window[None], *state)
                ours.append(float(probability[0, 0]))
    assert len(set(ours)) > 10, ours
    assert np.array_equal(np.float32(theirs), np.float32(ours)), (theirs, ours)
    return f"{len(ours)} probabilities equal"
