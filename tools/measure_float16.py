"""Compare single layers in float16 with the toolkit's simulator, bit by bit.

::

    python tools/measure_float16.py FOLDER --make     # with rknn-toolkit2, as make_test_models.py
    python tools/measure_float16.py FOLDER            # with this package

The first command converts networks of one layer for RK3588, without quantization. It writes
``NAME.rknn``, and an input with the simulator's output in ``NAME.npz``. The second command executes
the files on these inputs. The simulator computes functions exactly and rounds once; the NPU has
tables for them. All inputs are float16 numbers, since the simulator does not round them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

SHAPE = (1, 16, 24, 24)
#: Shapes of the weights of layers that have some.
WEIGHTS = {
    "Conv 3x3": (16, 16, 3, 3),
    "Conv 1x1": (16, 16, 1, 1),
    "Conv 3x3, stride 2": (16, 16, 3, 3),
    "Conv 3x3, depthwise": (16, 1, 3, 3),
    "ConvTranspose 2x2": (16, 16, 2, 2),
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Conv 3x3": {"pads": [1] * 4},
    "Conv 3x3, stride 2": {"pads": [1] * 4, "strides": [2, 2]},
    "Conv 3x3, depthwise": {"pads": [1] * 4, "group": 16},
    "ConvTranspose 2x2": {"strides": [2, 2]},
    "LeakyRelu": {"alpha": 0.1},
    "MaxPool": {"kernel_shape": [3, 3], "pads": [1] * 4},
    "AveragePool": {"kernel_shape": [2, 2], "strides": [2, 2]},
}
LAYERS = (
    *WEIGHTS, "Clip", "LeakyRelu", "Relu", "MaxPool", "AveragePool",
    "Sigmoid", "Tanh", "Elu", "HardSwish", "SiLU",
)  # fmt: skip


def network(layer: str) -> Any:
    """Return the ONNX model of one layer from "x" to "y"."""
    from make_test_models import Net
    from onnx import TensorProto, helper

    net, operator = Net(layer), layer.split()[0]
    if layer == "SiLU":
        net.node("Mul", "x", net.node("Sigmoid", "x"), to="y")
    else:
        inputs = [net.weight(*WEIGHTS[layer]), net.weight(16)] if layer in WEIGHTS else []
        if layer == "Clip":
            inputs = [net.constant(np.array(limit, np.float32)) for limit in (0, 1.5)]
        net.node(operator, "x", *inputs, to="y", **ATTRIBUTES.get(layer, {}))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", SHAPE), ("y", None))
    ]
    graph = helper.make_graph(net.nodes, "layer", ends[:1], ends[1:], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    return model


def make(folder: Path) -> None:
    """Convert every layer, and write the output of the simulator."""
    import onnx
    from rknn.api import RKNN

    folder.mkdir(parents=True, exist_ok=True)
    for layer in LAYERS:
        path = folder / layer.replace(", ", "-").replace(" ", "-")
        onnx.save(network(layer), f"{path}.onnx")
        values = np.random.default_rng(0).normal(0, 2, SHAPE).astype(np.float16)
        toolkit = RKNN(verbose=False)
        try:
            if (
                toolkit.config(target_platform="rk3588")
                or toolkit.load_onnx(f"{path}.onnx")
                or toolkit.build(do_quantization=False)
                or toolkit.export_rknn(f"{path}.rknn")
                or toolkit.init_runtime()
            ):
                raise RuntimeError(f"{layer}: rknn-toolkit2 failed; it printed why")
            (found,) = toolkit.inference([values.astype(np.float32)], data_format="nchw")
        finally:
            toolkit.release()
        np.savez(f"{path}.npz", x=values, y=found)


def compare(folder: Path) -> None:
    """Print a table of all layers in the folder.

    Raises:
        ValueError: The folder has no layers.
    """
    from rknn_runtime.sim.emulator import Emulator

    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise ValueError(f"{folder}: expected files NAME.npz and NAME.rknn; make them with --make")
    print("| layer | values | equal bits | largest difference | range |")
    print("| --- | --- | --- | --- | --- |")
    for path in paths:
        emulator = Emulator(path.with_suffix(".rknn"))
        with np.load(path) as arrays:
            values, simulated = arrays["x"], arrays["y"]
        emulator.set_input(0, values)
        emulator.run()
        found = emulator.read_float(emulator.outputs[0]).reshape(simulated.shape)
        equal = np.mean(found.astype(np.float16) == simulated.astype(np.float16))
        largest, extent = np.abs(found - simulated).max(), np.ptp(simulated)
        print(f"| {path.stem} | {found.size} | {equal:.2%} | {largest:.2g} | {extent:.2g} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare layers in float16 with the simulator.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--make", action="store_true", help="convert and simulate; needs the toolkit"
    )
    arguments = parser.parse_args()
    (make if arguments.make else compare)(arguments.folder)


if __name__ == "__main__":
    main()
