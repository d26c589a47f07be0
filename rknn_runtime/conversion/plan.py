"""The plan of a conversion: where the network is cut, its head, its labels, its input."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rknn_runtime.conversion.conventions import (
    TEXT_LINE,
    Convention,
    convention_of,
    text_facts,
)
from rknn_runtime.conversion.cut import (
    coefficients_apart,
    distributions_apart,
    find_tail,
    has_form_of_faces,
    has_form_of_keypoints,
    points_apart,
)
from rknn_runtime.conversion.graph import OnnxGraph
from rknn_runtime.conversion.head import CutHead, head_at_end, head_of, queries_at_end, read_as
from rknn_runtime.vision.heads.faces import FACES
from rknn_runtime.vision.labels import Labels, read_labels

#: The toolkit's limit is below 1024 bytes.
MAX_CUSTOM_BYTES = 1023


@dataclass(frozen=True)
class Plan:
    """How a network will be converted."""

    #: The cut network; None for other files than ONNX.
    onnx: bytes | None
    #: The tensors at the cut.
    cut: tuple[str, ...]
    head: CutHead | None
    labels: Labels | None
    #: The task, as Ultralytics names it.
    task: str | None
    #: Height and width of the input; None if it is no image.
    size: tuple[int, int] | None
    channels: int
    #: ``"RGB"``, ``"BGR"`` or ``"GRAY"``.
    color: str
    operators: dict[str, int]
    #: Arguments for the toolkit's ``load_...``.
    load: dict[str, Any]
    notes: tuple[str, ...]
    #: What its family expects of pixels; None if it is not known.
    family: Convention | None = None
    #: One for each class of a text recognizer but the blank and the space; None if not known.
    characters: str | None = None
    #: The head that `Detector` finds in the outputs of an uncut network.
    read_as: str | None = None
    #: The name of an image among several inputs.
    image: str | None = None

    @property
    def fit(self) -> str:
        """How images lie in the input, as `ImageWriter` takes it."""
        is_line = self.family == TEXT_LINE or self.task == "text-recognition"
        return "line" if is_line else "center"


def plan_of(
    model: Path,
    load: Mapping[str, Any],
    keep_graph: bool,
    head: str,
    labels: Labels | str | os.PathLike[str] | None,
    color: str | None,
    task: str | None = None,
) -> Plan:
    """Read a network and plan its conversion.

    The default colour is its family's, or RGB; the default task its family's or its metadata's.
    """
    names = named(labels)
    if model.suffix.lower() != ".onnx":
        return replace(_handed_through(load, names, color or "RGB"), task=task)
    graph = OnnxGraph.read(model, load.get("inputs"), load.get("input_size_list"))
    _check_shapes(graph)
    facts = exported_facts(graph.metadata)
    names = facts.get("labels") if names is None else names
    said, task = task, task or facts.get("task")
    cut: tuple[str, ...] = ()
    found: CutHead | None = None
    notes: list[str] = []
    if graph.has_open_batch:
        notes.append("one image at a time, as the file leaves their number open")
    if not keep_graph and "outputs" not in load and said in (None, "detect"):
        count = None if names is None else len(names)
        try:
            cut, found, more = _cut(graph, head, count, task)
            notes += more
        except ValueError as error:
            if head != "auto":
                raise
            if task != "classify":
                notes.append(f"not cut: {error}")
    if names is None and found is not None and found.name in FACES:
        names = ["face"]
    outputs = cut or tuple(load.get("outputs") or graph.outputs)
    for name in outputs:
        if graph.producer(name) is None:
            raise ValueError(f"outputs: expected names of tensors of the graph, got {name!r}")
    onnx = graph.cut(outputs)
    inputs = graph.inputs_of(outputs)
    size, channels = _image(inputs)
    family = convention_of(graph, found, size, channels)
    text = text_facts(graph, family) if found is None else {}
    if text:  # which nobody expects to be cut
        notes = [note for note in notes if not note.startswith("not cut:")]
    task = task or text.get("task")
    color = color or ("RGB" if family is None else family.color)
    gray = "GRAY" if channels == 1 else color
    left = graph.operators(outputs)
    seen = None
    if found is None and size is not None and task in (None, "detect"):
        seen = read_as(graph, outputs, size, None if names is None else len(names))
    image = next(
        (n for n, s in inputs.items() if s is not None and len(s) == 4 and s[1] == 3), None
    )
    rest = _load_of(load, set(graph.inputs) - set(inputs))
    notes += _padded_averages(graph)
    return Plan(
        onnx, cut, found, names, task, size, channels, gray, left, rest, tuple(notes), family,
        text.get("characters"), seen, image if len(inputs) > 1 else None,
    )  # fmt: skip


def _cut(
    graph: OnnxGraph, head: str, num_classes: int | None, task: str | None
) -> tuple[tuple[str, ...], CutHead, list[str]]:
    """Return the tensors to cut at, none if the graph already ends there; the head; notes."""
    kind: dict[str, Any] = {"head": head, "num_classes": num_classes, "task": task}
    size, _ = _image(graph.inputs)
    already = None if size is None else head_at_end(graph, size, **kind)
    if already is not None:
        return (), already, ["not cut: boxes and scores are already separate outputs"]
    tail = find_tail(graph)
    if isinstance(tail, str):
        whole = None
        if size is not None:
            whole = queries_at_end(graph, size, head=head, num_classes=num_classes)
        if whole is None:
            raise ValueError(tail)
        return (), whole, [f"not cut: {tail}"]
    size, _ = _image(graph.inputs_of(tail.outputs))
    if size is None:
        raise ValueError("the boxes are not computed from one image alone")
    parted = coefficients_apart(graph, tail)
    if parted != tail and head == "auto":
        kind["head"] = "yolov5-seg"
    elif head in ("auto", "yolov5-face") and (faces := points_apart(graph, tail)) != tail:
        parted, kind["head"] = faces, "yolov5-face"
    elif head == "auto" and has_form_of_faces(tail):  # of eleven classes
        kind["head"] = "yolov5"
    elif head == "auto" and has_form_of_keypoints(graph, tail):
        kind["head"] = "yolov7-pose"
    elif head in ("auto", "picodet", "nanodet", "nanodet-plus"):
        parted, name = distributions_apart(graph, tail)
        kind["head"] = name if head == "auto" else head
    found = head_of(graph, parted, size, **kind, whole=tail)
    notes = []
    if found.name.startswith(("yolov5", "yolov7")) and "anchors" not in found.options:
        others = {"yolov5-face": "YOLOv5-face", "yolov7-pose": "YOLOv7-face or -W6-pose"}
        family = others.get(found.name, "YOLOv5")
        notes.append(f"the anchors are not in the graph: those of {family} are assumed")
    return parted.outputs, found, notes


def _padded_averages(graph: OnnxGraph) -> list[str]:
    """Find averages of the whole input whose padding rknn-toolkit2 2.3.2 forgets.

    This is the one fault that the file alone cannot show.
    """
    found = []
    for node in graph.nodes:
        given = {each.name: list(each.ints) for each in node.attribute}
        shape = graph.shape(node.input[0]) if node.op_type == "AveragePool" else None
        if shape and any(given.get("pads", ())) and given["kernel_shape"] == list(shape[2:]):
            found.append(
                f"AveragePool {node.name}: a fault of rknn-toolkit2 2.3.2, on boards too: it "
                "averages the whole input and forgets the padding; use a depthwise Conv with "
                "equal weights"
            )
    return found


def _load_of(load: Mapping[str, Any], gone: set[str]) -> dict[str, Any]:
    """Return the arguments for loading that still apply to a cut graph."""
    rest = {name: value for name, value in load.items() if name != "outputs"}
    for name in ("input_size_list", "input_initial_val", "inputs"):
        if name in rest and "inputs" in load:
            pairs = zip(load["inputs"], rest[name])
            rest[name] = [value for given, value in pairs if given not in gone]
    return rest


def _handed_through(load: Mapping[str, Any], labels: Labels | None, color: str) -> Plan:
    size, channels = None, 3
    shapes = load.get("input_size_list")
    if isinstance(shapes, list) and len(shapes) == 1 and len(shapes[0]) == 4:
        _, channels, height, width = shapes[0]
        size = (int(height), int(width))
    note = "not an ONNX file: it is not cut, and its head is not looked for"
    return Plan(None, (), None, labels, None, size, channels, color, {}, dict(load), (note,))


def named(labels: Labels | str | os.PathLike[str] | None) -> Labels | None:
    """Return the names of classes, which may be in a file."""
    return read_labels(labels) if isinstance(labels, (str, os.PathLike)) else labels


def _check_shapes(graph: OnnxGraph) -> None:
    """Refuse open shapes, and suggest arguments."""
    shapes = {name: shape or () for name, shape in graph.inputs.items()}
    if all(shape is not None and None not in shape for shape in graph.inputs.values()):
        return
    shown = ", ".join(f"{list(shape)} of {name!r}" for name, shape in shapes.items())
    exported = re.fullmatch(r"\[(\d{1,5}), (\d{1,5})\]", graph.metadata.get("imgsz", ""))
    usual = (1, 640, *(map(int, exported.groups()) if exported else (640, 640)))
    sizes = [
        [size or (usual[i] if i < len(usual) else 640) for i, size in enumerate(shape)]
        for shape in shapes.values()
    ]
    image = ",".join(map(str, dict.fromkeys(usual[2:])))
    name, first = next(iter(shapes)), ",".join(map(str, sizes[0]))
    raise ValueError(
        f"model: expected fixed shapes, got {shown} (None is open): give --imgsz {image} or "
        f"--shape {name}:{first}; in Python load={{'inputs': {list(shapes)}, "
        f"'input_size_list': {sizes}}}"
    )


def load_of_shapes(
    model: Path, image: Sequence[int] | None, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Return the arguments of ``load_onnx`` that fix the open shapes of a network's inputs.

    `image` is height and width of its images, `shapes` has whole shapes by the names of inputs.
    """
    if image is None and not shapes:
        return {}
    if model.suffix.lower() != ".onnx":
        raise ValueError(f"--imgsz, --shape: expected an .onnx file, got {model}")
    graph = OnnxGraph.read(model)
    unknown = set(shapes) - set(graph.inputs)
    if unknown:
        raise ValueError(f"--shape: expected {' or '.join(graph.inputs)}, got {min(unknown)!r}")
    found = {}
    for name, shape in graph.inputs.items():
        said = list(shape or shapes.get(name, ()))
        wanted = list(shapes.get(name, said))
        if name not in shapes and len(said) == 4 and image is not None:
            wanted[2:] = image
        wanted = [1 if size is None and i == 0 else size for i, size in enumerate(wanted)]
        if len(said) != len(wanted) or any(s not in (None, w) for s, w in zip(said, wanted)):
            raise ValueError(f"{name!r}: expected a shape as in the file, {said}, got {wanted}")
        if None in wanted:
            raise ValueError(f"{name!r}: expected --shape {name}:..., as {said} is open, got none")
        found[name] = wanted
    return {"inputs": list(found), "input_size_list": list(found.values())}


