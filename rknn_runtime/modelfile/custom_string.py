"""Read labels, head and colour order from the custom string of a model."""

from __future__ import annotations

import re
from typing import Any

#: Of a head's decoder, that a file may state.
_OPTIONS = ("anchors", "logits", "normalized")


def facts_of(custom_string: str) -> dict[str, Any]:
    """Return ``labels``, ``task``, ``head``, ``options`` ... of a custom string.

    It is JSON, ``{"labels": [name, ...], "task": name, "head": name, "options": {"anchors": ...,
    "logits": true}, "characters": text, "input": {"color": "BGR"}}``, all optional, labels also as
    ``{"0": name, ...}``. Anything else in it is left alone.
    """
    if not custom_string:
        return {}
    import json

    try:
        said = json.loads(custom_string)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(said, dict):
        return {}
    facts: dict[str, Any] = {"labels": _labels(said.get("labels"))}
    facts.update({name: said.get(name) for name in ("head", "task", "characters")})
    options = said.get("options")
    if isinstance(options, dict):
        facts["options"] = {name: options[name] for name in _OPTIONS if name in options}
    image = said.get("input")
    if isinstance(image, dict) and image.get("color") in ("RGB", "BGR"):
        facts["color"] = image["color"]
    for name in ("head", "task", "characters"):
        if not isinstance(facts[name], str):
            facts[name] = None
    return {name: fact for name, fact in facts.items() if fact is not None}


def _labels(said: Any) -> list[str] | dict[int, str] | None:
    if isinstance(said, dict) and all(re.fullmatch("[0-9]{1,9}", key) for key in said):
        said = {int(key): name for key, name in said.items()}
    elif not isinstance(said, list):
        return None
    names = list(said.values()) if isinstance(said, dict) else said
    return said if names and all(isinstance(name, str) for name in names) else None
