"""Small networks with the inputs and outputs of well-known ones, converted by the vendor's toolkit.

The toolkit is the one in the user's cache, which ``make test-convert`` installs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rknn_runtime.conversion.remote import RKNN


class Graph:
    """An ONNX graph in the making, with random weights."""

    def __init__(self, name: str, shape: Sequence[int | str]) -> None:
        self.random = np.random.default_rng(21)
        self.inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def weight(self, *shape: int) -> str:
        values = self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        self.weights.append(
            numpy_helper.from_array(values.astype(np.float32), f"w{len(self.weights)}")
        )
        return self.weights[-1].name

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: object) -> str:
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def conv(self, source: str, ins: int, outs: int, *, stride: int = 1, side: int = 3) -> str:
        size = [side, side]
        pads = [side // 2] * 4
        weight = self.weight(outs, ins, *size)
        return self.node("Conv", source, weight, kernel_shape=size, pads=pads, strides=[stride] * 2)

    def out(self, name: str, shape: Sequence[int]) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def save(self, path: Path) -> Path:
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)])
        model.ir_version = 7
        onnx.save(model, str(path))
        return path


def vector_network(path: Path, name: str, side: int, count: int, *, is_open: bool = False) -> Path:
    """Write a network from an image, of any size if open, to a vector: CLIP, ArcFace, ResNet."""
    size: list[int | str] = ["height", "width"] if is_open else [side, side]
    graph = Graph(name, [1, 3, *size])
    now = name
    for ins, outs in ((3, 8), (8, 16), (16, 32)):
        now = graph.node("Relu", graph.conv(now, ins, outs, stride=2))
    now = graph.node("Flatten", graph.node("GlobalAveragePool", now))
    now = graph.node("Gemm", now, graph.weight(count, 32), transB=1, output="embedding")
    graph.out(now, (1, count))
    return graph.save(path)


def text_network(path: Path) -> Path:
    """Write a network from 77 numbers of words to a vector, as CLIP's for text."""
    graph = Graph("text", (1, 77))
    graph.inputs = [helper.make_tensor_value_info("text", TensorProto.INT32, (1, 77))]
    words = graph.node("Gather", graph.weight(64, 32), "text", axis=0)
    flat = numpy_helper.from_array(np.array([1, 77 * 32]), "flat")
    graph.weights.append(flat)
    now = graph.node("Reshape", words, "flat")
    now = graph.node("Gemm", now, graph.weight(512, 77 * 32), transB=1, output="embedding")
    graph.out(now, (1, 512))
    return graph.save(path)


def scrfd_network(path: Path) -> Path:
    """Write a network with the nine outputs of SCRFD: scores, boxes and points of three scales."""
    graph = Graph("input.1", (1, 3, 640, 640))
    now = "input.1"
    for ins, outs in ((3, 8), (8, 8)):
        now = graph.node("Relu", graph.conv(now, ins, outs, stride=2))
    scales = []
    for _ in range(3):
        now = graph.node("Relu", graph.conv(now, 8, 8, stride=2))
        scales.append(now)
    for values in (1, 4, 10):
        for stride, scale in zip((8, 16, 32), scales):
            cells = (640 // stride) ** 2 * 2
            tensor = graph.conv(scale, 8, 2 * values, side=1)
            tensor = graph.node("Transpose", tensor, perm=[0, 2, 3, 1])
            shape = numpy_helper.from_array(np.array([-1, values]), f"s{values}_{stride}")
            graph.weights.append(shape)
            name = f"out{values}_{stride}"
            if values == 1:
                tensor = graph.node("Sigmoid", tensor)
            graph.out(graph.node("Reshape", tensor, shape.name, output=name), (cells, values))
    return graph.save(path)


def memory_network(path: Path) -> Path:
    """Write a network with the inputs and outputs of Silero VAD: sound and two memories."""
    graph = Graph("x", (1, 512))
    shape = numpy_helper.from_array(np.array([2, 1, 64]), "shape")
    flat = numpy_helper.from_array(np.array([1, 128]), "flat")
    graph.weights += [shape, flat]
    for name in ("h", "c"):
        graph.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 1, 64)))
    parts = ["x", *(graph.node("Reshape", name, "flat") for name in ("h", "c"))]
    now = graph.node("Concat", *parts, axis=1)
    now = graph.node("Tanh", graph.node("Gemm", now, graph.weight(128, 768), transB=1))
    score = graph.node("Gemm", now, graph.weight(1, 128), transB=1)
    graph.out(graph.node("Sigmoid", score, output="prob"), (1, 1))
    for name in ("new_h", "new_c"):
        value = graph.node("Tanh", graph.node("Gemm", now, graph.weight(128, 128), transB=1))
        graph.out(graph.node("Reshape", value, "shape", output=name), (2, 1, 64))
    return graph.save(path)


def converted(onnx_path: Path, **config: object) -> Path:
    """Convert a network to float16 for the RK3588."""
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588", **config) == 0
    assert rknn.load_onnx(model=str(onnx_path)) == 0
    assert rknn.build(do_quantization=False) == 0
    path = onnx_path.with_suffix(".rknn")
    assert rknn.export_rknn(str(path)) == 0
    rknn.release()
    return path


#: The networks of Immich that take images: CLIP, face detection, face recognition.
IMMICH: dict[str, Callable[[Path], Path]] = {
    "CLIP": lambda path: vector_network(path, "image", 224, 512),
    "SCRFD": scrfd_network,
    "ArcFace": lambda path: vector_network(path, "input.1", 112, 512),
}
