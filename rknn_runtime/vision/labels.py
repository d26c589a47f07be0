"""Names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np

__all__ = ["Labels", "names_of"]

#: By position, or by class number.
Labels = Union[Sequence[str], Mapping[int, str]]


def names_of(labels: Labels, class_ids: Sequence[int]) -> list[str]:
    """Return the names of classes.

    Raises:
        IndexError: A class has none.
        TypeError: `labels` is neither a sequence nor a mapping, or a name is no str.
    """
    is_mapping = isinstance(labels, Mapping)
    # A str is a sequence of names, too, but never meant so.
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
