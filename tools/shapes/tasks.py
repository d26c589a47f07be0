r"""Train the small networks of the other tasks on drawn images, on the CPU, and write them as ONNX.

::

    SHAPES_SIZE=224 python tools/shapes/tasks.py scene --minutes 12 --out scene.onnx

``scene``: the class of each pixel, and how far it is inside of its shape. ``pose``: heatmaps of a
figure's joints. ``face``: faces with five points in YuNet's form. ``text``: where words are, as DB
tells it. ``line``: the characters of a word, decoded as CTC's. They are for the images of the
documentation (gallery.py), so they are small and not trained for long. Needs torch, numpy, Pillow
and onnx. The files in networks/ were made so, with sizes of 192 and 224, and then::

    rknn-runtime convert pose.onnx --for rk3588 --calibrate FOLDER --task keypoints \
        --color RGB --mean 0,0,0 --std 255,255,255 --single-core-mode

with 24 images of ``CALIBRATION_SEEDS``.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import figures
import numpy as np
import onnx
import scenes
import torch
from export import _fold_batch_norms, export_onnx
from nets import ConvBlock, Features, SeparableBlock
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

STRIDES = (8, 16, 32)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "models" / "shapes.onnx"
POOL = 1500  # images in memory
INSIDE = 32.0  # pixels from the edge of a shape that count as 1


class Trunk(nn.Module):
    """Image to maps at the strides 4, 8 and 16, the finer ones with the context of the coarser."""

    def __init__(self, c2: int, c4: int, c8: int, c16: int) -> None:
        super().__init__()
        self.to4 = nn.Sequential(ConvBlock(3, c2, 3, 2), ConvBlock(c2, c4, 3, 2))
        self.to8 = nn.Sequential(SeparableBlock(c4, c8, 2), SeparableBlock(c8, c8))
        self.to16 = nn.Sequential(
            SeparableBlock(c8, c16, 2), *(SeparableBlock(c16, c16) for _ in range(3))
        )
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top8 = nn.Sequential(ConvBlock(c8 + c16, c8, 1), SeparableBlock(c8, c8))
        self.top4 = nn.Sequential(ConvBlock(c4 + c8, c4, 1), SeparableBlock(c4, c4))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        f4 = self.to4(images)
        f8 = self.to8(f4)
        f16 = self.to16(f8)
        t8 = self.top8(torch.cat([f8, self.up(f16)], 1))
        return self.top4(torch.cat([f4, self.up(t8)], 1)), t8, f16


class Net(nn.Module):
    """A network that is exported as it is trained."""

    outputs: tuple[str, ...]
    size = (320, 320)

    def export_form(self) -> nn.Module:
        return self


class Scene(Net):
    """On the features of the example detector, which know the shapes already."""

    outputs = ("classes", "inside")

    def __init__(self) -> None:
        super().__init__()
        self.features = Features((16, 32, 48, 64, 64), 32)
        _fold_batch_norms(self.features.eval())
        held = onnx.load(str(EXAMPLE)).graph.initializer
        known = {w.name[len("net.features.") :]: w for w in held}
        self.features.load_state_dict(
            {k: torch.from_numpy(numpy_helper.to_array(known[k]).copy())
             for k in self.features.state_dict()}
        )  # fmt: skip
        for unused in ("down16", "out16", "down32", "out32"):
            delattr(self.features, unused)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.top4 = nn.Sequential(ConvBlock(64, 32, 1), ConvBlock(32, 32))
        self.classes = nn.Conv2d(32, len(scenes.CLASSES) + 1, 1)
        self.inside = nn.Sequential(ConvBlock(32, 16, 1), nn.Conv2d(16, 1, 1))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        f = self.features
        f4 = f.to4(images)
        f8 = f.to8(f4)
        f16 = f.to16(f8)
        t16 = f.top16(torch.cat([self.up(f.to32(f16)), f16], 1))
        t8 = f.top8(torch.cat([self.up(t16), f8], 1))
        found = self.top4(torch.cat([f4, self.up(t8)], 1))
        return self.classes(found), self.inside(found)

    def loss(self, images: Tensor, classes: Tensor, inside: Tensor) -> Tensor:
        scores, values = self(images)
        wrong = functional.cross_entropy(scores, classes.long())
        return wrong + 2 * functional.l1_loss(values[:, 0], inside.float() / 255)


class Pose(Net):
    outputs = ("heatmaps",)
    size = figures.CROP

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(16, 24, 48, 64)
        self.joints = nn.Conv2d(24, len(figures.FIGURE), 1)

    def forward(self, images: Tensor) -> Tensor:
        return self.joints(self.trunk(images)[0])

    def loss(self, images: Tensor, joints: Tensor) -> Tensor:
        maps = self(images)
        y, x = (torch.arange(n, dtype=torch.float32) for n in maps.shape[2:])
        at = (joints - 1.5) / 4
        far = (x - at[..., :1]).square()[:, :, None] + (y - at[..., 1:]).square()[..., None]
        return 100 * functional.mse_loss(maps, torch.exp(-far / 4.5))


class Text(Net):
    outputs = ("text",)

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(16, 24, 32, 48)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.fine = nn.Sequential(ConvBlock(24, 16), nn.Conv2d(16, 1, 1), nn.Sigmoid())

    def forward(self, images: Tensor) -> Tensor:
        return self.fine(self.up(self.trunk(images)[0]))

    def loss(self, images: Tensor, text: Tensor) -> Tensor:
        found, text = self(images)[:, 0], text.float()
        both = 2 * (found * text).sum() / (found.sum() + text.sum() + 1)
        return functional.binary_cross_entropy(found, text) * 5 + 1 - both


class Face(Net):
    outputs = tuple(f"{kind}_{s}" for kind in ("cls", "obj", "bbox", "kps") for s in STRIDES)

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(16, 24, 32, 48)
        self.to32 = nn.Sequential(SeparableBlock(48, 48, 2), SeparableBlock(48, 48))
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(c, n, 1) for c in (32, 48, 48)) for n in (1, 1, 4, 10)
        )
        for head in [*self.heads[0], *self.heads[1]]:
            nn.init.constant_(head.bias, -3.0)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        _, f8, f16 = self.trunk(images)
        levels = f8, f16, self.to32(f16)
        found = [[head(level) for head, level in zip(kind, levels)] for kind in self.heads]
        return tuple([m.sigmoid() for m in found[0] + found[1]] + found[2] + found[3])

    def loss(self, images: Tensor, places: Tensor) -> Tensor:
        """``places``: per image six faces of box and points, 14 numbers, zeros where none is."""
        found = self(images)
        total = images.new_zeros(())
        for i, stride in enumerate(STRIDES):
            cls, obj, box, points = (found[3 * kind + i] for kind in range(4))
            rows, columns = cls.shape[2:]
            y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            cells = torch.stack([x, y], -1).float() * stride  # as YuNet has it: no half cell
            low, high = places[:, :, None, None, :2], places[:, :, None, None, 2:4]
            size, centre = high - low, (low + high) / 2
            side = size[..., 1]
            least, most = ((0, 6), (3, 6), (6, 99))[i]
            is_level = (side > 0) & (side >= least * stride) & (side < most * stride)
            near = ((centre - cells).abs() < 1.2 * stride).all(-1) & is_level
            best = near.float().argmax(1)
            is_face = near.any(1)
            target = is_face.float()[:, None]
            for score in (cls, obj):
                wrong = functional.binary_cross_entropy(score, target, reduction="none")
                weight = torch.where(target > 0, 4.0, (score.detach() ** 2).clamp(min=0.02))
                total = total + (wrong * weight).sum() / (target.sum() + 1)
            if not is_face.any():
                continue
            b, r, c = is_face.nonzero(as_tuple=True)
            wanted = places[b, best[b, r, c]]
            cell = cells[r, c]
            middle = (wanted[:, :2] + wanted[:, 2:4]) / 2
            encoded = torch.cat(
                [(middle - cell) / stride, ((wanted[:, 2:4] - wanted[:, :2]) / stride).log()], 1
            )
            offsets = (wanted[:, 4:].reshape(-1, 5, 2) - cell[:, None]) / stride
            total = total + 2 * functional.l1_loss(box[b, :, r, c], encoded)
            total = total + 2 * functional.l1_loss(points[b, :, r, c], offsets.flatten(1))
        return total


class Line(Net):
    outputs = ("characters",)
    size = figures.LINE

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            ConvBlock(3, 24, 3, 2), ConvBlock(24, 48, 3, 2), ConvBlock(48, 64),
            nn.MaxPool2d((2, 1)), ConvBlock(64, 80), nn.MaxPool2d((2, 1)), SeparableBlock(80, 96),
            nn.MaxPool2d((2, 1)), SeparableBlock(96, 96), SeparableBlock(96, 96),
            nn.Conv2d(96, len(figures.CHARACTERS) + 1, 1),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        return self.body(images)

    def loss(self, images: Tensor, steps: Tensor) -> Tensor:
        """``steps``: the character whose middle lies in a step, counted from 1; 0, the blank."""
        found = self(images)[:, :, 0]
        weights = torch.ones(found.shape[1])
        weights[0] = 0.3
        return functional.cross_entropy(found, steps.long(), weights)


def _neighbours(values: np.ndarray, **pad: Any) -> list[np.ndarray]:
    """Return the values below, above, right and left of each pixel."""
    edged = np.pad(values, 1, **pad)
    return [edged[2:, 1:-1], edged[:-2, 1:-1], edged[1:-1, 2:], edged[1:-1, :-2]]


def _inside(classes: np.ndarray) -> np.ndarray:
    """Return how far each pixel of a shape is from the next one of another class, as uint8."""
    count = np.zeros(classes.shape, np.uint8)
    left = classes > 0
    for other in _neighbours(classes, mode="edge"):
        left &= other == classes
    while left.any() and count.max() < INSIDE:
        count += left
        left = np.logical_and.reduce([left, *_neighbours(left)])
    return np.minimum(count * (255 / INSIDE), 255).astype(np.uint8)


def scene(seed: int) -> tuple[np.ndarray, ...]:
    image, classes = scenes.draw_classes(seed)
    return image, classes[1::4, 1::4], _inside(classes)[1::4, 1::4]


def pose(seed: int) -> tuple[np.ndarray, ...]:
    image, joints = figures.draw_crop(seed)
    return image, joints.astype(np.float32)


def text(seed: int) -> tuple[np.ndarray, ...]:
    """The map has a half of each word's height, so that ``unclip_ratio=1`` gives the whole."""
    image, corners = figures.draw_words(seed)
    drawn = scenes.Image.new("L", (scenes.SIZE // 2, scenes.SIZE // 2))
    for quad in corners:
        height = np.linalg.norm(quad[3] - quad[0])
        across = (quad[1] - quad[0]) / np.linalg.norm(quad[1] - quad[0])
        down = (quad[3] - quad[0]) / height
        shrunk = quad + height / 4 * np.array([across + down, down - across, -across - down,
                                               across - down])  # fmt: skip
        scenes.ImageDraw.Draw(drawn).polygon([tuple(p / 2) for p in shrunk], fill=1)
    return image, np.asarray(drawn)


def face(seed: int) -> tuple[np.ndarray, ...]:
    image, boxes, points = figures.draw_faces(seed)
    places = np.zeros((6, 14), np.float32)
    places[: len(boxes)] = np.c_[boxes, points.reshape(-1, 10)]
    return image, places


def line(seed: int) -> tuple[np.ndarray, ...]:
    image, word, middles = figures.draw_line(seed)
    steps = np.zeros(figures.LINE[1] // 4, np.uint8)
    steps[(middles / 4).astype(int)] = [figures.CHARACTERS.index(c) + 1 for c in word]
    return image, steps


class Task(NamedTuple):
    """A network and what draws its examples: an image, then what `Net.loss` takes."""

    net: type[Any]
    draw: Callable[[int], tuple[np.ndarray, ...]]


TASKS = {
    "scene": Task(Scene, scene), "pose": Task(Pose, pose), "text": Task(Text, text),
    "face": Task(Face, face), "line": Task(Line, line),
}  # fmt: skip


def _draw(queue: multiprocessing.Queue, name: str) -> None:
    os.nice(5)
    for seed in scenes.TRAIN_SEEDS:
        queue.put(TASKS[name].draw(seed))


def train(name: str, minutes: float, batch: int, lr: float) -> nn.Module:
    """Train for about ``minutes`` and return the averaged (EMA) net."""
    torch.manual_seed(0)
    net = TASKS[name].net().to(memory_format=torch.channels_last)
    average = copy.deepcopy(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.01)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(maxsize=64)
    worker = context.Process(target=_draw, args=(queue, name), daemon=True)
    worker.start()
    rng, drawn = np.random.default_rng(0), 0
    pool: list[tuple[np.ndarray, ...]] = []
    begin = told = time.monotonic()
    step, recent = 0, []
    while (share := (time.monotonic() - begin) / (minutes * 60)) < 1:
        while len(pool) < 2 * batch or not queue.empty():
            drawn += 1
            if len(pool) < POOL:
                pool.append(queue.get(timeout=60))
            else:
                pool[drawn % POOL] = queue.get(timeout=60)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1, (step + 1) / 100) * (1.01 + math.cos(math.pi * share)) / 2
        chosen = [pool[i] for i in rng.integers(len(pool), size=batch)]
        images = np.stack([each[0][..., rng.permutation(3)] for each in chosen])
        targets = [torch.from_numpy(np.stack(each)) for each in list(zip(*chosen))[1:]]
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255)
        loss = net.loss(pixels.contiguous(memory_format=torch.channels_last), *targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
        step += 1
        keep = 0.995 * (1 - math.exp(-step / 100))
        with torch.no_grad():
            for mean, value in zip(average.state_dict().values(), net.state_dict().values()):
                if mean.dtype.is_floating_point:
                    mean.lerp_(value, 1 - keep)
        recent.append(float(loss.detach()))
        if time.monotonic() - told > 30:
            print(f"{share:4.0%} step {step} drawn {drawn} loss {np.mean(recent):.4f}", flush=True)
            told, recent = time.monotonic(), []
    worker.terminate()
    return average.eval()


def main() -> None:
    """Train a net and write ``OUT``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    net = train(args.task, args.minutes, args.batch, args.lr)
    export_onnx(net, args.out, TASKS[args.task].net.size)
    torch.save(net.state_dict(), args.out.with_suffix(".pt"))
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
