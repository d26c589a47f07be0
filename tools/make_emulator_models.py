"""Make the models of ``tests/data/emulator``: one small network, converted for every SoC.

::

    python tools/make_emulator_models.py tests/data/emulator

Needs rknn-toolkit2 2.5.0, as ``make_test_models.py`` does. The network has what the blocks
of an NPU do: pixels, direct and depthwise convolutions, an addition, pooling, a table
function, a leaky activation, a concatenation that requantizes, and a resize.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from make_test_models import Model, Net, convert

SOCS = (
    "rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1126b", "rv1103b",
)  # fmt: skip


class Machine(Model):
    """The network ``machine``."""

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


MACHINE = Machine(
    "machine",
    {"images": [1, 3, 16, 32]},
    {"features": [1, 10, 8, 16], "scores": [1, 12, 8, 16], "upper": [1, 8, 16, 32]},
    kind="machine",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the emulator's test models.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "machine.onnx"
    onnx.save(MACHINE.graph(), str(source))
    for soc in SOCS:
        convert(MACHINE, soc, source, folder / f"machine_{soc}.rknn")
    MACHINE.build = {"do_quantization": False}
    convert(MACHINE, "rk3588", source, folder / "machine_fp16_rk3588.rknn")


if __name__ == "__main__":
    main()
