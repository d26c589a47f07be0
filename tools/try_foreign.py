"""Run programs of other projects, unchanged, on the simulated NPU, and compare what they find.

::

    python tools/try_foreign.py FOLDER [NAME ...]

Nothing is fetched: FOLDER holds checkouts at the places of their addresses, such as
``FOLDER/airockchip/rknn_model_zoo``, and programs that are not there are left out. Each runs under
``rknn-runtime as-board``, on models made here that answer with planted objects, and its results
are compared with those of this package's own classes. Requires the programs' dependencies:
``pip install opencv-python-headless onnxruntime orjson pydantic requests torch``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import logging
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from planting import Scene, anchors, faces, split, yolox  # noqa: E402
from planting.rows import as_rows  # noqa: E402

from rknn_runtime import Detector, Model  # noqa: E402
from rknn_runtime.enums import Layout, TensorType  # noqa: E402
from rknn_runtime.rknnlite import RKNNLite  # noqa: E402
from rknn_runtime.sim import (  # noqa: E402
    Record,
    bundle_from_arrays,
    describe_input,
    describe_output,
)

EXAMPLE = ROOT / "examples" / "models" / "shapes_rk3588.rknn"
TOKENS = ROOT / "tests" / "data" / "tokens"
SIDE = 640
STRIDES = (8, 16, 32)
#: Anchors of YOLOv5 and YOLOv7, as files of the zoo have them.
ANCHORS = {
    "yolov5": [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326],
    "yolov7": [12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401],
}


def stand_in(folder: Path, outputs: Sequence[np.ndarray], side: int = SIDE) -> Path:
    """Write a model that answers every image with the same float16 outputs."""
    attrs = [
        describe_output(
            f"out{i}", array.shape, index=i, dtype=TensorType.FLOAT16, zero_point=None, scale=None
        )
        for i, array in enumerate(outputs)
    ]
    image = describe_input("images", (1, 3, side, side), zero_point=-128, scale=1 / 255)
    records = [Record([array.astype(np.float16) for array in outputs])]
    path = folder / "model.rknn"
    path.write_bytes(bundle_from_arrays([image], attrs, records))
    return path


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


# ---- one function for each project, run as on a board: checkout -> result ----


def zoo_program(name: str) -> Callable[[Path], str]:
    """Make the check of a detector of the vendor's model zoo: boxes and scores that it prints."""

    def check(checkout: Path) -> str:
        scene = Scene(3, (SIDE, SIDE), STRIDES, 80)
        options: list[str] = []
        head, post = "auto", {}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            if name in ANCHORS:
                numbers = ANCHORS[name]
                sizes = [list(zip(r[::2], r[1::2])) for r in np.reshape(numbers, (3, 6)).tolist()]
                tensors = anchors.planted(scene, sizes)
                (folder / "anchors.txt").write_text("\n".join(map(str, numbers)))
                options = ["--anchors", str(folder / "anchors.txt")]
                post = {"anchors": sizes}
            elif name == "yolox":
                tensors = yolox.planted(scene)
            elif name == "yolov6":
                tensors = split.with_sums(split.planted(scene, 1))
            else:
                tensors = split.with_sums(split.planted(scene, 16))
            if name == "yolov10":
                head = "yolov10-split"  # else its boxes would be suppressed
            model = stand_in(folder, [tensor[None] for tensor in tensors])
            image = photo(folder)
            program = checkout / "examples" / name / "python" / f"{name}.py"
            words = [sys.executable, program, "--model_path", model, "--target", "rk3588",
                     "--img_folder", f"{image.parent}/", "--img_save", *options]  # fmt: skip
            done = subprocess.run(
                [str(word) for word in words],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-1500:]
            classes = re.search(r"^CLASSES = \((.*?)\)", program.read_text("utf-8"), re.S | re.M)
            assert classes is not None
            names = re.findall(r'"(.*?)"', classes.group(1))
            theirs = [
                (names.index(found[0]), float(found[2]), *map(float, found[1].split()))
                for found in re.findall(r"^(.+?) @ \((.*?)\) ([\d.]+)$", done.stdout, re.M)
            ]
            with Detector.open(model, head=head, **post) as detector:
                return assert_same_boxes(theirs, detector(image), 1.0)

    return check


