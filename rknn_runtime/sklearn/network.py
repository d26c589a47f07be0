"""A fitted estimator of scikit-learn as layers of numbers, and what stays on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime.sklearn.arguments import checked_rows
from rknn_runtime.sklearn.metadata import Metadata, Scaling

__all__ = ["Network", "network_of"]

#: Activations of hidden layers, by scikit-learn's names, and the operators of ONNX.
HIDDEN = {"identity": "", "logistic": "Sigmoid", "relu": "Relu", "tanh": "Tanh"}
_OUTER = ("identity", "logistic", "softmax", "exp")


@dataclass(frozen=True)
class Network:
    """Layers ``rows @ weights + bias``, with one activation between them and none at the end."""

    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    #: A key of `HIDDEN`.
    activation: str
    metadata: Metadata
    #: Rows for the quantization, as the network takes them; None: there are none.
    examples: Array | None = None


def network_of(estimator: Any, example_input: object = None) -> Network:
    """Read a fitted estimator.

    Scaling is done on the CPU, in float64: by the `StandardScaler` of a pipeline, else so that the
    examples have mean 0 and standard deviation 1, which the first layer makes good. Where there
    are examples, a regressor's last layer gives targets that are scaled likewise.

    Args:
        estimator: An ``MLPClassifier`` or ``MLPRegressor`` of scikit-learn, or a ``Pipeline`` of
            ``StandardScaler`` and one of them.
        example_input: Rows as the estimator takes them; None: there are none.

    Raises:
        TypeError: Another estimator.
        ValueError: One that is not fitted, whose numbers float32 cannot hold, or examples that
            do not fit it.
    """
    scaler, perceptron = _parts(estimator)
    weights = [np.array(each, np.float64) for each in perceptron.coefs_]
    biases = [np.array(each, np.float64) for each in perceptron.intercepts_]
    n_features = weights[0].shape[0]
    features = None if scaler is None else _standard(scaler, n_features)
    targets = None
    rows = None
    if example_input is not None:
        rows = checked_rows(example_input, n_features, type(perceptron).__name__)
        scaled = rows if features is None else features.apply(rows)
        if features is None:
            features = _normalising(rows)
            biases[0] = biases[0] + features.offset @ weights[0]
            weights[0] = weights[0] * features.scale[:, None]
            scaled = features.apply(rows)
        if not hasattr(perceptron, "classes_"):
            targets = _normalising(_computed(scaled, weights, biases, perceptron.activation))
            biases[-1] = (biases[-1] - targets.offset) / targets.scale
            weights[-1] = weights[-1] / targets.scale
        rows = scaled.astype(np.float32)
    _check_finite([*weights, *biases])
    return Network(
        tuple(each.astype(np.float32) for each in weights),
        tuple(each.astype(np.float32) for each in biases),
        perceptron.activation,
        _metadata(perceptron, features, targets),
        rows,
    )


def _parts(estimator: Any) -> tuple[Any, Any]:
    """Take a pipeline apart: its scaler, or None, and the perceptron."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = (
        [step for _, step in estimator.steps] if isinstance(estimator, Pipeline) else [estimator]
    )
    steps = [step for step in steps if step is not None and step != "passthrough"]
    names = [type(step).__name__ for step in steps]
    is_known = bool(steps) and isinstance(steps[-1], (MLPClassifier, MLPRegressor))
    if not is_known or len(steps) > 2 or not all(isinstance(s, StandardScaler) for s in steps[:-1]):
        raise TypeError(
            "estimator: expected an MLPClassifier, an MLPRegressor, or a Pipeline of a "
            f"StandardScaler and one of them, got {' and '.join(names) or 'no step'}"
        )
    for step, fitted in zip(steps[::-1], ("coefs_", "scale_")):
        if not hasattr(step, fitted):
            raise ValueError(f"estimator: this {type(step).__name__} is not fitted: fit it first")
    return (steps[0] if len(steps) == 2 else None), steps[-1]


def _standard(scaler: Any, n_features: int) -> Scaling:
    """Read a ``StandardScaler``, which knows the mean also where it does not subtract it."""
    offset = scaler.mean_ if scaler.with_mean else np.zeros(n_features)
    scale = scaler.scale_ if scaler.with_std else np.ones(n_features)
    return _as_written(np.array(offset, np.float64), np.array(scale, np.float64))


def _normalising(rows: Array) -> Scaling:
    scale = rows.std(axis=0)
    return _as_written(rows.mean(axis=0), np.where(scale > 0, scale, 1.0))


def _as_written(offset: Array, scale: Array) -> Scaling:
    """Round as the metadata do, so that the layers make good for just these numbers."""
    offset, scale = (each.astype(np.float32).astype(np.float64) for each in (offset, scale))
    _check_finite([offset, scale])
    return Scaling(offset, np.where(scale != 0, scale, 1.0))


def _computed(rows: Array, weights: list[Array], biases: list[Array], activation: str) -> Array:
    """Return what the last layer gives, before its activation."""
    for weight, bias in zip(weights[:-1], biases[:-1]):
        rows = rows @ weight + bias
        if activation == "logistic":
            rows = np.exp(-np.logaddexp(0, -rows))
        elif activation == "relu":
            rows = np.maximum(rows, 0)
        elif activation == "tanh":
            rows = np.tanh(rows)
    return rows @ weights[-1] + biases[-1]


def _check_finite(arrays: list[Array]) -> None:
    limit = np.finfo(np.float32).max
    if not all((np.abs(array) <= limit).all() for array in arrays):
        raise ValueError("estimator: its numbers are not finite in float32")


def _metadata(perceptron: Any, features: Scaling | None, targets: Scaling | None) -> Metadata:
    if perceptron.activation not in HIDDEN or perceptron.out_activation_ not in _OUTER:
        raise ValueError(
            f"estimator: the activations {perceptron.activation!r} and "
            f"{perceptron.out_activation_!r} are not known"
        )
    classes = getattr(perceptron, "classes_", None)
    if classes is None:
        return Metadata("regression", perceptron.out_activation_, None, features, targets)
    task = "multiclass"
    if perceptron.out_activation_ == "logistic":
        task = "binary" if len(classes) == 2 and perceptron.n_outputs_ == 1 else "multilabel"
    return Metadata(task, perceptron.out_activation_, np.asarray(classes), features, targets)
