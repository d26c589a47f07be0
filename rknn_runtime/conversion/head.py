"""Find the head of a cut graph, and the options for its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime.conversion.cut import Tail
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.enums import TensorType
from rknn_runtime.sim.describe import describe_output
from rknn_runtime.tensor import TensorAttr
from rknn_runtime.vision.heads.anchors import YOLOV7_ANCHORS
from rknn_runtime.vision.heads.find import Reading, find_head

#: Tasks of Ultralytics, and the endings of the names of their heads.
_ENDINGS = {"segment": "-seg", "pose": "-pose", "obb": "-obb"}
#: Heads whose decoders take scores after the sigmoid.
_WITH_SIGMOID = ("yolox",)


class CutHead(NamedTuple):
    """The head of a cut graph, as `Detector` finds it."""

    name: str
    num_classes: int | None
    #: Options for the decoder, for any type of outputs.
    options: dict[str, Any]
    #: Whether scores are logits, which float outputs leave open.
    logits: bool


def head_of(
    graph: OnnxGraph,
    tail: Tail,
    size: tuple[int, int],
    *,
    head: str = "auto",
    num_classes: int | None = None,
    task: str | None = None,
    whole: Tail | None = None,
) -> CutHead:
    attrs = [_attr(graph, name, index) for index, name in enumerate(tail.outputs)]
    ending = _ENDINGS.get(task or "", "")
    try:
        reading = _reading(attrs, size, head, num_classes, ending)
    except ValueError:
        # Anchors tell YOLOv5 from YOLOv8, but not from YOLOv7 with keypoints.
        has_anchors = head == "auto" and anchors_in(graph, whole or tail) is not None
        if not has_anchors or attrs[0].shape[1] in (63, 171):
            raise
        reading = find_head(attrs, size, "yolov5", num_classes)
    name, options = reading.head, {}
    if name in ("yolov5", "yolov7", "yolov5-seg", "yolov5-face", "yolov7-pose"):
        anchors = anchors_in(graph, whole or tail, with_points=name == "yolov5-face")
        if anchors is not None:
            options["anchors"] = anchors
            is_v7 = head == "auto" and name == "yolov5" and _are(anchors, YOLOV7_ANCHORS)
            name = "yolov7" if is_v7 else name
    return CutHead(name, reading.num_classes, options, name not in _WITH_SIGMOID)


def head_at_end(
    graph: OnnxGraph,
    size: tuple[int, int],
    *,
    head: str = "auto",
    num_classes: int | None = None,
    task: str | None = None,
) -> CutHead | None:
    """Find the head of a graph that already has separate boxes and scores for each scale.

    Exports of the vendor's forks of the YOLO repositories have this form.
    """
    shapes = [graph.shape(name) for name in graph.outputs]
    grids = [shape[2:] for shape in shapes if shape is not None and len(shape) == 4]
    several = {grid for grid in grids if grids.count(grid) > 1}
    if len(grids) != len(shapes) or len(several) < 2:
        return None
    tail = Tail((), tuple(graph.outputs))
    try:
        found = head_of(graph, tail, size, head=head, num_classes=num_classes, task=task)
    except ValueError:
        return None
    has_sigmoid = any(_is(graph.producer(name), "Sigmoid") for name in graph.outputs)
    return found._replace(logits=found.logits and not has_sigmoid)


def queries_at_end(
    graph: OnnxGraph, size: tuple[int, int], *, head: str, num_classes: int | None
) -> CutHead | None:
    """Find RT-DETR's head at the end of a graph, whose transformer cannot be cut off."""
    tail = Tail((), tuple(graph.outputs))
    if any(graph.shape(name) is None for name in tail.outputs):
        return None
    try:
        found = head_of(graph, tail, size, head=head, num_classes=num_classes)
    except ValueError:
        return None
    if not found.name.startswith("rt-detr"):
        return None
    if found.name == "rt-detr-single":
        return found._replace(logits=False)
    scores = [name for name in graph.outputs if (graph.shape(name) or ())[-1:] != (4,)]
    has_sigmoid = _is(_end_of(graph, (scores or graph.outputs)[-1]), "Sigmoid")
    return found._replace(logits=False, options={"logits": not has_sigmoid})


def read_as(
    graph: OnnxGraph, outputs: Sequence[str], size: tuple[int, int], num_classes: int | None
) -> str | None:
    """Return the head that `Detector` finds in outputs; None if it reads none."""
    if any(graph.shape(name) is None for name in outputs):
        return None
    attrs = [_attr(graph, name, index) for index, name in enumerate(outputs)]
    try:
        return find_head(attrs, size, "auto", num_classes).head
    except ValueError:
        return None


