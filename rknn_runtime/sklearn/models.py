"""The classes for the board, with scikit-learn's methods, on a converted model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import numpy as np

from rknn_runtime._arrays import Array
from rknn_runtime._files import read_file
from rknn_runtime.enums import CoreMask
from rknn_runtime.errors import InvalidModelError
from rknn_runtime.npu.library import Library
from rknn_runtime.npu.model import Model
from rknn_runtime.sklearn.metadata import Metadata, metadata_of

_P = TypeVar("_P", bound="_Perceptron")
#: No real file of metadata is larger.
_MAX_JSON_BYTES = 1 << 24


class _Perceptron:
    """A converted network and the metadata in its file."""

    _tasks: tuple[str, ...] = ()

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        library: str | os.PathLike[str] | Library | None = None,
        core_mask: CoreMask | None = None,
    ) -> None:
        """Load a model made by `convert` or by the ``scirknn`` package.

        Args:
            model: Path of the ``.rknn`` file. Metadata that did not fit into it is in the file of
                the same name with ``.json`` appended.
            library: As for `rknn_runtime.Model`.
            core_mask: As for `rknn_runtime.Model`.

        Raises:
            InvalidModelError: The file is not a model for this machine, or not of such an
                estimator.
            OSError: A file cannot be read.
            RknnError: The runtime refused.
        """
        if not isinstance(model, (str, os.PathLike)):
            raise TypeError(f"model: expected a path, got {type(model).__name__}")
        self.model = Model(model, library=library, core_mask=core_mask)
        try:
            self._batch, self.n_features_in_, self.n_outputs_ = self._sizes(model)
            self._metadata = self._read_metadata(Path(model))
        except BaseException:
            self.model.close()
            raise

    def _sizes(self, path: object) -> tuple[int, int, int]:
        shapes = [attr.shape for attr in (*self.model.inputs, *self.model.outputs)]
        if len(shapes) != 2 or any(len(shape) != 2 for shape in shapes):
            raise InvalidModelError(
                f"{path}: expected a network with one input and one output of two dimensions, "
                f"got {self.model!r}"
            )
        (batch, n_features), (n_rows, n_outputs) = shapes
        if batch != n_rows:
            raise InvalidModelError(f"{path}: {batch} rows become {n_rows}")
        return batch, n_features, n_outputs

    def _read_metadata(self, path: Path) -> Metadata:
        beside = Path(f"{path}.json")
        sizes = self.n_features_in_, self.n_outputs_
        found = metadata_of(self.model.custom_string, f"{path}: its custom string", *sizes)
        if found is None and beside.exists():
            text = read_file(beside, _MAX_JSON_BYTES).decode("utf-8", "replace")
            found = metadata_of(text, str(beside), *sizes)
        if found is None:
            raise InvalidModelError(
                f"{path}: neither its custom string nor {beside} says that it was an estimator "
                "of scikit-learn: convert it with rknn_runtime.sklearn.convert"
            )
        if found.task not in self._tasks:
            other = "MLPRegressor" if found.task == "regression" else "MLPClassifier"
            raise InvalidModelError(f"{path}: this was an {other}, not an {type(self).__name__}")
        return found

    @property
    def out_activation_(self) -> str:
        """The function of the output layer, as in scikit-learn; "none": the network has it."""
        return self._metadata.activation

    def _raw(self, X: object) -> Array:
        """Return ``(n, n_outputs) float64`` of the last layer for all rows, before activation."""
        rows = checked_rows(X, self.n_features_in_, type(self).__name__)
        metadata, batch = self._metadata, self._batch
        if metadata.features is not None:
            rows = metadata.features.apply(rows)
        count = len(rows)
        padded = np.zeros((-(-count // batch) * batch, self.n_features_in_), np.float32)
        with np.errstate(over="ignore"):
            padded[:count] = rows
        results = np.empty((len(padded), self.n_outputs_), np.float32)
        for start in range(0, len(padded), batch):
            part = slice(start, start + batch)
            self.model(padded[part], out=[results[part]])
        values = results[:count].astype(np.float64)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise OverflowError(
                f"X: row {row} gives numbers that float16 cannot hold on their way through the "
                "network: scale the features, or convert it with example_input"
            )
        return values if metadata.targets is None else metadata.targets.undo(values)

    def close(self) -> None:
        """Release the model; idempotent."""
        self.model.close()

    def __enter__(self: _P) -> _P:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.n_features_in_} -> {self.n_outputs_}>"


class MLPClassifier(_Perceptron):
    """A fitted and converted ``sklearn.neural_network.MLPClassifier``.

    X is as for scikit-learn: any number of rows of ``n_features_in_`` numbers, as an array, nested
    lists or a sparse matrix. A single row is ``[row]``.

    Attributes:
        classes_: ``(n_classes,)`` with their dtype.
        model: The `Model`.
        n_features_in_: Columns of X.
        n_outputs_: Neurons of the output layer.
    """

    _tasks = ("binary", "multiclass", "multilabel")

    @property
    def classes_(self) -> Array:
        """The classes, a copy."""
        assert self._metadata.classes is not None
        return self._metadata.classes.copy()

    def predict(self, X: object) -> Array:
        """Return the class of every row.

        Returns:
            ``(n,)`` of the dtype of ``classes_``; ``(n, n_classes) int64`` of 0 and 1 for a
            multi-label classifier.

        Raises:
            OverflowError: A number left the range of float16.
            ValueError: X is not rows of ``n_features_in_`` finite numbers.
        """
        probabilities = self.predict_proba(X)
        if self._metadata.task == "multilabel":
            return np.asarray(probabilities > 0.5, np.int64)
        if self._metadata.task == "binary":
            chosen = np.asarray(probabilities[:, 1] > 0.5, np.intp)
        else:
            chosen = probabilities.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: object) -> Array:
        """Return the probabilities of every class; exceptions as for `predict`.

        Returns:
            ``(n, n_classes) float64``, in the order of ``classes_``.
        """
        if self.out_activation_ != "none":
            return np.exp(self.predict_log_proba(X))
        values = self._raw(X)
        return np.hstack([1 - values, values]) if self._metadata.task == "binary" else values

    def predict_log_proba(self, X: object) -> Array:
        """Return the logarithms of `predict_proba`, even of probabilities that round to 0."""
        if self.out_activation_ == "none":
            with np.errstate(divide="ignore"):
                return np.log(self.predict_proba(X))
        values = self._raw(X)
        if self.out_activation_ == "softmax":
            values = values - values.max(axis=1, keepdims=True)
            sums = np.exp(values).sum(axis=1, keepdims=True)
            return np.asarray(values - np.log(sums))
        if self._metadata.task == "binary":
            values = np.hstack([-values, values])
        return np.asarray(-np.logaddexp(0, -values))

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the mean accuracy; for multi-label, the share of rows with all labels right.

        Args:
            X: The rows.
            y: Their classes, as from `predict`.
            sample_weight: One weight per row; None: equal weights.
        """
        predicted = self.predict(X)
        truth = _checked_targets(y, predicted.shape)
        # One by one: NumPy's versions compare arrays of texts and numbers differently.
        pairs = zip(predicted.tolist(), truth.tolist())
        right = np.array([said == true for said, true in pairs], np.float64)
        return float(np.average(right, weights=_checked_weights(sample_weight, len(right))))


