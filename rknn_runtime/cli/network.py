"""Describe an ONNX file for ``info``: inputs, outputs, and what `convert` would make of it."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rknn_runtime._files import printable_lines
from rknn_runtime.cli.files import check_readable, line_of, told
from rknn_runtime.cli.options import refusals, tell
from rknn_runtime.cli.tables import table
from rknn_runtime.errors import RknnError
from rknn_runtime.vision.tasks import TASKS


def run(models: Sequence[str], arguments: Namespace) -> int:
    failed = 0
    for model in models:
        try:
            check_readable(model)
            with refusals():
                said = _described(Path(model), arguments)
        except OSError as error:  # perhaps about the file of its weights
            failed = 1
            tell(line_of(error))
        except RknnError as error:
            failed = 1
            tell(told(model, error))
        else:
            print(json.dumps(said) if arguments.json else printable_lines(_page(said)))
    return failed


def _described(model: Path, arguments: Namespace) -> dict[str, Any]:
    from rknn_runtime.conversion.graph import OnnxGraph
    from rknn_runtime.conversion.plan import load_of_shapes, plan_of

    load = load_of_shapes(model, arguments.imgsz, dict(arguments.shape))
    graph = OnnxGraph.read(model, load.get("inputs"), load.get("input_size_list"))
    said: dict[str, Any] = {
        "file": str(model),
        "nodes": len(graph.nodes),
        "inputs": {name: shape and list(shape) for name, shape in graph.inputs.items()},
        "outputs": {name: list(graph.shape(name) or ()) or None for name in graph.outputs},
        "cut": [], "head": None, "task": None, "classes": None, "notes": [],
    }  # fmt: skip
    try:
        plan = plan_of(model, load, False, "auto", None, "RGB")
    except ValueError as error:
        said["notes"].append(str(error))
        return said
    named = None if plan.labels is None else len(plan.labels)
    said.update(
        cut=list(plan.cut),
        head=plan.head.name if plan.head else plan.read_as,
        task=plan.task,
        classes=plan.head.num_classes if plan.head and named is None else named,
        notes=list(plan.notes),
    )
    return said


def _page(said: dict[str, Any]) -> list[str]:
    rows = [("file", f"{said['file']}, {said['nodes']} nodes")]
    for word in ("inputs", "outputs"):
        for name, shape in said[word].items():
            rows.append((word[:-1], f"{name} {_shape(shape)}"))
    rows.append(("head", said["head"] or "none that Detector reads"))
    if said["task"] in TASKS:
        rows.append(("read by", TASKS[said["task"]].name))
    if said["classes"] is not None:
        rows.append(("classes", str(said["classes"])))
    rows.append(("cut at", ", ".join(said["cut"]) or "nothing is cut off"))
    return [*table(rows), *(f"note: {note}" for note in said["notes"])]


def _shape(shape: list[int | None] | None) -> str:
    sizes = ("open" if size is None else str(size) for size in shape or ())
    return f"[{', '.join(sizes)}]" if shape else "of any shape"
