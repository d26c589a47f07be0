"""Compare converted estimators with scikit-learn: the table of docs/scikit-learn.md.

    python tools/measure_sklearn.py

Fits perceptrons to the data sets of scikit-learn, converts them for RK3588 in float16 and int8,
runs them on the emulated NPU, and prints a row for each. Needs scikit-learn, onnx and
rknn-toolkit2. The table is at the end, since the toolkit also prints.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rknn_runtime import sklearn as npu

LOADERS = {
    "iris": load_iris,
    "digits": load_digits,
    "breast cancer": load_breast_cancer,
    "diabetes": load_diabetes,
}
#: Data, hidden layers, activation, and whether features are scaled.
CASES = [
    ("iris", (16, 8), "relu", True),
    ("iris", (16, 8), "tanh", False),
    ("iris", (16, 8), "logistic", False),
    ("digits", (64,), "relu", True),
    ("digits", (64, 32), "tanh", True),
    ("breast cancer", (32,), "relu", True),
    ("breast cancer", (32,), "relu", False),
    ("diabetes", (32, 16), "relu", True),
    ("diabetes", (16,), "tanh", True),
]


def measured(estimator: Any, path: Path, data: list[np.ndarray], quantization: bool) -> list[str]:
    """Convert an estimator, and compare on rows outside of its training."""
    train, test, _, truth = data
    npu.convert(estimator, path, "rk3588", quantization, train)
    is_classifier = hasattr(estimator, "predict_proba")
    kind = npu.MLPClassifier if is_classifier else npu.MLPRegressor
    with kind(path, library="sim") as model:
        predicted, expected = model.predict(test), estimator.predict(test)
        score = f"{model.score(test, truth):.4f}"
        if is_classifier:
            differences = np.abs(model.predict_proba(test) - estimator.predict_proba(test))
            return [score, f"{(predicted == expected).mean():.2%}", f"{differences.max():.4f}"]
        spread = np.ptp(expected)
        return [score, "", f"{np.abs(predicted - expected).max() / spread:.4f}"]


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, layers, activation, is_scaled in CASES:
            X, y = LOADERS[name](return_X_y=True)
            data = train_test_split(X, y, test_size=0.33, random_state=0)
            kind = MLPRegressor if name == "diabetes" else MLPClassifier
            estimator: Any = kind(
                hidden_layer_sizes=layers, activation=activation, random_state=1, max_iter=2000
            )
            if is_scaled:
                estimator = make_pipeline(StandardScaler(), estimator)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                estimator.fit(data[0], data[2])
            what = f"{name}, {activation} {layers}{'' if is_scaled else ', not scaled'}"
            row = [what, f"{estimator.score(data[1], data[3]):.4f}"]
            for quantization in (False, True):
                row += measured(estimator, Path(folder) / "x.rknn", data, quantization)
            rows.append(row)
    for row in rows:
        print("|", " | ".join(row), "|")


if __name__ == "__main__":
    main()
