"""Programs of the vendor's model zoo."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from planting import Scene, anchors, faces, split, yolox
from planting.rows import as_rows

from rknn_runtime import Detector
from try_foreign import networks
from try_foreign.shared import (
    ANCHORS,
    SIDE,
    STRIDES,
    Int64,
    answering,
    assert_same_boxes,
    photo,
    ran,
    stand_in,
)

GRIDS = ((80, 80), (40, 40), (20, 20))


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
            said = ran(words, folder)
            classes = re.search(r"^CLASSES = \((.*?)\)", program.read_text("utf-8"), re.S | re.M)
            assert classes is not None
            names = re.findall(r'"(.*?)"', classes.group(1))
            theirs = [
                (names.index(found[0]), float(found[2]), *map(float, found[1].split()))
                for found in re.findall(r"^(.+?) @ \((.*?)\) ([\d.]+)$", said, re.M)
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
        words = [sys.executable, program, "--model_path", model, "--target", "rk3588"]
        said = ran(words, folder / "python")
        theirs = [
            (0, float(score), *map(float, box.split()))
            for box, score in re.findall(r"^face @ \((.*?)\) ([\d.]+)$", said, re.M)
        ]
        with Detector.open(model, conf_threshold=0.5, iou_threshold=0.5) as detector:
            return assert_same_boxes(theirs, detector(folder / "model" / "test.jpg"), 1.0)


def cells(
    channels: int, classes: int, *, is_logit: bool = True, rest: float = 0
) -> list[np.ndarray]:
    """Return a tensor for each scale whose last channels are classes: few cells have one."""
    tensors = []
    for number, grid in enumerate(GRIDS):
        tensor = np.full((1, channels, *grid), rest, np.float32)
        tensor[:, channels - classes :] = -9 if is_logit else 0.01
        tensor[0, channels - 1, 5 + number, 7] = 2 if is_logit else 0.95
        tensors.append(tensor)
    return tensors


def token(where: int) -> np.ndarray:
    """Return scores of Whisper's tokens, with the best one at the end."""
    scores = np.zeros((1, 12, 51865), np.float32)
    scores[0, -1, where] = 9
    return scores


def words_of(count: int, steps: int) -> np.ndarray:
    """Return scores of characters that read something."""
    scores = np.full((1, steps, count), 0.01, np.float32)
    scores[0, np.arange(steps), np.arange(steps) * 7 % 90] = 0.9
    return scores


def page() -> np.ndarray:
    """Return a map of text with two lines."""
    values = np.zeros((1, 1, 480, 480), np.float32)
    values[..., 100:130, 50:300] = values[..., 200:240, 60:400] = 0.95
    return values


