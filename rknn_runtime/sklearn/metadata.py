"""The metadata of a converted estimator: classes, scaling, task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.errors import InvalidModelError

KEY = "sklearn"
TASKS = ("binary", "multiclass", "multilabel", "regression")
#: The function after the last layer, which the CPU computes. "none": the network has it.
ACTIVATIONS = ("identity", "logistic", "softmax", "exp", "none")
#: Kinds of NumPy dtypes that classes may have: bool, integers, floats, texts, objects.
_CLASS_KINDS = "biufUO"


@dataclass(frozen=True)
class Scaling:
    """``(value - offset) / scale``, one of each per column."""

    offset: Array
    scale: Array

    def apply(self, values: Array) -> Array:
        """Scale rows."""
        return (values - self.offset) / self.scale

    def undo(self, values: Array) -> Array:
        """Give rows their own units back."""
        return values * self.scale + self.offset


@dataclass(frozen=True)
class Metadata:
    """The facts about an estimator that the board needs."""

    #: One of `TASKS`.
    task: str
    #: One of `ACTIVATIONS`.
    activation: str
    #: None for a regressor.
    classes: Array | None = None
    #: Scaling of the features before the network; None: none.
    features: Scaling | None = None
    #: Scaling of the targets in the network's output; None: none.
    targets: Scaling | None = None

    def to_json(self) -> str:
        """Return it as text; TypeError if the classes are neither numbers nor texts."""
        said: dict[str, Any] = {"task": self.task, "activation": self.activation}
        if self.classes is not None:
            said["classes"] = _class_names(self.classes)
            said["dtype"] = self.classes.dtype.str
        for name in ("features", "targets"):
            scaling = getattr(self, name)
            if scaling is not None:
                said[name] = [_numbers(scaling.offset), _numbers(scaling.scale)]
        return json.dumps({KEY: said}, ensure_ascii=False, separators=(",", ":"))


def metadata_of(text: str, where: str, n_features: int, n_outputs: int) -> Metadata | None:
    """Read a text of `Metadata.to_json` or of the ``scirknn`` package; None for something else."""
    try:
        said = json.loads(text)
    except ValueError:
        return None
    if not isinstance(said, Mapping):
        return None
    try:
        if KEY in said:
            return _read(said[KEY], n_features, n_outputs)
        if "mode" in said:
            return _of_scirknn(said, n_outputs)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InvalidModelError(f"{where}: no metadata of an estimator: {error!r}") from None
    return None


def _read(said: Mapping[str, Any], n_features: int, n_outputs: int) -> Metadata:
    task, activation = _known("task", said["task"], TASKS), said["activation"]
    _known("activation", activation, ACTIVATIONS)
    classes = None
    if task != "regression":
        classes = _classes(said["classes"], np.dtype(str(said["dtype"])))
        _check_count(len(classes), n_outputs, task)
    return Metadata(
        task,
        activation,
        classes,
        _scaling(said.get("features"), n_features),
        _scaling(said.get("targets"), n_outputs),
    )


def _of_scirknn(said: Mapping[str, Any], n_outputs: int) -> Metadata:
    """Read the JSON file of ``scirknn``, whose networks end with the activation."""
    mode = _known("mode", said["mode"], ("classifier", "regressor"))
    if mode == "regressor":
        return Metadata("regression", "none")
    classes = np.array(said["classes"])
    if classes.dtype.kind not in _CLASS_KINDS or classes.ndim != 1:
        raise ValueError(f"classes: expected a list of numbers or texts, got {said['classes']!r}")
    task = "binary" if n_outputs == 1 else "multiclass"
    _check_count(len(classes), n_outputs, task)
    return Metadata(task, "none", classes)


def _known(name: str, given: Any, known: Sequence[str]) -> str:
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name}: expected one of {', '.join(known)}, got {given!r}")
    return given


def _check_count(n_classes: int, n_outputs: int, task: str) -> None:
    expected = 2 if task == "binary" else n_outputs
    if n_classes != expected or (task == "binary" and n_outputs != 1):
        raise ValueError(f"classes: {n_classes} for {n_outputs} outputs of a {task} network")


def _class_names(classes: Array) -> list[Any]:
    if classes.dtype.kind not in _CLASS_KINDS:
        raise TypeError(f"classes: expected numbers or texts, got dtype {classes.dtype}")
    names: list[Any] = classes.tolist()
    for name in names:
        if not isinstance(name, (bool, int, float, str)):
            raise TypeError(f"classes: expected numbers or texts, got {name!r}")
    return names


def _classes(names: Any, dtype: np.dtype[Any]) -> Array:
    if not isinstance(names, list):
        raise ValueError(f"classes: expected a list, got {names!r}")
    if dtype.kind not in _CLASS_KINDS:
        raise ValueError(f"dtype: expected one of numbers or texts, got {dtype}")
    classes = np.array(names, dtype)
    if classes.tolist() != names:
        raise ValueError(f"classes: {names!r} are not of dtype {dtype}")
    return classes


def _numbers(values: Array) -> list[float]:
    """Return numbers with the fewest digits that float32 distinguishes."""
    return [float(str(value)) for value in values.astype(np.float32)]


def _scaling(said: Any, count: int) -> Scaling | None:
    if said is None:
        return None
    offset, scale = (np.array(numbers, np.float64) for numbers in said)
    if offset.shape != (count,) or scale.shape != (count,):
        raise ValueError(f"expected {count} offsets and scales, got {offset.shape}, {scale.shape}")
    if not (np.isfinite(offset).all() and np.isfinite(scale).all() and scale.all()):
        raise ValueError(f"expected finite offsets and scales, none of 0, got {said!r}")
    return Scaling(offset, scale)