def _end_of(graph: OnnxGraph, name: str) -> Any:
    """Return the node that computes a tensor; None: it is an input."""
    node = graph.producer(name)
    return _end_of(graph, node.input[0]) if _is(node, "Identity") else node


def _is(node: Any, *operators: str) -> bool:
    return node is not None and node.op_type in operators


def _attr(graph: OnnxGraph, name: str, index: int) -> TensorAttr:
    """Describe an output as int8 will store it; its range tells logits from probabilities.

    The name is the layer's, which says more than a numbered tensor.
    """
    shape, node, end = graph.shape(name), graph.producer(name), _end_of(graph, name)
    assert shape is not None
    zero_point, scale = (-128, 1 / 255) if _is(end, "Sigmoid", "Clip") else (0, 0.125)
    if _is(end, "Concat") and any(_is(graph.producer(part), "Sigmoid") for part in end.input):
        scale = 1 / 64  # boxes and probabilities
    layer = name if node is None else node.name or name
    return describe_output(
        layer, shape, index=index, dtype=TensorType.INT8, zero_point=zero_point, scale=scale
    )


def _reading(
    attrs: Sequence[TensorAttr],
    size: tuple[int, int],
    head: str,
    num_classes: int | None,
    ending: str,
) -> Reading:
    reading: Reading | None = None
    try:
        reading = find_head(attrs, size, head, num_classes)
        if head != "auto" or ending in reading.head:
            return reading
    except ValueError:
        if head != "auto" or not ending:
            raise
    # The task of the graph says more than the outputs.
    return find_head(attrs, size, f"yolov8{ending}", num_classes)


def anchors_in(
    graph: OnnxGraph, tail: Tail, *, with_points: bool = False
) -> list[list[list[float]]] | None:
    """Read the anchors, in pixels, from the multiplications of widths and heights.

    `with_points`: points are multiplied by anchors, too; sizes are those that were doubled before.

    Returns:
        ``[scale][anchor][width, height]``, finest first; None if they are not constants.
    """
    ends = {name: i for i, scale in enumerate(tail.scales) for name, _ in scale.tensors}
    found: dict[int, list[list[float]]] = {}
    for node in graph.nodes:
        if node.op_type != "Mul":
            continue
        for given, other in (node.input, node.input[::-1]):
            values = graph.value(other)
            sizes = None if values is None else _sizes(values)
            scale = None if sizes is None else _scale_of(graph, given, ends)
            if sizes is not None and scale is not None:
                # (2 wh)^2 * anchor in YOLOv5's graphs, wh^2 * (4 anchor) in YOLOv7's.
                factor = 1.0 if _is_doubled(graph, given) else 4.0
                if with_points and factor != 1:
                    continue
                found[scale] = [[side / factor for side in pair] for pair in sizes]
    if not found or set(found) != set(range(len(tail.scales))):
        return None
    return [found[i] for i in range(len(tail.scales))]


def _sizes(values: Any) -> list[list[float]] | None:
    """Return anchors of ``[1, anchors, ..., 2]`` if all cells have the same, else None."""
    if values.ndim < 3 or values.shape[-1] != 2 or values.dtype.kind != "f":
        return None
    cells = values.reshape(values.shape[-4] if values.ndim > 3 else values.shape[0], -1, 2)
    if len(cells) < 2 or not np.array_equal(cells, np.broadcast_to(cells[:, :1], cells.shape)):
        return None
    sizes: list[list[float]] = cells[:, 0].astype(float).round(4).tolist()
    return sizes


def _is_doubled(graph: OnnxGraph, tensor: str) -> bool:
    """Tell whether a tensor was multiplied by 2 after it was split off."""
    node = graph.producer(tensor)
    while node is not None and node.op_type in ("Mul", "Pow"):
        values = [graph.value(each) for each in node.input]
        if node.op_type == "Mul" and any(v is not None and np.all(v == 2) for v in values):
            return True
        (before, *_) = [each for each, v in zip(node.input, values) if v is None]
        node = graph.producer(before)
    return False


def _scale_of(graph: OnnxGraph, tensor: str, ends: dict[str, int]) -> int | None:
    """Return the scale that a tensor is computed from; None if there are none or several."""
    seen, todo, scales = set(), [tensor], set()
    while todo:
        name = todo.pop()
        if name in ends:
            scales.add(ends[name])
        elif name not in seen and (node := graph.producer(name)) is not None:
            seen.add(name)
            todo += list(node.input)
    return scales.pop() if len(scales) == 1 else None


def _are(anchors: Sequence[Any], known: Sequence[Any]) -> bool:
    return np.shape(anchors) == np.shape(known) and bool(np.allclose(anchors, known))
