"""Scikit-learn's multi-layer perceptrons on the NPU.

`convert` makes a ``.rknn`` file of a fitted one, on a PC with the vendor's toolkit;
`MLPClassifier` and `MLPRegressor` take its place on the board, where they need NumPy alone.
"""

from __future__ import annotations

from rknn_runtime.sklearn.conversion import convert
from rknn_runtime.sklearn.models import MLPClassifier, MLPRegressor

__all__ = ["MLPClassifier", "MLPRegressor", "convert"]
