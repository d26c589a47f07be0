"""Make the converted estimators of tests/data/sklearn, and scikit-learn's answers to some rows.

    python tools/make_sklearn_models.py [FOLDER]

Needs scikit-learn, onnx and the vendor's rknn-toolkit2. Files and answers are always made together,
since each version of scikit-learn fits other numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rknn_runtime.sklearn import convert

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "sklearn"
N_ANSWERS = 40


def estimators() -> Iterator[tuple[str, Any, np.ndarray, np.ndarray, dict[str, Any]]]:
    """Yield name, estimator, rows, targets and arguments of the conversion of each file."""
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (400, 2)) * [1, 200] + [0, 1000]
    inside = np.hypot(points[:, 0], (points[:, 1] - 1000) / 200) < 0.7
    tanh = MLPClassifier(hidden_layer_sizes=(16,), activation="tanh", random_state=0, max_iter=2000)
    scaled = make_pipeline(StandardScaler(), tanh)
    yield "disc", scaled, points, np.where(inside, "in", "out"), {"target": "rk3588"}

    rows = random.normal(size=(400, 5))
    third = np.digitize(rows[:, 0] + rows[:, 1] * rows[:, 2], [-0.5, 0.5]) * 10
    logistic = MLPClassifier(
        hidden_layer_sizes=(24, 12), activation="logistic", random_state=0, max_iter=2000
    )
    int8 = {"quantization": True, "example_input": rows}
    yield "thirds", logistic, rows, third, {"target": "rv1106", **int8}

    labels = np.stack([rows[:, 0] > 0, rows[:, 1] + rows[:, 2] > 0, rows[:, 3] > 1], axis=1)
    relu = MLPClassifier(hidden_layer_sizes=(16,), random_state=0, max_iter=1000)
    options = {"target": "rk3588", "batch_size": 4, **int8}
    yield "labels", relu, rows, labels.astype(int), options

    big = np.stack([1e6 * rows[:, 0] + 2e5, np.sin(rows[:, 1]) + rows[:, 2] ** 2], axis=1)
    options = {"target": "rk3588", "example_input": rows}
    yield (
        "targets",
        _Scaled(hidden_layer_sizes=(32,), random_state=0, max_iter=2000),
        rows,
        big,
        options,
    )


class _Scaled(MLPRegressor):
    """A regressor that learns scaled targets, with the scaling in its last layer."""

    def fit(self, X: Any, y: Any) -> Any:
        offset, scale = y.mean(axis=0), y.std(axis=0)
        super().fit(X, (y - offset) / scale)
        self.coefs_[-1] = self.coefs_[-1] * scale
        self.intercepts_[-1] = self.intercepts_[-1] * scale + offset
        return self


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, estimator, rows, targets, options in estimators():
        estimator.fit(rows, targets)
        convert(estimator, folder / f"{name}.rknn", **options)
        some = rows[:N_ANSWERS]
        answers = {"X": some, "y": targets[:N_ANSWERS], "predict": estimator.predict(some)}
        if hasattr(estimator, "predict_proba"):
            answers["predict_proba"] = estimator.predict_proba(some)
        np.savez_compressed(folder / f"{name}.npz", **answers)


if __name__ == "__main__":
    main()
