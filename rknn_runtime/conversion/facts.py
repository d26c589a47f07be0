"""What the network's own file says, and the custom string that is made of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from rknn_runtime.conversion.head import CutHead
from rknn_runtime.vision.labels import Labels

__all__ = ["MAX_CUSTOM_BYTES", "custom_string", "exported_facts"]

#: The toolkit takes less than 1024.
MAX_CUSTOM_BYTES = 1023


def exported_facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Read ``names`` and ``task`` as Ultralytics writes them beside the graph.

    Returns:
        ``labels`` (a list) and ``task``, as far as they are there.
    """
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
    quantized: bool,
) -> tuple[str, bool]:
    """Write what `Detector` needs to know.

    Returns:
        JSON, and whether it has the labels: too many do not fit.
    """
    said: dict[str, Any] = {}
    if head is not None:
        options = dict(head.options)
        if head.logits and not quantized:  # integers tell by their range
            options["logits"] = True
        said["head"] = head.name
        if options:
            said["options"] = options
    if task is not None:
        said["task"] = task
    if size is not None:
        said["input"] = {"width": size[1], "height": size[0], "color": color}
    if not said and labels is None:
        return "", True
    if labels is not None:
        numbered = labels if isinstance(labels, dict) else list(labels)
        whole = _json({"labels": numbered, **said})
        if len(whole.encode()) <= MAX_CUSTOM_BYTES:
            return whole, True
    return _json(said), labels is None


def _json(said: dict[str, Any]) -> str:
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)
