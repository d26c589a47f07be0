"""The folder that Ultralytics' export to RKNN leaves: a model, and ``metadata.yaml`` beside it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from rknn_runtime.vision.flat_yaml import FlatYaml
from rknn_runtime.vision.label_files import names_of_yaml, read_yaml
from rknn_runtime.vision.labels import Labels

__all__ = ["TASKS", "ExportFolder", "read_export_folder"]

#: Tasks of Ultralytics, and how the names of their heads end here; None: `Classifier`'s.
TASKS: dict[str, str | None] = {
    "detect": "",
    "segment": "-seg",
    "pose": "-pose",
    "obb": "-obb",
    "classify": None,
}


class ExportFolder(NamedTuple):
    """What the folder says."""

    #: The one ``.rknn`` file in it.
    model: Path
    labels: Labels
    #: A key of `TASKS`.
    task: str
    #: Height and width of the input in pixels; None where it is not said.
    image_size: tuple[int, int] | None


def read_export_folder(folder: str | os.PathLike[str]) -> ExportFolder:
    """Read the folder.

    Raises:
        OSError: It, or its ``metadata.yaml``, cannot be read.
        ValueError: It has not one ``.rknn`` file, or the metadata are not as Ultralytics writes
            them.
    """
    path = Path(folder)
    models = sorted(path.glob("*.rknn"))
    if len(models) != 1:
        listed = ", ".join(model.name for model in models) or "none"
        raise ValueError(f"{path}: expected one .rknn file in the folder, got {listed}")
    name = str(path / "metadata.yaml")
    metadata = read_yaml(name)
    labels = names_of_yaml(metadata.get("names"), name)
    task = metadata.get("task")
    if not isinstance(task, str) or task not in TASKS:
        raise ValueError(f"{name}: expected task: one of {', '.join(TASKS)}, got {task!r}")
    return ExportFolder(models[0], labels, task, _image_size(metadata, name))


def _image_size(metadata: FlatYaml, name: str) -> tuple[int, int] | None:
    value = metadata.get("imgsz")
    if value is None:
        return None
    sizes = value if isinstance(value, list) else [value]
    if len(sizes) not in (1, 2) or not all(
        isinstance(size, str) and re.fullmatch("[1-9][0-9]{0,4}", size) for size in sizes
    ):
        raise ValueError(f"{name}: expected imgsz: height and width, got {value!r}")
    height, width = int(str(sizes[0])), int(str(sizes[-1]))
    return height, width
