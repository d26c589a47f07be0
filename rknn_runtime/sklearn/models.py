"""The board's side: classes with the methods of scikit-learn's, on a converted model."""

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
from rknn_runtime.sklearn.arguments import checked_rows, checked_targets, checked_weights
from rknn_runtime.sklearn.metadata import Metadata, metadata_of

__all__ = ["MLPClassifier", "MLPRegressor"]

_P = TypeVar("_P", bound="_Perceptron")
#: No honest file of metadata is bigger.
_MAX_JSON_BYTES = 1 << 24


class _Perceptron:
    """A converted network and what its file says of it."""

    _tasks: tuple[str, ...] = ()

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        library: str | os.PathLike[str] | Library | None = None,
        core_mask: CoreMask | None = None,
    ) -> None:
        """Load a model that `convert` made, or the ``scirknn`` package.

        Args:
            model: Path of the ``.rknn`` file. Where its metadata did not fit into it, they are
                in the file of the same name with ``.json`` after it.
            library: As for `rknn_runtime.Model`.
            core_mask: As for `rknn_runtime.Model`.

        Raises:
            InvalidModelError: No model, none that this machine runs, or none of such an
                estimator.
            OSError: A file cannot be read.
            RknnError: The runtime refused.
            TypeError: An argument of another type.
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
        found = self._metadata_in(self.model.custom_string, f"{path}: its custom string")
        if found is None and beside.exists():
            text = read_file(beside, _MAX_JSON_BYTES).decode("utf-8", "replace")
            found = self._metadata_in(text, str(beside))
        if found is None:
            raise InvalidModelError(
                f"{path}: neither its custom string nor {beside} says that it was an estimator "
                "of scikit-learn: convert it with rknn_runtime.sklearn.convert"
            )
        if found.task not in self._tasks:
            other = "MLPRegressor" if found.task == "regression" else "MLPClassifier"
            raise InvalidModelError(f"{path}: this was an {other}, not an {type(self).__name__}")
        return found

    def _metadata_in(self, text: str, where: str) -> Metadata | None:
        return metadata_of(text, where, self.n_features_in_, self.n_outputs_)

    @property
    def out_activation_(self) -> str:
        """The function of the output layer, as in scikit-learn; "none": inside of the network."""
        return self._metadata.activation

    def _raw(self, X: object) -> Array:
        """Run all rows: ``(n, n_outputs) float64`` of the last layer, before its activation."""
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
    """In place of ``sklearn.neural_network.MLPClassifier``, fitted and converted.

    X is what scikit-learn takes: rows of ``n_features_in_`` numbers as an array, nested lists or
    a sparse matrix, any number of rows. As there, a row of its own is ``[row]``.

    Attributes:
        classes_: ``(n_classes,)`` of the dtype that they had.
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
            ClosedError: The model is closed.
            OverflowError: A number left the range of float16.
            RknnStatusError: The runtime failed.
            ValueError: No rows of so many finite numbers.
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
        """Return the probabilities of every class.

        Returns:
            ``(n, n_classes) float64``, in the order of ``classes_``.

        Raises:
            ClosedError: The model is closed.
            OverflowError: A number left the range of float16.
            RknnStatusError: The runtime failed.
            ValueError: No rows of so many finite numbers.
        """
        if self.out_activation_ != "none":
            return np.exp(self.predict_log_proba(X))
        values = self._raw(X)
        return np.hstack([1 - values, values]) if self._metadata.task == "binary" else values

    def predict_log_proba(self, X: object) -> Array:
        """Return the logarithms of `predict_proba`, also of probabilities that round to 0."""
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
        """Return the mean accuracy; of a multi-label classifier, of rows that are right in all.

        Args:
            X: The rows.
            y: Their classes, as `predict` gives them.
            sample_weight: One weight per row; None: all alike.

        Raises:
            ValueError: ``y`` or the weights are not one per row; all other exceptions as of
                `predict`.
        """
        predicted = self.predict(X)
        truth = checked_targets(y, predicted.shape)
        # One by one, as NumPy compares arrays of texts and numbers in a way of each version.
        pairs = zip(predicted.tolist(), truth.tolist())
        right = np.array([said == true for said, true in pairs], np.float64)
        return float(np.average(right, weights=checked_weights(sample_weight, len(right))))


class MLPRegressor(_Perceptron):
    """In place of ``sklearn.neural_network.MLPRegressor``, fitted and converted.

    X is what scikit-learn takes: rows of ``n_features_in_`` numbers as an array, nested lists or
    a sparse matrix, any number of rows. As there, a row of its own is ``[row]``.

    Attributes:
        model: The `Model`.
        n_features_in_: Columns of X.
        n_outputs_: Numbers that are predicted for a row.
    """

    _tasks = ("regression",)

    def predict(self, X: object) -> Array:
        """Return what is predicted for every row.

        Returns:
            ``(n,) float64``, or ``(n, n_outputs)`` where there are several.

        Raises:
            ClosedError: The model is closed.
            OverflowError: A number left the range of float16.
            RknnStatusError: The runtime failed.
            ValueError: No rows of so many finite numbers.
        """
        values = self._raw(X)
        if self.out_activation_ == "exp":
            values = np.exp(values)
        return values[:, 0] if self.n_outputs_ == 1 else values

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """Return the coefficient of determination R2, the mean of those of several outputs.

        ``1 - sum((y - predicted)**2) / sum((y - mean(y))**2)``; of a ``y`` that is all the same, 1
        where it is met exactly, else 0, as in scikit-learn.

        Args:
            X: The rows.
            y: Their targets, as `predict` gives them.
            sample_weight: One weight per row; None: all alike.

        Raises:
            ValueError: ``y`` or the weights are not one per row; all other exceptions as of
                `predict`.
        """
        predicted = self.predict(X)
        truth = np.asarray(checked_targets(y, predicted.shape), np.float64)
        truth, predicted = (a.reshape(len(predicted), -1) for a in (truth, predicted))
        weights = checked_weights(sample_weight, len(truth))
        weights = np.ones(len(truth)) if weights is None else weights
        missed = weights @ (truth - predicted) ** 2
        spread = weights @ (truth - np.average(truth, axis=0, weights=weights)) ** 2
        scores = np.where(missed == 0, 1.0, 0.0)
        np.divide(missed, spread, out=missed, where=spread != 0)
        return float(np.where(spread != 0, 1 - missed, scores).mean())