def zoo_faces(checkout: Path) -> str:
    """RetinaFace of the vendor's model zoo."""
    program = checkout / "examples" / "RetinaFace" / "python" / "RetinaFace.py"
    scene = Scene(4, (320, 320), STRIDES, 1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("python", "model"):
            (folder / name).mkdir()
        scales = zip(*faces.retinaface(scene, logits=False))
        outputs = [
            np.concatenate([as_rows(tensor, channels) for tensor in tensors], axis=1)[..., 0].T[
                None
            ]
            for tensors, channels in zip(scales, (4, 2, 10))
        ]
        model = stand_in(folder, outputs, 320)
        image = photo(folder, 320, 320)
        cv2.imwrite(str(folder / "model" / "test.jpg"), cv2.imread(str(image)))
        done = subprocess.run(
            [sys.executable, str(program), "--model_path", str(model), "--target", "rk3588"],
            cwd=folder / "python",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-1500:]
        theirs = [
            (0, float(score), *map(float, box.split()))
            for box, score in re.findall(r"^face @ \((.*?)\) ([\d.]+)$", done.stdout, re.M)
        ]
        with Detector.open(model, conf_threshold=0.5, iou_threshold=0.5) as detector:
            return assert_same_boxes(theirs, detector(folder / "model" / "test.jpg"), 1.0)


def immich(checkout: Path) -> str:
    """Sessions of Immich's machine learning, which share pools of RKNNLite between threads."""
    settings = types.SimpleNamespace(rknn=True, rknn_threads=2)
    socs = ["rk3566", "rk3568", "rk3576", "rk3588"]
    package = types.ModuleType("immich_ml")
    package.__path__ = [str(checkout / "machine-learning" / "immich_ml")]
    sys.modules["immich_ml"] = package
    shape = lambda batch, **dims: (batch, dims)  # noqa: E731
    with imported(
        immich_ml__config={"log": logging.getLogger("immich"), "settings": settings},
        immich_ml__models={"__path__": []},
        immich_ml__models__constants={
            "RKNN_SUPPORTED_SOCS": socs, "RKNN_COREMASK_SUPPORTED_SOCS": socs[2:],
        },
        immich_ml__schemas={
            "ModelInput": dict, "ModelTensor": np.ndarray, "SessionNode": object, "Shape": shape,
        },
    ):  # fmt: skip
        rknn = importlib.import_module("immich_ml.sessions.rknn")
        pool = importlib.import_module("immich_ml.sessions.rknn.rknnpool")
    assert rknn.is_available
    assert rknn.soc_name == "rk3588"
    random, compared = np.random.default_rng(2), 0
    models = [ROOT / "tests/data/emulator/machine_rk3588.rknn", *sorted(TOKENS.glob("*rk3588*"))]
    for path in models:
        with Model(path) as model:
            feeds = [
                [
                    random.integers(0, 256, attr.shape).astype(np.uint8)
                    if attr.takes_pixels
                    else random.standard_normal(attr.shape).astype(np.float32)
                    for attr in model.inputs
                ]
                for _ in range(12)
            ]
            expected = [model(*feed) for feed in feeds]
        session, failed = rknn.RknnSession(path), []

        def work(
            numbers: range,
            session: Any = session,
            feeds: Any = feeds,
            expected: Any = expected,
            failed: list[int] = failed,
        ) -> None:
            for number in numbers:
                feed = dict(zip("abc", feeds[number % 12]))
                found = session.run(None, feed)
                if any(not np.array_equal(a, b) for a, b in zip(found, expected[number % 12])):
                    failed.append(number)

        threads = [threading.Thread(target=work, args=(range(i, i + 12),)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, f"{path.name}: {len(failed)} of 48 answers differ"
        compared += 48
        ours = recipe("immich_session.py").RknnSession(path, Layout.NHWC)
        for feed, wanted in zip(feeds, expected):
            given = {str(i): array.astype(np.float32) for i, array in enumerate(feed)}
            same = zip(ours.run(None, given), wanted)
            assert all(np.array_equal(a, b) for a, b in same), f"{path.name}: the recipe differs"
        ours.close()
        lite = session.rknnpool.rknn_pool[0]
        assert lite.rknn_runtime.is_dynamic_shape is False
        assert pool.tensor_nodes(lite)[0][0].shape
    return f"{compared} answers of {len(models)} networks from 4 threads"


def leafqycc(checkout: Path) -> str:
    """The pool of rknn-multi-threaded: the order of its frames, and each frame drawn on alone."""
    with imported(checkout):
        pool = importlib.import_module("rknnpool")
        func = importlib.import_module("func")
    scene = Scene(5, (SIDE, SIDE), STRIDES, 80)
    sizes = [list(zip(r[::2], r[1::2])) for r in np.reshape(ANCHORS["yolov5"], (3, 6)).tolist()]
    tensors = anchors.planted(scene, sizes)
    random = np.random.default_rng(6)
    frames = [random.integers(0, 256, (480, 640, 3), np.uint8) for _ in range(9)]
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        model = stand_in(Path(place), [tensor[None] for tensor in tensors])
        alone = pool.initRKNN(str(model), 0)
        expected = [func.myFunc(alone, frame.copy()) for frame in frames]
        alone.release()
        many = pool.rknnPoolExecutor(rknnModel=str(model), TPEs=3, func=func.myFunc)
        for frame in frames:
            many.put(frame.copy())
        found = [many.get()[0] for _ in frames]
        many.release()
        with Model(model) as ours:
            raw = ours(np.zeros(ours.inputs[0].shape, np.uint8))
        lite = RKNNLite()
        lite.load_rknn(str(model))
        lite.init_runtime()
        theirs = lite.inference(inputs=[np.zeros((1, SIDE, SIDE, 3), np.uint8)])
        lite.release()
    assert all(np.array_equal(a, b) for a, b in zip(found, expected))
    assert all(np.array_equal(a, b) for a, b in zip(raw, theirs))
    assert any(not np.array_equal(a, b) for a, b in zip(found, frames))
    return f"{len(frames)} frames of 3 cores in order, drawn alike"


def rkllama(checkout: Path) -> str:
    """The vision encoder of rkllama: embeddings of pictures in float32."""
    source = checkout / "src" / "rkllama" / "api" / "rknnlite.py"
    spec = importlib.util.spec_from_file_location("rkllama_encoder", source)
    assert spec is not None
    assert spec.loader is not None
    encoder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(encoder)
    with tempfile.TemporaryDirectory() as place:
        image = photo(Path(place), 240, 320)
        theirs = encoder.run_vision_encoder(str(EXAMPLE), [str(image), str(image)], 320, 320)
        canvas = encoder.prepare_image(str(image), 320, 320).astype(np.uint8)
    with Model(EXAMPLE) as model:
        (ours,) = model(canvas)
    assert theirs.shape[0] == 2
    assert np.array_equal(theirs[0], ours[0])
    return f"2 outputs of {theirs[0].size} numbers, equal to those of uint8 pixels"


def frigate(checkout: Path) -> str:
    """Frigate's detector with its three kinds of network: rows of class, score and box."""
    with imported(checkout):
        plugin = importlib.import_module("frigate.detectors.plugins.rknn")
        kinds = importlib.import_module("frigate.detectors.detector_config").ModelTypeEnum
    image = np.random.default_rng(7).integers(0, 256, (1, 320, 320, 3), np.uint8)
    told = []
    for kind, cores in ((kinds.yolonas, 0), (kinds.yolox, 1), (kinds.yologeneric, 3)):
        scene = Scene(8, (320, 320), STRIDES, 80)
        with tempfile.TemporaryDirectory() as place:
            if kind is kinds.yolox:
                outputs = [tensor[None] for tensor in yolox.planted(scene)]
            else:
                n = sum(h * w for h, w in scene.grids())
                boxes = np.zeros((n, 4), np.float32)
                scores = np.full((n, 80), 0.01, np.float32)
                for number, (box, of) in enumerate(zip(scene.xyxy, scene.class_id)):
                    boxes[97 * number], scores[97 * number, of] = box, 0.9 - 0.02 * number
                if kind is kinds.yologeneric:
                    size = boxes[:, 2:] - boxes[:, :2]
                    centre = boxes[:, :2] + size / 2
                    outputs = [np.concatenate([centre, size, scores], axis=1).T[None]]
                else:
                    outputs = [boxes[None], scores[None]]
            model = stand_in(Path(place), outputs, 320)
            shape = types.SimpleNamespace(
                height=320,
                width=320,
                path=str(model),
                model_type=kind,
                input_pixel_format=types.SimpleNamespace(value="rgb"),
            )
            config = types.SimpleNamespace(model=shape, num_cores=cores)
            plain = plugin.Rknn(config)
            found = plain.detect_raw(image)
            theirs = [
                (int(c), s, x1 * 320, y1 * 320, x2 * 320, y2 * 320)
                for c, s, y1, x1, y2, x2 in found.tolist()
                if s > 0
            ]
            with Detector.open(model, conf_threshold=0.4, iou_threshold=0.4) as detector:
                ours = detector(image[0])
                mine = recipe("frigate_plugin.py").RknnRuntime(config)
                rows = mine.detect_raw(image)
                times = [cpu_ms(lambda one=one: one.detect_raw(image)) for one in (plain, mine)]
                mine.detector.close()
            first = ours[:20]
            assert np.allclose(rows[: len(first), 2:] * 320, first.xyxy[:, [1, 0, 3, 2]], atol=1e-3)
            assert np.array_equal(rows[: len(first), 0], first.class_id)
            unique = sorted(set(theirs))  # YOLO-NAS' rows repeat until there are 20
            # It hands corners to OpenCV's NMS, which takes widths, and so drops more boxes.
            same = assert_same_boxes(unique, ours[:20], 0.5, fewer=kind is not kinds.yolonas)
            told.append(f"{kind.value}: {same}, {times[0] / times[1]:.1f} x its CPU time")
    return "; ".join(told)


#: Name -> the repository, the check, and the text that must be there.
PROGRAMS: dict[str, tuple[str, Callable[[Path], str], str]] = {
    **{
        name: ("airockchip/rknn_model_zoo", zoo_program(name), f"examples/{name}/python/{name}.py")
        for name in ("yolov5", "yolov6", "yolov7", "yolov8", "yolo11", "yolov10", "yolox")
    },
    "RetinaFace": (
        "airockchip/rknn_model_zoo", zoo_faces, "examples/RetinaFace/python/RetinaFace.py",
    ),
    "immich": (
        "immich-app/immich", immich, "machine-learning/immich_ml/sessions/rknn/rknnpool.py",
    ),
    "frigate": ("blakeblackshear/frigate", frigate, "frigate/detectors/plugins/rknn.py"),
    "leafqycc": ("leafqycc/rknn-multi-threaded", leafqycc, "rknnpool.py"),
    "rkllama": ("NotPunchnox/rkllama", rkllama, "src/rkllama/api/rknnlite.py"),
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
        elif not (checkout / text).is_file():
            print(f"| {name} | {repository} | not there: {text} |", flush=True)
        else:
            done = subprocess.run(
                [sys.executable, "-m", "rknn_runtime", "as-board", "rk3588", "--", sys.executable,
                 __file__, "--inside", str(options.folder), name],
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
