"""From a fitted estimator to a ``.rknn`` file, on a PC."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from rknn_runtime._arrays import Array, as_int
from rknn_runtime._files import replace_file
from rknn_runtime.modelfile.soc import SOCS
from rknn_runtime.sklearn.network import Network, network_of
from rknn_runtime.sklearn.onnx_file import onnx_of
from rknn_runtime.sklearn.toolkit import build

__all__ = ["convert"]

#: The toolkit takes a custom string of less than 1024 bytes.
_MAX_CUSTOM_BYTES = 1023
#: More rows in an inference than any network here needs.
_MAX_BATCH = 1 << 16


def convert(
    estimator: object,
    path: str | os.PathLike[str],
    target: str,
    quantization: bool = False,
    example_input: object = None,
    *,
    batch_size: int = 1,
) -> None:
    """Convert an estimator for `rknn_runtime.sklearn.MLPClassifier` or `MLPRegressor`.

    All layers and hidden activations run on the NPU; scaling, and the logistic function, softmax
    or exponential at the end, are left to the CPU of the board. Its classes and scaling are in
    the file's custom string; where they do not fit, in a file ``path.json`` beside it, which has
    to come along.

    Args:
        estimator: A fitted ``MLPClassifier`` or ``MLPRegressor`` of scikit-learn, or a
            ``Pipeline`` of ``StandardScaler`` and one of them.
        path: Of the file to write; it is replaced when all has succeeded.
        target: The SoC, such as ``"rk3588"``.
        quantization: int8; else float16, which RV1103 and RV1106 cannot.
        example_input: ``(n, n_features)`` rows such as the estimator will get, some hundred of
            them. Needed for int8; in float16, too, they keep features and targets of different
            or great sizes exact.
        batch_size: Rows of one inference; any number can be given to the board's classes.

    Raises:
        ImportError: scikit-learn or onnx is missing; says what to install.
        OSError: The file cannot be written.
        RknnError: The toolkit cannot be installed, or refused.
        TypeError: Another estimator, or an argument of another type.
        ValueError: An estimator that is not fitted, examples that do not fit it, an unknown SoC,
            or a combination that cannot work.
    """
    place = Path(os.fspath(path))
    if not isinstance(target, str):
        raise TypeError(f"target: expected the name of a SoC, got {type(target).__name__}")
    if target not in SOCS:
        raise ValueError(f"target: expected one of {', '.join(SOCS)}, got {target!r}")
    if SOCS[target].mini and not quantization:
        raise ValueError(f"quantization: expected True for {target}, got False: no float16 there")
    if quantization and example_input is None:
        raise ValueError("example_input: expected rows to quantize with, got None")
    batch = as_int(batch_size, "batch_size", 1, _MAX_BATCH)
    network = network_of(estimator, example_input)
    said = network.metadata.to_json()
    fits = len(said.encode()) <= _MAX_CUSTOM_BYTES
    examples = _batches(network, batch) if quantization else None
    with tempfile.TemporaryDirectory(prefix="rknn-sklearn-") as folder:
        onnx = onnx_of(network, batch)
        made = build(onnx, target, said if fits else "", examples, Path(folder))
        replace_file(place, made.read_bytes())
    if not fits:
        replace_file(Path(f"{place}.json"), said.encode())


def _batches(network: Network, batch: int) -> Array:
    """Return the examples as inputs of the network, the last filled up with the first."""
    assert network.examples is not None
    rows = network.examples
    count = -(-len(rows) // batch)
    filled = np.resize(rows, (count * batch, rows.shape[1]))
    return filled.reshape(count, batch, rows.shape[1])
