"""Which class does which task, and which one reads a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rknn_runtime.tensor import TensorAttr
    from rknn_runtime.vision.heads.outputs import Outputs, Size
    from rknn_runtime.vision.labels import Labels


#: Classes of ImageNet, without and with a background class. Other numbers say nothing, since
#: embeddings come in all sizes.
_IMAGENET = (1000, 1001)


class Task(NamedTuple):
    """A class of this package, and the options of commands for it."""

    name: str
    #: In sentences.
    what: str
    #: Parameter of the class -> option of ``rknn-runtime detect``.
    options: Mapping[str, str]
    #: Whether its results can be drawn.
    draws: bool = True

    def load(self) -> Any:
        """Import the class."""
        from rknn_runtime import vision

        return getattr(vision, self.name)


#: By the names that a file's custom string and ``--task`` have.
TASKS: dict[str, Task] = {
    "detect": Task(
        "Detector", "a model that detects",
        {"conf_threshold": "conf", "iou_threshold": "iou", "head": "head"},
    ),
    "classify": Task("Classifier", "a classifier", {"top_k": "top"}),
    "semantic": Task("Segmenter", "a segmenter", {"threshold": "conf"}),
    "map": Task("MapEstimator", "a map of values", {}),
    "embed": Task("Embedder", "an embedder", {}, draws=False),
    "keypoints": Task("PoseEstimator", "a pose estimator", {}),
    "text-detection": Task("TextDetector", "a text detector", {"box_threshold": "conf"}),
    "text-recognition": Task("TextRecognizer", "a text recognizer", {}),
    "text": Task("TextReader", "a text reader", {"conf_threshold": "conf"}),
}  # fmt: skip


def find_task(
    outputs: Outputs,
    size: Size,
    facts: Mapping[str, Any],
    operators: Mapping[str, int] | None = None,
) -> str | None:
    """Find the task of a model with one image input of a size; None: the outputs do not tell.

    `facts` is what the custom string says, as from `facts_of`.
    """
    from rknn_runtime.vision.heads.classification import ClassificationDecoder
    from rknn_runtime.vision.heads.find import find_head
    from rknn_runtime.vision.heads.keypoints import read_keypoints
    from rknn_runtime.vision.heads.outputs import channels_first
    from rknn_runtime.vision.heads.scene import read_scene

    said = facts.get("task")
    if said in TASKS:
        return str(said)
    if "characters" in facts:
        return "text-recognition"
    labels = facts.get("labels")
    try:
        find_head(outputs, size, facts.get("head", "auto"), None if labels is None else len(labels))
    except ValueError:
        pass
    else:
        return "detect"
    if len(outputs) == 1:
        try:
            ClassificationDecoder(outputs[0])
        except ValueError:
            pass
        else:
            n_labels = None if labels is None else len(labels)
            return "classify" if are_scores(outputs[0], n_labels, operators or {}) else None
    if len(outputs) == 2 and not isinstance(read_keypoints(channels_first(outputs), size), str):
        return "keypoints"
    form = read_scene(channels_first(outputs), size)
    if isinstance(form, str) or form.channels is None:
        return None if isinstance(form, str) else "semantic"
    return "semantic" if labels is not None and len(labels) == form.channels > 1 else None


def are_scores(output: TensorAttr, n_labels: int | None, operators: Mapping[str, int]) -> bool:
    """Tell scores of classes from an embedding, landmarks or other numbers in one vector.

    Signs of scores are as many labels as numbers, one softmax, ImageNet's number of classes, or
    integers that stand for 0..1. Several softmaxes belong to the layers of a transformer.
    """
    from rknn_runtime.vision.heads.outputs import representable

    numbers = max(output.shape)
    if n_labels is not None:
        return n_labels == numbers
    softmaxes = sum(n for name, n in operators.items() if "softmax" in name.lower())
    lowest, highest = representable(output)
    is_probability = abs(lowest) <= 0.01 and abs(highest - 1) <= 0.01
    return softmaxes == 1 or numbers in _IMAGENET or is_probability


def possible_tasks(outputs: Outputs, size: Size) -> tuple[str, ...]:
    """Return tasks whose outputs look like these, where `find_task` cannot decide."""
    from rknn_runtime.vision.heads.keypoints import read_keypoints
    from rknn_runtime.vision.heads.outputs import channels_first
    from rknn_runtime.vision.heads.scene import MOST_CLASSES, read_scene
    from rknn_runtime.vision.heads.text import read_line

    outputs = channels_first(outputs)
    if len(outputs) == 1 and math.prod(outputs[0].shape) == max(outputs[0].shape, default=0) > 1:
        return ("classify", "embed")
    form = read_scene(outputs, size)
    if isinstance(form, str):
        is_line = size[1] >= 2 * size[0] and len(outputs) == 1
        is_read = is_line and not isinstance(read_line(outputs[0]), str)
        return ("text-recognition",) if is_read else ()
    if form.channels == 1:
        return ("semantic", "map", "text-detection")
    names = ("semantic",) if (form.channels or 1) <= MOST_CLASSES else ()
    has_maps = names and form.channels and not isinstance(read_keypoints(outputs, size), str)
    return (*names, "keypoints") if has_maps else names


def task_of(instance: object) -> Task:
    """Return the task that an object's class does."""
    return next(task for task in TASKS.values() if isinstance(instance, task.load()))


def as_dict(result: Any, labels: Labels | None) -> dict[str, Any]:
    """Return a result of any task as plain values, ready for JSON."""
    if hasattr(result, "to_dict"):
        values: dict[str, Any] = result.to_dict(labels)
        return values
    from rknn_runtime.vision.decimals import doubles

    return {"embedding": doubles(result).tolist()}
