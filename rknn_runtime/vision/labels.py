"""Names of classes, and the files that hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np

from rknn_runtime._files import read_file

#: By position, or by class number.
Labels = Union[Sequence[str], Mapping[int, str]]

_COCO = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,"
    "backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,"
    "baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,"
    "knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,"
    "chair,couch,potted plant,bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,"
    "cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear,"
    "hair drier,toothbrush"
)
#: The 80 classes of COCO's detection task, in the order that models trained on it use.
COCO_NAMES: tuple[str, ...] = tuple(_COCO.split(","))
#: The ``category_id`` of each class in COCO's annotations: 1 to 90, ten of them unused.
COCO_IDS: tuple[int, ...] = tuple(
    number for number in range(1, 91) if number not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
)
_MAX_BYTES = 1 << 20


def names_of(labels: Labels, class_ids: Sequence[int]) -> list[str]:
    """Return the names of classes."""
    is_mapping = isinstance(labels, Mapping)
    # A str is a sequence of str too, but never meant as one.
    if isinstance(labels, (str, bytes)) or not (
        is_mapping or isinstance(labels, (Sequence, np.ndarray))
    ):
        raise TypeError(
            f"labels: expected a sequence or a mapping of names, got {type(labels).__name__}"
        )
    names = []
    for class_id in class_ids:
        # A sequence would take -1 for its last element.
        if class_id not in labels if is_mapping else not 0 <= class_id < len(labels):
            raise IndexError(
                f"labels: expected a name for class {class_id}, got {len(labels)} names"
            )
        name = labels[class_id]
        if not isinstance(name, str):
            raise TypeError(
                f"labels: expected a str for class {class_id}, got {type(name).__name__}"
            )
        names.append(name)
    return names


def read_labels(source: str | os.PathLike[str]) -> Labels:
    """Return the class names in a file.

    Args:
        source: ``"coco"`` for the 80 classes of COCO, or a UTF-8 file: ``.txt`` or ``.names`` with
            one name per line in the order of the classes; ``.yaml`` or ``.yml`` with ``names``, as
            in Ultralytics' data sets and exports; ``.json`` with a list, an object that maps
            class numbers to names, or either of them as ``labels``.

    Returns:
        A list, or a dict if the file numbers the names.
    """
    if source == "coco":
        return list(COCO_NAMES)
    name = os.fsdecode(source)
    ending = os.path.splitext(name)[1].lower()  # noqa: PTH122 - pathlib is slow to import
    if ending in (".yaml", ".yml"):
        return names_in(read_yaml(name).get("names"), name, "'names'")
    if ending == ".json":
        import json

        try:
            content = json.loads(_text(name))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}: expected JSON, got {error}") from None
        if isinstance(content, dict) and "labels" in content:
            content = content["labels"]
        return names_in(content, name, "the file or its 'labels'")
    if ending not in (".txt", ".names"):
        raise ValueError(
            f'labels: expected "coco" or a .txt, .names, .yaml, .yml or .json file, got {name!r}'
        )
    lines = [line.strip() for line in _text(name).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return _without_gaps(lines, f"{name}: expected a name")


def _without_gaps(lines: list[str], wanted: str) -> list[str]:
    if "" in lines or not lines:
        place = f"an empty line {lines.index('') + 1}" if lines else "none"
        raise ValueError(f"{wanted} in each line, got {place}")
    return lines


def refuse_labels(labels: object) -> None:
    """Raise for labels of a task that has no classes."""
    if labels is not None:
        raise ValueError(f"labels: expected None, as the results have no classes, got {labels!r}")


def read_characters(source: str | os.PathLike[str]) -> list[str]:
    """Return the lines of a file of characters, such as PaddleOCR's ``ppocr_keys_v1.txt``.

    It is a UTF-8 file ``.txt``; a line may be a space.
    """
    name = os.fsdecode(source)
    if not name.lower().endswith(".txt"):
        raise ValueError(
            f"characters: expected a .txt file with one per line, or a list of them, got {name!r}"
        )
    lines = _text(name).replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return _without_gaps(lines, f"{name}: expected a character")


def read_yaml(name: str) -> dict[Any, Any]:
    """Read the top-level keys of a YAML file; scalars stay text: "no" is a name, not False."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML files need PyYAML: pip install PyYAML") from error
    try:
        content = yaml.load(_text(name), yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, TypeError) as error:  # TypeError: an unhashable key
        raise ValueError(f"{name}: expected YAML, got {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{name}: expected keys and values, got {type(content).__name__}")
    return content


def names_in(value: object, file: str, place: str) -> Labels:
    """Return class names from the parsed content of a file."""
    names = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        kind = "nothing" if value is None or value == [] else type(value).__name__
        raise ValueError(f"{file}: expected a list or a map of names in {place}, got {kind}")
    if not isinstance(value, dict):
        return names
    for key in value:
        if not (isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 10):
            raise ValueError(f"{file}: expected class numbers in {place}, got {key!r}")
    return {int(key): label for key, label in value.items()}


def _text(name: str) -> str:
    try:
        return read_file(name, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: expected text in UTF-8, got {error}") from None
