"""Find where to cut the ONNX graph of a detector: after the last convolutions of its head.

int8 gives a tensor one scale. After the last convolutions, exporters join boxes in pixels with
scores in 0..1, and such a tensor loses its scores. Cut at the convolutions, each output gets its
own scale, and `Detector` computes the rest on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.conversion.graph import OnnxGraph

#: Operators between the last convolutions and a decoded output.
_BEHIND = frozenset(
    (
        "Add", "And", "ArgMax", "Cast", "Ceil", "Clip", "Concat", "ConstantOfShape", "Cos", "Div",
        "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND",
        "Greater", "GreaterOrEqual", "HardSigmoid", "Identity", "Less", "LessOrEqual", "Log",
        "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "NonMaxSuppression", "NonZero", "Not", "Or",
        "Pad", "Pow", "Range", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Reshape",
        "Round", "ScatterElements", "ScatterND", "Shape", "Sigmoid", "Sin", "Size", "Slice",
        "Softmax", "Softplus", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tanh", "Tile", "TopK",
        "Transpose", "Unsqueeze", "Where", "EfficientNMS_TRT",
    )
)  # fmt: skip
#: Anchors of a cell of YOLOv5.
_ANCHORS = 3
#: Channels of an anchor of YOLOv5-face.
_FACE, _POINTS = 16, 5
#: Channels of boxes with scores, and of 5 or 17 keypoints, of YOLOv7-face and -pose.
_KEYPOINTS = ((18, 45), (18, 153))
#: Bins of a distance of PicoDet and NanoDet.
_GFL_BINS = 8
#: Operators of an activation, which may produce the prototypes of masks.
_ACTIVATIONS = frozenset(("Sigmoid", "Mul", "Relu", "LeakyRelu", "HardSwish", "Clip", "Identity"))


class Scale(NamedTuple):
    """The last convolutions of one grid size."""

    height: int
    width: int
    #: Names and channels: boxes, then classes, then the rest.
    tensors: tuple[tuple[str, int], ...]


class Tail(NamedTuple):
    """The place where a head begins."""

    #: The scales, finest first.
    scales: tuple[Scale, ...]
    #: Outputs of the graph that stay: the prototypes of masks.
    kept: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        ends = tuple(name for scale in self.scales for name, _ in scale.tensors)
        return (*ends, *self.kept)


class _End(NamedTuple):
    """The output of a last convolution."""

    name: str
    channels: int
    size: tuple[int, int]


def find_tail(graph: OnnxGraph) -> Tail | str:
    """Return the last convolutions of a detector, or the reason why it has no known head."""
    kept: list[str] = []
    heads: list[list[_End]] = []
    for output in graph.outputs:
        shape = graph.shape(output)
        ends = _ends(graph, output)
        if isinstance(ends, str):
            if _is_prototype(graph, output, shape):
                kept.append(output)
                continue
            return ends
        if len(ends) == 1 and _is_prototype(graph, output, shape):
            kept.append(output)
        else:
            heads.append(ends)
    if not heads:
        return "no output of the graph is computed from several convolutions, as boxes are"
    order = _order(graph, heads)
    scales = _scales(graph, order)
    if isinstance(scales, str):
        return scales
    return Tail(tuple(_joined(graph, scale) for scale in scales), tuple(kept))


def coefficients_apart(graph: OnnxGraph, tail: Tail) -> Tail:
    """Split the mask coefficients of YOLOv5 off the convolutions, as its decoder wants them.

    This head has one convolution per scale for box, classes and coefficients of each anchor.
    """
    shapes = [graph.shape(name) for name in tail.kept]
    if len(shapes) != 1 or shapes[0] is None or any(len(s.tensors) != 1 for s in tail.scales):
        return tail
    masks, (channels, *others) = shapes[0][1], {scale.tensors[0][1] for scale in tail.scales}
    if others or channels % _ANCHORS or channels // _ANCHORS <= 5 + masks:
        return tail
    numbers = np.arange(channels).reshape(_ANCHORS, -1)
    return _parted(graph, tail, numbers[:, :-masks], numbers[:, -masks:])


def _parted(graph: OnnxGraph, tail: Tail, *parts: Array) -> Tail:
    """Split the one convolution of each scale into these groups of its channels."""
    groups = [part.ravel().tolist() for part in parts]
    scales = []
    for scale in tail.scales:
        names = graph.split_convolution(scale.tensors[0][0], groups)
        scales.append(scale._replace(tensors=tuple(zip(names, map(len, groups)))))
    return tail._replace(scales=tuple(scales))


def has_form_of_faces(tail: Tail) -> bool:
    """Whether each scale is one convolution of as many channels as YOLOv5-face has."""
    ends = {scale.tensors[0] for scale in tail.scales if len(scale.tensors) == 1}
    is_whole = len(ends) == len(tail.scales) and not tail.kept
    return is_whole and {n for _, n in ends} == {_ANCHORS * _FACE}


def points_apart(graph: OnnxGraph, tail: Tail) -> Tail:
    """Split the points of YOLOv5-face off the convolutions, so that they get their scale.

    This head has one convolution per scale for box, objectness, ten numbers of points and the score
    of each anchor. All but the points go through the sigmoid, which tells it from YOLOv5 with
    eleven classes.
    """
    if not has_form_of_faces(tail):
        return tail
    whole = {scale.tensors[0][0] for scale in tail.scales}
    scored = set()
    for node in graph.nodes:
        shape = graph.shape(node.input[0]) if node.op_type == "Sigmoid" else None
        if shape is not None and shape[-1] == _FACE - 2 * _POINTS:
            scored |= _reached(graph, node.input[0], whole)
    if scored != whole:
        return tail
    numbers = np.arange(_ANCHORS * _FACE).reshape(_ANCHORS, _FACE)
    return _parted(graph, tail, numbers[:, [0, 1, 2, 3, 4, 15]], numbers[:, 5:15])


def distributions_apart(graph: OnnxGraph, tail: Tail) -> tuple[Tail, str]:
    """Split the class scores of PicoDet and NanoDet off the distances, so that each gets its scale.

    These heads have one convolution per scale for classes and distributions of 8 bins. The name is
    the head's; ``"auto"`` for other heads.
    """
    counts = set()
    for scale in tail.scales:
        found = [_classes_before_bins(graph, name) for name, _ in scale.tensors]
        counts.add(found[0] if len(found) == 1 else None)
    (count, *others) = counts
    if others or count is None or tail.kept:
        return tail, "auto"
    classes, is_joined = count
    numbers = np.arange(classes + 4 * _GFL_BINS)
    parted = _parted(graph, tail, numbers[classes:], numbers[:classes])
    return parted, "nanodet-plus" if is_joined else "picodet"


def _classes_before_bins(graph: OnnxGraph, tensor: str) -> tuple[int, bool] | None:
    """Return the classes of a convolution that is split into them and into four distributions.

    Also whether both are joined again after the sigmoid, as in NanoDet-Plus.
    """
    readers = [node for node in graph.nodes if tensor in node.input]
    if len(readers) != 1 or readers[0].op_type != "Split" or len(readers[0].output) != 2:
        return None
    scores, bins = readers[0].output
    shapes = [graph.shape(name) or (0, 0) for name in (scores, bins)]
    ends = [node for node in graph.nodes if scores in node.input]
    is_scored = len(ends) == 1 and ends[0].op_type == "Sigmoid"
    if not is_scored or shapes[1][1] != 4 * _GFL_BINS:
        return None
    joints = [node for node in graph.nodes if bins in node.input]
    return shapes[0][1], [node.op_type for node in joints] == ["Concat"]


def _ends(graph: OnnxGraph, output: str) -> list[_End] | str:
    """Walk back from an output to the last convolutions, in the order of the operands."""
    found: dict[str, _End] = {}
    seen: set[str] = set()
    todo = [output]
    while todo:
        tensor = todo.pop()
        node = graph.producer(tensor)
        if tensor in seen or node is None:
            continue
        seen.add(tensor)
        end = _end_at(graph, tensor, node)
        if isinstance(end, str):
            return end
        if end is not None:
            found[tensor] = end
        elif node.op_type == "Constant":
            continue
        elif node.op_type == "Conv" or node.op_type in _BEHIND:
            inputs = node.input[:1] if node.op_type == "Conv" else node.input
            todo += reversed([each for each in inputs if each])
        else:
            return (
                f"{node.op_type} is between output {output!r} and the last convolutions, and no "
                "known head has it there"
            )
    if not found:
        return f"output {output!r} is not computed from convolutions"
    return list(found.values())


def _end_at(graph: OnnxGraph, tensor: str, node: Any) -> _End | str | None:
    """Return the tensor if a head begins there, None if not, or an error."""
    is_scaled = (node.op_type in ("Mul", "Add") and _scaled_convolution(graph, node)) or (
        node.op_type == "Mul" and _learned_scale(graph, node)
    )
    if node.op_type != "Conv" and not is_scaled:
        return None
    if node.op_type == "Conv" and _is_expectation(graph, node):
        return None
    if node.op_type == "Conv" and _is_box_form(graph, node):
        return f"{tensor!r} computes boxes by fixed weights, and no known head has that"
    shape = graph.shape(tensor)
    if shape is None or len(shape) != 4 or shape[0] != 1:
        found = "an open shape" if shape is None else f"shape {list(shape)}"
        return f"{tensor!r}: expected a convolution of [1, channels, height, width], got {found}"
    return _End(tensor, shape[1], (shape[2], shape[3]))


def _is_expectation(graph: OnnxGraph, node: Any) -> bool:
    """Tell whether a convolution weighs bins of a distribution by 0, 1, 2 ..., as DFL does."""
    weights = graph.constant(node.input[1])
    if weights is None or weights.ndim < 3 or weights.shape[0] != 1 or weights.shape[1] < 2:
        return False
    return bool(np.array_equal(weights.ravel(), np.arange(weights.size)))


def _is_box_form(graph: OnnxGraph, node: Any) -> bool:
    """Tell whether a convolution brings the four numbers of a box into another form.

    Half of its weights are zero, as corners or sizes depend on two numbers each, unlike trained
    weights.
    """
    weights = graph.constant(node.input[1])
    return weights is not None and weights.size == 16 and int(np.count_nonzero(weights)) <= 8


def _scaled_convolution(graph: OnnxGraph, node: Any) -> bool:
    """Tell whether a node scales a convolution per channel, as in YOLOR and YOLOv7."""
    for given, other in (node.input, reversed(node.input)):
        values = graph.constant(other)
        before = graph.producer(given)
        if values is None or before is None or before.op_type != "Conv":
            continue
        shape = (1, 1, 1, 1)[: 4 - values.ndim] + values.shape
        if shape[1] > 1 and values.size == shape[1]:
            return True
    return False


def _learned_scale(graph: OnnxGraph, node: Any) -> bool:
    """Tell whether a node multiplies a convolution by a learned number, as in SCRFD and NanoDet.

    A power of two is a stride, or part of a formula.
    """
    for given, other in (node.input, reversed(node.input)):
        value, before = graph.constant(other), graph.producer(given)
        if value is not None and value.size == 1 and before is not None:
            is_power = float(np.log2(abs(value.item()) or 1.0)).is_integer()
            return bool(before.op_type == "Conv" and not is_power)
    return False


def _is_prototype(graph: OnnxGraph, output: str, shape: tuple[int, ...] | None) -> bool:
    """Tell whether an output comes straight from a convolution and its activation."""
    if shape is None or len(shape) != 4 or shape[0] != 1:
        return False
    todo = [output]
    while todo:
        node = graph.producer(todo.pop())
        if node is None or node.op_type not in (*_ACTIVATIONS, "Conv", "ConvTranspose"):
            return False
        if node.op_type not in ("Conv", "ConvTranspose"):
            todo += [each for each in node.input if graph.constant(each) is None]
    return True


def _order(graph: OnnxGraph, heads: list[list[_End]]) -> list[_End]:
    """Order the convolutions of all outputs: boxes, then classes, then the rest."""
    distinct: list[list[_End]] = []
    for ends in heads:
        if not any(set(ends) == set(other) for other in distinct):
            distinct.append(ends)
    if len(distinct) > 1 and _are_alike(distinct):
        # The second output of YOLOv9 is the main branch; the first only helped the training.
        distinct = distinct[-1:]
    ends = list(dict.fromkeys(end for head in distinct for end in head))
    names = {end.name for end in ends}
    joint = _joint(graph, names, {end.size for end in ends}, ends)
    if joint is None:
        return ends
    reached = [_reached(graph, each, names) for each in joint.input]
    last = {end: max(i for i, each in enumerate(reached) if end.name in each) for end in ends}
    return sorted(ends, key=lambda end: last[end])


def _are_alike(heads: Sequence[list[_End]]) -> bool:
    """Tell whether each is a whole head: they have the same form and share no convolution."""
    forms = {tuple(sorted((end.size, end.channels) for end in head)) for head in heads}
    apart = len({end for head in heads for end in head}) == sum(map(len, heads))
    return apart and len(forms) == 1 and len({end.size for end in heads[0]}) > 1


def _joint(graph: OnnxGraph, names: set[str], sizes: set[tuple[int, int]], ends: list[_End]) -> Any:
    """Find the first node that joins boxes and scores of all scales as separate operands."""
    size_of = {end.name: end.size for end in ends}
    for node in graph.nodes:
        if node.op_type != "Concat" or len(node.input) < 2:
            continue
        reached = [_reached(graph, each, names) for each in node.input]
        if set().union(*reached) == names and all(
            {size_of[name] for name in each} == sizes for each in reached
        ):
            return node
    return None


def _reached(graph: OnnxGraph, tensor: str, names: set[str]) -> set[str]:
    """Return the names among `names` that a tensor is computed from."""
    found, seen, todo = set(), set(), [tensor]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in names:
            found.add(name)
            continue
        node = graph.producer(name)
        if node is not None and (node.op_type in _BEHIND or node.op_type == "Conv"):
            todo += [each for each in node.input if each]
    return found


def _scales(graph: OnnxGraph, ends: list[_End]) -> list[Scale] | str:
    """Group convolutions by the size of their grid, finest first."""
    groups: dict[tuple[int, int], list[_End]] = {}
    for end in ends:
        groups.setdefault(end.size, []).append(end)
    scores = {name for node in graph.nodes if node.op_type == "Sigmoid" for name in node.input}
    for group in groups.values():
        if len(group) == 2:  # YOLOv6 also exports them in the other order
            group.sort(key=lambda end: end.name in scores)
    scales = [
        Scale(*size, tuple((end.name, end.channels) for end in group))
        for size, group in sorted(groups.items(), key=lambda item: -item[0][0] * item[0][1])
    ]
    forms = {tuple(channels for _, channels in scale.tensors) for scale in scales}
    if len(scales) < 2:
        return "the last convolutions make one grid; heads of detectors have several"
    if len(forms) != 1 and not _are_proportional(forms):
        listed = "; ".join(
            f"{scale.height}x{scale.width}: {[n for _, n in scale.tensors]}" for scale in scales
        )
        return f"the scales have different channels: {listed}"
    return scales


def _are_proportional(forms: set[tuple[int, ...]]) -> bool:
    """Tell whether scales differ in nothing but the number of anchors, as in SSD."""
    pairs = sorted(forms)
    (first, *_) = pairs
    return all(
        len(form) == len(first) > 1
        and all(a * first[0] == b * form[0] for a, b in zip(form, first))
        for form in pairs
    )


def has_form_of_keypoints(graph: OnnxGraph, tail: Tail) -> bool:
    """Whether each scale is boxes and keypoints of YOLOv7-face or -pose, joined."""
    ends = [scale.tensors[0] for scale in tail.scales if len(scale.tensors) == 1]
    is_joined = all(graph.producer(name).op_type == "Concat" for name, _ in ends)
    channels = {each for _, each in ends}
    return is_joined and len(ends) == len(tail.scales) and channels <= set(map(sum, _KEYPOINTS))


def _joined(graph: OnnxGraph, scale: Scale) -> Scale:
    """Cut YOLOX and YOLOv7-pose after their parts are joined, as their decoders want them.

    One scale is enough for YOLOX, since boxes relative to the grid are as small as scores.
    YOLOv7-pose's anchors have channels of both its parts.
    """
    counts = tuple(channels for _, channels in scale.tensors)
    is_yolox = len(counts) == 3 and not {4, 1} - set(counts)
    names = {name for name, _ in scale.tensors}
    for node in graph.nodes if is_yolox or counts in _KEYPOINTS else ():
        if node.op_type == "Concat" and len(node.input) == len(names):
            reached = [_reached(graph, each, names) for each in node.input]
            if set().union(*reached) == names and all(len(each) == 1 for each in reached):
                return scale._replace(tensors=((node.output[0], sum(counts)),))
    return scale
