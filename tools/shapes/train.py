"""Train one of the small detectors on synthetic scenes, on the CPU, and write it as ONNX.

::

    python tools/shapes/train.py --head single --minutes 20 --out shapes.onnx

Needs torch, numpy, Pillow and onnx (see requirements.txt in this folder). Scenes are drawn while
the net trains, by one more process; nothing is downloaded or stored.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import os
import time
from pathlib import Path

import decode
import metrics
import numpy as np
import torch
from export import export_onnx
from losses import loss_of
from nets import HEADS, make_net
from scenes import CLASSES, PROGRESS_SEEDS, SIZE, TRAIN_SEEDS, draw_input
from torch import Tensor, nn

POOL = 5000  # scenes in memory, 0.3 MB each; the oldest gives way to the newest
FIRST = 400  # scenes drawn before the first step
MAX_OBJECTS = 40


class ScenePool:
    """Scenes drawn by a separate process; a batch is a random sample, varied at no cost."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._queue = context.Queue(maxsize=64)
        self._worker = context.Process(target=_draw, args=(self._queue, seed), daemon=True)
        self._worker.start()
        self._scenes: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._rng = np.random.default_rng(seed)
        self.drawn = 0
        while self.drawn < FIRST:
            self._take()

    def _take(self) -> None:
        scene = self._queue.get(timeout=60)
        if len(self._scenes) < POOL:
            self._scenes.append(scene)
        else:
            self._scenes[self.drawn % POOL] = scene
        self.drawn += 1

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return images, boxes and class ids as ``losses.loss_of`` takes them."""
        for _ in range(min(self._queue.qsize(), size // 4)):
            self._take()
        images = np.empty((size, SIZE, SIZE, 3), np.uint8)
        boxes = np.zeros((size, MAX_OBJECTS, 4), np.float32)
        class_ids = np.full((size, MAX_OBJECTS), -1, np.int64)
        for i in range(size):
            scene = self._scenes[self._rng.integers(len(self._scenes))]
            images[i], b, c = _vary(self._rng, *scene)
            boxes[i, : len(b)], class_ids[i, : len(c)] = b, c
        tensor = torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(255)
        most = max(1, int((class_ids >= 0).sum(1).max()))
        return tensor, torch.from_numpy(boxes[:, :most]), torch.from_numpy(class_ids[:, :most])

    def close(self) -> None:
        """Stop the drawing process."""
        self._worker.terminate()
        self._worker.join()


def _draw(queue: multiprocessing.Queue, seed: int) -> None:
    os.nice(10)  # training goes first
    start = seed * 50_000  # runs with different seeds see different scenes
    for i in range(len(TRAIN_SEEDS)):
        queue.put(draw_input(TRAIN_SEEDS[(start + i) % len(TRAIN_SEEDS)]))


def _vary(
    rng: np.random.Generator, image: np.ndarray, boxes: np.ndarray, class_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flip, transpose and swap colour channels: all leave the classes as they are."""
    image = image[..., rng.permutation(3)]
    if rng.integers(2):
        image, boxes = image[:, ::-1], boxes[:, [2, 1, 0, 3]] * (-1, 1, -1, 1) + (SIZE, 0, SIZE, 0)
    if rng.integers(2):
        image, boxes = image.transpose(1, 0, 2), boxes[:, [1, 0, 3, 2]]
    if rng.integers(2):
        image, boxes = image[::-1], boxes[:, [0, 3, 2, 1]] * (1, -1, 1, -1) + (0, SIZE, 0, SIZE)
    return image, boxes[:MAX_OBJECTS], class_ids[:MAX_OBJECTS]


def train(
    head: str,
    minutes: float,
    *,
    batch: int,
    lr: float,
    seed: int,
    init: Path | None,
    bfloat16: bool,
) -> nn.Module:
    """Train for about ``minutes`` and return the averaged (EMA) net."""
    torch.manual_seed(seed)
    net = make_net(head).to(memory_format=torch.channels_last)
    if init is not None:
        _copy_matching(net, torch.load(init, weights_only=True))
    average = copy.deepcopy(net)
    decay = [p for p in net.parameters() if p.ndim > 1]
    plain = [p for p in net.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}], lr=lr
    )
    pool = ScenePool(seed)
    begin = report = time.monotonic()
    step, recent = 0, []
    while (share := (time.monotonic() - begin) / (minutes * 60)) < 1:
        rate = lr * min(1, (step + 1) / 200) * (0.01 + 0.99 * (1 + math.cos(math.pi * share)) / 2)
        for group in optimizer.param_groups:
            group["lr"] = rate
        images, boxes, class_ids = pool.batch(batch)
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = loss_of(net, images, boxes, class_ids)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        step += 1
        _average(average, net, 0.999 * (1 - math.exp(-step / 500)))
        recent.append(float(loss.detach()))
        if time.monotonic() - report > 240:
            print(
                f"{share:4.0%} step {step} scenes {pool.drawn} lr {rate:.5f} "
                f"loss {np.mean(recent):.4f} mAP@0.5 {_progress(average):.3f}",
                flush=True,
            )
            recent, report = [], time.monotonic()
    pool.close()
    return average.eval()


def _copy_matching(net: nn.Module, state: dict[str, Tensor]) -> None:
    """Start from another net's weights wherever name and shape agree: features, like heads."""
    own = net.state_dict()
    fitting = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}
    if not fitting:
        raise ValueError("the weights to start from fit nowhere in this net")
    net.load_state_dict(fitting, strict=False)
    print(f"{len(fitting)} of {len(own)} tensors taken over", flush=True)


@torch.no_grad()
def _average(average: nn.Module, net: nn.Module, keep: float) -> None:
    for mean, value in zip(average.state_dict().values(), net.state_dict().values()):
        if mean.dtype.is_floating_point:
            mean.lerp_(value, 1 - keep)
        else:
            mean.copy_(value)


@torch.no_grad()
def _progress(net: nn.Module) -> float:
    """Return mAP@0.5 on a few scenes that are not trained on."""
    net.eval()
    form, found, truth = net.export_form().eval(), [], []
    for seed in PROGRESS_SEEDS:
        image, boxes, class_ids = draw_input(seed)
        outputs = form(torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255)
        arrays = [x.numpy() for x in (outputs if isinstance(outputs, tuple) else (outputs,))]
        found.append(decode.decode(arrays, SIZE))
        truth.append((boxes, class_ids))
    net.train()
    return float(metrics.average_precision(found, truth, len(CLASSES))[:, 0].mean())


def main() -> None:
    """Train a net and write ``OUT`` and its weights as a ``.pt`` file of the same name."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--head", choices=sorted(HEADS), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--init", type=Path, help="a .pt file: start from its weights where they fit"
    )
    parser.add_argument("--float32", action="store_true", help="for a CPU without bfloat16")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    net = train(
        args.head,
        args.minutes,
        batch=args.batch,
        lr=args.lr,
        seed=args.seed,
        init=args.init,
        bfloat16=not args.float32,
    )
    export_onnx(net, args.out)
    torch.save(net.state_dict(), args.out.with_suffix(".pt"))
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
