"""Rows, targets and weights, as scikit-learn takes and refuses them."""

from __future__ import annotations

import numpy as np

from rknn_runtime._arrays import Array

__all__ = ["checked_rows", "checked_targets", "checked_weights"]


def checked_rows(X: object, n_features: int, name: str) -> Array:
    """Return X as ``(n, n_features) float64``.

    Args:
        X: An array, nested lists, a data frame, or a sparse matrix.
        n_features: Columns that it must have.
        name: Of the estimator, for messages.

    Raises:
        TypeError: No numbers.
        ValueError: Not two dimensions, no row, other columns, or numbers that are not finite.
    """
    if hasattr(X, "toarray"):  # scipy.sparse
        X = X.toarray()
    if not isinstance(X, np.ndarray):
        # Refuses rows of different lengths, of which NumPy before 1.24 only warns.
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


def checked_targets(y: object, shape: tuple[int, ...]) -> Array:
    """Return y, of the shape of what is predicted; a column may stand for a row of numbers.

    Raises:
        ValueError: Another shape.
    """
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1 and len(shape) == 1:
        array = array[:, 0]
    if array.shape != shape:
        raise ValueError(f"y: expected shape {shape}, got {array.shape}")
    return array


def checked_weights(weights: object, count: int) -> Array | None:
    """Return weights as ``(count,) float64``.

    Raises:
        TypeError: No numbers.
        ValueError: Not one per row, not finite, negative, or all 0.
    """
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
