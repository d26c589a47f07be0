"""Make the models of ``tests/data/models``: small networks, converted by the vendor's toolkit.

::

    python tools/make_test_models.py tests/data/models [NAME ...] [--answers DIRECTORY]

Needs rknn-toolkit2 2.3.2 (x86-64, CPython 3.6 to 3.12), which installs ``onnx``.
Each network covers a case of the format. Weights are random, with the name as the seed.

The answers of the vendor's runtimes about a model depend only on its zero points and scales, not on
its weights. So answers recorded for a network of the same shape and conversion
(``NAME_SOC.json`` in ``DIRECTORY``) are reused, with the zero points and scales that follow from
the calibration.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rknn.api import RKNN

BOTH = ("rv1106", "rk3588")

#: The recorded answers that the tests need: the queries.
RECORDED_FACTS = {
    "init", "io", "sdk", "mem", "custom", "in", "out", "q_oob", "range",
    "cur_in", "cur_out", "cur_nin", "cur_nout", "set_shapes", "set_shapes_bad", "dynset",
}  # fmt: skip
#: int8, int16, and INT4, which librknnrt 1.5.2 reports for int16.
QUANTIZED_TYPES = {2, 4, 10}


class Net:
    """Builds an ONNX graph node by node."""

    def __init__(self, name: str) -> None:
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        spread = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        values = self.random.normal(0, spread, shape).astype(np.float32)
        return self.constant(values)

    def constant(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        output = to or f"{operator.lower()}_{len(self.nodes)}"
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], name, **attributes))
        return output

    def conv(
        self, x: str, channels: tuple[int, int], size: int, stride: int = 1, to: str = ""
    ) -> str:
        """A convolution of ``channels[0]`` to ``channels[1]`` that keeps ``W / stride``."""
        weight, bias = self.weight(channels[1], channels[0], size, size), self.weight(channels[1])
        pads, strides = [size // 2] * 4, [stride] * 2
        return self.node("Conv", x, weight, bias, to=to, pads=pads, strides=strides)

    def features(self, x: str, channels: int, stride: int = 1) -> str:
        return self.node("Relu", self.conv(x, (channels, 16), 3, stride))


@dataclass
class Model:
    """One network, how to convert it, and for which SoCs."""

    name: str
    inputs: dict[str, list[int]]
    outputs: dict[str, list[int]]
    socs: tuple[str, ...] = BOTH
    kind: str = "conv"
    stride: int = 1
    config: dict[str, Any] = field(default_factory=dict)
    build: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)

    def graph(self) -> Any:
        net = Net(self.name)
        (x, shape), (y, out) = next(iter(self.inputs.items())), next(iter(self.outputs.items()))
        getattr(self, self.kind)(net, x, shape[1], y, out)
        info = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in values.items()]
            for values in (self.inputs, self.outputs)
        ]
        graph = helper.make_graph(net.nodes, self.name, info[0], info[1], net.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
        model.ir_version = 7
        onnx.checker.check_model(model)
        return model

    def conv(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Two convolutions: an image or feature map in, a feature map out."""
        net.conv(net.features(x, channels, self.stride), (16, out[1]), 1, to=y)

    def rank5(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """A YOLOv5 head, split into anchors but not transposed."""
        head = net.conv(net.features(x, channels), (16, out[1] * out[2]), 1)
        shape = net.constant(np.array(out, np.int64))
        net.node("Reshape", net.node("Sigmoid", head), shape, to=y)

    def softmax(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """A classifier; the toolkit leaves its softmax in float16."""
        flat = net.node("Flatten", net.node("GlobalAveragePool", net.features(x, channels, 2)))
        logits = net.node("Gemm", flat, net.weight(out[1], 16), net.weight(out[1]), transB=1)
        net.node("Softmax", logits, to=y, axis=1)

    def vector(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """A fully connected layer."""
        net.node("Gemm", x, net.weight(out[1], channels), net.weight(out[1]), to=y, transB=1)

    def image_and_vector(self, net: Net, x: str, channels: int, y: str, out: list[int]) -> None:
        """Two inputs of different rank."""
        vector, shape = list(self.inputs.items())[1]
        flat = net.node("Flatten", net.node("GlobalAveragePool", net.features(x, channels)))
        joined = net.node("Concat", flat, vector, axis=1)
        net.node(
            "Gemm", joined, net.weight(out[1], 16 + shape[1]), net.weight(out[1]), to=y, transB=1
        )


IMAGE = {"images": [1, 3, 20, 20]}
FEATURES = {"output0": [1, 24, 20, 20]}

MODELS = [
    # Rows of an odd width; 21 * 37 pixels are not a multiple of 4.
    Model("ic3_w37", {"images": [1, 3, 21, 37]}, {"output0": [1, 24, 21, 37]}),
    # 33 channels in groups of 16; 7 * 7 pixels.
    Model("sp7x7_c33", {"images": [1, 3, 28, 28]}, {"output0": [1, 33, 7, 7]}, stride=4),
    # Too many channels for an image input.
    Model("ic5", {"images": [1, 5, 32, 32]}, {"output0": [1, 24, 32, 32]}),
    Model("unicode_name", {"图像:0": [1, 3, 20, 20]}, {"输出/é": [1, 24, 20, 20]}, ("rv1106",)),
    Model("custom_string", IMAGE, FEATURES, ("rv1106",),
          config={"custom_string": '{"classes": ["a","b"], "note": "hello 世界"}'}),
    Model("i16_ic1_w37", {"images": [1, 1, 21, 37]}, {"output0": [1, 24, 21, 37]},
          config={"quantized_dtype": "w16a16i_dfp"}),
    Model("fp16_ic1_w37", {"images": [1, 1, 21, 37]}, {"output0": [1, 24, 21, 37]}, ("rk3588",),
          build={"do_quantization": False}),
    Model("batch2_build", IMAGE, FEATURES, ("rk3588",), build={"rknn_batch_size": 2}),
    # For rv1106 the toolkit makes a standard container, which the runtime refuses.
    Model("dyn_in", {"images": [1, 3, 32, 32]}, {"output0": [1, 24, 32, 32]},
          config={"dynamic_input": [[[1, 3, 32, 32]], [[1, 3, 48, 40]]]},
          load={"inputs": ["images"], "input_size_list": [[1, 3, 32, 32]]}),
    Model("mi_img_vec", {"img": [1, 3, 32, 32], "vec": [1, 8]}, {"logit": [1, 12]},
          kind="image_and_vector"),
    Model("rank1_in_vec", {"vec": [1, 32]}, {"out": [1, 8]}, kind="vector"),
    Model("yolov5_5d_nt", IMAGE, {"output0": [1, 3, 85, 20, 20]}, kind="rank5"),
    Model("fc1000_softmax", {"data": [1, 3, 32, 32]}, {"output0": [1, 1000]}, ("rv1106",),
          kind="softmax"),
]  # fmt: skip


def calibration(model: Model, folder: Path, samples: int = 8) -> str:
    """Write the toolkit's calibration list: random images, normal vectors."""
    random = np.random.default_rng(0)
    lines = []
    for sample in range(samples):
        files = []
        for number, shape in enumerate(model.inputs.values()):
            path = folder / f"{sample}_{number}.npy"
            if len(shape) == 4:
                values = random.integers(0, 255, shape).astype(np.float32)
            else:
                values = random.normal(size=shape).astype(np.float32)
            np.save(path, values)
            files.append(str(path))
        lines.append(" ".join(files))
    listing = folder / "calibration.txt"
    listing.write_text("\n".join(lines) + "\n")
    return str(listing)


def convert(model: Model, soc: str, source: Path, target: Path) -> None:
    """Convert an ONNX file.

    Raises:
        RuntimeError: A step of the toolkit failed; it printed why.
    """
    images = [len(shape) == 4 for shape in model.inputs.values()]
    channels = [shape[1] for shape in model.inputs.values()]
    config = {
        "mean_values": [[0] * c if image else [] for image, c in zip(images, channels)],
        "std_values": [[255] * c if image else [] for image, c in zip(images, channels)],
        "target_platform": soc,
        **model.config,
    }
    toolkit = RKNN(verbose=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            build = {"do_quantization": True, **model.build}
            if build["do_quantization"] and "dataset" not in build:
                build["dataset"] = calibration(model, Path(folder))
            for step, code in (
                ("config", toolkit.config(**config)),
                ("load_onnx", toolkit.load_onnx(str(source), **model.load)),
                ("build", toolkit.build(**build)),
                ("export_rknn", toolkit.export_rknn(str(target))),
            ):
                if code:
                    raise RuntimeError(f"{target.name}: rknn-toolkit2's {step} returned {code}")
    finally:
        toolkit.release()


def quantization(file: bytes) -> dict[str, tuple[int, float]]:
    """Zero point and scale by tensor name, from the ranges in the file's metadata text.

    int8 spans the range and zero; int16 is fixed point, a power of two that holds it.
    """
    start = file.index(b"{'attrs'")
    length = int.from_bytes(file[start - 4 : start], "little")
    table = ast.literal_eval(file[start : start + length].decode())["quant_tab"]
    result = {}
    for name, entry in table.items():
        if not entry["min"]:  # float16
            continue
        low, high = min(0.0, *entry["min"]), max(0.0, *entry["max"])
        if entry["qtype"] == "dfp":
            bits = 15 - max(0, math.ceil(math.log2(max(-low, high))))
            result[name] = 0, float(np.float32(1 / (2**bits - 1)))
        else:
            scale = (high - low) / 255
            result[name] = round(-128 - low / scale), float(np.float32(scale))
    return result


def repaired(value: Any) -> Any:
    """Undo the Latin-1 reading of UTF-8 names in some of the recorded answers."""
    if isinstance(value, dict):
        return {key: repaired(item) for key, item in value.items()}
    if isinstance(value, list):
        return [repaired(item) for item in value]
    try:
        return value.encode("latin-1").decode() if isinstance(value, str) else value
    except ValueError:
        return value


def write_answers(recorded: Path, model: Path) -> None:
    """Write the answers of the runtime about a model next to its file."""
    answers = repaired(json.loads(recorded.read_text(encoding="utf-8")))
    table = quantization(model.read_bytes())
    facts = [fact for fact in answers["facts"] if fact["t"] in RECORDED_FACTS]
    for fact in facts:
        attribute = fact.get("a", {})
        if attribute.get("type") in QUANTIZED_TYPES and not fact["rc"]:
            attribute["zp"], attribute["scale"] = table[attribute["name"]]
    lines = ",\n".join(json.dumps(fact, ensure_ascii=False) for fact in facts)
    text = f'{{"engine": "{answers["engine"]}", "facts": [\n{lines}\n]}}\n'
    model.with_suffix(".json").write_text(text, encoding="utf-8")


def make(folder: Path, names: Iterable[str], answers: Path | None) -> None:
    """Make the models with these names, or all models, and their answers."""
    wanted = set(names)
    folder.mkdir(parents=True, exist_ok=True)
    for model in MODELS:
        if wanted and model.name not in wanted:
            continue
        source = folder / f"{model.name}.onnx"
        onnx.save(model.graph(), str(source))
        for soc in model.socs:
            target = folder / f"{model.name}_{soc}.rknn"
            convert(model, soc, source, target)
            if answers:
                write_answers(answers / f"{target.stem}.json", target)
            print(f"{target}: {target.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the test models.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--answers", type=Path, help="directory of recorded answers")
    args = parser.parse_args()
    make(args.folder.resolve(), args.names, args.answers)


if __name__ == "__main__":
    main()