class MLPRegressor(_Perceptron):
    """A fitted and converted ``sklearn.neural_network.MLPRegressor``.

    X is as for scikit-learn: any number of rows of ``n_features_in_`` numbers, as an array, nested
    lists or a sparse matrix. A single row is ``[row]``.

    Attributes:
        model: The `Model`.
        n_features_in_: Columns of X.
        n_outputs_: Numbers that are predicted for a row.
    """

    _tasks = ("regression",)

    def predict(self, X: object) -> Array:
        """Return the predictions for every row; exceptions as for `MLPClassifier.predict`.

        Returns:
            ``(n,) float64``, or ``(n, n_outputs)`` for several outputs.
        """
        values = self._raw(X)
        if self.out_activation_ == "exp":
            values = np.exp(values)
        return values[:, 0] if self.n_outputs_ == 1 else values

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the coefficient of determination R2, averaged over the outputs.

        ``1 - sum((y - predicted)**2) / sum((y - mean(y))**2)``. As in scikit-learn, a constant
        ``y`` gives 1 if it is predicted exactly, otherwise 0.

        Args:
            X: The rows.
            y: Their targets, as from `predict`.
            sample_weight: One weight per row; None: equal weights.
        """
        predicted = self.predict(X)
        truth = np.asarray(_checked_targets(y, predicted.shape), np.float64)
        truth, predicted = (a.reshape(len(predicted), -1) for a in (truth, predicted))
        weights = _checked_weights(sample_weight, len(truth))
        weights = np.ones(len(truth)) if weights is None else weights
        missed = weights @ (truth - predicted) ** 2
        spread = weights @ (truth - np.average(truth, axis=0, weights=weights)) ** 2
        scores = np.where(missed == 0, 1.0, 0.0)
        np.divide(missed, spread, out=missed, where=spread != 0)
        return float(np.where(spread != 0, 1 - missed, scores).mean())


def checked_rows(X: object, n_features: int, name: str) -> Array:
    """Return X as ``(n, n_features) float64``."""
    if hasattr(X, "toarray"):  # scipy.sparse
        X = X.toarray()
    if not isinstance(X, np.ndarray):
        # Refuses rows of different lengths; NumPy before 1.24 only warns.
        np.asarray(X, np.float64)
    array = np.asarray(X)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"X: expected numbers, got dtype {array.dtype}")
    rows = array.astype(np.float64)
    if rows.ndim != 2:
        advice = "; a single row is X.reshape(1, -1)" if rows.ndim == 1 else ""
        raise ValueError(f"X: expected 2 dimensions, got shape {rows.shape}{advice}")
    if rows.shape[1] != n_features:
        raise ValueError(f"X: expected {n_features} features for this {name}, got {rows.shape[1]}")
    if not len(rows):
        raise ValueError("X: expected at least one row, got none")
    if not np.isfinite(rows).all():
        raise ValueError("X: expected finite numbers, got NaN or infinity")
    return rows


def _checked_targets(y: object, shape: tuple[int, ...]) -> Array:
    """Return y in the shape of the predictions; a column of numbers is taken, too."""
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1 and len(shape) == 1:
        array = array[:, 0]
    if array.shape != shape:
        raise ValueError(f"y: expected shape {shape}, got {array.shape}")
    return array


def _checked_weights(weights: object, count: int) -> Array | None:
    """Return weights as ``(count,) float64``: finite, not negative, not all 0."""
    if weights is None:
        return None
    array = np.asarray(weights, np.float64)
    if array.shape != (count,):
        raise ValueError(f"sample_weight: expected shape {(count,)}, got {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.any()):
        raise ValueError(
            f"sample_weight: expected finite numbers of at least 0, some above, got {weights!r}"
        )
    return array
