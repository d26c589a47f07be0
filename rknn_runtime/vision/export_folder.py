"""The folder that Ultralytics' export to RKNN writes: a model and its ``metadata.yaml``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from rknn_runtime.vision.labels import Labels, names_in, read_yaml

#: Task of Ultralytics -> how our names of its heads end; None: a `Classifier` does it.
TASKS: dict[str, str | None] = {
    "detect": "",
    "segment": "-seg",
    "pose": "-pose",
    "obb": "-obb",
    "classify": None,
}


class ExportFolder(NamedTuple):
    """The content of the folder."""

    #: The only ``.rknn`` file in it.
    model: Path
    labels: Labels
    #: A key of `TASKS`.
    task: str
    #: Height and width of the input in pixels; None: unknown.
    image_size: tuple[int, int] | None


def read_export_folder(folder: str | os.PathLike[str]) -> ExportFolder:
    """Read the folder."""
    path = Path(folder)
    models = sorted(path.glob("*.rknn"))
    if len(models) != 1:
        listed = ", ".join(model.name for model in models) or "none"
        raise ValueError(f"{path}: expected one .rknn file in the folder, got {listed}")
    name = str(path / "metadata.yaml")
    metadata = read_yaml(name)
    labels = names_in(metadata.get("names"), name, "'names'")
    task = metadata.get("task")
    if not isinstance(task, str) or task not in TASKS:
        got = repr(task) if isinstance(task, str) else type(task).__name__
        raise ValueError(f"{name}: expected task: one of {', '.join(TASKS)}, got {got}")
    return ExportFolder(models[0], labels, task, _image_size(metadata.get("imgsz"), name))


def _image_size(value: Any, name: str) -> tuple[int, int] | None:
    if value is None:
        return None
    sizes = value if isinstance(value, list) else [value]
    if len(sizes) not in (1, 2) or not all(
        isinstance(size, str) and re.fullmatch("[1-9][0-9]{0,4}", size) for size in sizes
    ):
        got = sizes if all(isinstance(size, str) for size in sizes) else type(value).__name__
        raise ValueError(f"{name}: expected imgsz: height and width, got {got}")
    return int(sizes[0]), int(sizes[-1])
