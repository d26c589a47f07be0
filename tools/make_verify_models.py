"""Make the models of ``rknn-runtime verify``: each asks the silicon one question.

::

    MALLOC_PERTURB_=255 python tools/make_verify_models.py FOLDER
    python tools/pack_verify_models.py FOLDER

Needs rknn-toolkit2 2.3.2, like ``make_test_models.py``; the second step needs no toolkit. The
toolkit leaves memory as it found it in files: the variable has glibc fill it with zeros, which
compress well. Weights and calibration are chosen so that the answer shows in the stored values: a
factor of a power of two brings ties, a narrow range of outputs shows single units of a table.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from make_test_models import Model, Net, convert

SIZE = 32
#: One SoC per kind of NPU. RK3568 has the NPU of RK3566, RV1103 the NPU of RV1106.
SOCS = ("rk3588", "rv1106", "rk3566", "rk3562", "rk3576")


class Question(Model):
    """A network of one question; its calibration images, channel by channel."""

    def chosen(self, net: Net, x: str, rows: list[list[float]], bias: float = 0, **to: str) -> str:
        """A 1x1 convolution with the given weights, one row a kernel."""
        weights = np.array(rows, np.float32)[:, :, None, None]
        biases = np.full(len(rows), bias, np.float32)
        return net.node("Conv", x, net.constant(weights), net.constant(biases), **to)

    def rounding(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """``(255 x0 + x1) / 512``, and minus that: ties at the conversion to int8."""
        self.chosen(net, x, [[2.55, 0.01, 0], [-2.55, -0.01, 0]], to=y)

    def offset(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """The same ties, and an odd zero point: whether it is added before the last shift."""
        self.chosen(net, x, [[2.55, 0.01, 0], [-2.55, -0.01, 0]], bias=0.3413, to=y)

    def multiplier(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """A kernel of half the range of another: its multiplier halves odd sums."""
        self.chosen(net, x, [[2.55, 0.01, 0], [1.275, 0.005, 0]], to="up")
        self.chosen(net, x, [[-2.55, -0.01, 0], [-1.275, -0.005, 0]], to="down")

    def table(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """SiLU between -0.05 and 0.05: an output step is about one unit of the table."""
        sums = self.chosen(net, x, [[0.1, 0.0004, 0]], bias=-0.05)
        net.node("Mul", sums, net.node("Sigmoid", sums), to=y)

    def sigmoid(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Between -7 and 3, in float16: half of the values are smaller than 1 / 32768 * 1000."""
        sums = self.chosen(net, x, [[0.04, 0.0004, 0]], bias=-7)
        net.node("Sigmoid", sums, to=y)

    def identity(self, net: Net, x: str) -> str:
        return self.chosen(net, x, np.eye(3).tolist())

    def average(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Four values each: a quarter of the sums lies between two."""
        pixels = self.identity(net, x)
        net.node("AveragePool", pixels, to=y, kernel_shape=[2, 2], strides=[2, 2])

    def average_border(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Values outside count as 0, which is the zero point."""
        pixels = self.identity(net, x)
        net.node("AveragePool", pixels, to=y, kernel_shape=[3, 3], strides=[1, 1],
                 pads=[1] * 4, count_include_pad=1)  # fmt: skip

    def maximum_border(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Small values everywhere: values outside must not win."""
        pixels = self.identity(net, x)
        net.node("MaxPool", pixels, to=y, kernel_shape=[3, 3], strides=[1, 1], pads=[1] * 4)

    def pixels(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Normalised pixels, as they are."""
        self.chosen(net, x, np.eye(3).tolist(), to=y)

    def border(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Rows of 20 pixels in memory of 32: the right column meets what fills them up."""
        net.conv(x, (3, 4), 3, to=y)

    def padding(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """The pixels at the left, at the right, above and below, each in a separate channel."""
        taps = np.zeros((4, 3, 3, 3), np.float32)
        for k, (row, column) in enumerate(((1, 0), (1, 2), (0, 1), (2, 1))):
            taps[k, k % 3, row, column] = 1
        net.node("Conv", x, net.constant(taps), net.weight(4), to=y, pads=[1] * 4)

    def sums(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Two channels cancel, the third has small weights: the order of sums shows."""
        large = net.random.normal(0, 0.5, (8, 1, 3, 3))
        weights = np.concatenate([large, -large, 0.001 * large[::-1]], 1)
        bias = net.random.normal(0, 0.1, 8)
        constants = [net.constant(values.astype(np.float32)) for values in (weights, bias)]
        net.node("Conv", x, *constants, to=y, pads=[1] * 4)


def output(channels: int, size: int = SIZE, name: str = "out") -> dict[str, list[int]]:
    return {name: [1, channels, size, size]}


IMAGENET = {"mean_values": [[123.675, 116.28, 103.53]], "std_values": [[58.395, 57.12, 57.375]]}
#: Means between two pixels, where a pixel is three quantization steps.
BETWEEN = {"mean_values": [[5.45, 10.45, 15.45]], "std_values": [[50, 50, 50]]}
DARK = [(0, 60)] * 3
#: Pixels as they are, which float16 holds exactly.
RAW = {"mean_values": [[0, 0, 0]], "std_values": [[1, 1, 1]]}
FP16: dict[str, Any] = {"do_quantization": False}
#: Channels of the calibration images: from, to.
FULL, SMALL, DOUBLE = [(0, 255)] * 3, [(0, 0), (0, 255), (0, 255)], [(0, 510)] * 3


def question(
    name: str, out: dict[str, list[int]], width: int = SIZE, kind: str = "", **others: Any
) -> Question:
    inputs = {"images": [1, 3, SIZE, width]}
    return Question(name, inputs, out, **{"socs": SOCS, "kind": kind or name, **others})


QUESTIONS = (
    (question("rounding", output(2)), FULL),
    (question("offset", output(2)), FULL),
    (question("multiplier", {**output(2, name="up"), **output(2, name="down")}), SMALL),
    (question("table", output(1)), FULL),
    (question("average", output(3, SIZE // 2)), FULL),
    (question("average_border", output(3)), FULL),
    (question("maximum_border", output(3)), FULL),
    (question("pixels", output(3), config=IMAGENET), FULL),
    (question("pixel_ties", output(3), kind="pixels"), DOUBLE),
    (
        question("border", {"out": [1, 4, SIZE, 20]}, 20, socs=("rk3588",), config=BETWEEN),
        DARK,
    ),
    (question("padding", output(4), config=IMAGENET), FULL),
    (question("sums_fp16", output(8), socs=("rk3588",), kind="sums", build=FP16, config=RAW), FULL),
    (
        question("table_fp16", output(1), socs=("rk3588",), kind="sigmoid", build=FP16, config=RAW),
        FULL,
    ),
)


def calibrated(asked: Question, ranges: list[tuple[int, int]], folder: Path) -> Question:
    """Images whose channels reach both ends of their ranges, at the same pixel."""
    if asked.build:
        return asked
    lines = []
    shape = next(iter(asked.inputs.values()))
    for sample in range(4):
        random = np.random.default_rng(sample)
        image = np.stack([random.integers(low, high + 1, shape[2:]) for low, high in ranges])
        image[:, 0, 0], image[:, 0, 1] = ([r[end] for r in ranges] for end in (0, 1))
        if len(ranges) == 3:
            image[:, 0, 2] = ranges[0][1], ranges[1][0], ranges[2][1]
            image[:, 0, 3] = ranges[0][0], ranges[1][1], ranges[2][0]
        path = folder / f"{asked.name}_{sample}.npy"
        np.save(path, image[None].astype(np.float32))
        lines.append(str(path))
    listing = folder / f"{asked.name}.txt"
    listing.write_text("\n".join(lines) + "\n")
    asked.build = {"dataset": str(listing)}
    return asked


def for_one_core(config: dict[str, Any], soc: str) -> dict[str, Any]:
    """A RK3588's file holds the commands for two and three cores, too, if not told otherwise."""
    return {**config, "single_core_mode": True} if soc == "rk3588" else config


def build(folder: Path) -> None:
    """Convert all networks: ``SOC/NAME.rknn`` in a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        for asked, ranges in QUESTIONS:
            source = folder / f"{asked.name}.onnx"
            onnx.save(asked.graph(), str(source))
            made = calibrated(asked, ranges, Path(scratch))
            config = made.config
            for soc in asked.socs:
                made.config = for_one_core(config, soc)
                target = folder / soc / f"{asked.name}.rknn"
                target.parent.mkdir(exist_ok=True)
                convert(made, soc, source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the models of rknn-runtime verify.")
    parser.add_argument("folder", type=Path, help="for pack_verify_models.py")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    build(folder.resolve())


if __name__ == "__main__":
    main()
