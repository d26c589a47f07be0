"""The answers of the vendor's runtimes about models, in files next to them.

``x.json`` holds the answers of librknnmrt 2.3.2 or librknnrt 1.5.2 about ``x.rknn``, and
``x.2.3.2.json`` those of librknnrt 2.3.2. The environment variable ``RKNN_TEST_MODELS`` names a
folder with more of them, where ``librknnrt-2.3.2.jsonl`` may hold one line per model instead. Files
of the vendor's zoo, ``yolox_nano_rk3588.rknn`` and ``.onnx`` and ``bus.jpg``, may be there, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELS = Path(__file__).parent / "data" / "models"
MORE_MODELS = os.environ.get("RKNN_TEST_MODELS")
FOLDERS = [MODELS, *([Path(MORE_MODELS)] if MORE_MODELS else [])]

Fact = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """What one runtime answered about one model."""

    model: Path
    #: Of librknnrt or of librknnmrt, as the model has it.
    version: str
    facts: tuple[Fact, ...]

    def __str__(self) -> str:
        return f"{self.model.stem}-{self.version}"

    def has(self, kind: str) -> bool:
        """Whether this kind of fact was recorded; a runtime refused some models."""
        return any(fact["t"] == kind for fact in self.facts)


def recordings(kind: str, *folders: Path) -> list[Recording]:
    """The recordings with this kind of fact, of the given folders, of all by default."""
    return [
        recording
        for folder in folders or FOLDERS
        for recording in (*_files(folder), *_lines(folder))
        if recording.has(kind)
    ]


def _files(folder: Path) -> Iterator[Recording]:
    for model in sorted(folder.glob("*.rknn")):
        for path in (model.with_suffix(".json"), model.with_suffix(".2.3.2.json")):
            if path.exists():
                told = json.loads(path.read_text(encoding="utf-8"))
                yield Recording(model, told["engine"].split()[1], tuple(told["facts"]))


def _lines(folder: Path) -> Iterator[Recording]:
    path = folder / "librknnrt-2.3.2.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        told = json.loads(line)
        facts = [_attribute(name, fields) for name, fields in told.get("attrs", {}).items()]
        yield Recording(folder / told["model"], "2.3.2", tuple(facts))


def _attribute(name: str, fields: dict[str, Any]) -> Fact:
    """Turn ``"out.native.0"`` and its fields into the fact that a file would have."""
    side, view, index = name.split(".")
    fact = {"t": side, "k": view, "i": int(index), "rc": fields.get("rc", 0)}
    if "dims" in fields:
        fields = {**fields, "size_with_stride": fields["sws"]}
        del fields["sws"]
        fact["a"] = fields
    return fact
