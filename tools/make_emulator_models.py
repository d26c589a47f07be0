"""Make the models of ``tests/data/emulator``: three small networks, converted for every SoC.

::

    python tools/make_emulator_models.py tests/data/emulator

Needs rknn-toolkit2, as ``make_test_models.py`` does; ``machine`` is from 2.5.0, the others from
2.3.2. ``machine`` uses all blocks of an NPU: pixels, direct and depthwise convolutions, an
addition, pooling, a table function, a leaky activation, a concatenation that requantizes, and a
resize. ``single`` has convolutions to one channel, whose weight offset is a constant in a register.
``compressed`` has compressed weights, some of which several tasks share in the NPU's buffer.
"""

from __future__ import annotations

import argparse
import lzma
import tempfile
from pathlib import Path

import numpy as np
import onnx
from make_test_models import Model, Net, convert

SOCS = (
    "rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1126b", "rv1103b",
)  # fmt: skip


class Machine(Model):
    """The networks ``machine``, ``single`` and ``compressed``."""

    def machine(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        first = net.node("Relu", net.conv(x, (channels, 16), 3, 2))
        depthwise = net.node(
            "Conv", first, net.weight(16, 1, 3, 3), net.weight(16), group=16, pads=[1] * 4
        )
        added = net.node("Add", first, net.node("Relu", depthwise))
        pooled = net.node("MaxPool", added, kernel_shape=[3, 3], pads=[1] * 4)
        leaky = net.node("LeakyRelu", net.conv(added, (16, 20), 1), alpha=0.1)
        net.conv(net.node("Concat", leaky, pooled, axis=1), (36, out[1]), 1, to=y)
        net.node("Sigmoid", net.conv(pooled, (16, 12), 1), to="scores")
        scales = net.constant(np.array([1, 1, 2, 2], np.float32))
        nearest = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        none = net.constant(np.zeros(0, np.float32))
        net.conv(net.node("Resize", added, none, scales, **nearest), (16, 8), 3, to="upper")

    def single(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Heads with positive, negative and mixed weights: offsets 128, -127 and between."""
        features = net.node("Relu", net.conv(x, (channels, 16), 1))
        for name, low, high in ((y, 0.1, 1), ("negative", -1, -0.1), ("mixed", -1, 0.4)):
            weights = np.linspace(low, high, 16, dtype=np.float32).reshape(1, 16, 1, 1)
            net.node("Conv", features, net.constant(weights), net.weight(1), to=name)

    def compressed(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Weights with long runs of zeros, with few zeros, and with none; rows of many tasks."""

        def weights(*shape: int, kept: float) -> str:
            values = net.random.laplace(0, 0.05, shape).clip(-0.5, 0.5)
            return net.constant((values * (net.random.random(shape) < kept)).astype(np.float32))

        first = net.node("Conv", x, weights(16, channels, 3, 3, kept=0.3), strides=[2, 2])
        second = net.node("Conv", first, weights(32, 16, 3, 3, kept=1), strides=[2, 2])
        third = net.node("Conv", second, weights(32, 1, 3, 3, kept=0.6), group=32)
        net.node("Conv", third, weights(out[1], 32, 3, 3, kept=0.6), strides=[4, 4], to=y)

    def wide(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """One convolution, whose weights the file holds nowhere else: see `wide_weights`."""
        net.node("Conv", x, net.constant(wide_weights(out[1], channels)), pads=[1] * 4, to=y)


def wide_weights(kernels: int, channels: int) -> np.ndarray:
    """float32 ``(kernels, channels, 3, 3)``: one in twenty is not zero. The same on every NumPy."""
    random, shape = np.random.RandomState(0), (kernels, channels, 3, 3)
    return (random.normal(size=shape) * (random.uniform(size=shape) < 0.05)).astype(np.float32)


MACHINE = Machine(
    "machine",
    {"images": [1, 3, 16, 32]},
    {"features": [1, 10, 8, 16], "scores": [1, 12, 8, 16], "upper": [1, 8, 16, 32]},
    kind="machine",
)

SINGLE = Machine(
    "single",
    {"features": [1, 8, 4, 8]},
    {name: [1, 1, 4, 8] for name in ("positive", "negative", "mixed")},
    kind="single",
)

COMPRESSED = Machine(
    "compressed",
    {"images": [1, 3, 131, 640]},
    {"features": [1, 20, 7, 39]},
    kind="compressed",
    config={"compress_weight": True},
)
#: Weights of 16 bits: float16, and int16 of the SoCs that have it.
WIDE = Machine(
    "compressed_wide",
    {"features": [1, 24, 8, 8]},
    {"sums": [1, 40, 8, 8]},
    kind="wide",
    config={"compress_weight": True, "mean_values": [[]], "std_values": [[]]},
)
#: RK3576 and RV1126B compress like RK3562; RV1103B never compresses.
COMPRESSING = ("rk3588", "rk3566", "rk3562", "rv1106")
WIDE_FILES = [("fp16", "rk3588"), ("fp16", "rk3566"), ("fp16", "rk3576")]
WIDE_FILES += [("int16", "rk3588"), ("int16_plain", "rk3588")]


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the emulator's test models.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for model, socs in ((COMPRESSED, COMPRESSING), (SINGLE, SOCS), (MACHINE, SOCS)):
        source = folder / f"{model.name}.onnx"
        onnx.save(model.graph(), str(source))
        for soc in socs:
            convert(model, soc, source, folder / f"{model.name}_{soc}.rknn")
    MACHINE.build = {"do_quantization": False}
    convert(MACHINE, "rk3588", source, folder / "machine_fp16_rk3588.rknn")
    make_wide(folder)


def make_wide(folder: Path) -> None:
    """Weights of 16 bits; what int16 makes of them without compression, too."""
    WIDE.build = {"do_quantization": False}
    for kind, soc in WIDE_FILES:
        if kind != "fp16":
            WIDE.build = {"do_quantization": True}
            WIDE.config.update(quantized_dtype="w16a16i", compress_weight=kind == "int16")
        with tempfile.TemporaryDirectory() as made:
            source, target = Path(made) / "wide.onnx", Path(made) / "wide.rknn"
            onnx.save(WIDE.graph(), str(source))
            convert(WIDE, soc, source, target)
            packed = lzma.compress(target.read_bytes(), preset=9)
        (folder / f"compressed_{kind}_{soc}.rknn.xz").write_bytes(packed)


if __name__ == "__main__":
    main()