def _image(
    inputs: Mapping[str, tuple[int | None, ...] | None],
) -> tuple[tuple[int, int] | None, int]:
    """Return height and width of the input, if it is one image, and its channels."""
    shapes = list(inputs.values())
    if len(shapes) != 1 or shapes[0] is None or len(shapes[0]) != 4:
        return None, 0
    _, channels, height, width = shapes[0]
    if channels not in (1, 3) or height is None or width is None:
        return None, channels or 0
    return (height, width), channels


def exported_facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the ``labels`` (a list) and the ``task`` that metadata of Ultralytics has."""
    facts: dict[str, Any] = {}
    try:
        names = ast.literal_eval(metadata.get("names", ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        names = None
    if isinstance(names, dict) and sorted(names) == list(range(len(names))):
        names = [names[i] for i in range(len(names))]
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        facts["labels"] = names
    if metadata.get("task") in ("detect", "segment", "pose", "obb", "classify"):
        facts["task"] = metadata["task"]
    return facts


def custom_string(
    head: CutHead | None,
    labels: Labels | None,
    task: str | None,
    size: tuple[int, int] | None,
    color: str,
    *,
    characters: str | None = None,
) -> tuple[str, bool]:
    """Write the custom string that tells `Detector` the head, the labels and the input.

    The file says whether scores are logits. Ranges of outputs do not show it if all scores are low,
    or if the outputs are float16, as an int8 file's may be.

    Returns:
        JSON, and whether it has the labels or characters, which may be too long.
    """
    said: dict[str, Any] = {}
    if head is not None:
        options = dict(head.options)
        if head.logits:
            options["logits"] = True
        said["head"] = head.name
        if options:
            said["options"] = options
    if task is not None:
        said["task"] = task
    # Nothing about a network that is no detector or classifier: programs write other texts.
    if size is not None and (said or labels is not None or color != "RGB"):
        said["input"] = {"width": size[1], "height": size[0], "color": color}
    if not said and labels is None:
        return "", True
    names: dict[str, Any] = {} if characters is None else {"characters": characters}
    if labels is not None:
        names = {"labels": labels if isinstance(labels, dict) else list(labels)}
    whole = _json({**names, **said})
    if names and len(whole.encode()) > MAX_CUSTOM_BYTES:
        return _json(said), False
    return whole, True


def _json(said: dict[str, Any]) -> str:
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
