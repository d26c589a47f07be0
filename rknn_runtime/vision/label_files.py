"""Names of classes from files: a name a line, or the ``names`` of a data set's YAML."""

from __future__ import annotations

import os
import re

from rknn_runtime._files import read_file
from rknn_runtime.vision.coco import COCO_NAMES
from rknn_runtime.vision.flat_yaml import FlatYaml, Value
from rknn_runtime.vision.labels import Labels

__all__ = ["names_of_yaml", "read_labels", "read_yaml"]

MAX_BYTES = 1 << 20


def read_labels(source: str | os.PathLike[str]) -> Labels:
    """Return names of classes.

    Args:
        source: ``"coco"``: the 80 of COCO. Or a file in UTF-8: ``.txt`` or ``.names`` with a name
            a line, in the order of the classes; ``.yaml`` or ``.yml`` with ``names``, as data sets
            of Ultralytics and their exports have it.

    Returns:
        The names: a list, or a dict where the file numbers them.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no such file, or has no names.
    """
    if source == "coco":
        return list(COCO_NAMES)
    name = os.fsdecode(source)
    ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - as _files does without pathlib
    if ending in (".yaml", ".yml"):
        return names_of_yaml(read_yaml(name).get("names"), name)
    if ending not in (".txt", ".names"):
        raise ValueError(
            f'labels: expected "coco" or a file .txt, .names, .yaml or .yml, got {name!r}'
        )
    lines = [line.strip() for line in _text(name).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if "" in lines or not lines:
        place = f"an empty line {lines.index('') + 1}" if lines else "none"
        raise ValueError(f"{name}: expected a name in each line, got {place}")
    return lines


def read_yaml(name: str) -> FlatYaml:
    """Read a small YAML file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no text, or not of the part of YAML that is read here.
    """
    return FlatYaml(_text(name), name)


def names_of_yaml(value: Value | None, name: str) -> Labels:
    """Return the ``names`` of a YAML file.

    Raises:
        ValueError: They are neither a list nor a map from numbers, or there are none.
    """
    if isinstance(value, list) and value:
        return value
    if not isinstance(value, dict) or not value:
        shown = "no such key" if value is None else repr(value)[:60]
        raise ValueError(f"{name}: expected a list or a map behind 'names', got {shown}")
    odd = [key for key in value if not re.fullmatch("[0-9]{1,9}", key)]
    if odd:
        raise ValueError(f"{name}: expected class numbers in 'names', got {odd[0]!r}")
    return {int(key): label for key, label in value.items()}


def _text(name: str) -> str:
    try:
        return read_file(name, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got {error}") from None
