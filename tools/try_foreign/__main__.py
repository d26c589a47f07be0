"""Run programs of other projects, unchanged, on the simulated NPU, and compare what they find.

::

    python tools/try_foreign FOLDER [NAME ...]

Nothing is fetched: FOLDER holds checkouts at the places of their addresses, such as
``FOLDER/airockchip/rknn_model_zoo``, and programs that are not there are left out. Each runs under
``rknn-runtime as-board``, on models made here that answer with planted objects, and its results
are compared with those of this package's own classes. Requires the programs' dependencies:
`make test-foreign` installs them, but for a C++ compiler, OpenCV's headers and Go.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from try_foreign import immich, native, python, zoo  # noqa: E402

ZOO = "airockchip/rknn_model_zoo"
#: Name -> the repository, the check, and the text that must be there.
PROGRAMS: dict[str, tuple[str, Callable[[Path], str], str]] = {
    **{
        name: (ZOO, zoo.zoo_program(name), f"examples/{name}/python/{name}.py")
        for name in ("yolov5", "yolov6", "yolov7", "yolov8", "yolo11", "yolov10", "yolox")
    },
    "RetinaFace": (ZOO, zoo.zoo_faces, "examples/RetinaFace/python/RetinaFace.py"),
    **{
        name: (ZOO, check, f"examples/{check.place}/python/{check.program}")
        for name, check in zoo.WATCHED.items()
    },
    "mobilenet": (
        ZOO, zoo.converting("mobilenet", "input", "mobilenetv2-12.onnx", ["--target", "rk3588",
        "--npu_device_test"]), "examples/mobilenet/python/mobilenet.py",
    ),
    "resnet": (
        ZOO, zoo.converting("resnet", "data", "resnet50-v2-7.onnx", ["../model/resnet50-v2-7.onnx",
        "rk3588"], is_here=False), "examples/resnet/python/resnet.py",
    ),
    "lite-resnet18": (
        "airockchip/rknn-toolkit2", zoo.lite_example("resnet18", 224),
        "rknn-toolkit-lite2/examples/resnet18/test.py",
    ),
    "lite-dynamic": (
        "airockchip/rknn-toolkit2", zoo.lite_example("dynamic_shape", 224, is_dynamic=True),
        "rknn-toolkit-lite2/examples/dynamic_shape/test.py",
    ),
    "immich": (
        "immich-app/immich", python.immich, "machine-learning/immich_ml/sessions/rknn/rknnpool.py",
    ),
    "immich-service": (
        "immich-app/immich", immich.service, "machine-learning/immich_ml/main.py",
    ),
    "frigate": ("blakeblackshear/frigate", python.frigate, "frigate/detectors/plugins/rknn.py"),
    "leafqycc": ("leafqycc/rknn-multi-threaded", python.leafqycc, "rknnpool.py"),
    "rkllama": ("NotPunchnox/rkllama", python.rkllama, "src/rkllama/api/rknnlite.py"),
    "frigate-embeddings": (
        "blakeblackshear/frigate", python.frigate_embeddings,
        "frigate/detectors/detection_runners.py",
    ),
    "ultralytics": ("the package ultralytics", python.ultralytics, ""),
    "ztu": ("happyme531/rknn-toolkit2-utils", python.ztu, "ztu_somemodelruntime_rknnlite2.py"),
    "openWakeWord": (
        "rknn-assistant/openWakeWord-rknn", python.wake_words, "openwakeword/model.py",
    ),
    "go-rknnlite": ("swdee/go-rknnlite", native.go_rknnlite, "runtime.go"),
    "leafqycc-cpp": (
        "leafqycc/rknn-cpp-Multithreading", native.leafqycc, "include/rknnPool.hpp",
    ),
    "sherpa-onnx": (
        "k2-fsa/sherpa-onnx", native.sherpa, "sherpa-onnx/csrc/rknn/silero-vad-model-rknn.cc",
    ),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    failed = 0
    for name in options.names or PROGRAMS:
        repository, check, text = PROGRAMS[name]
        checkout = options.folder.resolve() / repository
        if options.inside:
            print(check(checkout))
        elif not ((checkout / text).is_file() if text else importlib.util.find_spec(name)):
            print(f"| {name} | {repository} | not there: {text or name} |", flush=True)
        else:
            done = subprocess.run(
                [sys.executable, "-m", "rknn_runtime", "as-board", "rk3588", "--", sys.executable,
                 Path(__file__).parent, "--inside", str(options.folder), name],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            failed += done.returncode != 0
            lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
            if done.returncode != 0 and options.names:
                print(done.stderr)
            print(f"| {name} | {repository} | {lines[-1] if lines else 'no word'} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