def pairs(boxes: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [tensor for both in zip(boxes, others) for tensor in both]


@dataclass(frozen=True)
class Watched:
    """A program of the zoo whose every output is compared, and the models that it loads."""

    place: str  # its folder under examples
    program: str
    #: Option -> shapes of the inputs, and shapes or arrays of the outputs.
    models: dict[str, tuple[list[tuple[int, ...]], list[Any]]]
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # modules
    #: Modules that the network lacks, as Python text.
    stubs: dict[str, str] = field(default_factory=dict)

    def __call__(self, checkout: Path) -> str:
        for name in self.needs:
            __import__(name)
        root = checkout / "examples" / self.place
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "examples" / "it" / "python"
            folder.mkdir(parents=True)
            (folder.parent / "model").symlink_to(root / "model")
            words: list[Any] = [sys.executable, WATCHED_PROGRAM,
                                root / "python" / self.program, *self.options]  # fmt: skip
            for number, (option, (inputs, outputs)) in enumerate(self.models.items()):
                words += [option, answering(folder / f"{number}.rknn", inputs, outputs)]
            words += ["--target", "rk3588"]
            for name, text in self.stubs.items():
                (folder / f"{name}.py").write_text(text)
            said = ran(words, folder, PYTHONPATH=f"{folder}:{os.environ.get('PYTHONPATH', '')}")
        return said.strip().splitlines()[-1]


def lite_example(name: str, side: int, *, is_dynamic: bool = False) -> Callable[[Path], str]:
    """Make the check of an example of the vendor's RKNNLite, on a small network of our own."""

    def check(checkout: Path) -> str:
        root = checkout / "rknn-toolkit-lite2" / "examples" / name
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for path in root.iterdir():
                (folder / path.name).symlink_to(path)
            stem = re.search(r"RK3588_RKNN_MODEL = '(.*?)\.rknn'", (root / "test.py").read_text())
            assert stem is not None
            model = folder / f"{stem.group(1)}.onnx"
            networks.vector_network(model, "image", side, 1000, is_open=is_dynamic)
            sides = (192, 256, 160, 224)
            config = {"dynamic_input": [[[1, 3, n, n]] for n in sides]} if is_dynamic else {}
            networks.converted(model, **config)
            said = ran([sys.executable, WATCHED_PROGRAM, folder / "test.py"], folder)
        assert said.count("score:") >= (3 if is_dynamic else 1), said
        return said.strip().splitlines()[-1]

    return check


def converting(
    name: str, inputs: str, model: str, words: Sequence[str], *, is_here: bool = True
) -> Callable[[Path], str]:
    """Make the check of a classifier of the zoo, which converts its network first and runs it.

    Without ``is_here`` it runs in the toolkit's simulator, not on this machine.
    """

    def check(checkout: Path) -> str:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "examples" / name / "python"
            folder.mkdir(parents=True)
            (Path(place) / "datasets").symlink_to(checkout / "datasets")
            models = folder.parent / "model"
            models.mkdir()
            for path in (checkout / "examples" / name / "model").iterdir():
                (models / path.name).symlink_to(path)
            networks.vector_network(models / model, inputs, 224, 1000)
            program = checkout / "examples" / name / "python" / f"{name}.py"
            said = ran([sys.executable, WATCHED_PROGRAM, program, *words], folder)
        assert "TOP 5" in said, said
        if not is_here:
            return "converted, and run in the toolkit's simulator"
        return f"converted, {said.strip().splitlines()[-1]}"

    return check


WATCHED_PROGRAM = Path(__file__).with_name("watched.py")
IMAGE = (1, 3, SIDE, SIDE)
#: The tokenizer comes from a hub.
TOKENIZER = {
    "transformers": """
import numpy as np

class AutoTokenizer:
    @staticmethod
    def from_pretrained(name):
        return lambda text, **options: {"input_ids": np.arange(len(text) * 6).reshape(-1, 6)}
"""
}
#: It is built from a checkout. Its place is taken by features of noise.
KALDIFEAT = {
    "kaldifeat": """
import types
import torch

def FbankOptions():
    return types.SimpleNamespace(
        frame_opts=types.SimpleNamespace(), mel_opts=types.SimpleNamespace())

class OnlineFbank:
    def __init__(self, options):
        self.samples = 0

    def accept_waveform(self, sampling_rate, waveform):
        self.samples += len(waveform)
        self.num_frames_ready = self.samples // 160

    def get_frame(self, number):
        return torch.randn(1, 80, generator=torch.Generator().manual_seed(number))
"""
}

#: Zipformer's memory between two chunks, with the heads and frames of its five stacks.
STACKS = (192, 96, 48, 24, 96)
MEMORY = [
    *([2, 1] for _ in STACKS),
    *([2, 1, 256] for _ in STACKS),
    *([2, frames, 1, 192] for frames in STACKS),
    *([2, frames, 1, 96] for _ in range(2) for frames in STACKS),
    *([2, 1, 256, 30] for _ in range(2) for _ in STACKS),
]

WATCHED = {
    "yolov5_seg": Watched(
        "yolov5_seg", "yolov5_seg.py",
        {"--model_path": ([IMAGE], [
            *pairs(cells(255, 80, is_logit=False, rest=0.5), [np.ones((1, 96, *g)) for g in GRIDS]),
            (1, 32, 160, 160)])},
        ("--img_save",),
        ("pycocotools", "torchvision"),
    ),
    "yolov8_seg": Watched(
        "yolov8_seg", "yolov8_seg.py",
        {"--model_path": ([IMAGE], [
            *(tensor for grid, box, score in zip(
                GRIDS, [np.ones((1, 64, *g)) for g in GRIDS], cells(80, 80, is_logit=False))
              for tensor in (box, score, np.ones((1, 1, *grid)), np.ones((1, 32, *grid)))),
            (1, 32, 160, 160)])},
        ("--img_save",),
        ("pycocotools", "torchvision"),
    ),
    "yolov8_pose": Watched(
        "yolov8_pose", "yolov8_pose.py",
        {"--model_path": ([IMAGE], [*cells(65, 1), np.full((1, 17, 3, 8400), 40)])},
    ),
    "yolov8_obb": Watched(
        "yolov8_obb", "yolov8_obb.py",
        {"--model_path": ([IMAGE], [*cells(79, 15), np.zeros((1, 1, 8400))])},
        needs=("shapely",),
    ),
    "ppyoloe": Watched(
        "ppyoloe", "ppyoloe.py",
        {"--model_path": ([IMAGE], pairs(
            [np.ones((1, 68, *g)) for g in GRIDS], cells(80, 80, is_logit=False)))},
        ("--img_save",),
    ),
    "yolo_world": Watched(
        "yolo_world", "yolo_world.py",
        {"--text_model": ([(1, 20)], [(1, 512)]),
         "--yolo_world": ([IMAGE, (1, 80, 512)], pairs(
             cells(80, 80, is_logit=False), [np.ones((1, 4, *g)) for g in GRIDS]))},
        stubs=TOKENIZER,
    ),
    "clip": Watched(
        "clip", "clip.py",
        {"--text_model": ([(1, 20)], [np.full((1, 512), 0.01)]),
         "--img_model": ([(1, 3, 224, 224)], [(1, 512)])},
        stubs=TOKENIZER,
    ),
    "deeplabv3": Watched(
        "deeplabv3", "deeplabv3.py",
        {"--model_path": ([(1, 3, 513, 513)], [(1, 65, 65, 21)])},
        needs=("matplotlib",),
    ),
    "mobilesam": Watched(
        "mobilesam", "mobilesam.py",
        {"--encoder": ([(1, 3, 448, 448)], [(1, 256, 28, 28)]),
         "--decoder": ([(1, 256, 28, 28), (1, 2, 2), (1, 2), (1, 1, 112, 112), (1,)],
                       [(1, 4), (1, 4, 112, 112)])},
    ),
    "LPRNet": Watched(
        "LPRNet", "lprnet.py", {"--model_path": ([(1, 3, 24, 94)], [(1, 68, 18)])},
    ),
    "PPOCR-Det": Watched(
        "PPOCR/PPOCR-Det", "ppocr_det.py",
        {"--model_path": ([(1, 3, 480, 480)], [page()])},
        needs=("pyclipper", "shapely"),
    ),
    "PPOCR-Rec": Watched(
        "PPOCR/PPOCR-Rec", "ppocr_rec.py",
        {"--model_path": ([(1, 3, 48, 320)], [words_of(6625, 40)])},
    ),
    "PPOCR-System": Watched(
        "PPOCR/PPOCR-System", "ppocr_system.py",
        {"--det_model_path": ([(1, 3, 480, 480)], [page()]),
         "--rec_model_path": ([(1, 3, 48, 320)], [words_of(6625, 40)])},
        needs=("pyclipper", "shapely"),
    ),
    "yamnet": Watched(
        "yamnet", "yamnet.py",
        {"--model_path": ([(1, 48000)], [(6, 1024), (288, 64), (6, 521)])},
        needs=("soundfile", "scipy"),
    ),
    "wav2vec2": Watched(
        "wav2vec2", "wav2vec2.py", {"--model_path": ([(1, 320000)], [(1, 999, 32)])},
        needs=("soundfile", "scipy"),
    ),
    "whisper": Watched(
        "whisper", "whisper.py",
        {"--encoder_model_path": ([(1, 80, 2000)], [(1, 1000, 512)]),
         "--decoder_model_path": ([Int64((1, 12)), (1, 1000, 512)], [token(50257)])},
        ("--task", "en", "--audio_path", "../model/test_en.wav"),
        ("soundfile", "scipy"),
    ),
    "mms_tts": Watched(
        "mms_tts", "mms_tts.py",
        {"--encoder_model_path": ([Int64((1, 200)), Int64((1, 200))], [
            np.full((1, 1, 200), 0.3), np.ones((1, 1, 200)), (1, 200, 192), (1, 200, 192)]),
         "--decoder_model_path": (
             [(1, 1, 400, 200), (1, 1, 400), (1, 200, 192), (1, 200, 192)], [(1, 102400)])},
        needs=("soundfile",),
    ),
    "zipformer": Watched(
        "zipformer", "zipformer.py",
        {"--encoder_model_path": (
            [(1, 103, 80), *(Int64(s) if len(s) == 2 else tuple(s) for s in MEMORY)],
            [(1, 24, 256), *(tuple(shape) for shape in MEMORY)]),
         "--decoder_model_path": ([Int64((1, 2))], [(1, 512)]),
         "--joiner_model_path": ([(1, 256), (1, 512)], [(1, 6254)])},
        needs=("soundfile", "scipy"),
        stubs=KALDIFEAT,
    ),
}  # fmt: skip
