"""Programs in Python, each run as on a board: checkout -> what was compared."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import sys
import tempfile
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
from planting import Scene, anchors, yolox

from rknn_runtime import Detector, GeneralModel, Model
from rknn_runtime.enums import Layout
from rknn_runtime.rknnlite import RKNNLite
from try_foreign import networks
from try_foreign.shared import (
    ANCHORS,
    EXAMPLE,
    MACHINE,
    SIDE,
    STRIDES,
    TOKENS,
    assert_same_boxes,
    cpu_ms,
    imported,
    photo,
    recipe,
    stand_in,
)


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
    compared = 0
    names = []
    with tempfile.TemporaryDirectory() as place:
        models = []
        if hasattr(pool, "tensor_nodes"):  # newer than 2.5.6, which takes all for images
            models = [MACHINE, *sorted(TOKENS.glob("*rk3588*"))]
        for name, write in networks.IMMICH.items():
            models.append(networks.converted(write(Path(place, f"{name}.onnx"))))
        for path in models:
            compared += immich_model(path, rknn.RknnSession(path), pool)
            names.append(path.stem.removesuffix("_rk3588"))
    return f"{compared} answers of {', '.join(names)} from 4 threads"


def immich_model(path: Path, session: Any, pool: Any) -> int:
    """Compare a session that four threads share; return how many answers were equal."""
    random = np.random.default_rng(2)
    is_image = path.suffix == ".rknn" and path.parent not in (MACHINE.parent, TOKENS)
    with GeneralModel(path) as model:
        feeds = [
            [
                random.integers(0, 256, attr.shape).astype(np.uint8)
                if attr.takes_pixels and not is_image
                else random.standard_normal(attr.shape).astype(np.float32)
                for attr in model.inputs
            ]
            for _ in range(12)
        ]
        expected = [model.run(*feed) for feed in feeds]
    if is_image:  # as Immich prepares them
        feeds = [[np.ascontiguousarray(np.moveaxis(a, 3, 1)) for a in feed] for feed in feeds]
    failed: list[int] = []

    def work(numbers: range) -> None:
        for number in numbers:
            feed = dict(zip("abc", feeds[number % 12]))
            found = session.run(None, feed)
            same = zip(found, expected[number % 12])
            if any(not np.array_equal(a, b) for a, b in same):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(range(i, i + 12),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, f"{path.name}: {len(failed)} of 48 answers differ"
    layout = Layout.NCHW if is_image else Layout.NHWC
    ours = recipe("immich_session.py").RknnSession(path, layout)
    for feed, wanted in zip(feeds, expected):
        given = {str(i): array.astype(np.float32) for i, array in enumerate(feed)}
        same = zip(ours.run(None, given), wanted)
        assert all(np.array_equal(a, b) for a, b in same), f"{path.name}: the recipe differs"
    ours.close()
    lite = session.rknnpool.rknn_pool[0]
    assert lite.rknn_runtime.is_dynamic_shape is False
    if hasattr(pool, "tensor_nodes"):
        assert pool.tensor_nodes(lite)[0][0].shape
    return 48


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


def frigate_embeddings(checkout: Path) -> str:
    """Frigate converts its networks for faces and search, and runs them."""
    with imported(checkout):
        runners = importlib.import_module("frigate.detectors.detection_runners")
    random = np.random.default_rng(9)
    told = []
    with tempfile.TemporaryDirectory() as place:
        for name, inputs, side, vector in (
            ("arcface.onnx", "data", 112, 512),
            ("jina-clip-v1/vision_model_fp16.onnx", "pixel_values", 224, 768),
        ):
            path = Path(place, name)
            path.parent.mkdir(exist_ok=True)
            networks.vector_network(path, inputs, side, vector)
            runner = runners.get_optimized_runner(str(path), "AUTO", "")
            assert type(runner).__name__ == "RKNNModelRunner", type(runner)
            image = random.uniform(-1, 1, (1, 3, side, side)).astype(np.float32)
            found = runner.run({inputs: image})
            pixels = image.transpose(0, 2, 3, 1)
            if inputs == "data":  # it undoes what its own preparation did
                pixels = ((pixels + 1) * 127.5).clip(0, 255).astype(np.uint8)
            with GeneralModel(path.with_suffix(".rknn")) as model:
                ours = model.run(np.ascontiguousarray(pixels))
            assert all(np.array_equal(a, b) for a, b in zip(found, ours))
            told.append(f"{path.stem} {found[0].size}")
    return f"converted, and every number of {', '.join(told)}"


def ultralytics(checkout: Path) -> str:
    """`YOLO("x_rknn_model")("photo.png")`: boxes of the whole pipeline."""
    from ultralytics import YOLO

    scene = Scene(3, (SIDE, SIDE), STRIDES, 80)
    n = sum(h * w for h, w in scene.grids())
    rows = np.zeros((84, n), np.float32)
    firsts = np.cumsum([0, *(h * w for h, w in scene.grids())])
    for k, branch, y, x, score in scene.cells:
        at = firsts[branch] + y * scene.grids()[branch][1] + x
        left, top, right, bottom = scene.xyxy[k]
        rows[:4, at] = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
        rows[4 + scene.class_id[k], at] = score
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "x_rknn_model")
        folder.mkdir()
        model = stand_in(folder, [rows[None]])
        names = "".join(f"  {i}: thing {i}\n" for i in range(80))
        (folder / "metadata.yaml").write_text(
            f"task: detect\nstride: 32\nbatch: 1\nimgsz:\n- {SIDE}\n- {SIDE}\nnames:\n{names}"
        )
        image = photo(Path(place))
        (result,) = YOLO(str(folder), task="detect")(str(image), verbose=False)
        found = zip(
            result.boxes.cls.tolist(), result.boxes.conf.tolist(), result.boxes.xyxy.tolist()
        )
        theirs = [(int(c), s, *box) for c, s, box in found]
        with Detector.open(model, conf_threshold=0.25, iou_threshold=0.7) as detector:
            return assert_same_boxes(theirs, detector(image), 1.0)


def ztu(checkout: Path) -> str:
    """ztu_somemodelruntime: the interface of onnxruntime on RKNNLite, and its inner calls."""
    with imported(checkout):
        runtime = importlib.import_module("ztu_somemodelruntime_rknnlite2")
    image = np.random.default_rng(4).integers(0, 256, (1, 3, 320, 320), np.uint8)
    compared = 0
    for threads in (1, 2, 3):
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        with runtime.InferenceSession(str(EXAMPLE), options) as session, Model(EXAMPLE) as model:
            (given,), outputs = session.get_inputs(), session.get_outputs()
            assert given.shape == [1, 3, 320, 320]
            assert [each.shape for each in outputs] == [list(a.shape) for a in model.outputs]
            session.set_core_mask(RKNNLite.NPU_CORE_0)
            ours = model(image.transpose(0, 2, 3, 1))
            found = [
                *session.run(None, {given.name: image}),
                *session.run([outputs[-1].name], [image]),
                *session.run(None, {given.name: image.transpose(0, 2, 3, 1)}, data_format="nhwc"),
            ]
            for theirs, wanted in zip(found, [*ours, ours[-1], *ours]):
                assert np.array_equal(theirs, wanted)
                compared += 1
    return f"{compared} outputs equal"


def wake_words(checkout: Path) -> str:
    """Find the words of openWakeWord's recordings by its .rknn files and by its ONNX files."""
    with imported(checkout):
        openwakeword = importlib.import_module("openwakeword")
    wave = importlib.import_module("scipy.io.wavfile")
    folder = checkout / "openwakeword" / "resources" / "models"
    features = {
        "melspec_model_path": str(folder / "melspectrogram.onnx"),
        "embedding_model_path": str(folder / "embedding_model.onnx"),
    }
    told = []
    for word in ("alexa", "hey_mycroft"):
        _, sound = wave.read(checkout / "tests" / "data" / f"{word}_test.wav")
        scores = []
        for framework, suffix in (("onnx", "onnx"), ("rknn", "rknn")):
            np.random.seed(1)  # it begins with noise
            detector = openwakeword.Model(
                wakeword_models=[str(folder / f"{word}_v0.1.{suffix}")],
                inference_framework=framework,
                **features,
            )
            scores.append(
                [
                    float(np.ravel(next(iter(detector.predict(sound[i : i + 1280]).values())))[0])
                    for i in range(0, len(sound), 1280)
                ]
            )
        by_onnx, by_rknn = scores
        assert max(by_rknn) > 0.5, by_rknn
        furthest = max(abs(a - b) for a, b in zip(by_onnx, by_rknn))
        assert furthest < 0.005, scores
        told.append(f"{word} {max(by_rknn):.3f}, at most {furthest:.4f} from onnxruntime")
    return "; ".join(told)
