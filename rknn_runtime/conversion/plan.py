"""What is to be made of a network: where it is cut, its head, its labels, its input."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rknn_runtime.conversion.cut import Tail, coefficients_apart, find_tail
from rknn_runtime.conversion.facts import exported_facts
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.head import CutHead, head_of
from rknn_runtime.vision.labels import Labels

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True)
class Plan:
    """How a network will be converted."""

    #: The graph that is left; None: no ONNX file.
    onnx: bytes | None
    #: Tensors that it ends in, where it is cut.
    cut: tuple[str, ...]
    head: CutHead | None
    labels: Labels | None
    #: As Ultralytics names it.
    task: str | None
    #: Height and width of the input; None: no image.
    size: tuple[int, int] | None
    channels: int
    #: ``"RGB"``, ``"BGR"`` or ``"GRAY"``.
    color: str
    operators: dict[str, int]
    notes: tuple[str, ...]


def plan_of(
    model: Path,
    load: Mapping[str, Any],
    keep_graph: bool,
    head: str,
    labels: Labels | str | os.PathLike[str] | None,
    color: str,
) -> Plan:
    """Read a network and decide.

    Raises:
        InvalidModelError: its file cannot be read.
        OSError: a file cannot be read.
        ValueError: its shapes are open, or `head` or `labels` do not fit.
    """
    named = _labels(labels)
    if model.suffix.lower() != ".onnx":
        return _handed_through(load, named, color)
    graph = OnnxGraph.read(model, load.get("inputs"), load.get("input_size_list"))
    facts = exported_facts(graph.metadata)
    named = facts.get("labels") if named is None else named
    task = facts.get("task")
    size, channels = _image(graph)
    notes: list[str] = []
    tail: Tail | str = "it was not asked for" if keep_graph else find_tail(graph)
    if "outputs" in load:
        tail = "load outputs=[...] says where the network ends"
    found: CutHead | None = None
    count = None if named is None else len(named)
    if isinstance(tail, Tail) and size is not None:
        whole = tail
        try:
            tail = coefficients_apart(graph, whole)
            found = head_of(graph, tail, size, head=head, num_classes=count, task=task, whole=whole)
        except ValueError as error:
            if head != "auto":
                raise
            notes.append(f"not cut: {error}")
            tail = ""
    elif not keep_graph and task != "classify" and isinstance(tail, str):
        notes.append(f"not cut: {tail}")
    ends = tail.outputs if isinstance(tail, Tail) and found is not None else ()
    has_anchors = found is not None and found.name.startswith(("yolov5", "yolov7"))
    if found is not None and has_anchors and "anchors" not in found.options:
        notes.append("the anchors are not in the graph: those of YOLOv5 are assumed")
    outputs = ends or tuple(load.get("outputs") or graph.outputs)
    _check_outputs(graph, outputs)
    onnx = graph.cut(outputs)
    left = OnnxGraph(onnx, str(model)).operators()
    gray = "GRAY" if channels == 1 else color
    return Plan(onnx, ends, found, named, task, size, channels, gray, left, tuple(notes))


def _handed_through(load: Mapping[str, Any], labels: Labels | None, color: str) -> Plan:
    """Other files than ONNX are the toolkit's to read."""
    size, channels = None, 3
    shapes = load.get("input_size_list")
    if isinstance(shapes, list) and len(shapes) == 1 and len(shapes[0]) == 4:
        _, channels, height, width = shapes[0]
        size = (int(height), int(width))
    note = "only ONNX files are looked into: nothing is cut, and no head is found"
    return Plan(None, (), None, labels, None, size, channels, color, {}, (note,))


def _labels(labels: Labels | str | os.PathLike[str] | None) -> Labels | None:
    if isinstance(labels, (str, os.PathLike)):
        from rknn_runtime.vision.label_files import read_labels

        return read_labels(labels)
    return labels


def _image(graph: OnnxGraph) -> tuple[tuple[int, int] | None, int]:
    """Height and width of the input, if it is one image, and its channels."""
    for name, shape in graph.inputs.items():
        if shape is None or None in shape:
            shown = "?" if shape is None else list(shape)
            raise ValueError(
                f"model: expected fixed shapes, got {shown} of input {name!r} (None is open): "
                "export with a fixed size, or say it: load inputs=['...'] and "
                "input_size_list=[[1, 3, 640, 640]]"
            )
    shapes = list(graph.inputs.values())
    if len(shapes) != 1 or shapes[0] is None or len(shapes[0]) != 4:
        return None, 0
    _, channels, height, width = shapes[0]
    if channels not in (1, 3) or height is None or width is None:
        return None, channels or 0
    return (height, width), channels


def _check_outputs(graph: OnnxGraph, names: tuple[str, ...]) -> None:
    for name in names:
        if graph.producer(name) is None:
            raise ValueError(f"outputs: expected names of tensors of the graph, got {name!r}")
