"""Cut a network down to the smallest part that is still wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from .judge import draw_inputs
from .network import Case

Judge = Callable[[bytes, Case], Any]


def shrink(case: Case, judge: Judge) -> bytes:
    """Try every part of the graph from the smallest on; return the first one that is wrong."""
    model = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(case.onnx))
    nodes = list(model.graph.node)
    ranges = _ranges(case, model)
    for length in range(1, len(nodes)):
        for begin in range(len(nodes) - length + 1):
            part = _part(model, nodes[begin : begin + length], ranges)
            if part is None:
                continue
            smaller = replace(case, onnx=part[0], inputs=part[1])
            if judge(part[0], smaller).result == "wrong":
                return part[0]
    return case.onnx


def described(network: bytes) -> str:
    """Return the operators and shapes of a network."""
    graph = onnx.load_model_from_string(network).graph
    shapes = [tuple(d.dim_value for d in each.type.tensor_type.shape.dim) for each in graph.input]
    return f"{', '.join(node.op_type for node in graph.node)} of {shapes}"


def _ranges(case: Case, model: Any) -> dict[str, tuple[float, float]]:
    """Return the range of each tensor on the first inputs."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    names = [name for node in whole.graph.node for name in node.output if name]
    del whole.graph.output[:]
    for name in names:
        whole.graph.output.add().name = name
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    given = {name: x for (name, *_), x in zip(case.inputs, draw_inputs(case, 1)[0])}
    found = dict(zip(names, session.run(names, given)))
    return {
        name: (float(np.min(x)), float(np.max(x)))
        for name, x in found.items()
        if x.dtype == np.float32 and x.size
    }


def _part(model: Any, nodes: list[Any], ranges: dict[str, tuple[float, float]]) -> Any:
    """Return a network of neighbouring nodes, and its inputs; None if it cannot stand alone."""
    constants = {each.name: each for each in model.graph.initializer}
    graph = model.graph
    known = {each.name: each for each in (*graph.input, *graph.value_info, *graph.output)}
    made = {name for node in nodes for name in node.output}
    used = dict.fromkeys(name for node in nodes for name in node.input if name)
    inputs = [name for name in used if name not in made and name not in constants]
    later = {name for node in model.graph.node if node not in nodes for name in node.input}
    ends = {each.name for each in model.graph.output}
    left = [name for node in nodes for name in node.output if name in later or name in ends]
    outputs = [name for name in dict.fromkeys(left) if name]
    if not inputs or any(name not in known for name in (*inputs, *outputs)):
        return None
    ready = [known[name] for name in inputs]
    if any(each.type.tensor_type.elem_type != TensorProto.FLOAT for each in ready):
        return None
    cut = helper.make_graph(
        nodes, "part", ready, [known[name] for name in outputs],
        [each for name, each in constants.items() if name in used],
    )  # fmt: skip
    part = helper.make_model(
        cut, opset_imports=list(model.opset_import), ir_version=model.ir_version
    )
    described = tuple(
        (each.name, tuple(d.dim_value for d in each.type.tensor_type.shape.dim),
         *ranges.get(each.name, (-2.0, 2.0)))
        for each in ready
    )  # fmt: skip
    return part.SerializeToString(), described
